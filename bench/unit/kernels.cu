/* kernels.cu -- what the matrix units give: a loop of their instruction alone, and fast.h on plain matrices. */
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

/* y[token][row] = w times x, dense; `rounds` tiles a block. */
extern "C" __global__ void __launch_bounds__(IG_FAST_THREADS, 256 / IG_FAST_THREADS) gemm(struct bench b)
{
    extern __shared__ __align__(1024) unsigned char shared[];
    __shared__ unsigned row[FAST_TOKENS];
    unsigned char *const lines = fast_lines(shared);
    const int first = blockIdx.y * FAST_TOKENS, rows = min(FAST_TOKENS, b.tokens - first);
    const int p = blockIdx.x * FAST_PANELS * b.rounds + fast_panel();
    for (int t = threadIdx.x; t < rows; t += IG_FAST_THREADS) row[t] = (unsigned)(first + t) * (unsigned)(b.cols / 32);
    __syncthreads();
    const size_t panel = (size_t)PR * 2 * b.cols;
    const struct fast g = { { b.w + p * panel + fast_row() * 4, b.w + (p + 1) * panel + fast_row() * 4 }, { 99, 99 }, FAST_PANELS * panel, b.x, row, b.cols, rows, b.rounds };
    fast_tile y;
    fast_weights w;
    struct fast_at at;
    fast_begin(w, &g, lines, &at);
    for (int tile = 0; tile < b.rounds; tile++) {
        fast_sum(y, w, &g, lines, &at);
        UNROLL for (int i = 0; i < FAST_TOKENS; i += 2) {
            const int m = i / 64, n = i / 4 % 16, j = i / 2 % 2, t = fast_token(n, j);
            const ig_f2 v = { y[m][n][j], y[m][n][2 + j] };
            if (t < rows) *(ig_f2 *)(b.y + (size_t)(first + t) * b.rows + (p + m + tile * FAST_PANELS) * PR + fast_row()) = v;
        }
    }
}
