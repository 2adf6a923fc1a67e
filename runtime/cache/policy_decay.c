/* policy_decay.c -- decayed frequency: a use counts 1 and halves every num[0] steps.
 *
 * Counts of all experts are kept, resident or not, so an expert that returns has its past.
 */
#include "heat.h"
#include "policy.h"

/* Steps.  docs/POLICIES.md: 16 to 32 are equal on fine-moe, 16 is ahead on the public traces. */
static const double decay_half_life = 16;

struct decay {
    struct ig_heat heat;
    uint32_t n_id;
    double count[]; /* [n_id] */
};

static size_t decay_bytes(const struct ig_xgeom *g, const struct ig_policy_arg *arg)
{
    (void)arg;
    return sizeof(struct decay) + (size_t)g->n_layer * g->n_expert * sizeof(double);
}

static void decay_init(void *state, const struct ig_xgeom *g, const struct ig_policy_arg *arg)
{
    struct decay *p = state;
    p->heat = ig_heat_start(arg && arg->num[0] >= 1 ? arg->num[0] : decay_half_life);
    p->n_id = g->n_layer * g->n_expert;
    for (uint32_t i = 0; i < p->n_id; i++) p->count[i] = 0;
}

static void decay_token(void *state, int32_t token)
{
    struct decay *p = state;
    (void)token;
    ig_heat_step(&p->heat, p->count, p->n_id);
}

static void decay_use(void *state, uint32_t id, float weight, int hit)
{
    struct decay *p = state;
    (void)weight, (void)hit;
    p->count[id] += p->heat.one;
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
