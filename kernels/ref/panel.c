/* panel.c -- rows in GGUF's order, panels in ours, and the way between them.
 *
 * Runs when weights are packed or a row is looked up, never in a matrix product.
 * Flags: -ffp-contract=off, no instruction set.
 */
#include "../panel.h"

#include "../math.h"
#include "../quant.h"

enum { PR = IG_PANEL_ROWS };

static uint16_t get16(const uint8_t *p) { return (uint16_t)(p[0] | p[1] << 8); }

static void put16(uint8_t *p, uint16_t v)
{
    p[0] = (uint8_t)(v & 255);
    p[1] = (uint8_t)(v >> 8);
}

const char *ig_fmt_name(enum ig_fmt fmt)
{
    static const char *const name[] = { [IG_F32] = "f32", [IG_F16] = "f16", [IG_BF16] = "bf16" };
    const struct ig_qfmt *q = ig_qfmt(fmt);
    return q ? q->name : (unsigned)fmt < sizeof name / sizeof *name ? name[fmt] : "?";
}

int ig_fmt_cols(enum ig_fmt fmt)
{
    const struct ig_qfmt *q = ig_qfmt(fmt);
    return q ? q->cols : 1;
}

float ig_fmt_most(enum ig_fmt fmt)
{
    const float f16 = 65504.0f;
    const struct ig_qfmt *q = ig_qfmt(fmt);
    if (q && q->d_bytes == 2) return q->most * f16;
    return fmt == IG_F16 ? f16 : 3.38e38f; /* of the largest bf16, for what has its exponents */
}

size_t ig_fmt_row_bytes(enum ig_fmt fmt, int cols)
{
    const size_t n = (size_t)cols;
    const struct ig_qfmt *q = ig_qfmt(fmt);
    return q ? n / q->cols * q->bytes : fmt == IG_F32 ? n * 4 : n * 2;
}

size_t ig_panel_bytes(enum ig_fmt fmt, int cols)
{
    const size_t n = (size_t)cols;
    if (ig_qfmt(fmt)) return PR * ig_fmt_row_bytes(fmt, cols);
    return fmt == IG_F32 ? n * 64 : (n + 1) / 2 * 64;
}

void ig_row_to_f32(enum ig_fmt fmt, float *dst, const void *row, int cols)
{
    const struct ig_qfmt *f = ig_qfmt(fmt);
    const uint8_t *p = row;
    struct ig_qcodes c;
    if (f) {
        for (int i = 0; i < cols; i += f->cols, p += f->bytes) {
            ig_qcodes_from_block(fmt, &c, p);
            ig_qcodes_to_f32(f, dst + i, &c);
        }
    } else if (fmt == IG_F32) {
        memcpy(dst, row, (size_t)cols * sizeof *dst);
    } else if (fmt == IG_F16) {
        for (int i = 0; i < cols; i++) dst[i] = ig_fp16_to_f32(get16(p + 2 * i));
    } else {
        for (int i = 0; i < cols; i++) dst[i] = ig_bf16_to_f32(get16(p + 2 * i));
    }
}

/* Where a standard block has its f16 scale; a minimum follows it. */
static int scale_at(enum ig_fmt fmt)
{
    return fmt == IG_Q6_K ? 208 : fmt == IG_Q3_K ? 108 : fmt == IG_Q2_K ? 80 : 0;
}

