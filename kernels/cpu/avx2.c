/* avx2.c -- ig_kernels_avx2: the bodies of *.inc.h, 8 floats wide.
 *
 * Buffers are the caller's and need only the alignment of their type.  Same bits
 * as ref/ for every input.
 * Flags: -mavx2 -mfma -mf16c -ffp-contract=off
 */
#include <float.h>
#include <string.h>

#include "../kernels.h"
#include "../math.h"
#include "quant_cpu.h"
#include "vec_avx2.h"

#include "vector.inc.h"
#define NAME avx2
#include "../step.inc.h"

#define FN(f)            f##_f32_avx2
#define PAIR(p, h, a, b) ig_pair_f32_avx2(p, h, a, b)
#define SINGLE(p, h, a)  (*(a) = VLOAD((const float *)(const void *)(p) + (h)*VL))
#define PAIR_BYTES       128
#include "panel_float.inc.h"

#define FN(f)            f##_f16_avx2
#define PAIR(p, h, a, b) ig_pair_f16_avx2(p, h, a, b)
#define SINGLE(p, h, a)  ig_pair_f16_avx2(p, h, a, &(V){ 0 })
#define PAIR_BYTES       64
#include "panel_float.inc.h"

#define FN(f)            f##_bf16_avx2
#define PAIR(p, h, a, b) ig_pair_bf16_avx2(p, h, a, b)
#define SINGLE(p, h, a)  ig_pair_bf16_avx2(p, h, a, &(V){ 0 })
#define PAIR_BYTES       64
#include "panel_float.inc.h"

/* Q8_0: u8 * s8 pairs overflow vpmaddubsw's 16 bits, so bytes are widened: even
 * columns of each four in one vector, odd ones in another, then vpmaddwd. */
static inline __m256i spread4_avx2(const void *p)
{
    return _mm256_broadcastd_epi32(_mm_loadu_si32(p));
}

struct q8_weights {
    __m256i even[8], odd[8];
};

struct q8_acts {
    int32_t even[8], odd[8]; /* two int16 each */
};

static inline void unpack_q8_0_avx2(struct q8_weights *w, const uint8_t *p, int h)
{
    UNROLL
    for (int k = 0; k < 8; k++) {
        const __m256i v = _mm256_loadu_si256((const __m256i *)(const void *)(p + 64 * k) + h);
        w->even[k] = _mm256_and_si256(v, _mm256_set1_epi16(255));
        w->odd[k] = _mm256_srli_epi16(v, 8);
    }
}

static inline void prepare_q8_0_avx2(struct q8_acts *a, const struct ig_xq *x)
{
    const __m256i q = _mm256_loadu_si256((const void *)x->q);
    _mm256_storeu_si256((void *)a->even, _mm256_srai_epi16(_mm256_slli_epi16(q, 8), 8));
    _mm256_storeu_si256((void *)a->odd, _mm256_srai_epi16(q, 8));
}

static inline __m256i dot_q8_0_avx2(const struct q8_weights *w, const struct q8_acts *a)
{
    __m256i s0 = _mm256_setzero_si256(), s1 = s0;
    UNROLL
    for (int k = 0; k < 8; k++) {
        s0 = _mm256_add_epi32(s0, _mm256_madd_epi16(w->even[k], spread4_avx2(&a->even[k])));
        s1 = _mm256_add_epi32(s1, _mm256_madd_epi16(w->odd[k], spread4_avx2(&a->odd[k])));
    }
    return _mm256_add_epi32(s0, s1);
}

#define FN(f)           f##_q8_0_avx2
#define WEIGHTS         struct q8_weights
#define UNPACK(w, p, h) unpack_q8_0_avx2(w, p, h)
#define ACTS            struct q8_acts
#define PREPARE(a, x)   prepare_q8_0_avx2(a, x)
#define DOT(w, a)       dot_q8_0_avx2(w, a)
#define TILE            544
#define ZERO            128
#include "panel_q_avx2.inc.h"

/* Q4_0: a block's sum by row and column pair stays below 8 * 2 * 15 * 128 = 30720. */
struct q4_weights {
    __m256i q[8];
};

static inline void unpack_q4_0_avx2(struct q4_weights *w, const uint8_t *p, int h)
{
    const __m256i low = _mm256_set1_epi8(15);
    UNROLL
    for (int k = 0; k < 4; k++) {
        const __m256i v = _mm256_loadu_si256((const __m256i *)(const void *)(p + 64 * k) + h);
        w->q[2 * k] = _mm256_and_si256(v, low);
        w->q[2 * k + 1] = _mm256_and_si256(_mm256_srli_epi16(v, 4), low);
    }
}

