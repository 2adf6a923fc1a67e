/* quant_unpack.inc.h -- from a tile's bytes (kernels/quant.h) to vectors, in the words
 * of quant_words_*.h.  Vector t of w[8] holds columns 4t .. 4t + 3 of its rows as
 * unsigned bytes.  `p` is where the rows of the vector start in the first group.
 */

/* Eight bits are their own unpacked form. */
static inline void quant_bytes(QI w[8], const uint8_t *p)
{
    UNROLL
    for (int g = 0; g < 8; g++) w[g] = QLOAD(p + 64 * g);
}

/* The plane of 4 bits. */
static inline void quant_nibbles(QI w[8], const uint8_t *p)
{
    const QI low = QSET8(15);
    UNROLL
    for (int g = 0; g < 4; g++) {
        const QI v = QLOAD(p + 64 * g);
        w[2 * g] = QAND(v, low);
        w[2 * g + 1] = QAND(QSHR16(v, 4), low);
    }
}

/* A plane of one bit becomes bit 4, or bit 2, of every code.  (Shifts are written out: the
 * two compilers want constants, of different types.) */
static inline void quant_add_bit4(QI w[8], const uint8_t *p)
{
    const QI bit = QSET8(16), v = QLOAD(p);
    w[0] = QOR_AND(w[0], QSHL16(v, 4), bit);
    w[1] = QOR_AND(w[1], QSHL16(v, 3), bit);
    w[2] = QOR_AND(w[2], QSHL16(v, 2), bit);
    w[3] = QOR_AND(w[3], QSHL16(v, 1), bit);
    w[4] = QOR_AND(w[4], v, bit);
    w[5] = QOR_AND(w[5], QSHR16(v, 1), bit);
    w[6] = QOR_AND(w[6], QSHR16(v, 2), bit);
    w[7] = QOR_AND(w[7], QSHR16(v, 3), bit);
}

static inline void quant_add_bit2(QI w[8], const uint8_t *p)
{
    const QI bit = QSET8(4), v = QLOAD(p);
    w[0] = QOR_AND(w[0], QSHL16(v, 2), bit);
    w[1] = QOR_AND(w[1], QSHL16(v, 1), bit);
    w[2] = QOR_AND(w[2], v, bit);
    w[3] = QOR_AND(w[3], QSHR16(v, 1), bit);
    w[4] = QOR_AND(w[4], QSHR16(v, 2), bit);
    w[5] = QOR_AND(w[5], QSHR16(v, 3), bit);
    w[6] = QOR_AND(w[6], QSHR16(v, 4), bit);
    w[7] = QOR_AND(w[7], QSHR16(v, 5), bit);
}

/* A plane of two bits becomes bits 4 and 5. */
static inline void quant_add_pairs(QI w[8], const uint8_t *p)
{
    const QI bits = QSET8(0x30);
    UNROLL
    for (int g = 0; g < 2; g++) {
        const QI v = QLOAD(p + 64 * g);
        w[4 * g] = QOR_AND(w[4 * g], QSHL16(v, 4), bits);
        w[4 * g + 1] = QOR_AND(w[4 * g + 1], QSHL16(v, 2), bits);
        w[4 * g + 2] = QOR_AND(w[4 * g + 2], v, bits);
        w[4 * g + 3] = QOR_AND(w[4 * g + 3], QSHR16(v, 2), bits);
    }
}

/* A plane of two bits alone. */
static inline void quant_pairs(QI w[8], const uint8_t *p)
{
    const QI low = QSET8(3);
    UNROLL
    for (int g = 0; g < 2; g++) {
        const QI v = QLOAD(p + 64 * g);
        w[4 * g] = QAND(v, low);
        w[4 * g + 1] = QAND(QSHR16(v, 2), low);
        w[4 * g + 2] = QAND(QSHR16(v, 4), low);
        w[4 * g + 3] = QAND(QSHR16(v, 6), low);
    }
}

/* Nibbles through a table of 16 unsigned bytes. */
static inline void quant_book(QI w[8], const uint8_t *p, const uint8_t *table)
{
    const QI t = QTABLE(table);
    quant_nibbles(w, p);
    UNROLL
    for (int i = 0; i < 8; i++) w[i] = QLOOKUP(t, w[i]);
}

