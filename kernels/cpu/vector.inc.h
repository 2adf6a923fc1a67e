/* vector.inc.h -- the kernels on one vector, written once over vec_*.h.
 *
 * Lanes of rule 4 are IG_LANES / VL vectors.  What is left after the whole
 * groups of 16 goes through the scalar functions of math.h, into the lane it
 * belongs to.
 */
enum { VNAME(LANE_VECS) = IG_LANES / VL };

/* exp(r) of math.h, r being x less n times ln 2. */
static inline V VNAME(vexp_rest)(V x, V n)
{
    V r = VFMA(n, VSET1(-IG_LN2_HI), x);
    r = VFMA(n, VSET1(-IG_LN2_LO), r);
    V q = VFMA(VSET1(IG_EXP_Q4), r, VSET1(IG_EXP_Q3));
    q = VFMA(q, r, VSET1(IG_EXP_Q2));
    q = VFMA(q, r, VSET1(IG_EXP_Q1));
    q = VFMA(q, r, VSET1(IG_EXP_Q0));
    return VADD(VFMA(q, VMUL(r, r), r), VSET1(1.0f));
}
static inline V VNAME(vexp)(V x)
{
    x = VMIN(VSET1(IG_EXP_MAX), x); /* in this order a NaN stays */
    x = VMAX(VSET1(IG_EXP_MIN), x);
    const V t = VFMA(x, VSET1(IG_LOG2E), VSET1(IG_ROUND));
    const V n = VSUB(t, VSET1(IG_ROUND));
    const V p = VNAME(vexp_rest)(x, n);
#ifdef VPOWER2
    return VFMA(x, VZERO, VSCALE2(p, n, t));
#else
    return VSCALE2(p, n, t);
#endif
}
/* The same of x <= 0 or NaN.  With n's bias inside t there is one sum less: x * log2(e) is never
 * half an odd number, for its factor has 24 bits, so that t is rounded as it is without. */
static inline V VNAME(vexp_below)(V x)
{
    x = VMAX(VSET1(IG_EXP_MIN), x);
#ifdef VPOWER2
    const V round = VSET1(IG_ROUND + 127.0f);
#else
    const V round = VSET1(IG_ROUND);
#endif
    const V t = VFMA(x, VSET1(IG_LOG2E), round);
    const V n = VSUB(t, round);
    const V p = VNAME(vexp_rest)(x, n);
#ifdef VPOWER2
    return VMUL(p, VPOWER2(t));
#else
    return VSCALE2(p, n, t);
#endif
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
            const V e = VNAME(vexp_below)(VSUB(VLOAD(x + i + h * VL), VSET1(most)));
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
