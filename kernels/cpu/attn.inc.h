/* attn.inc.h -- attention over one KV block of floats, written once over vec_*.h.
 *
 * Include it with these defined; it undefines them again:
 *   KV(f)         function name with the format's suffix
 *   BYTES(n)      bytes of n stored elements
 *   LOADV(p, i)   elements i .. i + VL - 1 at p as floats
 *   LOAD1(p, i)   one element as a float
 *
 * Up to HEADS_MOST heads go together, so that every K and V is loaded and made a float once for all
 * of them; nh of them, a constant in each copy of KV(heads), times NV vectors are the sums that
 * stay in registers.  Scores: vectors run over positions, and V is asked for into L2 meanwhile.
 * Values: vectors run over the head's dimensions, and the next block's K is asked for (K and V of a
 * block have the same size). Bound: one read of the block's K and V, (hi - lo) * hd * 2 elements.
 */
/* Vectors a head: sums in at most half of the registers. */
#define NV(nh) ((nh)*4 > VREGS / 2 ? 2 : 4)

/* Steps of the sums in which four lines are read, as many as are asked for. */
#define STEPS(nv) ((int)(256 / BYTES((size_t)((nv)*VL))))

/* K or V of a block. */
ALWAYS struct asks KV(part)(const void *at, int hd, int wanted)
{
    const size_t bytes = BYTES((size_t)(IG_KV_BLOCK * hd));
    return (struct asks){ at, bytes / 2, wanted ? (int)(bytes / 256) : 0 };
}

/* Step e's part of four lines: no count is kept, and what lies behind may be asked for. */
ALWAYS void KV(ask)(const struct asks *a, int e, int nv)
{
    UNROLL
    for (int i = e * 4 / STEPS(nv); i < (e + 1) * 4 / STEPS(nv); i++) VNAME(ask_line)(a, i);
}

/* s += q[d] * K of nv vectors of positions from j on. */
ALWAYS void KV(dot)(V s[][4], const float *q, const void *k, int hd, int nh, int nv, int j, int d)
{
    V kd[4];
    UNROLL
    for (int u = 0; u < nv; u++) kd[u] = LOADV(k, d * IG_KV_BLOCK + j + u * VL);
    UNROLL
    for (int i = 0; i < nh; i++) {
        const V qd = VSET1(q[i * hd + d]);
        UNROLL
        for (int u = 0; u < nv; u++) s[i][u] = VFMA(qd, kd[u], s[i][u]);
    }
}

/* p[i][0..63] = raw dot products of nh heads; strips of vectors outside [lo, hi) are skipped. */
ALWAYS void KV(scores)(float p[][IG_KV_BLOCK], const float *q, const void *k, int hd, int nh,
                       int lo, int hi, struct asks *a)
{
    const int nv = NV(nh), strip = nv * VL;
    for (int j = lo / strip * strip; j < hi; j += strip) {
        V s[HEADS_MOST][4];
        UNROLL
        for (int i = 0; i < nh; i++) {
            UNROLL
            for (int u = 0; u < nv; u++) s[i][u] = VZERO;
        }
        const int whole = hd / STEPS(nv) * STEPS(nv);
        for (int d = 0; d < whole; d += STEPS(nv)) {
            UNROLL
            for (int e = 0; e < STEPS(nv); e++) {
                KV(ask)(a, e, nv);
                KV(dot)(s, q, k, hd, nh, nv, j, d + e);
            }
            a->at += 128;
        }
        for (int d = whole; d < hd; d++) KV(dot)(s, q, k, hd, nh, nv, j, d);
        UNROLL
        for (int i = 0; i < nh; i++) {
            UNROLL
            for (int u = 0; u < nv; u++) VSTORE(p[i] + j + u * VL, s[i][u]);
        }
    }
}

/* s += p * V of position j, nv vectors from dimension d on. */
ALWAYS void KV(add)(V s[][4], float p[][IG_KV_BLOCK], const void *v, int hd, int nh, int nv, int d,
                    int j)
{
    V vj[4];
    UNROLL
    for (int u = 0; u < nv; u++) vj[u] = LOADV(v, j * hd + d + u * VL);
    UNROLL
    for (int i = 0; i < nh; i++) {
        const V pj = VSET1(p[i][j]);
        UNROLL
        for (int u = 0; u < nv; u++) s[i][u] = VFMA(pj, vj[u], s[i][u]);
    }
}

/* o[i][d..] = o * c + sum over j of p * v, for nh heads and nv vectors at dimension d. */
ALWAYS void KV(values)(float *o, float p[][IG_KV_BLOCK], const float *c, const void *v, int hd,
                       int nh, int nv, int d, int lo, int hi, struct asks *a)
{
    V s[HEADS_MOST][4];
    UNROLL
    for (int i = 0; i < nh; i++) {
        UNROLL
        for (int u = 0; u < nv; u++) s[i][u] = VMUL(VLOAD(o + i * hd + d + u * VL), VSET1(c[i]));
    }
    const int whole = lo + (hi - lo) / STEPS(nv) * STEPS(nv);
    for (int j = lo; j < whole; j += STEPS(nv)) {
        UNROLL
        for (int e = 0; e < STEPS(nv); e++) {
            KV(ask)(a, e, nv);
            KV(add)(s, p, v, hd, nh, nv, d, j + e);
        }
        a->at += 128;
    }
    for (int j = whole; j < hi; j++) KV(add)(s, p, v, hd, nh, nv, d, j);
    UNROLL
    for (int i = 0; i < nh; i++) {
        UNROLL
        for (int u = 0; u < nv; u++) VSTORE(o + i * hd + d + u * VL, s[i][u]);
    }
}

/* nh is a constant wherever this is put; q is of head h already. */
ALWAYS void KV(heads)(struct ig_attn *st, int h, const void *q, const void *k, const void *v,
                      const void *next, int hd, int nh, int lo, int hi, float scale,
                      const float *bias, int step)
{
    float p[HEADS_MOST][IG_KV_BLOCK], *o = st->o + h * hd;
    struct VNAME(soft) x;
    struct asks a = KV(part)(v, hd, 1);
    KV(scores)(p, q, k, hd, nh, lo, hi, &a);
    a = KV(part)(next, hd, next != k);
    VNAME(soften)
    (p, &x, st->m + h, st->l + h, nh, lo, hi, scale, bias ? bias + h * step : NULL, step, 0, &a, 1);
    int d = 0;
    for (; d + NV(nh) * VL <= hd; d += NV(nh) * VL)
        KV(values)(o, p, x.c, v, hd, nh, NV(nh), d, lo, hi, &a);
    for (; d + VL <= hd; d += VL) KV(values)(o, p, x.c, v, hd, nh, 1, d, lo, hi, &a);
    for (; d < hd; d++) {
        for (int i = 0; i < nh; i++) {
            float sum = o[i * hd + d] * x.c[i];
            for (int j = lo; j < hi; j++) sum = fmaf(p[i][j], LOAD1(v, j * hd + d), sum);
            o[i * hd + d] = sum;
        }
    }
}

#define Q_BYTES ((size_t)hd * sizeof(float))
#include "attn_turns.inc.h"

#undef NV
#undef STEPS
#undef BYTES
#undef LOADV
#undef LOAD1
