/* vector.inc.h -- the kernels on one vector, written once over vec_*.h.
 *
 * Lanes of rule 4 are IG_LANES / VL vectors.  What is left after the whole
 * groups of 16 goes through the scalar functions of math.h, into the lane it
 * belongs to.
 */
enum { VNAME(LANE_VECS) = IG_LANES / VL };

static inline V VNAME(vexp)(V x)
{
    x = VMIN(VSET1(IG_EXP_MAX), x); /* in this order a NaN stays */
    x = VMAX(VSET1(IG_EXP_MIN), x);
    const V t = VFMA(x, VSET1(IG_LOG2E), VSET1(IG_ROUND));
    const V n = VSUB(t, VSET1(IG_ROUND));
    V r = VFMA(n, VSET1(-IG_LN2_HI), x);
    r = VFMA(n, VSET1(-IG_LN2_LO), r);
    V q = VFMA(VSET1(IG_EXP_Q4), r, VSET1(IG_EXP_Q3));
    q = VFMA(q, r, VSET1(IG_EXP_Q2));
    q = VFMA(q, r, VSET1(IG_EXP_Q1));
    q = VFMA(q, r, VSET1(IG_EXP_Q0));
    const V p = VADD(VFMA(q, VMUL(r, r), r), VSET1(1.0f));
    return VFMA(x, VZERO, VSCALE2(p, t));
}

/* Rule 4's tree over its lanes. */
static inline float VNAME(tree)(const V acc[])
{
#if VL == 16
    return VTREE(acc[0]);
#elif VL == 4
    return VTREE(VADD(VADD(acc[0], acc[2]), VADD(acc[1], acc[3])));
#else
    return VTREE(VADD(acc[0], acc[1]));
#endif
}

/* Raw scores of nh heads (nh <= VL) -> probabilities, and c[i], the factor of head i's older sums;
 * peak[i], if it is wanted: the largest of its probabilities, NaN if one is.
 * Positions outside [lo, hi) count as -INFINITY, then as 0. */
static inline void VNAME(soften)(float p[][IG_KV_BLOCK], float c[VL], float *peak, float *m,
                                 float *l, int nh, int lo, int hi, float scale, const float *bias,
                                 int step)
{
    enum { VECS = IG_KV_BLOCK / VL };
    float most[VL] = { 0 }, old[VL] = { 0 }, high[VL] = { 0 }, sum[VL] = { 0 };
    for (int i = 0; i < nh; i++) {
        V s[VECS], acc[VNAME(LANE_VECS)], top = VSET1(-INFINITY);
        UNROLL
        for (int u = 0; u < VECS; u++) {
            s[u] = VLOAD(p[i] + u * VL);
            s[u] = bias ? VFMA(s[u], VSET1(scale), VLOAD(bias + i * step + u * VL))
                        : VMUL(s[u], VSET1(scale));
        }
        if (hi - lo < IG_KV_BLOCK) {
            UNROLL
            for (int u = 0; u < VECS; u++) VSTORE(p[i] + u * VL, s[u]);
            for (int j = 0; j < lo; j++) p[i][j] = -INFINITY;
            for (int j = hi; j < IG_KV_BLOCK; j++) p[i][j] = -INFINITY;
            UNROLL
            for (int u = 0; u < VECS; u++) s[u] = VLOAD(p[i] + u * VL);
        }
        UNROLL
        for (int u = 0; u < VECS; u++) top = VMAX(s[u], top);
        high[i] = VTOP(top);
        old[i] = m[i];
        most[i] = (high[i] > m[i] ? high[i] : m[i]) + 0.0f;
        UNROLL
        for (int u = 0; u < VECS; u++) s[u] = VNAME(vexp)(VSUB(s[u], VSET1(most[i])));
        UNROLL
        for (int u = 0; u < VECS; u++) VSTORE(p[i] + u * VL, s[u]);
        if (hi - lo < IG_KV_BLOCK) {
            for (int j = 0; j < lo; j++) p[i][j] = 0.0f;
            for (int j = hi; j < IG_KV_BLOCK; j++) p[i][j] = 0.0f;
            UNROLL
            for (int u = 0; u < VECS; u++) s[u] = VLOAD(p[i] + u * VL);
        }
        UNROLL
        for (int u = 0; u < VNAME(LANE_VECS); u++) acc[u] = VADD(VZERO, s[u]);
        UNROLL
        for (int u = VNAME(LANE_VECS); u < VECS; u++)
            acc[u % VNAME(LANE_VECS)] = VADD(acc[u % VNAME(LANE_VECS)], s[u]);
        sum[i] = VNAME(tree)(acc);
    }
    VSTORE(c, VNAME(vexp)(VSUB(VLOAD(old), VLOAD(most))));
    if (peak) VSTORE(peak, VFMA(VLOAD(sum), VZERO, VNAME(vexp)(VSUB(VLOAD(high), VLOAD(most)))));
    for (int i = 0; i < nh; i++) {
        m[i] = most[i];
        l[i] = fmaf(l[i], c[i], sum[i]);
    }
}

