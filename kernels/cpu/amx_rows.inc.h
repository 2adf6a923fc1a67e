/* amx_rows.inc.h -- a panel times many packed activation rows with int8 tiles, for quant.inc.h.
 *
 * It takes the place of quant.inc.h's kernels where QUANT_TILES is defined, with the same
 * macros.  The integer sums are those of every other variant, and so is the order of what follows:
 * the same bits.
 *
 * AMX_SPAN blocks of 32 columns are unpacked once for all rows: UNPACK's vectors, less their zero
 * point, are the rows of the weights' tile; a part's blocks follow one another.  Then part by
 * part, in it 16 rows after 16 rows, what the part's blocks add being kept in 16 registers: the
 * activations (amx_pack) come in one stream, a part's weights stay in the nearest cache.  A sum is
 * read AMX_AHEAD products after it was saved, across parts and rows: until what a tile saves is in
 * the cache, loads of it wait.
 *
 * Bound, for 16 rows and 32 columns: entering a part takes 3 steps of the two vector ports a row
 * (6 with sub-scales, and with minima), so 24 cycles (48); product and save are 16 each beside it,
 * twice that where sub-scales are for 16 columns.
 */
#define AMX_HALVES (SUBS == 2 ? 2 : 1) /* products of a block */

struct FN(amx_block) {
    int8_t w[512];
    V d;
#if MIN
    V m;
#endif
#if SUBS
    V sc[SUBS];
#endif
#if MIN == 2
    V mn[SUBS];
#endif
};

static void FN(amx_load)(struct FN(amx_block) * to, const uint8_t *tile, const int8_t *sc, int j)
{
    const int h = 0;
    QI w[8];
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
    UNROLL
    for (int i = 0; i < SUBS; i++) {
#if SUBS
        to->sc[i] = QFLOAT(QROWS8(sc + (j * SUBS + i) * IG_PANEL_ROWS));
#endif
#if MIN == 2
        to->mn[i] = QFLOAT(QROWS8(sc + MINS + (j * SUBS + i) * IG_PANEL_ROWS));
#endif
    }
}

static inline V FN(amx_off)(const struct FN(amx_block) * b)
{
    (void)b;
#if SUBS == 1
    return VMUL(b->sc[0], VSET1(-AMX_MAGIC));
#else
    return VZERO;
#endif
}

/* Sums s of row i of 16 rows' activations with 32 columns into a part.  With one sub-scale, s comes
 * as the float AMX_MAGIC + s, and sc * s is one fused step from it, exact; off: -AMX_MAGIC * sc. */
static inline V FN(amx_enter)(V acc, const struct FN(amx_block) * b, const struct amx_side *x,
                              int i, const int32_t *s, V off)
{
    const V dx = VSET1(x->d[i]);
    (void)off;
#if SUBS == 2
    const V sum = VFMA(QFLOAT(QLOAD(s + AMX_ROWS * IG_PANEL_ROWS)), b->sc[1],
                       VMUL(QFLOAT(QLOAD(s)), b->sc[0]));
#elif SUBS
    const V sum = VFMA(VLOAD((const float *)(const void *)s), b->sc[0], off);
#else
    const V sum = QFLOAT(QLOAD(s));
#endif
    acc = VFMA(VMUL(b->d, dx), sum, acc);
#if MIN == 1
    acc = VFMA(VMUL(b->m, dx), VSET1(x->sum[i]), acc);
#elif MIN == 2 && SUBS == 2
    const V least = VFMA(VSET1(x->half[1][i]), b->mn[1], VMUL(VSET1(x->half[0][i]), b->mn[0]));
    acc = _mm512_fnmadd_ps(VMUL(b->m, dx), least, acc);
#elif MIN == 2
    acc = _mm512_fnmadd_ps(VMUL(b->m, dx), VMUL(b->mn[0], VSET1(x->sum[i])), acc);
#endif
    return acc;
}

/* The products of a span, in the order in which they are entered. */
struct FN(amx_turn) {
    const int8_t *q;                /* of the next product's activations */
    const struct FN(amx_block) * w; /* its weights */
    int j, m, group, groups, part, blocks;
};

static inline void FN(amx_next)(struct FN(amx_turn) * a)
{
    a->q += AMX_ROWS * IG_QBLOCK;
    a->w++;
    if (++a->j < a->m) return;
    a->j = 0;
    if (++a->group < a->groups) {
        a->w -= a->m;
        return;
    }
    a->group = 0;
    a->part++;
    a->m = (a->blocks - a->part + IG_BLOCK_PARTS - 1) / IG_BLOCK_PARTS;
}

