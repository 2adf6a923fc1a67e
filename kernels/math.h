/* math.h -- the scalar arithmetic that every kernel variant repeats bit for bit.
 *
 * Only exactly specified IEEE operations: fused multiply-add, add, multiply,
 * round to nearest even, integer work on the bits.  Compile what includes this
 * with -ffp-contract=off; SIMD variants issue the same operations in the same
 * order.
 */
#ifndef IG_MATH_H
#define IG_MATH_H

#include <math.h>
#include <stdint.h>
#include <string.h>

static inline uint32_t ig_f32_bits(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

static inline float ig_bits_f32(uint32_t u)
{
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}

/* Adding 1.5 * 2^23 rounds |x| < 2^22 to the nearest even integer, which is
 * then the low bits of the sum. */
#define IG_ROUND 12582912.0f

/* exp(x) = 2^n * exp(r), n = round(x / ln 2), |r| <= ln 2 / 2;
 * exp(r) = 1 + (r + r^2 q(r)), q fitted for the least relative error (3.1e-9).
 * LN2_HI has 21 bits, so n * LN2_HI is subtracted without error.
 * Arguments are clamped to where the result is a normal number: 1.2e-38 is the
 * smallest value returned, 3.4e38 the largest.  NaN gives NaN. */
#define IG_EXP_MIN (-87.3f)
#define IG_EXP_MAX 88.7228f
#define IG_LOG2E   0x1.715476p+0f
#define IG_LN2_HI  0x1.62e43p-1f
#define IG_LN2_LO  -0x1.05c610p-29f
#define IG_EXP_Q0  0x1.fffffcp-2f
#define IG_EXP_Q1  0x1.555492p-3f
#define IG_EXP_Q2  0x1.5558f2p-5f
#define IG_EXP_Q3  0x1.123a20p-7f
#define IG_EXP_Q4  0x1.6a23d0p-10f

static inline float ig_expf(float x)
{
    x = x > IG_EXP_MAX ? IG_EXP_MAX : x;
    x = x < IG_EXP_MIN ? IG_EXP_MIN : x;
    const float t = fmaf(x, IG_LOG2E, IG_ROUND);
    const float n = t - IG_ROUND;
    float r = fmaf(n, -IG_LN2_HI, x);
    r = fmaf(n, -IG_LN2_LO, r);
    float q = fmaf(IG_EXP_Q4, r, IG_EXP_Q3);
    q = fmaf(q, r, IG_EXP_Q2);
    q = fmaf(q, r, IG_EXP_Q1);
    q = fmaf(q, r, IG_EXP_Q0);
    const float p = fmaf(q, r * r, r) + 1.0f;
    const float y = ig_bits_f32(ig_f32_bits(p) + (ig_f32_bits(t) << 23)); /* n: t's low bits */
    return fmaf(x, 0.0f, y); /* y, unless x is NaN: then the integer sum is anything */
}

/* z * sigmoid(z) */
static inline float ig_silu(float z) { return z / (1.0f + ig_expf(-z)); }

/* x / 127 rounded to nearest where that is a normal number, and below 2^-126 where it is below:
 * without a division, for x from 0 on.  All floats were tried. */
static inline float ig_over_127(float x)
{
    const float inv = 1.0f / 127.0f, y = x * inv;
    return fmaf(fmaf(-127.0f, y, x), inv, y);
}

/* Exact: every f16 is an f32. */
static inline float ig_fp16_to_f32(uint16_t h)
{
    const uint32_t sign = (uint32_t)(h & 0x8000u) << 16, mag = h & 0x7fffu;
    if (mag >= 0x7c00u) { /* infinity; a NaN comes back quiet, as the hardware does it */
        const uint32_t quiet = mag > 0x7c00u ? 0x400000u : 0;
        return ig_bits_f32(sign | 0x7f800000u | quiet | (mag & 0x3ffu) << 13);
    }
    if (mag >= 0x400u) return ig_bits_f32(sign | ((mag << 13) + 0x38000000u));
    const float x = (float)mag * 0x1p-24f;
    return ig_bits_f32(sign | ig_f32_bits(x));
}

/* Round to nearest even; too large becomes infinity, NaN a quiet NaN. */
static inline uint16_t ig_fp16_from_f32(float x)
{
    const uint32_t u = ig_f32_bits(x), mag = u & 0x7fffffffu;
    const uint32_t sign = u >> 16 & 0x8000u;
    if (mag > 0x7f800000u) return (uint16_t)(sign | 0x7e00u | (mag >> 13 & 0x3ffu));
    if (mag >= 0x477ff000u) return (uint16_t)(sign | 0x7c00u);
    if (mag < 0x38800000u) { /* denormal f16: adding 0.5 rounds at 2^-24 */
        const float y = ig_bits_f32(mag) + 0.5f;
        return (uint16_t)(sign | (ig_f32_bits(y) - 0x3f000000u));
    }
    const uint32_t even = mag + 0xfffu + (mag >> 13 & 1u);
    return (uint16_t)(sign | ((even - 0x38000000u) >> 13));
}

/* kernels.h, V in the Q8_0 cache: the largest weight, both of whose bytes are below 128 when they
 * are signed; and a weight from its two factors. */
#define IG_KV_WEIGHT 32512.0f
/* P of kernels.h: 0 where its products with scales could be denormal, which takes a machine long.
 */
#define IG_KV_PEAK_LEAST 0x1p-80f
static inline float ig_kv_peak(float p) { return p < IG_KV_PEAK_LEAST ? 0.0f : p; }
static inline int ig_kv_weight(float p, float d)
{
    return (int)(ig_f32_bits(fmaf(p, d, IG_ROUND)) & 0xffffu);
}

static inline float ig_bf16_to_f32(uint16_t h) { return ig_bits_f32((uint32_t)h << 16); }

static inline uint16_t ig_bf16_from_f32(float x)
{
    const uint32_t u = ig_f32_bits(x);
    if ((u & 0x7fffffffu) > 0x7f800000u) return (uint16_t)(u >> 16 | 0x40u);
    return (uint16_t)((u + 0x7fffu + (u >> 16 & 1u)) >> 16);
}

/* Rule 2 of kernels.h: the parts of a block format's row become one. */
static inline float ig_tree8(const float a[8])
{
    return ((a[0] + a[4]) + (a[2] + a[6])) + ((a[1] + a[5]) + (a[3] + a[7]));
}

/* Rules 2 and 4: sixteen parts or lanes become one: i + (i + 8), then 4, 2, 1. */
static inline float ig_tree16(const float a[16])
{
    float b[8];
    for (int i = 0; i < 8; i++) b[i] = a[i] + a[i + 8];
    return ig_tree8(b);
}

#endif
