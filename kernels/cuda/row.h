/* row.h -- one activation row inside a block: norm, quantisation, softmax.
 *
 * `threads` is the block's size, a multiple of 32; all threads call these.  A
 * thread has its part of a row in registers, four neighbours at a time ("quads"),
 * so that the latencies of all its quads overlap.
 */
#ifndef IG_ROW_H
#define IG_ROW_H

#include "../math.h"
#include "shape.h"
#include "prims.h"

_Static_assert(N_EMBD % 4 == 0, "rows are quads");

#define QUADS(n, threads) DIV_UP(n, 4 * (threads))
enum { ROW_QUADS = QUADS(N_EMBD, PANEL_THREADS) }; /* enough for any block of 128 threads or more */

/* 32 lanes: the tree of ig_tree16 over the 16 values of each half warp, in every lane. */
IG_FN float tree_of_lanes(float v)
{
    v += ig_swap(v, 8);
    v += ig_swap(v, 4);
    v += ig_swap(v, 2);
    return v + ig_swap(v, 1);
}

/* Where block b of a row's int8 blocks is.  In a batch they lie part by part, as mma.h sums them. */
IG_FN int xq_place(int b, int blocks)
{
    if (ROWS == 1 || blocks % IG_BLOCK_PARTS != 0) return b;
    const int part = b % IG_BLOCK_PARTS, leaf = (part & 1) << 2 | (part & 2) | part >> 2;
    return leaf * (blocks / IG_BLOCK_PARTS) + b / IG_BLOCK_PARTS;
}

/* Where quad u of this thread starts. */
IG_FN int quad_at(int u, int threads) { return 4 * ((int)threadIdx.x + u * threads); }

/* This thread's quads of src[N_EMBD], zeros beyond it. */
IG_FN void load_quads(ig_f4 *v, const float *src, int threads)
{
    const ig_f4 zero = { 0, 0, 0, 0 };
    UNROLL for (int u = 0; u < QUADS(N_EMBD, threads); u++)
    {
        const int i = quad_at(u, threads);
        v[u] = i < N_EMBD ? *(const ig_f4 *)(const void *)(src + i) : zero;
    }
}

IG_FN void store_quads(float *dst, const ig_f4 *v, int threads)
{
    UNROLL for (int u = 0; u < QUADS(N_EMBD, threads); u++)
    {
        const int i = quad_at(u, threads);
        if (i < N_EMBD) *(ig_f4 *)(void *)(dst + i) = v[u];
    }
}

/* The same in BF16. */
IG_FN void round_quads(unsigned short *dst, const ig_f4 *v, int threads)
{
    UNROLL for (int u = 0; u < QUADS(N_EMBD, threads); u++)
    {
        const int i = quad_at(u, threads);
        const ig_u2 w = { ig_to_bf16(v[u].x, v[u].y), ig_to_bf16(v[u].z, v[u].w) };
        if (i < N_EMBD) *(ig_u2 *)(void *)(dst + i) = w;
    }
}

/* |x| as bits, which order as the values do; infinities and NaN are above all others. */
IG_FN unsigned size_bits(float x) { return ig_f32_bits(x) & 0x7fffffffu; }
IG_FN unsigned larger(unsigned a, unsigned b) { return a > b ? a : b; }

/* d of a block whose largest size is `most`, by struct ig_xq's rule, and 1 / d; 0: all q are 0.  Without
 * branches, so that the latencies of several overlap. */
IG_FN float scale_of(unsigned most, float *d)
{
    const float y = ig_over_127(ig_bits_f32(most));
    const int some = y >= 1.17549435e-38f && most < 0x7f800000u; /* FLT_MIN: 1 / d would overflow */
    *d = most >= 0x7f800000u ? ig_bits_f32(0x7fc00000u) : some ? y : 0.0f;
    const float inv = ig_inverse(some ? y : 1.0f);
    return some ? inv : 0.0f;
}

/* int8 blocks of a row of `n` values, of which this thread has `quads` quads from value `first` on,
 * `threads` threads apart: 8 lanes make a struct ig_xq.  n is a multiple of 32.  Whole warps call this. */
