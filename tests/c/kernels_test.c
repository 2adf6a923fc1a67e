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

/* The same bits, or both NaN (rule 5). */
static int same(const void *a, const void *b, size_t bytes)
{
    const float *x = a, *y = b;
    for (size_t i = 0; i < bytes / 4; i++)
        if (ig_f32_bits(x[i]) != ig_f32_bits(y[i]) && !(isnan(x[i]) && isnan(y[i]))) return 0;
    return 1;
}

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
        if (!same(y.p, want, bytes)) {
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

static const enum ig_fmt kv_formats[] = { IG_F32, IG_F16, IG_Q8_0 };
static const enum data_kind all_plain[3] = { PLAIN, PLAIN, PLAIN };

/* kind: of q, K and V */
static void check_attn(const struct ig_kernels *k, enum ig_fmt fmt, int hd, int g, int lo, int hi,
                       float m0, const enum data_kind *kind)
{
    const size_t kv = (size_t)KB * ig_fmt_row_bytes(fmt, hd), no = (size_t)(g * hd);
    const struct guard key = guard_alloc(kv), val = guard_alloc(kv);
    const size_t nq = fmt == IG_Q8_0 ? no / 32 * sizeof(struct ig_xq) : no * 4;
    const struct guard q = guard_alloc(nq),
                       m[2] = { guard_alloc((size_t)g * 4), guard_alloc((size_t)g * 4) };
    const struct guard l[2] = { guard_alloc((size_t)g * 4), guard_alloc((size_t)g * 4) };
    const struct guard o[2] = { guard_alloc(no * 4), guard_alloc(no * 4) };
    const int step = KB + 3; /* of the biases: heads need not be aligned */
    const struct guard bias = guard_alloc((size_t)((g - 1) * step + KB) * 4);
    for (int s = 0; s < 2; s++) {
        for (int h = 0; h < g; h++) {
            ((float *)m[s].p)[h] = m0;
            ((float *)l[s].p)[h] = 0.0f;
        }
        memset(o[s].p, 0, no * 4);
    }
    data_floats(bias.p, (g - 1) * step + KB, PLAIN);
    /* two blocks in turn: the second meets a state that is not empty, and has biases */
    for (int turn = 0; turn < 2; turn++) {
        if (fmt == IG_Q8_0)
            data_xq(q.p, g * hd / 32, kind[0]);
        else
            data_floats(q.p, g * hd, kind[0]);
        data_row(fmt, key.p, KB * hd, kind[1]);
        data_row(fmt, val.p, KB * hd, turn ? kind[2] : WIDE);
        for (int s = 0; s < 2; s++) {
            struct ig_attn st = { m[s].p, l[s].p, o[s].p };
            (s ? k : &ig_kernels_ref)
                ->attn[fmt](&st, q.p, key.p, val.p, key.p, hd, g, lo, hi, 0.7f,
                            turn ? bias.p : NULL, step);
        }
        if (!same(m[0].p, m[1].p, (size_t)g * 4) || !same(l[0].p, l[1].p, (size_t)g * 4) ||
            !same(o[0].p, o[1].p, no * 4)) {
            fail_msg("%s attention %s: hd %d, g %d, [%d, %d), q %d, k %d, v %d", k->name,
                     ig_fmt_name(fmt), hd, g, lo, hi, kind[0], kind[1], kind[2]);
        }
    }
    const struct guard all[] = { key, val, q, bias, m[0], m[1], l[0], l[1], o[0], o[1] };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) guard_free(all[i]);
}

