/* device_emu.c -- runtime/device/device.h without a device: kernels/cuda/ compiled as C, run at once.
 *
 * The device's memory is the host's.  A graph is the list of what was launched.
 */
#include "config.h"
#include "device.h"
#include "emulate_run.h"
#include "cuda/args.h"
#include "cuda/list.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

typedef void kernel_fn(const struct ig_args a);

#define X(name, threads, shared) void ig_##name##_rows1(const struct ig_args a);
IG_STEP_KERNELS(X)
#undef X
#define X(name, threads, shared) void ig_##name##_rows8(const struct ig_args a);
IG_BATCH_KERNELS(X)
#undef X

static const struct named {
    const char *name;
    int image;
    kernel_fn *fn;
} kernels[] = {
#define X(id, threads, shared) { "ig_" #id, IG_IMAGE_STEP, ig_##id##_rows1 },
    IG_STEP_KERNELS(X)
#undef X
#define X(id, threads, shared) { "ig_" #id, IG_IMAGE_BATCH, ig_##id##_rows8 },
    IG_BATCH_KERNELS(X)
#undef X
};
enum { N_KERNEL = sizeof kernels / sizeof *kernels, MOST_NODE = 4096 };

struct node { /* a launch, or a copy when fn is NULL */
    kernel_fn *fn;
    struct ig_args args;
    struct emu_index grid;
    int threads;
    void *dst;
    const void *src;
    uint64_t bytes;
};

enum { MOST_FETCH = 256 };
struct fetch {
    void *dst, *flag;
    const void *src;
    uint64_t bytes;
    const uint32_t *value;
};

struct ig_device {
    unsigned char *mem;
    int recording, n_node;
    struct node node[MOST_NODE]; /* the graph */
    pthread_t thread;            /* runs what was launched, in order, as a stream does */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint64_t put, run; /* launches so far; those that have ended */
    int closing;
    struct ig_device_calls calls;
    uint64_t chunk, reached, reach_want, slow;
    struct node queue[MOST_NODE];
    struct fetch fetch[MOST_FETCH];
    uint64_t asked, fetched; /* fetches so far; those that have ended */
    pthread_t fetcher;
};
static struct ig_device device;

static void run(const struct node *n)
{
    if (n->fn)
        emu_launch(n->fn, &n->args, n->grid, n->threads);
    else
        memcpy(n->dst, n->src, n->bytes);
}

static void *stream(void *arg)
{
    struct ig_device *d = arg;
    pthread_mutex_lock(&d->lock);
    for (;;) {
        while (d->run == d->put && !d->closing) pthread_cond_wait(&d->changed, &d->lock);
        if (d->run == d->put) break;
        struct node *n = &d->queue[d->run % MOST_NODE];
        pthread_mutex_unlock(&d->lock);
        run(n);
        pthread_mutex_lock(&d->lock);
        d->run++;
        pthread_cond_broadcast(&d->changed);
    }
    pthread_mutex_unlock(&d->lock);
    return NULL;
}

/* The copies' stream, slow and at odd times: where a fetch goes there is garbage until it has come. */
static void fetch_one(const struct fetch *f, unsigned *seed)
{
    static const long ns[] = { 0, 1000000, 20000000, 80000000, 200000000 };
    *seed = *seed * 1103515245u + 12345u;
    const struct timespec t = { .tv_nsec = ns[*seed / 65536 % 5] };
    memset(f->dst, 0xff, f->bytes);
    nanosleep(&t, NULL);
    memcpy(f->dst, f->src, f->bytes);
    __atomic_store_n((uint32_t *)f->flag, *f->value, __ATOMIC_RELEASE);
}
static void *fetcher(void *arg)
{
    struct ig_device *d = arg;
    unsigned seed = 1;
    pthread_mutex_lock(&d->lock);
    for (;;) {
        while (d->fetched == d->asked && !d->closing) pthread_cond_wait(&d->changed, &d->lock);
        if (d->fetched == d->asked) break;
        const struct fetch f = d->fetch[d->fetched % MOST_FETCH];
        pthread_mutex_unlock(&d->lock);
        fetch_one(&f, &seed);
        pthread_mutex_lock(&d->lock);
        d->fetched++;
        pthread_cond_broadcast(&d->changed);
    }
    pthread_mutex_unlock(&d->lock);
    return NULL;
}
void ig_device_fetch(struct ig_device *d, void *dst, const void *host, uint64_t bytes, void *flag,
                     const uint32_t *value)
{
    pthread_mutex_lock(&d->lock);
    if (d->asked - d->fetched == MOST_FETCH) ig_die("emulated device: more than %d fetches", MOST_FETCH);
    d->fetch[d->asked++ % MOST_FETCH] = (struct fetch){ dst, flag, host, bytes, value };
    d->calls.fetches++;
    pthread_cond_broadcast(&d->changed);
    pthread_mutex_unlock(&d->lock);
}
static void fetches_end(struct ig_device *d)
{
    pthread_mutex_lock(&d->lock);
    while (d->fetched < d->asked) pthread_cond_wait(&d->changed, &d->lock);
    pthread_mutex_unlock(&d->lock);
}

