/* probe_gpu.c -- what the machine's GPU is, and how fast its memory and its link are.
 *
 * Speaks to the driver alone, which is a shared library that may be missing: no
 * toolkit is needed to build or to run this.  Device 0, as the engine.
 */
#define _GNU_SOURCE
#include "probe.h"

#include <dlfcn.h>
#include <omp.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

typedef int call; /* CUresult: 0 is success */
typedef uint64_t device_ptr;

#define CALLS(X)                                                            \
    X(cuInit, (unsigned))                                                   \
    X(cuDriverGetVersion, (int *))                                          \
    X(cuDeviceGetCount, (int *))                                            \
    X(cuDeviceGet, (int *, int))                                            \
    X(cuDeviceGetName, (char *, int, int))                                  \
    X(cuDeviceGetAttribute, (int *, int, int))                              \
    X(cuDevicePrimaryCtxRetain, (void **, int))                             \
    X(cuCtxSetCurrent, (void *))                                            \
    X(cuCtxSynchronize, (void))                                             \
    X(cuMemGetInfo_v2, (size_t *, size_t *))                                \
    X(cuMemAlloc_v2, (device_ptr *, size_t))                                \
    X(cuMemFree_v2, (device_ptr))                                           \
    X(cuMemHostAlloc, (void **, size_t, unsigned))                          \
    X(cuMemFreeHost, (void *))                                              \
    X(cuMemcpyHtoDAsync_v2, (device_ptr, const void *, size_t, void *))     \
    X(cuMemcpyDtoHAsync_v2, (void *, device_ptr, size_t, void *))           \
    X(cuMemcpyDtoDAsync_v2, (device_ptr, device_ptr, size_t, void *))       \
    X(cuStreamCreate, (void **, unsigned))                                  \
    X(cuStreamSynchronize, (void *))                                        \
    X(cuModuleLoadData, (void **, const void *))                            \
    X(cuModuleGetFunction, (void **, void *, const char *))                 \
    X(cuLaunchKernel, (void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, \
                       void *, void **, void **))

#define X(name, args) static call(*name) args;
CALLS(X)
#undef X

enum { ATTR_INTEGRATED = 18, ATTR_MAJOR = 75, ATTR_MINOR = 76, ROUNDS = 5, THREADS = 256, BLOCKS = 2048 };
#define COPY   ((size_t)4 << 20)  /* bytes of a copy: an expert's size */
#define BUFFER ((size_t)256 << 20) /* of pinned memory */
#define LEAST  ((size_t)16 << 20)

/* Reads n vectors of 16 bytes, n a multiple of 4 strides; `out` is written only by chance. */
static const char read_ptx[] =
    ".version 7.0\n.target sm_70\n.address_size 64\n"
    ".visible .entry read_all(.param .u64 p, .param .u64 n, .param .u64 out)\n{\n"
    ".reg .pred %p;\n.reg .b32 %r<24>;\n.reg .b64 %d<12>;\n"
    "ld.param.u64 %d0, [p];\nld.param.u64 %d1, [n];\nld.param.u64 %d2, [out];\n"
    "mov.u32 %r0, %ctaid.x;\nmov.u32 %r1, %ntid.x;\nmov.u32 %r2, %tid.x;\n"
    "mad.lo.u32 %r3, %r0, %r1, %r2;\ncvt.u64.u32 %d3, %r3;\n"
    "mov.u32 %r4, %nctaid.x;\nmul.lo.u32 %r5, %r4, %r1;\ncvt.u64.u32 %d4, %r5;\n"
    "shl.b64 %d5, %d4, 4;\nshl.b64 %d6, %d3, 4;\nadd.u64 %d6, %d0, %d6;\nshl.b64 %d7, %d4, 2;\n"
    "mov.u32 %r6, 0;\n"
    "LOOP:\nsetp.ge.u64 %p, %d3, %d1;\n@%p bra DONE;\n"
    "ld.global.v4.u32 {%r7,%r8,%r9,%r10}, [%d6];\nadd.u64 %d8, %d6, %d5;\n"
    "ld.global.v4.u32 {%r11,%r12,%r13,%r14}, [%d8];\nadd.u64 %d9, %d8, %d5;\n"
    "ld.global.v4.u32 {%r15,%r16,%r17,%r18}, [%d9];\nadd.u64 %d10, %d9, %d5;\n"
    "ld.global.v4.u32 {%r19,%r20,%r21,%r22}, [%d10];\n"
    "xor.b32 %r7, %r7, %r8;\nxor.b32 %r9, %r9, %r10;\nxor.b32 %r11, %r11, %r12;\nxor.b32 %r13, %r13, %r14;\n"
    "xor.b32 %r15, %r15, %r16;\nxor.b32 %r17, %r17, %r18;\nxor.b32 %r19, %r19, %r20;\nxor.b32 %r21, %r21, %r22;\n"
    "xor.b32 %r7, %r7, %r9;\nxor.b32 %r11, %r11, %r13;\nxor.b32 %r15, %r15, %r17;\nxor.b32 %r19, %r19, %r21;\n"
    "xor.b32 %r7, %r7, %r11;\nxor.b32 %r15, %r15, %r19;\nxor.b32 %r7, %r7, %r15;\nxor.b32 %r6, %r6, %r7;\n"
    "add.u64 %d6, %d10, %d5;\nadd.u64 %d3, %d3, %d7;\nbra LOOP;\n"
    "DONE:\nsetp.ne.u32 %p, %r6, 305419896;\n@%p bra END;\nst.global.u32 [%d2], %r6;\nEND:\nret;\n}\n";

