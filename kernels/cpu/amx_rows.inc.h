/* amx_rows.inc.h -- a panel times many activation rows with int8 tiles, for quant.inc.h.
 *
 * It takes the place of quant.inc.h's kernels where QUANT_TILES is defined, with the same
 * macros, SUBS below 2.  UNPACK's vectors, four columns of 16 rows, are the rows of the
 * weights' tile.  The integer sums are those of every other variant, and so is the order of
 * what follows: the same bits.
 *
 * 256 columns at a time are unpacked once for AMX_RB rows of activations; tiles of 16 rows
 * by 32 columns then give the sums, which enter the parts like AVX-512's.  Bound: one
 * tile product is 16 cycles for 16 rows, entering a part 2 to 3 cycles a row.
 */
struct FN(amx_block) {
    uint8_t w[512];
    V d, m, sc, mn;
};

static void FN(amx_load)(struct FN(amx_block) * to, const uint8_t *tile, const int8_t *sc, int j)
{
    const int h = 0;
    QI w[8];
    UNROLL
    for (int line = 0; line < (TILE / BLOCKS + 63) / 64; line++)
        PREFETCH(tile + j * (TILE / BLOCKS) + 64 * line);
    UNPACK(w, tile + HEAD + j * BLOCK);
    UNROLL
    for (int k = 0; k < 8; k++) _mm512_storeu_si512(to->w + 64 * k, w[k]);
    to->d = SCALE(tile);
    (void)h;
    (void)sc;
#if MIN
    to->m = VLOAD_F16(tile + 2 * IG_PANEL_ROWS);
#endif
#if SUBS
    to->sc = QFLOAT(QROWS8(sc + j * IG_PANEL_ROWS));
#endif
#if MIN == 2
    to->mn = QFLOAT(QROWS8(sc + MINS + j * IG_PANEL_ROWS));
#endif
}

/* Sums of one row of activations with 32 columns into a part. */
static inline V FN(amx_enter)(V acc, const struct FN(amx_block) * b, const struct ig_xq *x,
                              __m512i s)
{
    const V dx = VSET1(x->d);
    if (ZERO) s = quant_dot_sum(s, _mm512_set1_epi32((uint16_t)-ZERO), &x->sum);
    const V sum = SUBS ? VMUL(QFLOAT(s), b->sc) : QFLOAT(s);
    acc = VFMA(VMUL(b->d, dx), sum, acc);
#if MIN
    const V own = VSET1((float)x->sum);
#endif
#if MIN == 1
    acc = VFMA(VMUL(b->m, dx), own, acc);
#elif MIN == 2
    acc = _mm512_fnmadd_ps(VMUL(b->m, dx), VMUL(b->mn, own), acc);
#endif
    return acc;
}

/* Columns of `n` blocks, parts 0 .. n - 1, times up to 16 rows of activations. */
static void FN(amx_sixteen)(float (*acc)[IG_BLOCK_PARTS][IG_PANEL_ROWS],
                            const struct FN(amx_block) * w, int n, const void *const *x, int b,
                            int live)
{
    int8_t copy[IG_BLOCK_PARTS][AMX_ROWS][IG_QBLOCK];
    int32_t sums[IG_BLOCK_PARTS][AMX_ROWS][IG_PANEL_ROWS];
    const struct amx_x8 from = amx_x8(copy, x, b, n, live);

    for (int j = 0; j < n; j++) {
        const int8_t *at = from.q + (size_t)j * from.block;
        /* another result each time: a product need not wait for the one before */
        switch (j % 4) {
        case 0:
            AMX_SUMS(0, sums[j], at, from.row, w[j].w);
            break;
        case 1:
            AMX_SUMS(1, sums[j], at, from.row, w[j].w);
            break;
        case 2:
            AMX_SUMS(2, sums[j], at, from.row, w[j].w);
            break;
        default:
            AMX_SUMS(3, sums[j], at, from.row, w[j].w);
        }
    }
    for (int j = 0; j < n; j++) {
        for (int t = 0; t < live; t++) {
            float *to = acc[t][j];
            VSTORE(to, FN(amx_enter)(VLOAD(to), &w[j], (const struct ig_xq *)x[t] + b + j,
                                     _mm512_loadu_si512(sums[j][t])));
        }
    }
}

/* amx_rows_fn: up to AMX_RB rows. */
static void FN(amx_rows)(float (*y)[IG_PANEL_ROWS], const uint8_t *p, const void *const *x, int nb,
                         int n)
{
    float acc[AMX_RB][IG_BLOCK_PARTS][IG_PANEL_ROWS];
    int8_t buffer[512];
    memset(acc, 0, (size_t)n * sizeof acc[0]);
    for (int b = 0; b < nb; b += IG_BLOCK_PARTS, p += IG_BLOCK_PARTS / BLOCKS * TILE) {
        struct FN(amx_block) w[IG_BLOCK_PARTS];
        const int blocks = nb - b < IG_BLOCK_PARTS ? nb - b : IG_BLOCK_PARTS;
        const int8_t *sc = FN(scales)(buffer, p);
        for (int j = 0; j < blocks; j++) FN(amx_load)(&w[j], p + j / BLOCKS * TILE, sc, j % BLOCKS);
        for (int t = 0; t < n; t += AMX_ROWS)
            FN(amx_sixteen)(acc + t, w, blocks, x + t, b, n - t < AMX_ROWS ? n - t : AMX_ROWS);
    }
    for (int t = 0; t < n; t++) {
        V s[4];
        UNROLL
        for (int i = 0; i < 4; i++) s[i] = VADD(VLOAD(acc[t][i]), VLOAD(acc[t][i + 4]));
        VSTORE(y[t], VADD(VADD(s[0], s[2]), VADD(s[1], s[3])));
    }
}
