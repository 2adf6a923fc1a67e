/* amx_test.c -- kernels/cpu/amx.c over tiles in scalar code, against the scalar definition.
 *
 * amx_emulate.h has the tiles.  Build: with AMX_FLAGS, in place of libkernels' amx.o.  On a machine
 * with tiles bench-kernels compares the instructions themselves.
 */
#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <immintrin.h>

#include "amx_emulate.h"
#include "../../kernels/cpu/amx.c"

#include "../../kernels/ref/ref.h"
#include "kernels_guard.h"
#include "kernels_data.h"

enum { MAX_N = 70 };
typedef float panel_y[IG_PANEL_ROWS];

static int same(const float *x, const float *y, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (ig_f32_bits(x[i]) != ig_f32_bits(y[i]) && !(isnan(x[i]) && isnan(y[i]))) return 0;
    return 1;
}

static struct guard make_panel(int cols, enum data_kind kind)
{
    const size_t bytes = ig_fmt_row_bytes(IG_BF16, cols);
    char *std = malloc(bytes * IG_PANEL_ROWS);
    const void *row[IG_PANEL_ROWS];
    for (int r = 0; r < IG_PANEL_ROWS; r++) {
        row[r] = std + bytes * (size_t)r;
        data_row(IG_BF16, std + bytes * (size_t)r, cols, kind);
    }
    const struct guard panel = guard_alloc(ig_panel_bytes(IG_BF16, cols));
    ig_panel_pack(IG_BF16, panel.p, row, IG_PANEL_ROWS, cols);
    free(std);
    return panel;
}

/* Rows of activations: one after the other, or in an order that is none. */
static struct guard make_acts(const void **x, int cols, enum data_kind kind, int regular)
{
    const size_t row = (size_t)cols * sizeof(float);
    const struct guard all = guard_alloc(row * MAX_N);
    for (int t = 0; t < MAX_N; t++) {
        float *to = (void *)((char *)all.p + row * (size_t)(regular ? t : t * 11 % MAX_N));
        data_floats(to, cols, kind);
        x[t] = to;
    }
    return all;
}

static void check(int cols, enum data_kind wk, enum data_kind xk, int regular)
{
    static const int counts[] = { 1, 2, 5, 6, 15, 16, 17, 32, 33, 37, 38, 48, 70 };
    const struct guard panel = make_panel(cols, wk);
    const void *x[MAX_N];
    const struct guard acts = make_acts(x, cols, xk, regular);
    panel_y want[MAX_N];
    ig_panel_bf16_amx_ref(want, panel.p, x, cols, MAX_N);
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        const struct guard y = guard_alloc(sizeof(panel_y) * (size_t)counts[i]);
        ig_kernels_amx.panel[IG_BF16](y.p, panel.p, x, cols, counts[i]);
        if (!same(y.p, want[0], (size_t)counts[i] * IG_PANEL_ROWS))
            fail_msg("cols %d, n %d, weights %d, activations %d", cols, counts[i], wk, xk);
        guard_free(y);
    }
    guard_free(acts);
    guard_free(panel);
}

static void bf16_equals_its_definition(void **state)
{
    (void)state;
    static const int cols[] = { 1, 2, 15, 17, 31, 32, 33, 63, 64, 100, 128, 129, 255, 768 };
    for (int i = 0; i < (int)(sizeof cols / sizeof *cols); i++) check(cols[i], PLAIN, PLAIN, i % 2);
    for (int wk = 0; wk < N_KIND; wk++)
        for (int xk = 0; xk < N_KIND; xk++) check(171, (enum data_kind)wk, (enum data_kind)xk, 0);
}

/* Rounded activations are 2^-9 of a product away at most, and sums add little. */
static void bf16_is_near_exact(void **state)
{
    (void)state;
    enum { COLS = 2048 };
    const struct guard panel = make_panel(COLS, PLAIN);
    const void *x[MAX_N];
    const struct guard acts = make_acts(x, COLS, PLAIN, 1);
    panel_y y[MAX_N];
    static float w[COLS];
    double worst = 0;
    ig_kernels_amx.panel[IG_BF16](y, panel.p, x, COLS, MAX_N);
    for (int r = 0; r < IG_PANEL_ROWS; r++) {
        ig_panel_row(IG_BF16, w, panel.p, r, COLS);
        for (int t = 0; t < MAX_N; t++) {
            double exact = 0, size = 0;
            for (int i = 0; i < COLS; i++) {
                const double p = (double)w[i] * (double)((const float *)x[t])[i];
                exact += p;
                size += fabs(p);
            }
            worst = fmax(worst, fabs((double)y[t][r] - exact) / size);
        }
    }
    print_message("# BF16 tiles: at most 2^%.2f of the sum of magnitudes\n", log2(worst));
    assert_true(worst < 0x1p-9);
    guard_free(acts);
    guard_free(panel);
}

/* The table differs from AVX-512's in nothing else. */
static void bf16_alone(void **state)
{
    (void)state;
    for (int f = 0; f < IG_N_FMT; f++)
        assert_true((ig_kernels_amx.panel[f] == ig_kernels_avx512.panel[f]) == (f != IG_BF16));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bf16_equals_its_definition),
        cmocka_unit_test(bf16_is_near_exact),
        cmocka_unit_test(bf16_alone),
    };
    if (!(ig_cpu_features() & IG_CPU_AVX512) || !__builtin_cpu_supports("avx512bf16")) {
        printf("1..0 # SKIP this CPU lacks AVX-512 with BF16, which the rest of amx.c needs\n");
        return 0;
    }
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests_name("amx", tests, NULL, NULL);
}
