/* The split of misses between link and processor, and the trial that judges it, on simulated
 * clocks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "split.h"
#include "trial.h"

enum { MOST = 8, STEPS = 4000 };

static uint64_t seed = 5;
static double chance(void)
{
    seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
    return (double)(uint32_t)(seed >> 33) / 2147483648.0;
}

/* Whatever the rates, with the other side beside it no faster. */
static struct ig_side any_side(double most_start)
{
    struct ig_side s = { most_start * chance(), { 1e-4 * chance() + 1e-7 } };
    s.each[1] = s.each[0] * (1 + chance());
    return s;
}

static double least(double a, double b) { return a < b ? a : b; }

/* Whatever the rates: never predicted slower than either side alone, and never divided for nothing.
 */
static void never_worse_than_one_side(void **state)
{
    (void)state;
    for (int i = 0; i < STEPS; i++) {
        const struct ig_side link = any_side(1e-5), cpu = any_side(3e-5);
        int32_t split[MOST + 1];
        ig_split(&link, &cpu, MOST, 1, split);
        assert_int_equal(split[0], 0);
        for (int m = 1; m <= MOST; m++) {
            assert_in_range(split[m], 0, m);
            const double took = ig_split_seconds(&link, &cpu, split[m], m - split[m]);
            const double alone = ig_split_seconds(&link, &cpu, m, 0);
            assert_true(took <= alone);
            /* The processor alone is taken only where it is clearly sooner. */
            if (split[m] > 0)
                assert_true(took <= 1.25 * least(alone, ig_split_seconds(&link, &cpu, 0, m)));
            if (split[m] < m) assert_true(took < alone);
        }
    }
}

/* One cost model, evaluated by the generator (early or on demand: gen/plan_predict.lua) and here:
 * at the generator's chances both choices cost the same by this side's sums, too. */
static void as_the_generator_reckons(void **state)
{
    (void)state;
    char line[256];
    int n = 0;
    FILE *f = fopen("tests/data/least.txt", "r");
    assert_non_null(f);
    while (fgets(line, sizeof line, f)) {
        double copy, layer, busy, p;
        if (*line == '#') continue;
        assert_int_equal(sscanf(line, "%lf %lf %lf %lf", &copy, &layer, &busy, &p), 4);
        const struct ig_side link = { 0, { copy, copy } }, cpu = { 0, { layer, layer } };
        const double alone = ig_split_seconds(&link, &cpu, 0, 1);
        const double later = alone + ig_split_seconds(&link, &cpu, 1, 0);
        const double at_once = ig_split_seconds(&link, &cpu, 1, 1);
        /* What is in vain delays what the disk has to do next. */
        const double demand = p * later + (1 - p) * alone;
        const double early = p * at_once + (1 - p) * (alone + busy * copy);
        assert_true(demand - early < 1e-8 * later && early - demand < 1e-8 * later);
        n++;
    }
    fclose(f);
    assert_true(n > 3);
}

/* What start costs decides: hand-over and barriers as long as an expert on the link leave it alone.
 */
static void fixed_costs_count(void **state)
{
    (void)state;
    const struct ig_side link = { 4e-6, { 52e-6, 62e-6 } };
    struct ig_side cpu = { 6e-6, { 27e-6, 27e-6 } };
    int32_t split[MOST + 1];
    ig_split(&link, &cpu, MOST, 1, split);
    assert_int_equal(split[1], 0);
    cpu.start = 40e-6;
    ig_split(&link, &cpu, MOST, 1, split);
    assert_int_equal(split[1], 1);
    assert_true(split[4] < 4);
    cpu.start = 1e-3;
    ig_split(&link, &cpu, MOST, 1, split);
    for (int m = 0; m <= MOST; m++) assert_int_equal(split[m], m);
    /* A side that is not there. */
    const struct ig_side none = { 0 };
    ig_split(&link, &none, MOST, 1, split);
    assert_int_equal(split[MOST], MOST);
    ig_split(&none, &cpu, MOST, 1, split);
    assert_int_equal(split[MOST], 0);
}

/* What is copied behind the work is not missing again: the split is the sooner one, by however
 * little. */
