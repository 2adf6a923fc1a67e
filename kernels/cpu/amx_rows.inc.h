/* amx_rows.inc.h -- a panel times many activation rows with int8 tiles, for quant.inc.h.
 *
 * It takes the place of quant.inc.h's kernels where QUANT_TILES is defined, with the same
 * macros, SUBS below 2.  The integer sums are those of every other variant, and so is the order
 * of what follows: the same bits.
 *
 * AMX_SPAN blocks of 32 columns are unpacked once for AMX_RB rows of activations: UNPACK's
 * vectors, less their zero point, are the rows of the weights' tile.  16 rows go through the
 * span part by part, what a part's blocks add being kept in 16 registers.  A sum is read
 * AMX_AHEAD products after it was saved, across parts and rows: until what a tile saves is in
 * the cache, loads of it wait.
 *
 * Bound, for 16 rows and 32 columns: entering a part takes 3 steps of the two vector ports a row
 * (7 with sub-scales and minima), so 24 cycles (56); product and save are 16 each beside it.
 */
struct FN(amx_block) {
    int8_t w[512];
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
    for (int k = 0; k < 8; k++)
        _mm512_store_si512(to->w + 64 * k,
                           ZERO ? _mm512_sub_epi8(w[k], QSET8((char)(ZERO))) : w[k]);
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

/* Sums of one row of activations with 32 columns into a part.  Where there are sub-scales, s comes
 * as the float AMX_MAGIC + s, and sc * s is one fused step from it, exact; off: -AMX_MAGIC * sc. */
static inline V FN(amx_enter)(V acc, const struct FN(amx_block) * b, const struct ig_xq *x,
                              const int32_t *s, V off)
{
    const V dx = VSET1(x->d);
    (void)off;
#if SUBS
    const V sum = VFMA(VLOAD((const float *)(const void *)s), b->sc, off);
#else
    const V sum = QFLOAT(QLOAD(s));
#endif
    acc = VFMA(VMUL(b->d, dx), sum, acc);
#if MIN
    const V own = QFLOAT(QX4((const int8_t *)&x->sum));
#endif
#if MIN == 1
    acc = VFMA(VMUL(b->m, dx), own, acc);
#elif MIN == 2
    acc = _mm512_fnmadd_ps(VMUL(b->m, dx), VMUL(b->mn, own), acc);
#endif
    return acc;
}

/* Up to AMX_RB rows with the blocks of a span, into their parts. */
static void FN(amx_span)(float (*acc)[IG_BLOCK_PARTS][IG_PANEL_ROWS],
                         const struct FN(amx_block) * w, const void *const *x, int b, int blocks,
                         int n)
{
    _Alignas(64) int32_t sums[AMX_RING][AMX_ROWS][IG_PANEL_ROWS];
    _Alignas(64) int8_t copy[2][AMX_SPAN][AMX_ROWS][IG_QBLOCK];
    struct amx_x8 from[2];
    struct amx_turn next = { .n = n, .blocks = blocks };
    unsigned made = 0, read = 0;
/* The next product.  While the rows from `now` on are entered, those behind them have room. */
#define AMX_NEXT(now)                                                                              \
    if (next.row < n && next.row < (now) + 2 * AMX_ROWS) {                                         \
        const int i_ = next.row / AMX_ROWS % 2;                                                    \
        if (next.j == 0) from[i_] = amx_x8(copy[i_], x + next.row, b, blocks, n - next.row);       \
        const int8_t *q_ = from[i_].q + (size_t)next.j * from[i_].block;                           \
        if (made & 1)                                                                              \
            AMX_PRODUCT(1, 6, 7, sums[made % AMX_RING], q_, from[i_].row, w[next.j].w, SUBS);      \
        else                                                                                       \
            AMX_PRODUCT(0, 4, 5, sums[made % AMX_RING], q_, from[i_].row, w[next.j].w, SUBS);      \
        made++;                                                                                    \
        amx_turn(&next);                                                                           \
    }
    for (int i = 0; i < AMX_AHEAD; i++) {
        AMX_NEXT(0)
    }
    for (int t = 0; t < n; t += AMX_ROWS) {
        const struct amx_x8 *mine = &from[t / AMX_ROWS % 2];
        for (int part = 0; part < IG_BLOCK_PARTS && part < blocks; part++) {
            V a[AMX_ROWS];
            UNROLL
            for (int i = 0; i < AMX_ROWS; i++) a[i] = VLOAD(acc[t + i][part]);
            for (int j = part; j < blocks; j += IG_BLOCK_PARTS, read++) {
                AMX_NEXT(t)
                const V off = SUBS ? VMUL(w[j].sc, VSET1(-AMX_MAGIC)) : VZERO;
                UNROLL
                for (int i = 0; i < AMX_ROWS; i++)
                    a[i] =
                        FN(amx_enter)(a[i], &w[j], mine->x[i] + j, sums[read % AMX_RING][i], off);
            }
            UNROLL
            for (int i = 0; i < AMX_ROWS; i++) VSTORE(acc[t + i][part], a[i]);
        }
    }
#undef AMX_NEXT
}

/* amx_rows_fn: up to AMX_RB rows. */
static void FN(amx_rows)(float (*y)[IG_PANEL_ROWS], const uint8_t *p, const void *const *x, int nb,
                         int n)
{
    _Alignas(64) float acc[AMX_RB][IG_BLOCK_PARTS][IG_PANEL_ROWS];
    int8_t buffer[512];
    memset(acc, 0, (size_t)((n + AMX_ROWS - 1) / AMX_ROWS) * AMX_ROWS * sizeof acc[0]);
    for (int b = 0; b < nb; b += AMX_SPAN) {
        struct FN(amx_block) w[AMX_SPAN];
        const int blocks = nb - b < AMX_SPAN ? nb - b : AMX_SPAN;
        for (int j = 0; j < blocks; p += TILE) {
            const int8_t *sc = FN(scales)(buffer, p);
            for (int i = 0; i < BLOCKS; i++, j++) FN(amx_load)(&w[j], p, sc, i);
        }
        FN(amx_span)(acc, w, x, b, blocks, n);
    }
    for (int t = 0; t < n; t++) {
        V s[4];
        UNROLL
        for (int i = 0; i < 4; i++) s[i] = VADD(VLOAD(acc[t][i]), VLOAD(acc[t][i + 4]));
        VSTORE(y[t], VADD(VADD(s[0], s[2]), VADD(s[1], s[3])));
    }
}
