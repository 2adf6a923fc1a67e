/* heat.h -- decayed counts without ageing each of them.
 *
 * The worth of a new use grows by 2^(1/half-life) a step, so old uses fade in comparison.  When it
 * nears the end of double, all counts are scaled down once (every 900 half-lives).
 */
#ifndef IG_HEAT_H
#define IG_HEAT_H

#include <stdint.h>

struct ig_heat {
    double growth, one; /* of the worth a step; the worth of a use now */
};

/* 2^x for 0 <= x <= 1 by its series: the runtime's per-token objects do without libm. */
static inline double ig_exp2_unit(double x)
{
    double sum = 1, term = 1;
    for (int i = 1; i < 24; i++) {
        term *= x * 0.69314718055994530942 / i;
        sum += term;
    }
    return sum;
}

static inline struct ig_heat ig_heat_start(double half_life)
{
    return (struct ig_heat){ ig_exp2_unit(1 / half_life), 1 };
}

/* A step begins. */
static inline void ig_heat_step(struct ig_heat *h, double *count, uint32_t n)
{
    h->one *= h->growth;
    if (h->one < 0x1p900) return;
    h->one *= 0x1p-900;
    for (uint32_t i = 0; i < n; i++) count[i] *= 0x1p-900;
}

#endif