/* An exponent of all ones, plus its lowest bit, carries into the sign. */
int ig_row_finite(enum ig_fmt fmt, const void *row, int cols)
{
    const struct ig_qfmt *f = ig_qfmt(fmt);
    const uint8_t *p = row;
    uint32_t bad = 0;

    if (f && f->d_bytes == 1) {
        for (int i = 0; i < cols; i += f->cols, p += f->bytes) bad |= p[0] == 255;
        return !bad;
    }
    if (f) {
        p += scale_at(fmt);
        for (int i = 0; i < cols; i += f->cols, p += f->bytes) {
            bad |= (get16(p) & 0x7c00u) + 0x0400u;
            if (f->min) bad |= (get16(p + 2) & 0x7c00u) + 0x0400u;
        }
        return !(bad & 0x8000u);
    }
    if (fmt == IG_F32) {
#pragma omp simd reduction(| : bad)
        for (int i = 0; i < cols; i++) {
            uint32_t u;
            memcpy(&u, p + 4 * (size_t)i, sizeof u);
            bad |= (u & 0x7f800000u) + 0x00800000u;
        }
        return !(bad >> 31);
    }
    const uint16_t mask = fmt == IG_F16 ? 0x7c00 : 0x7f80, low = fmt == IG_F16 ? 0x0400 : 0x0080;
    uint16_t bad16 = 0;
#pragma omp simd reduction(| : bad16)
    for (int i = 0; i < cols; i++) {
        uint16_t u;
        memcpy(&u, p + 2 * (size_t)i, sizeof u);
        bad16 = (uint16_t)(bad16 | (uint16_t)((u & mask) + low));
    }
    return !(bad16 & 0x8000u);
}

void ig_row_from_f32(enum ig_fmt fmt, void *row, const float *src, int cols)
{
    const struct ig_qfmt *f = ig_qfmt(fmt);
    uint8_t *p = row;
    struct ig_qcodes c;
    if (f) {
        for (int i = 0; i < cols; i += f->cols, p += f->bytes) {
            ig_qcodes_from_f32(fmt, &c, src + i);
            ig_qcodes_to_block(fmt, p, &c);
        }
    } else if (fmt == IG_F32) {
        memcpy(row, src, (size_t)cols * sizeof *src);
    } else if (fmt == IG_F16) {
        for (int i = 0; i < cols; i++) put16(p + 2 * i, ig_fp16_from_f32(src[i]));
    } else {
        for (int i = 0; i < cols; i++) put16(p + 2 * i, ig_bf16_from_f32(src[i]));
    }
}

/* Where columns c and c + 1 of row r lie in an F16 or BF16 panel. */
static size_t half_at(int r, int c) { return (size_t)(c / 2 * PR + r) * 4 + (size_t)(c % 2) * 2; }

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

static void pack_blocks(enum ig_fmt fmt, uint8_t *panel, const uint8_t *row, int r, int cols)
{
    const struct ig_qfmt *f = ig_qfmt(fmt);
    struct ig_qcodes c;
    ig_qcodes_zero(f, &c);
    for (int i = 0; i < cols; i += f->cols, panel += PR * f->bytes) {
        if (row) ig_qcodes_from_block(fmt, &c, row + (size_t)(i / f->cols) * f->bytes);
        ig_qcodes_to_tile(f, panel, r, &c);
    }
}

void ig_panel_pack(enum ig_fmt fmt, void *panel, const void *const *rows, int n, int cols)
{
    for (int r = 0; r < PR; r++) {
        const void *row = r < n ? rows[r] : NULL;
        if (ig_qfmt(fmt))
            pack_blocks(fmt, panel, row, r, cols);
        else if (fmt == IG_F32)
            pack_f32(panel, row, r, cols);
        else
            pack_half(panel, row, r, cols);
    }
}

void ig_panel_zero_row(enum ig_fmt fmt, void *panel, int r, int cols)
{
    if (ig_qfmt(fmt))
        pack_blocks(fmt, panel, NULL, r, cols);
    else if (fmt == IG_F32)
        pack_f32(panel, NULL, r, cols);
    else
        pack_half(panel, NULL, r, cols);
}

void ig_panel_row(enum ig_fmt fmt, float *dst, const void *panel, int r, int cols)
{
    const struct ig_qfmt *f = ig_qfmt(fmt);
    const uint8_t *p = panel;
    struct ig_qcodes q;
    if (f) {
        for (int i = 0; i < cols; i += f->cols, p += PR * f->bytes) {
            ig_qcodes_from_tile(f, &q, p, r);
            ig_qcodes_to_f32(f, dst + i, &q);
        }
        return;
    }
    for (int c = 0; c < cols; c++) {
        if (fmt == IG_F32)
            memcpy(dst + c, p + (size_t)(c * PR + r) * 4, 4);
        else
            dst[c] = fmt == IG_F16 ? ig_fp16_to_f32(get16(p + half_at(r, c)))
                                   : ig_bf16_to_f32(get16(p + half_at(r, c)));
    }
}
