/* driver.c -- rates of a device's matrix units: a loop of their instruction alone, which is "the matrix rate measured
 * there"; the tile products of gemm=fast on plain matrices; its attention (Qwen3-30B-A3B's heads).  Samples of every
 * result are checked against sums in double.  Prints CSV: what,shape,ms,TFLOP/s,largest error of what is allowed.
 *
 * make MODEL=models/qwen3-30b-a3b.lua HW=hw/h200.lua SET="quant=bf16 gemm=fast"; D=its build.mk's DEVICE_DEFS
 * M="out/tools/mkcubin -a sm_90a -Ikernels -Ikernels/cuda"
 * $M -o unit.cubin bench/unit/kernels.cu; $M $D -DROWS=8 -o flash.cubin kernels/cuda/flash.cu
 * gcc -std=gnu11 -O2 -ffp-contract=off -iquote kernels -isystem CUDA/include bench/unit/driver.c CUDA/lib64/libcudart_static.a -lm -ldl -lpthread -lrt
 * ./a.out flash.cubin x:8:4:4:unit.cubin
 */
#include <cuda_runtime.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../kernels/kernels.h"
#include "../../kernels/math.h"
#include "../../kernels/cuda/args.h"

#define OK(call)                                                                                   \
    do {                                                                                           \
        const cudaError_t e_ = (call);                                                             \
        if (e_ != cudaSuccess) {                                                                   \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, cudaGetErrorString(e_)); \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

struct bench {
    const unsigned char *w;
    const unsigned short *x;
    float *y;
    int rows, cols, tokens, rounds;
};

static uint32_t seed = 1;
static float rnd(void)
{
    seed = seed * 1664525u + 1013904223u;
    return (float)((seed ^ seed >> 15) & 0xffff) / 32768.0f - 1.0f;
}

static void *on_device(const void *host, size_t bytes)
{
    void *p;
    OK(cudaMalloc(&p, bytes));
    if (host) OK(cudaMemcpy(p, host, bytes, cudaMemcpyHostToDevice));
    else OK(cudaMemset(p, 0, bytes));
    return p;
}

static cudaKernel_t find(cudaLibrary_t lib, const char *name, int shared)
{
    cudaKernel_t k;
    if (cudaLibraryGetKernel(&k, lib, name) != cudaSuccess) { cudaGetLastError(); return NULL; }
    OK(cudaKernelSetAttributeForDevice(k, cudaFuncAttributeMaxDynamicSharedMemorySize, shared, 0));
    return k;
}

static double seconds(cudaKernel_t k, dim3 grid, int threads, int shared, void *args)
{
    cudaEvent_t a, b;
    double best = 1e9;
    void *list[1] = { args };
    OK(cudaEventCreate(&a));
    OK(cudaEventCreate(&b));
    for (int i = 0; i < 6; i++) {
        float ms;
        OK(cudaEventRecord(a, 0));
        OK(cudaLaunchKernel((const void *)k, grid, (dim3){ (unsigned)threads, 1, 1 }, list, (size_t)shared, 0));
        OK(cudaEventRecord(b, 0));
        OK(cudaDeviceSynchronize());
        OK(cudaEventElapsedTime(&ms, a, b));
        if (ms * 1e-3 < best) best = ms * 1e-3;
    }
    OK(cudaEventDestroy(a));
    OK(cudaEventDestroy(b));
    return best;
}

enum { MOST_X = 65536 * 2048, MOST_W = 4096 * 4096 };
static unsigned short *x, *w; /* BF16 */
static float value(unsigned short h) { return ig_bf16_to_f32(h); }

static void peaks(cudaLibrary_t lib, struct bench b)
{
    int sms;
    OK(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, 0));
    b.rounds = 20000;
    cudaKernel_t k = find(lib, "peak_mma", 0);
    double s = seconds(k, (dim3){ (unsigned)sms * 2, 1, 1 }, 128, 0, &b);
    double flop = 2.0 * sms * 4 * b.rounds * 16 * 2 * 16 * 8 * 16;
    printf("peak mma.sync,-,%.3f,%.1f,\n", s * 1e3, flop / s * 1e-12);
    k = find(lib, "peak_wgmma", 32768);
    if (!k) return;
    b.rounds = 4000;
    s = seconds(k, (dim3){ (unsigned)sms, 1, 1 }, 256, 32768, &b);
    flop = 2.0 * sms * b.rounds * 8 * 2 * 64 * 128 * 16;
    printf("peak wgmma,-,%.3f,%.1f,\n", s * 1e3, flop / s * 1e-12);
}

