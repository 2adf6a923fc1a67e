/* device.c -- the CUDA runtime calls that the engine makes; nobody else makes any.
 *
 * Kernels come from images inside this file's program, one stream runs them, and
 * the driver is a shared library that may be missing: cudart is static and says so.
 */
#include "device.h"
#include "machine.h"

#include <cuda_runtime.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { MANY = 128 };
#define REACH_CHUNK (UINT64_C(1) << 26) /* while one is registered, the driver starts nothing */

struct ig_device {
    unsigned char *mem;
    cudaStream_t stream;
    cudaLibrary_t image[IG_N_IMAGE];
    cudaStream_t copies;
    cudaEvent_t filled[2], free[2];
    cudaGraphExec_t graph;
    unsigned char *reach;             /* host memory that is registered, in chunks of REACH_CHUNK */
    uint64_t reach_bytes, reach_want; /* so far, written by who registers; in the end */
    pthread_t reacher;                /* registers the rest */
    int reach_thread, reaching, reach_stop;
    uint64_t free_before;
    uint64_t slow; /* bytes a second that copies are slowed to; 0: none */
    double idle;   /* when such a link has brought what was asked for */
    struct ig_device_calls calls;
    char name[MANY];
    int units;
};

static struct ig_device device;

static void must(cudaError_t e, const char *what)
{
    if (e != cudaSuccess) ig_die("device: %s: %s", what, cudaGetErrorString(e));
}

static enum ig_err may(cudaError_t e, const char *what, enum ig_err err, struct ig_why *why)
{
    if (e == cudaSuccess) return IG_OK;
    /* Another program has it: that is no device less. */
    if (e == cudaErrorMemoryAllocation) err = IG_NO_MEM;
    return ig_fail(why, err, "device: %s: %s", what, cudaGetErrorString(e));
}

/* Is there a driver, new enough, and a device of the planned architecture? */
static enum ig_err find(const char *arch, struct ig_why *why)
{
    struct cudaDeviceProp p;
    char found[16];
    int n = 0, driver = 0, built = 0;
    const cudaError_t e = cudaGetDeviceCount(&n);
    cudaDriverGetVersion(&driver);
    cudaRuntimeGetVersion(&built);
    if (driver == 0) return ig_fail(why, IG_NO_DEVICE, "device: this machine has no CUDA driver");
    if (e == cudaErrorInsufficientDriver)
        return ig_fail(why, IG_NO_DEVICE,
                       "device: want a driver for CUDA %d.%d or newer, got one for %d.%d",
                       built / 1000, built / 10 % 100, driver / 1000, driver / 10 % 100);
    if (e != cudaSuccess || n == 0)
        return ig_fail(why, IG_NO_DEVICE, "device: none found: %s",
                       cudaGetErrorString(e == cudaSuccess ? cudaErrorNoDevice : e));
    if (cudaGetDeviceProperties(&p, 0) != cudaSuccess)
        return ig_fail(why, IG_NO_DEVICE, "device: it does not say what it is");
    snprintf(found, sizeof found, "sm_%d%d", p.major, p.minor);
    if (strcmp(found, arch) != 0)
        return ig_fail(why, IG_NO_DEVICE, "device: want architecture %s, got %s (%s)", arch, found,
                       p.name);
    device.units = p.multiProcessorCount;
    snprintf(device.name, sizeof device.name, "%.64s, %s, driver %d.%d, %.1f GiB", p.name, found,
             driver / 1000, driver / 10 % 100, (double)p.totalGlobalMem / (1 << 30));
    return IG_OK;
}

static enum ig_err load_images(struct ig_why *why)
{
    const void *const code[IG_N_IMAGE] = { ig_image_step, ig_image_batch };
    enum ig_err err = IG_OK;
    for (int i = 0; i < IG_N_IMAGE && err == IG_OK; i++)
        err = may(cudaLibraryLoadData(&device.image[i], code[i], NULL, NULL, 0, NULL, NULL, 0),
                  "loading the kernels", IG_NO_DEVICE, why);
    return err;
}

static enum ig_err take_memory(uint64_t bytes, struct ig_why *why)
{
    size_t left = 0, all = 0;
    enum ig_err err = may(cudaMemGetInfo(&left, &all), "asking for its memory", IG_NO_DEVICE, why);
    if (err != IG_OK) return err;
    device.free_before = left;
    if (left < bytes)
        return ig_fail(why, IG_NO_MEM,
                       "device: the plan needs %" PRIu64
                       " MiB of its memory, %zu of %zu MiB are free",
                       bytes >> 20, left >> 20, all >> 20);
    device.calls.takes++;
    return may(cudaMalloc((void **)&device.mem, bytes), "taking the planned memory", IG_NO_MEM,
               why);
}

