/* Experts fetched before they are asked for: whatever is predicted, the same bits. */
#include "tier_own.h"
#include "tier_stats.h"

/* Prefetch off, on, and of experts that nobody will choose, at every distance. */
static void test_prefetch(void **state)
{
    (void)state;
    static int32_t wrong[(IG_N_LAYER + 9) * IG_N_LAYER * IG_N_EXPERT_USED];
    const int n = (int)(sizeof wrong / sizeof *wrong);
    for (int i = 0; i < n; i++) wrong[i] = i % 3 ? (i * 5 + i / 7) % IG_N_EXPERT : -1;
    for (int way = 0; way < 4; way++) {
        int finite;
        shaky = (struct shaky){ .seed = 9, .delay_us = way == 3 ? 500 : 0 };
        shake = 1;
        struct ig_engine *e = start(2);
        if (!way) e->tier.ahead.trial = (struct ig_trial){ .n_way = 1 }; /* without, for good */
        e->tier.ahead.least = 0;
        for (int l = 0; l < IG_N_LAYER; l++) e->tier.ahead.stride[l].s = (uint8_t)(1 + way * l % 8);
        if (way >= 2) ig_set_choices(e, NULL, NULL, wrong);
        assert_int_equal(tokens(e, 16, NULL, &finite), right);
        uint64_t early = 0;
        for (int l = 0; l < IG_N_LAYER; l++) early += e->tier.cache.count[l].early;
        if (way)
            assert_true(early > 0);
        else
            assert_int_equal(early, 0);
        ig_engine_close(e);
        shake = 0;
    }
}

/* -- predictors: whatever one says, the bits are the same */

static uint64_t
    wrong_state; /* a predictor's that is always wrong: sure of experts that no one chose */
static size_t wrong_bytes(const struct ig_pshape *s, const struct ig_ptables *t)
{
    (void)s, (void)t;
    return sizeof wrong_state;
}
static void wrong_init(void *state, const struct ig_pshape *s, const struct ig_ptables *t)
{
    (void)s, (void)t;
    *(uint64_t *)state = 7;
}
static void wrong_ask(void *state, const struct ig_pask *a, float *chance)
{
    uint64_t *n = state;
    for (int x = 0; x < IG_N_EXPERT; x++) {
        *n = *n * UINT64_C(6364136223846793005) + a->layer;
        chance[x] = (float)(*n >> 40) / (float)(1 << 24);
        for (int k = 0; a->next && k < IG_N_EXPERT_USED; k++)
            if (a->next[k] == x) chance[x] = 0; /* not what is likely */
    }
}
static void wrong_token(void *state, int32_t token) { (void)state, (void)token; }
static void wrong_use(void *state, uint32_t back, uint32_t layer, const int32_t *id,
                      const float *weight)
{
    (void)state, (void)back, (void)layer, (void)id, (void)weight;
}
static const struct ig_predictor predictor_wrong = { .name = "wrong on purpose",
                                                     .bytes = wrong_bytes,
                                                     .init = wrong_init,
                                                     .ask = wrong_ask,
                                                     .token = wrong_token,
                                                     .use = wrong_use };

/* Tables of random numbers: what was learned does not matter here. */
static const struct ig_ptables *random_tables(void)
{
    enum { TREES = 3, DEPTH = 4, INNER = (1 << DEPTH) - 1, WIDTH = 5, RANK = 3 };
    static uint8_t joint[2 * IG_N_LAYER * IG_N_EXPERT * IG_N_EXPERT];
    static uint8_t node[TREES * INNER * 2], leaf[TREES * (INNER + 1)];
    static int8_t weight[WIDTH * (IG_N_PFEATURE + WIDTH + 1)], v[RANK * IG_N_EMBD];
    static int8_t u[IG_N_EXPERT * RANK];
    static float scale[3] = { 0.01f, 0.02f, 0.03f }, bias[2 * WIDTH + 1], expert_bias[IG_N_EXPERT];
    static const struct ig_pforest forest = { 0, IG_N_LAYER - 1, TREES, DEPTH, node, leaf };
    static const struct ig_pmlp mlp = { 0, IG_N_LAYER - 1, 2, WIDTH, weight, scale, bias };
    static const struct ig_plinear linear = { 2, 1, RANK, v, u, 0.01f, 0.01f, expert_bias };
    static const struct ig_ptables t = { joint, 2, 1, 1, 1, &forest, &mlp, &linear };
    srand(5);
    for (size_t i = 0; i < sizeof joint; i++) joint[i] = (uint8_t)rand();
    for (size_t i = 0; i < sizeof node; i += 2)
        node[i] = (uint8_t)(rand() % IG_N_PFEATURE), node[i + 1] = (uint8_t)rand();
    for (size_t i = 0; i < sizeof leaf; i++) leaf[i] = (uint8_t)rand();
    for (size_t i = 0; i < sizeof weight; i++) weight[i] = (int8_t)(rand() % 255 - 127);
    for (size_t i = 0; i < sizeof v; i++) v[i] = (int8_t)(rand() % 255 - 127);
    for (size_t i = 0; i < sizeof u; i++) u[i] = (int8_t)(rand() % 255 - 127);
    return &t;
}

