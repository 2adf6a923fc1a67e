/* amx_rows.inc.h -- a panel times many activation rows with int8 tiles, for quant.inc.h.
 *
 * Include it with quant.inc.h's macros, SUBS below 2, where FN(load)'s parts are wanted
 * for tiles: UNPACK gives the bytes as they are in kernels/quant.h, a group of four columns
 * 64 B.  The integer sums are those of every other variant, and what follows has the same
 * order: the same bits.
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

/* Columns of `n` blocks, parts 0 .. n - 1, times 16 rows of activations of which `live` count. */
static void FN(amx_sixteen)(float (*acc)[IG_BLOCK_PARTS][IG_PANEL_ROWS],
                            const struct FN(amx_block) * w, int n, const struct amx_rows *x, int b,
                            int live)
{
    int32_t sums[IG_BLOCK_PARTS][AMX_ROWS][IG_PANEL_ROWS];
    for (int j = 0; j < n; j++) {
        TILE_LOAD(5, w[j].w, 64);
        TILE_LOAD(4, x->base + (b + j) * x->block, x->step);
        /* another tile each time: the next product need not wait for this one's */
        switch (j % 4) {
        case 0: AMX_SUMS(0, sums[j]); break;
        case 1: AMX_SUMS(1, sums[j]); break;
        case 2: AMX_SUMS(2, sums[j]); break;
        default: AMX_SUMS(3, sums[j]); break;
        }
    }
    for (int j = 0; j < n; j++) {
        for (int t = 0; t < live; t++) {
            float *to = acc[t][j];
            VSTORE(to, FN(amx_enter)(VLOAD(to), &w[j], (const struct ig_xq *)x->x[t] + b + j,
                                     _mm512_loadu_si512(sums[j][t])));
        }
    }
}

static void FN(amx_rows)(float (*y)[IG_PANEL_ROWS], const uint8_t *p, const struct amx_rows *x,
                         int nb, int n)
{
    enum { TILES = IG_BLOCK_PARTS / BLOCKS };
    float acc[AMX_RB][IG_BLOCK_PARTS][IG_PANEL_ROWS];
    int8_t buffer[512];
    memset(acc, 0, (size_t)n * sizeof acc[0]);
    for (int b = 0; b < nb; b += IG_BLOCK_PARTS) {
        struct FN(amx_block) w[IG_BLOCK_PARTS];
        const int blocks = nb - b < IG_BLOCK_PARTS ? nb - b : IG_BLOCK_PARTS;
        const int8_t *sc = FN(scales)(buffer, p);
        for (int j = 0; j < blocks; j++)
            FN(amx_load)(&w[j], p + j / BLOCKS * TILE, sc, j % BLOCKS);
        for (int t = 0; t < n; t += AMX_ROWS)
            FN(amx_sixteen)(acc + t, w, blocks, x + t / AMX_ROWS, b, n - t < AMX_ROWS ? n - t : AMX_ROWS);
        p += TILES * TILE;
    }
    for (int t = 0; t < n; t++) {
        V s[4];
        UNROLL
        for (int i = 0; i < 4; i++) s[i] = VADD(VLOAD(acc[t][i]), VLOAD(acc[t][i + 4]));
        VSTORE(y[t], VADD(VADD(s[0], s[2]), VADD(s[1], s[3])));
    }
}

void FN(ig_panel)(float (*y)[IG_PANEL_ROWS], const void *panel, const void *const *x, int cols,
                  int n)
{
    const int nb = cols / IG_QBLOCK;
    int t = 0;
    for (; n - t >= AMX_LEAST; t += AMX_RB) {
        const int rows = n - t < AMX_RB ? n - t : AMX_RB;
        struct amx_rows sixteen[AMX_RB / AMX_ROWS];
        for (int i = 0; i < rows; i += AMX_ROWS)
            amx_gather(&sixteen[i / AMX_ROWS], i / AMX_ROWS, x + t + i,
                       rows - i < AMX_ROWS ? rows - i : AMX_ROWS, nb);
        FN(amx_rows)(y + t, panel, sixteen, nb, rows);
    }
    if (t < n) PLAIN(y + t, panel, x + t, cols, n - t);
}
