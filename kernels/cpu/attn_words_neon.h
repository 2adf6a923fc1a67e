/* attn_words_neon.h -- the integer words of attn_q8_0.inc.h. */

/* A weight's bytes, both signed: of four positions the low ones, then the high ones. */
struct sums_neon {
    int32x4_t low, high;
};
static inline struct sums_neon add_codes_neon(struct sums_neon s, int8x8_t x, int8x16_t q)
{
    return (struct sums_neon){ vdotq_lane_s32(s.low, q, x, 0), vdotq_lane_s32(s.high, q, x, 1) };
}
static inline void weights_neon(uint8_t *to, V x)
{
    static const uint8_t low[8] = { 0, 4, 8, 12, 255, 255, 255, 255 },
                         high[8] = { 255, 255, 255, 255, 1, 5, 9, 13 };
    const uint32x4_t u = vreinterpretq_u32_f32(x);
    const uint8x16_t above = vreinterpretq_u8_u32(vaddq_u32(u, vdupq_n_u32(128)));
    vst1_u8(to, vorr_u8(vqtbl1_u8(vreinterpretq_u8_u32(u), vld1_u8(low)),
                        vqtbl1_u8(above, vld1_u8(high))));
}
#define SUMS struct sums_neon
#define SUMS_ZERO                                                                                  \
    (struct sums_neon) { vdupq_n_s32(0), vdupq_n_s32(0) }
#define CODES              int8x16_t
#define LOAD_CODES(p)      vld1q_s8(p)
#define WEIGHT             int8x8_t
#define LOAD_WEIGHT(p)     vreinterpret_s8_u8(vld1_u8(p))
#define ADD_CODES(s, x, q) add_codes_neon(s, x, q)
#define SUMS_FLOAT(s)      vcvtq_f32_s32(vaddq_s32(vshlq_n_s32((s).high, 8), (s).low))
#define WEIGHTS(to, x)     weights_neon(to, x)
