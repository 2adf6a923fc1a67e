/* kernels_panel_test.c -- panel times activations: every variant against the scalar definition,
 * bit for bit, and the definition against double precision.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "kernels_util.h"

static void check_panel(const struct ig_kernels *k, enum ig_fmt fmt, int cols, enum data_kind wk,
                        enum data_kind xk)
{
    static const int counts[] = { 1, 2, 3, 7, 8, 33, 64 };
    const struct guard panel = make_panel(fmt, cols, PR, wk);
    struct guard x[MAX_N];
    const void *xp[MAX_N];
    make_acts(x, xp, fmt, cols, MAX_N, xk);
    panel_y want[MAX_N];
    ig_kernels_ref.panel[fmt](want, panel.p, xp, cols, MAX_N);

    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        const size_t bytes = sizeof(panel_y) * (size_t)counts[i];
        const struct guard y = guard_alloc(bytes);
        k->panel[fmt](y.p, panel.p, xp, cols, counts[i]);
        if (!same(y.p, want, bytes)) {
            fail_msg("%s %s: cols %d, n %d, weights %d, activations %d", k->name, ig_fmt_name(fmt),
                     cols, counts[i], wk, xk);
        }
        guard_free(y);
    }
    for (int t = 0; t < MAX_N; t++) guard_free(x[t]);
    guard_free(panel);
}

/* A variant may have the first one's panels, whose test that is. */
static int is_anothers(const struct ig_kernels *k, int fmt)
{
    return k != first_variant && k->panel[fmt] == first_variant->panel[fmt];
}

static void panels_equal_ref(void **state)
{
    const struct ig_kernels *k = variant(state);
    static const int float_cols[] = { 1,  2,   3,   5,   15,  16,  17,  31,  33,
                                      64, 127, 128, 129, 130, 255, 700, 2048 };
    static const int block_cols[] = { 32, 64, 96, 224, 256, 288, 480, 512, 544, 768, 2048 };
    static const int super_cols[] = { 256, 512, 768, 2048 };
    for (int f = 0; f < IG_N_FMT; f++) {
        if (is_anothers(k, f)) continue;
        const int block = ig_fmt_cols((enum ig_fmt)f);
        const int *cols = block == 1 ? float_cols : block == 32 ? block_cols : super_cols;
        const size_t n = block == 1    ? sizeof float_cols
                         : block == 32 ? sizeof block_cols
                                       : sizeof super_cols;
        for (size_t i = 0; i < n / sizeof *cols; i++) {
            check_panel(k, (enum ig_fmt)f, cols[i], PLAIN, PLAIN);
        }
    }
}

static void panels_equal_ref_on_adversarial_data(void **state)
{
    const struct ig_kernels *k = variant(state);
    for (int f = 0; f < IG_N_FMT; f++) {
        if (is_anothers(k, f)) continue;
        for (int wk = 0; wk < N_KIND; wk++) {
            for (int xk = 0; xk < N_KIND; xk++) {
                const int block = ig_fmt_cols((enum ig_fmt)f);
                const int cols = block == 1 ? 171 : block == 32 ? 352 : 512;
                check_panel(k, (enum ig_fmt)f, cols, (enum data_kind)wk, (enum data_kind)xk);
            }
        }
    }
}

/* |w * x| of every column; where a weight is a difference, of both its terms. */
static double size_of(enum ig_fmt fmt, const void *panel, int r, const float *w, const double *x,
                      int cols)
{
    const struct ig_qfmt *f = ig_qfmt(fmt);
    const uint8_t *tile = panel;
    struct ig_qcodes c;
    double size = 0;
    for (int i = 0; i < cols; i++) {
        double m = 0;
        if (f && f->min) {
            if (i % f->cols == 0) {
                ig_qcodes_from_tile(f, &c, tile, r);
                tile += PR * f->bytes;
            }
            m = fabs((double)ig_fp16_to_f32(c.m));
            if (f->n_sub) m *= c.mn[i % f->cols / ig_qsub_cols(f)];
        }
        size += (fabs((double)w[i]) + 2 * m) * fabs(x[i]);
    }
    return size;
}

/* The definition itself: |y - exact| <= (longest chain) * 2^-24 * sum |w * x|, where a
 * chain is a part's additions, its scale's rounding and the tree's three. */
static void panels_are_near_exact(void **state)
{
    (void)state;
    for (int f = 0; f < IG_N_FMT; f++) {
        const enum ig_fmt fmt = (enum ig_fmt)f;
        const int blocks = ig_fmt_cols(fmt) > 1, cols = blocks ? 2048 : 1999;
        const struct guard panel = make_panel(fmt, cols, PR, PLAIN);
        struct guard x[1];
        const void *xp[1];
        make_acts(x, xp, fmt, cols, 1, PLAIN);
        panel_y y[1];
        ig_kernels_ref.panel[f](y, panel.p, xp, cols, 1);
        /* a minimum is a second term a block, and rounds the weight itself */
        const int chain = blocks ? cols / 16 / IG_BLOCK_PARTS + 7 : cols / IG_FLOAT_PARTS + 6;
        float *w = malloc((size_t)cols * sizeof *w);
        double *xc = malloc((size_t)cols * sizeof *xc);
        for (int c = 0; c < cols; c++) {
            const struct ig_xq *xq = xp[0];
            xc[c] = blocks ? (double)xq[c / 32].q[c % 32] * (double)xq[c / 32].d
                           : (double)((const float *)xp[0])[c];
        }
        for (int r = 0; r < PR; r++) {
            double exact = 0;
            ig_panel_row(fmt, w, panel.p, r, cols);
            for (int c = 0; c < cols; c++) exact += (double)w[c] * xc[c];
            const double size = size_of(fmt, panel.p, r, w, xc, cols);
            assert_true(fabs((double)y[0][r] - exact) <= chain * 0x1p-24 * size);
        }
        free(w);
        free(xc);
        guard_free(x[0]);
        guard_free(panel);
    }
}

#if defined(__aarch64__)
/* What the tests of one variant only rely on. */
static void i8mm_differs_in_blocks_only(void **state)
{
    (void)state;
    struct ig_kernels k = ig_kernels_i8mm;
    k.name = ig_kernels_neon.name;
    for (int f = 0; f < IG_N_FMT; f++) {
        const int same_panel = k.panel[f] == ig_kernels_neon.panel[f];
        assert_int_equal(same_panel, ig_fmt_cols((enum ig_fmt)f) == 1);
        k.panel[f] = ig_kernels_neon.panel[f];
    }
    assert_memory_equal(&k, &ig_kernels_neon, sizeof k);
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(panels_are_near_exact),
#if defined(__aarch64__)
        cmocka_unit_test(i8mm_differs_in_blocks_only),
#endif
        EACH_PANELS(panels_equal_ref),
        EACH_PANELS(panels_equal_ref_on_adversarial_data),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests_name("kernels_panel", tests, NULL, NULL);
}
