/* attn_words_avx2.h -- the integer words of attn_q8_0.inc.h. */

/* A weight's 16 bits; of four positions the first and the third, then the others. */
struct codes_avx2 {
    __m256i even, odd;
};
struct weight_avx2 {
    __m256i even, odd;
};
static inline struct codes_avx2 load_codes_avx2(const int8_t *p)
{
    const __m256i q = _mm256_loadu_si256((const void *)p);
    return (struct codes_avx2){ _mm256_srai_epi16(_mm256_slli_epi16(q, 8), 8),
                                _mm256_srai_epi16(q, 8) };
}
static inline __m256i add_codes_avx2(__m256i s, struct weight_avx2 x, struct codes_avx2 q)
{
    return _mm256_add_epi32(
        s, _mm256_add_epi32(_mm256_madd_epi16(x.even, q.even), _mm256_madd_epi16(x.odd, q.odd)));
}
#define SUMS          __m256i
#define SUMS_ZERO     _mm256_setzero_si256()
#define CODES         struct codes_avx2
#define LOAD_CODES(p) load_codes_avx2(p)
#define WEIGHT        struct weight_avx2
#define LOAD_WEIGHT(p)                                                                             \
    (struct weight_avx2) { spread4_avx2(p), spread4_avx2((p) + 4) }
#define ADD_CODES(s, x, q) add_codes_avx2(s, x, q)
#define SUMS_FLOAT(s)      _mm256_cvtepi32_ps(s)
#define WEIGHTS(to, x)                                                                             \
    _mm256_storeu_si256(                                                                           \
        (void *)(to), _mm256_shuffle_epi8(_mm256_castps_si256(x),                                  \
                                          _mm256_broadcastsi128_si256(_mm_setr_epi8(               \
                                              0, 1, 8, 9, 4, 5, 12, 13, 0, 0, 0, 0, 0, 0, 0, 0))))
