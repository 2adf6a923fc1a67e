/* cublas.c -- cuBLAS's BF16 products (float32 sums) on a device: the matrix rate that
 * prefill is measured against, and what a library makes of prefill's dense shapes.
 *
 * Y [rows x out] = X [rows x in] W^T [in x out], all BF16; prints CSV: medians of 9.
 * The library is opened at run time, as is usual where no static archive of it is.
 *
 * gcc -std=gnu11 -O2 -isystem CUDA/include bench/cublas.c CUDA/lib64/libcudart_static.a -ldl
 * -lpthread -lrt
 */
#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

enum { REPS = 9, IN_FLIGHT = 10 };

static cublasStatus_t (*create)(cublasHandle_t *);
static cublasStatus_t (*gemm)(cublasHandle_t, cublasOperation_t, cublasOperation_t, int, int, int,
                              const void *, const void *, cudaDataType, int, const void *,
                              cudaDataType, int, const void *, void *, cudaDataType, int,
                              cublasComputeType_t, cublasGemmAlgo_t);

static _Noreturn void die(const char *what, const char *why)
{
    fprintf(stderr, "cublas: %s: %s\n", what, why);
    exit(1);
}

static void ok(cudaError_t e, const char *what)
{
    if (e) die(what, cudaGetErrorString(e));
}

static void load(void)
{
    static const char *const names[] = { "libcublas.so.13", "libcublas.so.12" };
    void *lib = NULL;
    for (size_t i = 0; i < 2 && !lib; i++) lib = dlopen(names[i], RTLD_NOW);
    if (!lib) die(names[0], dlerror());
    *(void **)&create = dlsym(lib, "cublasCreate_v2");
    *(void **)&gemm = dlsym(lib, "cublasGemmEx");
    if (!create || !gemm) die("cublasGemmEx", "no such function in the library");
}

static void fill(void *p, size_t n) /* plain numbers: a device clocks down less on zeros */
{
    unsigned short *h = malloc(n * 2);
    if (!h) die("host memory", "none left");
    for (size_t i = 0; i < n; i++)
        h[i] = (unsigned short)(0x3c00 + (i * 2654435761u >> 8 & 0x3ff) + (i & 1) * 0x8000);
    ok(cudaMemcpy(p, h, n * 2, cudaMemcpyHostToDevice), "copy");
    free(h);
}

static int by_size(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static void shape(cublasHandle_t h, int rows, int in, int out)
{
    void *x, *w, *y;
    ok(cudaMalloc(&x, (size_t)rows * in * 2), "device memory");
    ok(cudaMalloc(&w, (size_t)out * in * 2), "device memory");
    ok(cudaMalloc(&y, (size_t)rows * out * 2), "device memory");
    fill(x, (size_t)rows * in);
    fill(w, (size_t)out * in);
    cudaEvent_t t0, t1;
    ok(cudaEventCreate(&t0), "event");
    ok(cudaEventCreate(&t1), "event");
    const float one = 1, zero = 0;
    float ms[REPS];
    for (int r = -1; r < REPS; r++) { /* the first is to warm up */
        ok(cudaEventRecord(t0, 0), "event");
        for (int i = 0; i < IN_FLIGHT; i++)
            if (gemm(h, CUBLAS_OP_T, CUBLAS_OP_N, out, rows, in, &one, w, CUDA_R_16BF, in, x,
                     CUDA_R_16BF, in, &zero, y, CUDA_R_16BF, out, CUBLAS_COMPUTE_32F,
                     CUBLAS_GEMM_DEFAULT))
                die("cublasGemmEx", "failed");
        ok(cudaEventRecord(t1, 0), "event");
        ok(cudaEventSynchronize(t1), "products");
        if (r >= 0) ok(cudaEventElapsedTime(&ms[r], t0, t1), "event");
    }
    qsort(ms, REPS, sizeof *ms, by_size);
    const double flop = 2.0 * rows * in * out * IN_FLIGHT;
    printf("%d,%d,%d,%.4f,%.1f\n", rows, in, out, ms[REPS / 2] / IN_FLIGHT,
           flop / ms[REPS / 2] * 1e-9);
    fflush(stdout);
    ok(cudaFree(x), "free");
    ok(cudaFree(w), "free");
    ok(cudaFree(y), "free");
}

int main(void)
{
    static const int shapes[][3] = { { 8192, 8192, 8192 }, { 2048, 2048, 5120 },
                                     { 8192, 2048, 5120 }, { 2048, 4096, 2048 },
                                     { 8192, 4096, 2048 }, { 512, 2048, 1536 },
                                     { 512, 768, 2048 },   { 8192, 2048, 1536 } };
    cublasHandle_t h;
    load();
    if (create(&h)) die("cublasCreate", "failed");
    puts("rows,in,out,ms,tflop_per_s");
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        shape(h, shapes[i][0], shapes[i][1], shapes[i][2]);
    return 0;
}
