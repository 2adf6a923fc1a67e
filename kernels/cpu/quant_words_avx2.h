/* quant_words_avx2.h -- the integer words of quant.inc.h, 8 rows in one vector. */
#include "quant_bytes_x86.h"

#define QI               __m256i
#define QLOAD(p)         _mm256_loadu_si256((const void *)(p))
#define QSET8(x)         _mm256_set1_epi8(x)
#define QSET32(x)        _mm256_set1_epi32(x)
#define QAND(a, b)       _mm256_and_si256(a, b)
#define QADD(a, b)       _mm256_add_epi32(a, b)
#define QSUB(a, b)       _mm256_sub_epi32(a, b)
#define QSHL16(a, n)     _mm256_slli_epi16(a, n)
#define QSHR16(a, n)     _mm256_srli_epi16(a, n)
#define QHIGH4(a)        QAND(QSHR16(a, 4), QSET8(15)) /* of every byte */
#define QSHL32(a, n)     _mm256_slli_epi32(a, n)
#define QOR_AND(a, b, m) _mm256_or_si256(a, _mm256_and_si256(b, m))
#define QTABLE           __m256i
#define QLOOKUP(t, i)    _mm256_shuffle_epi8(t, i)
#define QFLOAT(a)        _mm256_cvtepi32_ps(a)
#define QROWS8(p)        _mm256_cvtepi8_epi32(_mm_loadl_epi64((const void *)(p)))
#define QROWSU8(p)       _mm256_cvtepu8_epi32(_mm_loadl_epi64((const void *)(p)))
#define QBITS(a)         _mm256_castsi256_ps(a)
#define QLESS2(a)        _mm256_cmpgt_epi32(QSET32(2), a)
#define QCHOOSE(k, a, b) _mm256_blendv_epi8(b, a, k) /* k ? a : b */
#define QSHLV32(a, n)    _mm256_sllv_epi32(a, n)
/* quant_unpack.inc.h, where products of bytes are of unsigned and signed. */
#define QBYTES(p) QLOAD(p)
#define QABOVE(n) n
#define QBOOK(p, n)                                                                                \
    _mm256_add_epi8(_mm256_broadcastsi128_si256(_mm_loadu_si128((const void *)(p))),               \
                    QSET8((char)(n)))

/* Four activations for every row. */
static inline __m256i quant_x4(const int8_t *q)
{
    return _mm256_broadcastd_epi32(_mm_loadu_si32(q));
}
#define QX4(q) quant_x4(q)

/* Sums of 16 columns by row: w unsigned, below 2^bits.
 * vpmaddubsw's pairs stay below 2 * 31 * 128 * 4 = 31744 over four vectors of 5 bits,
 * 2 * 63 * 128 * 2 = 32256 over two of 6; 8 bits are widened first. */
static inline QI quant_dot4(const QI w[4], const int8_t q[16], int bits)
{
    const QI one = _mm256_set1_epi16(1);
    QI p[4];
    if (bits > 6) {
        QI s = _mm256_setzero_si256();
        for (int k = 0; k < 4; k++) {
            const QI x = QX4(q + 4 * k);
            const QI even = _mm256_srai_epi16(_mm256_slli_epi16(x, 8), 8);
            const QI odd = _mm256_srai_epi16(x, 8);
            s = QADD(s, _mm256_madd_epi16(_mm256_and_si256(w[k], _mm256_set1_epi16(255)), even));
            s = QADD(s, _mm256_madd_epi16(_mm256_srli_epi16(w[k], 8), odd));
        }
        return s;
    }
    UNROLL
    for (int k = 0; k < 4; k++) p[k] = _mm256_maddubs_epi16(w[k], QX4(q + 4 * k));
    p[0] = _mm256_add_epi16(p[0], p[1]);
    p[2] = _mm256_add_epi16(p[2], p[3]);
    if (bits < 6) return _mm256_madd_epi16(_mm256_add_epi16(p[0], p[2]), one);
    return QADD(_mm256_madd_epi16(p[0], one), _mm256_madd_epi16(p[2], one));
}
