/* heat.h -- decayed counts that the simulator's policies share; the trick is policy_decay.c's. */
#ifndef IG_REPLAY_HEAT_H
#define IG_REPLAY_HEAT_H

#include <math.h>
#include <stdint.h>

struct heat {
    double growth, one;
};

static inline struct heat heat_start(double half_life)
{
    return (struct heat){ exp2(1 / half_life), 1 };
}

/* A step begins: returns the factor for all counts, 1 almost always. */
static inline double heat_step(struct heat *h)
{
    h->one *= h->growth;
    if (h->one < 0x1p900) return 1;
    h->one *= 0x1p-900;
    return 0x1p-900;
}

static inline double num_or(const double *num, int i, double other)
{
    return num && num[i] != 0 ? num[i] : other;
}

#endif