enum ig_err ig_device_open(struct ig_device **d, const char *arch, uint64_t bytes,
                           struct ig_why *why)
{
    memset(&device, 0, sizeof device);
    enum ig_err err = find(arch, why);
    if (err == IG_OK) err = may(cudaSetDevice(0), "choosing it", IG_NO_DEVICE, why);
    if (err == IG_OK) err = load_images(why);
    if (err == IG_OK) err = take_memory(bytes, why);
    if (err == IG_OK)
        err = may(cudaStreamCreateWithFlags(&device.stream, cudaStreamNonBlocking), "a stream",
                  IG_NO_MEM, why);
    if (err == IG_OK)
        err = may(cudaStreamCreateWithFlags(&device.copies, cudaStreamNonBlocking), "a stream",
                  IG_NO_MEM, why);
    for (int i = 0; i < 2 && err == IG_OK; i++) {
        err = may(cudaEventCreateWithFlags(&device.filled[i], cudaEventDisableTiming), "an event",
                  IG_NO_MEM, why);
        if (err == IG_OK)
            err = may(cudaEventCreateWithFlags(&device.free[i], cudaEventDisableTiming), "an event",
                      IG_NO_MEM, why);
    }
    if (err != IG_OK)
        ig_device_close(&device);
    else
        *d = &device;
    return err;
}

void ig_device_close(struct ig_device *d)
{
    if (d->graph) cudaGraphExecDestroy(d->graph);
    for (int i = 0; i < 2; i++) {
        if (d->filled[i]) cudaEventDestroy(d->filled[i]);
        if (d->free[i]) cudaEventDestroy(d->free[i]);
        d->filled[i] = d->free[i] = NULL;
    }
    if (d->copies) cudaStreamDestroy(d->copies);
    d->copies = NULL;
    ig_device_unreach(d);
    if (d->stream) cudaStreamDestroy(d->stream);
    if (d->mem) cudaFree(d->mem);
    for (int i = 0; i < IG_N_IMAGE; i++)
        if (d->image[i]) cudaLibraryUnload(d->image[i]);
    d->graph = NULL;
    d->stream = NULL;
    d->mem = NULL;
    memset(d->image, 0, sizeof d->image);
}

const char *ig_device_name(const struct ig_device *d) { return d->name; }
int ig_device_units(const struct ig_device *d) { return d->units; }
unsigned char *ig_device_mem(const struct ig_device *d) { return d->mem; }

uint64_t ig_device_used(const struct ig_device *d)
{
    size_t left = 0, all = 0;
    must(cudaMemGetInfo(&left, &all), "asking for its memory");
    return d->free_before - left;
}

void *ig_device_pin(struct ig_device *d, uint64_t bytes, void **on_device)
{
    void *host = NULL;
    d->calls.takes++;
    if (cudaHostAlloc(&host, bytes, cudaHostAllocMapped | cudaHostAllocPortable) != cudaSuccess)
        return NULL;
    if (on_device) must(cudaHostGetDevicePointer(on_device, host, 0), "mapping host memory");
    return host;
}

void ig_device_unpin(struct ig_device *d, void *host)
{
    (void)d;
    cudaFreeHost(host);
}

/* Register the next chunk; 0: the system allows no more. */
static int reach_chunk(struct ig_device *d)
{
    const uint64_t at = d->reach_bytes, left = d->reach_want - at;
    const uint64_t n = left < REACH_CHUNK ? left : REACH_CHUNK;
    void *seen = NULL;
    __atomic_fetch_add(&d->calls.takes, 1, __ATOMIC_RELAXED);
    if (cudaHostRegister(d->reach + at, n, cudaHostRegisterMapped | cudaHostRegisterPortable) !=
        cudaSuccess) {
        cudaGetLastError(); /* the caller's to tell */
        return 0;
    }
    if (cudaHostGetDevicePointer(&seen, d->reach + at, 0) != cudaSuccess || seen != d->reach + at) {
        cudaHostUnregister(d->reach + at);
        cudaGetLastError();
        return 0;
    }
    __atomic_store_n(&d->reach_bytes, at + n, __ATOMIC_RELEASE);
    return 1;
}

static void *reach_rest(void *arg)
{
    struct ig_device *d = arg;
    if (cudaSetDevice(0) == cudaSuccess)
        while (d->reach_bytes < d->reach_want && !__atomic_load_n(&d->reach_stop, __ATOMIC_RELAXED))
            if (!reach_chunk(d)) break;
    __atomic_store_n(&d->reaching, 0, __ATOMIC_RELEASE);
    return NULL;
}

