/* kernels_test.c -- every kernel variant against the scalar definition, bit for bit,
 * and the definition against double precision.
 *
 * Build: link kernels/ref, kernels/cpu and -lcmocka; no instruction-set flags here.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "kernels_guard.h"
#include "kernels_data.h"

enum { PR = IG_PANEL_ROWS, KB = IG_KV_BLOCK, MAX_N = 64 };

typedef float panel_y[PR];

/* Each test of a variant gets it through its state; what the CPU lacks is skipped. */
static const struct ig_kernels *variant(void **state)
{
    const struct ig_kernels *k = *state;
    const unsigned need = k == &ig_kernels_avx512 ? IG_CPU_AVX512 : IG_CPU_AVX2;
    if (!(ig_cpu_features() & need)) skip();
    return k;
}

/* A packed panel at the end of a page, from `rows` random rows. */
static struct guard make_panel(enum ig_fmt fmt, int cols, int rows, enum data_kind kind)
{
    const size_t row_bytes = ig_fmt_row_bytes(fmt, cols);
    char *std = malloc(row_bytes * PR);
    const void *row[PR];
    for (int r = 0; r < PR; r++) {
        row[r] = std + row_bytes * (size_t)r;
        data_row(fmt, std + row_bytes * (size_t)r, cols, kind);
    }
    const struct guard panel = guard_alloc(ig_panel_bytes(fmt, cols));
    ig_panel_pack(fmt, panel.p, row, rows, cols);
    free(std);
    return panel;
}

/* n activation rows, each at the end of its own page. */
static void make_acts(struct guard *x, const void **xp, enum ig_fmt fmt, int cols, int n,
                      enum data_kind kind)
{
    const int blocks = ig_fmt_cols(fmt) > 1;
    for (int t = 0; t < n; t++) {
        x[t] = guard_alloc(blocks ? (size_t)cols / 32 * sizeof(struct ig_xq) : (size_t)cols * 4);
        if (blocks)
            data_xq(x[t].p, cols / 32, kind);
        else
            data_floats(x[t].p, cols, kind);
        xp[t] = x[t].p;
    }
}

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
        if (memcmp(y.p, want, bytes) != 0) {
            fail_msg("%s %s: cols %d, n %d, weights %d, activations %d", k->name, ig_fmt_name(fmt),
                     cols, counts[i], wk, xk);
        }
        guard_free(y);
    }
    for (int t = 0; t < MAX_N; t++) guard_free(x[t]);
    guard_free(panel);
}