static void copied_behind_is_the_soonest(void **state)
{
    (void)state;
    for (int i = 0; i < STEPS; i++) {
        const struct ig_side link = any_side(1e-5), cpu = any_side(3e-5);
        int32_t split[MOST + 1];
        ig_split(&link, &cpu, MOST, 0, split);
        for (int m = 1; m <= MOST; m++)
            for (int f = 0; f <= m; f++)
                assert_true(ig_split_seconds(&link, &cpu, split[m], m - split[m]) <=
                            ig_split_seconds(&link, &cpu, f, m - f));
    }
}

static const struct ig_trial_rule rule = { 32, 16, 8, 4, 1024, 0.98, 1.2 };

/* A machine: 48 layers' misses by the split of the way under trial.  `hidden` is what calibration
 * did not see of asking the processor. */
static double step(const struct ig_side *link, const struct ig_side *cpu, const int32_t *split,
                   double hidden)
{
    double s = 1.5e-3;
    for (int l = 0; l < 48; l++) {
        int m = 0;
        for (int k = 0; k < 6; k++) m += chance() < 0.22;
        const int n_cpu = m - split[m];
        s += ig_split_seconds(link, cpu, split[m], n_cpu) + (n_cpu > 0 ? hidden : 0.0);
    }
    return s;
}

/* -> the way that the trials have chosen when `steps` are over */
static int run(struct ig_trial *t, double (*took)(int way, uint32_t step), uint32_t steps)
{
    for (uint32_t i = 0; i < steps; i++) ig_trial_step(t, &rule, took(t->now, i));
    return t->best;
}

static int32_t of_way[2][MOST + 1];
static double hidden;
static const struct ig_side link_side = { 4e-6, { 52e-6, 62e-6 } },
                            cpu_side = { 6e-6, { 27e-6, 27e-6 } };
static double took_machine(int way, uint32_t i)
{
    (void)i;
    return step(&link_side, &cpu_side, of_way[way], hidden);
}

/* Measured step times put right what calibration did not see. */
static void trial_corrects_calibration(void **state)
{
    (void)state;
    ig_split(&link_side, &cpu_side, MOST, 1, of_way[0]);
    for (int m = 0; m <= MOST; m++) of_way[1][m] = m;
    struct ig_trial t;
    hidden = 0.0;
    ig_trial_init(&t, &rule, 2);
    assert_int_equal(run(&t, took_machine, 400), 0);
    assert_int_equal(t.trials, 1);
    assert_true(t.mean[0] < t.mean[1]);
    hidden = 60e-6;
    ig_trial_init(&t, &rule, 2);
    assert_int_equal(run(&t, took_machine, 400), 1);
    assert_int_equal(t.now, 1);
    /* Things change: the next trial finds out. */
    hidden = 0.0;
    assert_int_equal(run(&t, took_machine, 1024), 0);
    assert_int_equal(t.trials, 2);
}

/* A cache that fills makes every step faster than the one before: no way may gain by coming later.
 */
static double took_drift(int way, uint32_t i) { return (way ? 1.01 : 1.0) * (3.0 - 0.005 * i); }
static double took_equal(int way, uint32_t i) { return (void)way, (void)i, 1.0; }
static double took_unjudged(int way, uint32_t i) { return (void)i, way ? 1.0 : -1.0; }

static void trial_keeps_way_0(void **state)
{
    (void)state;
    struct ig_trial t;
    ig_trial_init(&t, &rule, 2);
    assert_int_equal(run(&t, took_drift, 400), 0);
    assert_int_equal(t.trials, 1);
    assert_true(t.mean[1] > t.mean[0]);
    ig_trial_init(&t, &rule, 2);
    assert_int_equal(run(&t, took_equal, 400), 0);
    /* Steps that are none to judge by leave no verdict. */
    ig_trial_init(&t, &rule, 2);
    assert_int_equal(run(&t, took_unjudged, 400), 0);
    /* One way: no trial. */
    ig_trial_init(&t, &rule, 1);
    assert_int_equal(run(&t, took_equal, 4000), 0);
    assert_int_equal(t.trials, 0);
}

/* Before the first trial way 0; in it every way has its blocks; then the best, until the next. */
static void trial_order(void **state)
{
    (void)state;
    struct ig_trial t;
    uint32_t n[2] = { 0, 0 };
    ig_trial_init(&t, &rule, 2);
    for (uint32_t i = 0; i < rule.warm + 128; i++) {
        if (i < rule.warm)
            assert_int_equal(t.now, 0);
        else
            n[t.now]++;
        ig_trial_step(&t, &rule, t.now ? 0.9 : 1.0);
    }
    assert_int_equal(n[0], 64);
    assert_int_equal(n[1], 64);
    for (uint32_t i = 0; i < rule.every; i++, ig_trial_step(&t, &rule, 0.9))
        assert_int_equal(t.now, 1);
    assert_int_equal(t.now, 0); /* the next trial's first block */
}

