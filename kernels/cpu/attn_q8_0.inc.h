/* attn_q8_0.inc.h -- attn.inc.h for Q8_0: K is four panels of 16 positions, V scales, then codes.
 *
 * hd is a multiple of IG_QBLOCK.
 */

#ifndef STRIP
#define STRIP 1
#endif
/* Raw scores of positions j .. j + 15. */
ALWAYS void VNAME(panel_scores)(float p[][IG_KV_BLOCK], const struct ig_xq *q, const uint8_t *k,
                                int hd, int nh, int j)
{
    const int blocks = hd / IG_QBLOCK;
    k += (size_t)(j / IG_PANEL_ROWS * blocks) * IG_KV_TILE;
#ifdef PANEL_DOTS
    PANEL_DOTS(p, q, k, blocks, nh, j);
#else

    const void *x[HEADS_MOST];
    float y[HEADS_MOST][IG_PANEL_ROWS];
    for (int i = 0; i < nh; i++) x[i] = q + i * blocks;
    PANEL_Q8_0(y, k, x, hd, nh);
    for (int i = 0; i < nh; i++) memcpy(p[i] + j, y[i], sizeof y[i]);
#endif
}

/* V's scales from dimension d on, for every position, and what takes a code's excess away. */
struct VNAME(v_scales) {
    float d[2][IG_KV_BLOCK], less[2][IG_KV_BLOCK];
};
ALWAYS void VNAME(take_scales)(struct VNAME(v_scales) * s, const void *v, int d, int n)
{
    UNROLL
    for (int b = 0; b < (n + IG_QBLOCK - 1) / IG_QBLOCK; b++) {
        const uint16_t *from = (const uint16_t *)v + (d / IG_QBLOCK + b) * IG_KV_BLOCK;
        UNROLL
        for (int j = 0; j < IG_KV_BLOCK; j += VL) {
            const V x = VLOAD_F16(from + j);
            VSTORE(s->d[b] + j, x);
            VSTORE(s->less[b] + j, VMUL(x, VSET1(-IG_KV_CODE_ZERO)));
        }
    }
}
/* VL codes of position j, u of them after where take_scales began. */
ALWAYS V VNAME(load_q8_0)(const struct VNAME(v_scales) * s, const void *v, int hd, int j, int d, int u)
{
    const uint8_t *codes = (const uint8_t *)v + (hd / IG_QBLOCK) * 2 * IG_KV_BLOCK;
    const int b = u / IG_QBLOCK;
    return VFMA(VCODES(codes + j * hd + d + u), VSET1(s->d[b][j]), VSET1(s->less[b][j]));
}

#define KV(f)              VNAME(f##_q8_0)
#define BYTES(n)           ((n) / IG_QBLOCK * (2 + IG_QBLOCK))
#define SCALES             struct VNAME(v_scales)
#define TAKE(s, v, d, n)   VNAME(take_scales)(s, v, d, n)
#define LOADV(v, hd, j, d, u) VNAME(load_q8_0)(&s, v, hd, j, d, u)
#define LOAD1(p, i)        NAN /* heads are whole vectors */
#define SCORES             VNAME(panel_scores)
#include "attn.inc.h"