static void push(struct ig_device *d, const struct node *n)
{
    pthread_mutex_lock(&d->lock);
    while (d->put - d->run == MOST_NODE) pthread_cond_wait(&d->changed, &d->lock);
    d->queue[d->put++ % MOST_NODE] = *n;
    pthread_cond_broadcast(&d->changed);
    pthread_mutex_unlock(&d->lock);
}

struct ig_device_calls ig_device_calls(const struct ig_device *d) { return d->calls; }

void ig_device_wait(struct ig_device *d)
{
    d->calls.waits++;
    pthread_mutex_lock(&d->lock);
    while (d->run < d->put) pthread_cond_wait(&d->changed, &d->lock);
    pthread_mutex_unlock(&d->lock);
}

int ig_device_busy(struct ig_device *d)
{
    pthread_mutex_lock(&d->lock);
    const int busy = d->run < d->put;
    pthread_mutex_unlock(&d->lock);
    return busy;
}

enum ig_err ig_device_open(struct ig_device **d, const char *arch, uint64_t bytes,
                           struct ig_why *why)
{
    (void)arch;
    if (getenv("INGOT_NO_DEVICE")) return ig_fail(why, IG_NO_DEVICE, "device: none is emulated");
    device.mem = aligned_alloc(4096, (bytes + 4095) & ~UINT64_C(4095));
    if (!device.mem) return ig_fail(why, IG_NO_MEM, "device: no memory");
    device.calls = (struct ig_device_calls){ 0 };
    device.n_node = device.closing = 0;
    device.put = device.run = 0;
    pthread_mutex_init(&device.lock, NULL);
    pthread_cond_init(&device.changed, NULL);
    device.asked = device.fetched = 0;
    if (pthread_create(&device.thread, NULL, stream, &device) != 0 ||
        pthread_create(&device.fetcher, NULL, fetcher, &device) != 0)
        ig_die("emulated device: no thread");
    *d = &device;
    return IG_OK;
}

void ig_device_close(struct ig_device *d)
{
    if (!d->mem) return;
    pthread_mutex_lock(&d->lock);
    d->closing = 1;
    pthread_cond_broadcast(&d->changed);
    pthread_mutex_unlock(&d->lock);
    pthread_join(d->thread, NULL);
    pthread_join(d->fetcher, NULL);
    free(d->mem);
    d->mem = NULL;
}

int ig_device_units(const struct ig_device *d) { return (void)d, 1; } /* few: blocks have several items */
const char *ig_device_name(const struct ig_device *d) { return (void)d, "emulated"; }
double ig_device_link(struct ig_device *d) { return (void)d, 0.0; }
uint64_t ig_device_used(const struct ig_device *d) { return (void)d, 0; }
unsigned char *ig_device_mem(const struct ig_device *d) { return d->mem; }

void *ig_device_pin(struct ig_device *d, uint64_t bytes, void **on_device)
{
    void *p = aligned_alloc(4096, (bytes + 4095) & ~UINT64_C(4095));
    d->calls.takes++;
    if (on_device) *on_device = p;
    return p;
}

