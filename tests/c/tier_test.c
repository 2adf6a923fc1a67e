/* The engine with experts behind few slots: the same bits whatever the copies do. */
#include "tier_own.h"

static void test_threads_and_batches(void **state)
{
    (void)state;
    static const int at[][2] = { { 1, 1 }, { 1, 7 }, { 2, 1 }, { 2, 2 }, { 2, PROMPT }, { 3, 7 } };
    for (size_t i = 0; i < sizeof at / sizeof *at; i++)
        assert_int_equal(run(at[i][0], at[i][1]), right);
}

/* No prefetch may be on its way into a slot that a new table takes for empty. */
static void drain(struct ig_tier *t)
{
    for (int i = 0; i < t->n_early; i++) {
        ig_move_wait(&t->move[t->early[i]]);
        t->dropped[t->early[i]] = 0;
    }
    t->n_early = 0;
}

/* Every policy, with a set a layer and with one set for all. */
static void test_policies(void **state)
{
    (void)state;
    static const struct ig_policy *const policy[] = { &ig_policy_lru,        &ig_policy_lru2,
                                                      &ig_policy_decay,      &ig_policy_echo,
                                                      &ig_policy_echo_admit, &ig_policy_static };
    static const uint16_t one_set[IG_N_LAYER];
    static const uint32_t one_first[] = { 0, IG_N_XSLOT };
    struct ig_engine *e = start(2);
    for (size_t i = 0; i < sizeof policy / sizeof *policy; i++)
        for (int sets = 0; sets < 2; sets++) {
            if ((2 * i + (size_t)sets) % THIN) continue;
            struct ig_xgeom g = e->tier.cache.g;
            int finite;
            if (sets) g.n_set = 1, g.set_of = one_set, g.first = one_first;
            void *mem = aligned_alloc(64, ig_xcache_bytes(&g, policy[i], NULL));
            drain(&e->tier);
            ig_xcache_init(&e->tier.cache, &g, policy[i], NULL, mem);
            e->tier.wave_lo = e->tier.wave_hi = 0; /* nothing is in use in the new table */
            memset(e->tier.spare, 0, sizeof e->tier.spare);
            assert_int_equal(tokens(e, 16, NULL, &finite), right);
            free(mem);
        }
    ig_engine_close(e);
}

static void test_delays_and_sizes(void **state)
{
    (void)state;
    for (unsigned seed = 1; seed <= 4; seed += THIN) {
        shaky = (struct shaky){ .seed = seed, .delay_us = seed % 2 ? 300 : 0, .short_some = 1 };
        shake = 1;
        assert_int_equal(run(2, seed < 3 ? PROMPT : 5), right);
        shake = 0;
        assert_true(shaky.n_short > 50);
    }
}

/* At a layer's first wait for a copy: everything that rows want of resident experts is computed. */
static int n_looked, n_resident;
static void look(struct ig_engine *e)
{
    enum { STRIDE = (IG_N_EMBD + 15) / 16 * 16 };
    const int32_t *start = IG_BUF(e, ROUTE, int32_t), *slot = start + IG_N_EXPERT + 1;
    if (e->batch->n == 1) return;
    n_looked++;
    n_resident += e->tier.n_there;
    for (int a = 0; a < e->tier.n_there; a++)
        for (int i = start[e->active[a]]; i < start[e->active[a] + 1]; i++)
            for (int r = 0; r < IG_N_EMBD; r++)
                assert_true(isfinite(IG_BUF(e, YD, float)[(size_t)slot[i] * STRIDE + (size_t)r]));
}

/* Work of a batch whose experts are resident goes first, to its end, while the others are read. */
static void test_order_of_work(void **state)
{
    (void)state;
    int finite;
    shaky = (struct shaky){ .seed = 6, .delay_us = 2000 };
    shake = 1;
    on_wait = look;
    struct ig_engine *e = start(1);
    const uint64_t h = tokens(e, 6, NULL, &finite);
    ig_engine_close(e);
    shake = 0;
    on_wait = NULL;
    assert_int_equal(h, right);
    assert_true(n_looked > 10 && n_resident > n_looked / 4);
}

/* A use that does not wait reads a slot that is not filled: its NaN must be seen.  One token, so
 * that no slot is used twice while its copy is under way, and no prefetch, whose end a claim may
 * wait for. */
static void test_planted_use(void **state)
{
    (void)state;
    const int32_t token = 5, zero = 0;
    const uint8_t want = 1;
    const struct ig_batch b = { 1, &token, &zero, &zero, &want };
    for (no_wait = 0; no_wait < 2; no_wait++) {
        int finite = 1;
        shaky = (struct shaky){ .seed = 1 };
        shake = 1;
        struct ig_engine *e = start(1);
        e->tier.ahead.trial = (struct ig_trial){ .n_way = 1 };
        shaky.hold = no_wait ? 500 : 0;
        ig_forward(e, &b);
        for (int i = 0; i < IG_N_VOCAB; i++) finite &= isfinite(ig_logits(e, 0)[i]) != 0;
        ig_engine_close(e);
        assert_int_equal(finite, !no_wait);
    }
    no_wait = shake = 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_threads_and_batches), cmocka_unit_test(test_policies),
        cmocka_unit_test(test_delays_and_sizes),    cmocka_unit_test(test_order_of_work),
        cmocka_unit_test(test_planted_use),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests_name("tier", tests, setup, teardown);
}
