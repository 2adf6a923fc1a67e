/* attn_q8_0.inc.h -- attention over one KV block of Q8_0, written once over vec_*.h,
 * attn_words_*.h.
 *
 * PANEL_Q8_0 names the panel kernel of the instruction set, where its words have no scores of their
 * own.  K is four panels of 16 positions; V's bytes are multiplied with weights of 15 bits, and the
 * sums over positions are exact (kernels.h).  hd is a multiple of IG_QBLOCK.  While a block is
 * folded the next one, K and V, is asked for into L2, more slowly while K is read than after
 * (bench/LOG.tsv).
 * Bound: one read of the block's K and V; with 8 heads of 64 and AVX-512 multiplies, 768 cycles of
 * two ports, and 480 of the softmax.
 */
#ifdef PANEL_Q8_0
/* Raw scores of the panels that have positions in [lo, hi). */
ALWAYS void VNAME(scores)(float p[][IG_KV_BLOCK], const struct ig_xq *q, const uint8_t *k,
                          int blocks, int nh, int lo, int hi, struct asks *a)
{
    const size_t panel = (size_t)blocks * IG_KV_TILE;
    const void *x[HEADS_MOST];
    float y[HEADS_MOST][IG_PANEL_ROWS];
    for (int i = 0; i < nh; i++) x[i] = q + i * blocks;
    for (int t = lo / IG_PANEL_ROWS; t * IG_PANEL_ROWS < hi; t++) {
        VNAME(ask)(a, 2 * blocks);
        PANEL_Q8_0(y, k + (size_t)t * panel, x, blocks * IG_QBLOCK, nh);
        for (int i = 0; i < nh; i++) memcpy(p[i] + t * IG_PANEL_ROWS, y[i], sizeof y[i]);
    }
}
#endif

/* Weights of 32 dimensions for nh heads, p being probabilities times u of kernels.h; unit[i]: what
 * a weight of 1 and a code of 1 stand for. */
ALWAYS void VNAME(weigh)(uint8_t w[][4 * IG_KV_BLOCK], float *unit, float p[][IG_KV_BLOCK],
                         const float *peak, const uint16_t *scales, int nh, int lo, int hi)
{
    float d[IG_KV_BLOCK];
    V top = VZERO, bad = VZERO;
    UNROLL
    for (int j = 0; j < IG_KV_BLOCK; j += VL) VSTORE(d + j, VLOAD_F16(scales + j));
    for (int j = 0; j < lo; j++) d[j] = 0.0f;
    for (int j = hi; j < IG_KV_BLOCK; j++) d[j] = 0.0f;
    UNROLL
    for (int j = 0; j < IG_KV_BLOCK; j += VL) {
        top = VMAX(VLOAD(d + j), top);
        bad = VFMA(VLOAD(d + j), VZERO, bad);
    }
    const float most = VTOP(top);
    const V r = VSET1(most > 0.0f ? 1.0f / most : 0.0f), round = VSET1(IG_ROUND);
    VSTORE(unit, VMUL(VMUL(VLOAD(peak), VSET1(1.0f / IG_KV_WEIGHT)), VSET1(most + VTREE(bad))));
    UNROLL
    for (int j = 0; j < IG_KV_BLOCK; j += VL) {
        const V dr = VMUL(VLOAD(d + j), r);
        UNROLL
        for (int i = 0; i < nh; i++) WEIGHTS(w[i] + 4 * j, VFMA(VLOAD(p[i] + j), dr, round));
    }
}

/* o = o * c + the sum of p * V for 32 dimensions. */
ALWAYS void VNAME(sum_codes)(float *o, uint8_t w[][4 * IG_KV_BLOCK], const float *unit,
                             const float *c, const struct ig_kv_values *v, int hd, int nh, int lo,
                             int hi, struct asks *a)
{
    enum { MOST = 4, WIDE = IG_QBLOCK / VL < 2 ? IG_QBLOCK / VL : 2 };
    for (int d = 0; d < IG_QBLOCK; d += WIDE * VL) {
        UNROLL
        for (int h = 0; h < nh; h += MOST) {
            const int n = nh - h < MOST ? nh - h : MOST;
            SUMS s[MOST][WIDE];
            UNROLL
            for (int i = 0; i < n; i++) {
                UNROLL
                for (int u = 0; u < WIDE; u++) s[i][u] = SUMS_ZERO;
            }
            for (int j = lo / 16 * 16; j < hi; j += 16) { /* weights outside are 0 */
                VNAME(ask)(a, nh > 4 ? 1 : 2);
                UNROLL
                for (int e = j; e < j + 16; e += 4) {
                    CODES q[WIDE];
                    UNROLL
                    for (int u = 0; u < WIDE; u++) q[u] = LOAD_CODES(v->q[e / 4][d + u * VL]);
                    UNROLL
                    for (int i = 0; i < n; i++) {
                        const WEIGHT x = LOAD_WEIGHT(w[h + i] + 4 * e);
                        UNROLL
                        for (int u = 0; u < WIDE; u++) s[i][u] = ADD_CODES(s[i][u], x, q[u]);
                    }
                }
            }
            UNROLL
            for (int i = 0; i < n; i++) {
                UNROLL
                for (int u = 0; u < WIDE; u++) {
                    float *to = o + (h + i) * hd + d + u * VL;
                    const V old = VMUL(VLOAD(to), VSET1(c[h + i]));
                    VSTORE(to, VFMA(SUMS_FLOAT(s[i][u]), VSET1(unit[h + i]), old));
                }
            }
        }
    }
}

/* nh is a constant wherever this is put; q is of head h already. */
ALWAYS void VNAME(heads_q8_0)(struct ig_attn *st, int h, const void *queries, const void *k,
                              const void *v, const void *next, int hd, int nh, int lo, int hi,
                              float scale, const float *bias, int step)
{
    const int blocks = hd / IG_QBLOCK, fours = blocks * (IG_QBLOCK + 2) / 2;
    struct asks a = { next, (size_t)fours * 128, next == k ? 0 : fours };
    float p[HEADS_MOST][IG_KV_BLOCK], unit[VL];
    struct VNAME(soft) x;
    uint8_t w[HEADS_MOST][4 * IG_KV_BLOCK];

    VNAME(scores)(p, queries, k, blocks, nh, lo, hi, &a);
    VNAME(soften)
    (p, &x, st->m + h, st->l + h, nh, lo, hi, scale, bias ? bias + h * step : NULL, step, 1, &a,
     nh > 4 ? blocks / 2 : blocks);
    const struct ig_kv_values *values = v;
    for (int b = 0; b < blocks; b++) {
        VNAME(weigh)(w, unit, p, x.peak, values[b].d, nh, lo, hi);
        VNAME(sum_codes)
        (st->o + h * hd + b * IG_QBLOCK, w, unit, x.c, values + b, hd, nh, lo, hi, &a);
    }
}

#define KV(f)   VNAME(f##_q8_0)
#define Q_BYTES ((size_t)hd / IG_QBLOCK * sizeof(struct ig_xq))
#include "attn_turns.inc.h"
