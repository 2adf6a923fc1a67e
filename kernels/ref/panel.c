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