uint64_t ig_device_reach(struct ig_device *d, void *host, uint64_t bytes, uint64_t now,
                         void (*progress)(const char *what, uint64_t done, uint64_t total))
{
    int more = 1;
    d->reach = host;
    d->reach_want = bytes;
    while (more && d->reach_bytes < bytes && d->reach_bytes < now) {
        more = reach_chunk(d);
        if (more && progress) progress("pinning experts", d->reach_bytes, bytes);
    }
    d->reach_stop = 0;
    d->reaching = more && d->reach_bytes < bytes;
    d->reach_thread = d->reaching && pthread_create(&d->reacher, NULL, reach_rest, d) == 0;
    if (!d->reach_thread) d->reaching = 0;
    return ig_device_reached(d);
}

uint64_t ig_device_reached(struct ig_device *d)
{
    return __atomic_load_n(&d->reach_bytes, __ATOMIC_ACQUIRE);
}
int ig_device_reaching(struct ig_device *d)
{
    return __atomic_load_n(&d->reaching, __ATOMIC_ACQUIRE);
}

void ig_device_unreach(struct ig_device *d)
{
    __atomic_store_n(&d->reach_stop, 1, __ATOMIC_RELAXED);
    if (d->reach_thread) pthread_join(d->reacher, NULL);
    d->reach_thread = 0;
    for (uint64_t at = 0; at < d->reach_bytes; at += REACH_CHUNK) cudaHostUnregister(d->reach + at);
    d->reach_bytes = d->reach_want = 0;
}

/* A copy stays inside one registration, or outside of all: others are refused.  The next chunk may
 * become one at any time, so the borders of those to come count, too. */
static uint64_t piece_of(const struct ig_device *d, const unsigned char *from, uint64_t bytes)
{
    if (from < d->reach || from >= d->reach + d->reach_want) return bytes;
    const uint64_t at = (uint64_t)(from - d->reach);
    uint64_t left = REACH_CHUNK - at % REACH_CHUNK;
    if (left > d->reach_want - at) left = d->reach_want - at;
    return bytes < left ? bytes : left;
}

double ig_device_link(struct ig_device *d)
{
    enum { BYTES = 64 << 20, ROUNDS = 4 };
    void *host = NULL, *to = NULL;
    double best = 0.0;
    if (cudaHostAlloc(&host, BYTES, cudaHostAllocPortable) == cudaSuccess &&
        cudaMalloc(&to, BYTES) == cudaSuccess) {
        memset(host, 0, BYTES);
        for (int i = 0; i < ROUNDS; i++) {
            const double from = ig_seconds();
            must(cudaMemcpyAsync(to, host, BYTES, cudaMemcpyHostToDevice, d->copies),
                 "measuring its link");
            must(cudaStreamSynchronize(d->copies), "measuring its link");
            const double rate = BYTES / (ig_seconds() - from);
            if (rate > best) best = rate;
        }
    }
    cudaGetLastError(); /* no memory for this is no fault */
    if (to) cudaFree(to);
    if (host) cudaFreeHost(host);
    return best;
}

/* In the copies' stream, behind one: it ends no sooner than a slow link would let it, at so many
 * us.  It sleeps through, since all processors may be at work. */
static void copy_ends(void *arg)
{
    const double until = 1e-6 * (double)(uintptr_t)arg;
    for (double left; (left = until - ig_seconds()) > 0.0;) {
        const struct timespec t = { .tv_nsec = (long)(1e9 * (left < 0.5 ? left : 0.5)) };
        nanosleep(&t, NULL);
    }
}
struct ig_device_calls ig_device_calls(const struct ig_device *d) { return d->calls; }

void ig_device_slow(struct ig_device *d, uint64_t bw) { d->slow = bw; }

/* -> how many copies it took */
static uint64_t copy(struct ig_device *d, void *dst, const void *host, uint64_t bytes)
{
    uint64_t pieces = 0;
    const double now = ig_seconds();
    for (uint64_t at = 0, n; at < bytes; at += n) {
        const unsigned char *from = (const unsigned char *)host + at;
        n = piece_of(d, from, bytes - at);
        pieces++;
        must(cudaMemcpyAsync((unsigned char *)dst + at, from, n, cudaMemcpyHostToDevice, d->copies),
             "copying to it");
    }
    if (d->slow) {
        d->idle = (d->idle > now ? d->idle : now) + (double)bytes / (double)d->slow;
        must(cudaLaunchHostFunc(d->copies, copy_ends, (void *)(uintptr_t)(1e6 * d->idle)),
             "slowing copies");
    }
    return pieces;
}

