/* cpu.c -- which order of weights and how many parts suit the CPU: AVX-512 GEMV of
 * candidates A (panel.h) and B (16-byte runs of one row), P = 4, 8, 16.
 *
 * B's tiles: Q4_0 16 scales, 16 rows x 16 B (low nibbles columns 0..15, high 16..31);
 * Q8_0 16 scales, 2 halves x 16 rows x 16 B; BF16 16 rows x 8 columns.
 * Prints CSV: format,layout,P,threads,GB/s,percent of plain reading; medians of
 * interleaved passes over 1.5 GB.  No software prefetch: see bench/LOG.tsv for that.
 *
 * gcc -std=gnu11 -O2 -fopenmp -ffp-contract=off -march=icelake-server bench/layout/cpu.c
 */
#include <immintrin.h>
#include <math.h>
#include <omp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "../../kernels/kernels.h"

enum { COLS = 2048, NB = COLS / 32, REPS = 9 };
#define BYTES  ((size_t)1536 << 20)
#define INLINE static inline __attribute__((always_inline))

static struct ig_xq xq[NB];
static float xf[COLS], xeo[COLS]; /* xeo: per 8 columns the even ones, then the odd ones */

INLINE void finish(float *y, __m512 *a, int parts)
{
    for (int h = parts / 2; h; h /= 2)
        for (int i = 0; i < h; i++) a[i] = _mm512_add_ps(a[i], a[i + h]);
    _mm512_storeu_ps(y, a[0]);
}

INLINE __m512 enter(__m512 acc, __m512i s, const uint8_t *p, const struct ig_xq *x)
{
    const __m512 d = _mm512_cvtph_ps(_mm256_loadu_si256((const void *)p));
    return _mm512_fmadd_ps(_mm512_mul_ps(d, _mm512_set1_ps(x->d)), _mm512_cvtepi32_ps(s), acc);
}

INLINE __m512i spread4(const void *p) { return _mm512_broadcastd_epi32(_mm_loadu_si32(p)); }

INLINE __m512 q4_a(__m512 acc, const uint8_t *p, const struct ig_xq *x)
{
    const __m512i low = _mm512_set1_epi8(15);
    __m512i s = _mm512_set1_epi32(-8 * x->sum), s1 = _mm512_setzero_si512();
#pragma GCC unroll 4
    for (int k = 0; k < 4; k++) {
        const __m512i v = _mm512_loadu_si512(p + 32 + 64 * k);
        s = _mm512_dpbusd_epi32(s, _mm512_and_si512(v, low), spread4(x->q + 8 * k));
        s1 = _mm512_dpbusd_epi32(s1, _mm512_and_si512(_mm512_srli_epi16(v, 4), low),
                                 spread4(x->q + 8 * k + 4));
    }
    return enter(acc, _mm512_add_epi32(s, s1), p, x);
}

INLINE __m512 q8_a(__m512 acc, const uint8_t *p, const struct ig_xq *x)
{
    __m512i s = _mm512_set1_epi32(-128 * x->sum), s1 = _mm512_setzero_si512();
#pragma GCC unroll 4
    for (int k = 0; k < 8; k += 2) {
        s = _mm512_dpbusd_epi32(s, _mm512_loadu_si512(p + 32 + 64 * k), spread4(x->q + 4 * k));
        s1 =
            _mm512_dpbusd_epi32(s1, _mm512_loadu_si512(p + 96 + 64 * k), spread4(x->q + 4 * k + 4));
    }
    return enter(acc, _mm512_add_epi32(s, s1), p, x);
}

/* Four vectors of 4 rows x 4 partial sums -> 16 row sums (rows in the order of B's scales). */
INLINE __m512i fold(const __m512i s[4])
{
    const __m512i a =
        _mm512_add_epi32(_mm512_unpacklo_epi32(s[0], s[1]), _mm512_unpackhi_epi32(s[0], s[1]));
    const __m512i b =
        _mm512_add_epi32(_mm512_unpacklo_epi32(s[2], s[3]), _mm512_unpackhi_epi32(s[2], s[3]));
    return _mm512_add_epi32(_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b));
}

INLINE __m512 q4_b(__m512 acc, const uint8_t *p, const struct ig_xq *x)
{
    const __m512i low = _mm512_set1_epi8(15);
    const __m512i x0 = _mm512_broadcast_i32x4(_mm_loadu_si128((const void *)x->q));
    const __m512i x1 = _mm512_broadcast_i32x4(_mm_loadu_si128((const void *)(x->q + 16)));
    __m512i s[4];
#pragma GCC unroll 4
    for (int k = 0; k < 4; k++) {
        const __m512i v = _mm512_loadu_si512(p + 32 + 64 * k);
        s[k] = _mm512_dpbusd_epi32(_mm512_setzero_si512(), _mm512_and_si512(v, low), x0);
        s[k] = _mm512_dpbusd_epi32(s[k], _mm512_and_si512(_mm512_srli_epi16(v, 4), low), x1);
    }
    return enter(acc, _mm512_add_epi32(fold(s), _mm512_set1_epi32(-8 * x->sum)), p, x);
}

