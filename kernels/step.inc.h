/* step.inc.h -- the small elementwise kernels of a step, one text for every ISA.
 *
 * Include it in a file compiled for one instruction set, with NAME defined as
 * that set's name, and put IG_STEP_MEMBERS into its struct ig_kernels.  Every
 * element is computed alone, so how the compiler vectorises the loops cannot
 * change a bit.
 */
#include "math.h"

#define STEP_CAT2(a, b) a##b
#define STEP_CAT(a, b)  STEP_CAT2(a, b)
#define STEP(op)        STEP_CAT(op##_, NAME)

static void STEP(axpy)(float *restrict y, float a, const float *restrict x, int n)
{
    for (int i = 0; i < n; i++) y[i] = fmaf(a, x[i], y[i]);
}

static void STEP(rope)(float *restrict x, const float *restrict cs, int hd)
{
    float *restrict hi = x + hd / 2;
    for (int i = 0; i < hd / 2; i++) {
        const float x0 = x[i], x1 = hi[i], c = cs[2 * i], s = cs[2 * i + 1];
        x[i] = fmaf(x0, c, -(x1 * s));
        hi[i] = fmaf(x1, c, x0 * s);
    }
}

static void STEP(store_f32)(void *block, const float *k, const float *v, int hd, int pos)
{
    float *kt = block, *vt = kt + (size_t)IG_KV_BLOCK * (size_t)hd + (size_t)pos * (size_t)hd;
    for (int d = 0; d < hd; d++) kt[d * IG_KV_BLOCK + pos] = k[d];
    for (int d = 0; d < hd; d++) vt[d] = v[d];
}

static void STEP(store_f16)(void *block, const float *k, const float *v, int hd, int pos)
{
    uint16_t *kt = block, *vt = kt + (size_t)IG_KV_BLOCK * (size_t)hd + (size_t)pos * (size_t)hd;
    for (int d = 0; d < hd; d++) kt[d * IG_KV_BLOCK + pos] = ig_fp16_from_f32(k[d]);
    for (int d = 0; d < hd; d++) vt[d] = ig_fp16_from_f32(v[d]);
}

/* 32 values as the Q8_0 cache holds them, kernels.h. */
struct STEP(kv_codes) {
    uint16_t d;
    int8_t q[IG_QBLOCK];
};
static struct STEP(kv_codes) STEP(kv_codes)(const float *x)
{
    struct STEP(kv_codes) b = { .d = 0x7e00 };
    float most = 0.0f, bad = 0.0f;
    for (int i = 0; i < IG_QBLOCK; i++) {
        most = fabsf(x[i]) > most ? fabsf(x[i]) : most;
        bad += x[i] * 0.0f; /* NaN from the first that is not finite on */
    }
    const uint16_t half = ig_fp16_from_f32(most / 127.0f);
    const float d = ig_fp16_to_f32(half), inv = d > 0.0f ? 1.0f / d : 0.0f;
    if (bad != 0.0f || !(d <= 65504.0f)) return b;
    b.d = half;
    for (int i = 0; i < IG_QBLOCK; i++) {
        float y = x[i] * inv;
        y = y > 127.0f ? 127.0f : y;
        y = y < -127.0f ? -127.0f : y;
        b.q[i] = (int8_t)(uint8_t)ig_f32_bits(y + IG_ROUND);
    }
    return b;
}

static void STEP(store_q8_0)(void *block, const float *k, const float *v, int hd, int pos)
{
    const int blocks = hd / IG_QBLOCK, row = pos % IG_PANEL_ROWS;
    uint8_t *tile = (uint8_t *)block + (size_t)(pos / IG_PANEL_ROWS * blocks) * IG_KV_TILE;
    struct ig_kv_values *to = (struct ig_kv_values *)block + blocks; /* K has the same size */
    for (int b = 0; b < blocks; b++, tile += IG_KV_TILE, to++) {
        const struct STEP(kv_codes) kb = STEP(kv_codes)(k + b * IG_QBLOCK);
        const struct STEP(kv_codes) vb = STEP(kv_codes)(v + b * IG_QBLOCK);
        memcpy(tile + 2 * row, &kb.d, sizeof kb.d);
        for (int i = 0; i < IG_QBLOCK; i++)
            tile[32 + i / 4 * 64 + 4 * row + i % 4] = (uint8_t)(kb.q[i] + 128);
        to->d[pos] = vb.d;
        for (int i = 0; i < IG_QBLOCK; i++) to->q[pos / 4][i][pos % 4] = vb.q[i];
    }
}

