/* xcache.c -- the slot table of an expert cache; rules in xcache.h. */
#include "xcache.h"

#include "base.h"

static size_t xc_pad(size_t n) { return (n + 63) & ~(size_t)63; }

static int xc_geometry_ok(const struct ig_xgeom *g)
{
    if (g->n_layer == 0 || g->n_expert == 0 || g->n_set == 0 || g->n_slot == 0) return 0;
    if (g->n_slot > INT32_MAX || g->n_layer > UINT16_MAX || g->n_expert > UINT16_MAX) return 0;
    if (g->first[0] != 0 || g->first[g->n_set] != g->n_slot) return 0;
    for (uint32_t s = 0; s < g->n_set; s++)
        if (g->first[s] >= g->first[s + 1]) return 0;
    for (uint32_t l = 0; l < g->n_layer; l++)
        if (g->set_of[l] >= g->n_set) return 0;
    return 1;
}

size_t ig_xcache_bytes(const struct ig_xgeom *g, const struct ig_policy *policy,
                       const struct ig_policy_arg *arg)
{
    if (!xc_geometry_ok(g)) return 0;
    const size_t ids = (size_t)g->n_layer * g->n_expert;
    return xc_pad(g->n_slot * sizeof(struct ig_xslot)) + xc_pad(ids * sizeof(int32_t)) +
           xc_pad(ids * sizeof(uint64_t)) + xc_pad(g->n_layer * sizeof(struct ig_xcount)) +
           xc_pad(policy->bytes(g, arg));
}

void ig_xcache_init(struct ig_xcache *c, const struct ig_xgeom *g, const struct ig_policy *policy,
                    const struct ig_policy_arg *arg, void *mem)
{
    IG_ASSERT(xc_geometry_ok(g) && (uintptr_t)mem % 64 == 0);
    const size_t ids = (size_t)g->n_layer * g->n_expert;
    char *at = mem;

    c->g = *g;
    c->policy = policy;
    c->clock = 0;
    c->slot = (void *)at, at += xc_pad(g->n_slot * sizeof(struct ig_xslot));
    c->slot_of = (void *)at, at += xc_pad(ids * sizeof(int32_t));
    c->used = (void *)at, at += xc_pad(ids * sizeof(uint64_t));
    c->count = (void *)at, at += xc_pad(g->n_layer * sizeof(struct ig_xcount));
    c->state = at;
    for (uint32_t i = 0; i < g->n_slot; i++) c->slot[i] = (struct ig_xslot){ 0 };
    for (size_t i = 0; i < ids; i++) c->slot_of[i] = IG_XC_MISS, c->used[i] = 0;
    for (uint32_t l = 0; l < g->n_layer; l++) c->count[l] = (struct ig_xcount){ 0 };
    policy->init(c->state, g, arg);
}

static uint32_t xc_id(const struct ig_xcache *c, uint32_t layer, uint32_t expert)
{
    IG_ASSERT(layer < c->g.n_layer && expert < c->g.n_expert);
    return layer * c->g.n_expert + expert;
}

static struct ig_xslot *xc_slot(struct ig_xcache *c, int slot)
{
    IG_ASSERT(slot >= 0 && (uint32_t)slot < c->g.n_slot);
    return &c->slot[slot];
}

void ig_xcache_token(struct ig_xcache *c, int32_t token)
{
    if (c->policy->token) c->policy->token(c->state, token);
}

void ig_xcache_row(struct ig_xcache *c, uint32_t back)
{
    if (c->policy->row) c->policy->row(c->state, back);
}

int ig_xcache_find(const struct ig_xcache *c, uint32_t layer, uint32_t expert)
{
    return c->slot_of[xc_id(c, layer, expert)];
}

int ig_xcache_use(struct ig_xcache *c, uint32_t layer, uint32_t expert, float weight)
{
    const uint32_t id = xc_id(c, layer, expert);
    const int slot = c->slot_of[id];
    struct ig_xcount *n = &c->count[layer];

    if (slot < 0)
        n->miss++;
    else if (c->slot[slot].state == IG_XC_FILLING)
        n->late++;
    else
        n->hit++;
    if (slot >= 0 && c->slot[slot].early) {
        c->slot[slot].early = IG_XC_DEMANDED;
        n->early_used++;
    }
    c->used[id] = ++c->clock;
    if (c->policy->use) c->policy->use(c->state, id, weight, slot >= 0);
    return slot;
}

