/* kernels_vector_test.c -- the kernels on one vector, bit for bit as defined; NaN.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "kernels_util.h"

static void vectors_equal_ref(void **state)
{
    const struct ig_kernels *k = variant(state);
    static const int sizes[] = { 1, 3, 8, 15, 16, 17, 60, 64, 128, 129, 2048 };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        for (int kind = 0; kind < N_KIND; kind++) {
            const int n = sizes[i];
            const size_t bytes = (size_t)n * 4;
            struct guard b[5]; /* two inputs, two outputs, a spare */
            for (int j = 0; j < 5; j++) b[j] = guard_alloc(bytes);
            data_floats(b[0].p, n, (enum data_kind)kind);
            data_floats(b[1].p, n, kind > EXTREME ? (enum data_kind)kind : PLAIN);

            ig_kernels_ref.rmsnorm(b[2].p, b[0].p, b[1].p, n, 1e-5f);
            k->rmsnorm(b[3].p, b[0].p, b[1].p, n, 1e-5f);
            assert_true(same(b[2].p, b[3].p, bytes));

            ig_kernels_ref.swiglu(b[2].p, b[0].p, b[1].p, n);
            k->swiglu(b[3].p, b[0].p, b[1].p, n);
            assert_true(same(b[2].p, b[3].p, bytes));

            memcpy(b[2].p, b[0].p, bytes);
            memcpy(b[3].p, b[0].p, bytes);
            ig_kernels_ref.softmax(b[2].p, n);
            k->softmax(b[3].p, n);
            assert_true(same(b[2].p, b[3].p, bytes));
            for (int j = 0; j < 5; j++) guard_free(b[j]);
        }
    }
}

/* The kernels of step.inc.h are one text, but each compiler target may vectorise it in its own way.
 */
static void steps_equal_ref(void **state)
{
    const struct ig_kernels *k = variant(state), *const both[] = { &ig_kernels_ref, k };
    enum { N_OUT = 9 };
    static const int sizes[] = { 1, 3, 8, 15, 16, 17, 60, 64, 129, 2048 };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        for (int kind = 0; kind < N_KIND; kind++) {
            const int n = sizes[i];
            const size_t bytes = (size_t)n * 4;
            struct guard x = guard_alloc(bytes), w = guard_alloc(bytes), b = guard_alloc(bytes);
            struct guard y[2][N_OUT];
            float dot[2];
            data_floats(x.p, n, (enum data_kind)kind);
            data_floats(w.p, n, kind > EXTREME ? (enum data_kind)kind : PLAIN);
            data_floats(b.p, n, PLAIN);
            for (int v = 0; v < 2; v++) {
                for (int j = 0; j < N_OUT; j++) {
                    y[v][j] = guard_alloc(bytes);
                    memcpy(y[v][j].p, x.p, bytes);
                }
                both[v]->layernorm(y[v][0].p, x.p, w.p, b.p, n, 1e-5f);
                both[v]->layernorm(y[v][1].p, x.p, w.p, NULL, n, 1e-5f);
                both[v]->add(y[v][2].p, w.p, n);
                both[v]->clamp(y[v][3].p, 0.5f, n);
                both[v]->sigmoid(y[v][4].p, n);
                both[v]->swiglu_oai(y[v][5].p, x.p, w.p, 0.75f, n);
                both[v]->axpy(y[v][6].p, *(float *)w.p, w.p, n);
                both[v]->rope(y[v][7].p, w.p, n / 2 * 2);
                both[v]->relu(y[v][8].p, x.p, n);
                dot[v] = both[v]->dot(x.p, w.p, n);
            }
            assert_true(same(&dot[0], &dot[1], sizeof dot[0]));
            for (int j = 0; j < N_OUT; j++) {
                assert_true(same(y[0][j].p, y[1][j].p, bytes));
                guard_free(y[0][j]);
                guard_free(y[1][j]);
            }
            guard_free(x);
            guard_free(w);
            guard_free(b);
        }
    }
}

/* Rule 5: what goes in as NaN, or as an infinity where integers follow, is seen in the result. */
static void nan_is_not_lost(void **state)
{
    (void)state;
    static const uint32_t odd[] = { 0x7f800000, 0xff800000, 0x7fc00000, 0xffc00000,
                                    0x7fc00001, 0xffffffff, 0x7fc00080, 0x7f800001 };
    enum { N = 64, COLS = 512 };
    const struct ig_kernels *k = &ig_kernels_ref;
    float x[N], y[N], w[N];
    for (size_t u = 0; u < sizeof odd / sizeof *odd; u++) {
        const float bad = ig_bits_f32(odd[u]);
        struct ig_xq q[COLS / IG_QBLOCK];
        const void *qp = q;
        panel_y out[1];
        data_floats(x, N, PLAIN);
        data_floats(w, N, PLAIN);
        data_xq(q, COLS / IG_QBLOCK, PLAIN);
        x[5] = bad;
        k->quantize(q, x, N);
        assert_true(isnan(q[0].d) && q[0].sum == 0 && !isnan(q[1].d));
        for (int i = 0; i < IG_QBLOCK; i++) assert_int_equal(q[0].q[i], 0);
        for (int f = IG_Q8_0; f < IG_N_FMT; f++) {
            const struct guard panel = make_panel((enum ig_fmt)f, COLS, PR, ZERO);
            k->panel[f](out, panel.p, &qp, COLS, 1);
            for (int r = 0; r < PR; r++) assert_true(isnan(out[0][r]));
            guard_free(panel);
        }
        k->rmsnorm(y, x, w, N, 1e-5f);
        assert_true(isnan(y[5]));
        if (!isnan(bad)) continue;
        assert_true(isnan(ig_expf(bad)));
        for (int i = 0; i < N; i++) assert_true(isnan(y[i]));
        k->swiglu(y, x, w, N);
        assert_true(isnan(y[5]) && !isnan(y[4]));
        k->swiglu_oai(y, w, x, 0.75f, N);
        assert_true(isnan(y[5]) && !isnan(y[4]));
        memcpy(y, x, sizeof y);
        k->sigmoid(y, N);
        assert_true(isnan(y[5]) && !isnan(y[4]));
        memcpy(y, x, sizeof y);
        k->clamp(y, 0.5f, N);
        assert_true(isnan(y[5]) && !isnan(y[4]));
        k->softmax(x, N);
        for (int i = 0; i < N; i++) assert_true(isnan(x[i]));
    }
    for (int i = 0; i < N; i++) x[i] = i % 3 ? 3e38f : -FLT_MAX; /* large is not infinite */
    struct ig_xq q[N / IG_QBLOCK];
    k->quantize(q, x, N);
    for (int i = 0; i < N; i++) assert_int_equal(q[i / 32].q[i % 32], i % 3 ? 112 : -127);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nan_is_not_lost),
        EACH_VARIANT(vectors_equal_ref),
        EACH_VARIANT(steps_equal_ref),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests_name("kernels_vector", tests, NULL, NULL);
}