static void *context;

struct bench {
    char *host;       /* pinned */
    device_ptr mem;
    size_t host_bytes, mem_bytes;
    void *stream[2];
};

static const char *load_driver(void)
{
    void *lib = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!lib) return "this machine has no CUDA driver (libcuda.so.1)";
#define X(name, args)                                            \
    *(void **)(void *)&name = dlsym(lib, #name);                 \
    if (!name) return "the CUDA driver is too old: no " #name;
    CALLS(X)
#undef X
    return NULL;
}

static void find_name(struct gpu_found *g, int device)
{
    if (cuDeviceGetName(g->name, sizeof g->name, device) != 0) snprintf(g->name, sizeof g->name, "unnamed");
    for (char *c = g->name; *c; c++) /* no escapes in the profile */
        if (*c < ' ' || *c > '~' || *c == '"' || *c == '\\') *c = '?';
}

static const char *open_device(struct gpu_found *g)
{
    int n = 0, device = 0;
    size_t left = 0, all = 0;
    cuDriverGetVersion(&g->driver);
    if (cuInit(0) != 0 || cuDeviceGetCount(&n) != 0 || n == 0) return "the CUDA driver finds no device";
    if (cuDeviceGet(&device, 0) != 0) return "the CUDA driver does not open device 0";
    find_name(g, device);
    cuDeviceGetAttribute(&g->major, ATTR_MAJOR, device);
    cuDeviceGetAttribute(&g->minor, ATTR_MINOR, device);
    cuDeviceGetAttribute(&g->unified, ATTR_INTEGRATED, device);
    if (cuDevicePrimaryCtxRetain(&context, device) != 0 || cuCtxSetCurrent(context) != 0)
        return "the device gives no context (does another program have all of it?)";
    if (cuMemGetInfo_v2(&left, &all) != 0) return "the device does not say how much memory it has";
    g->total = all;
    g->free = left;
    return NULL;
}

/* Pinned memory as much as the limits allow, and some of the device's. */
static const char *take_memory(struct gpu_found *g, struct bench *b)
{
    for (b->host_bytes = BUFFER; b->host_bytes >= LEAST && !b->host; b->host_bytes /= 2)
        if (cuMemHostAlloc((void **)&b->host, b->host_bytes, 0) == 0) break;
    if (!b->host) return "the system pins less than 16 MiB of memory (ulimit -l)";
    g->pinned = b->host_bytes == BUFFER;
    memset(b->host, 1, b->host_bytes);
    b->mem_bytes = (size_t)2 << 30;
    while (b->mem_bytes >= LEAST * 4 && (b->mem_bytes > g->free / 2 || cuMemAlloc_v2(&b->mem, b->mem_bytes) != 0))
        b->mem_bytes /= 2;
    if (!b->mem) return "the device has less than 64 MiB of memory to measure with";
    for (int i = 0; i < 2; i++)
        if (cuStreamCreate(&b->stream[i], 1) != 0) return "the device gives no stream";
    return NULL;
}

