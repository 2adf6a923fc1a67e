/* quant.c -- the block formats' numbers; standard blocks, codes and values.
 *
 * The layouts of standard blocks are GGUF's; `q` below is where the codes are.
 * Flags: -ffp-contract=off, no instruction set.
 */
#include "../quant.h"

#include "../math.h"

enum { QB = IG_QBLOCK };

const int8_t ig_iq4_book[16] = { -127, -104, -83, -65, -49, -35, -22, -10,
                                 1,    13,   25,  38,  53,  69,  89,  113 };
/* E2M1, doubled */
const int8_t ig_mxfp4_book[16] = { 0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12 };

// clang-format off
static const struct ig_qfmt formats[IG_N_FMT] = {
    [IG_Q8_0] = { .name = "q8_0", .cols = 32, .bytes = 34, .plane = { 8 }, .zero = 128,
                  .d_bytes = 2, .most = 127 },
    [IG_Q4_0] = { .name = "q4_0", .cols = 32, .bytes = 18, .plane = { 4 }, .zero = 8,
                  .d_bytes = 2, .most = 8 },
    [IG_Q4_K] = { .name = "q4_k", .cols = 256, .bytes = 144, .plane = { 4 }, .n_sub = 8,
                  .sc = IG_QSC_6, .min = IG_QMIN_SUB, .d_bytes = 2, .most = 63 },
    [IG_Q6_K] = { .name = "q6_k", .cols = 256, .bytes = 210, .plane = { 4, 2 }, .n_sub = 16,
                  .sc = IG_QSC_8, .zero = 32, .d_bytes = 2, .most = 127 * 31 },
    [IG_Q5_K] = { .name = "q5_k", .cols = 256, .bytes = 176, .plane = { 4, 1 }, .n_sub = 8,
                  .sc = IG_QSC_6, .min = IG_QMIN_SUB, .d_bytes = 2, .most = 63 },
    [IG_MXFP4] = { .name = "mxfp4", .cols = 32, .bytes = 17, .plane = { 4 }, .book = ig_mxfp4_book,
                   .d_bytes = 1, .most = 12 },
    [IG_Q4_1] = { .name = "q4_1", .cols = 32, .bytes = 20, .plane = { 4 }, .min = IG_QMIN_ROW,
                  .d_bytes = 2, .most = 1 },
    [IG_Q5_0] = { .name = "q5_0", .cols = 32, .bytes = 22, .plane = { 4, 1 }, .zero = 16,
                  .d_bytes = 2, .most = 16 },
    [IG_Q5_1] = { .name = "q5_1", .cols = 32, .bytes = 24, .plane = { 4, 1 }, .min = IG_QMIN_ROW,
                  .d_bytes = 2, .most = 1 },
    [IG_IQ4_NL] = { .name = "iq4_nl", .cols = 32, .bytes = 18, .plane = { 4 },
                    .book = ig_iq4_book, .d_bytes = 2, .most = 113 },
    [IG_Q3_K] = { .name = "q3_k", .cols = 256, .bytes = 110, .plane = { 2, 1 }, .n_sub = 16,
                  .sc = IG_QSC_6, .sc_zero = 32, .zero = 4, .d_bytes = 2, .most = 31 * 3 },
    [IG_Q2_K] = { .name = "q2_k", .cols = 256, .bytes = 84, .plane = { 2 }, .n_sub = 16,
                  .sc = IG_QSC_44, .min = IG_QMIN_SUB, .d_bytes = 2, .most = 15 },
    [IG_IQ4_XS] = { .name = "iq4_xs", .cols = 256, .bytes = 136, .plane = { 4 }, .n_sub = 8,
                    .sc = IG_QSC_42, .sc_zero = 32, .book = ig_iq4_book, .d_bytes = 2,
                    .most = 31 * 113 },
};
// clang-format on

const struct ig_qfmt *ig_qfmt(enum ig_fmt fmt)
{
    return (unsigned)fmt < IG_N_FMT && formats[fmt].name ? &formats[fmt] : NULL;
}

static uint16_t get16(const uint8_t *p) { return (uint16_t)(p[0] | p[1] << 8); }

