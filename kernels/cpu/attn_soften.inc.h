/* attn_soften.inc.h -- from raw scores of one KV block to probabilities, for all heads at once.
 *
 * What is one value a head is a lane of a vector: largest scores and sums are folded together, and
 * nothing waits for one head before the next.
 */
VFOLD(VNAME(fold_sums), VADD)
VFOLD(VNAME(fold_tops), VMAX)

/* One value a head; p is that head's 64 scores, then its probabilities, or those times u of
 * kernels.h where weights are to be made of them. */
struct VNAME(soft) {
    float c[VL];    /* what older sums are multiplied with */
    float peak[VL]; /* the block's largest probability as ig_kv_peak has it, NaN if one is */
};

/* Positions outside [lo, hi) become x. */
ALWAYS void VNAME(outside)(float p[IG_KV_BLOCK], int lo, int hi, float x)
{
    for (int j = 0; j < lo; j++) p[j] = x;
    for (int j = hi; j < IG_KV_BLOCK; j++) p[j] = x;
}

/* p = the scores; lane i: the largest of head i. */
ALWAYS V VNAME(score)(float p[][IG_KV_BLOCK], int nh, int lo, int hi, float scale,
                      const float *bias, int step)
{
    V top[HEADS_MOST];
    UNROLL
    for (int i = 0; i < nh; i++) {
        UNROLL
        for (int j = 0; j < IG_KV_BLOCK; j += VL) {
            const V s = VLOAD(p[i] + j);
            VSTORE(p[i] + j, bias ? VFMA(s, VSET1(scale), VLOAD(bias + i * step + j))
                                  : VMUL(s, VSET1(scale)));
        }
        if (hi - lo < IG_KV_BLOCK) VNAME(outside)(p[i], lo, hi, -INFINITY);
        top[i] = VSET1(-INFINITY);
        UNROLL
        for (int j = 0; j < IG_KV_BLOCK; j += VL) top[i] = VMAX(VLOAD(p[i] + j), top[i]);
    }
    return VNAME(fold_tops)(top, nh);
}

/* p = exp(p - most), times u if there is one; rule 4's lanes of their sum, as far as one vector. */
ALWAYS V VNAME(soften_head)(float p[IG_KV_BLOCK], float most, const float *u, int lo, int hi)
{
    enum { LANES = VNAME(LANE_VECS) };
    V acc[LANES];
    UNROLL
    for (int i = 0; i < LANES; i++) acc[i] = VZERO;
    if (hi - lo < IG_KV_BLOCK) {
        for (int j = 0; j < IG_KV_BLOCK; j += VL)
            VSTORE(p + j, VNAME(vexp_below)(VSUB(VLOAD(p + j), VSET1(most))));
        VNAME(outside)(p, lo, hi, 0.0f);
    }
    UNROLL
    for (int j = 0; j < IG_KV_BLOCK; j += VL) {
        const V s = hi - lo < IG_KV_BLOCK ? VLOAD(p + j)
                                          : VNAME(vexp_below)(VSUB(VLOAD(p + j), VSET1(most)));
        VSTORE(p + j, u ? VMUL(s, VSET1(*u)) : s);
        acc[j / VL % LANES] = VADD(acc[j / VL % LANES], s);
    }
#if VL == 4
    return VADD(VADD(acc[0], acc[2]), VADD(acc[1], acc[3]));
#elif VL == 8
    return VADD(acc[0], acc[1]);
#else
    return acc[0];
#endif
}

/* m and l are the state's, of the first of nh heads; `fours` of lines that are asked for go with each
 * head. */
ALWAYS void VNAME(soften)(float p[][IG_KV_BLOCK], struct VNAME(soft) * out, float *m, float *l,
                          int nh, int lo, int hi, float scale, const float *bias, int step,
                          int weights, struct asks *a, int fours)
{
    float most[VL], u[VL];
    V part[HEADS_MOST], peak = VZERO;
    const V high = VNAME(score)(p, nh, lo, hi, scale, bias, step), old = VLOADN(m, nh);
    const V top = VADD(VMAX(high, old), VZERO), c = VNAME(vexp_below)(VSUB(old, top));
    VSTORE(most, top);
    VSTORE(out->c, c);
    VSTOREN(m, top, nh);
    if (weights) {
        const V e = VNAME(vexp_below)(VSUB(high, top)), least = VSET1(IG_KV_PEAK_LEAST);
        peak = VUNLESS_LESS(e, e, least);
        VSTORE(u, VUNLESS_LESS(VDIV(VSET1(IG_KV_WEIGHT), e), e, least));
    }
    UNROLL
    for (int i = 0; i < nh; i++) {
        VNAME(ask)(a, fours);
        part[i] = VNAME(soften_head)(p[i], most[i], weights ? &u[i] : NULL, lo, hi);
    }
    const V sum = VNAME(fold_sums)(part, nh);
    VSTOREN(l, VFMA(VLOADN(l, nh), c, sum), nh);
    if (weights) VSTORE(out->peak, VFMA(sum, VZERO, peak));
}
