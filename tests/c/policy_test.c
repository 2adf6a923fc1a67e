/* Each runtime policy against its sentence in docs/POLICIES.md. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "xcache.h"

enum { LAYERS = 3, EXPERTS = 70, IDS = LAYERS * EXPERTS, WAYS = 4 };
static const uint16_t set_of[LAYERS] = { 0, 1, 2 };
static const uint32_t first[LAYERS + 1] = { 0, WAYS, 2 * WAYS, 3 * WAYS };
static const struct ig_xgeom geom = { LAYERS, EXPERTS, LAYERS, LAYERS *WAYS, set_of, first };

static uint64_t seed = 7;
static uint32_t rnd(uint32_t n)
{
    seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
    return (uint32_t)(seed >> 33) % n;
}

static void *start(const struct ig_policy *p, const struct ig_policy_arg *arg)
{
    const size_t bytes = p->bytes(&geom, arg);
    void *state = malloc(bytes + 1);
    assert_non_null(state);
    memset(state, 0xa5, bytes);
    p->init(state, &geom, arg);
    return state;
}

/* The definition, with a pow() for every count, over more steps than one rescaling takes. */
static void decay_is_decayed(void **unused)
{
    (void)unused;
    const struct ig_policy *p = &ig_policy_decay;
    const double half_life[] = { 1, 3, 16, 500 };
    for (int h = 0; h < 4; h++) {
        const struct ig_policy_arg arg = { .num = { half_life[h] } };
        void *s = start(p, &arg);
        double want[IDS] = { 0 };
        for (int t = 0; t < 3000; t++) {
            p->token(s, -1);
            for (int i = 0; i < IDS; i++) want[i] *= pow(2, -1 / half_life[h]);
            for (int i = 0; i < 5; i++) {
                const uint32_t id = rnd(IDS);
                p->use(s, id, 0.1f, 0);
                want[id] += 1;
            }
            const uint32_t a = rnd(IDS), b = rnd(IDS);
            if (want[a] > want[b] * (1 + 1e-6)) assert_true(p->value(s, a) >= p->value(s, b));
            if (want[a] > want[b] + 1e-6) assert_true(p->value(s, a) > p->value(s, b));
        }
        free(s);
    }
}

static void lru2_levels(void **unused)
{
    (void)unused;
    const struct ig_policy *p = &ig_policy_lru2;
    const struct ig_policy_arg arg = { .num = { 2 } };
    void *s = start(p, &arg);
    assert_true(p->value(s, 5) <= 0); /* never used: low, also in the first steps */
    p->token(s, -1);
    p->use(s, 1, 1, 0);
    for (int i = 0; i < 3; i++) p->token(s, -1);
    p->use(s, 2, 1, 0);
    assert_true(p->value(s, 1) < p->value(s, 2)); /* 3 steps ago, now */
    p->predict(s, 1);
    assert_true(p->value(s, 1) >= p->value(s, 2)); /* predicted: high again */
    p->token(s, -1);
    assert_true(p->value(s, 1) >= p->value(s, 2));
    p->token(s, -1);
    assert_true(p->value(s, 1) < p->value(s, 2)); /* a prediction lasts two steps */
    free(s);
}

static void static_settles(void **unused)
{
    (void)unused;
    float hot[IDS];
    for (int i = 0; i < IDS; i++) hot[i] = (float)((i * 37) % EXPERTS);
    const struct ig_policy_arg arg = { .table = hot };
    struct ig_xcache c;
    void *mem = aligned_alloc(64, ig_xcache_bytes(&geom, &ig_policy_static, &arg));
    ig_xcache_init(&c, &geom, &ig_policy_static, &arg, mem);
    for (int i = 0; i < 20000; i++) {
        const uint32_t l = rnd(LAYERS), e = rnd(EXPERTS);
        if (ig_xcache_use(&c, l, e, 1) >= 0) continue;
        const int slot = ig_xcache_claim(&c, l, e, 0);
        if (slot >= 0) ig_xcache_ready(&c, slot);
    }
    for (uint32_t i = 0; i < IDS; i++) {
        int hotter = 0;
        for (uint32_t j = i / EXPERTS * EXPERTS; j < (i / EXPERTS + 1) * EXPERTS; j++)
            hotter += hot[j] > hot[i];
        assert_int_equal(ig_xcache_find(&c, i / EXPERTS, i % EXPERTS) >= 0, hotter < WAYS);
    }
    free(mem);
}