static void put16(uint8_t *p, uint16_t v)
{
    p[0] = (uint8_t)(v & 255);
    p[1] = (uint8_t)(v >> 8);
}

/* E8M0 for doubled codes: 2^(e - 128), of which the first two are denormal. */
float ig_qscale(const struct ig_qfmt *f, uint16_t d)
{
    if (f->d_bytes == 2) return ig_fp16_to_f32(d);
    return ig_bits_f32(d < 2 ? 0x00200000u << d : (uint32_t)(d - 1) << 23);
}

uint16_t ig_qscale_bits(const struct ig_qfmt *f, float d)
{
    if (f->d_bytes == 2) return ig_fp16_from_f32(d);
    const uint32_t e = ig_f32_bits(d) >> 23; /* powers of two only */
    return (uint16_t)(e ? e + 1 : ig_f32_bits(d) >> 22 & 1);
}

/* -- codes: n bytes hold columns j in their low nibbles and j + n in the high ones */

static void get_nibbles(uint8_t *q, const uint8_t *p, int half)
{
    for (int j = 0; j < half; j++) {
        q[j] = p[j] & 15;
        q[j + half] = p[j] >> 4;
    }
}

static void put_nibbles(uint8_t *p, const uint8_t *q, int half)
{
    for (int j = 0; j < half; j++) p[j] = (uint8_t)((q[j] & 15) | (q[j + half] & 15) << 4);
}

/* Bit `from` of 32 codes is bit `to` of 32 bytes. */
static void get_bits(uint8_t *q, const uint8_t *p, int from, int bits, int to)
{
    const int mask = (1 << bits) - 1;
    for (int j = 0; j < QB; j++) q[j] = (uint8_t)(q[j] | (p[j] >> from & mask) << to);
}

static void put_bits(uint8_t *p, const uint8_t *q, int from, int bits, int to)
{
    const int mask = (1 << bits) - 1;
    for (int j = 0; j < QB; j++) p[j] = (uint8_t)(p[j] | (q[j] >> from & mask) << to);
}

/* Bit 4 of 32 codes in four bytes. */
static void get_fifth(uint8_t *q, const uint8_t *p)
{
    for (int j = 0; j < QB; j++) q[j] = (uint8_t)(q[j] | (p[j / 8] >> j % 8 & 1) << 4);
}

static void put_fifth(uint8_t *p, const uint8_t *q)
{
    memset(p, 0, 4);
    for (int j = 0; j < QB; j++) p[j / 8] = (uint8_t)(p[j / 8] | (q[j] >> 4 & 1) << j % 8);
}

/* -- sub-scales */

/* Eight sc and eight mn of 6 bits in 12 bytes: four of each whole, the rest in pieces. */
static void get_scales_k4(struct ig_qcodes *c, const uint8_t *p)
{
    for (int i = 0; i < 4; i++) {
        c->sc[i] = (int8_t)(p[i] & 63);
        c->mn[i] = p[i + 4] & 63;
        c->sc[i + 4] = (int8_t)((p[i + 8] & 15) | p[i] >> 6 << 4);
        c->mn[i + 4] = (uint8_t)(p[i + 8] >> 4 | p[i + 4] >> 6 << 4);
    }
}

static void put_scales_k4(uint8_t *p, const struct ig_qcodes *c)
{
    for (int i = 0; i < 4; i++) {
        p[i] = (uint8_t)(c->sc[i] | c->sc[i + 4] >> 4 << 6);
        p[i + 4] = (uint8_t)(c->mn[i] | c->mn[i + 4] >> 4 << 6);
        p[i + 8] = (uint8_t)((c->sc[i + 4] & 15) | (c->mn[i + 4] & 15) << 4);
    }
}

/* Sixteen of 6 bits, 32 above their value: 8 bytes of low nibbles, 4 of high pairs. */
static void get_scales_k3(struct ig_qcodes *c, const uint8_t *p)
{
    for (int i = 0; i < 16; i++) {
        const int low = i < 8 ? p[i] & 15 : p[i - 8] >> 4;
        c->sc[i] = (int8_t)((low | (p[8 + i % 4] >> 2 * (i / 4) & 3) << 4) - 32);
    }
}

