/* attn_words_avx512.h -- the integer words of attn_q8_0.inc.h, and scores of two panels at a time. */
#define PANELS 2

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
#define SUMS        struct sums_avx512
#define SUMS_ZERO   (struct sums_avx512){ _mm512_setzero_si512(), _mm512_setzero_si512() }
#define CODES       __m512i
#define LOAD_CODES(p) _mm512_loadu_si512(p)
#define WEIGHT      struct weight_avx512
#define LOAD_WEIGHT(p) (struct weight_avx512){ QX4((const int8_t *)(p)), QX4((const int8_t *)(p) + 4) }
#define ADD_CODES(s, x, q)                                                                         \
    (struct sums_avx512){ dpbusd_avx512((s).low, (x).low, q), dpbusd_avx512((s).high, (x).high, q) }
#define SUMS_FLOAT(s) QFLOAT(QADD(QSHL32((s).high, 8), (s).low))
#define WEIGHTS(to, x)                                                                             \
    _mm512_storeu_si512(to, _mm512_shuffle_epi8(_mm512_castps_si512(x),                            \
                                                _mm512_broadcast_i32x4(_mm_setr_epi8(              \
                                                    0, 4, 8, 12, 1, 5, 9, 13, 0, 0, 0, 0, 0, 0, 0, 0))))

static inline __attribute__((always_inline)) void
panel_scores_avx512(float p[][IG_KV_BLOCK], const struct ig_xq *q, const uint8_t *k, int blocks, int nh, int j)
{
    V part[IG_BLOCK_PARTS][8][PANELS];
    const size_t panel = (size_t)blocks * IG_KV_TILE;
    for (int b = 0; b < blocks; b++, k += IG_KV_TILE) {
        QI s[8][PANELS];
        V d[PANELS];
        UNROLL
        for (int r = 0; r < PANELS; r++) d[r] = VLOAD_F16(k + (size_t)r * panel);
        UNROLL
        for (int i = 0; i < nh; i++) s[i][0] = s[i][1] = QSET32(-128 * q[i * blocks + b].sum);
        UNROLL
        for (int c = 0; c < 8; c++) {
            QI w[PANELS];
            UNROLL
            for (int r = 0; r < PANELS; r++) w[r] = QLOAD(k + (size_t)r * panel + 32 + 64 * c);
            UNROLL
            for (int i = 0; i < nh; i++) {
                const QI x = QX4(q[i * blocks + b].q + 4 * c);
                UNROLL
                for (int r = 0; r < PANELS; r++) s[i][r] = dpbusd_avx512(s[i][r], w[r], x);
            }
        }
        V (*to)[PANELS] = part[b % IG_BLOCK_PARTS];
        UNROLL
        for (int i = 0; i < nh; i++) {
            const V dx = VSET1(q[i * blocks + b].d);
            UNROLL
            for (int r = 0; r < PANELS; r++) to[i][r] = VFMA(VMUL(d[r], dx), QFLOAT(s[i][r]), b < IG_BLOCK_PARTS ? VZERO : to[i][r]);
        }
    }
    for (int b = blocks; b < IG_BLOCK_PARTS; b++) {
        UNROLL
        for (int i = 0; i < nh; i++) part[b][i][0] = part[b][i][1] = VZERO;
    }
    UNROLL
    for (int i = 0; i < nh; i++) {
      UNROLL
      for (int r = 0; r < PANELS; r++) {
        V s[4];
        if (blocks <= 4) 
        UNROLL
        for (int b = 0; b < 4; b++) s[b] = part[b][i][r];
        else
        UNROLL
        for (int b = 0; b < 4; b++) s[b] = VADD(part[b][i][r], part[b + 4][i][r]);
        VSTORE(p[i] + j + 16 * r, VADD(VADD(s[0], s[2]), VADD(s[1], s[3])));
      }
    }
}
