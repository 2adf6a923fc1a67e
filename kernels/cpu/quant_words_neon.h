/* quant_words_neon.h -- the integer and byte words of quant.inc.h, 4 rows in one vector.
 *
 * Codes are signed here: SDOT multiplies signed by signed, and every format's codes fit but
 * Q8_0's, which QBYTES makes signed.  So no book and no byte has anything added.
 */
#define U8(a)  vreinterpretq_u8_s32(a)
#define S8(a)  vreinterpretq_s8_s32(a)
#define S32(a) vreinterpretq_s32_u8(a)

#define QI               int32x4_t
#define QLOAD(p)         S32(vld1q_u8(p))
#define QBYTES(p)        S32(veorq_u8(vld1q_u8(p), vdupq_n_u8(128)))
#define QSET8(x)         vreinterpretq_s32_s8(vdupq_n_s8((int8_t)(x)))
#define QSET32(x)        vdupq_n_s32(x)
#define QAND(a, b)       vandq_s32(a, b)
#define QADD(a, b)       vaddq_s32(a, b)
#define QSUB(a, b)       vsubq_s32(a, b)
#define QSHL16(a, n)     S32(vshlq_n_u8(U8(a), n)) /* inside bytes: nothing is carried over */
#define QSHR16(a, n)     S32(vshrq_n_u8(U8(a), n))
#define QHIGH4(a)        S32(vshrq_n_u8(U8(a), 4))
#define QSHL32(a, n)     vshlq_n_s32(a, n)
#define QOR_AND(a, b, m) vbslq_s32(vreinterpretq_u32_s32(m), b, a) /* a has none of m's bits */
#define QLOOKUP(t, i)    S32(vqtbl1q_u8(t, U8(i)))
#define QTABLE           uint8x16_t
#define QFLOAT(a)        vcvtq_f32_s32(a)
#define QROWS8(p)        vmovl_s16(vget_low_s16(vmovl_s8(vreinterpret_s8_u32(quant_load4(p)))))
#define QROWSU8(p)                                                                                 \
    vreinterpretq_s32_u32(vmovl_u16(vget_low_u16(vmovl_u8(vreinterpret_u8_u32(quant_load4(p))))))
#define QBITS(a)         vreinterpretq_f32_s32(a)
#define QLESS2(a)        vcltq_s32(a, QSET32(2))
#define QCHOOSE(k, a, b) vbslq_s32(k, a, b) /* k ? a : b */
#define QSHLV32(a, n)    vshlq_s32(a, n)
#define QABOVE(n)        0
#define QBOOK(p, n)      ((void)(n), vreinterpretq_u8_s8(vld1q_s8(p)))

#define B            uint8x16_t
#define BL           16
#define BLOAD(p)     vld1q_u8(p)
#define BSTORE(p, a) vst1q_s8(p, vreinterpretq_s8_u8(a))
#define BSET(x)      vreinterpretq_u8_s8(vdupq_n_s8(x))
#define BAND(a, b)   vandq_u8(a, b)
#define BOR(a, b)    vorrq_u8(a, b)
#define BSUB(a, b)   vsubq_u8(a, b)
#define BSHL(a, n)   vshlq_n_u8(a, n)
#define BSHR(a, n)   vshrq_n_u8(a, n)
#define BSHLV(a, n)  vshlq_u8(a, vdupq_n_s8((int8_t)(n)))

/* Four bytes and no more, in the low half of nothing else. */
static inline uint32x2_t quant_load4(const void *p)
{
    uint32_t u;
    memcpy(&u, p, sizeof u);
    return vdup_n_u32(u);
}

/* The sum of 16 bytes. */
static inline int quant_sum16(const int8_t *q) { return vaddlvq_s8(vld1q_s8(q)); }

/* The bits of d, then sum. */
static inline int32x2_t quant_d_sum(const struct ig_xq *x)
{
    int32x2_t r;
    _Static_assert(offsetof(struct ig_xq, sum) == offsetof(struct ig_xq, d) + 4, "neighbours");
    memcpy(&r, (const char *)x + offsetof(struct ig_xq, d), sizeof r);
    return r;
}

/* Sums of 16 columns by row.  Four activations for every row are an operand of SDOT, no broadcast.
 */
static inline QI quant_dot4(const QI w[4], const int8_t q[16], int bits)
{
    (void)bits;
    const int8x16_t x = vld1q_s8(q);
    QI s = vdotq_laneq_s32(vdupq_n_s32(0), S8(w[0]), x, 0);
    s = vdotq_laneq_s32(s, S8(w[1]), x, 1);
    s = vdotq_laneq_s32(s, S8(w[2]), x, 2);
    return vdotq_laneq_s32(s, S8(w[3]), x, 3);
}