static void put_scales_k3(uint8_t *p, const struct ig_qcodes *c)
{
    memset(p, 0, 12);
    for (int i = 0; i < 16; i++) {
        const int v = c->sc[i] + 32;
        p[i % 8] = (uint8_t)(p[i % 8] | (v & 15) << (i < 8 ? 0 : 4));
        p[8 + i % 4] = (uint8_t)(p[8 + i % 4] | v >> 4 << 2 * (i / 4));
    }
}

static void get_scales_xs(struct ig_qcodes *c, const uint8_t *p)
{
    for (int i = 0; i < 8; i++)
        c->sc[i] =
            (int8_t)(((p[2 + i / 2] >> 4 * (i % 2) & 15) | (get16(p) >> 2 * i & 3) << 4) - 32);
}

static void put_scales_xs(uint8_t *p, const struct ig_qcodes *c)
{
    int high = 0;
    memset(p, 0, 6);
    for (int i = 0; i < 8; i++) {
        const int v = c->sc[i] + 32;
        p[2 + i / 2] = (uint8_t)(p[2 + i / 2] | (v & 15) << 4 * (i % 2));
        high |= v >> 4 << 2 * i;
    }
    put16(p, (uint16_t)high);
}

/* -- blocks */

static void from_k(enum ig_fmt fmt, struct ig_qcodes *c, const uint8_t *p)
{
    uint8_t *const q = c->q;
    switch (fmt) {
    case IG_Q4_K:
    case IG_Q5_K: {
        const uint8_t *nibbles = p + (fmt == IG_Q5_K ? 48 : 16);
        c->d = get16(p);
        c->m = get16(p + 2);
        get_scales_k4(c, p + 4);
        for (int k = 0; k < 4; k++) get_nibbles(q + 64 * k, nibbles + 32 * k, 32);
        if (fmt == IG_Q5_K)
            for (int j = 0; j < 8; j++) get_bits(q + 32 * j, p + 16, j, 1, 4);
        break;
    }
    case IG_Q6_K:
        for (int h = 0; h < 2; h++) {
            get_nibbles(q + 128 * h, p + 64 * h, 64);
            for (int j = 0; j < 4; j++)
                get_bits(q + 128 * h + 32 * j, p + 128 + 32 * h, 2 * j, 2, 4);
        }
        memcpy(c->sc, p + 192, 16);
        c->d = get16(p + 208);
        break;
    case IG_Q3_K:
        memset(q, 0, IG_QCOLS);
        for (int j = 0; j < 8; j++) {
            get_bits(q + 32 * j, p + 32 + j / 4 * 32, j % 4 * 2, 2, 0);
            get_bits(q + 32 * j, p, j, 1, 2);
        }
        get_scales_k3(c, p + 96);
        c->d = get16(p + 108);
        break;
    case IG_Q2_K:
        memset(q, 0, IG_QCOLS);
        for (int i = 0; i < 16; i++) {
            c->sc[i] = p[i] & 15;
            c->mn[i] = p[i] >> 4;
        }
        for (int j = 0; j < 8; j++) get_bits(q + 32 * j, p + 16 + j / 4 * 32, j % 4 * 2, 2, 0);
        c->d = get16(p + 80);
        c->m = get16(p + 82);
        break;
    default: /* IG_IQ4_XS */
        c->d = get16(p);
        get_scales_xs(c, p + 2);
        for (int j = 0; j < 8; j++) get_nibbles(q + 32 * j, p + 8 + 16 * j, 16);
        break;
    }
}

