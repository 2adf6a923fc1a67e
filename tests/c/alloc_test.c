/* No allocation between the first and the last token: every allocation of the
 * process goes through the counting functions below, libgomp's and stdio's too.
 * A planted allocation must be seen, or the count proves nothing.
 */
#include "config.h"
#include "generate.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);
extern void __libc_free(void *);

static atomic_long count;
static atomic_int counting;

/* The sanitizers bring an allocator of their own; there the tests are skipped. */
#ifndef __SANITIZE_ADDRESS__
static void seen(void)
{
    if (atomic_load(&counting)) atomic_fetch_add(&count, 1);
}

void *malloc(size_t n)
{
    seen();
    return __libc_malloc(n);
}
void *calloc(size_t n, size_t m)
{
    seen();
    return __libc_calloc(n, m);
}
void *realloc(void *p, size_t n)
{
    seen();
    return __libc_realloc(p, n);
}
void *memalign(size_t a, size_t n)
{
    seen();
    return __libc_memalign(a, n);
}
void *aligned_alloc(size_t a, size_t n)
{
    seen();
    return __libc_memalign(a, n);
}
int posix_memalign(void **p, size_t a, size_t n)
{
    seen();
    *p = __libc_memalign(a, n);
    return *p ? 0 : ENOMEM;
}
void free(void *p) { __libc_free(p); }
#endif

static struct ig_session session;
static struct ig_gen *gen;
static int plants; /* allocations still to plant, one a forward pass */

static void plant(void *ctx, int layer, int row, const int32_t *expert, const float *weight)
{
    (void)ctx, (void)row, (void)expert, (void)weight;
    if (layer != 0 || plants == 0) return;
    plants--;
    char *volatile p = strdup("planted");
    free(p);
}

/* Everything between the first and the last token of an answer, its text written
 * to nowhere: what `run` does. */
static long answer(int planted)
{
    static int32_t ids[40];
    const struct ig_tap tap = { .routed = plant };
    for (int i = 0; i < 40; i++) ids[i] = (i * 37 + 5) % IG_N_VOCAB;
    ig_set_tap(session.e, &tap);
    const int out = dup(1), null = open("/dev/null", O_WRONLY);
    fflush(stdout);
    dup2(null, 1);
    ig_gen_prompt(gen, ids, 40);
    plants = planted;
    atomic_store(&count, 0);
    atomic_store(&counting, 1);
    const enum ig_gen_end end = ig_gen_answer(gen, 24, 1);
    atomic_store(&counting, 0);
    dup2(out, 1);
    close(out);
    close(null);
    assert_int_equal(end, IG_GEN_LIMIT);
    assert_int_equal(gen->stats.n_made, 24);
    return atomic_load(&count);
}

static void no_allocation(void **state)
{
    (void)state;
#ifdef __SANITIZE_ADDRESS__
    skip();
#endif
    assert_int_equal(answer(0), 0);
}

static void a_planted_one_is_seen(void **state)
{
    (void)state;
#ifdef __SANITIZE_ADDRESS__
    skip();
#endif
    assert_int_equal(answer(1), 1);
}

static int open_session(void **state)
{
    (void)state;
    struct ig_why why;
    struct ig_opts o = { .model = "out/tests/demo.ingot", .threads = 2, .temp = 0.8f, .top_k = 40,
                         .top_p = 0.95f, .min_p = 0.05f, .repeat_penalty = 1.1f,
                         .repeat_last_n = 64 };
    enum ig_err err = ig_session_open(&session, &o, 1, &why);
    if (err == IG_OK) err = ig_gen_open(&gen, &session, &o, &why);
    if (err != IG_OK) fprintf(stderr, "%s\n", why.text);
    return err == IG_OK ? 0 : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(no_allocation),
                                        cmocka_unit_test(a_planted_one_is_seen) };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, open_session, NULL);
}
