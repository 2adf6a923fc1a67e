/* stamp.h -- where a decode step's time goes, by the device's clock in every block (make STAMPS=1).
 *
 * A block leaves when it began, when what it waits for was there, when it ended, and moments between
 * (stamp_mark).  The step after positions 128, 256, 512 ... prints the means over all layers but the first.
 * Each block has a barrier and two stores more; the rest of a step is as without.
 */
#ifndef IG_STAMP_H
#define IG_STAMP_H

#if defined STAMPS && ROWS == 1 && defined __CUDACC_RTC__
#define IG_KV_LORA KV_LORA
#define IG_Q_LORA Q_LORA
#define IG_KV_Q8 KV_Q8
#define IG_N_LAYER_ENC N_LAYER_ENC
#include "list.h"

#define X(name, threads, shared) ST_ig_##name,
enum { IG_STEP_KERNELS(X) N_ST, ST_BLOCKS = 1024, ST_MARKS = 4 };
#undef X
struct stamp {
    unsigned began, waited, ended, mark[ST_MARKS]; /* marks since the wait */
};
__device__ struct stamp ig_stamps[N_LAYER][N_ST][ST_BLOCKS]; /* of the first blocks */
__shared__ struct stamp ig_stamp;

IG_FN void stamp_began(void)
{
    const struct stamp none = { ig_clock(), 0, 0, { 0 } };
    if (threadIdx.x == 0) ig_stamp = none;
}
IG_FN void stamp_waited(void)
{
    if (threadIdx.x == 0) ig_stamp.waited = ig_clock();
}
IG_FN void stamp_mark(int i)
{
    if (threadIdx.x == 0) ig_stamp.mark[i] = ig_clock() - ig_stamp.waited;
}
IG_FN void stamp_ended(int layer, int kernel)
{
    const unsigned block = blockIdx.y * gridDim.x + blockIdx.x;
    __syncthreads();
    if (threadIdx.x != 0 || block >= ST_BLOCKS) return;
    ig_stamp.ended = ig_clock();
    ig_stamps[layer][kernel][block] = ig_stamp;
}

/* All blocks of a kernel in a layer: first and last; mean marks. */
struct stamp_span {
    unsigned began, waited, last_waited, last_began, ended;
    float mark[ST_MARKS];
};
IG_FN int stamp_blocks(struct stamp_span *s, int layer, int kernel)
{
    const struct stamp_span none = { ~0u, ~0u, 0, 0, 0, { 0 } };
    int n = 0;
    *s = none;
    for (int b = 0; b < ST_BLOCKS; b++) {
        const struct stamp v = ig_stamps[layer][kernel][b];
        if (v.ended == 0) continue;
        n++;
        s->began = min(s->began, v.began);
        s->last_began = max(s->last_began, v.began);
        s->waited = min(s->waited, v.waited);
        s->last_waited = max(s->last_waited, v.waited);
        s->ended = max(s->ended, v.ended);
        for (int i = 0; i < ST_MARKS; i++) s->mark[i] += v.mark[i];
    }
    for (int i = 0; i < ST_MARKS && n > 0; i++) s->mark[i] /= n;
    return n;
}

/* One thread; a kernel's predecessor is the last that ended before it did. */
IG_FN void stamp_print(int pos)
{
    static const char *const name[] = {
#define X(name, threads, shared) #name,
        IG_STEP_KERNELS(X)
#undef X
    };
    float sum[N_ST][5 + ST_MARKS];
    int layers[N_ST];
    unsigned before = 0; /* when the layer before ended */
    for (int k = 0; k < N_ST; k++) {
        layers[k] = 0;
        for (int i = 0; i < 5 + ST_MARKS; i++) sum[k][i] = 0.0f;
    }
    for (int layer = 0; layer < N_LAYER; layer++) {
        unsigned ends[N_ST], end = before;
        for (int k = 0; k < N_ST; k++) {
            struct stamp_span s;
            ends[k] = stamp_blocks(&s, layer, k) > 0 ? s.ended : 0;
            end = max(end, ends[k]);
        }
        for (int k = 0; k < N_ST && layer > 0; k++) {
            struct stamp_span s;
            unsigned last = before;
            if (stamp_blocks(&s, layer, k) == 0) continue;
            for (int j = 0; j < N_ST; j++)
                if (ends[j] < s.ended) last = max(last, ends[j]);
            layers[k]++;
            sum[k][0] += (float)(int)(s.ended - last);
            sum[k][1] += (float)(int)(s.waited - last);
            sum[k][2] += (float)(int)(s.last_waited - s.waited);
            sum[k][3] += (float)(int)(s.waited - s.began);
            sum[k][4] += (float)(int)(s.last_began - s.waited);
            for (int i = 0; i < ST_MARKS; i++) sum[k][5 + i] += s.mark[i];
        }
        before = end;
    }
    printf("stamps: position, kernel; ns: since the last one ended; until the wait was over, in the first block, and how much "
           "later in the last; from the first block's start to there, from there to the last one's start; marks after the wait\n");
    for (int k = 0; k < N_ST; k++)
        if (layers[k] > 0)
            printf("stamps: %4d %-9s %6.0f  %5.0f %5.0f %6.0f %6.0f  %5.0f %5.0f %5.0f %5.0f\n", pos, name[k], sum[k][0] / layers[k],
                   sum[k][1] / layers[k], sum[k][2] / layers[k], sum[k][3] / layers[k], sum[k][4] / layers[k],
                   sum[k][5] / layers[k], sum[k][6] / layers[k], sum[k][7] / layers[k], sum[k][8] / layers[k]);
}
#define stamp_at(pos) \
    if (threadIdx.x == 0 && (pos) >= 128 && ((pos) & ((pos)-1)) == 0) stamp_print(pos)

#undef IG_KERNEL
#define IG_KERNEL(name, threads, blocks)                                                               \
    IG_FN void name##_stamped(const struct ig_args &a);                                                \
    extern "C" __global__ void __launch_bounds__(threads, blocks)                                      \
        name(const __grid_constant__ struct ig_args a)                                                 \
    {                                                                                                  \
        stamp_began();                                                                                 \
        name##_stamped(a);                                                                             \
        stamp_ended(a.layer, ST_##name);                                                               \
    }                                                                                                  \
    IG_FN void name##_stamped(const struct ig_args &a)
#else
#define stamp_waited()  ((void)0)
#define stamp_mark(i)   ((void)0)
#define stamp_at(pos)   ((void)0)
#endif
#endif