static void panels_equal_ref(void **state)
{
    const struct ig_kernels *k = variant(state);
    static const int float_cols[] = { 1,  2,   3,   5,   15,  16,  17,  31,  33,
                                      64, 127, 128, 129, 130, 255, 700, 2048 };
    static const int block_cols[] = { 32, 64, 96, 224, 256, 288, 480, 512, 544, 768, 2048 };
    static const int super_cols[] = { 256, 512, 768, 2048 };
    for (int f = 0; f < IG_N_FMT; f++) {
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

static void check_attn(const struct ig_kernels *k, enum ig_fmt fmt, int hd, int g, int lo, int hi,
                       float m0)
{
    const size_t elem = fmt == IG_F32 ? 4 : 2, kv = (size_t)(KB * hd), no = (size_t)(g * hd);
    const struct guard key = guard_alloc(kv * elem), val = guard_alloc(kv * elem);
    const struct guard q = guard_alloc(no * 4),
                       m[2] = { guard_alloc((size_t)g * 4), guard_alloc((size_t)g * 4) };
    const struct guard l[2] = { guard_alloc((size_t)g * 4), guard_alloc((size_t)g * 4) };
    const struct guard o[2] = { guard_alloc(no * 4), guard_alloc(no * 4) };
    for (int s = 0; s < 2; s++) {
        for (int h = 0; h < g; h++) {
            ((float *)m[s].p)[h] = m0;
            ((float *)l[s].p)[h] = 0.0f;
        }
        memset(o[s].p, 0, no * 4);
    }
    /* two blocks in turn: the second meets a state that is not empty */
    for (int turn = 0; turn < 2; turn++) {
        data_floats(q.p, g * hd, PLAIN);
        data_row(fmt, key.p, KB * hd, PLAIN);
        data_row(fmt, val.p, KB * hd, turn ? PLAIN : WIDE);
        for (int s = 0; s < 2; s++) {
            struct ig_attn st = { m[s].p, l[s].p, o[s].p };
            (s ? k : &ig_kernels_ref)->attn[fmt](&st, q.p, key.p, val.p, hd, g, lo, hi, 0.7f);
        }
        if (memcmp(m[0].p, m[1].p, (size_t)g * 4) || memcmp(l[0].p, l[1].p, (size_t)g * 4) ||
            memcmp(o[0].p, o[1].p, no * 4)) {
            fail_msg("%s attention %s: hd %d, g %d, [%d, %d)", k->name, ig_fmt_name(fmt), hd, g, lo,
                     hi);
        }
    }
    const struct guard all[] = { key, val, q, m[0], m[1], l[0], l[1], o[0], o[1] };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) guard_free(all[i]);
}

static void attention_equals_ref(void **state)
{
    const struct ig_kernels *k = variant(state);
    static const int dims[] = { 8, 20, 64, 72, 128 }, groups[] = { 1, 2, 3, 4, 7, 8 };
    static const int span[][2] = { { 0, 64 }, { 0, 1 },  { 63, 64 }, { 17, 18 }, { 5, 60 },
                                   { 0, 16 }, { 0, 33 }, { 31, 49 }, { 48, 64 } };
    for (int f = IG_F32; f <= IG_F16; f++)
        for (size_t d = 0; d < sizeof dims / sizeof *dims; d++)
            for (size_t g = 0; g < sizeof groups / sizeof *groups; g++)
                for (size_t s = 0; s < sizeof span / sizeof *span; s++)
                    check_attn(k, (enum ig_fmt)f, dims[d], groups[g], span[s][0], span[s][1],
                               -INFINITY);
}

/* Scores far below the running maximum: all that is left are the smallest exps. */
static void attention_equals_ref_when_it_vanishes(void **state)
{
    const struct ig_kernels *k = variant(state);
    for (int lo = 0; lo < KB; lo += 5)
        check_attn(k, IG_F32, 32, 3, lo, lo + 5 < KB ? lo + 5 : KB, 86.0f);
}

/* The definition against softmax(q K) V in double precision. */
static void attention_is_near_exact(void **state)
{
    (void)state;
    enum { HD = 64, N = 2 * KB - 9 };
    static float q[HD], k[2][HD * KB], v[2][KB * HD], o[HD];
    float m = -INFINITY, l = 0.0f;
    data_floats(q, HD, PLAIN);
    data_floats(k[0], 2 * HD * KB, PLAIN);
    data_floats(v[0], 2 * HD * KB, PLAIN);
    struct ig_attn st = { &m, &l, o };
    ig_kernels_ref.attn[IG_F32](&st, q, k[0], v[0], HD, 1, 0, KB, 0.125f);
    ig_kernels_ref.attn[IG_F32](&st, q, k[1], v[1], HD, 1, 0, N - KB, 0.125f);
    double sum = 0, want[HD] = { 0 };
    for (int j = 0; j < N; j++) {
        double s = 0;
        for (int d = 0; d < HD; d++) s += (double)q[d] * (double)k[j / KB][d * KB + j % KB];
        const double e = exp(s * 0.125);
        sum += e;
        for (int d = 0; d < HD; d++) want[d] += e * (double)v[j / KB][j % KB * HD + d];
    }
    for (int d = 0; d < HD; d++) assert_true(fabs((double)(o[d] / l) - want[d] / sum) < 2e-7);
}

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
            data_floats(b[1].p, n, PLAIN);

            ig_kernels_ref.rmsnorm(b[2].p, b[0].p, b[1].p, n, 1e-5f);
            k->rmsnorm(b[3].p, b[0].p, b[1].p, n, 1e-5f);
            assert_memory_equal(b[2].p, b[3].p, bytes);

            ig_kernels_ref.swiglu(b[2].p, b[0].p, b[1].p, n);
            k->swiglu(b[3].p, b[0].p, b[1].p, n);
            assert_memory_equal(b[2].p, b[3].p, bytes);

            memcpy(b[2].p, b[0].p, bytes);
            memcpy(b[3].p, b[0].p, bytes);
            ig_kernels_ref.softmax(b[2].p, n);
            k->softmax(b[3].p, n);
            assert_memory_equal(b[2].p, b[3].p, bytes);
            for (int j = 0; j < 5; j++) guard_free(b[j]);
        }
    }
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
            assert_memory_equal(want.p, got.p, N / 32 * sizeof(struct ig_xq));
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

#define VARIANT(test, k)                                                                           \
    {                                                                                              \
#test " (" #k ")", test, NULL, NULL, (void *)(uintptr_t)&ig_kernels_##k                    \
    }
#define BOTH(test) VARIANT(test, avx2), VARIANT(test, avx512)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exp_is_within_two_ulps),
        cmocka_unit_test(f16_converts_exactly),
        cmocka_unit_test(bf16_rounds_to_even),
        cmocka_unit_test(pack_is_lossless),
        cmocka_unit_test(rows_quantise_as_gguf_does),
        cmocka_unit_test(quantize_is_near_exact),
        cmocka_unit_test(panels_are_near_exact),
        cmocka_unit_test(attention_is_near_exact),
        BOTH(panels_equal_ref),
        BOTH(panels_equal_ref_on_adversarial_data),
        BOTH(attention_equals_ref),
        BOTH(attention_equals_ref_when_it_vanishes),
        BOTH(vectors_equal_ref),
        BOTH(quantize_equals_ref),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests_name("kernels", tests, NULL, NULL);
}