static void attention_equals_ref(void **state)
{
    const struct ig_kernels *k = variant(state);
    static const int dims[] = { 8, 20, 64, 72, 96, 128 }, groups[] = { 1, 2, 3, 4, 5, 6, 7, 8, 12 };
    static const int span[][2] = { { 0, 64 }, { 0, 1 },  { 63, 64 }, { 17, 18 }, { 5, 60 },
                                   { 0, 16 }, { 0, 33 }, { 31, 49 }, { 48, 64 } };
    for (size_t f = 0; f < sizeof kv_formats / sizeof *kv_formats; f++)
        for (size_t d = 0; d < sizeof dims / sizeof *dims; d++)
            for (size_t g = 0; g < sizeof groups / sizeof *groups; g++)
                for (size_t s = 0; s < sizeof span / sizeof *span; s++)
                    if (dims[d] % ig_fmt_cols(kv_formats[f]) == 0)
                        check_attn(k, kv_formats[f], dims[d], groups[g], span[s][0], span[s][1],
                                   -INFINITY, all_plain);
}

static void attention_equals_ref_on_adversarial_data(void **state)
{
    const struct ig_kernels *k = variant(state);
    for (int all = 0; all < N_KIND * N_KIND * N_KIND; all++) {
        const enum data_kind kind[3] = { (enum data_kind)(all % N_KIND),
                                         (enum data_kind)(all / N_KIND % N_KIND),
                                         (enum data_kind)(all / N_KIND / N_KIND) };
        for (size_t f = 0; f < sizeof kv_formats / sizeof *kv_formats; f++) {
            const int q8 = kv_formats[f] == IG_Q8_0;
            check_attn(k, kv_formats[f], q8 ? 32 : 20, 5, 0, KB, -INFINITY, kind);
            check_attn(k, kv_formats[f], q8 ? 64 : 8, 3, 5, 42, all % 2 ? 3e38f : -3e38f, kind);
        }
    }
}

/* Scores far below the running maximum: all that is left are the smallest exps. */
static void attention_equals_ref_when_it_vanishes(void **state)
{
    const struct ig_kernels *k = variant(state);
    for (int lo = 0; lo < KB; lo += 5)
        check_attn(k, IG_F32, 32, 3, lo, lo + 5 < KB ? lo + 5 : KB, 86.0f, all_plain);
}