static void test_predictors(void **state)
{
    (void)state;
    static const struct ig_predictor *const predictor[] = {
        &ig_predictor_next_router, &ig_predictor_history, &ig_predictor_hybrid,
        &ig_predictor_forest,      &ig_predictor_mlp,     &predictor_wrong,
    };
    static const struct ig_pshape s = { IG_N_LAYER, IG_N_EXPERT, IG_N_EXPERT_USED, IG_N_EMBD };
    const struct ig_ptables *t = random_tables();
    for (size_t i = 0; i < sizeof predictor / sizeof *predictor; i++)
        for (int stride = 1; stride < 4; stride++) {
            if ((i + (size_t)stride) % THIN) continue;
            int finite;
            uint64_t early = 0;
            void *mem = aligned_alloc(64, (predictor[i]->bytes(&s, t) + 63) / 64 * 64);
            predictor[i]->init(mem, &s, t);
            struct ig_engine *e = start(2);
            e->tier.ahead.predictor = predictor[i];
            e->tier.ahead.state = mem;
            e->tier.ahead.least = stride == 2 ? 0.4f : 0;
            for (int l = 0; l < IG_N_LAYER; l++) e->tier.ahead.stride[l].s = (uint8_t)stride;
            assert_int_equal(tokens(e, stride == 3 ? 1 : 16, NULL, &finite), right);
            for (int l = 0; l < IG_N_LAYER; l++) early += e->tier.cache.count[l].early;
            if (early == 0 && stride != 2) fail_msg("%s fetched nothing", predictor[i]->name);
            ig_engine_close(e);
            free(mem);
        }
}

/* Names two experts, others at each distance. */
static void fickle_ask(void *state, const struct ig_pask *a, float *chance)
{
    (void)state;
    for (int x = 0; x < IG_N_EXPERT; x++) chance[x] = 0;
    chance[(3 * a->layer + 5 * a->dist) % IG_N_EXPERT] = 0.9f;
    chance[(3 * a->layer + 5 * a->dist + 1) % IG_N_EXPERT] = 0.8f;
}
static const struct ig_predictor predictor_fickle = { .name = "of two minds",
                                                      .bytes = wrong_bytes,
                                                      .init = wrong_init,
                                                      .ask = fickle_ask,
                                                      .token = wrong_token,
                                                      .use = wrong_use };

/* A layer is asked about again when it is nearer, and what is then no longer named is cancelled. */
static void test_renewal(void **state)
{
    (void)state;
    for (int stride = 1; stride <= 3; stride++) {
        int finite;
        shaky = (struct shaky){ .seed = 4, .delay_us = 800 };
        shake = 1;
        struct ig_engine *e = start(2);
        struct ig_ahead *h = &e->tier.ahead;
        h->predictor = &predictor_fickle;
        pthread_mutex_lock(&e->tier.mover.drive);
        e->tier.mover.prefetch_depth = 1; /* they queue, and can be taken back */
        e->tier.mover.copy.early = 0;     /* until their delays are over */
        pthread_mutex_unlock(&e->tier.mover.drive);
        h->least = 0.5f;
        for (int l = 0; l < IG_N_LAYER; l++)
            h->stride[l].s = h->stride[l].least = h->stride[l].most = (uint8_t)stride;
        assert_int_equal(tokens(e, 16, NULL, &finite), right);
        assert_true(h->asked > 0);
        if (stride == 1) {
            assert_int_equal(h->renewed + h->taken_back, 0);
        } else {
            assert_true(h->renewed > 0 && h->taken_back > 0);
        }
        ig_engine_close(e);
        shake = 0;
    }
}

/* Nothing is likely enough: nothing is fetched early. */
static void test_least(void **state)
{
    (void)state;
    int finite;
    uint64_t early = 0;
    struct ig_engine *e = start(1);
    e->tier.ahead.least = 1.01f;
    assert_int_equal(tokens(e, 16, NULL, &finite), right);
    for (int l = 0; l < IG_N_LAYER; l++) early += e->tier.cache.count[l].early;
    assert_int_equal(early, 0);
    ig_engine_close(e);
}

/* The word on prefetch is never silent, and is what the trials say. */
static void test_says(void **state)
{
    (void)state;
    struct ig_engine *e = start(1);
    assert_non_null(strstr(ig_prefetch_says(e), "on, because no trial has ended yet"));
    struct ig_trial *t = &e->tier.ahead.trial;
    t->trials = 1;
    t->mean[IG_AHEAD_OFF] = 1.25, t->mean[IG_AHEAD_ON] = 1;
    assert_non_null(strstr(ig_prefetch_says(e), "on, because a step takes 20.0 % less with it"));
    t->best = IG_AHEAD_OFF;
    t->mean[IG_AHEAD_OFF] = 0.8;
    assert_non_null(strstr(ig_prefetch_says(e), "off, because a step takes 25.0 % more with it"));
    t->mean[IG_AHEAD_OFF] = 1.01;
    assert_non_null(
        strstr(ig_prefetch_says(e), "off, because a step takes only 1.0 % less with it"));
    ig_engine_close(e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_prefetch), cmocka_unit_test(test_predictors),
        cmocka_unit_test(test_renewal),  cmocka_unit_test(test_least),
        cmocka_unit_test(test_says),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests_name("tier_ahead", tests, setup, teardown);
}
