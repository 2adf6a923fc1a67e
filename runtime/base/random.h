/* random.h -- SplitMix64 (Steele et al. 2014): a counter, and a mix of its bits. */
#ifndef IG_RANDOM_H
#define IG_RANDOM_H

#include <stdint.h>

#define IG_RANDOM_STEP UINT64_C(0x9e3779b97f4a7c15)

static inline uint64_t ig_random_mix(uint64_t z)
{
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

/* One draw; every start is a good one. */
static inline uint64_t ig_random(uint64_t *state)
{
    return ig_random_mix(*state += IG_RANDOM_STEP);
}

#endif