/* All groups with the blocks of a span, into their parts.  Meanwhile what follows them in memory
 * comes near, a line each so many products: unpacking alone would wait for it. */
static void FN(amx_span)(float (*acc)[IG_BLOCK_PARTS][AMX_ROWS][IG_PANEL_ROWS],
                         const struct FN(amx_block) * w, const int8_t *q,
                         const struct amx_side *side, const uint8_t *follows, int blocks,
                         int groups, int first)
{
    _Alignas(4096) int32_t sums[AMX_RING][AMX_HALVES][AMX_ROWS][IG_PANEL_ROWS];
    struct FN(amx_turn) next = {
        .q = q,
        .w = w,
        .m = (blocks + IG_BLOCK_PARTS - 1) / IG_BLOCK_PARTS,
        .groups = groups,
        .blocks = blocks,
    };
    unsigned made = 0, read = 0;
    const unsigned all = (unsigned)(blocks * groups);
    int due = 0;
#define AMX_NEXT                                                                                   \
    if (made < all) {                                                                              \
        amx_product(sums[made++ % AMX_RING], next.q, next.w->w, AMX_HALVES, SUBS == 1);            \
        FN(amx_next)(&next);                                                                       \
    }
    for (int i = 0; i < AMX_AHEAD; i++) {
        AMX_NEXT
    }
    for (int part = 0; part < IG_BLOCK_PARTS && part < blocks; part++) {
        const int m = (blocks - part + IG_BLOCK_PARTS - 1) / IG_BLOCK_PARTS;
        for (int g = 0; g < groups; g++) {
            V a[AMX_ROWS];
            UNROLL
            for (int i = 0; i < AMX_ROWS; i++) a[i] = first ? VZERO : VLOAD(acc[g][part][i]);
            for (int j = 0; j < m; j++, read++, side++) {
                AMX_NEXT
                for (due += TILE / BLOCKS; due >= 64 * groups; due -= 64 * groups, follows += 64)
                    PREFETCH_AT(follows);
                const V off = FN(amx_off)(&w[j]);
                UNROLL
                for (int i = 0; i < AMX_ROWS; i++)
                    a[i] = FN(amx_enter)(a[i], &w[j], side, i, sums[read % AMX_RING][0][i], off);
            }
            UNROLL
            for (int i = 0; i < AMX_ROWS; i++) VSTORE(acc[g][part][i], a[i]);
        }
        w += m;
    }
#undef AMX_NEXT
}

/* Up to AMX_RB rows. */
static void FN(amx_rows)(float (*y)[IG_PANEL_ROWS], const uint8_t *p, struct amx_rows x, int nb,
                         int n)
{
    _Alignas(64) float acc[AMX_RB / AMX_ROWS][IG_BLOCK_PARTS][AMX_ROWS][IG_PANEL_ROWS];
    struct FN(amx_block) w[AMX_SPAN];
    int8_t buffer[512];
    amx_ready(SUBS == 2 ? &amx_int8_half : &amx_int8);
    if (nb < IG_BLOCK_PARTS) memset(acc, 0, (size_t)x.groups * sizeof acc[0]);
    for (int b = 0; b < nb; b += AMX_SPAN) {
        const int blocks = nb - b < AMX_SPAN ? nb - b : AMX_SPAN;
        for (int j = 0; j < blocks; p += TILE) {
            const int8_t *sc = FN(scales)(buffer, p);
            for (int i = 0; i < BLOCKS; i++, j++) FN(amx_load)(&w[amx_place(j, blocks)], p, sc, i);
        }
        FN(amx_span)(acc, w, x.q, x.side, p, blocks, x.groups, b == 0);
        x.q += (size_t)(x.groups * blocks) * AMX_ROWS * IG_QBLOCK;
        x.side += x.groups * blocks;
    }
    for (int t = 0; t < n; t++) {
        const float *part = acc[t / AMX_ROWS][0][t % AMX_ROWS];
        enum { STEP = AMX_ROWS * IG_PANEL_ROWS };
        V s[4];
        UNROLL
        for (int i = 0; i < 4; i++)
            s[i] = VADD(VLOAD(part + i * STEP), VLOAD(part + (i + 4) * STEP));
        VSTORE(y[t], VADD(VADD(s[0], s[2]), VADD(s[1], s[3])));
    }
}
#undef AMX_HALVES
