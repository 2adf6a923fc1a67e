/* quant_words_i8mm.h -- SMMLA for quant.inc.h: two rows of weights times two of activations,
 * eight columns at a time.
 */
#define QPAIRS 1

/* 32 columns of two activation rows: vector k has columns 8k.. of the one, then of the other. */
struct quant_pair {
    int8x16_t x[4];
};

static inline void quant_pair(struct quant_pair *p, const int8_t *q0, const int8_t *q1)
{
    UNROLL
    for (int k = 0; k < 4; k++) p->x[k] = vcombine_s8(vld1_s8(q0 + 8 * k), vld1_s8(q1 + 8 * k));
}

/* Vectors 2k and 2k + 1 of w, of which each has four columns of four rows, become eight columns of
 * the first two rows and of the last two. */
static inline void quant_mm_order(QI w[8])
{
    UNROLL
    for (int k = 0; k < 8; k += 2) {
        const QI a = vzip1q_s32(w[k], w[k + 1]), b = vzip2q_s32(w[k], w[k + 1]);
        w[k] = a;
        w[k + 1] = b;
    }
}

/* Sums of 16 columns by weight row, for each of the two activation rows. */
static inline void quant_mm(QI s[2], const QI w[4], const int8x16_t x[2])
{
    QI a = vdupq_n_s32(0), b = a;
    UNROLL
    for (int k = 0; k < 2; k++) {
        a = vmmlaq_s32(a, x[k], S8(w[2 * k]));
        b = vmmlaq_s32(b, x[k], S8(w[2 * k + 1]));
    }
    const int64x2_t a2 = vreinterpretq_s64_s32(a), b2 = vreinterpretq_s64_s32(b);
    s[0] = vreinterpretq_s32_s64(vuzp1q_s64(a2, b2));
    s[1] = vreinterpretq_s32_s64(vuzp2q_s64(a2, b2));
}