/* A text that repeats: experts follow the token, so after token t the experts of t + 1 are worth
 * more than those just used by t - 1, although both were used equally often. */
static void echo_hears(void **unused)
{
    (void)unused;
    const struct ig_policy *p = &ig_policy_echo;
    const double rows[] = { 0, 32, 8 }; /* rings: default, wraps often, too short for the text */
    for (int r = 0; r < 3; r++) {
        const struct ig_policy_arg arg = { .num = { 16, 0, rows[r] } };
        void *s = start(p, &arg);
        int right = 0, asked = 0;
        for (uint32_t t = 0; t < 3000; t++) {
            const uint32_t token = t % 12;
            p->token(s, (int32_t)token);
            for (uint32_t l = 0; l < LAYERS; l++)
                for (uint32_t k = 0; k < 3; k++) p->use(s, l * EXPERTS + 5 * token + k, 1, 0);
            if (t < 24) continue;
            for (uint32_t l = 0; l < LAYERS; l++) {
                asked++;
                right += p->value(s, l * EXPERTS + 5 * ((token + 1) % 12)) >
                         p->value(s, l * EXPERTS + 5 * ((token + 11) % 12));
            }
        }
        assert_int_equal(right, r < 2 ? asked : 0);
        free(s);
    }
}

/* Without token ids, and with hostile ones, it ranks as decay does. */
static void echo_without_tokens(void **unused)
{
    (void)unused;
    void *e = start(&ig_policy_echo, NULL), *d = start(&ig_policy_decay, NULL);
    for (int t = 0; t < 3000; t++) {
        ig_policy_echo.token(e, t % 3 ? -1 : INT32_MAX - t);
        ig_policy_decay.token(d, -1);
        for (int i = 0; i < 6; i++) {
            const uint32_t id = rnd(IDS);
            ig_policy_echo.use(e, id, 1, 0);
            ig_policy_decay.use(d, id, 1, 0);
        }
        const uint32_t a = rnd(IDS), b = rnd(IDS);
        if (ig_policy_decay.value(d, a) > ig_policy_decay.value(d, b) * (1 + 1e-9))
            assert_true(ig_policy_echo.value(e, a) > ig_policy_echo.value(e, b) - 1e-12);
    }
    free(e);
    free(d);
}

/* A prompt batch announces its tokens first; its rows must be remembered as if one by one. */
static void echo_batch_is_rows(void **unused)
{
    (void)unused;
    enum { N = 40 };
    const struct ig_policy *p = &ig_policy_echo;
    /* So long a half-life that the rate of use, which does differ (a batch is of one age), is
     * nothing. */
    const struct ig_policy_arg arg = { .num = { 1e7 } };
    void *a = start(p, &arg), *b = start(p, &arg);
    uint32_t expert[N][LAYERS];
    for (int t = 0; t < N; t++)
        for (int l = 0; l < LAYERS; l++) expert[t][l] = rnd(EXPERTS);
    for (int t = 0; t < N; t++) {
        p->token(a, t % 10);
        for (uint32_t l = 0; l < LAYERS; l++) p->use(a, l * EXPERTS + expert[t][l], 1, 0);
    }
    for (int t = 0; t < N; t++) p->token(b, t % 10);
    for (uint32_t l = 0; l < LAYERS; l++)
        for (uint32_t t = 0; t < N; t++) {
            p->row(b, N - 1 - t);
            p->use(b, l * EXPERTS + expert[t][l], 1, 0);
        }
    p->token(a, 0);
    p->token(b, 0);
    p->use(a, 0, 1, 0);
    p->use(b, 0, 1, 0);
    for (uint32_t id = 0; id < IDS; id++)
        assert_true(fabs(p->value(a, id) - p->value(b, id)) < 1e-5);
    assert_true(p->value(b, EXPERTS + expert[31][1]) > 0.05);
    free(a);
    free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(decay_is_decayed),    cmocka_unit_test(lru2_levels),
        cmocka_unit_test(static_settles),      cmocka_unit_test(echo_hears),
        cmocka_unit_test(echo_without_tokens), cmocka_unit_test(echo_batch_is_rows),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests_name("policy", tests, NULL, NULL);
}
