/* No allocation between the first and the last token: every allocation of the
 * process goes through the counting functions below, libgomp's and stdio's too.
 * A planted allocation must be seen, or the count proves nothing.
 */
#include "state.h"
#include "sample.h"

#include <dlfcn.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

static struct ig_engine *engine;

/* A prompt of 40 ids and 24 sampled tokens; the planted function runs in the middle. */
static long decode(void (*planted)(void))
{
    static struct ig_sampler s = { .temp = 0.8f,
                                   .top_k = 40,
                                   .top_p = 0.95f,
                                   .min_p = 0.05f,
                                   .repeat_penalty = 1.1f,
                                   .repeat_last_n = 64 };
    static int32_t token[40], pos[40], seq[40];
    static uint8_t want[40];
    ig_sampler_init(&s, 7);
    for (int i = 0; i < 40; i++) {
        token[i] = (i * 37 + 5) % IG_N_VOCAB;
        pos[i] = i;
        want[i] = i == 39;
    }
    struct ig_batch b = { 40, token, pos, seq, want };
    ig_forward(engine, &b);

    atomic_store(&count, 0);
    atomic_store(&counting, 1);
    for (int i = 0; i < 24; i++) {
        const int32_t id = ig_sample(&s, ig_logits(engine, 0), IG_N_VOCAB,
                                     IG_BUF(engine, SAMPLE, struct ig_candidate));
        ig_sampler_accept(&s, id);
        token[0] = id;
        pos[0] = 40 + i;
        want[0] = 1;
        b = (struct ig_batch){ 1, token, pos, seq, want };
        ig_forward(engine, &b);
        if (i == 12 && planted) planted();
    }
    atomic_store(&counting, 0);
    return atomic_load(&count);
}

static void plant(void)
{
    char *volatile p = strdup("planted");
    free(p);
}

static void no_allocation(void **state)
{
    (void)state;
#ifdef __SANITIZE_ADDRESS__
    skip();
#endif
    assert_int_equal(decode(NULL), 0);
}

static void a_planted_one_is_seen(void **state)
{
    (void)state;
#ifdef __SANITIZE_ADDRESS__
    skip();
#endif
    assert_int_equal(decode(plant), 1);
}

static int open_engine(void **state)
{
    (void)state;
    struct ig_why why;
    const char *weights = "out/tests/demo.ingot";
    const struct ig_open o = { .weights = weights, .threads = 2, .verify = 1, .poison = 1 };
    if (ig_engine_open(&engine, &o, &why) == IG_OK) return 0;
    fprintf(stderr, "%s\n", why.text);
    return -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(no_allocation),
                                        cmocka_unit_test(a_planted_one_is_seen) };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, open_engine, NULL);
}