static void VNAME(rmsnorm)(float *y, const float *x, const float *w, int n, float eps)
{
    const int whole = n / IG_LANES * IG_LANES;
    V acc[VNAME(LANE_VECS)];
    for (int h = 0; h < VNAME(LANE_VECS); h++) acc[h] = VZERO;
    for (int i = 0; i < whole; i += IG_LANES) {
        for (int h = 0; h < VNAME(LANE_VECS); h++) {
            const V a = VLOAD(x + i + h * VL);
            acc[h] = VFMA(a, a, acc[h]);
        }
    }
    float lane[IG_LANES];
    for (int h = 0; h < VNAME(LANE_VECS); h++) VSTORE(lane + h * VL, acc[h]);
    for (int i = whole; i < n; i++) lane[i - whole] = fmaf(x[i], x[i], lane[i - whole]);

    const float scale = 1.0f / sqrtf(ig_tree16(lane) / (float)n + eps);
    for (int i = 0; i < whole; i += VL) {
        VSTORE(y + i, VMUL(VMUL(VLOAD(x + i), VSET1(scale)), VLOAD(w + i)));
    }
    for (int i = whole; i < n; i++) y[i] = x[i] * scale * w[i];
}

static void VNAME(swiglu)(float *h, const float *gate, const float *up, int n)
{
    const V one = VSET1(1.0f), zero = VSET1(-0.0f);
    int i = 0;
    for (; i + VL <= n; i += VL) {
        const V z = VLOAD(gate + i);
        const V s = VDIV(z, VADD(one, VNAME(vexp)(VSUB(zero, z))));
        VSTORE(h + i, VMUL(s, VLOAD(up + i)));
    }
    for (; i < n; i++) h[i] = ig_silu(gate[i]) * up[i];
}

static void VNAME(softmax)(float *x, int n)
{
    const int whole = n / IG_LANES * IG_LANES;
    float lane[IG_LANES], most = -INFINITY;
    V top = VSET1(-INFINITY);
    for (int i = 0; i < whole; i += VL) top = VMAX(VLOAD(x + i), top);
    VSTORE(lane, top);
    for (int i = 0; i < VL; i++) most = lane[i] > most ? lane[i] : most;
    for (int i = whole; i < n; i++) most = x[i] > most ? x[i] : most;

    V acc[VNAME(LANE_VECS)];
    for (int h = 0; h < VNAME(LANE_VECS); h++) acc[h] = VZERO;
    for (int i = 0; i < whole; i += IG_LANES) {
        for (int h = 0; h < VNAME(LANE_VECS); h++) {
            const V e = VNAME(vexp)(VSUB(VLOAD(x + i + h * VL), VSET1(most)));
            VSTORE(x + i + h * VL, e);
            acc[h] = VADD(acc[h], e);
        }
    }
    for (int h = 0; h < VNAME(LANE_VECS); h++) VSTORE(lane + h * VL, acc[h]);
    for (int i = whole; i < n; i++) {
        x[i] = ig_expf(x[i] - most);
        lane[i - whole] += x[i];
    }

    const float inv = 1.0f / ig_tree16(lane);
    for (int i = 0; i < whole; i += VL) VSTORE(x + i, VMUL(VLOAD(x + i), VSET1(inv)));
    for (int i = whole; i < n; i++) x[i] *= inv;
}
