/* vec_neon.h -- the vector words of the *.inc.h bodies, 4 floats wide. */
#include <arm_neon.h>
#include <string.h>

#include "../fixed.h"
#include "unroll.h"

/* As vec_avx2.h has it, at its distance: on no such machine was it measured. */
#define PREFETCH(p)        __builtin_prefetch((const char *)(p) + 12288, 0, 2)
#define PREFETCH_AT(p)     __builtin_prefetch(p, 0, 2)
#define PREFETCH_DECODE(p) PREFETCH(p) /* not measured: no such machine */

#define VL                    4
#define VREGS                 32
#define V                     float32x4_t
#define VZERO                 vdupq_n_f32(0.0f)
#define VLOAD(p)              vld1q_f32(p)
#define VLOAD_F16(p)          vcvt_f32_f16(vld1_f16((const void *)(p)))
#define VSTORE(p, a)          vst1q_f32(p, a)
#define VSET1(x)              vdupq_n_f32(x)
#define VADD(a, b)            vaddq_f32(a, b)
#define VSUB(a, b)            vsubq_f32(a, b)
#define VMUL(a, b)            vmulq_f32(a, b)
#define VDIV(a, b)            vdivq_f32(a, b)
#define VFMA(a, b, c)         vfmaq_f32(c, a, b)
#define VFNMA(a, b, c)        vfmsq_f32(c, a, b) /* c - a * b */
#define VMUL_LANE(a, b, i)    vmulq_laneq_f32(a, b, i)
#define VFMA_LANE(a, b, i, c) vfmaq_laneq_f32(c, a, b, i)
#define VMAX(a, b)            ig_max_neon(a, b)
#define VMIN(a, b)            ig_min_neon(a, b)
#define VABS(a)               vabsq_f32(a)
#define VROUND_I32(a)         vcvtnq_s32_f32(a)
/* a * 2^n, n in the low bits of t too; anything where a is NaN */
#define VSCALE2(a, n, t)                                                                           \
    vreinterpretq_f32_u32(                                                                         \
        vaddq_u32(vreinterpretq_u32_f32(a), vshlq_n_u32(vreinterpretq_u32_f32(t), 23)))
/* 2^n, n + 127 in the low bits of t */
#define VPOWER2(t) vreinterpretq_f32_u32(vshlq_n_u32(vreinterpretq_u32_f32(t), 23))
/* y < t ? 0 : x */
#define VUNLESS_LESS(x, y, t)                                                                      \
    vreinterpretq_f32_u32(vbicq_u32(vreinterpretq_u32_f32(x), vcltq_f32(y, t)))
/* n floats, n <= VL: no others are read or written, those read are 0 */
#define VLOADN(p, n)     ig_loadn_neon(p, n)
#define VSTOREN(p, a, n) ig_storen_neon(p, a, n)
#define VNAME(f)         f##_neon

/* a > b ? a : b, so b if one is NaN; the instruction of that name would give the NaN. */
static inline V ig_max_neon(V a, V b) { return vbslq_f32(vcgtq_f32(a, b), a, b); }
static inline V ig_min_neon(V a, V b) { return vbslq_f32(vcltq_f32(a, b), a, b); }

static inline V ig_loadn_neon(const float *p, int n)
{
    float x[VL] = { 0 };
    memcpy(x, p, (size_t)n * sizeof *p);
    return VLOAD(x);
}
static inline void ig_storen_neon(float *p, V a, int n)
{
    float x[VL];
    VSTORE(x, a);
    memcpy(p, x, (size_t)n * sizeof *p);
}

/* i + (i + 2), then 1: the rest of rule 4's tree. */
static inline float ig_vtree_neon(V a)
{
    const float32x2_t pair = vadd_f32(vget_low_f32(a), vget_high_f32(a));
    return vget_lane_f32(pair, 0) + vget_lane_f32(pair, 1);
}
#define VTREE(a) ig_vtree_neon(a)

/* Lane i: v[i] folded by the rest of rule 4's tree, 0 < n <= 4 vectors at once. */
static inline V ig_unzip_neon(V a, V b, int odd)
{
    const float64x2_t x = vreinterpretq_f64_f32(a), y = vreinterpretq_f64_f32(b);
    return vreinterpretq_f32_f64(odd ? vzip2q_f64(x, y) : vzip1q_f64(x, y));
}
#define VFOLD(name, OP)                                                                            \
    static inline V name(const V *v, int n)                                                        \
    {                                                                                              \
        const V a = v[0], b = v[n > 1 ? 1 : 0], c = v[n > 2 ? 2 : 0], d = v[n > 3 ? 3 : 0];        \
        const V x = OP(ig_unzip_neon(a, b, 0), ig_unzip_neon(a, b, 1));                            \
        const V y = OP(ig_unzip_neon(c, d, 0), ig_unzip_neon(c, d, 1));                            \
        return OP(vuzp1q_f32(x, y), vuzp2q_f32(x, y));                                             \
    }
#define VTOP(a) vmaxvq_f32(a) /* of numbers */

/* Rows 4h..4h+3 of two neighbouring columns, as float vectors *a and *b. */
static inline void ig_pair_f32_neon(const void *p, int h, V *a, V *b)
{
    *a = VLOAD((const float *)p + VL * h);
    *b = VLOAD((const float *)p + VL * h + IG_PANEL_ROWS);
}

static inline void ig_pair_bf16_neon(const void *p, int h, V *a, V *b)
{
    const uint32x4_t v = vld1q_u32((const uint32_t *)p + VL * h);
    *a = vreinterpretq_f32_u32(vshlq_n_u32(v, 16));
    *b = vreinterpretq_f32_u32(vandq_u32(v, vdupq_n_u32(0xffff0000u)));
}

static inline void ig_pair_f16_neon(const void *p, int h, V *a, V *b)
{
    const uint32x4_t v = vld1q_u32((const uint32_t *)p + VL * h);
    *a = vcvt_f32_f16(vreinterpret_f16_u16(vmovn_u32(v)));
    *b = vcvt_f32_f16(vreinterpret_f16_u16(vshrn_n_u32(v, 16)));
}
