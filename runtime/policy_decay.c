/* policy_decay.c -- decayed frequency: a use counts 1 and halves every num[0] steps.
 *
 * Counts of all experts are kept, resident or not, so an expert that returns has its past.
 * Instead of ageing every count, the worth of a new use grows by 2^(1/half-life) a step; when
 * it nears the end of double, all counts are scaled down once (every ~900 half-lives).
 */
#include "policy.h"

struct decay {
    uint32_t n_id;
    double growth, one; /* worth of a use: ratio a step, now */
    double count[];     /* [n_id] */
};

/* 2^x for 0 <= x <= 1 by its series: the runtime's per-token objects do without libm. */
static double exp2_unit(double x)
{
    double sum = 1, term = 1;
    for (int i = 1; i < 24; i++) {
        term *= x * 0.69314718055994530942 / i;
        sum += term;
    }
    return sum;
}

static size_t decay_bytes(const struct ig_xgeom *g)
{
    return sizeof(struct decay) + (size_t)g->n_layer * g->n_expert * sizeof(double);
}

static void decay_init(void *state, const struct ig_xgeom *g, const struct ig_policy_arg *arg)
{
    struct decay *p = state;
    const double half_life = arg && arg->num[0] >= 1 ? arg->num[0] : 32;
    p->n_id = g->n_layer * g->n_expert;
    p->growth = exp2_unit(1 / half_life);
    p->one = 1;
    for (uint32_t i = 0; i < p->n_id; i++) p->count[i] = 0;
}

static void decay_token(void *state, int32_t token)
{
    struct decay *p = state;
    (void)token;
    p->one *= p->growth;
    if (p->one > 0x1p900) {
        for (uint32_t i = 0; i < p->n_id; i++) p->count[i] *= 0x1p-900;
        p->one *= 0x1p-900;
    }
}

static void decay_use(void *state, uint32_t id, float weight, int hit)
{
    struct decay *p = state;
    (void)weight, (void)hit;
    p->count[id] += p->one;
}

static double decay_value(const void *state, uint32_t id)
{
    return ((const struct decay *)state)->count[id];
}

const struct ig_policy ig_policy_decay = { .name = "decay",
                                           .bytes = decay_bytes,
                                           .init = decay_init,
                                           .value = decay_value,
                                           .token = decay_token,
                                           .use = decay_use };
