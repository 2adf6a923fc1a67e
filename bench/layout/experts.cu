/* experts.cu -- what a decode step's expert kernels can reach of the device's memory, alone and in turn.
 *
 * Shapes are Mixtral's: A is gate and up of two experts (1792 panels of 4096 columns), B their down (512 panels of
 * 14336), in Q4_0 or BF16, sums in kernels.h's order, so that all variants leave the same bits ("ok"); ten layers'
 * weights, which no cache holds.  Kernels follow each other in a graph with programmatic dependent launch; A asks for
 * weights after its wait, as it has to, B before.
 *
 *   reg    512 threads an item of 4 panels (B: 256, two panels), U steps a thread in registers, asked for again in G
 *          groups, NB blocks a multiprocessor
 *   small  128 threads an item, its panels one after the other; a block an item
 *   async  rings of D stages of S steps in shared memory, by cp.async;   bulk   by cp.async.bulk and mbarriers
 *
 *     nvcc -arch=sm_90 -O3 -fmad=false -o experts experts.cu && ./experts read q4: bf:
 */
#include "experts_kernels.h"

#include <cuda_runtime.h>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>
#include <string>
#define OK(x)                                                                                                                    \
    do {                                                                                                                         \
        cudaError_t e_ = (x);                                                                                                    \
        if (e_ != cudaSuccess) {                                                                                                 \
            printf("%s:%d %s: %s\n", __FILE__, __LINE__, #x, cudaGetErrorString(e_));                                            \
            exit(1);                                                                                                             \
        }                                                                                                                        \
    } while (0)
__global__ void fill(uint32_t *w, size_t n, int q4)
{
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += (size_t)gridDim.x * blockDim.x) {
        uint32_t h = (uint32_t)(i * 2654435761u) ^ (uint32_t)(i >> 32) * 97u;
        h ^= h >> 15;
        h *= 2246822519u;
        h ^= h >> 13;
        if (!q4)
            h = (h & 0x80ff80ffu) | 0x3c003c00u;
        else if (i % 72 < 8)
            h = (h & 0x00ff00ffu) | 0x14001400u;
        w[i] = h;
    }
}
struct var {
    const char *name;
    int fmt;
    char kind;
    const void *f;
    int grid, threads, shared;
};
static cudaStream_t s;
static int units;
static void launch(const var &v, args *a)
{
    cudaLaunchAttribute at = {};
    at.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    at.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t c = {};
    c.gridDim = dim3(v.grid);
    c.blockDim = dim3(v.threads);
    c.dynamicSmemBytes = v.shared;
    c.stream = s;
    c.attrs = &at;
    c.numAttrs = 1;
    void *l[1] = { a };
    OK(cudaLaunchKernelExC(&c, v.f, l));
}
template <class L> static double timed(L run, int reps)
{
    cudaGraph_t g;
    cudaGraphExec_t e;
    cudaEvent_t x, y;
    float best = 1e9f, ms;
    OK(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
    run();
    OK(cudaStreamEndCapture(s, &g));
    OK(cudaGraphInstantiate(&e, g, 0));
    OK(cudaEventCreate(&x));
    OK(cudaEventCreate(&y));
    for (int i = 0; i < reps; i++) {
        OK(cudaEventRecord(x, s));
        OK(cudaGraphLaunch(e, s));
        OK(cudaEventRecord(y, s));
        OK(cudaEventSynchronize(y));
        OK(cudaEventElapsedTime(&ms, x, y));
        if (ms < best) best = ms;
    }
    OK(cudaGraphExecDestroy(e));
    OK(cudaGraphDestroy(g));
    OK(cudaEventDestroy(x));
    OK(cudaEventDestroy(y));
    return best;
}
static std::vector<var> vars;
#define ADD(nm, fm, kd, g, th, sh, ...)                                                                                          \
    {                                                                                                                            \
        auto *f_ = __VA_ARGS__;                                                                                                  \
        vars.push_back({ nm, fm, kd, (const void *)f_, g, th, sh });                                                             \
    }
#define AREG(F, U, G, NB)                                                                                                        \
    ADD("A reg " #F " U" #U " G" #G " NB" #NB, F::NP == 16, 'A', units * NB, 4 * F::TP, 0, a_reg<F, U, G, NB>)
#define ASM(F, U, G, NB) ADD("A small " #F " U" #U " G" #G " NB" #NB, F::NP == 16, 'A', ITEMS, F::TP, 0, a_small<F, U, G, NB>)
#define AAS(F, S, D, NB)                                                                                                         \
    ADD("A async " #F " S" #S " D" #D " NB" #NB, F::NP == 16, 'A', units * NB, 4 * F::TP, 4 * S * D * F::STEP,                   \
        a_async<F, S, D, NB>)
#define ABU(F, S, D, NB)                                                                                                         \
    ADD("A bulk " #F " S" #S " D" #D " NB" #NB, F::NP == 16, 'A', units * NB, 4 * F::TP + 32, 4 * S * D * F::STEP,               \
        a_bulk<F, S, D, NB>)
#define BREG(F, U, G, XS, NB)                                                                                                    \
    ADD("B reg " #F " U" #U " G" #G " XS" #XS " NB" #NB, F::NP == 16, 'B', 256, 2 * F::TP, XS * 2 * F::XB, b_reg<F, U, G, XS, NB>)
#define BAS(F, S, D, XS, NB)                                                                                                     \
    ADD("B async " #F " S" #S " D" #D " XS" #XS " NB" #NB, F::NP == 16, 'B', 256, 2 * F::TP,                                     \
        2 * S * D * F::STEP + XS * 2 * F::XB, b_async<F, S, D, XS, NB>)
#define BBU(F, S, D, XS, NB)                                                                                                     \
    ADD("B bulk " #F " S" #S " D" #D " XS" #XS " NB" #NB, F::NP == 16, 'B', 256, 2 * F::TP + 32,                                 \
        2 * S * D * F::STEP + XS * 2 * F::XB, b_bulk<F, S, D, XS, NB>)
int main(int argc, char **argv)
{
    const int dry = argc > 1 && !strcmp(argv[1], "list");
    cudaDeviceProp pr;
    memset(&pr, 0, sizeof pr);
    if (!dry) {
        OK(cudaGetDeviceProperties(&pr, 0));
        OK(cudaSetDevice(0));
        OK(cudaStreamCreate(&s));
        int mc = 0, cc = 0, bw = 0;
        cudaDeviceGetAttribute(&mc, cudaDevAttrMemoryClockRate, 0);
        cudaDeviceGetAttribute(&cc, cudaDevAttrClockRate, 0);
        cudaDeviceGetAttribute(&bw, cudaDevAttrGlobalMemoryBusWidth, 0);
        printf("%s, %d units, core %d kHz, memory %d kHz x %d bit -> %.0f GB/s by them, L2 %d MB\n", pr.name,
               pr.multiProcessorCount, cc, mc, bw, 2.0 * mc * 1e3 * bw / 8 / 1e9, pr.l2CacheSize >> 20);
    }
    units = dry ? 132 : pr.multiProcessorCount;
    AREG(Q4, 8, 1, 2)
    AREG(Q4, 8, 4, 2) AREG(Q4, 16, 1, 1) AREG(Q4, 16, 4, 1) ASM(Q4, 8, 2, 7) ASM(Q4, 4, 2, 8) AAS(Q4, 1, 8, 2) AAS(Q4, 2, 8, 1)
        ABU(Q4, 1, 16, 1) ABU(Q4, 2, 8, 1) ABU(Q4, 4, 4, 1) BREG(Q4, 8, 1, 0, 2) BREG(Q4, 8, 2, 0, 2) BREG(Q4, 14, 1, 0, 2)
            BREG(Q4, 14, 7, 0, 2) BREG(Q4, 14, 7, 1, 2) BAS(Q4, 1, 14, 1, 2) BAS(Q4, 2, 7, 1, 2) BBU(Q4, 2, 7, 1, 2)
                BBU(Q4, 4, 4, 1, 2) AREG(BF, 16, 1, 2) AREG(BF, 16, 4, 2) AREG(BF, 32, 1, 1) AREG(BF, 32, 4, 1) ASM(BF, 16, 2, 7)
                    AAS(BF, 4, 8, 1) ABU(BF, 4, 8, 1) ABU(BF, 8, 5, 1) BREG(BF, 16, 1, 0, 2) BREG(BF, 28, 1, 0, 2)
                        BREG(BF, 28, 4, 0, 2) BREG(BF, 32, 4, 0, 2) BAS(BF, 8, 6, 0, 2) BBU(BF, 8, 6, 0, 2) if (dry)
    {
        for (auto &v : vars) printf("%s: %d x %d, %d B\n", v.name, v.grid, v.threads, v.shared);
        printf("%zu\n", vars.size());
        return 0;
    }
    enum { LAYERS = 10 };
    float *sink;
    OK(cudaMalloc(&sink, 4));
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "read")) {
            const size_t n = (size_t)6 << 30;
            uint8_t *p;
            OK(cudaMalloc(&p, n));
            OK(cudaMemset(p, 1, n));
            OK(cudaFuncSetAttribute((const void *)r_bulk, cudaFuncAttributeMaxDynamicSharedMemorySize, 220 << 10));
            const size_t sizes[] = { n, (size_t)470 << 20, (size_t)132 << 20, (size_t)66 << 20 };
            for (size_t z : sizes) {
                auto pdl = [&](const void *f, int grid, int th, int sh, void **l) {
                    cudaLaunchAttribute at = {};
                    at.id = cudaLaunchAttributeProgrammaticStreamSerialization;
                    at.val.programmaticStreamSerializationAllowed = 1;
                    cudaLaunchConfig_t c = {};
                    c.gridDim = dim3(grid);
                    c.blockDim = dim3(th);
                    c.dynamicSmemBytes = sh;
                    c.stream = s;
                    c.attrs = &at;
                    c.numAttrs = 1;
                    OK(cudaLaunchKernelExC(&c, f, l));
                };
                const int k = (int)(n / z);
                auto show = [&](const char *what, int g, double ms) {
                    printf("read %5zu MB %-24s grid %5d: %8.2f us, %6.0f GB/s\n", z >> 20, what, g, ms * 1e3 / k,
                           (double)z * k / ms / 1e6);
                };
                auto plain = [&](const char *w, const void *f, int g) {
                    size_t words = z / 16;
                    show(w, g,
                         timed(
                             [&] {
                                 for (int j = 0; j < k; j++) {
                                     const uint8_t *q = p + j * z;
                                     void *l[] = { &q, &words, &sink };
                                     pdl(f, g, 512, 0, l);
                                 }
                             },
                             4));
                };
                plain("plain", (const void *)r_plain<8>, units * 4);
                const int pd[][4] = { { 2304, 28, 1, 0 },  { 4608, 28, 1, 0 }, { 9216, 14, 1, 0 },
                                      { 16384, 12, 1, 0 }, { 9216, 10, 2, 0 }, { 4608, 6, 4, 0 } };
                for (auto &q : pd) {
                    char nm[64];
                    snprintf(nm, sizeof nm, "bulk %d x %d %s", q[0], q[1], q[3] ? "inter" : "");
                    size_t b = z;
                    int pc = q[0], d = q[1], in = q[3];
                    show(nm, units * q[2],
                         timed(
                             [&] {
                                 for (int j = 0; j < k; j++) {
                                     const uint8_t *w = p + j * z;
                                     void *l[] = { &w, &b, &pc, &d, &in };
                                     pdl((const void *)r_bulk, units * q[2], 32, pc * d, l);
                                 }
                             },
                             4));
                }
            }
            OK(cudaFree(p));
            continue;
        }
        /* q4 or bf, and first letters of the names to take: "q4:A reg" */
        const int bf = argv[i][0] == 'b';
        const char *want = argv[i] + 3;
        const size_t panelA = bf ? 128 * 1024 : 16 * 2304,
                     expert = panelA * 896 * 2 + (size_t)(bf ? 448 * 1024 : 56 * 2304) * 256;
        static uint8_t *w;
        static int have = -1;
        static xq *x, *hq;
        static float *xf, *h, *y;
        static int *id;
        if (have != bf) {
            if (w) OK(cudaFree(w));
            OK(cudaMalloc(&w, expert * 2 * LAYERS));
            fill<<<4096, 256, 0, s>>>((uint32_t *)w, expert * 2 * LAYERS / 4, !bf);
            if (have < 0) {
                OK(cudaMalloc(&x, 128 * 40));
                OK(cudaMalloc(&xf, 16384));
                OK(cudaMalloc(&hq, 40 * 896));
                OK(cudaMalloc(&h, 4 * 28672));
                OK(cudaMalloc(&y, 4 * 4096));
                OK(cudaMalloc(&id, 8));
                std::vector<xq> xx(128);
                std::vector<float> ff(4096);
                srand(1);
                for (auto &b : xx) {
                    b.sum = 0;
                    b.d = 0.01f;
                    for (auto &c : b.q) b.sum += c = (int8_t)(rand() % 255 - 127);
                }
                for (auto &f : ff) f = (float)(rand() % 2001 - 1000) / 1000;
                const int ii[2] = { 0, 1 };
                OK(cudaMemcpy(x, xx.data(), 5120, cudaMemcpyHostToDevice));
                OK(cudaMemcpy(xf, ff.data(), 16384, cudaMemcpyHostToDevice));
                OK(cudaMemcpy(id, ii, 8, cudaMemcpyHostToDevice));
            }
            OK(cudaStreamSynchronize(s));
            have = bf;
        }
        std::vector<args> as(LAYERS);
        for (int l = 0; l < LAYERS; l++)
            as[l] = { w + (size_t)l * 2 * expert, id, bf ? (void *)xf : (void *)x, hq, h, y, expert };
        std::vector<float> hh(28672), yy(4096);
        static std::vector<float> h0[2], y0[2];
        std::vector<xq> qq(896);
        static std::vector<xq> q0[2];
        const var *firstA = nullptr, *firstB = nullptr;
        for (auto &v : vars) {
            if (v.fmt != bf) continue;
            if (v.kind == 'A' && !firstA) firstA = &v;
            if (v.kind == 'B' && !firstB) firstB = &v;
            if (v.shared > 48 << 10) OK(cudaFuncSetAttribute(v.f, cudaFuncAttributeMaxDynamicSharedMemorySize, v.shared));
        }
        auto check = [&](const var &a, const var &b) {
            OK(cudaMemsetAsync(h, 0, 4 * 28672, s));
            OK(cudaMemsetAsync(y, 0, 4 * 4096, s));
            OK(cudaMemsetAsync(hq, 0, 40 * 896, s));
            launch(a, &as[3]);
            launch(b, &as[3]);
            OK(cudaStreamSynchronize(s));
            OK(cudaMemcpy(hh.data(), h, 4 * 28672, cudaMemcpyDeviceToHost));
            OK(cudaMemcpy(yy.data(), y, 16384, cudaMemcpyDeviceToHost));
            OK(cudaMemcpy(qq.data(), hq, 40 * 896, cudaMemcpyDeviceToHost));
            if (h0[bf].empty()) {
                h0[bf] = hh;
                y0[bf] = yy;
                q0[bf] = qq;
                printf("reference %g %g %g %g\n", hh[0], hh[28671], yy[0], yy[4095]);
            }
            return !memcmp(hh.data(), h0[bf].data(), 4 * 28672) && !memcmp(yy.data(), y0[bf].data(), 16384) &&
                   !memcmp(qq.data(), q0[bf].data(), 40 * 896);
        };
        check(*firstA, *firstB);
        const double bytesA = (double)panelA * 1792 * 2, bytesB = (double)expert * 2 - bytesA;
        const var *bestA = firstA, *bestB = firstB;
        double tA = 1e9, tB = 1e9;
        for (auto &v : vars) {
            if (v.fmt != bf || strncmp(v.name, want, strlen(want))) continue;
            const int good = check(v.kind == 'A' ? v : *firstA, v.kind == 'B' ? v : *firstB);
            int occ = 0;
            OK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&occ, v.f, v.threads, v.shared));
            const double bytes = v.kind == 'A' ? bytesA : bytesB;
            const double alone = timed(
                                     [&] {
                                         for (int l = 0; l < LAYERS; l++) launch(v, &as[l]);
                                     },
                                     5) *
                                 1e3 / LAYERS;
            const double both = timed(
                                    [&] {
                                        for (int l = 0; l < LAYERS; l++) {
                                            launch(v.kind == 'A' ? v : *firstA, &as[l]);
                                            launch(v.kind == 'B' ? v : *firstB, &as[l]);
                                        }
                                    },
                                    5) *
                                1e3 / LAYERS;
            cudaFuncAttributes fa;
            OK(cudaFuncGetAttributes(&fa, v.f));
            printf("%-32s %s occ %d regs %3d local %3zu  alone %7.2f us %5.0f GB/s  with the first of the other %7.2f us %5.0f "
                   "GB/s\n",
                   v.name, good ? "ok  " : "DIFF", occ, fa.numRegs, fa.localSizeBytes, alone, bytes / alone / 1e3, both,
                   (bytesA + bytesB) / both / 1e3);
            fflush(stdout);
            if (good && v.kind == 'A' && both < tA) tA = both, bestA = &v;
            if (good && v.kind == 'B' && both < tB) tB = both, bestB = &v;
        }
        if (!*want) {
            const double both = timed(
                                    [&] {
                                        for (int l = 0; l < LAYERS; l++) {
                                            launch(*bestA, &as[l]);
                                            launch(*bestB, &as[l]);
                                        }
                                    },
                                    8) *
                                1e3 / LAYERS;
            printf("best pair: %s + %s: %.2f us %.0f GB/s\n", bestA->name, bestB->name, both, (bytesA + bytesB) / both / 1e3);
        }
    }
    return 0;
}
