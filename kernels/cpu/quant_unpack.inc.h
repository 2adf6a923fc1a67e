/* quant_unpack.inc.h -- from a tile's bytes (kernels/quant.h) to vectors, in the words
 * of quant_words_*.h.  Vector t of w[8] holds columns 4t .. 4t + 3 of its rows as
 * unsigned bytes.  `p` is where the rows of the vector start in the first group.
 */

/* Eight bits, 128 above their value, which QABOVE(128) takes off. */
static inline void quant_bytes(QI w[8], const uint8_t *p)
{
    UNROLL
    for (int g = 0; g < 8; g++) w[g] = QBYTES(p + 64 * g);
}

/* The plane of 4 bits. */
static inline void quant_nibbles(QI w[8], const uint8_t *p)
{
    const QI low = QSET8(15);
    UNROLL
    for (int g = 0; g < 4; g++) {
        const QI v = QLOAD(p + 64 * g);
        w[2 * g] = QAND(v, low);
        w[2 * g + 1] = QHIGH4(v);
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

/* Nibbles through a book of kernels/quant.h.  Where the multiply wants one factor unsigned, `above`
 * makes it so, and QABOVE(above) is to be taken off again. */
static inline void quant_book(QI w[8], const uint8_t *p, const int8_t book[16], int above)
{
    const QTABLE t = QBOOK(book, above);
    quant_nibbles(w, p);
    UNROLL
    for (int i = 0; i < 8; i++) w[i] = QLOOKUP(t, w[i]);
}

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

/* -- sub-scales: [i][row] as signed bytes at `sc`, minima from sc + 128 or + 256 on; in vectors B
 * of BL bytes */

/* IG_QSC_6: 16 values */
static inline const int8_t *quant_scales_6(int8_t sc[512], const uint8_t *p, const int8_t above)
{
    const B low = BSET(63), two = BSET(3);
    UNROLL
    for (int h = 0; h < 64; h += BL) {
        B last = BSET(0);
        UNROLL
        for (int k = 0; k < 3; k++) {
            const B v = BLOAD(p + 64 * k + h);
            const B pair = BAND(BSHR(v, 6), two);
            last = BOR(last, BSHLV(pair, 2 * k));
            BSTORE(sc + 64 * k + h, BSUB(BAND(v, low), BSET(above)));
        }
        BSTORE(sc + 192 + h, BSUB(last, BSET(above)));
    }
    return sc;
}

/* IG_QSC_44: 16 scales, 16 minima */
static inline const int8_t *quant_scales_44(int8_t sc[512], const uint8_t *p)
{
    const B low = BSET(15);
    UNROLL
    for (int i = 0; i < 256; i += BL) {
        const B v = BLOAD(p + i);
        BSTORE(sc + i, BAND(v, low));
        BSTORE(sc + 256 + i, BAND(BSHR(v, 4), low));
    }
    return sc;
}

/* IG_QSC_42: 8 scales, 32 above */
static inline const int8_t *quant_scales_42(int8_t sc[512], const uint8_t *p)
{
    const B low = BSET(15), high = BSET(0x30), above = BSET(32);
    UNROLL
    for (int i = 0; i < 32; i += BL) {
        const B h = BLOAD(p + i), l0 = BLOAD(p + 32 + i), l1 = BLOAD(p + 64 + i);
        BSTORE(sc + i, BSUB(BOR(BAND(l0, low), BAND(BSHL(h, 4), high)), above));
        BSTORE(sc + 32 + i, BSUB(BOR(BAND(l1, low), BAND(BSHL(h, 2), high)), above));
        BSTORE(sc + 64 + i, BSUB(BOR(BAND(BSHR(l0, 4), low), BAND(h, high)), above));
        BSTORE(sc + 96 + i, BSUB(BOR(BAND(BSHR(l1, 4), low), BAND(BSHR(h, 2), high)), above));
    }
    return sc;
}
