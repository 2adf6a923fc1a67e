/* neon.c -- ig_kernels_neon and ig_kernels_i8mm: the bodies of *.inc.h, 4 floats wide.  The two
 * differ in block formats' panels only: quant_neon.c, quant_i8mm.c.
 *
 * Buffers are the caller's and need only the alignment of their type.  Same bits
 * as ref/ for every input.
 * Flags: -march=armv8.2-a+dotprod -ffp-contract=off
 */
#include <float.h>
#include <string.h>

#include "../kernels.h"
#include "../math.h"
#include "quant_cpu.h"
#include "vec_neon.h"

#include "vector.inc.h"
#define NAME neon
#include "../step.inc.h"

#define FN(f)            f##_f32_neon
#define PAIR(p, h, a, b) ig_pair_f32_neon(p, h, a, b)
#define SINGLE(p, h, a)  (*(a) = VLOAD((const float *)(const void *)(p) + (h)*VL))
#define PAIR_BYTES       128
#include "panel_float.inc.h"

#define FN(f)            f##_f16_neon
#define PAIR(p, h, a, b) ig_pair_f16_neon(p, h, a, b)
#define SINGLE(p, h, a)  ig_pair_f16_neon(p, h, a, &(V){ 0 })
#define PAIR_BYTES       64
#include "panel_float.inc.h"

#define FN(f)            f##_bf16_neon
#define PAIR(p, h, a, b) ig_pair_bf16_neon(p, h, a, b)
#define SINGLE(p, h, a)  ig_pair_bf16_neon(p, h, a, &(V){ 0 })
#define PAIR_BYTES       64
#include "panel_float.inc.h"

#define WORDS      "attn_words_neon.h"
#define PANEL_Q8_0 ig_panel_q8_0_neon
#include "attn_formats.inc.h"

static void quantize_neon(struct ig_xq *y, const float *x, int n)
{
    for (int b = 0; b < n / IG_QBLOCK; b++, x += IG_QBLOCK) {
        /* by their bits, NaN is above infinity and that above all numbers */
        V v[8];
        uint32x4_t top = vdupq_n_u32(0);
        for (int i = 0; i < 8; i++) {
            v[i] = VLOAD(x + i * VL);
            top = vmaxq_u32(top, vreinterpretq_u32_f32(VABS(v[i])));
        }
        const float most = ig_bits_f32(vmaxvq_u32(top));
        if (!(most <= FLT_MAX)) {
            y[b] = (struct ig_xq){ .d = NAN };
            continue;
        }
        float d = most / 127.0f;
        if (d < FLT_MIN) d = 0.0f;
        const V inv = VSET1(d > 0.0f ? 1.0f / d : 0.0f);

        int32x4_t sum = vdupq_n_s32(0);
        for (int i = 0; i < 8; i += 2) {
            const int32x4_t q0 = VROUND_I32(VMUL(v[i], inv)), q1 = VROUND_I32(VMUL(v[i + 1], inv));
            vst1_s8(y[b].q + i * VL, vmovn_s16(vcombine_s16(vmovn_s32(q0), vmovn_s32(q1))));
            sum = vaddq_s32(sum, vaddq_s32(q0, q1));
        }
        y[b].d = d;
        y[b].sum = vaddvq_s32(sum);
    }
}

#define KERNELS(isa)                                                                               \
    const struct ig_kernels ig_kernels_##isa = { .name = #isa,                                     \
                                                 .panel = { [IG_F32] = panel_f32_neon,             \
                                                            [IG_F16] = panel_f16_neon,             \
                                                            [IG_BF16] = panel_bf16_neon,           \
                                                            [IG_Q8_0] = ig_panel_q8_0_##isa,       \
                                                            [IG_Q4_0] = ig_panel_q4_0_##isa,       \
                                                            IG_QUANT_FORMATS(X_##isa) },           \
                                                 .attn = { [IG_F32] = attn_f32_neon,               \
                                                           [IG_F16] = attn_f16_neon,               \
                                                           [IG_Q8_0] = attn_q8_0_neon },           \
                                                 .rmsnorm = rmsnorm_neon,                          \
                                                 .quantize = quantize_neon,                        \
                                                 .swiglu = swiglu_neon,                            \
                                                 .softmax = softmax_neon,                          \
                                                 IG_STEP_MEMBERS }
#define X_neon(name, fmt) [fmt] = ig_panel_##name##_neon,
#define X_i8mm(name, fmt) [fmt] = ig_panel_##name##_i8mm,
KERNELS(neon);
KERNELS(i8mm);