void ig_device_copy(struct ig_device *d, void *dst, const void *host, uint64_t bytes, int slot)
{
    must(cudaStreamWaitEvent(d->copies, d->free[slot], 0), "ordering copies");
    d->calls.copies += copy(d, dst, host, bytes);
    must(cudaEventRecord(d->filled[slot], d->copies), "ordering copies");
}
void ig_device_fetch(struct ig_device *d, void *dst, const void *host, uint64_t bytes, void *flag,
                     const uint32_t *value)
{
    d->calls.fetches += copy(d, dst, host, bytes) + 1;
    must(cudaMemcpyAsync(flag, value, sizeof *value, cudaMemcpyHostToDevice, d->copies),
         "copying to it");
}
void ig_device_filled(struct ig_device *d, int slot)
{
    must(cudaStreamWaitEvent(d->stream, d->filled[slot], 0), "ordering copies");
}
void ig_device_free(struct ig_device *d, int slot)
{
    must(cudaEventRecord(d->free[slot], d->stream), "ordering copies");
}

int ig_device_busy(struct ig_device *d)
{
    const cudaError_t e = cudaStreamQuery(d->stream);
    if (e == cudaErrorNotReady) return 1;
    must(e, "running the kernels");
    return 0;
}

void ig_device_fill(struct ig_device *d, uint64_t off, int byte, uint64_t bytes)
{
    must(cudaMemsetAsync(d->mem + off, byte, bytes, d->stream), "filling memory");
    ig_device_wait(d);
}

enum ig_err ig_device_put(struct ig_device *d, uint64_t off, const void *src, uint64_t bytes,
                          struct ig_why *why)
{
    d->calls.copies++;
    d->calls.waits++;
    return may(cudaMemcpy(d->mem + off, src, bytes, cudaMemcpyHostToDevice), "copying to it", IG_IO,
               why);
}

enum ig_err ig_device_kernel(struct ig_device *d, struct ig_kernel *k, int image, const char *name,
                             struct ig_why *why)
{
    cudaKernel_t kernel = NULL;
    enum ig_err err =
        may(cudaLibraryGetKernel(&kernel, d->image[image], name), name, IG_NO_DEVICE, why);
    /* The default limit is 48 KiB; more has to be asked for. */
    if (err == IG_OK && k->shared > 0)
        err = may(cudaKernelSetAttributeForDevice(
                      kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, k->shared, 0),
                  name, IG_NO_DEVICE, why);
    k->handle = (void *)kernel;
    return err;
}

void ig_device_launch(struct ig_device *d, const struct ig_kernel *k, int x, int y, int z,
                      const void *args)
{
    cudaLaunchAttribute early = { .id = cudaLaunchAttributeProgrammaticStreamSerialization };
    early.val.programmaticStreamSerializationAllowed = 1;
    const cudaLaunchConfig_t config = {
        .gridDim = { (unsigned)x, (unsigned)y, (unsigned)z },
        .blockDim = { (unsigned)k->threads, 1, 1 },
        .dynamicSmemBytes = (size_t)k->shared,
        .stream = d->stream,
        .attrs = &early,
        .numAttrs = k->alone ? 0 : 1,
    };
    d->calls.kernels++;
    void *list[1] = { (void *)(uintptr_t)args };
    must(cudaLaunchKernelExC(&config, k->handle, list), "launching a kernel");
}

void ig_device_get(struct ig_device *d, void *host, const void *src, uint64_t bytes)
{
    d->calls.copies++;
    must(cudaMemcpyAsync(host, src, bytes, cudaMemcpyDeviceToHost, d->stream), "copying from it");
}

void ig_device_wait(struct ig_device *d)
{
    d->calls.waits++;
    must(cudaStreamSynchronize(d->stream), "running the kernels");
}

void ig_device_record(struct ig_device *d)
{
    must(cudaStreamBeginCapture(d->stream, cudaStreamCaptureModeThreadLocal), "recording a graph");
}

void ig_device_recorded(struct ig_device *d)
{
    cudaGraph_t graph;
    must(cudaStreamEndCapture(d->stream, &graph), "recording a graph");
    must(cudaGraphInstantiate(&d->graph, graph, 0), "making a graph");
    must(cudaGraphDestroy(graph), "making a graph");
    must(cudaGraphUpload(d->graph, d->stream), "making a graph");
    ig_device_wait(d);
}

void ig_device_replay(struct ig_device *d)
{
    d->calls.graphs++;
    must(cudaGraphLaunch(d->graph, d->stream), "running a graph");
}