void ig_device_unpin(struct ig_device *d, void *host)
{
    (void)d;
    free(host);
}

void ig_device_fill(struct ig_device *d, uint64_t off, int byte, uint64_t bytes)
{
    ig_device_wait(d);
    memset(d->mem + off, byte, bytes);
}

enum ig_err ig_device_put(struct ig_device *d, uint64_t off, const void *src, uint64_t bytes,
                          struct ig_why *why)
{
    (void)why;
    ig_device_wait(d);
    memcpy(d->mem + off, src, bytes);
    return IG_OK;
}

enum ig_err ig_device_kernel(struct ig_device *d, struct ig_kernel *k, int image, const char *name,
                             struct ig_why *why)
{
    (void)d;
    for (int i = 0; i < N_KERNEL; i++)
        if (kernels[i].image == image && strcmp(kernels[i].name, name) == 0) {
            k->handle = (void *)(uintptr_t)&kernels[i];
            return IG_OK;
        }
    return ig_fail(why, IG_NO_DEVICE, "device: no kernel %s", name);
}

static void add(struct ig_device *d, const struct node *n)
{
    if (!d->recording) {
        push(d, n);
        return;
    }
    if (d->n_node == MOST_NODE) ig_die("emulated device: more than %d nodes", MOST_NODE);
    d->node[d->n_node++] = *n;
}

void ig_device_launch(struct ig_device *d, const struct ig_kernel *k, int x, int y, int z,
                      const void *args)
{
    d->calls.kernels++;
    const struct named *named = k->handle;
    const struct node n = { .fn = named->fn,
                            .args = *(const struct ig_args *)args,
                            .grid = { (unsigned)x, (unsigned)y, (unsigned)z },
                            .threads = k->threads };
    add(d, &n);
}

void ig_device_get(struct ig_device *d, void *host, const void *src, uint64_t bytes)
{
    d->calls.copies++;
    const struct node n = { .dst = host, .src = src, .bytes = bytes };
    add(d, &n);
}

/* INGOT_PIN_CHUNK: bytes that are pinned at once, and that each question finds pinned more. */
uint64_t ig_device_reach(struct ig_device *d, void *host, uint64_t bytes, uint64_t now,
                         void (*progress)(const char *what, uint64_t done, uint64_t total))
{
    const char *chunk = getenv("INGOT_PIN_CHUNK");
    (void)host, (void)progress, (void)now;
    d->chunk = chunk ? strtoull(chunk, NULL, 10) : bytes;
    d->reach_want = bytes;
    d->reached = 0;
    return ig_device_reached(d);
}
uint64_t ig_device_reached(struct ig_device *d)
{
    const uint64_t left = d->reach_want - d->reached;
    return d->reached += left < d->chunk ? left : d->chunk;
}
int ig_device_reaching(struct ig_device *d) { return d->reached < d->reach_want; }
void ig_device_unreach(struct ig_device *d) { d->reached = d->reach_want = 0; }
void ig_device_copy(struct ig_device *d, void *dst, const void *host, uint64_t bytes, int slot)
{
    (void)slot;
    ig_device_wait(d);
    fetches_end(d);
    memcpy(dst, host, bytes);
    const double s = d->slow ? (double)bytes / (double)d->slow : 0.0;
    const struct timespec t = { (time_t)s, (long)(1e9 * (s - (double)(time_t)s)) };
    if (d->slow) nanosleep(&t, NULL);
}
void ig_device_slow(struct ig_device *d, uint64_t bw) { d->slow = bw; }
void ig_device_filled(struct ig_device *d, int slot) { (void)d, (void)slot; }
void ig_device_free(struct ig_device *d, int slot) { (void)d, (void)slot; }
void ig_device_record(struct ig_device *d) { d->recording = 1; }
void ig_device_recorded(struct ig_device *d) { d->recording = 0; }
void ig_device_replay(struct ig_device *d)
{
    d->calls.graphs++;
    for (int i = 0; i < d->n_node; i++) push(d, &d->node[i]);
}
