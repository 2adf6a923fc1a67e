/* probe_hash.c -- how fast one core checks what a disk has brought, as runtime/base/hash.c does it.
 * Only called where the CPU has the vectors. */
#define _GNU_SOURCE
#if defined(__x86_64__) && !defined(__clang__) /* clang has no such pragma: slower there */
#pragma GCC target("avx2")
#endif
#include "probe.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

enum { BLOCK = 4 << 20, STEP = 4096, LINE = 64 };

static volatile uint64_t sink;

double probe_hash(const void *memory, uint64_t bytes)
{
    const unsigned char *p = memory;
    double best = 0;
    for (uint64_t at = 0; at + BLOCK + STEP <= bytes; at += BLOCK) {
        XXH3_state_t state;
        const double from = now();
        XXH3_64bits_reset(&state);
        for (uint32_t i = 0; i < BLOCK; i += STEP) {
            for (uint32_t k = 0; k < STEP; k += LINE) __builtin_prefetch(p + at + i + STEP + k);
            XXH3_64bits_update(&state, p + at + i, STEP);
        }
        sink = XXH3_64bits_digest(&state);
        const double rate = BLOCK / (now() - from);
        if (rate > best) best = rate;
    }
    return best;
}
