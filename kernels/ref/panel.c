/* panel.c -- rows in GGUF's order, panels in ours, and the way between them.
 *
 * Runs when weights are packed or a row is looked up, never in a matrix product.
 * Flags: -ffp-contract=off, no instruction set.
 */
#include "../panel.h"

#include "../math.h"

enum { PR = IG_PANEL_ROWS, QB = IG_QBLOCK, Q8_ROW = 34, Q4_ROW = 18, Q8_TILE = 544, Q4_TILE = 288 };

static uint16_t get16(const uint8_t *p) { return (uint16_t)(p[0] | p[1] << 8); }

static void put16(uint8_t *p, uint16_t v)
{
    p[0] = (uint8_t)(v & 255);
    p[1] = (uint8_t)(v >> 8);
}

const char *ig_fmt_name(enum ig_fmt fmt)
{
    static const char *const name[IG_N_FMT] = {
        [IG_F32] = "f32",   [IG_F16] = "f16",   [IG_BF16] = "bf16",
        [IG_Q8_0] = "q8_0", [IG_Q4_0] = "q4_0",
    };
    return (unsigned)fmt < IG_N_FMT ? name[fmt] : "?";
}

int ig_fmt_cols(enum ig_fmt fmt) { return fmt == IG_Q8_0 || fmt == IG_Q4_0 ? QB : 1; }

size_t ig_fmt_row_bytes(enum ig_fmt fmt, int cols)
{
    const size_t n = (size_t)cols;
    switch (fmt) {
    case IG_F32:
        return n * 4;
    case IG_F16:
    case IG_BF16:
        return n * 2;
    case IG_Q8_0:
        return n / QB * Q8_ROW;
    case IG_Q4_0:
        return n / QB * Q4_ROW;
    case IG_N_FMT:
        break;
    }
    return 0;
}

size_t ig_panel_bytes(enum ig_fmt fmt, int cols)
{
    const size_t n = (size_t)cols;
    switch (fmt) {
    case IG_F32:
        return n * 64;
    case IG_F16:
    case IG_BF16:
        return (n + 1) / 2 * 64;
    case IG_Q8_0:
        return n / QB * Q8_TILE;
    case IG_Q4_0:
        return n / QB * Q4_TILE;
    case IG_N_FMT:
        break;
    }
    return 0;
}

static void q8_0_to_f32(float *dst, const uint8_t *row, int cols)
{
    for (int b = 0; b < cols / QB; b++, row += Q8_ROW) {
        const float d = ig_fp16_to_f32(get16(row));
        for (int i = 0; i < QB; i++) *dst++ = (float)(int8_t)row[2 + i] * d;
    }
}

static void q4_0_to_f32(float *dst, const uint8_t *row, int cols)
{
    for (int b = 0; b < cols / QB; b++, row += Q4_ROW, dst += QB) {
        const float d = ig_fp16_to_f32(get16(row));
        for (int i = 0; i < QB / 2; i++) {
            dst[i] = (float)((row[2 + i] & 15) - 8) * d;
            dst[i + QB / 2] = (float)((row[2 + i] >> 4) - 8) * d;
        }
    }
}

void ig_row_to_f32(enum ig_fmt fmt, float *dst, const void *row, int cols)
{
    const uint8_t *p = row;
    switch (fmt) {
    case IG_F32:
        memcpy(dst, row, (size_t)cols * sizeof *dst);
        break;
    case IG_F16:
        for (int i = 0; i < cols; i++) dst[i] = ig_fp16_to_f32(get16(p + 2 * i));
        break;
    case IG_BF16:
        for (int i = 0; i < cols; i++) dst[i] = ig_bf16_to_f32(get16(p + 2 * i));
        break;
    case IG_Q8_0:
        q8_0_to_f32(dst, p, cols);
        break;
    case IG_Q4_0:
        q4_0_to_f32(dst, p, cols);
        break;
    case IG_N_FMT:
        break;
    }
}

/* 1 / d, or 0 where that is not a finite number. */
static float inverse(float d)
{
    const float inv = d != 0.0f ? 1.0f / d : 0.0f;
    return isfinite(inv) ? inv : 0.0f;
}

/* (int)x held inside [lo, hi]; not-a-number gives lo. */
static int to_int(float x, int lo, int hi)
{
    if (!(x > (float)lo)) return lo;
    return x < (float)hi ? (int)x : hi;
}

static void q8_0_from_f32(uint8_t *row, const float *src, int cols)
{
    for (int b = 0; b < cols / QB; b++, row += Q8_ROW, src += QB) {
        float most = 0.0f;
        for (int i = 0; i < QB; i++) most = fabsf(src[i]) > most ? fabsf(src[i]) : most;
        const float d = most / 127.0f, inv = inverse(d);
        put16(row, ig_fp16_from_f32(d));
        for (int i = 0; i < QB; i++) {
            row[2 + i] = (uint8_t)to_int(roundf(src[i] * inv), -127, 127);
        }
    }
}

static void q4_0_from_f32(uint8_t *row, const float *src, int cols)
{
    for (int b = 0; b < cols / QB; b++, row += Q4_ROW, src += QB) {
        float most = 0.0f; /* the value of largest magnitude, with its sign */
        for (int i = 0; i < QB; i++) most = fabsf(src[i]) > fabsf(most) ? src[i] : most;
        const float d = most / -8.0f, inv = inverse(d);
        put16(row, ig_fp16_from_f32(d));
        for (int i = 0; i < QB / 2; i++) {
            const int lo = to_int(src[i] * inv + 8.5f, 0, 15);
            const int hi = to_int(src[i + QB / 2] * inv + 8.5f, 0, 15);
            row[2 + i] = (uint8_t)(lo | hi << 4);
        }
    }
}

