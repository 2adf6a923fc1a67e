/* attn.inc.h -- attention over one KV block, written once over vec_*.h.
 *
 * Include it with these defined; it undefines them again:
 *   ELEM        type of a stored K or V element
 *   LOADV(p)    VL elements at p as floats
 *   LOAD1(x)    one element as a float
 *   KV(f)       function name with the format's suffix
 *
 * Scores: vectors run over positions, K is read once for HB heads, and V is asked for
 * into L2 meanwhile (K and V of a block have the same size).  Values:
 * vectors run over the head's dimensions, V is read once for HB heads.
 * Bound: one read of the block's K and V, (hi - lo) * hd * 2 elements.
 */
enum { KV(HB) = VREGS / 8 }; /* heads at a time: HB * 4 accumulators */

/* p[i][0..63] = raw dot products of nh <= HB heads; vectors outside [lo, hi) are skipped. */
static inline __attribute__((always_inline)) void KV(scores)(float p[][IG_KV_BLOCK], const float *q,
                                                             const ELEM *k, const ELEM *v, int hd,
                                                             int nh, int lo, int hi)
{
    for (int j = lo / (4 * VL) * (4 * VL); j < hi; j += 4 * VL) {
        V s[KV(HB)][4];
        UNROLL
        for (int i = 0; i < nh; i++) {
            UNROLL
            for (int u = 0; u < 4; u++) s[i][u] = VZERO;
        }
        for (int d = 0; d < hd; d++) {
            V kd[4];
            UNROLL
            for (int u = 0; u < 4; u++) {
                if (u * VL * (int)sizeof(ELEM) % 64 == 0)
                    PREFETCH_AT(v + d * IG_KV_BLOCK + j + u * VL);
            }
            UNROLL
            for (int u = 0; u < 4; u++) kd[u] = LOADV(k + d * IG_KV_BLOCK + j + u * VL);
            UNROLL
            for (int i = 0; i < nh; i++) {
                UNROLL
                for (int u = 0; u < 4; u++) s[i][u] = VFMA(VSET1(q[i * hd + d]), kd[u], s[i][u]);
            }
        }
        UNROLL
        for (int i = 0; i < nh; i++) {
            UNROLL
            for (int u = 0; u < 4; u++) VSTORE(p[i] + j + u * VL, s[i][u]);
        }
    }
}

/* Scores -> probabilities of one head; returns the factor for its older sums.
 * Positions of the first and last vector outside [lo, hi) count as -INFINITY, then as 0. */
static inline float KV(soften)(float p[IG_KV_BLOCK], float *m, float *l, int lo, int hi,
                               float scale, const float *bias)
{
    const int first = lo / VL * VL, last = (hi + VL - 1) / VL * VL;
    if (bias)
        for (int j = first; j < last; j += VL)
            VSTORE(p + j, VFMA(VLOAD(p + j), VSET1(scale), VLOAD(bias + j)));
    else
        for (int j = first; j < last; j += VL) VSTORE(p + j, VMUL(VLOAD(p + j), VSET1(scale)));
    for (int j = first; j < lo; j++) p[j] = -INFINITY;
    for (int j = hi; j < last; j++) p[j] = -INFINITY;

    float lane[IG_LANES] = { 0 }, most = *m;
    V top = VSET1(-INFINITY);
    for (int j = first; j < last; j += VL) top = VMAX(VLOAD(p + j), top);
    VSTORE(lane, top);
    for (int i = 0; i < VL; i++) most = lane[i] > most ? lane[i] : most;
    most += 0.0f;

    const float c = ig_expf(*m - most);
    for (int j = first; j < last; j += VL) {
        VSTORE(p + j, VNAME(vexp)(VSUB(VLOAD(p + j), VSET1(most))));
    }
    for (int j = first; j < lo; j++) p[j] = 0.0f;
    for (int j = hi; j < last; j++) p[j] = 0.0f;

    V acc[VNAME(LANE_VECS)];
    for (int i = 0; i < VNAME(LANE_VECS); i++) acc[i] = VZERO;
    for (int j = first; j < last; j += VL) {
        const int i = j / VL % VNAME(LANE_VECS);
        acc[i] = VADD(acc[i], VLOAD(p + j));
    }
    for (int i = 0; i < VNAME(LANE_VECS); i++) VSTORE(lane + i * VL, acc[i]);
    *m = most;
    *l = fmaf(*l, c, ig_tree16(lane));
    return c;
}

/* o[i][d..] = o * c + sum over j of p * v, for nh heads and nv vectors at dimension d. */
static inline __attribute__((always_inline)) void KV(values)(float *o, float p[][IG_KV_BLOCK],
                                                             const float *c, const ELEM *v, int hd,
                                                             int nh, int nv, int d, int lo, int hi)
{
    V a[KV(HB)][4];
    UNROLL
    for (int i = 0; i < nh; i++) {
        UNROLL
        for (int u = 0; u < nv; u++) a[i][u] = VMUL(VLOAD(o + i * hd + d + u * VL), VSET1(c[i]));
    }
    for (int j = lo; j < hi; j++) {
        V vj[4];
        UNROLL
        for (int u = 0; u < nv; u++) vj[u] = LOADV(v + j * hd + d + u * VL);
        UNROLL
        for (int i = 0; i < nh; i++) {
            UNROLL
            for (int u = 0; u < nv; u++) a[i][u] = VFMA(VSET1(p[i][j]), vj[u], a[i][u]);
        }
    }
    UNROLL
    for (int i = 0; i < nh; i++) {
        UNROLL
        for (int u = 0; u < nv; u++) VSTORE(o + i * hd + d + u * VL, a[i][u]);
    }
}

static inline __attribute__((always_inline)) void
KV(heads)(struct ig_attn *st, int h, const float *q, const ELEM *k, const ELEM *v, int hd, int nh,
          int lo, int hi, float scale, const float *bias, int step)
{
    float p[KV(HB)][IG_KV_BLOCK], c[KV(HB)], *o = st->o + h * hd;
    KV(scores)(p, q + h * hd, k, v, hd, nh, lo, hi);
    for (int i = 0; i < nh; i++)
        c[i] = KV(soften)(p[i], st->m + h + i, st->l + h + i, lo, hi, scale,
                          bias ? bias + (h + i) * step : NULL);
    int d = 0;
    for (; d + 4 * VL <= hd; d += 4 * VL) KV(values)(o, p, c, v, hd, nh, 4, d, lo, hi);
    for (; d + VL <= hd; d += VL) KV(values)(o, p, c, v, hd, nh, 1, d, lo, hi);
    for (; d < hd; d++) {
        for (int i = 0; i < nh; i++) {
            float a = o[i * hd + d] * c[i];
            for (int j = lo; j < hi; j++) a = fmaf(p[i][j], LOAD1(v[j * hd + d]), a);
            o[i * hd + d] = a;
        }
    }
}

static void KV(attn)(struct ig_attn *st, const float *q, const void *k, const void *v, int hd,
                     int g, int lo, int hi, float scale, const float *bias, int step)
{
    int h = 0;
    for (; h + KV(HB) <= g; h += KV(HB))
        KV(heads)(st, h, q, k, v, hd, KV(HB), lo, hi, scale, bias, step);
    for (; h < g; h++) KV(heads)(st, h, q, k, v, hd, 1, lo, hi, scale, bias, step);
}

#undef ELEM
#undef LOADV
#undef LOAD1
#undef KV
