/* kernels.h -- every kernel the engine may call, and the bits it must produce.
 *
 * A kernel knows no model and no machine: sizes are arguments.  Each operation
 * has a scalar definition in ref/ and variants in cpu/ (one file per ISA).
 * All variants of one operation give THE SAME BITS: the order of every
 * floating-point operation is part of the definition, so the tests compare
 * with ==, not with a tolerance.  One exception: BF16 panels of ig_kernels_amx have a
 * definition of their own (cpu/amx_bf16.inc.h), the same bits for every n.
 *
 * The rules of order (docs/ARCHITECTURE.md, "Placement invariance"):
 *   1. a * b + c is always one fused multiply-add (fmaf).
 *   2. A matrix row is summed in partial sums, each in ascending column order.
 *      Block formats (32 columns a block): part = block index % IG_BLOCK_PARTS.
 *      Float formats: part = column / 2 % IG_FLOAT_PARTS.  Parts are then added
 *      as a tree: i + (i + half), and so on down to one (ig_tree8, ig_tree16).
 *   3. A block's integer sum is exact; it enters its part as
 *      acc = fmaf(d_w * d_x, (float)s, acc), s = sum(v * x), v = book[q] or q - zero.
 *      Blocks are 32 columns in every block format (256 columns are eight); one
 *      of 256 columns has sub-scales of 16 or 32 columns, and then
 *      s = sum over them of sc * sum(v * x).  Where there are minima, follows
 *      acc = fmaf(-(m * d_x), (float)(sum of mn * sum(x)), acc) for sub-scaled
 *      ones, acc = fmaf(m * d_x, (float)sum(x), acc) for the others.
 *   4. A vector is reduced in 16 lanes (index % 16), each ascending, and the
 *      lanes are added as a tree: i + (i + 8), then 4, 2, 1.
 *   5. Infinities and NaN: IEEE arithmetic decides, and a NaN that goes in comes out.
 *      Two NaN count as the same bits.  The largest of several is found with
 *      "x > most ? x : most" from a number on, which passes over a NaN: the exponential of
 *      the difference is NaN then, and with it the sum.  One value is limited with
 *      "x > limit ? limit : x", which keeps a NaN; ig_expf(NaN) is NaN.  What cannot be
 *      put into integers has a rule of its own: struct ig_xq.
 */
#ifndef IG_KERNELS_H
#define IG_KERNELS_H

#include <stddef.h>
#include <stdint.h>

enum { IG_PANEL_ROWS = 16, IG_QBLOCK = 32, IG_BLOCK_PARTS = 8, IG_FLOAT_PARTS = 16 };
enum { IG_LANES = 16, IG_KV_BLOCK = 64 };

/* Formats of weights (and of the KV cache: F32, F16 and Q8_0 only). */
enum ig_fmt {
    IG_F32,
    IG_F16,
    IG_BF16,
    IG_Q8_0, /* from here on: block formats, kernels/quant.h */
    IG_Q4_0,
    IG_Q4_K,
    IG_Q6_K,
    IG_Q5_K,
    IG_MXFP4,
    IG_Q4_1,
    IG_Q5_0,
    IG_Q5_1,
    IG_IQ4_NL,
    IG_Q3_K,
    IG_Q2_K,
    IG_IQ4_XS,
    IG_N_FMT
};

/* 32 activations as int8: x ~ q * d.  sum = sum of q, for the weights' zero point.
 * d = max|x| / 127, or 0 when that is below FLT_MIN (1 / d must be finite);
 * q = round to nearest even of x * (1 / d), all 0 when d is 0.
 * If any of the 32 is infinite or NaN, d is NaN and q and sum are 0: products with it are NaN. */
struct ig_xq {
    int8_t q[IG_QBLOCK];
    float d;
    int32_t sum;
};

/* Weights are stored as panels: 16 rows interleaved, see kernels/panel.h.
 * y[t][r] = row r of the panel times activation row t, r < 16, t < n.
 * x[t]: cols floats for float formats, cols/32 struct ig_xq for block formats.
 * The result for one t never depends on n or on the other rows. */
