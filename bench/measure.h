/* measure.h -- what the kernel benchmarks share: a pool that no cache holds, time, medians, plain
 * reading to compare with.
 *
 * Time is the CPU time of the slowest thread: the same as by the clock on a quiet machine, and
 * on a shared one what others' work leaves unchanged except for the memory they use.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "../kernels/math.h"
#include "../kernels/panel.h"

enum { REPS = 7 };
#define POOL_BYTES ((size_t)1600 << 20)
#define PASS_BYTES ((size_t)96 << 20)

static uint8_t *pool;

static double thread_time(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *v)
{
    qsort(v, REPS, sizeof *v, by_value);
    return v[REPS / 2];
}

/* Of two series whose values were measured in turn: the median of a / b - 1, per cent. */
static double gain(const double *a, const double *b)
{
    double ratio[REPS];
    for (int r = 0; r < REPS; r++) ratio[r] = a[r] / b[r];
    return 100 * (median(ratio) - 1);
}

/* Plain reading, as wide as the machine can: narrower loads read less on some. */
#define PLAIN_READ(name, isa, width, constraint)                                                   \
    __attribute__((target(isa))) static void name(const uint8_t *p, size_t bytes)                  \
    {                                                                                              \
        typedef uint64_t vec __attribute__((vector_size(width)));                                  \
        vec a = { 0 }, b = a, c = a, d = a;                                                        \
        for (size_t i = 0; i + 4 * width <= bytes; i += 4 * width) {                               \
            const vec *v = (const void *)(p + i);                                                  \
            a |= v[0];                                                                             \
            b |= v[1];                                                                             \
            c |= v[2];                                                                             \
            d |= v[3];                                                                             \
        }                                                                                          \
        a |= b | c | d;                                                                            \
        __asm__ volatile("" : : constraint(a));                                                    \
    }
PLAIN_READ(read_sse2, "sse2", 16, "x")
PLAIN_READ(read_avx2, "avx2", 32, "x")
PLAIN_READ(read_avx512, "avx512f", 64, "v")

static void (*plain_read)(const uint8_t *p, size_t bytes) = read_sse2;

/* The pool's scales must be ordinary numbers, whatever format reads them: bytes 0x30..0x37
 * are small positive f32, f16 and bf16.  Its pages are spread over the threads' nodes. */
static int prepare(int threads)
{
    (void)threads; /* unused without OpenMP */
    if (ig_cpu_features() & IG_CPU_AVX2) plain_read = read_avx2;
    if (ig_cpu_features() & IG_CPU_AVX512) plain_read = read_avx512;
    pool = mmap(NULL, POOL_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pool == MAP_FAILED) return 0;
    madvise(pool, POOL_BYTES, MADV_HUGEPAGE);
#pragma omp parallel for num_threads(threads)
    for (size_t i = 0; i < POOL_BYTES / 8; i++) {
        const uint64_t v =
            (i * 0x9e3779b97f4a7c15u >> 5 & 0x0707070707070707u) | 0x3030303030303030u;
        memcpy(pool + i * 8, &v, 8);
    }
    return 1;
}

/* Is `name` asked for: it is an argument, or none of `among` is. */
static int wanted(const char *name, int argc, char **argv, const char *const *among, int n)
{
    int named = 0;
    for (int a = 1; a < argc; a++) {
        for (int i = 0; i < n; i++) {
            if (strcmp(argv[a], among[i]) != 0) continue;
            if (strcmp(argv[a], name) == 0) return 1;
            named = 1;
        }
    }
    return !named;
}
