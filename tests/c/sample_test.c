/* The sampler against the obvious one: sort everything, filter, draw. */
#include "sample.h"
#include "math.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { N = 257 };

static int by_logit(const void *a, const void *b)
{
    const struct ig_candidate *x = a, *y = b;
    if (x->p != y->p) return x->p < y->p ? 1 : -1;
    return (x->id > y->id) - (x->id < y->id);
}

/* The candidates that the filters leave, best first; returns their number. */
static int obvious(const struct ig_sampler *s, const float *logits, struct ig_candidate *c)
{
    for (int i = 0; i < N; i++) c[i] = (struct ig_candidate){ logits[i], i };
    qsort(c, N, sizeof *c, by_logit);
    const int n = s->top_k > 0 && s->top_k < N ? s->top_k : N;
    double total = 0.0, mass = 0.0;
    for (int i = 0; i < n; i++) total += (double)ig_expf(c[i].p - c[0].p);
    int kept = 0;
    while (kept < n && (kept == 0 || (mass < (double)s->top_p * total &&
                                      ig_expf(c[kept].p - c[0].p) >= s->min_p)))
        mass += (double)ig_expf(c[kept++].p - c[0].p);
    return kept;
}

static void random_logits(float *logits, unsigned *seed)
{
    for (int i = 0; i < N; i++) logits[i] = (float)(rand_r(seed) % 4000) / 400.0f - 5.0f;
}

static void drawn_from_what_the_filters_leave(void **state)
{
    (void)state;
    static const struct {
        int k;
        float p, min;
    } filters[] = {
        { 0, 1.0f, 0.0f }, { 1, 1.0f, 0.0f }, { 5, 1.0f, 0.0f },    { 0, 0.5f, 0.0f },
        { 0, 1.0f, 0.2f }, { 9, 0.7f, 0.0f }, { 40, 0.95f, 0.05f }, { N, 0.9f, 0.0f },
    };
    unsigned seed = 1;
    for (size_t f = 0; f < sizeof filters / sizeof *filters; f++) {
        struct ig_sampler s = { .temp = 0.9f,
                                .top_k = filters[f].k,
                                .top_p = filters[f].p,
                                .min_p = filters[f].min,
                                .repeat_penalty = 1.0f };
        ig_sampler_init(&s, 11 + f);
        for (int round = 0; round < 20; round++) {
            float logits[N];
            struct ig_candidate want[N], work[N];
            random_logits(logits, &seed);
            const int kept = obvious(&s, logits, want);
            int hit[N] = { 0 };
            for (int i = 0; i < 400; i++) {
                const int32_t id = ig_sample(&s, logits, N, work);
                int at = 0;
                while (at < kept && want[at].id != id) at++;
                assert_true(at < kept);
                hit[at]++;
            }
            if (kept <= 5)
                for (int i = 0; i < kept; i++)
                    assert_true(hit[i] > 0 || want[i].p < want[0].p - 4.0f);
        }
    }
}

/* p = .6, .3 and 98 times .00102; the first two hold 0.65 of the mass, whatever top-k and min-p drop. */
static void top_p_measures_what_top_k_left(void **state)
{
    (void)state;
    float logits[N];
    struct ig_candidate work[N];
    for (int i = 0; i < N; i++) logits[i] = i < 100 ? logf(0.1f / 98) : -50.0f;
    logits[0] = logf(0.6f);
    logits[1] = logf(0.3f);
    for (int k = 0; k < 100; k += 99) {
        struct ig_sampler s = { .temp = 1.0f, .top_k = k, .top_p = 0.65f, .min_p = 0.05f,
                                .repeat_penalty = 1.0f };
        ig_sampler_init(&s, 9);
        int second = 0;
        for (int i = 0; i < 3000; i++) second += ig_sample(&s, logits, N, work) == 1;
        assert_in_range(second, 870, 1130); /* a third of 3000, five standard deviations */
    }
}

static void frequencies_follow_the_temperature(void **state)
{
    (void)state;
    float logits[N];
    for (int i = 0; i < N; i++) logits[i] = -100.0f;
    logits[3] = 2.0f;
    logits[8] = 1.0f;
    struct ig_sampler s = { .temp = 0.5f, .top_p = 1.0f, .repeat_penalty = 1.0f };
    struct ig_candidate work[N];
    ig_sampler_init(&s, 5);
    int first = 0;
    for (int i = 0; i < 20000; i++) first += ig_sample(&s, logits, N, work) == 3;
    /* 1 / (1 + exp(-1 / 0.5)) = 0.8808; five standard deviations of 20000 draws are 0.0115 */
    assert_in_range(first, 17386, 17846);
}

static void greedy_takes_the_lowest_of_equals(void **state)
{
    (void)state;
    float logits[N] = { 0 };
    struct ig_candidate work[N];
    struct ig_sampler s = { .temp = 0.0f, .repeat_penalty = 1.0f };
    logits[7] = logits[9] = 3.0f;
    assert_int_equal(ig_sample(&s, logits, N, work), 7);
}

static void the_penalty_pushes_seen_tokens_down_once(void **state)
{
    (void)state;
    float logits[N] = { 0 };
    struct ig_candidate work[N];
    struct ig_sampler s = { .temp = 0.0f, .repeat_penalty = 2.0f, .repeat_last_n = 3 };
    ig_sampler_init(&s, 1);
    for (int i = 0; i < N; i++) logits[i] = -9.0f;
    logits[4] = 3.0f, logits[5] = 1.6f, logits[6] = 1.4f;
    ig_sampler_accept(&s, 4);
    assert_int_equal(ig_sample(&s, logits, N, work), 5); /* 3.0 / 2 < 1.6 */
    ig_sampler_accept(&s, 4);
    logits[4] = 3.4f;
    assert_int_equal(ig_sample(&s, logits, N, work), 4); /* once, not 3.4 / 4 */
    for (int i = 0; i < 3; i++) ig_sampler_accept(&s, 100 + i);
    logits[4] = 1.7f;
    assert_int_equal(ig_sample(&s, logits, N, work), 4); /* out of the last 3 */
}

static void a_seed_gives_the_same_tokens(void **state)
{
    (void)state;
    float logits[N];
    struct ig_candidate work[N];
    unsigned seed = 3;
    int32_t a[50], b[50], c[50];
    random_logits(logits, &seed);
    int32_t *const out[3] = { a, b, c };
    for (int run = 0; run < 3; run++) {
        struct ig_sampler s = { .temp = 1.0f, .top_p = 1.0f, .repeat_penalty = 1.0f };
        ig_sampler_init(&s, run == 2 ? 43 : 42);
        for (int i = 0; i < 50; i++) out[run][i] = ig_sample(&s, logits, N, work);
    }
    assert_memory_equal(a, b, sizeof a);
    assert_memory_not_equal(a, c, sizeof a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(drawn_from_what_the_filters_leave),
        cmocka_unit_test(top_p_measures_what_top_k_left),
        cmocka_unit_test(frequencies_follow_the_temperature),
        cmocka_unit_test(greedy_takes_the_lowest_of_equals),
        cmocka_unit_test(the_penalty_pushes_seen_tokens_down_once),
        cmocka_unit_test(a_seed_gives_the_same_tokens),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
