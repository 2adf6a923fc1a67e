/* tier_own.h -- what the tests of an engine behind few slots share: weights of their own, a run's
 * bits, a child that a fault ends.  Linked with --wrap of what it puts itself between: one such
 * program includes it once.
 */
#ifndef TIER_OWN_H
#define TIER_OWN_H

#include "own.h"
#include "state.h"
#include "copy_shaky.h"
#include "tsan_omp.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

static char packed[OWN_BYTES], beside[OWN_BYTES]; /* the weights; another file */
static const char *weights = packed;
static struct shaky shaky;
static int shake, no_wait;
static void (*on_wait)(struct ig_engine *e); /* of a layer's first wait for a copy */
static int waited;

enum ig_err __real_ig_copy_file_open(struct ig_copy *copy, const struct ig_copy_file_conf *c,
                                     struct ig_copy_file_how *how, struct ig_why *why);
void __real_ig_copy_file_close(struct ig_copy *copy);
void __real_ig_tier_wait(struct ig_engine *e, int a);
enum ig_err __wrap_ig_copy_file_open(struct ig_copy *copy, const struct ig_copy_file_conf *c,
                                     struct ig_copy_file_how *how, struct ig_why *why);
void __wrap_ig_copy_file_close(struct ig_copy *copy);
void __wrap_ig_tier_wait(struct ig_engine *e, int a);
void __real_ig_tier_layer(struct ig_engine *e, int layer);
void __wrap_ig_tier_layer(struct ig_engine *e, int layer);

enum ig_err __wrap_ig_copy_file_open(struct ig_copy *copy, const struct ig_copy_file_conf *c,
                                     struct ig_copy_file_how *how, struct ig_why *why)
{
    const enum ig_err err = __real_ig_copy_file_open(&shaky.inner, c, how, why);
    *copy = shake && err == IG_OK ? shaky_copy(&shaky, shaky.inner.depth) : shaky.inner;
    return err;
}
void __wrap_ig_copy_file_close(struct ig_copy *copy)
{
    __real_ig_copy_file_close(&shaky.inner);
    copy->ctx = NULL;
}
void __wrap_ig_tier_layer(struct ig_engine *e, int layer)
{
    __real_ig_tier_layer(e, layer);
    if (!on_wait) return;
    waited = 0;
    memset(e->mem + IG_MEM_YD_OFF, 0xff, IG_MEM_YD_BYTES);
}
void __wrap_ig_tier_wait(struct ig_engine *e, int a)
{
    if (on_wait) {
        if (!waited) on_wait(e);
        waited = 1;
    }
    if (!no_wait) __real_ig_tier_wait(e, a);
}

static inline struct ig_engine *start(int threads)
{
    struct ig_engine *e;
    struct ig_why why;
    const struct ig_open o = { .weights = weights, .threads = threads, .verify = 1, .poison = 1 };
    if (ig_engine_open(&e, &o, &why) != IG_OK) fail_msg("%s", why.text);
    return e;
}

/* ThreadSanitizer is ten times slower, and barriers wait for a busy machine's turn: there every
 * test runs, but fewer of its combinations, one in THIN. */
#ifdef __SANITIZE_THREAD__
enum { PROMPT = 20, STEPS = 8, THIN = 3 };
#else
enum { PROMPT = 48, STEPS = 24, THIN = 1 };
#endif

/* FNV-1a over the bits of every logit of a prompt in batches of n and of greedy decoding after it;
 * tokens go to `out` as they are made.  *finite: no NaN was among them. */
static inline uint64_t tokens(struct ig_engine *e, int n, FILE *out, int *finite)
{
    static int32_t token[PROMPT], pos[PROMPT], seq[PROMPT];
    static uint8_t want[PROMPT];
    uint64_t h = UINT64_C(0xcbf29ce484222325);
    *finite = 1;
    for (int i = 0; i < PROMPT; i++) token[i] = (i * 37 + 5) % IG_N_VOCAB;
    for (int at = 0; at < PROMPT + STEPS;) {
        int rows = at < PROMPT ? PROMPT - at : 1;
        if (rows > n) rows = n;
        for (int i = 0; i < rows; i++) pos[i] = at + i, want[i] = at + i >= PROMPT - 1;
        const struct ig_batch b = { rows, at < PROMPT ? token + at : token, pos, seq, want };
        ig_forward(e, &b);
        at += rows;
        if (at < PROMPT) continue;
        const float *l = ig_logits(e, 0);
        int best = 0;
        for (int i = 0; i < IG_N_VOCAB; i++) {
            uint32_t bits;
            memcpy(&bits, &l[i], sizeof bits);
            h = (h ^ bits) * UINT64_C(0x100000001b3);
            if (!isfinite(l[i])) *finite = 0;
            if (l[i] > l[best]) best = i;
        }
        token[0] = best;
        if (out) fprintf(out, "%d\n", best), fflush(out);
    }
    return h;
}

static uint64_t right; /* bits without any trouble, one thread */

static inline uint64_t run(int threads, int batch)
{
    int finite;
    struct ig_engine *e = start(threads);
    const uint64_t h = tokens(e, batch, NULL, &finite);
    ig_engine_close(e);
    assert_true(finite);
    return h;
}

static inline void pack(void)
{
    const char *command = "out/test/t-demo/tiny-mixtral pack tests/data/tiny-mixtral.gguf -o ";
    char line[256];
    unlink(weights);
    snprintf(line, sizeof line, "%s%s 2>/dev/null", command, weights);
    if (system(line) != 0) fail_msg("cannot pack: %s", line);
}

static inline void own_files(void)
{
    own_file(packed, "tier");
    own_file(beside, "tier-beside");
    pack();
}

static inline int setup(void **state)
{
    (void)state;
    own_files();
    right = run(1, PROMPT);
    return 0;
}

static inline int teardown(void **state)
{
    (void)state;
    return unlink(packed);
}

#endif
