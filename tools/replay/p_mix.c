/* p_mix.c -- two decayed frequencies: a fast one (half-life num[0]) for what a passage is about,
 * a slow one (num[1]) for what the text is about; num[2] is the fast one's share.  Each is divided
 * by its own half-life, so that both sum to the same for an expert in steady use.
 */
#include "heat.h"
#include "policies.h"

struct mix {
    struct ig_heat fast, slow;
    double per_fast, per_slow;
    uint32_t n_id;
    double count[]; /* [fast, slow][id] */
};

static size_t mix_bytes(const struct ig_xgeom *g, const struct ig_policy_arg *arg)
{
    (void)arg;
    return sizeof(struct mix) + (size_t)g->n_layer * g->n_expert * 2 * sizeof(double);
}

static void mix_init(void *state, const struct ig_xgeom *g, const struct ig_policy_arg *arg)
{
    struct mix *p = state;
    const double fast = num_or(arg->num, 0, 6), slow = num_or(arg->num, 1, 64);
    const double share = num_or(arg->num, 2, 0.5);
    p->fast = ig_heat_start(fast);
    p->slow = ig_heat_start(slow);
    p->per_fast = share / fast;
    p->per_slow = (1 - share) / slow;
    p->n_id = g->n_layer * g->n_expert;
    for (uint32_t i = 0; i < 2 * p->n_id; i++) p->count[i] = 0;
}

static void mix_token(void *state, int32_t token)
{
    struct mix *p = state;
    (void)token;
    ig_heat_step(&p->fast, p->count, p->n_id);
    ig_heat_step(&p->slow, p->count + p->n_id, p->n_id);
}

static void mix_use(void *state, uint32_t id, float weight, int hit)
{
    struct mix *p = state;
    (void)weight, (void)hit;
    p->count[id] += p->fast.one;
    p->count[p->n_id + id] += p->slow.one;
}

static double mix_value(const void *state, uint32_t id)
{
    const struct mix *p = state;
    return p->count[id] / p->fast.one * p->per_fast +
           p->count[p->n_id + id] / p->slow.one * p->per_slow;
}

const struct ig_policy ig_policy_mix = { .name = "mix",
                                         .bytes = mix_bytes,
                                         .init = mix_init,
                                         .value = mix_value,
                                         .token = mix_token,
                                         .use = mix_use };
