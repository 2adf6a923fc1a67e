/* kernels_math_test.c -- kernels/math.h: exponential, a 127th, f16, bf16.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "kernels_data.h"

/* Distance of got from want in units of want's last place. */
static double ulps(float got, double want)
{
    int e;
    frexp(want, &e);
    return fabs((double)got - want) / ldexp(1.0, e - 24);
}

static void exp_is_within_two_ulps(void **state)
{
    (void)state;
    double worst = 0;
    for (uint32_t u = 0; u <= ig_f32_bits(IG_EXP_MAX); u += 331) {
        const float x = ig_bits_f32(u);
        worst = fmax(worst, ulps(ig_expf(x), exp((double)x)));
        if (-x > IG_EXP_MIN) worst = fmax(worst, ulps(ig_expf(-x), exp((double)-x)));
    }
    print_message("# ig_expf: at most %.3f ulp\n", worst);
    assert_true(worst < 2.0);
    assert_true(ig_expf(0.0f) == 1.0f && ig_expf(-0.0f) == 1.0f);
    assert_true(ig_expf(-INFINITY) == ig_expf(IG_EXP_MIN) && ig_expf(IG_EXP_MIN) >= 0x1p-126f);
    assert_true(ig_expf(INFINITY) == ig_expf(IG_EXP_MAX) && ig_expf(IG_EXP_MAX) < INFINITY);
}

/* Every f16 there is and back; then floats of every exponent against the exact rounding. */
static void f16_converts_exactly(void **state)
{
    (void)state;
    for (uint32_t h = 0; h < 0x10000; h++) {
        const float x = ig_fp16_to_f32((uint16_t)h);
        const uint32_t mag = h & 0x7fff;
        if (mag > 0x7c00)
            assert_true(isnan(x) && isnan(ig_fp16_to_f32(ig_fp16_from_f32(x))));
        else
            assert_int_equal(ig_fp16_from_f32(x), h);
        if (mag < 0x7c00) {
            const int e = mag >> 10 ? (int)(mag >> 10) - 25 : -24;
            const double want = ldexp((mag & 1023) + (mag >> 10 ? 1024.0 : 0.0), e);
            assert_true(fabs((double)x) == want && !!signbit(x) == (int)(h >> 15));
        }
    }
    for (uint32_t u = 0; u < 0x7f800000; u += 1021) {
        const double x = (double)ig_bits_f32(u);
        const double step = ldexp(1.0, (x < 0x1p-14 ? -14 : ilogb(x)) - 10);
        const double want = nearbyint(x / step) * step;
        const float got = ig_fp16_to_f32(ig_fp16_from_f32((float)x));
        assert_true(want > 65504.0 ? isinf(got) : (double)got == want);
    }
}

static void bf16_rounds_to_even(void **state)
{
    (void)state;
    for (uint32_t u = 0; u < 0x7f7f8000; u += 977) {
        const uint32_t low = u & 0xffff, floor = u >> 16;
        const uint32_t want = floor + (low > 0x8000 || (low == 0x8000 && floor % 2));
        assert_int_equal(ig_bf16_from_f32(ig_bits_f32(u)), want);
    }
    assert_true(isnan(ig_bf16_to_f32(ig_bf16_from_f32(NAN))));
}

static void a_127th_is_what_division_gives(void **state)
{
    (void)state;
    for (uint32_t u = 0; u < 0x7f800000; u += 331) {
        const float x = ig_bits_f32(u), want = x / 127.0f, got = ig_over_127(x);
        assert_true(want < 0x1p-126f ? got < 0x1p-126f : got == want);
    }
    for (uint32_t i = 0; i < 4096; i++) { /* around the least normal result */
        const uint32_t u = ig_f32_bits(127.0f * 0x1p-126f) - 2048 + i;
        const float x = ig_bits_f32(u), want = x / 127.0f, got = ig_over_127(x);
        assert_true(want < 0x1p-126f ? got < 0x1p-126f : got == want);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exp_is_within_two_ulps),
        cmocka_unit_test(f16_converts_exactly),
        cmocka_unit_test(bf16_rounds_to_even),
        cmocka_unit_test(a_127th_is_what_division_gives),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests_name("kernels_math", tests, NULL, NULL);
}
