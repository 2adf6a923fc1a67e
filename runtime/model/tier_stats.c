/* tier_stats.c -- what the expert cache did: its counters, of a layer or of all. */
#include "tier_stats.h"
#include "device_step.h"
#include "state.h"

#include <stdio.h>
#include <string.h>

#if IG_MEM_SLOTS_BYTES

static void add_layer(struct ig_expert_stats *s, struct ig_engine *e, int decode, int layer)
{
    const struct ig_tier_count *c =
        &e->tier.count[decode ? IG_TIER_DECODE : IG_TIER_PREFILL][layer];
    const struct ig_xcount *x = &e->tier.cache.count[layer];
    s->hit += c->hit;
    s->late += c->late;
    s->miss += c->miss;
    s->bytes += c->bytes;
    s->stall_s += (double)c->stall_ns / 1e9 / e->team.n;
    s->fill += x->fill;
    s->evict += x->evict;
    s->early += x->early;
    s->early_used += x->early_used;
    s->early_lost += x->early_lost;
}

struct ig_expert_stats ig_expert_stats(struct ig_engine *e, int decode, int layer)
{
    struct ig_expert_stats s = { .active = e->device == NULL };
    struct ig_mover_count m;
    if (!s.active) return s;
    s.steps = e->tier.steps[decode ? IG_TIER_DECODE : IG_TIER_PREFILL];
    for (int l = 0; l < IG_N_LAYER; l++)
        if (layer < 0 || l == layer) add_layer(&s, e, decode, l);
#if IG_MEM_RLP_BYTES
    if (layer >= 0) s.stride = e->tier.ahead.stride[layer].s;
#endif
    if (layer >= 0) return s;
    ig_mover_counts(&e->tier.mover, &m);
    s.bytes = m.bytes - e->tier.before.bytes;
#if IG_MEM_RLP_BYTES
    for (int l = 0; l < IG_N_LAYER; l++) s.stride += (double)e->tier.ahead.stride[l].s / IG_N_LAYER;
    s.ahead_gain = ig_ahead_gain(&e->tier.ahead);
    s.steps_ahead = e->tier.ahead.steps_on;
    s.asked = e->tier.ahead.asked;
    s.renewed = e->tier.ahead.renewed;
    s.taken_back = e->tier.ahead.taken_back;
#endif
    s.copy_busy_s = m.busy_s - e->tier.before.busy_s;
    return s;
}

void ig_expert_stats_reset(struct ig_engine *e)
{
    struct ig_tier *t = &e->tier;
    if (e->device) return;
    memset(t->count, 0, sizeof t->count);
    memset(t->steps, 0, sizeof t->steps);
    memset(t->cache.count, 0, sizeof *t->cache.count * IG_N_LAYER);
#if IG_MEM_RLP_BYTES
    t->ahead.steps_on = t->ahead.asked = t->ahead.renewed = t->ahead.taken_back = 0;
#endif
    ig_mover_counts(&t->mover, &t->before);
}

#if IG_MEM_RLP_BYTES
const char *ig_prefetch_says(const struct ig_engine *e)
{
    static char text[256];
    const struct ig_ahead *h = &e->tier.ahead;
    const double gain = ig_ahead_gain(h);
    const double less = gain > 1 ? 1 - 1 / gain : gain > 0 ? 1 / gain - 1 : 0;
    const int pays = h->trial.best == IG_AHEAD_ON;
    if (h->trial.trials == 0)
        snprintf(text, sizeof text, "%s: on, because no trial has ended yet; fetches %s",
                 h->predictor->name, IG_PREDICT_WHY);
    else
        snprintf(text, sizeof text, "%s: %s, because a step takes %s%.1f %% %s with it (trial %u)",
                 h->predictor->name, pays ? "on" : "off", !pays && gain > 1 ? "only " : "",
                 100 * less, gain > 1 ? "less" : "more", h->trial.trials);
    return text;
}
#else
const char *ig_prefetch_says(const struct ig_engine *e)
{
    (void)e;
    return "off, because the plan has no predictor: " IG_PREDICT_WHY;
}
#endif

#else

const char *ig_prefetch_says(const struct ig_engine *e)
{
#if IG_XC
    if (e->device) return ig_miss_ahead_says(&e->miss);
#endif
    (void)e;
    return IG_TIER == IG_TIER_MMAP ? "off, because the page cache decides"
                                   : "off, because all experts are in memory";
}
#if IG_XC
/* The device counts rows that went by themselves; a streamed batch has no hits. */
struct ig_expert_stats ig_expert_stats(struct ig_engine *e, int decode, int layer)
{
    if (!e->device || !decode) return (struct ig_expert_stats){ 0 };
    return ig_step_stats(e, layer);
}
void ig_expert_stats_reset(struct ig_engine *e)
{
    if (e->device) ig_step_stats_reset(e);
}
#else
struct ig_expert_stats ig_expert_stats(struct ig_engine *e, int decode, int layer)
{
    (void)e, (void)decode, (void)layer;
    return (struct ig_expert_stats){ 0 };
}
void ig_expert_stats_reset(struct ig_engine *e) { (void)e; }
#endif

#endif

int ig_settled(const struct ig_engine *e)
{
#if IG_XC
    if (e->device) return e->miss.trial.n_way < 2 || e->miss.trial.trials > 0;
#endif
    return (void)e, 1;
}

uint32_t ig_expert_strides(const struct ig_engine *e, uint32_t *every, const uint8_t **at)
{
    *every = 0;
    *at = NULL;
#if IG_MEM_RLP_BYTES
    const struct ig_stride_log *g = &e->tier.ahead.past;
    *every = g->every;
    *at = g->at;
    return g->n;
#else
    (void)e;
    return 0;
#endif
}
