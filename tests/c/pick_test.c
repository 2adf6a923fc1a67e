/* Which layers of a batch the processor takes, against the two sides alone and against all choices.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "pick.h"

enum { LAYERS = 10, ROUNDS = 2000 };

static uint64_t seed = 11;
static double chance(void)
{
    seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
    return (double)(uint32_t)(seed >> 33) / 2147483648.0;
}

/* What a plan takes, told another way: the i-th layer of the link comes when the one before it has
 * and when the one before that has been computed. */
static double takes(const struct ig_pick *p, unsigned cpu_layers, int n)
{
    double come[LAYERS + 2] = { 0 }, used[LAYERS + 2] = { 0 }, now = 0.0;
    const int both = cpu_layers != 0 && cpu_layers != (1u << LAYERS) - 1;
    int k = 2;
    for (int i = 0; i < LAYERS; i++) {
        if (cpu_layers >> i & 1) {
            now += ig_pick_cpu(p, n, both);
            continue;
        }
        come[k] = (come[k - 1] > used[k - 2] ? come[k - 1] : used[k - 2]) +
                  p->link * (both ? p->link_beside : 1.0);
        now = now > come[k] ? now : come[k];
        used[k++] = now;
    }
    return now;
}

static struct ig_pick machine(void)
{
    return (struct ig_pick){ .link = 7e-3 * chance() + 1e-5,
                             .start = 1e-4 * chance(),
                             .each = 6e-5 * chance() + 1e-7,
                             .row = 2e-5 * chance(),
                             .link_beside = 1.0 + chance() / 4,
                             .cpu_beside = 1.0 + chance() / 4,
                             .n_expert = 128,
                             .n_used = 8 };
}

static void never_slower_than_either(void **state)
{
    (void)state;
    int mixed = 0;
    for (int i = 0; i < ROUNDS; i++) {
        const struct ig_pick p = machine();
        const int n = 1 + (int)(300 * chance());
        uint8_t by_cpu[LAYERS];
        unsigned mask = 0;
        const double s = ig_pick_layers(&p, LAYERS, n, by_cpu);
        for (int l = 0; l < LAYERS; l++) mask |= (unsigned)by_cpu[l] << l;
        assert_true(s <= takes(&p, 0, n) + 1e-12);
        assert_true(s <= takes(&p, (1u << LAYERS) - 1, n) + 1e-12);
        assert_true(s - takes(&p, mask, n) < 1e-12 && takes(&p, mask, n) - s < 1e-12);
        mixed += mask != 0 && mask != (1u << LAYERS) - 1;
    }
    assert_in_range(mixed, ROUNDS / 20, ROUNDS);
}

/* Even shares are near the best of all 2^10 choices; both sides only where that is clearly sooner
 * than one. */
static void near_the_best(void **state)
{
    (void)state;
    double worst = 1.0;
    for (int i = 0; i < 40; i++) {
        const struct ig_pick p = machine();
        const int n = 1 + (int)(100 * chance());
        uint8_t by_cpu[LAYERS];
        double best = 1e9;
        for (unsigned mask = 0; mask < 1u << LAYERS; mask++) {
            const double s = takes(&p, mask, n);
            if (s < best) best = s;
        }
        const double s = ig_pick_layers(&p, LAYERS, n, by_cpu), link = takes(&p, 0, n),
                     cpu = takes(&p, (1u << LAYERS) - 1, n), one = link < cpu ? link : cpu;
        if (s < one) assert_true(s < 0.85 * one);
        if (s < one && s / best > worst) worst = s / best;
        if (s >= one && 0.85 * one / best > worst) worst = 0.85 * one / best;
    }
    assert_true(worst < 1.05);
}

static void threshold(void **state)
{
    (void)state;
    uint8_t by_cpu[LAYERS];
    struct ig_pick p = {
        .link = 6.7e-3, .start = 1e-4, .each = 45e-6, .row = 8e-6, .n_expert = 128, .n_used = 8
    };
    const int most = ig_pick_most(&p, LAYERS, 2048, by_cpu);
    for (int n = 1; n < 2048; n += 13) {
        int any = 0;
        ig_pick_layers(&p, LAYERS, n, by_cpu);
        for (int i = 0; i < LAYERS; i++) any |= by_cpu[i];
        assert_int_equal(any, n <= most);
    }
    assert_in_range(most, 1, 2047);
    p.row = 1e-3;
    assert_true(ig_pick_most(&p, LAYERS, 2048, by_cpu) < most);
    p.each = 0.0; /* no processor */
    assert_int_equal(ig_pick_most(&p, LAYERS, 2048, by_cpu), 0);
    p.link = 0.0;
    assert_true(ig_pick_layers(&p, LAYERS, 4, by_cpu) < 0.0);
    p.each = 45e-6; /* no link */
    assert_int_equal(ig_pick_most(&p, LAYERS, 2048, by_cpu), 2048);
}

static void distinct_experts(void **state)
{
    (void)state;
    const struct ig_pick p = { .n_expert = 16, .n_used = 4 };
    assert_true(ig_pick_experts(&p, 0) < 1e-9);
    assert_true(ig_pick_experts(&p, 1) > 3.999 && ig_pick_experts(&p, 1) < 4.001);
    /* 8 rows as 2^2.1 that choose at random: 16 (1 - 0.75^4.2871). */
    assert_true(ig_pick_experts(&p, 8) > 11.338 && ig_pick_experts(&p, 8) < 11.340);
    assert_true(ig_pick_experts(&p, 1000) > 15.999);
}

/* What was seen is reckoned with, for batches of that size alone; what was seen beside the link,
 * apart. */
static void seen(void **state)
{
    (void)state;
    struct ig_pick p = machine();
    const double at_64 = ig_pick_cpu(&p, 64, 0), beside = ig_pick_cpu(&p, 64, 1),
                 at_63 = ig_pick_cpu(&p, 63, 0), at_127 = ig_pick_cpu(&p, 127, 0);
    assert_true(fabs(beside - at_64 * p.cpu_beside) < 1e-12);
    ig_pick_saw(&p, 100, 0, 3 * ig_pick_cpu(&p, 100, 0));
    assert_true(fabs(ig_pick_cpu(&p, 64, 0) - 3 * at_64) < 1e-12);
    assert_true(fabs(ig_pick_cpu(&p, 127, 0) - 3 * at_127) < 1e-12);
    assert_true(fabs(ig_pick_cpu(&p, 64, 1) - 3 * beside) < 1e-12);
    assert_true(fabs(ig_pick_cpu(&p, 63, 0) - at_63) < 1e-15);
    ig_pick_saw(&p, 64, 1, 5 * at_64);
    ig_pick_saw(&p, 64, 1, 7 * at_64);
    assert_true(fabs(ig_pick_cpu(&p, 64, 1) - 6 * at_64) < 1e-12);
    assert_true(fabs(ig_pick_cpu(&p, 64, 0) - 3 * at_64) < 1e-12);
    ig_pick_saw(&p, 1 << 30, 0, 1.0); /* any size */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(never_slower_than_either),
        cmocka_unit_test(near_the_best),
        cmocka_unit_test(threshold),
        cmocka_unit_test(distinct_experts),
        cmocka_unit_test(seen),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests_name("pick", tests, NULL, NULL);
}
