/* p_tinylfu.c -- LRU order, but a newcomer enters only when its decayed frequency (half-life
 * num[0]) is at least the victim's.  Exact counts in place of the paper's sketch: there are few
 * experts.
 */
#include "heat.h"
#include "policies.h"

struct tinylfu {
    struct ig_heat heat;
    uint32_t n_id;
    double count[];
};

static size_t tinylfu_bytes(const struct ig_xgeom *g, const struct ig_policy_arg *arg)
{
    (void)arg;
    return sizeof(struct tinylfu) + (size_t)g->n_layer * g->n_expert * sizeof(double);
}

static void tinylfu_init(void *state, const struct ig_xgeom *g, const struct ig_policy_arg *arg)
{
    struct tinylfu *p = state;
    p->heat = ig_heat_start(num_or(arg->num, 0, 32));
    p->n_id = g->n_layer * g->n_expert;
    for (uint32_t i = 0; i < p->n_id; i++) p->count[i] = 0;
}

static void tinylfu_token(void *state, int32_t token)
{
    struct tinylfu *p = state;
    ig_heat_step(&p->heat, p->count, p->n_id);
    (void)token;
}

static void tinylfu_use(void *state, uint32_t id, float weight, int hit)
{
    struct tinylfu *p = state;
    (void)weight, (void)hit;
    p->count[id] += p->heat.one;
}

static double tinylfu_value(const void *state, uint32_t id) { return (void)state, (void)id, 0; }

static int tinylfu_admit(void *state, uint32_t id, uint32_t victim)
{
    const struct tinylfu *p = state;
    return p->count[id] >= p->count[victim];
}

const struct ig_policy ig_policy_tinylfu = { .name = "tinylfu",
                                             .bytes = tinylfu_bytes,
                                             .init = tinylfu_init,
                                             .value = tinylfu_value,
                                             .token = tinylfu_token,
                                             .use = tinylfu_use,
                                             .admit = tinylfu_admit };
