/* row.h -- one activation row inside a block: norm, quantisation, softmax.
 *
 * `threads` is the block's size, a multiple of 32; all threads call these.
 */
#ifndef IG_ROW_H
#define IG_ROW_H

#include "../math.h"
#include "shape.h"
#include "prims.h"

/* 32 lanes: the tree of ig_tree16 over the 16 values of each half warp, in every lane. */
IG_FN float tree_of_lanes(float v)
{
    v += ig_swap(v, 8);
    v += ig_swap(v, 4);
    v += ig_swap(v, 2);
    return v + ig_swap(v, 1);
}

IG_FN void copy_row(float *dst, const float *src, int n, int threads)
{
    UNROLL_16 for (int i = (int)threadIdx.x; i < n; i += threads) dst[i] = src[i];
}

/* 1 / sqrt(mean of squares + eps) of xs[N_EMBD] in shared memory, the same in all threads. */
IG_FN float norm_scale(const float *xs)
{
    IG_SHARED float scale;
    if (threadIdx.x < 32) {
        const int lane = (int)threadIdx.x & 15;
        float sum = 0.0f;
        int i = 0;
        for (; i + 256 <= N_EMBD; i += 256) {
            UNROLL for (int u = 0; u < 16; u++)
            {
                const float v = xs[i + u * 16 + lane];
                sum = fmaf(v, v, sum);
            }
        }
        for (; i < N_EMBD; i += 16)
            if (i + lane < N_EMBD) sum = fmaf(xs[i + lane], xs[i + lane], sum);
        sum = tree_of_lanes(sum);
        if (threadIdx.x == 0) scale = 1.0f / sqrtf(sum / (float)N_EMBD + NORM_EPS);
    }
    __syncthreads();
    return scale;
}

/* Four neighbours of a block of 32: 8 lanes make a struct ig_xq.  Whole warps call this. */
IG_FN void quantize4(struct ig_xq *q, int i, const float *v, int in)
{
    float most = 0.0f;
    UNROLL for (int j = 0; j < 4; j++) most = fabsf(v[j]) > most ? fabsf(v[j]) : most;
    UNROLL for (int mask = 1; mask < 8; mask *= 2)
    {
        const float other = ig_swap(most, mask);
        most = other > most ? other : most;
    }
    float d = most / 127.0f;
    if (d < 1.17549435e-38f) d = 0.0f; /* FLT_MIN: 1 / d would overflow */
    const float inv = d > 0.0f ? 1.0f / d : 0.0f;
    unsigned word = 0;
    int sum = 0;
    UNROLL for (int j = 0; j < 4; j++)
    {
        const float product = v[j] * inv;
        const unsigned low = ig_f32_bits(product + IG_ROUND) & 255u;
        word |= low << 8 * j;
        sum += (int)(signed char)low;
    }
    UNROLL for (int mask = 1; mask < 8; mask *= 2) sum += ig_swap_int(sum, mask);
    if (!in) return;
    struct ig_xq *b = q + i / QB;
    *(unsigned *)(void *)(b->q + i % QB) = word;
    if (i % QB == 0) {
        b->d = d;
        b->sum = sum;
    }
}

/* q = x[n] as int8 blocks; n is a multiple of 32. */
IG_FN void quantize_row(struct ig_xq *q, const float *x, int n, int threads)
{
    for (int i = 4 * (int)threadIdx.x; i < UP_TO(n, 128); i += 4 * threads) {
        float v[4] = { 0, 0, 0, 0 };
        if (i < n) {
            UNROLL for (int j = 0; j < 4; j++) v[j] = x[i + j];
        }
        quantize4(q, i, v, i < n);
    }
}

/* xs[N_EMBD] becomes its norm; qs (unless NULL) the same as int8 blocks. */
IG_FN void norm_row(float *xs, struct ig_xq *qs, const float *w, int threads)
{
    enum { AHEAD = 16 }; /* norm weights a thread asks for before it needs them */
    float ahead[AHEAD];
    const int first = (int)threadIdx.x;
    UNROLL for (int u = 0; u < AHEAD; u++)
        ahead[u] = first + u * threads < N_EMBD ? w[first + u * threads] : 0.0f;
    const float scale = norm_scale(xs);
    UNROLL for (int u = 0; u < AHEAD; u++)
        if (first + u * threads < N_EMBD)
            xs[first + u * threads] = xs[first + u * threads] * scale * ahead[u];
    for (int i = first + AHEAD * threads; i < N_EMBD; i += threads) xs[i] = xs[i] * scale * w[i];
    __syncthreads();
    if (qs) {
        quantize_row(qs, xs, N_EMBD, threads);
        __syncthreads();
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