static inline __m256i dot_q4_0_avx2(const struct q4_weights *w, const struct ig_xq *x)
{
    __m256i s0 = _mm256_setzero_si256(), s1 = s0;
    UNROLL
    for (int k = 0; k < 8; k += 2) {
        s0 = _mm256_add_epi16(s0, _mm256_maddubs_epi16(w->q[k], spread4_avx2(x->q + 4 * k)));
        s1 =
            _mm256_add_epi16(s1, _mm256_maddubs_epi16(w->q[k + 1], spread4_avx2(x->q + 4 * k + 4)));
    }
    return _mm256_madd_epi16(_mm256_add_epi16(s0, s1), _mm256_set1_epi16(1));
}

#define FN(f)           f##_q4_0_avx2
#define WEIGHTS         struct q4_weights
#define UNPACK(w, p, h) unpack_q4_0_avx2(w, p, h)
#define ACTS            const struct ig_xq *
#define PREPARE(a, x)   (*(a) = (x))
#define DOT(w, a)       dot_q4_0_avx2(w, *(a))
#define TILE            288
#define ZERO            8
#include "panel_q_avx2.inc.h"

#define WORDS      "attn_words_avx2.h"
#define PANEL_Q8_0 panel_q8_0_avx2
#include "attn_formats.inc.h"

static void quantize_avx2(struct ig_xq *y, const float *x, int n)
{
    for (int b = 0; b < n / IG_QBLOCK; b++, x += IG_QBLOCK) {
        /* by their bits, NaN is above infinity and that above all numbers */
        V v[4];
        __m256i top = _mm256_setzero_si256();
        for (int i = 0; i < 4; i++) {
            v[i] = VLOAD(x + i * VL);
            top = _mm256_max_epu32(top, _mm256_castps_si256(VABS(v[i])));
        }
        uint32_t lane[VL], bits = 0;
        _mm256_storeu_si256((void *)lane, top);
        for (int i = 0; i < VL; i++) bits = lane[i] > bits ? lane[i] : bits;
        const float most = ig_bits_f32(bits);
        if (!(most <= FLT_MAX)) {
            y[b] = (struct ig_xq){ .d = NAN };
            continue;
        }
        float d = most / 127.0f;
        if (d < FLT_MIN) d = 0.0f;
        const V inv = VSET1(d > 0.0f ? 1.0f / d : 0.0f);

        __m256i q[4];
        for (int i = 0; i < 4; i++) q[i] = VROUND_I32(VMUL(v[i], inv));
        /* packs work inside 128-bit halves; the last step puts the dwords in order */
        const __m256i words[2] = { _mm256_packs_epi32(q[0], q[1]), _mm256_packs_epi32(q[2], q[3]) };
        const __m256i bytes = _mm256_packs_epi16(words[0], words[1]);
        _mm256_storeu_si256((void *)y[b].q, _mm256_permutevar8x32_epi32(
                                                bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7)));
        y[b].d = d;
        const __m256i pairs =
            _mm256_madd_epi16(_mm256_add_epi16(words[0], words[1]), _mm256_set1_epi16(1));
        int32_t part[VL];
        _mm256_storeu_si256((void *)part, pairs);
        y[b].sum = 0;
        for (int i = 0; i < VL; i++) y[b].sum += part[i];
    }
}

const struct ig_kernels ig_kernels_avx2 = {
    .name = "avx2",
    .panel = {
        [IG_F32] = panel_f32_avx2,
        [IG_F16] = panel_f16_avx2,
        [IG_BF16] = panel_bf16_avx2,
        [IG_Q8_0] = panel_q8_0_avx2,
        [IG_Q4_0] = panel_q4_0_avx2,
#define X(name, fmt) [fmt] = ig_panel_##name##_avx2,
        IG_QUANT_FORMATS(X)
#undef X
    },
    .attn = { [IG_F32] = attn_f32_avx2, [IG_F16] = attn_f16_avx2,
              [IG_Q8_0] = attn_q8_0_avx2 },
    .rmsnorm = rmsnorm_avx2,
    .quantize = quantize_avx2,
    .swiglu = swiglu_avx2,
    .softmax = softmax_avx2,
    IG_STEP_MEMBERS
};