/* A thread that was taken away from its core makes one step long, which says nothing of the way. */
static double took_late(int way, uint32_t i)
{
    return i == 32 + 3 * 16 + 12 ? 50.0 : way ? 1.05 : 1.0;
}
static double took_late_on(int way, uint32_t i)
{
    return i == 32 + 16 + 12 ? 50.0 : way ? 0.95 : 1.0;
}
static void one_late_step_decides_nothing(void **state)
{
    (void)state;
    struct ig_trial t;
    ig_trial_init(&t, &rule, 2);
    assert_int_equal(run(&t, took_late, 400), 0);
    assert_true(t.mean[0] < 1.001 && t.mean[1] > 1.049);
    ig_trial_init(&t, &rule, 2);
    assert_int_equal(run(&t, took_late_on, 400), 1);
    assert_true(t.mean[1] < 0.951);
}

/* What is far behind has two blocks; the others have all of theirs, in the same order. */
static void far_behind_is_left_out(void **state)
{
    (void)state;
    static const double took[3] = { 1.0, 1.5, 0.97 };
    static const int order[] = { 0, 1, 2, 2, 1, 0, 0, 2, 2, 0 };
    struct ig_trial t;
    ig_trial_init(&t, &rule, 3);
    for (uint32_t i = 0; i < rule.warm + 10 * rule.block; i++) {
        if (i >= rule.warm) assert_int_equal(t.now, order[(i - rule.warm) / rule.block]);
        ig_trial_step(&t, &rule, took[t.now]);
    }
    assert_int_equal(t.trials, 1);
    assert_int_equal(t.best, 2);
    assert_true(t.mean[1] > 1.49);
    /* The next trial tries it again. */
    for (uint32_t i = 0; i < rule.every + rule.block; i++) ig_trial_step(&t, &rule, took[t.now]);
    assert_int_equal(t.now, 1);
}

static double took_apart(int way, uint32_t i) { return (void)i, way == 1 ? 1.0 : 2.0; }
static void one_way_left_ends_it(void **state)
{
    (void)state;
    struct ig_trial t;
    ig_trial_init(&t, &rule, 2);
    assert_int_equal(run(&t, took_apart, rule.warm + 4 * rule.block), 1);
    assert_int_equal(t.trials, 1);
    assert_int_equal(t.now, 1);
}

/* A text whose steps are not alike: what chance makes of a few rounds is no reason to leave way 0,
 * what all rounds say is. */
static double gains;
static double took_text(int way, uint32_t i)
{
    (void)i;
    return (1.0 + 0.6 * (chance() - 0.5)) * (way ? gains : 1.0);
}
static void chance_is_no_reason(void **state)
{
    (void)state;
    static const struct ig_trial_rule eight = { 32, 16, 4, 8, 1024, 0.98, 1.3 };
    int left[2] = { 0, 0 };
    for (int i = 0; i < 400; i++)
        for (int k = 0; k < 2; k++) {
            struct ig_trial t;
            gains = k ? 0.85 : 1.0;
            ig_trial_init(&t, &eight, 2);
            for (uint32_t s = 0; s < 400; s++) ig_trial_step(&t, &eight, took_text(t.now, s));
            assert_int_equal(t.trials, 1);
            left[k] += t.best;
        }
    assert_in_range(left[0], 0, 80);
    assert_in_range(left[1], 380, 400);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(never_worse_than_one_side),
        cmocka_unit_test(as_the_generator_reckons),
        cmocka_unit_test(fixed_costs_count),
        cmocka_unit_test(copied_behind_is_the_soonest),
        cmocka_unit_test(trial_corrects_calibration),
        cmocka_unit_test(trial_keeps_way_0),
        cmocka_unit_test(trial_order),
        cmocka_unit_test(one_late_step_decides_nothing),
        cmocka_unit_test(far_behind_is_left_out),
        cmocka_unit_test(one_way_left_ends_it),
        cmocka_unit_test(chance_is_no_reason),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests_name("split", tests, NULL, NULL);
}