IG_FN void quantize_from(struct ig_xq *q, int first, const ig_f4 *v, int quads, int n, int threads)
{
    enum { MOST = 16 };
    unsigned most[MOST], word[MOST];
    float inv[MOST], d[MOST];
    int sum[MOST];
    UNROLL for (int u = 0; u < quads; u++)
        most[u] = larger(larger(size_bits(v[u].x), size_bits(v[u].y)),
                         larger(size_bits(v[u].z), size_bits(v[u].w)));
    UNROLL for (int mask = 1; mask < 8; mask *= 2)
    {
        UNROLL for (int u = 0; u < quads; u++)
            most[u] = larger(most[u], (unsigned)ig_swap_int((int)most[u], mask));
    }
    UNROLL for (int u = 0; u < quads; u++) inv[u] = scale_of(most[u], &d[u]);
    UNROLL for (int u = 0; u < quads; u++)
    {
        const float x[4] = { v[u].x, v[u].y, v[u].z, v[u].w };
        word[u] = 0;
        sum[u] = 0;
        UNROLL for (int j = 0; j < 4; j++)
        {
            const float product = x[j] * inv[u];
            const unsigned low = inv[u] > 0.0f ? ig_f32_bits(product + IG_ROUND) & 255u : 0;
            word[u] |= low << 8 * j;
            sum[u] += (int)(signed char)low;
        }
    }
    UNROLL for (int mask = 1; mask < 8; mask *= 2)
    {
        UNROLL for (int u = 0; u < quads; u++) sum[u] += ig_swap_int(sum[u], mask);
    }
    UNROLL for (int u = 0; u < quads; u++)
    {
        const int i = first + quad_at(u, threads);
        if (i >= n) continue;
        struct ig_xq *b = q + xq_place(i / QB, n / QB);
        *(unsigned *)(void *)(b->q + i % QB) = word[u];
        if (i % QB == 0) {
            b->d = d[u];
            b->sum = sum[u];
        }
    }
}

IG_FN void quantize_quads(struct ig_xq *q, const ig_f4 *v, int quads, int n, int threads)
{
    quantize_from(q, 0, v, quads, n, threads);
}

/* Activations of one row into shared memory: all loads at once, where the sums would wait for each. */
IG_FN void stage_blocks(struct ig_xq *dst, const struct ig_xq *src, int blocks, int threads)
{
    enum { WORDS = sizeof(struct ig_xq) / sizeof(ig_f2) };
    ig_f2 *to = (ig_f2 *)(void *)dst;
    const ig_f2 *from = (const ig_f2 *)(const void *)src;
    UNROLL for (int i = 0; i < DIV_UP(blocks * WORDS, threads); i++)
    {
        const int at = (int)threadIdx.x + i * threads;
        if (at < blocks * WORDS) to[at] = from[at];
    }
}

/* Attention's output of one row as int8 blocks. */
IG_FN void quantize_output(struct ig_xq *q, const float *x, int threads)
{
    for (int i = 0; i < O_DIM; i += 4 * threads) {
        const int at = i + quad_at(0, threads);
        const ig_f4 zero = { 0, 0, 0, 0 };
        const ig_f4 v = at < O_DIM ? *(const ig_f4 *)(const void *)(x + at) : zero;
        quantize_from(q, i, &v, 1, O_DIM, threads);
    }
}

/* A block of 32, one value a lane of a warp. */
IG_FN void quantize_warp(struct ig_xq *q, float v)
{
    const int lane = (int)threadIdx.x & 31;
    unsigned most = size_bits(v);
    float d;
    UNROLL for (int mask = 1; mask < 32; mask *= 2)
        most = larger(most, (unsigned)ig_swap_int((int)most, mask));
    const float inv = scale_of(most, &d), product = v * inv;
    const signed char low = inv > 0.0f ? (signed char)(ig_f32_bits(product + IG_ROUND) & 255u) : 0;
    int sum = low;
    UNROLL for (int mask = 1; mask < 32; mask *= 2) sum += ig_swap_int(sum, mask);
    q->q[lane] = low;
    if (lane == 0) {
        q->d = d;
        q->sum = sum;
    }
}

/* Reductions by rule 4 of kernels.h, in one warp: sum of x, x^2, x * w, (x - mean)^2. */
enum { SUM_X, SUM_SQUARES, SUM_DOT, SUM_DEVIATIONS };
IG_FN float next_sum(int kind, float sum, float x, float w, float mean)
{
    const float d = x - mean;
    return kind == SUM_X         ? sum + x
           : kind == SUM_SQUARES ? fmaf(x, x, sum)
           : kind == SUM_DOT     ? fmaf(x, w, sum)
                                 : fmaf(d, d, sum);
}

