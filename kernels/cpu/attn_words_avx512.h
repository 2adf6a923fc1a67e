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

/* Raw scores in the order of rule 2.  SCORES panels go together, so that a broadcast of the query
 * serves both and no sum waits for itself; the zero point is a start value. */
enum { SCORES = 2 };
ALWAYS void block_scores_avx512(V part[][HEADS_MOST], const struct ig_xq *q, const uint8_t *k,
                                size_t panel, int blocks, int nh, int first, struct asks *a)
{
    QI s[SCORES][HEADS_MOST];
    UNROLL
    for (int i = 0; i < nh; i++) s[0][i] = s[1][i] = QSET32(-128 * q[i * blocks].sum);
    UNROLL
    for (int c = 0; c < IG_QBLOCK / 4; c++) {
        QI x[SCORES];
        if (c % 3 == 0) ask_avx512(a, 1);
        UNROLL
        for (int u = 0; u < SCORES; u++)
            x[u] = QLOAD(k + (size_t)u * panel + 2 * IG_PANEL_ROWS + 64 * c);
        UNROLL
        for (int i = 0; i < nh; i++) {
            const QI y = QX4(q[i * blocks].q + 4 * c);
            UNROLL
            for (int u = 0; u < SCORES; u++) s[u][i] = dpbusd_avx512(s[u][i], x[u], y);
        }
    }
    UNROLL
    for (int u = 0; u < SCORES; u++) {
        const V d = VLOAD_F16(k + (size_t)u * panel);
        UNROLL
        for (int i = 0; i < nh; i++)
            part[u][i] =
                VFMA(VMUL(d, VSET1(q[i * blocks].d)), QFLOAT(s[u][i]), first ? VZERO : part[u][i]);
    }
}

ALWAYS void scores_avx512(float p[][IG_KV_BLOCK], const struct ig_xq *q, const uint8_t *k,
                          int blocks, int nh, int lo, int hi, struct asks *a)
{
    V part[IG_BLOCK_PARTS][SCORES][HEADS_MOST];
    enum { STRIP = SCORES * IG_PANEL_ROWS };
    const size_t panel = (size_t)blocks * IG_KV_TILE;
    for (int j = lo / STRIP * STRIP; j < hi; j += STRIP) {
        const uint8_t *at = k + (size_t)(j / IG_PANEL_ROWS) * panel;
        for (int b = 0; b < blocks; b++, at += IG_KV_TILE)
            block_scores_avx512(part[b % IG_BLOCK_PARTS], q + b, at, panel, blocks, nh,
                                b < IG_BLOCK_PARTS, a);
        /* A part is never -0, so that adding one that is not there would change nothing. */
        int parts = blocks < IG_BLOCK_PARTS ? blocks : IG_BLOCK_PARTS;
        for (int half = IG_BLOCK_PARTS / 2; half > 0; half /= 2) {
            for (int b = half; b < parts; b++) {
                UNROLL
                for (int i = 0; i < SCORES * nh; i++) {
                    V *const to = &part[b - half][i / nh][i % nh];
                    *to = VADD(*to, part[b][i / nh][i % nh]);
                }
            }
            parts = parts < half ? parts : half;
        }
        UNROLL
        for (int i = 0; i < SCORES * nh; i++)
            VSTORE(p[i % nh] + j + i / nh * IG_PANEL_ROWS, part[0][i / nh][i % nh]);
    }
}
