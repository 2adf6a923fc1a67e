/* quant_words_sdot.h -- pairs of activation rows by SDOT, for quant_rows_neon.inc.h: four
 * activations for four rows of weights are an operand, no broadcast.
 */
#define QUANT_PAIRS

/* 32 columns of two activation rows, one after the other. */
struct quant_bytes {
    int8x16_t v[2][2];
};

static inline void quant_bytes_of(struct quant_bytes *x, const int8_t *q0, const int8_t *q1)
{
    UNROLL
    for (int k = 0; k < 2; k++) {
        x->v[0][k] = vld1q_s8(q0 + 16 * k);
        x->v[1][k] = vld1q_s8(q1 + 16 * k);
    }
}

/* What the sums of the two rows start from. */
static inline void quant_from(QI from[2], int32x2_t f)
{
    from[0] = vdupq_lane_s32(f, 0);
    from[1] = vdupq_lane_s32(f, 1);
}

static inline void quant_order(QI w[8]) { (void)w; }

/* Sums by weight row for each of the two activation rows, of the halves lo..hi-1 of 32 columns. */
static inline __attribute__((always_inline)) void quant_sums(QI s[2], const QI w[8],
                                                             const struct quant_bytes *x,
                                                             const int lo, const int hi,
                                                             const QI from[2])
{
    UNROLL
    for (int i = 0; i < 2; i++) {
        s[i] = from[i];
        UNROLL
        for (int k = lo; k < hi; k++) {
            s[i] = vdotq_laneq_s32(s[i], S8(w[4 * k]), x->v[i][k], 0);
            s[i] = vdotq_laneq_s32(s[i], S8(w[4 * k + 1]), x->v[i][k], 1);
            s[i] = vdotq_laneq_s32(s[i], S8(w[4 * k + 2]), x->v[i][k], 2);
            s[i] = vdotq_laneq_s32(s[i], S8(w[4 * k + 3]), x->v[i][k], 3);
        }
    }
}
