/* quant_rows_neon.inc.h -- a panel times many activation rows, for quant.inc.h.
 *
 * It takes the place of that file's FN(rows) where QUANT_PAIRS is defined, with the same macros.
 * Rows of activations go two by two.  What a pair needs of 32 columns is made once for all 16 rows
 * of weights: the bytes as quant_sums wants them, what the sums start from (so that a zero point
 * costs nothing later), and the factors of both rows in one vector, of which a multiplication takes
 * a lane.  Bound: instructions, which bench/count.sh counts: of 89 that Q8_0 takes for 16 rows of
 * weights, 32 columns and one row of activations, 32 are SDOT; of 84, 16 are SMMLA.
 */
struct FN(pair) {
    struct quant_bytes x;
    QI from[2][2]; /* by half of the columns, as quant_from makes them */
    V f;           /* d of the two rows, then their sums */
    V halves;      /* sums of the first half, then of the second */
};

static inline __attribute__((always_inline)) void
FN(pair)(struct FN(pair) * p, const struct ig_xq *x0, const struct ig_xq *x1)
{
    quant_bytes_of(&p->x, x0->q, x1->q);
    const int32x2_t r0 = quant_d_sum(x0), r1 = quant_d_sum(x1);
    const int32x2_t sum = vzip2_s32(r0, r1), zero = vdup_n_s32(-ZERO);
    p->f = vcombine_f32(vreinterpret_f32_s32(vzip1_s32(r0, r1)), vcvt_f32_s32(sum));
#if SUBS == 2
    const int32x2_t first = { quant_sum16(x0->q), quant_sum16(x1->q) };
    const int32x2_t rest = vsub_s32(sum, first);
    p->halves = vcvtq_f32_s32(vcombine_s32(first, rest));
    quant_from(p->from[0], vmul_s32(zero, first));
    quant_from(p->from[1], vmul_s32(zero, rest));
#else
    quant_from(p->from[0], vmul_s32(zero, sum));
#endif
}

/* What 32 columns add to the parts of row i of a pair (rule 3): FN(step), its factors in lanes. */
static inline __attribute__((always_inline)) V
FN(enter)(V acc, const struct FN(block) * b, const struct FN(pair) * p, const int i, QI s, QI s1)
{
    (void)s1;
#if SUBS == 2
    const V sum = VFMA(QFLOAT(s1), b->sc[1], VMUL(QFLOAT(s), b->sc[0]));
#else
    const V sum = SUBS ? VMUL(QFLOAT(s), b->sc[0]) : QFLOAT(s);
#endif
    acc = VFMA(VMUL_LANE(b->d, p->f, i), sum, acc);
#if MIN == 1
    acc = VFMA_LANE(VMUL_LANE(b->m, p->f, i), p->f, 2 + i, acc);
#elif MIN == 2 && SUBS == 2
    const V least = VFMA_LANE(b->mn[1], p->halves, 2 + i, VMUL_LANE(b->mn[0], p->halves, i));
    acc = VFNMA(VMUL_LANE(b->m, p->f, i), least, acc);
#elif MIN == 2
    acc = VFNMA(VMUL_LANE(b->m, p->f, i), VMUL_LANE(b->mn[0], p->f, 2 + i), acc);
#endif
    return acc;
}

static inline __attribute__((always_inline)) void
FN(both)(float to[2 * VL], const struct FN(block) * b, const struct FN(pair) * p)
{
    QI s[2], s1[2] = { QSET32(0), QSET32(0) };
#if SUBS == 2
    quant_sums(s, b->w, &p->x, 0, 1, p->from[0]);
    quant_sums(s1, b->w, &p->x, 1, 2, p->from[1]);
#else
    quant_sums(s, b->w, &p->x, 0, 2, p->from[0]);
#endif
    const V a0 = FN(enter)(VLOAD(to), b, p, 0, s[0], s1[0]);
    const V a1 = FN(enter)(VLOAD(to + VL), b, p, 1, s[1], s1[1]);
    VSTORE(to, a0);
    VSTORE(to + VL, a1);
}

/* The last pair of an odd count has its first row twice. */
static void FN(rows)(float (*y)[IG_PANEL_ROWS], const uint8_t *p, const void *const *x, int nb,
                     int rb)
{
    float acc[IG_BLOCK_PARTS][FN(HALVES)][FN(RB)][VL];
    struct FN(pair) pair[FN(RB) / 2];
    int8_t buffer[512];
    const struct ig_xq *row[FN(RB)];
    const int pairs = (rb + 1) / 2;
    for (int t = 0; t < pairs * 2; t++) row[t] = x[t < rb ? t : t - 1];
    for (int i = 0; i < IG_BLOCK_PARTS * FN(HALVES); i++)
        memset(acc[i / FN(HALVES)][i % FN(HALVES)], 0, (size_t)pairs * 2 * sizeof acc[0][0][0]);
    for (int b = 0; b < nb; p += TILE) {
        const int8_t *sc = FN(scales)(buffer, p);
        for (int j = 0; j < BLOCKS; j++, b++) {
            UNROLL
            for (int line = 0; line < (TILE / BLOCKS + 63) / 64; line++)
                PREFETCH(p + j * (TILE / BLOCKS) + 64 * line);
            for (int t = 0; t < pairs; t++) FN(pair)(&pair[t], row[2 * t] + b, row[2 * t + 1] + b);
            for (int h = 0; h < FN(HALVES); h++) {
                struct FN(block) w;
                FN(load)(&w, p, sc, j, h);
                quant_order(w.w);
                float(*to)[VL] = acc[b % IG_BLOCK_PARTS][h];
                for (int t = 0; t < pairs; t++) FN(both)(to[2 * t], &w, &pair[t]);
            }
        }
    }
    for (int t = 0; t < rb; t++) {
        for (int h = 0; h < FN(HALVES); h++) {
            V s[4];
            UNROLL
            for (int i = 0; i < 4; i++) s[i] = VADD(VLOAD(acc[i][h][t]), VLOAD(acc[i + 4][h][t]));
            VSTORE(y[t] + VL * h, VADD(VADD(s[0], s[2]), VADD(s[1], s[3])));
        }
    }
}