/* Copies of half the pinned memory, in pieces. */
static call copy_down(const struct bench *b)
{
    call bad = 0;
    for (size_t at = 0; at < b->host_bytes / 2; at += COPY)
        bad |= cuMemcpyHtoDAsync_v2(b->mem + at % (b->mem_bytes / 2), b->host + at, COPY, b->stream[0]);
    return bad;
}
static call copy_up(const struct bench *b)
{
    call bad = 0;
    for (size_t at = 0; at < b->host_bytes / 2; at += COPY)
        bad |= cuMemcpyDtoHAsync_v2(b->host + b->host_bytes / 2 + at,
                                    b->mem + b->mem_bytes / 2 + at % (b->mem_bytes / 2), COPY, b->stream[1]);
    return bad;
}

/* Best rate of some rounds; with both ways, of each until both have ended. */
static double measure_link(const struct bench *b, int down, int up)
{
    double best = 0;
    for (int i = 0; i < ROUNDS; i++) {
        const double from = now();
        if ((down && copy_down(b) != 0) || (up && copy_up(b) != 0) || cuCtxSynchronize() != 0) return 0;
        const double rate = (double)(b->host_bytes / 2) / (now() - from);
        if (rate > best) best = rate;
    }
    return best;
}

/* Reading the device's memory: by a kernel, or where the driver does not compile it, half of copying. */
static void measure_vram(struct gpu_found *g, const struct bench *b)
{
    void *module = NULL, *kernel = NULL;
    uint64_t n = b->mem_bytes / 16;
    device_ptr p = b->mem, out = b->mem;
    void *args[] = { &p, &n, &out };
    const int reads = cuModuleLoadData(&module, read_ptx) == 0 && cuModuleGetFunction(&kernel, module, "read_all") == 0;
    n = n / (4 * THREADS * BLOCKS) * (4 * THREADS * BLOCKS);
    for (int i = 0; i < 2 * ROUNDS; i++) {
        const double from = now();
        const call bad = reads ? cuLaunchKernel(kernel, BLOCKS, 1, 1, THREADS, 1, 1, 0, b->stream[0], args, NULL)
                               : cuMemcpyDtoDAsync_v2(p, p + b->mem_bytes / 2, b->mem_bytes / 2, b->stream[0]);
        if (bad != 0 || cuStreamSynchronize(b->stream[0]) != 0) return;
        const double rate = (reads ? (double)n * 16 : (double)b->mem_bytes) / (now() - from);
        if (rate > g->vram) g->vram = rate;
    }
}

/* The cores read memory while the link copies from it. */
static void measure_busy(struct gpu_found *g, const struct bench *b, double (*cpu)(void *), void *ctx)
{
    atomic_int done = 0;
    omp_set_max_active_levels(2);
#pragma omp parallel num_threads(2)
    {
        if (omp_get_thread_num() == 0) {
            g->cpu = cpu(ctx);
            atomic_store(&done, 1);
        } else {
            double bytes = 0;
            const double from = now();
            cuCtxSetCurrent(context); /* is a thread's own */
            while (!atomic_load(&done)) {
                if (copy_down(b) != 0 || cuStreamSynchronize(b->stream[0]) != 0) break;
                bytes += (double)(b->host_bytes / 2);
            }
            g->busy_down = bytes / (now() - from);
        }
    }
}

const char *probe_gpu(struct gpu_found *g, double (*cpu)(void *), void *ctx)
{
    struct bench b = { 0 };
    memset(g, 0, sizeof *g);
    const char *why = load_driver();
    if (!why) why = open_device(g);
    if (!why) why = take_memory(g, &b);
    if (why) return why;
    measure_vram(g, &b);
    g->down = measure_link(&b, 1, 0);
    g->up = measure_link(&b, 0, 1);
    g->both = measure_link(&b, 1, 1);
    measure_busy(g, &b, cpu, ctx);
    cuMemFree_v2(b.mem);
    cuMemFreeHost(b.host);
    return g->vram > 0 && g->down > 0 && g->up > 0 && g->both > 0 && g->busy_down > 0
               ? NULL
               : "a copy or a kernel failed";
}