static void to_k(enum ig_fmt fmt, uint8_t *p, const struct ig_qcodes *c)
{
    const uint8_t *const q = c->q;
    memset(p, 0, formats[fmt].bytes);
    switch (fmt) {
    case IG_Q4_K:
    case IG_Q5_K: {
        uint8_t *nibbles = p + (fmt == IG_Q5_K ? 48 : 16);
        put16(p, c->d);
        put16(p + 2, c->m);
        put_scales_k4(p + 4, c);
        for (int k = 0; k < 4; k++) put_nibbles(nibbles + 32 * k, q + 64 * k, 32);
        if (fmt == IG_Q5_K)
            for (int j = 0; j < 8; j++) put_bits(p + 16, q + 32 * j, 4, 1, j);
        break;
    }
    case IG_Q6_K:
        for (int h = 0; h < 2; h++) {
            put_nibbles(p + 64 * h, q + 128 * h, 64);
            for (int j = 0; j < 4; j++)
                put_bits(p + 128 + 32 * h, q + 128 * h + 32 * j, 4, 2, 2 * j);
        }
        memcpy(p + 192, c->sc, 16);
        put16(p + 208, c->d);
        break;
    case IG_Q3_K:
        for (int j = 0; j < 8; j++) {
            put_bits(p + 32 + j / 4 * 32, q + 32 * j, 0, 2, j % 4 * 2);
            put_bits(p, q + 32 * j, 2, 1, j);
        }
        put_scales_k3(p + 96, c);
        put16(p + 108, c->d);
        break;
    case IG_Q2_K:
        for (int i = 0; i < 16; i++) p[i] = (uint8_t)(c->sc[i] | c->mn[i] << 4);
        for (int j = 0; j < 8; j++) put_bits(p + 16 + j / 4 * 32, q + 32 * j, 0, 2, j % 4 * 2);
        put16(p + 80, c->d);
        put16(p + 82, c->m);
        break;
    default: /* IG_IQ4_XS */
        put16(p, c->d);
        put_scales_xs(p + 2, c);
        for (int j = 0; j < 8; j++) put_nibbles(p + 8 + 16 * j, q + 32 * j, 16);
        break;
    }
}

/* Blocks of 32: d, m, fifth bits, then bytes or nibbles. */
void ig_qcodes_from_block(enum ig_fmt fmt, struct ig_qcodes *c, const uint8_t *block)
{
    const struct ig_qfmt *f = &formats[fmt];
    const uint8_t *p = block;
    if (f->cols == IG_QCOLS) {
        from_k(fmt, c, block);
        return;
    }
    c->d = f->d_bytes == 2 ? get16(p) : p[0];
    p += f->d_bytes;
    if (f->min) c->m = get16(p);
    p += f->min ? 2 : 0;
    if (f->plane[0] == 8) {
        for (int j = 0; j < QB; j++) c->q[j] = p[j] ^ 0x80;
        return;
    }
    get_nibbles(c->q, p + (f->plane[1] ? 4 : 0), 16);
    if (f->plane[1]) get_fifth(c->q, p);
}

void ig_qcodes_to_block(enum ig_fmt fmt, uint8_t *block, const struct ig_qcodes *c)
{
    const struct ig_qfmt *f = &formats[fmt];
    uint8_t *p = block;
    if (f->cols == IG_QCOLS) {
        to_k(fmt, block, c);
        return;
    }
    p[0] = (uint8_t)(c->d & 255);
    if (f->d_bytes == 2) put16(p, c->d);
    p += f->d_bytes;
    if (f->min) put16(p, c->m);
    p += f->min ? 2 : 0;
    if (f->plane[0] == 8) {
        for (int j = 0; j < QB; j++) p[j] = c->q[j] ^ 0x80;
        return;
    }
    put_nibbles(p + (f->plane[1] ? 4 : 0), c->q, 16);
    if (f->plane[1]) put_fifth(p, c->q);
}

/* Every product is exact in f32, so only a minimum's addition rounds. */
void ig_qcodes_to_f32(const struct ig_qfmt *f, float *x, const struct ig_qcodes *c)
{
    const float d = ig_qscale(f, c->d), m = f->min ? ig_fp16_to_f32(c->m) : 0.0f;
    const int sub = ig_qsub_cols(f);
    for (int i = 0; i < f->cols / sub; i++, x += sub) {
        const float ds = f->n_sub ? d * (float)c->sc[i] : d;
        const float ms = f->min == IG_QMIN_SUB ? -(m * (float)c->mn[i]) : m;
        for (int j = 0; j < sub; j++) {
            const float v = ds * (float)ig_qvalue(f, c->q[i * sub + j]);
            x[j] = f->min ? v + ms : v;
        }
    }
}

void ig_qcodes_zero(const struct ig_qfmt *f, struct ig_qcodes *c)
{
    memset(c, 0, sizeof *c);
    memset(c->q, f->zero, f->cols);
}
