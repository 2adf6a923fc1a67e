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

static inline void FN(step)(float *acc, const WEIGHTS *w, __m256 dw, ACTS const *a,
                            const struct ig_xq *x)
{
    const __m256i s = _mm256_add_epi32(DOT(w, a), _mm256_set1_epi32(-ZERO * x->sum));
    VSTORE(acc, VFMA(VMUL(dw, VSET1(x->d)), _mm256_cvtepi32_ps(s), VLOAD(acc)));
}

static void FN(finish)(float y[IG_PANEL_ROWS], float acc[IG_BLOCK_PARTS][IG_PANEL_ROWS])
{
    for (int r = 0; r < IG_PANEL_ROWS; r += VL) {
        V s[4];
        UNROLL
        for (int i = 0; i < 4; i++) s[i] = VADD(VLOAD(acc[i] + r), VLOAD(acc[i + 4] + r));
        VSTORE(y + r, VADD(VADD(s[0], s[2]), VADD(s[1], s[3])));
    }
}

static void FN(one)(float y[IG_PANEL_ROWS], const uint8_t *p, const struct ig_xq *x, int nb)
{
    float acc[IG_BLOCK_PARTS][IG_PANEL_ROWS] = { { 0 } };
    for (int b = 0; b < nb; b++, p += TILE) {
        ACTS a;
        PREPARE(&a, x + b);
        UNROLL
        for (int h = 0; h < 2; h++) {
            WEIGHTS w;
            UNPACK(&w, p + 32, h);
            FN(step)(acc[b % IG_BLOCK_PARTS] + 8 * h, &w, VLOAD_F16(p + 16 * h), &a, x + b);
        }
        for (int i = 0; i < TILE; i += 64) PREFETCH_DECODE(p + i);
    }
    FN(finish)(y, acc);
}

/* A tile is unpacked half by half, each half meeting all the rows. */
static void FN(rows)(float (*y)[IG_PANEL_ROWS], const uint8_t *p, const void *const *x, int nb,
                     int rb)
{
    _Alignas(64) float acc[FN(RB)][IG_BLOCK_PARTS][IG_PANEL_ROWS];
    memset(acc, 0, (size_t)rb * sizeof acc[0]);
    for (int b = 0; b < nb; b++, p += TILE) {
        ACTS a[FN(RB)];
        for (int t = 0; t < rb; t++) PREPARE(&a[t], (const struct ig_xq *)x[t] + b);
        for (int h = 0; h < 2; h++) {
            WEIGHTS w;
            UNPACK(&w, p + 32, h);
            const __m256 dw = VLOAD_F16(p + 16 * h);
            for (int t = 0; t < rb; t++) {
                FN(step)
                (acc[t][b % IG_BLOCK_PARTS] + 8 * h, &w, dw, &a[t], (const struct ig_xq *)x[t] + b);
            }
        }
    }
    for (int t = 0; t < rb; t++) FN(finish)(y[t], acc[t]);
}

static void FN(panel)(float (*y)[IG_PANEL_ROWS], const void *panel, const void *const *x, int cols,
                      int n)
{
    IG_KNOWN_COLS(cols);
    if (n == 1) {
        FN(one)(y[0], panel, x[0], cols / IG_QBLOCK);
        return;
    }
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
