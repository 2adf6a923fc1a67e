/* panel_q_avx2.inc.h -- panel times activations for block formats, without VNNI.
 *
 * Include it with these defined; it undefines them again:
 *   FN(f)             function name with the format's and the ISA's suffix
 *   WEIGHTS           type: 32 columns of 8 rows, ready for DOT
 *   UNPACK(w, p, h)   fill *w from the tile's columns at p, rows 8h..8h+7
 *   ACTS              type: 32 activations, ready for DOT
 *   PREPARE(a, x)     fill *a from a struct ig_xq
 *   DOT(w, a)         __m256i: sum of weight (with zero point) * activation by row
 *   TILE              bytes of a tile (16 scales and 32 columns)
 *   ZERO              the weights' zero point
 *
 * Bound: n == 1 one read of the panel; else multiply issue.
 */
enum { FN(RB) = 32 }; /* rows whose parts stay in L1: 16 KiB */

static inline void FN(step)(float *acc, const WEIGHTS *w, __m256 dw, const ACTS *a,
                            const struct ig_xq *x)
{
    const __m256i s = _mm256_add_epi32(DOT(w, a), _mm256_set1_epi32(-ZERO * x->sum));
    VSTORE(acc, VFMA(VMUL(dw, VSET1(x->d)), _mm256_cvtepi32_ps(s), VLOAD(acc)));
}

static void FN(rows)(float (*y)[IG_PANEL_ROWS], const uint8_t *p, const void *const *x, int nb,
                     int rb)
{
    float acc[FN(RB)][IG_BLOCK_PARTS][IG_PANEL_ROWS];
    memset(acc, 0, (size_t)rb * sizeof acc[0]);
    for (int b = 0; b < nb; b++, p += TILE) {
        WEIGHTS w[2];
        UNPACK(&w[0], p + 32, 0);
        UNPACK(&w[1], p + 32, 1);
        const __m256 d0 = VLOAD_F16(p), d1 = VLOAD_F16(p + 16);
        for (int t = 0; t < rb; t++) {
            const struct ig_xq *xt = (const struct ig_xq *)x[t] + b;
            float *to = acc[t][b % IG_BLOCK_PARTS];
            ACTS a;
            PREPARE(&a, xt);
            FN(step)(to, &w[0], d0, &a, xt);
            FN(step)(to + 8, &w[1], d1, &a, xt);
        }
    }
    for (int t = 0; t < rb; t++) {
        for (int r = 0; r < IG_PANEL_ROWS; r += VL) {
            V s[4];
            for (int i = 0; i < 4; i++) s[i] = VADD(VLOAD(acc[t][i] + r), VLOAD(acc[t][i + 4] + r));
            VSTORE(y[t] + r, VADD(VADD(s[0], s[2]), VADD(s[1], s[3])));
        }
    }
}

static void FN(panel)(float (*y)[IG_PANEL_ROWS], const void *panel, const void *const *x, int cols,
                      int n)
{
    for (int t = 0; t < n; t += FN(RB)) {
        FN(rows)(y + t, panel, x + t, cols / IG_QBLOCK, n - t < FN(RB) ? n - t : FN(RB));
    }
}

#undef FN
#undef WEIGHTS
#undef UNPACK
#undef ACTS
#undef PREPARE
#undef DOT
#undef TILE
#undef ZERO
