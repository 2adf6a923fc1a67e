/* quant_words_avx512.h -- the integer words of quant.inc.h, all 16 rows in one vector. */
#include "quant_bytes_x86.h"

#define QI               __m512i
#define QLOAD(p)         _mm512_loadu_si512(p)
#define QSET8(x)         _mm512_set1_epi8(x)
#define QSET32(x)        _mm512_set1_epi32(x)
#define QAND(a, b)       _mm512_and_si512(a, b)
#define QADD(a, b)       _mm512_add_epi32(a, b)
#define QSUB(a, b)       _mm512_sub_epi32(a, b)
#define QSHL16(a, n)     _mm512_slli_epi16(a, n)
#define QSHR16(a, n)     _mm512_srli_epi16(a, n)
#define QHIGH4(a)        QAND(QSHR16(a, 4), QSET8(15)) /* of every byte */
#define QSHL32(a, n)     _mm512_slli_epi32(a, n)
#define QOR_AND(a, b, m) _mm512_ternarylogic_epi32(a, b, m, 0xf8) /* a | (b & m) */
#define QTABLE           __m512i
#define QLOOKUP(t, i)    _mm512_shuffle_epi8(t, i)
#define QFLOAT(a)        _mm512_cvtepi32_ps(a)
#define QROWS8(p)        _mm512_cvtepi8_epi32(_mm_loadu_si128((const void *)(p)))
#define QROWSU8(p)       _mm512_cvtepu8_epi32(_mm_loadu_si128((const void *)(p)))
#define QBITS(a)         _mm512_castsi512_ps(a)
#define QLESS2(a)        _mm512_cmplt_epi32_mask(a, QSET32(2))
#define QCHOOSE(k, a, b) _mm512_mask_mov_epi32(b, k, a) /* k ? a : b */
#define QSHLV32(a, n)    _mm512_sllv_epi32(a, n)
/* quant_unpack.inc.h, where products of bytes are of unsigned and signed. */
#define QBYTES(p) QLOAD(p)
#define QABOVE(n) n
#define QBOOK(p, n)                                                                                \
    _mm512_add_epi8(_mm512_broadcast_i32x4(_mm_loadu_si128((const void *)(p))), QSET8((char)(n)))

/* Four activations for every row, broadcast from memory: through a register it would cost
 * a shuffle. */
static inline __m512i quant_x4(const int8_t *q)
{
    return _mm512_broadcastd_epi32(_mm_loadu_si32(q));
}
#define QX4(q) quant_x4(q)

/* s plus the sums of four columns by row: w unsigned, q four activations.  The compilers put
 * their broadcast into an instruction of its own; inside this one it is free. */
static inline __m512i quant_dot1(__m512i s, __m512i w, const int8_t *q)
{
    __asm__("vpdpbusd %2%{1to16%}, %1, %0"
            : "+v"(s)
            : "v"(w), "m"(*(const int32_t *)(const void *)q));
    return s;
}
/* s plus the low words of w times *sum, |*sum| < 2^15. */
static inline __m512i quant_dot_sum(__m512i s, __m512i w, const int32_t *sum)
{
    __asm__("vpdpwssd %2%{1to16%}, %1, %0" : "+v"(s) : "v"(w), "m"(*sum));
    return s;
}

/* Sums of 16 columns by row: w unsigned, below 2^bits. */
static inline QI quant_dot4(const QI w[4], const int8_t q[16], int bits)
{
    (void)bits;
    QI s = _mm512_setzero_si512();
    UNROLL
    for (int k = 0; k < 4; k++) s = _mm512_dpbusd_epi32(s, w[k], QX4(q + 4 * k));
    return s;
}