INLINE __m512 q8_b(__m512 acc, const uint8_t *p, const struct ig_xq *x)
{
    const __m512i x0 = _mm512_broadcast_i32x4(_mm_loadu_si128((const void *)x->q));
    const __m512i x1 = _mm512_broadcast_i32x4(_mm_loadu_si128((const void *)(x->q + 16)));
    __m512i s[4];
#pragma GCC unroll 4
    for (int k = 0; k < 4; k++) {
        s[k] = _mm512_dpbusd_epi32(_mm512_setzero_si512(), _mm512_loadu_si512(p + 32 + 64 * k), x0);
        s[k] = _mm512_dpbusd_epi32(s[k], _mm512_loadu_si512(p + 288 + 64 * k), x1);
    }
    return enter(acc, _mm512_add_epi32(fold(s), _mm512_set1_epi32(-128 * x->sum)), p, x);
}

#define BLOCK_PANEL(name, tile, parts, step)                                                       \
    static void name(float *y, const uint8_t *p)                                                   \
    {                                                                                              \
        __m512 acc[parts];                                                                         \
        _Pragma("GCC unroll 16") for (int i = 0; i < parts; i++) acc[i] = _mm512_setzero_ps();     \
        for (int b = 0; b < NB; b += parts, p += parts * tile) {                                   \
            _Pragma("GCC unroll 16") for (int i = 0; i < parts; i++) acc[i] =                      \
                step(acc[i], p + i * tile, xq + b + i);                                            \
        }                                                                                          \
        finish(y, acc, parts);                                                                     \
    }
BLOCK_PANEL(q4_a4, 288, 4, q4_a)
BLOCK_PANEL(q4_a8, 288, 8, q4_a)
BLOCK_PANEL(q4_a16, 288, 16, q4_a)
BLOCK_PANEL(q4_b4, 288, 4, q4_b)
BLOCK_PANEL(q4_b8, 288, 8, q4_b)
BLOCK_PANEL(q4_b16, 288, 16, q4_b)
BLOCK_PANEL(q8_a4, 544, 4, q8_a)
BLOCK_PANEL(q8_a8, 544, 8, q8_a)
BLOCK_PANEL(q8_a16, 544, 16, q8_a)
BLOCK_PANEL(q8_b4, 544, 4, q8_b)
BLOCK_PANEL(q8_b8, 544, 8, q8_b)
BLOCK_PANEL(q8_b16, 544, 16, q8_b)

INLINE __m512 bf_even(__m512i v) { return _mm512_castsi512_ps(_mm512_slli_epi32(v, 16)); }
INLINE __m512 bf_odd(__m512i v)
{
    return _mm512_castsi512_ps(_mm512_and_si512(v, _mm512_set1_epi32(-65536)));
}

#define BF_A(name, parts)                                                                          \
    static void name(float *y, const uint8_t *p)                                                   \
    {                                                                                              \
        __m512 acc[parts];                                                                         \
        _Pragma("GCC unroll 16") for (int i = 0; i < parts; i++) acc[i] = _mm512_setzero_ps();     \
        for (int c = 0; c < COLS; c += 2 * parts, p += parts * 64) {                               \
            _Pragma("GCC unroll 16") for (int i = 0; i < parts; i++)                               \
            {                                                                                      \
                const __m512i v = _mm512_loadu_si512(p + 64 * i);                                  \
                acc[i] = _mm512_fmadd_ps(bf_even(v), _mm512_set1_ps(xf[c + 2 * i]), acc[i]);       \
                acc[i] = _mm512_fmadd_ps(bf_odd(v), _mm512_set1_ps(xf[c + 2 * i + 1]), acc[i]);    \
            }                                                                                      \
        }                                                                                          \
        finish(y, acc, parts);                                                                     \
    }
BF_A(bf_a4, 4)
BF_A(bf_a8, 8)
BF_A(bf_a16, 16)

/* Lanes are 4 rows x 4 parts; a tile feeds 4 accumulators, parts / 4 tiles take turns. */
#define BF_B(name, parts)                                                                          \
    static void name(float *y, const uint8_t *p)                                                   \
    {                                                                                              \
        __m512 acc[parts];                                                                         \
        _Pragma("GCC unroll 16") for (int i = 0; i < parts; i++) acc[i] = _mm512_setzero_ps();     \
        for (int c = 0; c < COLS; c += 2 * parts, p += parts * 64) {                               \
            _Pragma("GCC unroll 16") for (int i = 0; i < parts; i++)                               \
            {                                                                                      \
                const float *x = xeo + c + i / 4 * 8;                                              \
                const __m512i v = _mm512_loadu_si512(p + 64 * i);                                  \
                acc[i] =                                                                           \
                    _mm512_fmadd_ps(bf_even(v), _mm512_broadcast_f32x4(_mm_loadu_ps(x)), acc[i]);  \
                acc[i] = _mm512_fmadd_ps(bf_odd(v), _mm512_broadcast_f32x4(_mm_loadu_ps(x + 4)),   \
                                         acc[i]);                                                  \
            }                                                                                      \
        }                                                                                          \
        finish(y, acc, parts); /* the same work as the real fold */                                \
    }
