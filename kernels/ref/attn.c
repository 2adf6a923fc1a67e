/* attn.c -- the definition of attention over one KV block.
 *
 * sum16(p) puts position j of the block in lane j % 16, whatever lo is.
 * Flags: -ffp-contract=off, no instruction set.
 */
#include "../math.h"
#include "ref.h"

enum { KB = IG_KV_BLOCK };

/* Element d of row j at p, rows of n. */
typedef float load_fn(const void *p, int n, int j, int d);

static float load_f32(const void *p, int n, int j, int d) { return ((const float *)p)[j * n + d]; }
static float load_f16(const void *p, int n, int j, int d)
{
    return ig_fp16_to_f32(((const uint16_t *)p)[j * n + d]);
}
static float load_q8_0(const void *v, int hd, int j, int d)
{
    const uint16_t *scales = v;
    const uint8_t *codes = (const uint8_t *)(scales + hd / IG_QBLOCK * KB);
    return ig_kv_value(scales[d / IG_QBLOCK * KB + j], codes[j * hd + d]);
}

/* One head's raw scores. */
static void raw_float(load_fn *load, float p[KB], const float *q, const void *k, int hd)
{
    for (int j = 0; j < KB; j++) {
        p[j] = 0.0f;
        for (int d = 0; d < hd; d++) p[j] = fmaf(q[d], load(k, KB, d, j), p[j]);
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

/* Raw scores and V into the state of head h. */
static void fold(load_fn *load, struct ig_attn *st, int h, float p[KB], const void *v, int hd,
                 int lo, int hi, float scale, const float *bias)
{
    float most = st->m[h];
    for (int j = lo; j < hi; j++) {
        p[j] = bias ? fmaf(p[j], scale, bias[j]) : p[j] * scale;
        most = p[j] > most ? p[j] : most;
    }
    most += 0.0f; /* of -0 and +0, always +0 */

    const float c = ig_expf(st->m[h] - most);
    float lane[IG_LANES] = { 0 };
    for (int j = lo; j < hi; j++) {
        p[j] = ig_expf(p[j] - most);
        lane[j % IG_LANES] += p[j];
    }
    st->m[h] = most;
    st->l[h] = fmaf(st->l[h], c, ig_tree16(lane));

    for (int d = 0; d < hd; d++) {
        float o = st->o[h * hd + d] * c;
        for (int j = lo; j < hi; j++) o = fmaf(p[j], load(v, hd, j, d), o);
        st->o[h * hd + d] = o;
    }
}

#define ATTN(name, load, raw)                                                                      \
    void name(struct ig_attn *st, const void *q, const void *k, const void *v, const void *next,   \
              int hd, int g, int lo, int hi, float scale, const float *bias, int step)             \
    {                                                                                              \
        (void)next;                                                                                \
        for (int h = 0; h < g; h++) {                                                              \
            float p[KB];                                                                           \
            raw;                                                                                   \
            fold(load, st, h, p, v, hd, lo, hi, scale, bias ? bias + h *step : NULL);              \
        }                                                                                          \
    }
ATTN(ig_attn_f32_ref, load_f32, raw_float(load_f32, p, (const float *)q + h * hd, k, hd))
ATTN(ig_attn_f16_ref, load_f16, raw_float(load_f16, p, (const float *)q + h * hd, k, hd))
ATTN(ig_attn_q8_0_ref, load_q8_0,
     raw_q8_0(p, (const struct ig_xq *)q + h * (hd / IG_QBLOCK), k, hd))
