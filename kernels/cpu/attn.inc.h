/* attn.inc.h -- attention over one KV block of floats, written once over vec_*.h.
 *
 * Include it with these defined; it undefines them again:
 *   KV(f)         function name with the format's suffix
 *   BYTES(n)      bytes of n stored elements
 *   LOADV(p, i)   elements i .. i + VL - 1 at p as floats
 *   LOAD1(p, i)   one element as a float
 *
 * Up to HB heads go together, so that every K and V is loaded and made a float once for all of
 * them; nh of them, a constant in each copy of KV(heads), times NV vectors are the sums that stay
 * in registers.  Scores: vectors run over positions, and V is asked for into L2 meanwhile.  Values:
 * vectors run over the head's dimensions, and the next block's K is asked for (K and V of a block
 * have the same size).
 * Bound: one read of the block's K and V, (hi - lo) * hd * 2 elements.
 */
/* Vectors a head: sums in at most half of the registers. */
#define NV(nh) ((nh)*4 > VREGS / 2 ? 2 : 4)

/* A part of K or V is asked for in four streams, a quarter each: hardware follows a stream inside
 * its page, and has more lines under way when there are several (bench/LOG.tsv). */
ALWAYS void KV(ask)(const void *part, int hd, int element, int elements)
{
    const size_t quarter = BYTES((size_t)(IG_KV_BLOCK * hd)) / 256;
    const size_t first = BYTES((size_t)element) / 64;
    UNROLL
    for (size_t u = 0; u * 64 < BYTES((size_t)elements); u++) {
        const size_t line = first + u;
        PREFETCH_AT((const char *)part + ((line & 3) * quarter + line / 4) * 64);
    }
}

/* p[i][0..63] = raw dot products of nh heads; strips of vectors outside [lo, hi) are skipped. */
ALWAYS void KV(scores)(float p[][IG_KV_BLOCK], const void *queries, const void *k, const void *v,
                       int hd, int nh, int lo, int hi)
{
    const float *q = queries;
    const int nv = NV(nh), strip = nv * VL;
    for (int j = lo / strip * strip; j < hi; j += strip) {
        V s[HEADS_MOST][4];
        UNROLL
        for (int i = 0; i < nh; i++) {
            UNROLL
            for (int u = 0; u < nv; u++) s[i][u] = VZERO;
        }
        for (int d = 0; d < hd; d++) {
            V kd[4];
            UNROLL
            for (int u = 0; u < nv; u++) kd[u] = LOADV(k, d * IG_KV_BLOCK + j + u * VL);
            KV(ask)(v, hd, j * hd + d * strip, strip);
            UNROLL
            for (int i = 0; i < nh; i++) {
                const V qd = VSET1(q[i * hd + d]);
                UNROLL
                for (int u = 0; u < nv; u++) s[i][u] = VFMA(qd, kd[u], s[i][u]);
            }
        }
        UNROLL
        for (int i = 0; i < nh; i++) {
            UNROLL
            for (int u = 0; u < nv; u++) VSTORE(p[i] + j + u * VL, s[i][u]);
        }
    }
}

/* o[i][d..] = o * c + sum over j of p * v, for nh heads and nv vectors at dimension d. */
ALWAYS void KV(values)(float *o, float p[][IG_KV_BLOCK], const float *c, const void *v,
                       const void *next, int hd, int nh, int nv, int d, int lo, int hi)
{
    V a[HEADS_MOST][4];
    UNROLL
    for (int i = 0; i < nh; i++) {
        UNROLL
        for (int u = 0; u < nv; u++) a[i][u] = VMUL(VLOAD(o + i * hd + d + u * VL), VSET1(c[i]));
    }
    for (int j = lo; j < hi; j++) {
        V vj[4];
        UNROLL
        for (int u = 0; u < nv; u++) vj[u] = LOADV(v, j * hd + d + u * VL);
        KV(ask)(next, hd, d * IG_KV_BLOCK + j * nv * VL, nv * VL);
        UNROLL
        for (int i = 0; i < nh; i++) {
            const V pj = VSET1(p[i][j]);
            UNROLL
            for (int u = 0; u < nv; u++) a[i][u] = VFMA(pj, vj[u], a[i][u]);
        }
    }
    UNROLL
    for (int i = 0; i < nh; i++) {
        UNROLL
        for (int u = 0; u < nv; u++) VSTORE(o + i * hd + d + u * VL, a[i][u]);
    }
}

/* nh is a constant wherever this is put; q is of head h already. */
ALWAYS void KV(heads)(struct ig_attn *st, int h, const void *q, const void *k, const void *v,
                      const void *next, int hd, int nh, int lo, int hi, float scale,
                      const float *bias, int step)
{
    float p[HEADS_MOST][IG_KV_BLOCK], c[VL], *o = st->o + h * hd;
    KV(scores)(p, q, k, v, hd, nh, lo, hi);
    KV(ask)(next, hd, 0, 512); /* so that memory is not idle meanwhile */
    VNAME(soften)
    (p, c, NULL, st->m + h, st->l + h, nh, lo, hi, scale, bias ? bias + h * step : NULL, step);
    int d = 0;
    for (; d + NV(nh) * VL <= hd; d += NV(nh) * VL)
        KV(values)(o, p, c, v, next, hd, nh, NV(nh), d, lo, hi);
    for (; d + VL <= hd; d += VL) KV(values)(o, p, c, v, next, hd, nh, 1, d, lo, hi);
    for (; d < hd; d++) {
        for (int i = 0; i < nh; i++) {
            float a = o[i * hd + d] * c[i];
            for (int j = lo; j < hi; j++) a = fmaf(p[i][j], LOAD1(v, j * hd + d), a);
            o[i * hd + d] = a;
        }
    }
}

#define Q_BYTES ((size_t)hd * sizeof(float))
#include "attn_turns.inc.h"

#undef NV
#undef BYTES
#undef LOADV
#undef LOAD1