BF_B(bf_b4, 4)
BF_B(bf_b8, 8)
BF_B(bf_b16, 16)

static void plain(float *y, const uint8_t *p)
{
    __m512i a = _mm512_setzero_si512(), b = a, c = a, d = a;
    for (int i = 0; i < NB * 288; i += 256) {
        a = _mm512_or_si512(a, _mm512_loadu_si512(p + i));
        b = _mm512_or_si512(b, _mm512_loadu_si512(p + i + 64));
        c = _mm512_or_si512(c, _mm512_loadu_si512(p + i + 128));
        d = _mm512_or_si512(d, _mm512_loadu_si512(p + i + 192));
    }
    _mm512_storeu_si512(y, _mm512_or_si512(_mm512_or_si512(a, b), _mm512_or_si512(c, d)));
}

static const struct variant {
    const char *fmt, *layout;
    int parts;
    size_t bytes;
    void (*run)(float *y, const uint8_t *p);
} variants[] = {
    { "read", "-", 0, NB * 288, plain },    { "q4_0", "A", 4, NB * 288, q4_a4 },
    { "q4_0", "A", 8, NB * 288, q4_a8 },    { "q4_0", "A", 16, NB * 288, q4_a16 },
    { "q4_0", "B", 4, NB * 288, q4_b4 },    { "q4_0", "B", 8, NB * 288, q4_b8 },
    { "q4_0", "B", 16, NB * 288, q4_b16 },  { "q8_0", "A", 4, NB * 544, q8_a4 },
    { "q8_0", "A", 8, NB * 544, q8_a8 },    { "q8_0", "A", 16, NB * 544, q8_a16 },
    { "q8_0", "B", 4, NB * 544, q8_b4 },    { "q8_0", "B", 8, NB * 544, q8_b8 },
    { "q8_0", "B", 16, NB * 544, q8_b16 },  { "bf16", "A", 4, COLS * 32, bf_a4 },
    { "bf16", "A", 8, COLS * 32, bf_a8 },   { "bf16", "A", 16, COLS * 32, bf_a16 },
    { "bf16", "B", 4, COLS * 32, bf_b4 },   { "bf16", "B", 8, COLS * 32, bf_b8 },
    { "bf16", "B", 16, COLS * 32, bf_b16 },
};
enum { N_VARIANT = sizeof variants / sizeof variants[0] };

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

/* GB/s over `span` bytes from `base`, by the CPU time of the slowest thread. */
static double pass(const struct variant *v, const uint8_t *base, size_t span, int threads)
{
    const long n = (long)(span / v->bytes);
    double took = 0;
#pragma omp parallel num_threads(threads) reduction(max : took)
    {
        float y[16];
        const double t0 = thread_time();
#pragma omp for schedule(static) nowait
        for (long i = 0; i < n; i++) {
            v->run(y, base + (size_t)i * v->bytes);
            __asm__ volatile("" : : "r"(y) : "memory");
        }
        took = thread_time() - t0;
    }
    return 1e-9 * (double)((size_t)n * v->bytes) / took;
}

/* The argument is the larger number of threads; 2 without it. */
int main(int argc, char **argv)
{
    const int threads[2] = { 1, argc > 1 ? atoi(argv[1]) : 2 };
    uint8_t *base = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED) return 1;
    madvise(base, BYTES, MADV_HUGEPAGE);
    memset(base, 0x35, BYTES);
    for (int i = 0; i < NB; i++) {
        xq[i].d = 0.01f;
        memset(xq[i].q, i, 32);
    }
    for (int i = 0; i < COLS; i++) xf[i] = xeo[i] = 0.01f * (float)(i % 7);

    static double got[2][N_VARIANT][REPS];
    const size_t span = BYTES / 6;
    for (int r = 0; r < REPS; r++)
        for (int v = 0; v < N_VARIANT; v++)
            for (int t = 0; t < 2; t++)
                got[t][v][r] = pass(&variants[v], base + (size_t)((r + 2 * v + 3 * t) % 6) * span,
                                    span, threads[t]);
    printf("format,layout,parts,threads,GB/s,percent_of_read\n");
    for (int t = 0; t < 2; t++) {
        for (int v = 0; v < N_VARIANT; v++) {
            qsort(got[t][v], REPS, sizeof(double), by_value);
            printf("%s,%s,%d,%d,%.1f,%.0f\n", variants[v].fmt, variants[v].layout,
                   variants[v].parts, threads[t], got[t][v][REPS / 2],
                   100 * got[t][v][REPS / 2] / got[t][0][REPS / 2]);
        }
    }
    return 0;
}