void ig_row_from_f32(enum ig_fmt fmt, void *row, const float *src, int cols)
{
    uint8_t *p = row;
    switch (fmt) {
    case IG_F32:
        memcpy(row, src, (size_t)cols * sizeof *src);
        break;
    case IG_F16:
        for (int i = 0; i < cols; i++) put16(p + 2 * i, ig_fp16_from_f32(src[i]));
        break;
    case IG_BF16:
        for (int i = 0; i < cols; i++) put16(p + 2 * i, ig_bf16_from_f32(src[i]));
        break;
    case IG_Q8_0:
        q8_0_from_f32(p, src, cols);
        break;
    case IG_Q4_0:
        q4_0_from_f32(p, src, cols);
        break;
    case IG_N_FMT:
        break;
    }
}

/* Where columns c and c + 1 of row r lie in an F16 or BF16 panel. */
static size_t half_at(int r, int c) { return (size_t)(c / 2 * PR + r) * 4 + (size_t)(c % 2) * 2; }

/* Where column c of row r lies in a tile; Q4_0: c % 8 >= 4 means its high nibble. */
static size_t q8_at(int r, int c) { return (size_t)(2 * PR + c / 4 * 64 + r * 4 + c % 4); }
static size_t q4_at(int r, int c) { return (size_t)(2 * PR + c / 8 * 64 + r * 4 + c % 4); }

static void pack_q8_0(uint8_t *tile, const uint8_t *row, int r, int cols)
{
    for (int b = 0; b < cols / QB; b++, tile += Q8_TILE) {
        memset(tile + 2 * r, 0, 2);
        if (row) memcpy(tile + 2 * r, row + (size_t)b * Q8_ROW, 2);
        for (int c = 0; c < QB; c++) {
            tile[q8_at(r, c)] = row ? row[(size_t)b * Q8_ROW + 2 + (size_t)c] ^ 0x80 : 0x80;
        }
    }
}

static void pack_q4_0(uint8_t *tile, const uint8_t *row, int r, int cols)
{
    for (int b = 0; b < cols / QB; b++, tile += Q4_TILE) {
        memset(tile + 2 * r, 0, 2);
        if (row) memcpy(tile + 2 * r, row + (size_t)b * Q4_ROW, 2);
        for (int c = 0; c < QB; c += 8) {
            for (int i = c; i < c + 4; i++) {
                int lo = 8, hi = 8;
                if (row) {
                    const uint8_t *q = row + (size_t)b * Q4_ROW + 2;
                    lo = i < 16 ? q[i] & 15 : q[i - 16] >> 4;
                    hi = i + 4 < 16 ? q[i + 4] & 15 : q[i + 4 - 16] >> 4;
                }
                tile[q4_at(r, i)] = (uint8_t)(lo | hi << 4);
            }
        }
    }
}

static void pack_half(uint8_t *panel, const uint8_t *row, int r, int cols)
{
    for (int c = 0; c < (cols + 1) / 2 * 2; c++) {
        if (row && c < cols)
            memcpy(panel + half_at(r, c), row + 2 * c, 2);
        else
            memset(panel + half_at(r, c), 0, 2);
    }
}

static void pack_f32(uint8_t *panel, const uint8_t *row, int r, int cols)
{
    for (int c = 0; c < cols; c++) {
        if (row)
            memcpy(panel + (size_t)(c * PR + r) * 4, row + (size_t)c * 4, 4);
        else
            memset(panel + (size_t)(c * PR + r) * 4, 0, 4);
    }
}

void ig_panel_pack(enum ig_fmt fmt, void *panel, const void *const *rows, int n, int cols)
{
    for (int r = 0; r < PR; r++) {
        const void *row = r < n ? rows[r] : NULL;
        switch (fmt) {
        case IG_F32:
            pack_f32(panel, row, r, cols);
            break;
        case IG_F16:
        case IG_BF16:
            pack_half(panel, row, r, cols);
            break;
        case IG_Q8_0:
            pack_q8_0(panel, row, r, cols);
            break;
        case IG_Q4_0:
            pack_q4_0(panel, row, r, cols);
            break;
        case IG_N_FMT:
            break;
        }
    }
}

void ig_panel_row(enum ig_fmt fmt, float *dst, const void *panel, int r, int cols)
{
    const uint8_t *p = panel;
    for (int c = 0; c < cols; c++) {
        switch (fmt) {
        case IG_F32:
            memcpy(dst + c, p + (size_t)(c * PR + r) * 4, 4);
            break;
        case IG_F16:
            dst[c] = ig_fp16_to_f32(get16(p + half_at(r, c)));
            break;
        case IG_BF16:
            dst[c] = ig_bf16_to_f32(get16(p + half_at(r, c)));
            break;
        case IG_Q8_0: {
            const uint8_t *tile = p + (size_t)(c / QB) * Q8_TILE;
            dst[c] = (float)(tile[q8_at(r, c % QB)] - 128) * ig_fp16_to_f32(get16(tile + 2 * r));
            break;
        }
        case IG_Q4_0: {
            const uint8_t *tile = p + (size_t)(c / QB) * Q4_TILE;
            const int q = tile[q4_at(r, c % QB)] >> (c % 8 < 4 ? 0 : 4) & 15;
            dst[c] = (float)(q - 8) * ig_fp16_to_f32(get16(tile + 2 * r));
            break;
        }
        case IG_N_FMT:
            break;
        }
    }
}