static void STEP(attn_merge)(struct ig_attn *a, const struct ig_attn *b, int hd, int g)
{
    for (int h = 0; h < g; h++) {
        const float m = a->m[h] > b->m[h] ? a->m[h] : b->m[h];
        const float ca = ig_expf(a->m[h] - m), cb = ig_expf(b->m[h] - m);
        float *restrict oa = a->o + (size_t)h * (size_t)hd;
        const float *restrict ob = b->o + (size_t)h * (size_t)hd;
        a->m[h] = m;
        a->l[h] = fmaf(b->l[h], cb, a->l[h] * ca);
        for (int d = 0; d < hd; d++) oa[d] = fmaf(ob[d], cb, oa[d] * ca);
    }
}

static void STEP(attn_sink)(struct ig_attn *a, const float *sink, int hd, int g)
{
    for (int h = 0; h < g; h++) {
        const float m = a->m[h] > sink[h] ? a->m[h] : sink[h], c = ig_expf(a->m[h] - m);
        float *restrict o = a->o + (size_t)h * (size_t)hd;
        a->m[h] = m;
        a->l[h] = fmaf(a->l[h], c, ig_expf(sink[h] - m));
        for (int d = 0; d < hd; d++) o[d] *= c;
    }
}

/* The reductions go through rule 4's lanes, which the compiler may keep in a vector. */
static void STEP(layernorm)(float *y, const float *x, const float *w, const float *b, int n,
                            float eps)
{
    float lane[IG_LANES] = { 0 }, sq[IG_LANES] = { 0 };
    for (int i = 0; i < n; i++) lane[i % IG_LANES] += x[i];
    const float mean = ig_tree16(lane) / (float)n;
    for (int i = 0; i < n; i++) {
        const float d = x[i] - mean;
        sq[i % IG_LANES] = fmaf(d, d, sq[i % IG_LANES]);
    }
    const float scale = 1.0f / sqrtf(ig_tree16(sq) / (float)n + eps);
    if (b)
        for (int i = 0; i < n; i++) y[i] = fmaf((x[i] - mean) * scale, w[i], b[i]);
    else
        for (int i = 0; i < n; i++) y[i] = (x[i] - mean) * scale * w[i];
}

static void STEP(add)(float *restrict y, const float *restrict x, int n)
{
    for (int i = 0; i < n; i++) y[i] += x[i];
}

static void STEP(clamp)(float *x, float limit, int n)
{
    for (int i = 0; i < n; i++) {
        x[i] = x[i] > limit ? limit : x[i];
        x[i] = x[i] < -limit ? -limit : x[i];
    }
}

static void STEP(sigmoid)(float *x, int n)
{
    for (int i = 0; i < n; i++) x[i] = 1.0f / (1.0f + ig_expf(-x[i]));
}

static float STEP(dot)(const float *x, const float *y, int n)
{
    float lane[IG_LANES] = { 0 };
    for (int i = 0; i < n; i++) lane[i % IG_LANES] = fmaf(x[i], y[i], lane[i % IG_LANES]);
    return ig_tree16(lane);
}

static void STEP(swiglu_oai)(float *restrict h, const float *restrict gate,
                             const float *restrict up, float limit, int n)
{
    for (int i = 0; i < n; i++) {
        const float g = gate[i] > limit ? limit : gate[i];
        float u = up[i] > limit ? limit : up[i];
        u = u < -limit ? -limit : u;
        h[i] = (u + 1.0f) * (g / (1.0f + ig_expf(-1.702f * g)));
    }
}

static void STEP(relu)(float *restrict y, const float *restrict x, int n)
{
    for (int i = 0; i < n; i++) y[i] = x[i] < 0.0f ? 0.0f : x[i];
}

#define IG_STEP_MEMBERS                                                                            \
    .attn_sink = STEP(attn_sink), .layernorm = STEP(layernorm), .add = STEP(add),                  \
    .clamp = STEP(clamp), .sigmoid = STEP(sigmoid), .dot = STEP(dot),                              \
    .swiglu_oai = STEP(swiglu_oai), .relu = STEP(relu), .axpy = STEP(axpy), .rope = STEP(rope),    \
    .store_kv = { [IG_F32] = STEP(store_f32),                                                      \
                  [IG_F16] = STEP(store_f16),                                                      \
                  [IG_Q8_0] = STEP(store_q8_0) },                                                  \
    .attn_merge = STEP(attn_merge),
