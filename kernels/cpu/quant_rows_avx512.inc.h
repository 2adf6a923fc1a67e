/* quant_rows_avx512.inc.h -- a panel times many activation rows, for quant.inc.h.
 *
 * It takes the place of that file's FN(rows) where QUANT_GROUP is defined, with the same
 * macros.  QUANT_GROUP rows go side by side, so that their chains of vpdpbusd overlap,
 * and what a row needs of the two busy ports is kept few:
 *   - a zero point is one vpdpwssd of the row's sum (as words: the sum, its sign) with
 *     (-ZERO, 0), the first link of the chain;
 *   - with one sub-scale the chain starts at the bits of MAGIC = 1.5 * 2^23, so that it ends
 *     as the float MAGIC + s, exact for |s| < 2^22; sc * s is one fused step from it, exact
 *     as sc * s < 2^24.
 * Bound: multiply issue; of the steps an activation row and 32 columns take, 8 are vpdpbusd.
 */
#define QUANT_MAGIC 12582912.0f

static inline __m512i FN(start)(const struct ig_xq *x)
{
    const __m512i zero_point = _mm512_set1_epi32((uint16_t)-ZERO);
    const __m512i from = SUBS == 1 ? _mm512_castps_si512(VSET1(QUANT_MAGIC)) : QSET32(0);
    return ZERO ? quant_dot_sum(from, zero_point, &x->sum) : from;
}

/* What 32 columns add to a row's part, given s of `start` and eight vpdpbusd. */
static inline __attribute__((always_inline)) V FN(enter)(V acc, const struct FN(block) * b,
                                                         const struct ig_xq *x, __m512i s)
{
    const V dx = VSET1(x->d);
    const V sum = SUBS ? VFMA(QBITS(s), b->sc[0], b->mn[1]) : QFLOAT(s);
    acc = VFMA(VMUL(b->d, dx), sum, acc);
#if MIN
    const V own = QFLOAT(QX4((const int8_t *)&x->sum));
#endif
#if MIN == 1
    acc = VFMA(VMUL(b->m, dx), own, acc);
#elif MIN == 2
    acc = _mm512_fnmadd_ps(VMUL(b->m, dx), VMUL(b->mn[0], own), acc);
#endif
    return acc;
}

/* n rows, n a constant at every call. */
static inline __attribute__((always_inline)) void
FN(group)(float (*acc)[IG_BLOCK_PARTS][IG_PANEL_ROWS], int b, const struct FN(block) * w,
          const void *const *xs, const int n)
{
    const struct ig_xq *x[QUANT_GROUP];
    UNROLL
    for (int t = 0; t < n; t++) x[t] = (const struct ig_xq *)xs[t] + b;
#if SUBS == 2
    for (int t = 0; t < n; t++) {
        float *to = acc[t][b % IG_BLOCK_PARTS];
        VSTORE(to, FN(step)(VLOAD(to), w, x[t]));
    }
#else
    __m512i s[QUANT_GROUP];
    UNROLL
    for (int t = 0; t < n; t++) s[t] = FN(start)(x[t]);
    UNROLL
    for (int k = 0; k < 8; k++) {
        UNROLL
        for (int t = 0; t < n; t++) s[t] = quant_dot1(s[t], w->w[k], x[t]->q + 4 * k);
    }
    UNROLL
    for (int t = 0; t < n; t++) {
        float *to = acc[t][b % IG_BLOCK_PARTS];
        VSTORE(to, FN(enter)(VLOAD(to), w, x[t], s[t]));
    }
#endif
}

static void FN(rows)(float (*y)[IG_PANEL_ROWS], const uint8_t *p, const void *const *x, int nb,
                     int rb)
{
    _Alignas(64) float acc[FN(RB)][IG_BLOCK_PARTS][IG_PANEL_ROWS];
    int8_t buffer[512];
    memset(acc, 0, (size_t)rb * sizeof acc[0]);
    for (int b = 0; b < nb; p += TILE) {
        const int8_t *sc = FN(scales)(buffer, p);
        for (int j = 0; j < BLOCKS; j++, b++) {
            struct FN(block) w;
            int t = 0;
            FN(load)(&w, p, sc, j, 0);
            UNROLL
            for (int line = 0; line < (TILE / BLOCKS + 63) / 64; line++)
                PREFETCH(p + j * (TILE / BLOCKS) + 64 * line);
#if SUBS == 1
            w.mn[1] = VMUL(w.sc[0], VSET1(-QUANT_MAGIC)); /* unused else */
#endif
            for (; t + QUANT_GROUP <= rb; t += QUANT_GROUP)
                FN(group)(acc + t, b, &w, x + t, QUANT_GROUP);
            for (; t < rb; t++) FN(group)(acc + t, b, &w, x + t, 1);
        }
    }
    for (int t = 0; t < rb; t++) {
        V s[4];
        UNROLL
        for (int i = 0; i < 4; i++) s[i] = VADD(VLOAD(acc[t][i]), VLOAD(acc[t][i + 4]));
        VSTORE(y[t], VADD(VADD(s[0], s[2]), VADD(s[1], s[3])));
    }
}
