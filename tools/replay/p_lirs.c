/* p_lirs.c -- LIRS (Jiang, Zhang 2002), one per set.
 *
 * LIR experts have a small distance between their last two uses and stay; HIR experts pass
 * through the share num[0] of the ways.  The stack holds ids by last use, its bottom is always
 * LIR; a HIR expert used while still in the stack changes places with the bottom.  The paper's
 * share of 1 % is too little here: a token's own k experts come at once.
 */
#include "policies.h"

enum { OUT, LIR, HIR };

struct lirs {
    uint32_t n_id, n_expert;
    struct ig_xgeom g;
    double clock, share;
    struct lirs_id {
        double stamp;  /* last use: order in the stack */
        double queued; /* HIR: order in the queue */
        uint8_t kind, resident, stacked;
    } * id;
    uint32_t *lir; /* [n_set] */
    double mem[];
};

static size_t lirs_bytes(const struct ig_xgeom *g, const struct ig_policy_arg *arg)
{
    (void)arg;
    return sizeof(struct lirs) + (size_t)g->n_layer * g->n_expert * sizeof(struct lirs_id) +
           g->n_set * sizeof(uint32_t);
}

static void lirs_init(void *state, const struct ig_xgeom *g, const struct ig_policy_arg *arg)
{
    struct lirs *p = state;
    p->n_id = g->n_layer * g->n_expert;
    p->n_expert = g->n_expert;
    p->g = *g;
    p->clock = 0;
    p->share = arg && arg->num[0] > 0 ? arg->num[0] : 0.5;
    p->id = (void *)p->mem;
    p->lir = (void *)(p->id + p->n_id);
    for (uint32_t i = 0; i < p->n_id; i++) p->id[i] = (struct lirs_id){ .kind = OUT };
    for (uint32_t s = 0; s < g->n_set; s++) p->lir[s] = 0;
}

static uint32_t lirs_set(const struct lirs *p, uint32_t id)
{
    return p->g.set_of[id / p->n_expert];
}

static uint32_t lirs_room(const struct lirs *p, uint32_t set)
{
    const uint32_t ways = p->g.first[set + 1] - p->g.first[set];
    const uint32_t cold = (uint32_t)(p->share * ways + 0.5);
    return ways - (cold < 1 ? 1 : cold >= ways ? ways - 1 : cold);
}

/* The LIR expert used longest ago is the stack's bottom; what lies under it leaves the stack. */
static uint32_t lirs_bottom(const struct lirs *p, uint32_t set)
{
    uint32_t low = p->n_id;
    for (uint32_t i = 0; i < p->n_id; i++)
        if (p->id[i].kind == LIR && lirs_set(p, i) == set &&
            (low == p->n_id || p->id[i].stamp < p->id[low].stamp))
            low = i;
    return low;
}

static void lirs_prune(struct lirs *p, uint32_t set)
{
    const uint32_t low = lirs_bottom(p, set);
    for (uint32_t i = 0; low < p->n_id && i < p->n_id; i++)
        if (p->id[i].kind != LIR && lirs_set(p, i) == set && p->id[i].stamp < p->id[low].stamp)
            p->id[i].stacked = 0;
}

static void lirs_use(void *state, uint32_t id, float weight, int hit)
{
    struct lirs *p = state;
    struct lirs_id *x = &p->id[id];
    const uint32_t set = lirs_set(p, id);
    const int was_stacked = x->stacked;
    (void)weight, (void)hit;

    x->stamp = ++p->clock;
    x->stacked = 1;
    if (x->kind != LIR && (was_stacked || p->lir[set] < lirs_room(p, set))) {
        x->kind = LIR;
        p->lir[set]++;
        if (p->lir[set] > lirs_room(p, set)) {
            const uint32_t low = lirs_bottom(p, set);
            p->id[low].kind = p->id[low].resident ? HIR : OUT;
            p->id[low].queued = p->clock;
            p->id[low].stacked = 0;
            p->lir[set]--;
        }
    } else if (x->kind != LIR) {
        x->kind = HIR;
        x->queued = p->clock;
    }
    lirs_prune(p, set);
}

static void lirs_fill(void *state, uint32_t id)
{
    struct lirs_id *x = &((struct lirs *)state)->id[id];
    x->resident = 1;
    if (x->kind == OUT) x->kind = HIR;
}

static void lirs_evict(void *state, uint32_t id)
{
    struct lirs *p = state;
    p->id[id].resident = 0;
    if (p->id[id].kind == LIR) p->lir[lirs_set(p, id)]--;
    p->id[id].kind = OUT;
}

static double lirs_value(const void *state, uint32_t id)
{
    const struct lirs *p = state;
    return p->id[id].kind == LIR ? 1e15 + p->id[id].stamp : p->id[id].queued;
}

const struct ig_policy ig_policy_lirs = { .name = "lirs",
                                          .bytes = lirs_bytes,
                                          .init = lirs_init,
                                          .value = lirs_value,
                                          .use = lirs_use,
                                          .fill = lirs_fill,
                                          .evict = lirs_evict };
