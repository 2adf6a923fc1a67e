/* quant.inc.h -- panel times activations for one block format (rule 3 of kernels.h).
 *
 * Include it after vec_*.h, quant_words_*.h and quant_unpack.inc.h with these
 * defined; it undefines them again:
 *   FN(f)          function name with the format's and the ISA's suffix
 *   TILE           bytes of a tile
 *   BLOCKS         blocks of 32 columns in it: 1 or 8
 *   HEAD           bytes before its columns; BLOCK: bytes of 32 columns
 *   BITS           of a code, as quant_dot4 wants to know
 *   UNPACK(w, p)   32 columns at p as QI w[8]
 *   SCALE(p)       V: d of the rows; p is the tile's start
 *   ZERO           what UNPACK's codes are above their values
 *   SUBS           sub-scales of 32 columns: 0, 1, 2
 *   SCALES(sc, p)  const int8_t *: sub-scales [i][16], where SUBS > 0; p is the tile's start
 *   MIN            enum ig_qmin as a number: 0, 1 (row), 2 (sub)
 *   MINS           bytes from the sub-scales to the minima, where MIN == 2
 *
 * HALVES vectors make 16 rows.  Bound: n == 1 one read of the panel; else
 * multiply issue.
 */
enum { FN(HALVES) = IG_PANEL_ROWS / VL, FN(RB) = 32 /* rows whose parts stay in L1 */ };

/* What rows VL*h.. of 32 columns are: loaded once, used for every activation row. */
struct FN(block) {
    QI w[8];
    V d, m, sc[2], mn[2];
};

static inline __attribute__((always_inline)) void
FN(load)(struct FN(block) * b, const uint8_t *tile, const int8_t *sc, int j, int h)
{
    UNPACK(b->w, tile + HEAD + j * BLOCK + 4 * VL * h);
    b->d = SCALE(tile);
    (void)sc;
#if MIN
    b->m = VLOAD_F16(tile + 2 * IG_PANEL_ROWS + 2 * VL * h);
#endif
    UNROLL
    for (int i = 0; i < SUBS; i++) {
        b->sc[i] = QFLOAT(QROWS8(sc + (j * SUBS + i) * IG_PANEL_ROWS + VL * h));
#if MIN == 2
        b->mn[i] = QFLOAT(QROWS8(sc + MINS + (j * SUBS + i) * IG_PANEL_ROWS + VL * h));
#endif
    }
}

/* Integers below 2^24 are exact as floats, and no sum of sub-scales times sums exceeds that
 * (Q6_K reaches it: 2 * 128 * 16 * 32 * 128), so they are multiplied and added as floats.
 * A sum of 0 may be -0 then, which changes no acc: an acc is never -0. */
static inline __attribute__((always_inline)) V FN(step)(V acc, const struct FN(block) * b,
                                                        const struct ig_xq *x)
{
    QI s = quant_dot4(b->w, x->q, BITS), s1 = quant_dot4(b->w + 4, x->q + 16, BITS);
#if SUBS == 2
    /* the activations' own sums by halves: of x for minima, else of ZERO * x */
    enum { EACH = ZERO ? ZERO : 1 };
    const QI each[4] = { QSET8(EACH), QSET8(EACH), QSET8(EACH), QSET8(EACH) };
    const QI x0 = quant_dot4(each, x->q, BITS), x1 = QSUB(QSET32(EACH * x->sum), x0);
#if ZERO
    s = QSUB(s, x0);
    s1 = QSUB(s1, x1);
#endif
    const V sum = VFMA(QFLOAT(s1), b->sc[1], VMUL(QFLOAT(s), b->sc[0]));
#else
    s = QADD(s, s1);
#if ZERO
    s = QSUB(s, QSET32(ZERO * x->sum));
#endif
    const V sum = SUBS ? VMUL(QFLOAT(s), b->sc[0]) : QFLOAT(s);
#endif
    const V dx = VSET1(x->d);
    acc = VFMA(VMUL(b->d, dx), sum, acc);
#if MIN == 1
    acc = VFMA(VMUL(b->m, dx), VSET1((float)x->sum), acc);
#elif MIN == 2 && SUBS == 2
    const V least = VFMA(QFLOAT(x1), b->mn[1], VMUL(QFLOAT(x0), b->mn[0]));
    acc = VFMA(VMUL(b->m, VSET1(-x->d)), least, acc);
#elif MIN == 2
    acc = VFMA(VMUL(b->m, VSET1(-x->d)), VMUL(b->mn[0], VSET1((float)x->sum)), acc);
#endif
    return acc;
}