/* The books of kernels/quant.h with 128 and 12 added, which the kernels take off again. */
static const uint8_t iq4_above[16] = { 1,   24,  45,  63,  79,  93,  106, 118,
                                       129, 141, 153, 166, 181, 197, 217, 241 };
static const uint8_t mxfp4_above[16] = {
    12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0
};

static inline void quant_unpack_q5(QI w[8], const uint8_t *p)
{
    quant_nibbles(w, p);
    quant_add_bit4(w, p + 256);
}

static inline void quant_unpack_q6(QI w[8], const uint8_t *p)
{
    quant_nibbles(w, p);
    quant_add_pairs(w, p + 256);
}

static inline void quant_unpack_q3(QI w[8], const uint8_t *p)
{
    quant_pairs(w, p);
    quant_add_bit2(w, p + 128);
}

/* E8M0 of doubled codes: 2^(e - 128); the first two are denormal. */
static inline V quant_e8m0(const uint8_t *p)
{
    const QI e = QROWSU8(p);
    return QBITS(
        QCHOOSE(QLESS2(e), QSHLV32(QSET32(0x00200000), e), QSHL32(QSUB(e, QSET32(1)), 23)));
}

/* -- sub-scales: [i][row] as signed bytes at `sc`, minima from sc + 128 or + 256 on */

static inline void quant_store(int8_t *to, __m256i v) { _mm256_storeu_si256((void *)to, v); }

/* IG_QSC_6: 16 values */
static inline const int8_t *quant_scales_6(int8_t sc[512], const uint8_t *p, const char above)
{
    const __m256i low = _mm256_set1_epi8(63), two = _mm256_set1_epi8(3);
    UNROLL
    for (int h = 0; h < 64; h += 32) {
        __m256i last = _mm256_setzero_si256();
        UNROLL
        for (int k = 0; k < 3; k++) {
            const __m256i v = _mm256_loadu_si256((const void *)(p + 64 * k + h));
            const __m256i pair = _mm256_and_si256(_mm256_srli_epi16(v, 6), two);
            last = _mm256_or_si256(last, _mm256_slli_epi16(pair, 2 * k));
            quant_store(sc + 64 * k + h,
                        _mm256_sub_epi8(_mm256_and_si256(v, low), _mm256_set1_epi8(above)));
        }
        quant_store(sc + 192 + h, _mm256_sub_epi8(last, _mm256_set1_epi8(above)));
    }
    return sc;
}

/* IG_QSC_44: 16 scales, 16 minima */
static inline const int8_t *quant_scales_44(int8_t sc[512], const uint8_t *p)
{
    const __m256i low = _mm256_set1_epi8(15);
    UNROLL
    for (int i = 0; i < 256; i += 32) {
        const __m256i v = _mm256_loadu_si256((const void *)(p + i));
        quant_store(sc + i, _mm256_and_si256(v, low));
        quant_store(sc + 256 + i, _mm256_and_si256(_mm256_srli_epi16(v, 4), low));
    }
    return sc;
}

/* IG_QSC_42: 8 scales, 32 above */
static inline const int8_t *quant_scales_42(int8_t sc[512], const uint8_t *p)
{
    const __m256i low = _mm256_set1_epi8(15), high = _mm256_set1_epi8(0x30);
    const __m256i above = _mm256_set1_epi8(32), h = _mm256_loadu_si256((const void *)p);
    const __m256i l0 = _mm256_loadu_si256((const void *)(p + 32));
    const __m256i l1 = _mm256_loadu_si256((const void *)(p + 64));
    const __m256i l[4] = { _mm256_and_si256(l0, low), _mm256_and_si256(l1, low),
                           _mm256_and_si256(_mm256_srli_epi16(l0, 4), low),
                           _mm256_and_si256(_mm256_srli_epi16(l1, 4), low) };
    const __m256i u[4] = { _mm256_slli_epi16(h, 4), _mm256_slli_epi16(h, 2), h,
                           _mm256_srli_epi16(h, 2) };
    UNROLL
    for (int i = 0; i < 4; i++)
        quant_store(sc + 32 * i,
                    _mm256_sub_epi8(_mm256_or_si256(l[i], _mm256_and_si256(u[i], high)), above));
    return sc;
}