static void gemm(const char *name, cudaLibrary_t lib, struct bench b, int warps, int stages, int tiles, int rows, int cols, int tokens)
{
    const int shared = stages * 128 * 128 + 1024;
    cudaKernel_t k = find(lib, "gemm", shared);
    while (rows / (32 * warps) % tiles) tiles--;
    b.rows = rows, b.cols = cols, b.tokens = tokens, b.rounds = tiles;
    OK(cudaMemset(b.y, 0xff, (size_t)rows * (size_t)tokens * 4));
    const double s = seconds(k, (dim3){ (unsigned)(rows / (32 * warps * tiles)), (unsigned)((tokens + 127) / 128), 1 }, warps * 32, shared, &b);
    double worst = 0;
    for (int i = 0; i < 400; i++) {
        seed = seed * 1664525u + 1013904223u;
        const int r = (int)(seed >> 8) % rows;
        seed = seed * 1664525u + 1013904223u;
        const int t = (int)(seed >> 8) % tokens;
        float got;
        double sum = 0, size = 0;
        OK(cudaMemcpy(&got, b.y + (size_t)t * (size_t)rows + r, 4, cudaMemcpyDeviceToHost));
        for (int c = 0; c < cols; c++) {
            const double p = (double)value(w[(size_t)(r / 16) * 16 * (size_t)cols + (size_t)(c / 2 * 32 + r % 16 * 2 + c % 2)]) *
                             value(x[(size_t)t * (size_t)cols + (size_t)c]);
            sum += p;
            size += fabs(p);
        }
        const double off = fabs(got - sum) / (size * ldexp(cols / 16, -22));
        if (!(off <= worst)) worst = off;
    }
    printf("gemm %s,%dx%dx%d by %d,%.3f,%.1f,%.3f\n", name, rows, cols, tokens, tiles, s * 1e3, 2.0 * rows * cols * tokens / s * 1e-12, worst);
}

