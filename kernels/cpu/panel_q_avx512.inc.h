/* panel_q_avx512.inc.h -- panel times activations for block formats, with VNNI.
 *
 * Include it with these defined; it undefines them again:
 *   FN(f)         function name with the format's and the ISA's suffix
 *   UNPACK(w, p)  32 columns of 16 rows at p as 8 vectors of u8, 4 columns each
 *   TILE          bytes of a tile (16 scales and 32 columns)
 *   ZERO          the weights' zero point
 *
 * s = sum(w * x) - ZERO * sum(x): vpdpbusd sums four columns of 16 rows.
 * Bound: n == 1 one read of the panel; else vpdpbusd issue, 8 a row and tile.
 */
static inline __m512 FN(step)(__m512 acc, const __m512i w[8], __m512 dw, const struct ig_xq *x)
{
    __m512i s = _mm512_set1_epi32(-ZERO * x->sum), s1 = _mm512_setzero_si512();
    UNROLL
    for (int k = 0; k < 4; k++) {
        s = _mm512_dpbusd_epi32(s, w[k], spread4_avx512(x->q + 4 * k));
        s1 = _mm512_dpbusd_epi32(s1, w[k + 4], spread4_avx512(x->q + 4 * k + 16));
    }
    s = _mm512_add_epi32(s, s1);
    return VFMA(VMUL(dw, VSET1(x->d)), _mm512_cvtepi32_ps(s), acc);
}

static inline __m512 FN(tile)(__m512 acc, const uint8_t *p, const struct ig_xq *x)
{
    __m512i w[8];
    UNPACK(w, p + 32);
    return FN(step)(acc, w, VLOAD_F16(p), x);
}

static void FN(one)(float y[IG_PANEL_ROWS], const uint8_t *p, const struct ig_xq *x, int nb)
{
    __m512 acc[IG_BLOCK_PARTS];
    UNROLL
    for (int i = 0; i < IG_BLOCK_PARTS; i++) acc[i] = VZERO;
    int b = 0;
    for (; b + IG_BLOCK_PARTS <= nb; b += IG_BLOCK_PARTS, p += IG_BLOCK_PARTS * TILE) {
        UNROLL
        for (int i = 0; i < IG_BLOCK_PARTS; i++) {
            UNROLL
            for (int line = (i * TILE + 63) / 64; line * 64 < (i + 1) * TILE; line++) {
                PREFETCH(p + line * 64);
            }
            acc[i] = FN(tile)(acc[i], p + i * TILE, x + b + i);
        }
    }
    UNROLL
    for (int i = 0; i < IG_BLOCK_PARTS; i++) {
        if (b + i < nb) acc[i] = FN(tile)(acc[i], p + i * TILE, x + b + i);
    }
    UNROLL
    for (int i = 0; i < 4; i++) acc[i] = VADD(acc[i], acc[i + 4]);
    VSTORE(y, VADD(VADD(acc[0], acc[2]), VADD(acc[1], acc[3])));
}

enum { FN(RB) = 32 }; /* rows whose parts stay in L1: 16 KiB */

static void FN(rows)(float (*y)[IG_PANEL_ROWS], const uint8_t *p, const void *const *x, int nb,
                     int rb)
{
    __m512 acc[FN(RB)][IG_BLOCK_PARTS];
    for (int t = 0; t < rb; t++)
        for (int i = 0; i < IG_BLOCK_PARTS; i++) acc[t][i] = VZERO;
    for (int b = 0; b < nb; b++, p += TILE) {
        __m512i w[8];
        UNPACK(w, p + 32);
        const __m512 dw = VLOAD_F16(p);
        for (int t = 0; t < rb; t++) {
            __m512 *a = &acc[t][b % IG_BLOCK_PARTS];
            *a = FN(step)(*a, w, dw, (const struct ig_xq *)x[t] + b);
        }
    }
    for (int t = 0; t < rb; t++) {
        __m512 *a = acc[t];
        UNROLL
        for (int i = 0; i < 4; i++) a[i] = VADD(a[i], a[i + 4]);
        VSTORE(y[t], VADD(VADD(a[0], a[2]), VADD(a[1], a[3])));
    }
}

static void FN(panel)(float (*y)[IG_PANEL_ROWS], const void *panel, const void *const *x, int cols,
                      int n)
{
    const int nb = cols / IG_QBLOCK;
    if (n == 1) {
        FN(one)(y[0], panel, x[0], nb);
        return;
    }
    for (int t = 0; t < n; t += FN(RB)) {
        FN(rows)(y + t, panel, x + t, nb, n - t < FN(RB) ? n - t : FN(RB));
    }
}

#undef FN
#undef UNPACK
#undef TILE
#undef ZERO
