/* probe_memory.c -- how fast threads read memory that no cache holds. */
#define _GNU_SOURCE
#include "probe.h"

#include <errno.h>
#include <omp.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

enum { STRETCH = 32 << 20 }; /* bytes that one thread reads between two looks at the clock */
static const double least_seconds = 1.5; /* of a measurement's passes */

struct line { /* a cache line, in pieces that every 64-bit CPU loads at once */
    uint64_t __attribute__((vector_size(16))) v[4];
};

/* Reads every byte.  Four streams, each asked for 32 lines ahead: a single one reached a third less
 * on a server CPU, and it is not what weights are read with (runtime/base/machine.c). */
enum { STREAMS = 4, AHEAD = 32 };
__attribute__((noinline)) static uint64_t read_all(const struct line *p, size_t n)
{
    const size_t each = n / STREAMS;
    uint64_t __attribute__((vector_size(16))) a = { 0 }, b = a, c = a, d = a;
    for (size_t i = 0; i < each; i++)
        for (size_t s = 0; s < STREAMS; s++) {
            const struct line *at = p + s * each + i;
            __builtin_prefetch(at + AHEAD); /* past the end it does nothing */
            a ^= at->v[0];
            b ^= at->v[1];
            c ^= at->v[2];
            d ^= at->v[3];
        }
    a ^= b ^ c ^ d;
    return a[0] ^ a[1];
}

static volatile uint64_t sink; /* keeps the reads alive */

/* One stretch of the buffer, cut between the threads.  From the first start to
 * the last end: a thread that waits for its turn can only lower the rate. */
static double measure_stretch(const struct line *buf, size_t lines, int threads)
{
    double from = now() + 1e9, to = 0;
    uint64_t sum = 0;
#pragma omp parallel num_threads(threads) reduction(^ : sum) reduction(min : from) reduction(max : to)
    {
        const size_t share = lines / (size_t)threads;
        from = now();
        sum ^= read_all(buf + share * (size_t)omp_get_thread_num(), share);
        to = now();
    }
    sink = sum;
    const size_t read = lines / (size_t)threads / STREAMS * STREAMS * (size_t)threads;
    return (double)(read * sizeof *buf) / (to - from);
}

/* Best rate of `threads` threads.  Stretches are short (milliseconds), so that
 * some pass undisturbed by other programs, and follow each other through the
 * whole buffer, so that none is still in a cache. */
double measure_memory(const struct line *buf, uint64_t bytes, int threads, int *disturbed)
{
    const size_t all = bytes / sizeof *buf;
    size_t stretch = (size_t)threads * (STRETCH / sizeof *buf);
    if (stretch > all) stretch = all;
    const double began = now(), cpu = clock_seconds(CLOCK_PROCESS_CPUTIME_ID);
    double best = 0;
    for (int pass = 0; pass < LEAST_PASSES || now() - began < least_seconds; pass++)
        for (size_t at = 0; at + stretch <= all; at += stretch) {
            const double rate = measure_stretch(buf + at, stretch, threads);
            if (rate > best) best = rate;
        }
    /* A fifth of the time without a CPU: other programs had it. */
    const double had = clock_seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu;
    *disturbed |= had < 0.8 * threads * (now() - began);
    return best;
}

/* Far beyond the last cache level, but no more than half of what is free. */
struct line *make_buffer(uint64_t l3, uint64_t available, int threads, uint64_t *bytes)
{
    *bytes = 4 * l3 > 256 * MIB ? 4 * l3 : 256 * MIB;
    if (*bytes > available / 2) *bytes = available / 2;
    *bytes = *bytes / MIB * MIB;
    if (*bytes < 16 * MIB) fail("memory", "want 32 MiB free to measure with, got less");
    void *p = mmap(NULL, *bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) fail("memory", strerror(errno));
    madvise(p, *bytes, MADV_HUGEPAGE); /* as the engine does; without it the rate is only lower */
    struct line *buf = p;
    const int64_t lines = (int64_t)(*bytes / sizeof *buf);
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t i = 0; i < lines; i++) memset(&buf[i], (int)(i & 255), sizeof buf[i]);
    return buf;
}
