/* hash_avx2.c -- ig_hash_add with 32-byte vectors; only called where the CPU has them. */
#if defined(__x86_64__)
#pragma GCC target("avx2")
#endif
#include "hash.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

void ig_hash_add_avx2(struct ig_hash *h, const void *p, size_t n)
{
    XXH3_64bits_update((XXH3_state_t *)(void *)h->state, p, n);
}
