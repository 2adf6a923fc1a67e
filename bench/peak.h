/* peak.h -- what one thread's multipliers give when nothing else happens.
 *
 * The instruction is the one that a variant's kernels multiply with.  Twelve results in turn
 * (AMX: four tiles) hide its latency.  Time is the thread's CPU time, the best of some tries.
 */
#ifndef IG_BENCH_PEAK_H
#define IG_BENCH_PEAK_H

#include <immintrin.h>
#include <time.h>

#include "../kernels/cpu/amx_tile.h"

#define PEAK_VECTOR(name, isa, type, text)                                                         \
    __attribute__((target(isa))) static void name(long n)                                          \
    {                                                                                              \
        type s[12], w = { 0 };                                                                     \
        _Pragma("GCC unroll 12") for (int k = 0; k < 12; k++) s[k] = w;                            \
        for (long i = 0; i < n; i++) {                                                             \
            _Pragma("GCC unroll 12") for (int k = 0; k < 12; k++) __asm__ volatile(                \
                text : "+v"(s[k]) : "v"(w) : "xmm15");                                             \
        }                                                                                          \
    }
PEAK_VECTOR(peak_fma512, "avx512f", __m512, "vfmadd231ps %1, %1, %0")
PEAK_VECTOR(peak_dot512, "avx512f,avx512vnni", __m512i, "vpdpbusd %1, %1, %0")
PEAK_VECTOR(peak_fma256, "avx2,fma", __m256, "vfmadd231ps %1, %1, %0")
/* bytes to pairs of words, to int32, and added up */
PEAK_VECTOR(peak_dot256, "avx2", __m256i,
            "vpmaddubsw %1, %1, %%ymm15\nvpmaddwd %1, %%ymm15, %%ymm15\nvpaddd %%ymm15, %0, %0")

static void peak_tiles16(long n)
{
    for (long i = 0; i < n; i++) {
        TILE_DOT16(0, 6, 7);
        TILE_DOT16(1, 6, 7);
        TILE_DOT16(2, 6, 7);
        TILE_DOT16(3, 6, 7);
    }
}

enum peak_unit { PEAK_AVX2, PEAK_AVX512, PEAK_AMX };
enum peak_kind { PEAK_FLOAT, PEAK_BF16, PEAK_INT8 };

/* Operations a second, two a multiplication. */
static double peak_of(enum peak_unit unit, enum peak_kind kind)
{
    static void (*const loop[3][3])(long) = {
        { peak_fma256, peak_fma256, peak_dot256 },
        { peak_fma512, peak_fma512, peak_dot512 },
        { peak_fma512, peak_tiles16, peak_dot512 },
    };
    static const double each[3][3] = { { 12 * 16, 12 * 16, 12 * 64 },
                                       { 12 * 32, 12 * 32, 12 * 128 },
                                       { 12 * 32, 4 * 2 * 16 * 16 * 32, 12 * 128 } };
    enum { TRIES = 5, N = 1000000 };
    double best = 0;
    if (unit == PEAK_AMX) TILE_CONFIG(&amx_bf16);
    for (int i = 0; i < TRIES; i++) {
        struct timespec a, b;
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &a);
        loop[unit][kind](N);
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &b);
        const double s = (double)(b.tv_sec - a.tv_sec) + 1e-9 * (double)(b.tv_nsec - a.tv_nsec);
        if (each[unit][kind] * N / s > best) best = each[unit][kind] * N / s;
    }
    return best;
}

#endif
