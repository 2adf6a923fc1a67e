/* quant_words_i8mm.h -- pairs of activation rows by SMMLA, for quant_rows_neon.inc.h: two rows of
 * weights times two of activations, eight columns at a time.
 */
#define QUANT_PAIRS

/* 32 columns of two activation rows: vector k has columns 8k.. of the one, then of the other. */
struct quant_bytes {
    int8x16_t v[4];
};

static inline void quant_bytes_of(struct quant_bytes *x, const int8_t *q0, const int8_t *q1)
{
    UNROLL
    for (int k = 0; k < 2; k++) {
        const int64x2_t a = vreinterpretq_s64_s8(vld1q_s8(q0 + 16 * k));
        const int64x2_t b = vreinterpretq_s64_s8(vld1q_s8(q1 + 16 * k));
        x->v[2 * k] = vreinterpretq_s8_s64(vzip1q_s64(a, b));
        x->v[2 * k + 1] = vreinterpretq_s8_s64(vzip2q_s64(a, b));
    }
}

/* What the sums of the two rows start from: two lanes each. */
static inline void quant_from(QI from[2], int32x2_t f)
{
    from[0] = vcombine_s32(vdup_lane_s32(f, 0), vdup_lane_s32(f, 1));
}

/* Vectors 2k and 2k + 1 of w, of which each has four columns of four rows, become eight columns of
 * the first two rows and of the last two. */
static inline void quant_order(QI w[8])
{
    UNROLL
    for (int k = 0; k < 8; k += 2) {
        const QI a = vzip1q_s32(w[k], w[k + 1]), b = vzip2q_s32(w[k], w[k + 1]);
        w[k] = a;
        w[k + 1] = b;
    }
}

/* Sums by weight row for each of the two activation rows, of the halves lo..hi-1 of 32 columns. */
static inline __attribute__((always_inline)) void quant_sums(QI s[2], const QI w[8],
                                                             const struct quant_bytes *x,
                                                             const int lo, const int hi,
                                                             const QI from[2])
{
    QI a = from[0], b = a;
    UNROLL
    for (int k = 2 * lo; k < 2 * hi; k++) {
        a = vmmlaq_s32(a, x->v[k], S8(w[2 * k]));
        b = vmmlaq_s32(b, x->v[k], S8(w[2 * k + 1]));
    }
    const int64x2_t a2 = vreinterpretq_s64_s32(a), b2 = vreinterpretq_s64_s32(b);
    s[0] = vreinterpretq_s32_s64(vuzp1q_s64(a2, b2));
    s[1] = vreinterpretq_s32_s64(vuzp2q_s64(a2, b2));
}
