/* kernels.cu -- what the matrix units give: alone, and as fast.h and flash.h use them. */
#include "../../kernels/cuda/args.h"
enum { PR = IG_PANEL_ROWS };
#define LEAST(a, b) ((a) < (b) ? (a) : (b))
#include "../../kernels/cuda/prims.h"
#include "../../kernels/cuda/fast.h"

struct bench {
    const unsigned char *w;
    const unsigned short *x;
    float *y;
    int rows, cols, tokens, rounds;
};

extern "C" __global__ void __launch_bounds__(128, 2) peak_mma(struct bench b)
{
    float acc[16][4];
    unsigned a[4], x[2];
    UNROLL for (int i = 0; i < 64; i++) acc[i / 4][i % 4] = 0.0f;
    for (int i = 0; i < 4; i++) a[i] = ((const unsigned *)b.w)[threadIdx.x * 4 + i];
    for (int i = 0; i < 2; i++) x[i] = ((const unsigned *)b.x)[threadIdx.x * 2 + i];
    for (int k = 0; k < b.rounds; k++) {
#pragma unroll
        for (int n = 0; n < 16; n++) ig_mma_bf16(acc[n], a, x);
    }
    float s = 0;
    UNROLL for (int i = 0; i < 64; i++) s += acc[i / 4][i % 4];
    b.y[blockIdx.x * 128 + threadIdx.x] = s;
}

#if IG_HAS_WGMMA
extern "C" __global__ void __launch_bounds__(256, 1) peak_wgmma(struct bench b)
{
    extern __shared__ __align__(1024) unsigned char shared[];
    unsigned char *const lines = fast_lines(shared);
    float acc[2][16][4];
    unsigned a[4];
    UNROLL for (int i = 0; i < 128; i++) acc[i / 64][i / 4 % 16][i % 4] = 0.0f;
    for (int i = 0; i < 4; i++) a[i] = ((const unsigned *)b.w)[threadIdx.x * 4 + i];
    for (int i = threadIdx.x; i < 128 * 32; i += 256) ((unsigned *)lines)[i] = ((const unsigned *)b.x)[i];
    unit_see_shared();
    __syncthreads();
    for (int k = 0; k < b.rounds; k++) {
        unit_begin();
        UNROLL for (int m = 0; m < 8; m++) unit_rows_bf16(acc[m % 2], a, lines, m / 2, 16);
        unit_mark();
        unit_done_but(0);
    }
    float s = 0;
    UNROLL for (int i = 0; i < 128; i++) s += acc[i / 64][i / 4 % 16][i % 4];
    b.y[blockIdx.x * 256 + threadIdx.x] = s;
}
#endif

/* y[token][row] = w times x, dense. */
extern "C" __global__ void __launch_bounds__(IG_FAST_THREADS, 256 / IG_FAST_THREADS) gemm(struct bench b)
{
    extern __shared__ __align__(1024) unsigned char shared[];
    __shared__ unsigned row[FAST_TOKENS];
    unsigned char *const lines = fast_lines(shared);
    const int first = blockIdx.y * FAST_TOKENS, rows = min(FAST_TOKENS, b.tokens - first);
    const int p = blockIdx.x * FAST_PANELS + fast_panel();
    for (int t = threadIdx.x; t < rows; t += IG_FAST_THREADS) row[t] = (unsigned)(first + t) * (unsigned)(b.cols / 32);
    __syncthreads();
    const struct fast g = { b.w + (size_t)p * PR * 2 * b.cols + fast_rows() * 4, b.x, row, b.cols, rows };
    fast_tile y;
    fast_sum(y, &g, lines);
    UNROLL for (int m = 0; m < 2; m++)
        UNROLL for (int n = 0; n < FAST_TOKENS / 8; n++)
            UNROLL for (int i = 0; i < 4; i++) {
                const int t = fast_token(n, i);
                if (t < rows) b.y[(size_t)(first + t) * b.rows + p * PR + fast_rows() + 2 * m + i / 2] = y[m][n][i];
            }
}
