/* attn.c -- the definition of attention over one KV block.
 *
 * sum16(p) puts position j of the block in lane j % 16, whatever lo is.
 * Flags: -ffp-contract=off, no instruction set.
 */
#include "../math.h"
#include "ref.h"

enum { KB = IG_KV_BLOCK };

typedef float load_fn(const void *p, int i);

static float load_f32(const void *p, int i) { return ((const float *)p)[i]; }
static float load_f16(const void *p, int i) { return ig_fp16_to_f32(((const uint16_t *)p)[i]); }

/* One head's raw scores. */
static void raw_float(load_fn *load, float p[KB], const float *q, const void *k, int hd)
{
    for (int j = 0; j < KB; j++) {
        p[j] = 0.0f;
        for (int d = 0; d < hd; d++) p[j] = fmaf(q[d], load(k, d * KB + j), p[j]);
    }
}

static void raw_q8_0(float p[KB], const struct ig_xq *q, const void *k, int hd)
{
    const void *x = q;
    for (int j = 0; j < KB; j += IG_PANEL_ROWS) {
        float y[1][IG_PANEL_ROWS];
        ig_panel_q8_0_ref(y, (const char *)k + j / IG_PANEL_ROWS * (hd / IG_QBLOCK) * IG_KV_TILE,
                          &x, hd, 1);
        for (int r = 0; r < IG_PANEL_ROWS; r++) p[j + r] = y[0][r];
    }
}

/* Raw scores -> probabilities, with m and l of head h; what its older sums are multiplied with.
 * peak: the largest probability, 0 if that is tiny, NaN if one is. */
static float soften(struct ig_attn *st, int h, float p[KB], int lo, int hi, float scale,
                    const float *bias, float *peak)
{
    float top = -INFINITY;
    for (int j = lo; j < hi; j++) {
        p[j] = bias ? fmaf(p[j], scale, bias[j]) : p[j] * scale;
        top = p[j] > top ? p[j] : top;
    }
    const float most = (top > st->m[h] ? top : st->m[h]) + 0.0f; /* of -0 and +0, always +0 */

    const float c = ig_expf(st->m[h] - most);
    float lane[IG_LANES] = { 0 };
    for (int j = lo; j < hi; j++) {
        p[j] = ig_expf(p[j] - most);
        lane[j % IG_LANES] += p[j];
    }
    const float sum = ig_tree16(lane);
    st->m[h] = most;
    st->l[h] = fmaf(st->l[h], c, sum);
    *peak = ig_kv_peak(fmaf(sum, 0.0f, ig_expf(top - most)));
    return c;
}

/* o = o * c + the sum of p * V. */
static void sum_float(load_fn *load, float *o, const float p[KB], float c, const void *v, int hd,
                      int lo, int hi)
{
    for (int d = 0; d < hd; d++) {
        float sum = o[d] * c;
        for (int j = lo; j < hi; j++) sum = fmaf(p[j], load(v, j * hd + d), sum);
        o[d] = sum;
    }
}

static void sum_q8_0(float *o, const float p[KB], float c, float peak, const void *v, int hd,
                     int lo, int hi)
{
    const struct ig_kv_values *x = v;
    const float u = peak > 0.0f ? IG_KV_WEIGHT / peak : 0.0f;
    for (int b = 0; b < hd / IG_QBLOCK; b++, x++, o += IG_QBLOCK) {
        float scale[KB], most = 0.0f, bad = 0.0f;
        for (int j = lo; j < hi; j++) {
            scale[j] = ig_fp16_to_f32(x->d[j]);
            most = scale[j] > most ? scale[j] : most;
            bad = fmaf(scale[j], 0.0f, bad);
        }
        const float r = most > 0.0f ? 1.0f / most : 0.0f;
        const float unit = peak * (1.0f / IG_KV_WEIGHT) * (most + bad);
        int w[KB];
        for (int j = lo; j < hi; j++) w[j] = ig_kv_weight(p[j] * u, scale[j] * r);
        for (int d = 0; d < IG_QBLOCK; d++) {
            int32_t sum = 0;
            for (int j = lo; j < hi; j++) sum += w[j] * x->q[j / 4][d][j % 4];
            o[d] = fmaf((float)sum, unit, o[d] * c);
        }
    }
}

#define ATTN(name, raw, sum)                                                                       \
    void name(struct ig_attn *st, const void *q, const void *k, const void *v, const void *next,   \
              int hd, int g, int lo, int hi, float scale, const float *bias, int step)             \
    {                                                                                              \
        (void)next;                                                                                \
        for (int h = 0; h < g; h++) {                                                              \
            float p[KB], peak, *o = st->o + h * hd;                                                \
            raw;                                                                                   \
            const float c = soften(st, h, p, lo, hi, scale, bias ? bias + h * step : NULL, &peak); \
            sum;                                                                                   \
        }                                                                                          \
    }
ATTN(ig_attn_f32_ref, raw_float(load_f32, p, (const float *)q + h * hd, k, hd),
     sum_float(load_f32, o, p, c, v, hd, lo, hi))
ATTN(ig_attn_f16_ref, raw_float(load_f16, p, (const float *)q + h * hd, k, hd),
     sum_float(load_f16, o, p, c, v, hd, lo, hi))
ATTN(ig_attn_q8_0_ref, raw_q8_0(p, (const struct ig_xq *)q + h * (hd / IG_QBLOCK), k, hd),
     sum_q8_0(o, p, c, peak, v, hd, lo, hi))
