/* amx_rows.inc.h -- a panel times many activation rows with int8 tiles, for quant.inc.h.
 *
 * It takes the place of quant.inc.h's kernels where QUANT_TILES is defined, with the same
 * macros, SUBS below 2.  UNPACK's vectors, four columns of 16 rows, are the rows of the
 * weights' tile.  The integer sums are those of every other variant, and so is the order of
 * what follows: the same bits.
 *
 * AMX_SPAN blocks of 32 columns are unpacked once for AMX_RB rows of activations.  For 16
 * rows, the blocks of one part go through tiles one after the other, and what they add is
 * kept in 16 registers; the next block's product is under way meanwhile.  Bound: a product
 * is 16 cycles for 16 rows, its save 16, entering a part 1.5 to 2.5 a row.
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

/* The product of 16 rows with block j through result tile 0 or 1, by j's parity. */
static inline __attribute__((always_inline)) void
FN(amx_product)(int32_t (*sums)[AMX_ROWS][IG_PANEL_ROWS], const struct amx_x8 *from,
                const struct FN(amx_block) * w, int j, int turn)
{
    const int8_t *at = from->q + (size_t)j * from->block;
    if (turn)
        AMX_SUMS(1, sums[1], at, from->row, w[j].w);
    else
        AMX_SUMS(0, sums[0], at, from->row, w[j].w);
}

/* Blocks first, first + 8, .. below n times 16 rows of activations, into one part. */
static inline void FN(amx_part)(float (*acc)[IG_BLOCK_PARTS][IG_PANEL_ROWS], int part,
                                const struct FN(amx_block) * w, const struct amx_x8 *from, int n)
{
    _Alignas(64) int32_t sums[2][AMX_ROWS][IG_PANEL_ROWS];
    V a[AMX_ROWS];
    UNROLL
    for (int t = 0; t < AMX_ROWS; t++) a[t] = VLOAD(acc[t][part]);
    FN(amx_product)(sums, from, w, part, 0);
    for (int j = part, turn = 0; j < n; j += IG_BLOCK_PARTS, turn ^= 1) {
        if (j + IG_BLOCK_PARTS < n) FN(amx_product)(sums, from, w, j + IG_BLOCK_PARTS, turn ^ 1);
        UNROLL
        for (int t = 0; t < AMX_ROWS; t++)
            a[t] = FN(amx_enter)(a[t], &w[j], from->x[t] + j, _mm512_loadu_si512(sums[turn][t]));
    }
    UNROLL
    for (int t = 0; t < AMX_ROWS; t++) VSTORE(acc[t][part], a[t]);
}

/* amx_rows_fn: up to AMX_RB rows. */
static void FN(amx_rows)(float (*y)[IG_PANEL_ROWS], const uint8_t *p, const void *const *x, int nb,
                         int n)
{
    _Alignas(64) float acc[AMX_RB][IG_BLOCK_PARTS][IG_PANEL_ROWS];
    _Alignas(64) int8_t copy[AMX_SPAN][AMX_ROWS][IG_QBLOCK];
    int8_t buffer[512];
    memset(acc, 0, (size_t)((n + AMX_ROWS - 1) / AMX_ROWS) * AMX_ROWS * sizeof acc[0]);
    for (int b = 0; b < nb; b += AMX_SPAN) {
        struct FN(amx_block) w[AMX_SPAN];
        const int blocks = nb - b < AMX_SPAN ? nb - b : AMX_SPAN;
        for (int j = 0; j < blocks; p += TILE) {
            const int8_t *sc = FN(scales)(buffer, p);
            for (int i = 0; i < BLOCKS; i++, j++) FN(amx_load)(&w[j], p, sc, i);
        }
        for (int t = 0; t < n; t += AMX_ROWS) {
            const struct amx_x8 from =
                amx_x8(copy, x + t, b, blocks, n - t < AMX_ROWS ? n - t : AMX_ROWS);
            for (int part = 0; part < IG_BLOCK_PARTS && part < blocks; part++)
                FN(amx_part)(acc + t, part, w, &from, blocks);
        }
    }
    for (int t = 0; t < n; t++) {
        V s[4];
        UNROLL
        for (int i = 0; i < 4; i++) s[i] = VADD(VLOAD(acc[t][i]), VLOAD(acc[t][i + 4]));
        VSTORE(y[t], VADD(VADD(s[0], s[2]), VADD(s[1], s[3])));
    }
}
