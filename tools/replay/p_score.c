/* p_score.c -- score-aware: a use counts weight^num[1] instead of 1, halving every num[0] steps. */
#include <math.h>

#include "heat.h"
#include "policies.h"

struct score {
    struct ig_heat heat;
    double power;
    uint32_t n_id;
    double count[];
};

static size_t score_bytes(const struct ig_xgeom *g, const struct ig_policy_arg *arg)
{
    (void)arg;
    return sizeof(struct score) + (size_t)g->n_layer * g->n_expert * sizeof(double);
}

static void score_init(void *state, const struct ig_xgeom *g, const struct ig_policy_arg *arg)
{
    struct score *p = state;
    p->heat = ig_heat_start(num_or(arg->num, 0, 32));
    p->power = num_or(arg->num, 1, 0.5);
    p->n_id = g->n_layer * g->n_expert;
    for (uint32_t i = 0; i < p->n_id; i++) p->count[i] = 0;
}

static void score_token(void *state, int32_t token)
{
    struct score *p = state;
    ig_heat_step(&p->heat, p->count, p->n_id);
    (void)token;
}

static void score_use(void *state, uint32_t id, float weight, int hit)
{
    struct score *p = state;
    (void)hit;
    p->count[id] += p->heat.one * pow(weight > 0.001f ? (double)weight : 0.001, p->power);
}

static double score_value(const void *state, uint32_t id)
{
    return ((const struct score *)state)->count[id];
}

const struct ig_policy ig_policy_score = { .name = "score",
                                           .bytes = score_bytes,
                                           .init = score_init,
                                           .value = score_value,
                                           .token = score_token,
                                           .use = score_use };