void ig_xcache_predict(struct ig_xcache *c, uint32_t layer, uint32_t expert)
{
    if (c->policy->predict) c->policy->predict(c->state, xc_id(c, layer, expert));
}

/* An empty way, else the way of least value that nobody reads, writes or, unless it is `awaited`,
 * awaits; else -1. */
static int xc_choose(const struct ig_xcache *c, uint32_t set, int awaited)
{
    int best = -1;
    double best_value = 0;

    for (uint32_t i = c->g.first[set]; i < c->g.first[set + 1]; i++) {
        const struct ig_xslot *s = &c->slot[i];
        if (s->state == IG_XC_EMPTY) return (int)i;
        if (s->state == IG_XC_FILLING || s->pins) continue;
        if ((s->early == IG_XC_AWAITED) != awaited) continue;
        const double v = c->policy->value(c->state, s->id);
        if (best < 0 || v < best_value ||
            (v <= best_value && c->used[s->id] < c->used[c->slot[best].id])) {
            best = (int)i;
            best_value = v;
        }
    }
    return best;
}

static void xc_empty(struct ig_xcache *c, struct ig_xslot *s)
{
    struct ig_xcount *n = &c->count[s->id / c->g.n_expert];

    n->early_lost += s->early != IG_XC_DEMANDED;
    c->slot_of[s->id] = IG_XC_MISS;
    s->state = IG_XC_EMPTY;
    s->early = IG_XC_DEMANDED;
    if (c->policy->evict) c->policy->evict(c->state, s->id);
}

int ig_xcache_claim(struct ig_xcache *c, uint32_t layer, uint32_t expert, int early)
{
    const uint32_t id = xc_id(c, layer, expert);
    struct ig_xcount *n = &c->count[layer];
    IG_ASSERT(c->slot_of[id] < 0);

    int slot = xc_choose(c, c->g.set_of[layer], 0);
    if (slot < 0 && !early) slot = xc_choose(c, c->g.set_of[layer], 1);
    if (slot < 0) {
        n->refused++;
        return IG_XC_MISS;
    }
    struct ig_xslot *s = &c->slot[slot];
    if (s->state != IG_XC_EMPTY) {
        if (!early && c->policy->admit && !c->policy->admit(c->state, id, s->id)) {
            n->refused++;
            return IG_XC_REFUSED;
        }
        c->count[s->id / c->g.n_expert].evict++;
        xc_empty(c, s);
    }
    *s = (struct ig_xslot){ .id = id,
                            .state = IG_XC_FILLING,
                            .early = early ? IG_XC_AWAITED : IG_XC_DEMANDED };
    c->slot_of[id] = slot;
    n->fill += !early;
    n->early += early != 0;
    if (c->policy->fill) c->policy->fill(c->state, id);
    return slot;
}

void ig_xcache_ready(struct ig_xcache *c, int slot)
{
    struct ig_xslot *s = xc_slot(c, slot);
    IG_ASSERT(s->state == IG_XC_FILLING);
    s->state = IG_XC_READY;
}

void ig_xcache_drop(struct ig_xcache *c, int slot)
{
    struct ig_xslot *s = xc_slot(c, slot);
    IG_ASSERT(s->state == IG_XC_FILLING && s->pins == 0);
    xc_empty(c, s);
}

uint32_t ig_xcache_passed(struct ig_xcache *c, uint32_t layer)
{
    const uint32_t set = c->g.set_of[layer];
    uint32_t n = 0;
    for (uint32_t i = c->g.first[set]; i < c->g.first[set + 1]; i++) {
        struct ig_xslot *s = &c->slot[i];
        if (s->early != IG_XC_AWAITED || s->id / c->g.n_expert != layer) continue;
        s->early = IG_XC_PASSED;
        n++;
    }
    return n;
}

void ig_xcache_pin(struct ig_xcache *c, int slot)
{
    struct ig_xslot *s = xc_slot(c, slot);
    IG_ASSERT(s->state != IG_XC_EMPTY && s->pins < UINT16_MAX);
    s->pins++;
}

void ig_xcache_unpin(struct ig_xcache *c, int slot)
{
    struct ig_xslot *s = xc_slot(c, slot);
    IG_ASSERT(s->pins > 0);
    s->pins--;
}
