/* amx_rows.inc.h -- a panel times many activation rows with int8 tiles, for quant.inc.h.
 *
 * It takes the place of quant.inc.h's kernels where QUANT_TILES is defined, with the same
 * macros, SUBS below 2.  The integer sums are those of every other variant, and so is the order
 * of what follows: the same bits.
 *
 * AMX_SPAN blocks of 32 columns are unpacked once for AMX_RB rows of activations: UNPACK's
 * vectors, less their zero point, are the rows of the weights' tile.  16 rows of activations go
 * through the span part by part, what a part's blocks add being kept in 16 registers.  A sum is
 * read AMX_AHEAD products after it was saved, across parts and rows: the processor does not hand
 * what a tile saves to the loads behind it, they would wait until it is in the cache.
 *
 * Bound, for 16 rows and 32 columns: entering a part takes 3 steps of the two vector ports a row
 * (6 with sub-scales and minima), so 24 cycles (48); product and save are 16 each beside it.
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

/* Sums of 16 rows of activations with 32 columns into a part.  Where there are sub-scales, a sum
 * s comes as the float AMX_MAGIC + s, and sc * s is one fused step from it, exact. */
static inline __attribute__((always_inline)) void
FN(amx_enter)(V acc[AMX_ROWS], const struct FN(amx_block) * b, const struct amx_scale *x,
              const int32_t (*sums)[IG_PANEL_ROWS])
{
#if SUBS
    const V off = VMUL(b->sc, VSET1(-AMX_MAGIC));
#endif
    UNROLL
    for (int t = 0; t < AMX_ROWS; t++) {
        const V dx = VSET1(x[t].d);
#if SUBS
        const V sum = VFMA(VLOAD((const float *)(const void *)sums[t]), b->sc, off);
#else
        const V sum = QFLOAT(QLOAD(sums[t]));
#endif
        acc[t] = VFMA(VMUL(b->d, dx), sum, acc[t]);
#if MIN == 1
        acc[t] = VFMA(VMUL(b->m, dx), VSET1(x[t].own), acc[t]);
#elif MIN == 2
        acc[t] =
            _mm512_fnmadd_ps(VMUL(b->m, dx), VMUL(b->mn, VSET1(x[t].own)), acc[t]);
#endif
    }
}

/* 16 rows (the last ones repeated where there are fewer) with the blocks of a span, into their
 * parts. */
static void FN(amx_span)(float (*acc)[IG_BLOCK_PARTS][IG_PANEL_ROWS],
                         const struct FN(amx_block) * w, const void *const *x, int b, int blocks,
                         int n)
{
    _Alignas(64) int32_t sums[AMX_RING][AMX_ROWS][IG_PANEL_ROWS];
    struct amx_acts acts[2];
    struct amx_turn next = { .end = blocks };
    unsigned made = 0, read = 0;
/* While the window from `at` on is entered, the one behind it has room, too. */
#define AMX_NEXT(now)                                                                              \
    if (next.at < blocks && next.at < (now) + 2 * AMX_WINDOW) {                                     \
        struct amx_acts *from = &acts[next.at / AMX_WINDOW % 2];                                   \
        if (next.j == 0) amx_acts(from, x, b + next.at, amx_window(blocks - next.at), n, MIN != 0); \
        AMX_SUMS(sums[made % AMX_RING], from->q[next.j], w[next.at + next.j].w, made & 1, SUBS);   \
        made++;                                                                                    \
        amx_turn(&next);                                                                           \
    }
    for (int i = 0; i < AMX_AHEAD; i++) {
        AMX_NEXT(0)
    }
    for (int at = 0; at < blocks; at += AMX_WINDOW) {
        const int window = amx_window(blocks - at);
        for (int part = 0; part < IG_BLOCK_PARTS && part < window; part++) {
            V a[AMX_ROWS];
            UNROLL
            for (int i = 0; i < AMX_ROWS; i++) a[i] = VLOAD(acc[i][part]);
            for (int j = part; j < window; j += IG_BLOCK_PARTS, read++) {
                AMX_NEXT(at)
                FN(amx_enter)
                (a, &w[at + j], acts[at / AMX_WINDOW % 2].s[j], sums[read % AMX_RING]);
            }
            UNROLL
            for (int i = 0; i < AMX_ROWS; i++) VSTORE(acc[i][part], a[i]);
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
        for (int t = 0; t < n; t += AMX_ROWS)
            FN(amx_span)(acc + t, w, x + t, b, blocks, n - t);
    }
    for (int t = 0; t < n; t++) {
        V s[4];
        UNROLL
        for (int i = 0; i < 4; i++) s[i] = VADD(VLOAD(acc[t][i]), VLOAD(acc[t][i + 4]));
        VSTORE(y[t], VADD(VADD(s[0], s[2]), VADD(s[1], s[3])));
    }
}