/* x[n], and w[n] for SUM_DOT; the same result in every lane. */
IG_FN float warp_sum(int kind, const float *x, const float *w, float mean, int n)
{
    enum { BUNCH = 32, STEP = 16 * BUNCH };
    const int lane = (int)threadIdx.x & 15, bunches = n / STEP;
    float sum = 0.0f, v[BUNCH], u[BUNCH], next_v[BUNCH], next_u[BUNCH]; /* one on its way while the other is summed */
    UNROLL for (int i = 0; i < BUNCH && bunches > 0; i++)
    {
        next_v[i] = x[i * 16 + lane];
        next_u[i] = kind == SUM_DOT ? w[i * 16 + lane] : 0.0f;
    }
    UNROLL_BY(1) for (int b = 1; b <= bunches; b++) /* not unrolled: code comes from memory, too */
    {
        const int at = (b < bunches ? b : 0) * STEP + lane;
        UNROLL for (int i = 0; i < BUNCH; i++) v[i] = next_v[i], u[i] = next_u[i];
        UNROLL for (int i = 0; i < BUNCH; i++)
        {
            next_v[i] = x[at + i * 16];
            next_u[i] = kind == SUM_DOT ? w[at + i * 16] : 0.0f;
        }
        UNROLL for (int i = 0; i < BUNCH; i++) sum = next_sum(kind, sum, v[i], u[i], mean);
    }
    const int rest = n % STEP / 16, done = bunches * STEP + rest * 16;
    UNROLL for (int i = 0; i < rest; i++)
    {
        v[i] = x[bunches * STEP + i * 16 + lane];
        u[i] = kind == SUM_DOT ? w[bunches * STEP + i * 16 + lane] : 0.0f;
    }
    UNROLL for (int i = 0; i < rest; i++) sum = next_sum(kind, sum, v[i], u[i], mean);
    if (done + lane < n) sum = next_sum(kind, sum, x[done + lane], kind == SUM_DOT ? w[done + lane] : 0.0f, mean);
    return tree_of_lanes(sum);
}

/* 1 / sqrt(mean of squares + eps) of x[n]: one warp. */
IG_FN float rms_scale_eps(const float *x, int n, float eps)
{
    return 1.0f / sqrtf(warp_sum(SUM_SQUARES, x, NULL, 0.0f, n) / (float)n + eps);
}
IG_FN float rms_scale(const float *x, int n) { return rms_scale_eps(x, n, NORM_EPS); }

/* Mean (0 without NORM_LAYER) and scale of xs[N_EMBD] in shared memory, the same in all threads. */
IG_FN float norm_scale(const float *xs, float *mean)
{
    IG_SHARED float scale, middle;
    if (threadIdx.x < 32) {
        const float m = NORM_LAYER ? warp_sum(SUM_X, xs, NULL, 0.0f, N_EMBD) / (float)N_EMBD : 0.0f;
        const float sum = warp_sum(NORM_LAYER ? SUM_DEVIATIONS : SUM_SQUARES, xs, NULL, m, N_EMBD);
        if (threadIdx.x == 0) {
            scale = 1.0f / sqrtf(sum / (float)N_EMBD + NORM_EPS);
            middle = m;
        }
    }
    __syncthreads();
    *mean = middle;
    return scale;
}

IG_FN float normed_value(float x, float mean, float scale, float w, const float *bias, int i)
{
    if (!NORM_LAYER) return x * scale * w;
    return bias ? fmaf((x - mean) * scale, w, bias[i]) : (x - mean) * scale * w;
}

/* The same of v, all threads' quads, which come into xs[N_EMBD]. */
IG_FN float norm_scale_of(const ig_f4 *v, float *xs, float *mean, int threads)
{
    store_quads(xs, v, threads);
    __syncthreads();
    stamp_mark(0);
    const float scale = norm_scale(xs, mean);
    stamp_mark(1);
    return scale;
}

IG_FN void apply_norm(ig_f4 *v, const ig_f4 *w, const float *bias, float mean, float scale, int threads)
{
    UNROLL for (int u = 0; u < QUADS(N_EMBD, threads); u++)
    {
        const int i = quad_at(u, threads) < N_EMBD ? quad_at(u, threads) : 0;
        v[u].x = normed_value(v[u].x, mean, scale, w[u].x, bias, i);
        v[u].y = normed_value(v[u].y, mean, scale, w[u].y, bias, i + 1);
        v[u].z = normed_value(v[u].z, mean, scale, w[u].z, bias, i + 2);
        v[u].w = normed_value(v[u].w, mean, scale, w[u].w, bias, i + 3);
    }
}

/* v, this thread's quads of a row, becomes its norm with weights w and `bias`, or NULL;
 * xs[N_EMBD] is scratch. */
IG_FN void norm_quads(ig_f4 *v, const ig_f4 *w, const float *bias, float *xs, int threads)
{
    float mean;
    const float scale = norm_scale_of(v, xs, &mean, threads);
    apply_norm(v, w, bias, mean, scale, threads);
}

#endif