typedef void ig_panel_fn(float (*y)[IG_PANEL_ROWS], const void *panel, const void *const *x,
                         int cols, int n);

/* Running softmax state of g query heads that share one KV head. */
struct ig_attn {
    float *m; /* [g]     largest score so far, -INFINITY at first */
    float *l; /* [g]     sum of exp(score - m), 0 at first */
    float *o; /* [g][hd] sum of exp(score - m) * V, 0 at first */
};

/* A KV block holds 64 positions of one KV head: K, then V of the same size, as much as IG_KV_BLOCK
 * standard rows of hd.  F32, F16: K [hd][64] (transposed inside the block), V [64][hd].
 * Q8_0 (hd a multiple of 32): K is four panels of 16 positions (kernels/panel.h), V is
 * struct ig_kv_values [hd / 32], in which products of bytes add over positions.  An element is d *
 * q, d as f16: d = max|x| of the 32, over 127, rounded to f16; q = x * (1 / d), rounded to nearest
 * even and kept in [-127, 127]; all 0 when d is 0.  So an element is within max|x| / 253 + 4e-6 of
 * x.  If one of the 32 is infinite or NaN, or d is beyond f16, d is NaN and the codes are 0.  d is
 * never negative or infinite. */
struct ig_kv_values { /* 32 dimensions of 64 positions: element d of position j */
    uint16_t d[IG_KV_BLOCK];
    int8_t q[IG_KV_BLOCK / 4][IG_QBLOCK][4]; /* [j / 4][d][j % 4] */
};
enum { IG_KV_TILE = 544 }; /* bytes of a Q8_0 panel's 32 columns */

/* Fold positions [lo, hi) of one KV block into the state, 0 <= lo < hi <= 64.
 * q: [g][hd] floats, or for Q8_0 [g][hd / 32] struct ig_xq, as `quantize` makes them.
 * score = raw * scale, or with a bias fmaf(raw, scale, bias[h * step + j]): NULL, or 64 floats a
 * head; raw = sum over d ascending, one fmaf chain; for Q8_0 what the panel gives (rules 2 and 3);
 * m' = max(m, scores) + 0; c = ig_expf(m - m'); p = ig_expf(score - m');
 * l = fmaf(l, c, sum16(p)), sum16 by rule 4 with position j in lane j % 16;
 * o = o * c, then o = fmaf(p_j, v_j, o) for j ascending.  For Q8_0 the products of 64 positions are
 * an exact sum of integers, in any order: V's scale d_j goes into a weight of 15 bits,
 *   P = ig_expf(the largest score of the block, found as m' is, - m'), 0 below 2^-80, NaN if a p_j
 *   is; u = P > 0 ? IG_KV_WEIGHT / P : 0; D = the largest d_j of 32 dimensions, from 0 on, NaN if
 *   one is not finite (then o is NaN); r = D > 0 ? 1 / D : 0;
 *   w_j = (p_j * u) times (d_j * r), rounded once, to the nearest integer or the even one;
 *   o = fmaf((float)(sum of w_j q_j), P * (1 / IG_KV_WEIGHT) * D, o * c).
 * So a weight is within 2^-16 of the largest one of its block.
 * Rows of K and biases outside [lo, hi) may be read, never used.  `next`: the K, with its V behind
 * it, that will be read in the next call, to be fetched meanwhile: k, or any address that is mapped
 * or not. */
typedef void ig_attn_fn(struct ig_attn *st, const void *q, const void *k, const void *v,
                        const void *next, int hd, int g, int lo, int hi, float scale,
                        const float *bias, int step);

