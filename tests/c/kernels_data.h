/* kernels_data.h -- random and adversarial inputs for the kernels' tests.
 *
 * Every value is finite, and so is every product the kernels form of them.
 */
#ifndef KERNELS_DATA_H
#define KERNELS_DATA_H

#include "../../kernels/math.h"
#include "../../kernels/panel.h"
#include "../../kernels/quant.h"

enum data_kind { PLAIN, TINY, WIDE, EQUAL, ZERO, EXTREME, N_KIND };

static uint64_t data_state = 1;

static inline uint32_t data_u32(void)
{
    data_state = data_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(data_state >> 32);
}

/* uniform in [-1, 1) */
static inline float data_unit(void) { return (float)(int32_t)data_u32() * 0x1p-31f; }

static inline float data_float(enum data_kind kind)
{
    switch (kind) {
    case TINY: /* denormal or nearly; products of two vanish */
        return ig_bits_f32((data_u32() & 0x80ffffffu));
    case WIDE: /* any sign and exponent from 2^-60 to 2^60 */
        return ldexpf(data_unit(), (int)(data_u32() % 121) - 60);
    case EQUAL:
        return 0.7f;
    case ZERO:
        return data_u32() % 2 ? 0.0f : -0.0f;
    case EXTREME:
        return data_u32() % 2 ? 0x1p60f : -0x1p60f;
    case PLAIN:
    case N_KIND:
        break;
    }
    return data_unit();
}

static inline void data_floats(float *x, int n, enum data_kind kind)
{
    for (int i = 0; i < n; i++) x[i] = data_float(kind);
}

/* int8 activations; EXTREME has -128, which quantize never makes but may not break us. */
static inline void data_xq(struct ig_xq *x, int blocks, enum data_kind kind)
{
    for (int b = 0; b < blocks; b++) {
        x[b].d = fabsf(data_float(kind));
        x[b].sum = 0;
        for (int i = 0; i < IG_QBLOCK; i++) {
            int q = (int)(data_u32() % 255) - 127;
            if (kind == EQUAL) q = 127;
            if (kind == ZERO) q = 0;
            if (kind == EXTREME) q = data_u32() % 4 ? -128 : 127;
            x[b].q[i] = (int8_t)q;
            x[b].sum += q;
        }
    }
}

static inline uint16_t data_scale(enum data_kind kind)
{
    switch (kind) {
    case TINY:
        return (uint16_t)(data_u32() & 0x83ff); /* denormal f16 */
    case WIDE:
        return (uint16_t)((data_u32() & 0x83ff) | (1 + data_u32() % 30) << 10);
    case ZERO:
        return data_u32() % 2 ? 0x8000 : 0;
    case EXTREME:
        return data_u32() % 2 ? 0x7bff : 0xfbff;
    case EQUAL:
        return 0x3c00;
    case PLAIN:
    case N_KIND:
        break;
    }
    return ig_fp16_from_f32(data_unit());
}

/* E8M0 has neither zero nor sign. */
static inline uint16_t data_exponent(enum data_kind kind)
{
    switch (kind) {
    case TINY:
        return (uint16_t)(data_u32() % 4);
    case WIDE:
        return (uint16_t)(67 + data_u32() % 121);
    case EQUAL:
        return 128;
    case ZERO:
        return 0;
    case EXTREME:
        return 187;
    case PLAIN:
    case N_KIND:
        break;
    }
    return (uint16_t)(120 + data_u32() % 8);
}

/* One of 0..most; EQUAL: most; EXTREME: an end. */
static inline int data_code(enum data_kind kind, int most)
{
    if (kind == EQUAL) return most;
    const uint32_t u = data_u32() >> 8;
    return kind == EXTREME ? (u % 2 ? most : 0) : (int)(u % (uint32_t)(most + 1));
}

/* One standard row of a block format, its codes chosen freely. */
static inline void data_block_row(enum ig_fmt fmt, uint8_t *row, int cols, enum data_kind kind)
{
    const struct ig_qfmt *f = ig_qfmt(fmt);
    struct ig_qcodes c = { .m = 0 };
    for (int b = 0; b < cols / f->cols; b++, row += f->bytes) {
        c.d = f->d_bytes == 1 ? data_exponent(kind) : data_scale(kind);
        c.m = data_scale(kind);
        for (int i = 0; i < f->cols; i++)
            c.q[i] = (uint8_t)data_code(kind, (1 << (f->plane[0] + f->plane[1])) - 1);
        for (int i = 0; i < f->n_sub; i++) {
            const int low = f->sc == IG_QSC_8 ? -128 : -f->sc_zero;
            const int most = f->sc == IG_QSC_8 ? 255 : f->sc == IG_QSC_44 ? 15 : 63;
            c.sc[i] = (int8_t)(data_code(kind, most) + low);
            c.mn[i] = (uint8_t)data_code(kind, f->sc == IG_QSC_44 ? 15 : 63);
        }
        ig_qcodes_to_block(fmt, row, &c);
    }
}

static inline void data_row(enum ig_fmt fmt, void *row, int cols, enum data_kind kind)
{
    if (ig_fmt_cols(fmt) > 1) {
        data_block_row(fmt, row, cols, kind);
        return;
    }
    float *x = malloc((size_t)cols * sizeof *x);
    data_floats(x, cols, kind);
    if (fmt == IG_F16) {
        for (int i = 0; i < cols; i++) x[i] = fmaxf(-65504.0f, fminf(65504.0f, x[i]));
    }
    ig_row_from_f32(fmt, row, x, cols);
    free(x);
}

#endif
