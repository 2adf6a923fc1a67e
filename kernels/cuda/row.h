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

/* |x| as bits, which order as the values do; infinities and NaN are above all others. */
IG_FN unsigned size_bits(float x) { return ig_f32_bits(x) & 0x7fffffffu; }
IG_FN unsigned larger(unsigned a, unsigned b) { return a > b ? a : b; }

/* d of a block whose largest size is `most`, by struct ig_xq's rule, and 1 / d; 0: all q are 0. */
IG_FN float scale_of(unsigned most, float *d)
{
    *d = ig_bits_f32(most) / 127.0f;
    if (*d < 1.17549435e-38f) *d = 0.0f; /* FLT_MIN: 1 / d would overflow */
    if (most >= 0x7f800000u) *d = ig_bits_f32(0x7fc00000u);
    return *d > 0.0f ? 1.0f / *d : 0.0f;
}

/* int8 blocks of `n` values of which this thread has `quads` quads, `threads` threads apart:
 * 8 lanes make a struct ig_xq.  n is a multiple of 32.  Whole warps call this. */
IG_FN void quantize_quads(struct ig_xq *q, const ig_f4 *v, int quads, int n, int threads)
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
        const int i = quad_at(u, threads);
        if (i >= n) continue;
        struct ig_xq *b = q + i / QB;
        *(unsigned *)(void *)(b->q + i % QB) = word[u];
        if (i % QB == 0) {
            b->d = d[u];
            b->sum = sum[u];
        }
    }
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
    for (int i = 0; i < Q_DIM; i += 4 * threads) {
        const int at = i + quad_at(0, threads);
        const ig_f4 zero = { 0, 0, 0, 0 };
        const ig_f4 v = at < Q_DIM ? *(const ig_f4 *)(const void *)(x + at) : zero;
        quantize_quads(q + i / QB, &v, 1, Q_DIM - i, threads);
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

/* 1 / sqrt(mean of squares + eps) of xs[N_EMBD] in shared memory, the same in all threads. */
IG_FN float norm_scale(const float *xs)
{
    IG_SHARED float scale;
    if (threadIdx.x < 32) {
        const int lane = (int)threadIdx.x & 15;
        enum { BUNCH = 32, STEP = 16 * BUNCH, BUNCHES = N_EMBD / STEP };
        float sum = 0.0f, v[2][BUNCH]; /* one bunch on its way while the other is summed */
        if (BUNCHES > 0) {
            UNROLL for (int u = 0; u < BUNCH; u++) v[0][u] = xs[u * 16 + lane];
        }
        UNROLL for (int n = 0; n < BUNCHES; n++)
        {
            if (n + 1 < BUNCHES) {
                UNROLL for (int u = 0; u < BUNCH; u++)
                    v[(n + 1) % 2][u] = xs[(n + 1) * STEP + u * 16 + lane];
            }
            UNROLL for (int u = 0; u < BUNCH; u++) sum = fmaf(v[n % 2][u], v[n % 2][u], sum);
        }
        int i = BUNCHES * STEP;
        for (; i < N_EMBD; i += 16)
            if (i + lane < N_EMBD) sum = fmaf(xs[i + lane], xs[i + lane], sum);
        sum = tree_of_lanes(sum);
        if (threadIdx.x == 0) scale = 1.0f / sqrtf(sum / (float)N_EMBD + NORM_EPS);
    }
    __syncthreads();
    return scale;
}

/* v, this thread's quads of a row, becomes its norm with weights w; xs[N_EMBD] is scratch. */
IG_FN void norm_quads(ig_f4 *v, const ig_f4 *w, float *xs, int threads)
{
    store_quads(xs, v, threads);
    __syncthreads();
    const float scale = norm_scale(xs);
    UNROLL for (int u = 0; u < QUADS(N_EMBD, threads); u++)
    {
        v[u].x = v[u].x * scale * w[u].x;
        v[u].y = v[u].y * scale * w[u].y;
        v[u].z = v[u].z * scale * w[u].z;
        v[u].w = v[u].w * scale * w[u].w;
    }
}

/* The chosen experts' logits w[N_EXPERT_USED] in shared memory become their softmax: one warp. */
IG_FN void softmax_chosen(float *w)
{
    const int lane = (int)threadIdx.x & 31, first = lane & 15;
    float most = w[0], sum = 0.0f; /* rank 0 is the largest */
    for (int i = first; i < N_EXPERT_USED; i += 16) sum += ig_expf(w[i] - most);
    const float inv = 1.0f / tree_of_lanes(sum);
    __syncwarp();
    for (int i = lane; i < N_EXPERT_USED; i += 32) w[i] = ig_expf(w[i] - most) * inv;
    __syncwarp();
}

#endif
