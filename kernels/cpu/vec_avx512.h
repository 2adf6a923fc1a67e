/* vec_avx512.h -- the vector words of the *.inc.h bodies, 16 floats wide. */
#include <immintrin.h>

#include "../fixed.h"
#include "unroll.h"

/* Panels lie one after the other.  Into L2, three pages ahead: nearer or into L1 alone the fill
 * buffers limit it (bench/LOG.tsv).  Past the end of memory it does nothing. */
#define PREFETCH(p)    _mm_prefetch((const char *)(p) + 12288, _MM_HINT_T1)
#define PREFETCH_AT(p) _mm_prefetch((const char *)(p), _MM_HINT_T1)
/* The same for one row of activations, which waits for nothing else: and into L1 1536 bytes ahead.
 * Kept where it stands in the text: the compiler gathers prefetches at the loop's head, where they
 * fill the buffers at once (Q4_0: 87 % of plain reading, 93 % spread, 96 % with L1). */
#define PREFETCH_DECODE(p)                                                                         \
    __asm__ volatile("prefetcht1 %0\n\tprefetcht0 %1"                                              \
                     :                                                                             \
                     : "m"(*((const char *)(p) + 12288)), "m"(*((const char *)(p) + 1536)))

#define VL               16
#define VREGS            32 /* that the instruction set has */
#define V                __m512
#define VZERO            _mm512_setzero_ps()
#define VLOAD(p)         _mm512_loadu_ps(p)
#define VLOAD_F16(p)     _mm512_cvtph_ps(_mm256_loadu_si256((const void *)(p)))
#define VSTORE(p, a)     _mm512_storeu_ps(p, a)
#define VSET1(x)         _mm512_set1_ps(x)
#define VADD(a, b)       _mm512_add_ps(a, b)
#define VSUB(a, b)       _mm512_sub_ps(a, b)
#define VMUL(a, b)       _mm512_mul_ps(a, b)
#define VDIV(a, b)       _mm512_div_ps(a, b)
#define VFMA(a, b, c)    _mm512_fmadd_ps(a, b, c)
#define VMAX(a, b)       _mm512_max_ps(a, b) /* a > b ? a : b, so b if one is NaN */
#define VMIN(a, b)       _mm512_min_ps(a, b) /* a < b ? a : b, likewise */
#define VABS(a)          _mm512_abs_ps(a)
#define VROUND_I32(a)    _mm512_cvtps_epi32(a)
#define VSCALE2(a, n, t) _mm512_scalef_ps(a, n) /* a * 2^n, n in the low bits of t too */
/* y < t ? 0 : x */
#define VUNLESS_LESS(x, y, t) _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(y, t, _CMP_NLT_UQ), x)
/* n floats, n < VL: no others are read or written, those read are 0 */
#define VLOADN(p, n)     _mm512_maskz_loadu_ps((__mmask16)((1u << (n)) - 1), p)
#define VSTOREN(p, a, n) _mm512_mask_storeu_ps(p, (__mmask16)((1u << (n)) - 1), a)
#define VNAME(f)         f##_avx512

/* i + (i + 8), then 4, 2, 1: rule 4's tree. */
static inline float ig_vtree_avx512(V a)
{
    const __m256 h = _mm256_add_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
    __m128 q = _mm_add_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
    q = _mm_add_ps(q, _mm_movehl_ps(q, q));
    return _mm_cvtss_f32(_mm_add_ss(q, _mm_movehdup_ps(q)));
}
#define VTREE(a) ig_vtree_avx512(a)

/* Lane i: v[i] folded by rule 4's tree, 0 < n <= 8 vectors at once. */
#define VFOLD(name, OP)                                                                            \
    static inline __attribute__((always_inline)) V name(const V *v, int n)                         \
    {                                                                                              \
        V h[4], q[2];                                                                              \
        UNROLL                                                                                     \
        for (int i = 0; i < n; i += 2) {                                                           \
            const V a = v[i], b = v[i + 1 < n ? i + 1 : i];                                        \
            h[i / 2] = OP(_mm512_shuffle_f32x4(a, b, 0x44), _mm512_shuffle_f32x4(a, b, 0xee));     \
        }                                                                                          \
        UNROLL                                                                                     \
        for (int i = 0; i < n; i += 4) {                                                           \
            const V a = h[i / 2], b = h[i + 2 < n ? i / 2 + 1 : i / 2];                            \
            q[i / 4] = OP(_mm512_shuffle_f32x4(a, b, 0x88), _mm512_shuffle_f32x4(a, b, 0xdd));     \
        }                                                                                          \
        const __m512d a = _mm512_castps_pd(q[0]), b = _mm512_castps_pd(q[n > 4]);                  \
        const V p = OP(_mm512_castpd_ps(_mm512_unpacklo_pd(a, b)),                                 \
                       _mm512_castpd_ps(_mm512_unpackhi_pd(a, b)));                                \
        return _mm512_permutexvar_ps(                                                              \
            _mm512_setr_epi32(0, 4, 8, 12, 2, 6, 10, 14, 0, 0, 0, 0, 0, 0, 0, 0),                  \
            OP(p, _mm512_permute_ps(p, 0xb1)));                                                    \
    }
#define VTOP(a) _mm512_reduce_max_ps(a) /* of numbers */

/* 16 rows of two neighbouring columns, as float vectors *a and *b (h is 0: one half). */
static inline void ig_pair_f32_avx512(const void *p, int h, V *a, V *b)
{
    (void)h;
    *a = VLOAD(p);
    *b = VLOAD((const float *)p + 16);
}

static inline void ig_pair_bf16_avx512(const void *p, int h, V *a, V *b)
{
    (void)h;
    const __m512i v = _mm512_loadu_si512(p);
    *a = _mm512_castsi512_ps(_mm512_slli_epi32(v, 16));
    *b = _mm512_castsi512_ps(_mm512_and_si512(v, _mm512_set1_epi32(-65536)));
}

static inline void ig_pair_f16_avx512(const void *p, int h, V *a, V *b)
{
    (void)h;
    const __m512i even_odd =
        _mm512_set_epi16(31, 29, 27, 25, 23, 21, 19, 17, 15, 13, 11, 9, 7, 5, 3, 1, 30, 28, 26, 24,
                         22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
    const __m512i v = _mm512_permutexvar_epi16(even_odd, _mm512_loadu_si512(p));
    *a = _mm512_cvtph_ps(_mm512_castsi512_si256(v));
    *b = _mm512_cvtph_ps(_mm512_extracti64x4_epi64(v, 1));
}
