/* stamp.h -- where a decode step's time goes: the device's clock in every block of every kernel (-DSTAMPS).
 *
 * A block leaves when it started, when what it waits for was there, and when it ended; at positions that are
 * powers of two from 128 on the next step prints means over the layers.  Costs a store a block.
 */
#ifndef IG_STAMP_H
#define IG_STAMP_H

#if defined STAMPS && ROWS == 1 && defined __CUDACC_RTC__
#include "list.h"

#define X(name, threads, shared) ST_ig_##name,
enum { IG_STEP_KERNELS(X) N_ST, ST_BLOCKS = 1024 };
#undef X
__device__ uint4 ig_stamps[N_LAYER + 1][N_ST][ST_BLOCKS], ig_marks[N_LAYER + 1][N_ST][ST_BLOCKS];
__shared__ unsigned ig_waited;
__shared__ uint4 ig_marked;
#define stamp_mark(where) { if (threadIdx.x == 0) (&ig_marked.x)[where] = ig_clock() - ig_waited; }

IG_FN void stamp_wait(void)
{
    if (threadIdx.x == 0) {
        const uint4 none = { 0, 0, 0, 0 };
        ig_waited = ig_clock();
        ig_marked = none;
    }
}
IG_FN void stamp_end(int layer, int kernel, unsigned began)
{
    const unsigned block = blockIdx.y * gridDim.x + blockIdx.x;
    __syncthreads();
    if (threadIdx.x != 0 || block >= ST_BLOCKS) return;
    const uint4 v = { began, ig_waited, ig_clock(), 1 };
    ig_stamps[layer][kernel][block] = v;
    ig_marks[layer][kernel][block] = ig_marked;
}
/* One thread. */
IG_FN void stamp_print(int pos)
{
    static const char *const name[] = {
#define X(name, threads, shared) #name,
        IG_STEP_KERNELS(X)
#undef X
    };
    float sum[N_ST][6], mark[N_ST][5];
    for (int k = 0; k < N_ST; k++)
        for (int i = 0; i < 6; i++) sum[k][i] = 0.0f, mark[k][i < 5 ? i : 0] = 0.0f;
    unsigned last = 0;
    for (int layer = 0; layer < N_LAYER; layer++)
        for (int k = 0; k < N_ST; k++) {
            unsigned start0 = ~0u, start1 = 0, wait0 = ~0u, wait1 = 0, end0 = ~0u, end1 = 0, n = 0;
            for (int b = 0; b < ST_BLOCKS; b++) {
                const uint4 v = ig_stamps[layer][k][b];
                if (!v.w) continue;
                n++;
                if (layer > 0) {
                    const uint4 m = ig_marks[layer][k][b];
                    mark[k][0] += m.x, mark[k][1] += m.y, mark[k][2] += m.z, mark[k][3] += m.w, mark[k][4] += 1.0f;
                }
                start0 = min(start0, v.x), start1 = max(start1, v.x);
                wait0 = min(wait0, v.y), wait1 = max(wait1, v.y);
                end0 = min(end0, v.z), end1 = max(end1, v.z);
            }
            if (n == 0) continue;
            if (layer > 0 && last) {
                sum[k][0] += (float)(int)(end1 - last);
                sum[k][1] += (float)(int)(wait0 - last);
                sum[k][2] += (float)(int)(wait1 - wait0);
                sum[k][3] += (float)(int)(end1 - wait0);
                sum[k][4] += (float)(int)(wait0 - start0);
                sum[k][5] += (float)(int)(start1 - wait0);
            }
            last = end1;
        }
    printf("stamps at %d: kernel, ns: step from the last end; last end to first wait over; spread of waits; first wait to end; first start to wait; wait to last start\n", pos);
    for (int k = 0; k < N_ST; k++)
        printf("mark %d %s %.0f %.0f %.0f %.0f\n", pos, name[k], mark[k][0] / mark[k][4], mark[k][1] / mark[k][4],
               mark[k][2] / mark[k][4], mark[k][3] / mark[k][4]);
    for (int k = 0; k < N_ST; k++)
        if (sum[k][0] != 0.0f)
            printf("stamp %d %s %.0f %.0f %.0f %.0f %.0f %.0f\n", pos, name[k], sum[k][0] / (N_LAYER - 1), sum[k][1] / (N_LAYER - 1),
                   sum[k][2] / (N_LAYER - 1), sum[k][3] / (N_LAYER - 1), sum[k][4] / (N_LAYER - 1), sum[k][5] / (N_LAYER - 1));
}

#undef IG_KERNEL
#define IG_KERNEL(name, threads, blocks)                                                                  \
    IG_FN void name##_stamped(const struct ig_args &a);                                                   \
    extern "C" __global__ void __launch_bounds__(threads, blocks) name(const __grid_constant__ struct ig_args a) \
    {                                                                                                     \
        const unsigned began = ig_clock();                                                                \
        name##_stamped(a);                                                                                \
        stamp_end(a.layer, ST_##name, began);                                                             \
    }                                                                                                     \
    IG_FN void name##_stamped(const struct ig_args &a)
#else
#define stamp_wait()
#define stamp_mark(where)
#endif
#endif
