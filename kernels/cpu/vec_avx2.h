/* vec_avx2.h -- the vector words of the *.inc.h bodies, 8 floats wide. */
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

#define VL            8
#define VREGS         16 /* that the instruction set has */
#define V             __m256
#define VZERO         _mm256_setzero_ps()
#define VLOAD(p)      _mm256_loadu_ps(p)
#define VLOAD_F16(p)  _mm256_cvtph_ps(_mm_loadu_si128((const void *)(p)))
#define VSTORE(p, a)  _mm256_storeu_ps(p, a)
#define VSET1(x)      _mm256_set1_ps(x)
#define VADD(a, b)    _mm256_add_ps(a, b)
#define VSUB(a, b)    _mm256_sub_ps(a, b)
#define VMUL(a, b)    _mm256_mul_ps(a, b)
#define VDIV(a, b)    _mm256_div_ps(a, b)
#define VFMA(a, b, c) _mm256_fmadd_ps(a, b, c)
#define VMAX(a, b)    _mm256_max_ps(a, b) /* a > b ? a : b, so b if one is NaN */
#define VMIN(a, b)    _mm256_min_ps(a, b) /* a < b ? a : b, likewise */
#define VABS(a)       _mm256_andnot_ps(_mm256_set1_ps(-0.0f), a)
#define VROUND_I32(a) _mm256_cvtps_epi32(a)
/* a * 2^n, n in the low bits of t too; anything where a is NaN */
#define VSCALE2(a, n, t)                                                                           \
    _mm256_castsi256_ps(                                                                           \
        _mm256_add_epi32(_mm256_castps_si256(a), _mm256_slli_epi32(_mm256_castps_si256(t), 23)))
#define VPOWER2(t) /* 2^n, n + 127 in the low bits of t */                                         \
    _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_castps_si256(t), 23))
/* y < t ? 0 : x */
#define VUNLESS_LESS(x, y, t) _mm256_andnot_ps(_mm256_cmp_ps(y, t, _CMP_LT_OQ), x)
/* n floats, n < VL: no others are read or written, those read are 0 */
#define VLOADN(p, n)     _mm256_maskload_ps(p, ig_first_avx2(n))
#define VSTOREN(p, a, n) _mm256_maskstore_ps(p, ig_first_avx2(n), a)
#define VNAME(f)         f##_avx2

static inline __m256i ig_first_avx2(int n)
{
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

/* i + (i + 4), then 2, 1: the rest of rule 4's tree. */
static inline float ig_vtree_avx2(V a)
{
    __m128 q = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    q = _mm_add_ps(q, _mm_movehl_ps(q, q));
    return _mm_cvtss_f32(_mm_add_ss(q, _mm_movehdup_ps(q)));
}
static inline float ig_vtop_avx2(V a)
{
    __m128 q = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    q = _mm_max_ps(q, _mm_movehl_ps(q, q));
    return _mm_cvtss_f32(_mm_max_ss(q, _mm_movehdup_ps(q)));
}
#define VTREE(a) ig_vtree_avx2(a)

/* Lane i: v[i] folded by the rest of rule 4's tree, 0 < n <= 4 vectors at once. */
#define VFOLD(name, OP)                                                                            \
    static inline __attribute__((always_inline)) V name(const V *v, int n)                         \
    {                                                                                              \
        V h[2];                                                                                    \
        UNROLL                                                                                     \
        for (int i = 0; i < n; i += 2) {                                                           \
            const V a = v[i], b = v[i + 1 < n ? i + 1 : i];                                        \
            h[i / 2] = OP(_mm256_permute2f128_ps(a, b, 0x20), _mm256_permute2f128_ps(a, b, 0x31)); \
        }                                                                                          \
        const __m256d a = _mm256_castps_pd(h[0]), b = _mm256_castps_pd(h[n > 2]);                  \
        const V p = OP(_mm256_castpd_ps(_mm256_unpacklo_pd(a, b)),                                 \
                       _mm256_castpd_ps(_mm256_unpackhi_pd(a, b)));                                \
        return _mm256_permutevar8x32_ps(OP(p, _mm256_permute_ps(p, 0xb1)),                         \
                                        _mm256_setr_epi32(0, 4, 2, 6, 0, 0, 0, 0));                \
    }
#define VTOP(a) ig_vtop_avx2(a) /* of numbers */

/* Rows 8h..8h+7 of two neighbouring columns, as float vectors *a and *b. */
static inline void ig_pair_f32_avx2(const void *p, int h, V *a, V *b)
{
    *a = VLOAD((const float *)p + 8 * h);
    *b = VLOAD((const float *)p + 8 * h + 16);
}

static inline void ig_pair_bf16_avx2(const void *p, int h, V *a, V *b)
{
    const __m256i v = _mm256_loadu_si256((const __m256i *)p + h);
    *a = _mm256_castsi256_ps(_mm256_slli_epi32(v, 16));
    *b = _mm256_castsi256_ps(_mm256_and_si256(v, _mm256_set1_epi32(-65536)));
}

static inline void ig_pair_f16_avx2(const void *p, int h, V *a, V *b)
{
    const __m256i even_odd = _mm256_broadcastsi128_si256(
        _mm_set_epi8(15, 14, 11, 10, 7, 6, 3, 2, 13, 12, 9, 8, 5, 4, 1, 0));
    __m256i v = _mm256_shuffle_epi8(_mm256_loadu_si256((const __m256i *)p + h), even_odd);
    v = _mm256_permute4x64_epi64(v, 0xd8);
    *a = _mm256_cvtph_ps(_mm256_castsi256_si128(v));
    *b = _mm256_cvtph_ps(_mm256_extracti128_si256(v, 1));
}