/* One instruction set's kernels.  The generated tables name one of these. */
struct ig_kernels {
    const char *name; /* "ref", "avx2", "avx512", "neon", "i8mm" */
    ig_panel_fn *panel[IG_N_FMT];
    ig_attn_fn *attn[IG_N_FMT]; /* by KV format; NULL where a format cannot hold KV */
    /* y = x * (1 / sqrt(sum(x^2) / n + eps)) * w, left to right; sum by rule 4 */
    void (*rmsnorm)(float *y, const float *x, const float *w, int n, float eps);
    /* n is a multiple of 32 */
    void (*quantize)(struct ig_xq *y, const float *x, int n);
    /* h = silu(gate) * up; silu(z) = z / (1 + ig_expf(-z)) */
    void (*swiglu)(float *h, const float *gate, const float *up, int n);
    /* x = softmax(x) over n: max, ig_expf, sum by rule 4, then x * (1 / sum) */
    void (*softmax)(float *x, int n);
    /* y = fmaf(a, x, y), elementwise */
    void (*axpy)(float *y, float a, const float *x, int n);
    /* Rotate pairs (i, i + hd/2) by cs[i] = (cos, sin):
     * x0' = fmaf(x0, cos, -(x1 * sin)), x1' = fmaf(x1, cos, x0 * sin) */
    void (*rope)(float *x, const float *cs, int hd);
    /* Put one position's k[hd] and v[hd] into a KV block (above) at place `pos` of 64. */
    void (*store_kv[IG_N_FMT])(void *block, const float *k, const float *v, int hd, int pos);
    /* a = a merged with b (later positions): m' = max, ca = ig_expf(a.m - m'), cb likewise;
     * l = fmaf(b.l, cb, a.l * ca), o the same, elementwise */
    void (*attn_merge)(struct ig_attn *a, const struct ig_attn *b, int hd, int g);
    /* One more score without a value for each head: m' = max(m, sink), c = ig_expf(m - m');
     * l = fmaf(l, c, ig_expf(sink - m')), o = o * c */
    void (*attn_sink)(struct ig_attn *a, const float *sink, int hd, int g);
    /* y = (x - mean) * (1 / sqrt(var + eps)) * w + b, left to right, the last two one fmaf; b may
     * be NULL; mean = sum(x) / n, var = sum((x - mean)^2) / n, sums by rule 4 */
    void (*layernorm)(float *y, const float *x, const float *w, const float *b, int n, float eps);
    /* y = y + x */
    void (*add)(float *y, const float *x, int n);
    /* x into [-limit, limit] */
    void (*clamp)(float *x, float limit, int n);
    /* x = 1 / (1 + ig_expf(-x)) */
    void (*sigmoid)(float *x, int n);
    /* sum of x * y by rule 4 */
    float (*dot)(const float *x, const float *y, int n);
    /* g = min(gate, limit), u = up into [-limit, limit];
     * h = (u + 1) * (g / (1 + ig_expf(-1.702 * g))) */
    void (*swiglu_oai)(float *h, const float *gate, const float *up, float limit, int n);
    /* y = x < 0 ? 0 : x */
    void (*relu)(float *y, const float *x, int n);
};

extern const struct ig_kernels ig_kernels_ref;
extern const struct ig_kernels ig_kernels_avx2, ig_kernels_avx512, ig_kernels_amx; /* x86-64 */
extern const struct ig_kernels ig_kernels_neon, ig_kernels_i8mm; /* AArch64 */

/* What the running CPU offers, as a mask; needs of each variant.  Ask once: in a virtual
 * machine CPUID costs tens of microseconds. */
enum {
    IG_CPU_AVX2 = 1,
    IG_CPU_AVX512 = 2, /* F BW DQ VL VNNI */
    IG_CPU_AMX = 4,    /* tiles of bf16, AVX512_BF16, and the system lets us use them */
    IG_CPU_NEON = 256, /* with dot products */
    IG_CPU_I8MM = 512,
    IG_CPU_KNOWN = IG_CPU_AVX2 | IG_CPU_AVX512 | IG_CPU_AMX | IG_CPU_NEON | IG_CPU_I8MM
};
unsigned ig_cpu_features(void);

#endif
