/* quant.h -- the block formats: their numbers, and one row's block as codes.
 *
 * A standard block (GGUF's) is `cols` weights of one row; a tile is the same
 * block of 16 rows and exactly 16 times as many bytes.  Both are ways to write a
 * struct ig_qcodes, and so every conversion goes through it:
 *
 *   standard block <-> codes <-> tile,   f32 -> codes,   codes -> f32
 *
 * The weight of code q under sub-scale i, with v = book[q] or q - zero:
 *   no minima      d * v            or  d * sc[i] * v
 *   IG_QMIN_ROW    d * v + m
 *   IG_QMIN_SUB    d * sc[i] * v - m * mn[i]
 *
 * A tile (offsets from its start; r is the row):
 *   16 x d (f16; MXFP4: one byte, E8M0)      16 x m (f16), where there are minima
 *   sub-scales, see IG_QSC_*                 then per 32 columns, plane after plane:
 *   a plane of b bits is b groups of 64 B; byte 4r + i of group g holds columns
 *   4t + i for the 8 / b values t = 8 / b * g ..., the first in the lowest bits.
 */
#ifndef IG_QUANT_H
#define IG_QUANT_H

#include "kernels.h"

enum { IG_QCOLS = 256, IG_QSUBS = 16 }; /* most columns and sub-scales of a block */

enum ig_qmin { IG_QMIN_NONE, IG_QMIN_ROW, IG_QMIN_SUB };

/* How a tile stores sub-scale i of row r. */
enum ig_qsc {
    IG_QSC_NONE,
    IG_QSC_6,  /* 16 values v of 6 bits (sc, or 8 sc and 8 mn): byte i % 4 * 16 + r of the 64 B
                * i / 4 < 3 in its low bits; v[12 + k] in the high bits of bytes k * 16 + r of
                * all three, lowest pair first */
    IG_QSC_8,  /* byte i * 16 + r */
    IG_QSC_44, /* the same, sc in its low and mn in its high nibble */
    IG_QSC_42, /* 32 B: bits 4 and 5 of i in byte i % 2 * 16 + r, pair i / 2;
                * 64 B: bits 0..3 in byte i % 4 * 16 + r, nibble i / 4 */
};

struct ig_qfmt {
    const char *name;
    uint16_t cols;      /* of a block: 32 or 256 */
    uint16_t bytes;     /* of a standard block */
    uint8_t plane[2];   /* bits of the planes that make a code, lowest first */
    uint8_t n_sub;      /* sub-scales of a block: 0, 8 or 16 */
    uint8_t sc;         /* enum ig_qsc */
    uint8_t sc_zero;    /* what stored sub-scales are above their value */
    uint8_t min;        /* enum ig_qmin */
    uint8_t zero;       /* code of the value 0, where there is no book */
    uint8_t d_bytes;    /* 2: f16; 1: E8M0 */
    float most;         /* values up to this times the largest f16 can be written */
    const int8_t *book; /* [16] values of the codes, or NULL */
};

struct ig_qcodes {
    uint8_t q[IG_QCOLS];
    int8_t sc[IG_QSUBS]; /* values: sc_zero is taken off */
    uint8_t mn[IG_QSUBS];
    uint16_t d, m; /* bits, as stored */
};

extern const int8_t ig_iq4_book[16], ig_mxfp4_book[16];

/* NULL for float formats. */
const struct ig_qfmt *ig_qfmt(enum ig_fmt fmt);

void ig_qcodes_from_block(enum ig_fmt fmt, struct ig_qcodes *c, const uint8_t *block);
void ig_qcodes_to_block(enum ig_fmt fmt, uint8_t *block, const struct ig_qcodes *c);
void ig_qcodes_from_tile(const struct ig_qfmt *f, struct ig_qcodes *c, const uint8_t *tile, int r);
void ig_qcodes_to_tile(const struct ig_qfmt *f, uint8_t *tile, int r, const struct ig_qcodes *c);
void ig_qcodes_from_f32(enum ig_fmt fmt, struct ig_qcodes *c, const float *x);
void ig_qcodes_to_f32(const struct ig_qfmt *f, float *x, const struct ig_qcodes *c);
/* A block of zero weights. */
void ig_qcodes_zero(const struct ig_qfmt *f, struct ig_qcodes *c);

static inline int ig_qvalue(const struct ig_qfmt *f, int q)
{
    return f->book ? f->book[q] : q - f->zero;
}
/* The columns one sub-scale is for. */
static inline int ig_qsub_cols(const struct ig_qfmt *f)
{
    return f->n_sub ? f->cols / f->n_sub : f->cols;
}
float ig_qscale(const struct ig_qfmt *f, uint16_t d);
uint16_t ig_qscale_bits(const struct ig_qfmt *f, float d);

#endif