static inline const int8_t *FN(scales)(int8_t buffer[512], const uint8_t *tile)
{
    (void)buffer;
    (void)tile;
#if SUBS
    return SCALES(buffer, tile);
#else
    return NULL;
#endif
}

static void FN(one)(float y[IG_PANEL_ROWS], const uint8_t *p, const struct ig_xq *x, int nb)
{
    V acc[IG_BLOCK_PARTS][FN(HALVES)];
    int8_t buffer[512];
    UNROLL
    for (int i = 0; i < IG_BLOCK_PARTS; i++)
        for (int h = 0; h < FN(HALVES); h++) acc[i][h] = VZERO;
    int b = 0;
    for (; b + IG_BLOCK_PARTS <= nb; b += IG_BLOCK_PARTS, p += IG_BLOCK_PARTS / BLOCKS * TILE) {
        const int8_t *sc = FN(scales)(buffer, p);
        UNROLL
        for (int i = 0; i < IG_BLOCK_PARTS; i++) {
            enum { EACH = TILE / BLOCKS };
            UNROLL
            for (int line = (i * EACH + 63) / 64; line * 64 < (i + 1) * EACH; line++) {
                PREFETCH_DECODE(p + line * 64);
            }
            UNROLL
            for (int h = 0; h < FN(HALVES); h++) {
                struct FN(block) w;
                FN(load)(&w, p + i / BLOCKS * TILE, sc, i % BLOCKS, h);
                acc[i][h] = FN(step)(acc[i][h], &w, x + b + i);
            }
        }
    }
#if BLOCKS == 1
    UNROLL
    for (int i = 0; i < IG_BLOCK_PARTS; i++) {
        if (b + i < nb) {
            UNROLL
            for (int h = 0; h < FN(HALVES); h++) {
                struct FN(block) w;
                FN(load)(&w, p + i * TILE, NULL, 0, h);
                acc[i][h] = FN(step)(acc[i][h], &w, x + b + i);
            }
        }
    }
#endif
    for (int h = 0; h < FN(HALVES); h++) {
        V s[4];
        UNROLL
        for (int i = 0; i < 4; i++) s[i] = VADD(acc[i][h], acc[i + 4][h]);
        VSTORE(y + VL * h, VADD(VADD(s[0], s[2]), VADD(s[1], s[3])));
    }
}

#if defined QUANT_GROUP
#include "quant_rows_avx512.inc.h"
#elif defined QUANT_PAIRS
#include "quant_rows_neon.inc.h"
#else
static void FN(rows)(float (*y)[IG_PANEL_ROWS], const uint8_t *p, const void *const *x, int nb,
                     int rb)
{
    _Alignas(64) float acc[FN(RB)][IG_BLOCK_PARTS][IG_PANEL_ROWS];
    int8_t buffer[512];
    memset(acc, 0, (size_t)rb * sizeof acc[0]);
    for (int b = 0; b < nb; p += TILE) {
        const int8_t *sc = FN(scales)(buffer, p);
        for (int j = 0; j < BLOCKS; j++, b++) {
            for (int h = 0; h < FN(HALVES); h++) {
                struct FN(block) w;
                FN(load)(&w, p, sc, j, h);
                for (int t = 0; t < rb; t++) {
                    float *to = acc[t][b % IG_BLOCK_PARTS] + VL * h;
                    VSTORE(to, FN(step)(VLOAD(to), &w, (const struct ig_xq *)x[t] + b));
                }
            }
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
#endif

void FN(ig_panel)(float (*y)[IG_PANEL_ROWS], const void *panel, const void *const *x, int cols,
                  int n)
{
    IG_KNOWN_COLS(cols);
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
#undef TILE
#undef BLOCKS
#undef HEAD
#undef BLOCK
#undef BITS
#undef UNPACK
#undef SCALE
#undef ZERO
#undef SUBS
#undef SCALES
#undef MIN
#undef MINS
