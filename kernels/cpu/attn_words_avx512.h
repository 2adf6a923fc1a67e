/* attn_words_avx512.h -- the integer words of attn_q8_0.inc.h, and scores in registers. */

/* s plus sums of four products; as an intrinsic its sum would be copied at every step of a loop. */
static inline __m512i dpbusd_avx512(__m512i s, __m512i u, __m512i x)
{
    __asm__("vpdpbusd %2, %1, %0" : "+v"(s) : "v"(u), "v"(x));
    return s;
}

/* A weight's bytes, both unsigned: of four positions the low ones, then the high ones. */
struct sums_avx512 {
    __m512i low, high;
};
struct weight_avx512 {
    __m512i low, high;
};
#define SUMS struct sums_avx512
#define SUMS_ZERO                                                                                  \
    (struct sums_avx512) { _mm512_setzero_si512(), _mm512_setzero_si512() }
#define CODES         __m512i
#define LOAD_CODES(p) _mm512_loadu_si512(p)
#define WEIGHT        struct weight_avx512
#define LOAD_WEIGHT(p)                                                                             \
    (struct weight_avx512) { QX4((const int8_t *)(p)), QX4((const int8_t *)(p) + 4) }
#define ADD_CODES(s, x, q)                                                                         \
    (struct sums_avx512)                                                                           \
    {                                                                                              \
        dpbusd_avx512((s).low, (x).low, q), dpbusd_avx512((s).high, (x).high, q)                   \
    }
#define SUMS_FLOAT(s) QFLOAT(QADD(QSHL32((s).high, 8), (s).low))
#define WEIGHTS(to, x)                                                                             \
    _mm512_storeu_si512(                                                                           \
        to, _mm512_shuffle_epi8(_mm512_castps_si512(x),                                            \
                                _mm512_broadcast_i32x4(_mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 0,  \
                                                                     0, 0, 0, 0, 0, 0, 0))))

/* Scores of positions j .. j + 15, whose panel is k, in the order of rule 2: all heads side by
 * side, the zero point a start value. */
ALWAYS void panel_scores_avx512(float p[][IG_KV_BLOCK], const struct ig_xq *q, const uint8_t *k,
                                int blocks, int nh, int j)
{
    V part[IG_BLOCK_PARTS][HEADS_MOST];
    for (int b = 0; b < blocks; b++, k += IG_KV_TILE) {
        const V d = VLOAD_F16(k);
        QI s[HEADS_MOST];
        UNROLL
        for (int i = 0; i < nh; i++) s[i] = QSET32(-128 * q[i * blocks + b].sum);
        UNROLL
        for (int c = 0; c < IG_QBLOCK / 4; c++) {
            const QI w = QLOAD(k + 2 * IG_PANEL_ROWS + 64 * c);
            UNROLL
            for (int i = 0; i < nh; i++) s[i] = quant_dot1(s[i], w, q[i * blocks + b].q + 4 * c);
        }
        V *const to = part[b % IG_BLOCK_PARTS];
        UNROLL
        for (int i = 0; i < nh; i++) {
            const V old = b < IG_BLOCK_PARTS ? VZERO : to[i];
            to[i] = VFMA(VMUL(d, VSET1(q[i * blocks + b].d)), QFLOAT(s[i]), old);
        }
    }
    for (int b = blocks; b < IG_BLOCK_PARTS; b++) {
        UNROLL
        for (int i = 0; i < nh; i++) part[b][i] = VZERO;
    }
    UNROLL
    for (int i = 0; i < nh; i++) {
        V s[4];
        UNROLL
        for (int b = 0; b < 4; b++) s[b] = VADD(part[b][i], part[b + 4][i]);
        VSTORE(p[i] + j, VADD(VADD(s[0], s[2]), VADD(s[1], s[3])));
    }
}
