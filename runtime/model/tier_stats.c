/* tier_stats.c -- what the expert cache did: one table of counters with names and units. */
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
    s.ahead_gain = e->tier.ahead.gain;
    s.steps_ahead = e->tier.ahead.steps_on;
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
    ig_mover_counts(&t->mover, &t->before);
}

#if IG_MEM_RLP_BYTES
const char *ig_prefetch_says(const struct ig_engine *e)
{
    static char text[256];
    const struct ig_ahead *h = &e->tier.ahead;
    const double less = h->gain > 1 ? 1 - 1 / h->gain : h->gain > 0 ? 1 / h->gain - 1 : 0;
    if (h->trials == 0)
        snprintf(text, sizeof text, "%s: on, because no trial has ended yet; fetches %s",
                 h->predictor->name, IG_PREDICT_WHY);
    else
        snprintf(text, sizeof text, "%s: %s, because a step takes %s%.1f %% %s with it (trial %u)",
                 h->predictor->name, h->pays ? "on" : "off", !h->pays && h->gain > 1 ? "only " : "",
                 100 * less, h->gain > 1 ? "less" : "more", h->trials);
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
    if (IG_XC && e->device) return "off, because the device's cache takes what is missing when it is asked for";
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

/* -- the table */

enum { N_COLUMN = 10 };
static const struct {
    const char *name, *unit;
} column[N_COLUMN] = {
    { "hit", "%" },        { "late", "%" },        { "miss", "a step" },   { "stall", "us a step" },
    { "fill", "experts" }, { "evict", "experts" }, { "early", "experts" }, { "used", "experts" },
    { "lost", "experts" }, { "stride", "layers" },
};

static void values(const struct ig_expert_stats *s, double v[N_COLUMN])
{
    const double chosen = (double)(s->hit + s->late + s->miss), steps = (double)s->steps;
    const double per_chosen = chosen > 0 ? 100 / chosen : 0, per_step = steps > 0 ? 1 / steps : 0;
    const double all[N_COLUMN] = { (double)s->hit * per_chosen,
                                   (double)s->late * per_chosen,
                                   (double)s->miss * per_step,
                                   1e6 * s->stall_s * per_step,
                                   (double)s->fill,
                                   (double)s->evict,
                                   (double)s->early,
                                   (double)s->early_used,
                                   (double)s->early_lost,
                                   s->stride };
    memcpy(v, all, sizeof all);
}

static void line(char *text, size_t cap, const char *what, const struct ig_expert_stats *s)
{
    double v[N_COLUMN];
    values(s, v);
    size_t n = (size_t)snprintf(text, cap, "%-8s", what);
    for (int i = 0; i < N_COLUMN && n < cap; i++)
        n += (size_t)snprintf(text + n, cap - n, " %*.*f", 9, i < 4 || i == 9 ? 1 : 0, v[i]);
}

void ig_expert_table(struct ig_engine *e, int decode, void (*show)(const char *text))
{
    char text[256], what[32];
    struct ig_expert_stats s = ig_expert_stats(e, decode, -1);
    size_t n[2] = { 0, 0 };
    char head[2][256];
    if (!s.active) return;
    n[0] = (size_t)snprintf(head[0], sizeof head[0], "%-8s", decode ? "decode" : "prefill");
    n[1] = (size_t)snprintf(head[1], sizeof head[1], "%-8s", "");
    for (int i = 0; i < N_COLUMN; i++) {
        n[0] += (size_t)snprintf(head[0] + n[0], sizeof head[0] - n[0], " %9s", column[i].name);
        n[1] += (size_t)snprintf(head[1] + n[1], sizeof head[1] - n[1], " %9s", column[i].unit);
    }
    show(head[0]);
    show(head[1]);
    for (int l = 0; l < IG_N_LAYER; l++) {
        const struct ig_expert_stats one = ig_expert_stats(e, decode, l);
        snprintf(what, sizeof what, "layer %d", l);
        line(text, sizeof text, what, &one);
        show(text);
    }
    line(text, sizeof text, "all", &s);
    show(text);
    snprintf(text, sizeof text, "copied   %.1f MB at %.2f GB/s while copying, %llu steps",
             (double)s.bytes / 1e6, s.copy_busy_s > 0 ? (double)s.bytes / s.copy_busy_s / 1e9 : 0,
             (unsigned long long)s.steps);
    show(text);
    if (!decode) return;
    snprintf(text, sizeof text, "prefetch on in %llu steps; %s", (unsigned long long)s.steps_ahead,
             ig_prefetch_says(e));
    show(text);
}

static json_t *one_json(const struct ig_expert_stats *s)
{
    double v[N_COLUMN];
    json_t *j = json_object();
    values(s, v);
    for (int i = 0; i < N_COLUMN; i++) json_object_set_new(j, column[i].name, json_real(v[i]));
    return j;
}

json_t *ig_expert_json(struct ig_engine *e, int decode)
{
    const struct ig_expert_stats s = ig_expert_stats(e, decode, -1);
    json_t *units = json_object(), *layers = json_array();
    if (!s.active) return json_null();
    for (int i = 0; i < N_COLUMN; i++)
        json_object_set_new(units, column[i].name, json_string(column[i].unit));
    for (int l = 0; l < IG_N_LAYER; l++) {
        const struct ig_expert_stats one = ig_expert_stats(e, decode, l);
        json_array_append_new(layers, one_json(&one));
    }
    return json_pack("{s:o, s:o, s:o, s:I, s:f, s:I, s:I, s:f, s:I, s:f, s:f, s:s}", "units", units, "all",
                     one_json(&s), "layers", layers, "copied_bytes", (json_int_t)s.bytes,
                     "copy_busy_s", s.copy_busy_s, "steps", (json_int_t)s.steps,
                     "steps_with_prefetch", (json_int_t)s.steps_ahead, "prefetch_gain",
                     s.ahead_gain, "computed_by_cpu", (json_int_t)s.by_cpu, "link_gb_per_s", s.link_bw / 1e9,
                     "cpu_gb_per_s", s.cpu_bw / 1e9, "prefetch", ig_prefetch_says(e));
}
