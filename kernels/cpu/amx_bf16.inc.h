/* amx_bf16.inc.h -- BF16 weights with AMX; kernels/ref/matvec_float.c has the definition.
 *
 * Activations are rounded to bf16, to nearest even.  Columns are taken 32 at a time, chunk c
 * into part c % 4.  Of a chunk, even columns and odd ones are summed apart, each from +0 in
 * ascending fused multiply-adds; then part += even + odd.  y = (part 0 + part 2) + (part 1 +
 * part 3).  Denormals count as 0 and become 0 throughout: that is how TDPBF16PS is defined.
 * Columns up to the next 32 are zeros.
 */
enum { AMX_PARTS = 4, AMX_COLS = 32 };

/* 32 columns of 16 rows: in place, or at the panel's end a copy with zeros behind it. */
static const uint8_t *amx_chunk(uint8_t copy[16 * 64], const uint8_t *p, int at, int cols)
{
    const uint8_t *from = p + (size_t)at / 2 * 64;
    if (cols - at >= AMX_COLS) return from;
    const size_t bytes = (size_t)(cols - at + 1) / 2 * 64;
    memcpy(copy, from, bytes);
    memset(copy + bytes, 0, 16 * 64 - bytes);
    return copy;
}

/* 32 activations as bf16; those past the end are 0. */
static __m512i amx_round(const float *x, int at, int cols)
{
    const int n = cols - at < AMX_COLS ? cols - at : AMX_COLS;
    const __mmask32 mask = n == AMX_COLS ? 0xffffffffu : (1u << n) - 1;
    const __m512 lo = _mm512_maskz_loadu_ps((__mmask16)mask, x + at);
    const __m512 hi = _mm512_maskz_loadu_ps((__mmask16)(mask >> 16), x + at + (n > 16 ? 16 : 0));
    return (__m512i)_mm512_cvtne2ps_pbh(hi, lo);
}

/* One row; MXCSR flushes denormals here, and nothing may be moved to where it does not. */
static __attribute__((noinline)) void amx_bf16_one(float y[IG_PANEL_ROWS], const uint8_t *p,
                                                   const float *x, int cols)
{
    __m512 part[AMX_PARTS] = { VZERO, VZERO, VZERO, VZERO };
    const __m512i high = _mm512_set1_epi32(-65536);
    for (int at = 0, c = 0; at < cols; at += AMX_COLS, c = (c + 1) % AMX_PARTS) {
        _Alignas(64) uint8_t copy[16 * 64];
        uint32_t pair[AMX_COLS / 2];
        __m512 even = VZERO, odd = VZERO;
        const uint8_t *w = amx_chunk(copy, p, at, cols);
        _mm512_storeu_si512(pair, amx_round(x, at, cols));
        UNROLL
        for (int j = 0; j < AMX_COLS / 2; j++) {
            const __m512i v = _mm512_loadu_si512(w + 64 * j), xj = QSET32((int)pair[j]);
            PREFETCH(w + 64 * j);
            even = VFMA(QBITS(QSHL32(v, 16)), QBITS(QSHL32(xj, 16)), even);
            odd = VFMA(QBITS(QAND(v, high)), QBITS(QAND(xj, high)), odd);
        }
        part[c] = VADD(part[c], VADD(even, odd));
    }
    VSTORE(y, VADD(VADD(part[0], part[2]), VADD(part[1], part[3])));
}

static __attribute__((noinline)) void amx_bf16_sixteen(float (*y)[IG_PANEL_ROWS], const uint8_t *p,
                                                       const void *const *x, int cols, int live)
{
    enum { STEP = AMX_PARTS * AMX_COLS };
    _Alignas(64) uint16_t rows[AMX_PARTS][AMX_ROWS][AMX_COLS] = { { { 0 } } };
    _Alignas(64) float part[AMX_PARTS][AMX_ROWS][IG_PANEL_ROWS];
    _Alignas(64) uint8_t copy[16 * 64];
    TILE_ZERO(0);
    TILE_ZERO(1);
    TILE_ZERO(2);
    TILE_ZERO(3);
#define AMX_CHUNK(c)                                                                               \
    if (at + c * AMX_COLS < cols) {                                                                \
        TILE_LOAD(7, amx_chunk(copy, p, at + c * AMX_COLS, cols), 64);                             \
        TILE_LOAD(6, rows[c], 64);                                                                 \
        TILE_DOT16(c, 6, 7);                                                                       \
    }
    for (int at = 0; at < cols; at += STEP) {
        for (int t = 0; t < live; t++)
            for (int c = 0; c < AMX_PARTS && at + c * AMX_COLS < cols; c++)
                _mm512_storeu_si512(rows[c][t], amx_round(x[t], at + c * AMX_COLS, cols));
        for (int line = 0; line < STEP / 2; line++) PREFETCH(p + (size_t)at * 32 + 64 * line);
        AMX_CHUNK(0)
        AMX_CHUNK(1)
        AMX_CHUNK(2)
        AMX_CHUNK(3)
    }
#undef AMX_CHUNK
    TILE_SAVE(0, part[0], 64);
    TILE_SAVE(1, part[1], 64);
    TILE_SAVE(2, part[2], 64);
    TILE_SAVE(3, part[3], 64);
    for (int t = 0; t < live; t++) {
        const V a = VADD(VLOAD(part[0][t]), VLOAD(part[2][t]));
        VSTORE(y[t], VADD(a, VADD(VLOAD(part[1][t]), VLOAD(part[3][t]))));
    }
}

void ig_panel_bf16_amx(float (*y)[IG_PANEL_ROWS], const void *panel, const void *const *x, int cols,
                       int n)
{
    enum { FLUSH = 0x8040 }; /* denormals in and out are 0 */
    const unsigned before = _mm_getcsr();
    int t = 0;
    _mm_setcsr(before | FLUSH);
    if (n >= AMX_LEAST) amx_ready();
    for (; n - t >= AMX_LEAST; t += AMX_ROWS)
        amx_bf16_sixteen(y + t, panel, x + t, cols, n - t < AMX_ROWS ? n - t : AMX_ROWS);
    for (; t < n; t++) amx_bf16_one(y[t], panel, x[t], cols);
    _mm_setcsr(before);
}
