/* The stride controller on a simulated link, and its rules one by one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "stride.h"

enum { LAYERS = 6, STEPS = 3000, DROP_FROM = 1000, DROP_TO = 2000 };

static uint64_t seed = 3;
static double noise(void)
{
    seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
    return 0.95 + 0.1 * (double)(uint32_t)(seed >> 33) / 2147483648.0;
}

/* One expert a layer: its copy starts s layers before its use and takes `copy` layer times. */
static void one_step(struct ig_stride *layer, double copy)
{
    for (int l = 0; l < LAYERS; l++) {
        const double spare = layer[l].s - copy * noise();
        if (spare < 0) ig_stride_wait(&layer[l]);
        if (spare >= 1) ig_stride_overload(&layer[l]);
    }
}

static void bandwidth_drop(void **state)
{
    (void)state;
    /* The bounds of a plan whose S is 0.8 (gen/plan_prefetch.lua): links four times faster and
     * slower. */
    const uint8_t planned[LAYERS][3] = { { 1, 1, 4 }, { 1, 1, 4 }, { 1, 1, 4 },
                                         { 1, 1, 4 }, { 1, 1, 8 }, { 1, 1, 3 } };
    const struct ig_stride_rule rule = ig_stride_usual;
    struct ig_stride layer[LAYERS];
    static uint8_t past[IG_STRIDE_PAST][LAYERS];
    struct ig_stride_log log = { .at = past[0] };
    ig_stride_init(layer, LAYERS, planned);
    uint64_t rose = 0, fell = 0;

    for (uint64_t i = 0; i < STEPS; i++) {
        const int slow = i >= DROP_FROM && i < DROP_TO;
        one_step(layer, slow ? 4 * 0.8 : 0.8);
        ig_stride_step(layer, LAYERS, &rule, i);
        ig_stride_note(&log, layer, LAYERS, i);
        for (int l = 0; l < LAYERS; l++) {
            assert_in_range(layer[l].s, planned[l][1], planned[l][2]);
            if (i == DROP_FROM - 1 || i == STEPS - 1) assert_int_equal(layer[l].s, 1);
            /* ceil(3.2), noise and all; the last layer's bound is nearer */
            if (i == DROP_TO - 1) assert_int_equal(layer[l].s, l == LAYERS - 1 ? 3 : 4);
        }
        if (!rose && layer[0].s == 4) rose = i;
        if (!fell && i >= DROP_TO && layer[0].s == 1) fell = i;
    }
    /* Three moves, each after at most two windows. */
    assert_in_range(rose, DROP_FROM, DROP_FROM + 6 * rule.window);
    assert_in_range(fell, DROP_TO, DROP_TO + 6 * rule.window);
    /* What bench shows of it: a sample every 64 steps. */
    assert_int_equal(log.every, 64);
    assert_int_equal(log.n, (STEPS + 63) / 64);
    for (uint32_t i = 0; i < log.n; i++) {
        const uint64_t at = (uint64_t)i * log.every;
        if (at < DROP_FROM) assert_int_equal(past[i][0], 1);
        if (at >= rose && at < DROP_TO) assert_int_equal(past[i][0], 4);
        if (at >= fell) assert_int_equal(past[i][0], 1);
    }
}

static void link_too_slow_for_any(void **state)
{
    (void)state;
    const struct ig_stride_rule rule = { 4, 4, 16 };
    const uint8_t planned[LAYERS][3] = { { 0, 2, 5 }, { 1, 2, 5 }, { 2, 2, 5 },
                                         { 3, 2, 5 }, { 9, 2, 5 }, { 255, 2, 5 } };
    const uint8_t clamped[LAYERS] = { 2, 2, 2, 3, 5, 5 };
    struct ig_stride layer[LAYERS];
    ig_stride_init(layer, LAYERS, planned);
    for (int l = 0; l < LAYERS; l++) assert_int_equal(layer[l].s, clamped[l]);
    for (uint64_t i = 0; i < 500; i++) {
        one_step(layer, 50);
        ig_stride_step(layer, LAYERS, &rule, i);
    }
    for (int l = 0; l < LAYERS; l++) assert_int_equal(layer[l].s, 5);
    for (uint64_t i = 0; i < 500; i++) {
        one_step(layer, 0.01);
        ig_stride_step(layer, LAYERS, &rule, i);
    }
    for (int l = 0; l < LAYERS; l++) assert_int_equal(layer[l].s, 2);
}

static void rare_events_are_forgotten(void **state)
{
    (void)state;
    const struct ig_stride_rule rule = { 3, 3, 10 };
    const uint8_t planned[1][3] = { { 4, 1, 8 } };
    struct ig_stride layer[1];
    ig_stride_init(layer, 1, planned);
    for (uint64_t i = 0; i < 10000; i++) {
        if (i % 10 < 3) ig_stride_wait(layer); /* 3 a window: at the threshold, not past it */
        if (i % 10 < 3) ig_stride_overload(layer);
        assert_int_equal(ig_stride_step(layer, 1, &rule, i), 0);
    }
    assert_int_equal(layer->s, 4);
}

static void waiting_wins(void **state)
{
    (void)state;
    const struct ig_stride_rule rule = { 3, 3, 10 };
    const uint8_t planned[1][3] = { { 4, 1, 8 } };
    struct ig_stride layer[1];
    ig_stride_init(layer, 1, planned);
    for (int i = 0; i < 4; i++) ig_stride_wait(layer), ig_stride_overload(layer);
    assert_int_equal(ig_stride_step(layer, 1, &rule, 0), 1);
    assert_int_equal(layer->s, 5);
    assert_int_equal(layer->wait + layer->overload, 0);
    for (int i = 0; i < 100000; i++) ig_stride_wait(layer); /* a counter does not wrap */
    assert_int_equal(layer->wait, UINT16_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bandwidth_drop),
        cmocka_unit_test(link_too_slow_for_any),
        cmocka_unit_test(rare_events_are_forgotten),
        cmocka_unit_test(waiting_wins),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests_name("stride", tests, NULL, NULL);
}
