/* hash.c -- see hash.h. */
#include "hash.h"

#include "kernels.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

_Static_assert(sizeof(XXH3_state_t) <= sizeof(struct ig_hash), "its size in hash.h");

static XXH3_state_t *state_of(struct ig_hash *h) { return (XXH3_state_t *)(void *)h->state; }

void ig_hash_start(struct ig_hash *h) { XXH3_64bits_reset(state_of(h)); }

/* Asked once: cpuid leaves a virtual machine, which costs as much as hashing some 100 KiB. */
static int has_avx2(void)
{
    static _Atomic int known; /* 1: no, 2: yes */
    if (!known) known = ig_cpu_features() & IG_CPU_AVX2 ? 2 : 1;
    return known == 2;
}

/* XXH3 asks for memory a few lines ahead, which is too late for bytes that come from a disk. */
enum { STEP = 4096, LINE = 64 };

void ig_hash_add(struct ig_hash *h, const void *p, size_t n)
{
    const unsigned char *at = p;
    while (n > 0) {
        const size_t now = n < STEP ? n : STEP;
        for (size_t i = 0; n > STEP && i < STEP; i += LINE) __builtin_prefetch(at + STEP + i);
        if (has_avx2())
            ig_hash_add_avx2(h, at, now);
        else
            XXH3_64bits_update(state_of(h), at, now);
        at += now;
        n -= now;
    }
}

uint64_t ig_hash_end(const struct ig_hash *h)
{
    return XXH3_64bits_digest((const XXH3_state_t *)(const void *)h->state);
}