/* The definition against softmax(q K) V in double precision. */
static void attention_is_near_exact(void **state)
{
    (void)state;
    enum { HD = 64, N = 2 * KB - 9 };
    static float q[HD], k[2][HD * KB], v[2][KB * HD], o[HD], bias[KB];
    float m = -INFINITY, l = 0.0f;
    data_floats(q, HD, PLAIN);
    data_floats(k[0], 2 * HD * KB, PLAIN);
    data_floats(v[0], 2 * HD * KB, PLAIN);
    data_floats(bias, KB, PLAIN);
    struct ig_attn st = { &m, &l, o };
    ig_kernels_ref.attn[IG_F32](&st, q, k[0], v[0], k[1], HD, 1, 0, KB, 0.125f, NULL, 0);
    ig_kernels_ref.attn[IG_F32](&st, q, k[1], v[1], k[1], HD, 1, 0, N - KB, 0.125f, bias, KB);
    double sum = 0, want[HD] = { 0 };
    for (int j = 0; j < N; j++) {
        double s = 0;
        for (int d = 0; d < HD; d++) s += (double)q[d] * (double)k[j / KB][d * KB + j % KB];
        const double e = exp(s * 0.125 + (j < KB ? 0.0 : (double)bias[j - KB]));
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

/* Storing K and V, merging two states, a sink. */
static void states_equal_ref(void **state)
{
    enum { HD = 64, G = 3, BLOCK = 2 * KB * HD };
    const struct ig_kernels *const both[] = { &ig_kernels_ref, variant(state) };
    static float kv[2][BLOCK];
    for (int kind = 0; kind < N_KIND; kind++) {
        float in[2][G * (HD + 2)], st[2][2][G * (HD + 2)];
        for (int trial = 0; trial < 50; trial++) {
            for (int i = 0; i < 2; i++) data_floats(in[i], G * (HD + 2), (enum data_kind)kind);
            for (int v = 0; v < 2; v++) {
                memcpy(st[v], in, sizeof in);
                struct ig_attn a = { st[v][0], st[v][0] + G, st[v][0] + 2 * G };
                const struct ig_attn b = { st[v][1], st[v][1] + G, st[v][1] + 2 * G };
                both[v]->attn_merge(&a, &b, HD, G);
                both[v]->attn_sink(&a, in[1], HD, G);
            }
            assert_true(same(st[0], st[1], sizeof st[0]));
        }
        for (size_t i = 0; i < sizeof kv_formats / sizeof *kv_formats; i++) {
            const enum ig_fmt f = kv_formats[i];
            memset(kv, 0, sizeof kv);
            for (int v = 0; v < 2; v++) both[v]->store_kv[f](kv[v], in[0], in[1], HD, 7 * kind);
            assert_memory_equal(kv[0], kv[1], sizeof kv[0]);
        }
    }
}

/* The stated distance of an element of the Q8_0 cache, read back from panel and row; what is not
 * finite, or too large for the scale, is not lost. */
static void kv_q8_0_is_near(void **state)
{
    (void)state;
    enum { HD = 64, PART = KB * HD / 32 * 34 };
    static uint8_t block[2 * PART];
    float in[2][HD], out[2][HD];
    for (int trial = 0; trial < 2000; trial++) {
        const int pos = trial % KB;
        const float size = ldexpf(1.0f, trial % 40 - 24);
        for (int i = 0; i < 2; i++) data_floats(in[i], HD, trial % 3 ? PLAIN : WIDE);
        for (int i = 0; i < 2 * HD; i++) in[i / HD][i % HD] *= size;
        if (trial % 7 == 0) in[0][3] = trial % 2 ? NAN : INFINITY;
        if (trial % 11 == 0) in[1][40] = 1e8f; /* over 127 beyond f16 */
        ig_kernels_ref.store_kv[IG_Q8_0](block, in[0], in[1], HD, pos);
        ig_panel_row(IG_Q8_0, out[0], block + pos / 16 * (HD / 32) * IG_KV_TILE, pos % 16, HD);
        ig_row_to_f32(IG_Q8_0, out[1], block + PART + pos * HD / 32 * 34, HD);
        for (int i = 0; i < 2 * HD / 32; i++) {
            const float *x = in[0] + i * 32, *y = out[0] + i * 32;
            float most = 0.0f, sum = 0.0f;
            for (int j = 0; j < 32; j++) most = fmaxf(most, fabsf(x[j])), sum += x[j];
            for (int j = 0; j < 32; j++)
                if (isfinite(sum) && most < 8e6f)
                    assert_true(fabsf(x[j] - y[j]) <= most / 253 + 4e-6f);
                else
                    assert_true(isnan(y[j]));
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

/* A sink is a position whose value is zero. */
static void sink_is_a_score_without_value(void **state)
{
    (void)state;
    enum { HD = 8 };
    float o[HD], m = 1.5f, l = 3.0f;
    for (int d = 0; d < HD; d++) o[d] = (float)d - 2.5f;
    for (int high = 0; high < 2; high++) {
        float got[HD], gm = m, gl = l;
        const float sink = high ? 4.0f : -1.0f;
        memcpy(got, o, sizeof o);
        struct ig_attn a = { &gm, &gl, got };
        ig_kernels_ref.attn_sink(&a, &sink, HD, 1);
        for (int d = 0; d < HD; d++)
            assert_true(fabs((double)(got[d] / gl) -
                             (double)o[d] / (3.0 + exp((double)sink - 1.5))) < 1e-6);
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
        cmocka_unit_test(sink_is_a_score_without_value),
        cmocka_unit_test(kv_q8_0_is_near),
        cmocka_unit_test(nan_is_not_lost),
        BOTH(panels_equal_ref),
        BOTH(panels_equal_ref_on_adversarial_data),
        BOTH(attention_equals_ref),
        BOTH(attention_equals_ref_on_adversarial_data),
        BOTH(attention_equals_ref_when_it_vanishes),
        BOTH(vectors_equal_ref),
        BOTH(steps_equal_ref),
        BOTH(states_equal_ref),
        BOTH(quantize_equals_ref),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests_name("kernels", tests, NULL, NULL);
}
