/* kernels_quantize_test.c -- activations and rows become blocks, rows become panels.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "kernels_util.h"

static void pack_is_lossless(void **state)
{
    (void)state;
    for (int f = 0; f < IG_N_FMT; f++) {
        const enum ig_fmt fmt = (enum ig_fmt)f;
        const int block = ig_fmt_cols(fmt), rows = 11;
        const int cols = block == 1 ? 37 : block == 32 ? 96 : 512;
        const size_t bytes = ig_fmt_row_bytes(fmt, cols);
        const struct guard panel = guard_alloc(ig_panel_bytes(fmt, cols));
        struct guard std[16];
        const void *row[16];
        float want[512], got[512];
        for (int r = 0; r < rows; r++) {
            std[r] = guard_alloc(bytes);
            data_row(fmt, std[r].p, cols, r % 2 ? WIDE : PLAIN);
            row[r] = std[r].p;
        }
        memset(panel.p, 0x55, ig_panel_bytes(fmt, cols));
        ig_panel_pack(fmt, panel.p, row, rows, cols);
        for (int r = 0; r < rows; r++) {
            ig_row_to_f32(fmt, want, row[r], cols);
            ig_panel_row(fmt, got, panel.p, r, cols);
            assert_memory_equal(want, got, (size_t)cols * sizeof *got);
            guard_free(std[r]);
        }
        for (int r = rows; r < PR; r++) {
            ig_panel_row(fmt, got, panel.p, r, cols);
            for (int c = 0; c < cols; c++) assert_true(got[c] == 0.0f);
        }
        guard_free(panel);
    }
}

/* Quantised values are within half a step (and the rounding of the scale to f16); only
 * Q4_0's end opposite to the largest value, which has 7 steps and not 8, may be a whole one off. */
static void check_quantised(enum ig_fmt fmt, const float x[32], const float y[32])
{
    float most = 0.0f;
    for (int i = 0; i < 32; i++) most = fabsf(x[i]) > fabsf(most) ? x[i] : most;
    const float step = fmt == IG_Q8_0 ? fabsf(most) / 127 : fabsf(most) / 8;
    for (int i = 0; i < 32; i++) {
        const int far_end = fmt == IG_Q4_0 && x[i] / most < -7.4f / 8;
        assert_true(fabsf(y[i] - x[i]) <= step * (far_end          ? 1.01f
                                                  : fmt == IG_Q8_0 ? 0.57f
                                                                   : 0.51f));
    }
}

static void rows_quantise_as_gguf_does(void **state)
{
    (void)state;
    enum { COLS = 256 };
    float x[COLS], y[COLS];
    uint8_t row[COLS / 32 * 34];
    for (int trial = 0; trial < 50; trial++) {
        data_floats(x, COLS, PLAIN);
        for (int f = IG_Q8_0; f <= IG_Q4_0; f++) {
            ig_row_from_f32((enum ig_fmt)f, row, x, COLS);
            ig_row_to_f32((enum ig_fmt)f, y, row, COLS);
            for (int i = 0; i < COLS; i += 32) check_quantised((enum ig_fmt)f, x + i, y + i);
        }
    }
    /* known blocks: 127 steps of 1; -8 steps with the sign of the largest */
    for (int i = 0; i < 32; i++) x[i] = (float)(i - 16);
    x[0] = -127.0f;
    ig_row_from_f32(IG_Q8_0, row, x, 32);
    assert_int_equal(row[0] | row[1] << 8, 0x3c00);
    assert_int_equal((int8_t)row[2], -127);
    for (int i = 1; i < 32; i++) assert_int_equal((int8_t)row[2 + i], i - 16);
    for (int i = 0; i < 32; i++) x[i] = (float)(i % 16 - 8);
    ig_row_from_f32(IG_Q4_0, row, x, 32);
    assert_int_equal(row[0] | row[1] << 8, 0x3c00);
    for (int i = 0; i < 16; i++) assert_int_equal(row[2 + i], i * 17);
    for (int i = 0; i < 32; i++) x[i] = 0x1p-149f; /* too small to scale: all zero */
    ig_row_from_f32(IG_Q4_0, row, x, 32);
    ig_row_to_f32(IG_Q4_0, y, row, 32);
    for (int i = 0; i < 32; i++) assert_true(y[i] == 0.0f);
}

static void quantize_equals_ref(void **state)
{
    const struct ig_kernels *k = variant(state);
    enum { N = 256 };
    const struct guard x = guard_alloc(N * 4);
    const struct guard want = guard_alloc(N / 32 * sizeof(struct ig_xq));
    const struct guard got = guard_alloc(N / 32 * sizeof(struct ig_xq));
    for (int kind = 0; kind < N_KIND; kind++) {
        for (int trial = 0; trial < 200; trial++) {
            data_floats(x.p, N, (enum data_kind)kind);
            if (trial % 8 == 7) {
                for (int i = 0; i < N; i++) ((float *)x.p)[i] *= ldexpf(1.0f, -100);
            }
            ig_kernels_ref.quantize(want.p, x.p, N);
            k->quantize(got.p, x.p, N);
            for (int i = 0; i < N / 32; i++) {
                const struct ig_xq *a = (struct ig_xq *)want.p + i, *b = (struct ig_xq *)got.p + i;
                assert_memory_equal(a->q, b->q, sizeof a->q);
                assert_int_equal(a->sum, b->sum);
                assert_true(same(&a->d, &b->d, sizeof a->d));
            }
        }
    }
    guard_free(x);
    guard_free(want);
    guard_free(got);
}

static void quantize_is_near_exact(void **state)
{
    (void)state;
    float x[32];
    struct ig_xq y;
    for (int trial = 0; trial < 1000; trial++) {
        int sum = 0;
        data_floats(x, 32, PLAIN);
        ig_kernels_ref.quantize(&y, x, 32);
        for (int i = 0; i < 32; i++) {
            assert_true(fabsf(x[i] - (float)y.q[i] * y.d) <= 0.50001f * y.d);
            sum += y.q[i];
        }
        assert_int_equal(sum, y.sum);
    }
    for (int i = 0; i < 32; i++) x[i] = (float)i - 15.5f + 127.0f * (float)(i == 31);
    x[31] = 127.0f; /* d = 1: halves go to the even neighbour */
    ig_kernels_ref.quantize(&y, x, 32);
    for (int i = 0; i < 31; i++) assert_int_equal(y.q[i], (int)nearbyint((double)i - 15.5));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pack_is_lossless),
        cmocka_unit_test(rows_quantise_as_gguf_does),
        cmocka_unit_test(quantize_is_near_exact),
        EACH_VARIANT(quantize_equals_ref),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests_name("kernels_quantize", tests, NULL, NULL);
}
