/* kernels_attn_test.c -- attention over KV blocks: every variant against the scalar definition,
 * bit for bit, and the definition against double precision.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "kernels_util.h"

static const enum ig_fmt kv_formats[] = { IG_F32, IG_F16, IG_Q8_0 };
static const enum data_kind all_plain[3] = { PLAIN, PLAIN, PLAIN };

/* V of a block; of Q8_0 the scales first, then the codes. */
static void data_v(enum ig_fmt fmt, void *v, int hd, enum data_kind kind)
{
    if (fmt != IG_Q8_0) {
        data_row(fmt, v, KB * hd, kind);
        return;
    }
    const int blocks = KB * hd / 32;
    uint8_t *row = malloc((size_t)blocks * 34);
    data_row(fmt, row, KB * hd, kind);
    for (int b = 0; b < blocks; b++) {
        struct ig_kv_values *to = (struct ig_kv_values *)v + b / KB;
        const int j = b % KB;
        memcpy(&to->d[j], row + 34 * b, 2);
        to->d[j] &= 0x7fff; /* no scale is negative */
        for (int i = 0; i < 32; i++) to->q[j / 4][i][j % 4] = (int8_t)row[34 * b + 2 + i];
    }
    free(row);
}

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
        data_v(fmt, val.p, hd, turn ? kind[2] : WIDE);
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
    static const int dims[] = { 8, 20, 64, 72, 96, 128, 288 },
                     groups[] = { 1, 2, 3, 4, 5, 6, 7, 8, 12 };
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
    static _Alignas(4) uint8_t block[2 * PART];
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
        const struct ig_kv_values *v = (const void *)(block + PART);
        for (int d = 0; d < HD; d++)
            out[1][d] =
                ig_fp16_to_f32(v[d / 32].d[pos]) * (float)v[d / 32].q[pos / 4][d % 32][pos % 4];
        for (int i = 0; i < 2 * HD / 32; i++) {
            const float *x = in[0] + i * 32, *y = out[0] + i * 32;
            float most = 0.0f, sum = 0.0f;
            for (int j = 0; j < 32; j++) most = fmaxf(most, fabsf(x[j])), sum += x[j];
            for (int j = 0; j < 32; j++)
                if (isfinite(sum) && most / 127.0f < 65520.0f) /* what rounds to an f16 */
                    assert_true(fabsf(x[j] - y[j]) <= most / 253 + 4e-6f);
                else
                    assert_true(isnan(y[j]));
        }
    }
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attention_is_near_exact),
        cmocka_unit_test(sink_is_a_score_without_value),
        cmocka_unit_test(kv_q8_0_is_near),
        EACH_VARIANT(attention_equals_ref),
        EACH_VARIANT(attention_equals_ref_on_adversarial_data),
        EACH_VARIANT(attention_equals_ref_when_it_vanishes),
        EACH_VARIANT(states_equal_ref),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests_name("kernels_attn", tests, NULL, NULL);
}
