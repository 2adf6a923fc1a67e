/* p_belady.c -- the optimum: evict what is used again last.
 *
 * With pinned experts (all of a token and layer stay together) it is the optimum under that
 * rule.  The bypass variant may refuse the newcomer: the optimum where a miss can be computed
 * without being stored.
 */
#include "policies.h"

struct belady {
    const struct sim_arg *arg;
    uint32_t cursor[]; /* [id] index into arg->when */
};

static size_t belady_bytes(const struct ig_xgeom *g, const struct ig_policy_arg *arg)
{
    (void)arg;
    return sizeof(struct belady) + (size_t)g->n_layer * g->n_expert * sizeof(uint32_t);
}

static void belady_init(void *state, const struct ig_xgeom *g, const struct ig_policy_arg *arg)
{
    struct belady *p = state;
    p->arg = (const void *)arg;
    for (uint32_t id = 0; id < g->n_layer * g->n_expert; id++) p->cursor[id] = p->arg->first[id];
}

static void belady_use(void *state, uint32_t id, float weight, int hit)
{
    (void)weight, (void)hit;
    ((struct belady *)state)->cursor[id]++;
}

static double belady_value(const void *state, uint32_t id)
{
    const struct belady *p = state;
    if (p->cursor[id] == p->arg->first[id + 1]) return -1e18;
    return -(double)p->arg->when[p->cursor[id]];
}

static int belady_admit(void *state, uint32_t id, uint32_t victim)
{
    return belady_value(state, id) > belady_value(state, victim);
}

const struct ig_policy ig_policy_belady = { .name = "belady",
                                            .bytes = belady_bytes,
                                            .init = belady_init,
                                            .value = belady_value,
                                            .use = belady_use };
const struct ig_policy ig_policy_belady_bypass = { .name = "belady-bypass",
                                                   .bytes = belady_bytes,
                                                   .init = belady_init,
                                                   .value = belady_value,
                                                   .use = belady_use,
                                                   .admit = belady_admit };
