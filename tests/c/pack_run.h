/* pack_run.h -- packing in a test: what was said meanwhile, why it ended, and an interruption on
 * demand. */
#ifndef IG_TEST_PACK_RUN_H
#define IG_TEST_PACK_RUN_H

#include "pack.h"
#include "bytes.h"
#include "pack_fixture.h"
#include "wfile.h"

static struct ig_why why;
static char warnings[4096];
static volatile sig_atomic_t stop;
static uint64_t stop_at, last_done,
    last_total; /* stop_at: bytes from which on it is interrupted; 0: never */

static inline void warn(const char *line)
{
    strncat(warnings, line, sizeof warnings - strlen(warnings) - 2);
    strcat(warnings, "\n");
}

static inline void progress(const char *what, uint64_t done, uint64_t total)
{
    assert_string_equal(what, "pack");
    assert_true(done >= last_done && done <= total);
    last_done = done;
    last_total = total;
    if (stop_at && done >= stop_at) stop = 1;
}

static inline enum ig_err pack(const char *src, const char *out)
{
    const struct ig_pack_job job = {
        .src = src, .seed = 5, .out = out, .cancel = &stop, .progress = progress, .warn = warn
    };
    warnings[0] = '\0';
    last_done = 0;
    stop = 0;
    return ig_pack(&job, &why);
}

static inline void must(enum ig_err err)
{
    if (err) fail_msg("%s", why.text);
}

/* XXH3 of every block: equal when the data sections are. */
static inline void must_equal(const char *a, const char *b)
{
    struct ig_wfile f, g;
    must(ig_wfile_open(&f, a, 0, &why));
    must(ig_wfile_open(&g, b, 0, &why));
    assert_int_equal(f.h.n_block, g.h.n_block);
    assert_memory_equal(f.blocks, g.blocks, f.h.n_block * sizeof *f.blocks);
    ig_wfile_close(&f);
    ig_wfile_close(&g);
}

/* The demo's plan: fewer routes, since each takes seconds there. */
static inline int is_big(void) { return IG_DATA_BYTES > 8 << 20; }

/* Do blocks of n columns fit every matrix? */
static inline int fits_blocks(uint32_t n)
{
    return IG_N_EMBD % n == 0 && ig_layers[0].down.cols % n == 0 && ig_layers[0].o.cols % n == 0;
}

#endif