enum { HEADS = 32, KV_HEADS = 4, HD = 128 };
static void flash(cudaLibrary_t lib, int n)
{
    const int shared = IG_FLASH_BYTES(HD), blocks = (n + 63) / 64;
    cudaKernel_t k = find(lib, "ig_flash", shared);
    float *q = malloc((size_t)n * HEADS * HD * 4), *ones = malloc(HD * 4), *rope = malloc((size_t)n * HD * 4);
    unsigned short *kv = malloc((size_t)blocks * KV_HEADS * 2 * 64 * HD * 2), got;
    int32_t *pos = malloc((size_t)n * 4), *zero = calloc((size_t)n, 4);
    for (size_t i = 0; i < (size_t)n * HEADS * HD; i++) q[i] = rnd();
    for (size_t i = 0; i < (size_t)blocks * KV_HEADS * 2 * 64 * HD; i++) kv[i] = ig_fp16_from_f32(2 * rnd());
    for (int i = 0; i < HD; i++) ones[i] = 1;
    for (int i = 0; i < n * HD; i++) rope[i] = i % 2 ? 0.0f : 1.0f;
    for (int i = 0; i < n; i++) pos[i] = i;
    struct ig_args a;
    memset(&a, 0, sizeof a);
    a.n = n;
    a.q = on_device(q, (size_t)n * HEADS * HD * 4);
    a.q_norm = on_device(ones, HD * 4);
    a.rope = on_device(rope, (size_t)n * HD * 4);
    a.kv = on_device(kv, (size_t)blocks * KV_HEADS * 2 * 64 * HD * 2);
    a.row.pos = on_device(pos, (size_t)n * 4);
    a.row.turn = on_device(pos, (size_t)n * 4);
    a.row.seq = on_device(zero, (size_t)n * 4);
    a.mo.fmt = IG_BF16;
    a.xb = on_device(NULL, (size_t)n * HEADS * HD * 2);
    const double s = seconds(k, (dim3){ HEADS / 2, (unsigned)((n + 63) / 64), 1 }, IG_FLASH_THREADS, shared, &a);
    double worst = 0;
    for (int i = 0; i < 24; i++) {
        const int t = i < 4 ? i : i < 8 ? n - 1 - i : (int)((rnd() + 1) / 2 * (float)(n - 1)), h = i * 5 % HEADS, d = i * 37 % HD, kvh = h / 8;
        double ss = 0, m = -1e30, l = 0, o = 0, size = 0, *sc = malloc((size_t)n * 8);
        const float *qr = q + ((size_t)t * HEADS + (size_t)h) * HD;
        for (int e = 0; e < HD; e++) ss += (double)qr[e] * qr[e];
        for (int j = 0; j <= t; j++) {
            const unsigned short *kb = kv + (size_t)(j / 64 * KV_HEADS + kvh) * 2 * 64 * HD;
            double sum = 0;
            for (int e = 0; e < HD; e++) sum += (double)qr[e] * ig_fp16_to_f32(kb[e * 64 + j % 64]);
            sc[j] = sum / sqrt(ss / HD + 1e-6) * 0.088388348;
            if (sc[j] > m) m = sc[j];
        }
        for (int j = 0; j <= t; j++) {
            const unsigned short *vb = kv + (size_t)(j / 64 * KV_HEADS + kvh) * 2 * 64 * HD + 64 * HD;
            const double p = exp(sc[j] - m), v = ig_fp16_to_f32(vb[j % 64 * HD + d]);
            l += p, o += p * v, size += p * fabs(v);
        }
        OK(cudaMemcpy(&got, a.xb + ((size_t)t * HEADS + (size_t)h) * HD + d, 2, cudaMemcpyDeviceToHost));
        const double off = fabs(value(got) - o / l) / (size / l * ldexp(1, -7));
        if (!(off <= worst)) worst = off;
        free(sc);
    }
    const double flop = 2.0 * 2 * HEADS * HD * 0.5 * n * (n + 1.0);
    printf("flash,%d rows,%.3f,%.1f,%.3f\n", n, s * 1e3, flop / s * 1e-12, worst);
}

static cudaLibrary_t load(const char *file)
{
    cudaLibrary_t lib;
    if (cudaLibraryLoadFromFile(&lib, file, NULL, NULL, 0, NULL, NULL, 0) != cudaSuccess) {
        printf("%s: not loaded: %s\n", file, cudaGetErrorString(cudaGetLastError()));
        return NULL;
    }
    return lib;
}

/* driver FLASH.cubin NAME:WARPS:STAGES:TILES:FILE.cubin... */
int main(int argc, char **argv)
{
    x = malloc((size_t)MOST_X * 2);
    w = malloc((size_t)MOST_W * 2);
    for (size_t i = 0; i < MOST_X; i++) x[i] = ig_bf16_from_f32(rnd());
    for (size_t i = 0; i < MOST_W; i++) w[i] = ig_bf16_from_f32(rnd());
    struct bench b = { on_device(w, (size_t)MOST_W * 2), on_device(x, (size_t)MOST_X * 2), on_device(NULL, (size_t)65536 * 2048 * 4), 0, 0, 0, 0 };
    printf("what,shape,ms,TFLOP/s,error\n");
    for (int i = 2; i < argc; i++) {
        char name[64], file[256];
        int warps, stages, tiles;
        if (sscanf(argv[i], "%63[^:]:%d:%d:%d:%255s", name, &warps, &stages, &tiles, file) != 5) return 2;
        cudaLibrary_t lib = load(file);
        if (!lib) continue;
        if (i == 2) peaks(lib, b);
        gemm(name, lib, b, warps, stages, tiles, 4096, 4096, 8192);
        gemm(name, lib, b, warps, stages, tiles, 1536, 2048, 65536);
        gemm(name, lib, b, warps, stages, tiles, 2048, 768, 65536);
        fflush(stdout);
    }
    cudaLibrary_t lib = load(argv[1]);
    if (lib) {
        flash(lib, 1000);
        flash(lib, 2048);
        flash(lib, 8192);
    }
    return 0;
}
