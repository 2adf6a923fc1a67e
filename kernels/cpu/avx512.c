/* avx512.c -- ig_kernels_avx512: the bodies of *.inc.h, 16 floats wide, VNNI for blocks.
 *
 * Buffers are the caller's and need only the alignment of their type.  Same bits
 * as ref/ for every input.
 * Flags: -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512vnni -mfma -mf16c
 *        -ffp-contract=off
 */
#include <float.h>
#include <string.h>

#include "../kernels.h"
#include "../math.h"
#include "quant_cpu.h"
#include "vec_avx512.h"

#include "vector.inc.h"
#define NAME avx512
#include "../step.inc.h"

#define FN(f)            f##_f32_avx512
#define PAIR(p, h, a, b) ig_pair_f32_avx512(p, h, a, b)
#define SINGLE(p, h, a)  (*(a) = VLOAD((const float *)(const void *)(p) + (h)*VL))
#define PAIR_BYTES       128
#include "panel_float.inc.h"

#define FN(f)            f##_f16_avx512
#define PAIR(p, h, a, b) ig_pair_f16_avx512(p, h, a, b)
#define SINGLE(p, h, a)  ig_pair_f16_avx512(p, h, a, &(V){ 0 })
#define PAIR_BYTES       64
#include "panel_float.inc.h"

#define FN(f)            f##_bf16_avx512
#define PAIR(p, h, a, b) ig_pair_bf16_avx512(p, h, a, b)
#define SINGLE(p, h, a)  ig_pair_bf16_avx512(p, h, a, &(V){ 0 })
#define PAIR_BYTES       64
#include "panel_float.inc.h"

#include "quant_words_avx512.h"
#define WORDS "attn_words_avx512.h"
#include "attn_formats.inc.h"

static void quantize_avx512(struct ig_xq *y, const float *x, int n)
{
    for (int b = 0; b < n / IG_QBLOCK; b++, x += IG_QBLOCK) {
        const V x0 = VLOAD(x), x1 = VLOAD(x + VL);
        /* by their bits, NaN is above infinity and that above all numbers */
        const __m512i size =
            _mm512_max_epu32(_mm512_castps_si512(VABS(x0)), _mm512_castps_si512(VABS(x1)));
        const float most = ig_bits_f32(_mm512_reduce_max_epu32(size));
        if (!(most <= FLT_MAX)) {
            y[b] = (struct ig_xq){ .d = NAN };
            continue;
        }
        float d = most / 127.0f;
        if (d < FLT_MIN) d = 0.0f;
        const V inv = VSET1(d > 0.0f ? 1.0f / d : 0.0f);
        const __m512i q0 = VROUND_I32(VMUL(x0, inv)), q1 = VROUND_I32(VMUL(x1, inv));
        _mm_storeu_si128((void *)y[b].q, _mm512_cvtepi32_epi8(q0));
        _mm_storeu_si128((void *)(y[b].q + VL), _mm512_cvtepi32_epi8(q1));
        y[b].d = d;
        y[b].sum = _mm512_reduce_add_epi32(_mm512_add_epi32(q0, q1));
    }
}

#define X(name, fmt) [fmt] = ig_panel_##name##_avx512,
#define MEMBERS                                                                                    \
    .attn = { [IG_F32] = attn_f32_avx512,                                                          \
              [IG_F16] = attn_f16_avx512,                                                          \
              [IG_Q8_0] = attn_q8_0_avx512 },                                                      \
    .rmsnorm = rmsnorm_avx512, .quantize = quantize_avx512, .swiglu = swiglu_avx512,               \
    .softmax = softmax_avx512, IG_STEP_MEMBERS

const struct ig_kernels ig_kernels_avx512 = { .name = "avx512",
                                              .panel = { [IG_F32] = panel_f32_avx512,
                                                         [IG_F16] = panel_f16_avx512,
                                                         [IG_BF16] = panel_bf16_avx512,
                                                         [IG_Q8_0] = ig_panel_q8_0_avx512,
                                                         [IG_Q4_0] = ig_panel_q4_0_avx512,
                                                         IG_QUANT_FORMATS(X) },
                                              MEMBERS };

/* AVX-512's but for BF16. */
const struct ig_kernels ig_kernels_amx = { .name = "amx",
                                           .panel = { [IG_F32] = panel_f32_avx512,
                                                      [IG_F16] = panel_f16_avx512,
                                                      [IG_BF16] = ig_panel_bf16_amx,
                                                      [IG_Q8_0] = ig_panel_q8_0_avx512,
                                                      [IG_Q4_0] = ig_panel_q4_0_avx512,
                                                      IG_QUANT_FORMATS(X) },
                                           MEMBERS };
