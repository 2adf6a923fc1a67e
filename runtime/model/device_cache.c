/* device_cache.c -- the host's part of the cache of experts in VRAM: its memory, what the device
 * may read in RAM, its counters; and layers streamed through its slots.
 *
 * Which expert is where is decided on the device (kernels/cuda/place.cu).
 */
#include "device_cache.h"
#include "device.h"
#include "device_step.h"
#include "machine.h"
#include "range.h"

#include <string.h>

#if IG_XC

enum { FARTHEST = 8 }; /* of recorded predictions: ig_set_choices */

/* Words of COUNT: counters, the step, the split; fills that arrived and begun, as each layer saw
 * it. */
enum {
    COUNTS = IG_N_DCOUNT * IG_N_LAYER,
    SPLIT = COUNTS + 1,
    ARRIVED = SPLIT + IG_ASK_WORDS,
    BEGUN = ARRIVED + IG_N_FILL,
    SEEN = BEGUN + IG_N_FILL
};
_Static_assert((SEEN + 2 * IG_N_FILL * IG_N_LAYER) * 4 == IG_VRAM_COUNT_BYTES, "counters");
_Static_assert(IG_ASK_PAGES == IG_N_EXPERT_USED + IG_SPLIT_PAGES &&
                   IG_ASK_BEHIND == IG_N_EXPERT_USED + IG_SPLIT_BEHIND &&
                   IG_ASK_AHEAD == IG_N_EXPERT_USED + IG_SPLIT_AHEAD &&
                   IG_ASK_WARM == IG_N_EXPERT_USED + IG_SPLIT_WARM &&
                   IG_ASK_WAIT == IG_N_EXPERT_USED + IG_SPLIT_WAIT &&
                   IG_ASK_EACH == IG_N_EXPERT_USED + IG_SPLIT_EACH &&
                   IG_ASK_FADE == IG_N_EXPERT_USED + IG_SPLIT_FADE &&
                   IG_ASK_WORDS == IG_N_EXPERT_USED + IG_SPLIT_MORE &&
                   (int)IG_GUESS_MOST == (int)IG_AHEAD_EACH,
               "both sides mean the same words");
_Static_assert(IG_FILLS >= IG_FILLS_MOST + IG_N_EXPERT_USED, "a number stays until it is copied");

/* Of layers that a decode step runs: an encoder's are streamed. */
static int routed_before(int layer)
{
    int n = 0;
    for (int i = IG_N_LAYER_ENC; i < layer && i < IG_N_LAYER; i++)
        n += ig_layers[i].ffn == IG_FFN_MOE;
    return n;
}
/* A layer's set, -1: none.  The first layers with experts have one. */
static int set_of(const struct ig_engine *e, const struct ig_layer *l)
{
    const int layer = (int)(l - ig_layers), set = routed_before(layer);
    return l->ffn == IG_FFN_MOE && layer >= IG_N_LAYER_ENC && set < e->miss.sets ? set : -1;
}

uint64_t ig_cache_bytes(const struct ig_engine *e)
{
    return (uint64_t)e->miss.sets * (uint64_t)e->miss.ways * IG_XC_SLOT_BYTES;
}

static uint64_t half_bytes(const struct ig_engine *e)
{
    return ig_cache_bytes(e) / 2 / 4096 * 4096;
}

static uint64_t layer_bytes(int layer)
{
    return ig_layers[layer].ffn == IG_FFN_MOE
               ? (uint64_t)ig_layers[layer].n_expert * ig_layers[layer].expert_stride
               : 0;
}
static uint64_t largest(int first, int end)
{
    uint64_t most = 0;
    for (int i = first; i < end; i++)
        if (layer_bytes(i) > most) most = layer_bytes(i);
    return most;
}

/* The layer with experts so many further on, if a guess of it comes from the same kernel. */
static int further(const struct ig_engine *e, int layer, int by)
{
    if (!e->miss.cpu || by == 0 || ig_layers[layer].ffn != IG_FFN_MOE || layer < IG_N_LAYER_ENC)
        return -1;
    for (int l = layer + 1, n = 0; l < IG_N_LAYER; l++)
        if (ig_layers[l].ffn == IG_FFN_MOE && ++n == by)
            return set_of(e, &ig_layers[l]) >= 0 &&
                           ig_layers[l].expert_stride == ig_layers[layer].expert_stride &&
                           ig_layers[l].router.fmt == ig_layers[layer].router.fmt
                       ? l
                       : -1;
    return -1;
}
int ig_cache_ahead(const struct ig_engine *e, int layer)
{
    return further(e, layer, e->miss.ahead);
}
int ig_cache_next(const struct ig_engine *e, int layer)
{
    return further(e, layer, e->miss.ahead > 0);
}

void ig_cache_recorded(const struct ig_engine *e)
{
    for (int l = IG_N_LAYER_ENC; l < IG_N_LAYER; l++) {
        const int to[2] = { ig_cache_ahead(e, l), ig_cache_next(e, l) };
        for (int i = 0; i < 2; i++)
            if (to[i] >= 0 && to[i] - l <= FARTHEST)
                memcpy(e->miss.ask->recorded[i][to[i]],
                       e->force_predicted +
                           ((size_t)(to[i] - l) * IG_N_LAYER + (size_t)to[i]) * IG_N_EXPERT_USED,
                       sizeof e->miss.ask->recorded[i][to[i]]);
    }
}

/* The tables of a layer. */
static int32_t *ways_of(unsigned char *mem, int layer)
{
    return (int32_t *)(void *)(mem + IG_VRAM_WAY_OFF) + 2 * layer * IG_N_EXPERT;
}
static int32_t *fills_of(unsigned char *mem, int layer)
{
    return (int32_t *)(void *)(mem + IG_VRAM_FILL_OFF) + 2 * layer * IG_N_EXPERT;
}
static int32_t *victims_of(unsigned char *mem, int layer)
{
    return (int32_t *)(void *)(mem + IG_VRAM_VICTIM_OFF) + 2 * layer * (2 * IG_N_EXPERT_USED + 1);
}
static uint32_t *counts_of(unsigned char *mem, int layer)
{
    return (uint32_t *)(void *)(mem + IG_VRAM_COUNT_OFF) + IG_N_DCOUNT * layer;
}

/* Behind the logits: what was recorded in their place. */
static int32_t *recorded_of(unsigned char *mem)
{
    return (int32_t *)(void *)((float *)(void *)(mem + IG_VRAM_GUESS_OFF) + 2 * IG_RL_STRIDE);
}

/* Who guesses what: the i-th guess, of layer `to`; the router and norms are the caller's. */
static void guess_args(const struct ig_engine *e, struct ig_dahead *h, int layer, int i, int to)
{
    unsigned char *mem = ig_device_mem(e->device);
    struct ig_ask *ask = e->miss.ask;
    *h = (struct ig_dahead){ .layer = to };
    if (to < 0) return;
    h->way = ways_of(mem, to);
    h->fill = fills_of(mem, to);
    h->victim = victims_of(mem, to);
    h->count = counts_of(mem, to);
    h->ways = e->miss.ways;
    h->before = ig_layers[to].expert_off - IG_RESIDENT_BYTES;
    h->rl = (float *)(void *)(mem + IG_VRAM_GUESS_OFF) + i * IG_RL_STRIDE;
    h->recorded = recorded_of(mem) + (i * IG_N_LAYER + to) * IG_N_EXPERT_USED;
    h->asked = ask->guess[layer];
    h->warm = ask->warm[layer];
}

void ig_cache_layer(const struct ig_engine *e, struct ig_dcache *c, int layer)
{
    const struct ig_layer *l = &ig_layers[layer];
    unsigned char *mem = ig_device_mem(e->device);
    const int set = set_of(e, l);
    struct ig_ask *ask = e->miss.ask;
    const uint64_t from = l->expert_off - IG_RESIDENT_BYTES; /* experts follow the resident part */
    c->ways = set < 0 ? 0 : e->miss.ways;
    c->way = ways_of(mem, layer);
    c->fill = fills_of(mem, layer);
    c->use = (float *)(void *)(mem + IG_VRAM_USE_OFF) + 2 * layer * IG_N_EXPERT;
    c->victim = victims_of(mem, layer);
    c->seen = (int32_t *)(void *)(mem + IG_VRAM_COUNT_OFF) + SEEN + 2 * IG_N_FILL * layer;
    c->count = counts_of(mem, layer);
    c->alone = 1;
    for (int i = IG_N_LAYER_ENC; i < layer; i++) c->alone &= ig_cache_ahead(e, i) != layer;
    guess_args(e, &c->ahead, layer, 0, ig_cache_ahead(e, layer));
    const int next = ig_cache_next(e, layer);
    guess_args(e, &c->next, layer, next != c->ahead.layer, next);
    c->set = set < 0 ? 0 : (uint64_t)set * (uint64_t)e->miss.ways * IG_XC_SLOT_BYTES;
    c->host = ig_data(e, l->expert_off);
    c->before = set < 0 ? UINT64_C(1) << 62 : from;
    c->link_ns =
        e->miss.link_bw ? (uint32_t)(1e9 * (double)l->expert_stride / (double)e->miss.link_bw) : 0;
    c->asked = ask->asked[layer];
    c->asked_xq = ask->xq[layer];
    c->asked_xn = ask->xn[layer];
    c->posted = e->miss.cpu ? &ask->posted.step : NULL;
    c->last = routed_before(layer + 1) == routed_before(IG_N_LAYER);
    c->done = &ask->done[layer].step;
}

static void fill_args(const struct ig_engine *e, struct ig_dcache *c)
{
    unsigned char *mem = ig_device_mem(e->device);
    uint32_t *count = (uint32_t *)(void *)(mem + IG_VRAM_COUNT_OFF);
    *c = (struct ig_dcache){
        .step = count + COUNTS,
        .split = (int32_t *)count + SPLIT,
        .arrived = (int32_t *)count + ARRIVED,
        .begun = (int32_t *)count + BEGUN,
        .slots = mem + IG_VRAM_SLOTS_OFF,
        .slot_bytes = IG_XC_SLOT_BYTES,
        .recorded = recorded_of(mem),
        .host_recorded = e->miss.ask->recorded[0][0],
        .host_split = e->miss.ask->split,
        .answer = e->miss.ask->answer,
    };
}

void ig_cache_fill(struct ig_engine *e, int layer, int expert, int way, int ahead)
{
    struct ig_miss *m = &e->miss;
    uint32_t *const number = &m->ask->fill[ahead][++m->fills[ahead] % IG_FILLS];
    *number = m->fills[ahead];
    const struct ig_layer *l = &ig_layers[layer];
    unsigned char *mem = ig_device_mem(e->device);
    const uint64_t slot = (uint64_t)set_of(e, l) * (uint64_t)e->miss.ways + (uint64_t)way;
    ig_device_fetch(e->device, mem + IG_VRAM_SLOTS_OFF + slot * IG_XC_SLOT_BYTES,
                    ig_data(e, l->expert_off + (uint64_t)expert * l->expert_stride),
                    l->expert_stride, mem + IG_VRAM_COUNT_OFF + 4 * (ARRIVED + ahead), number);
}

/* An empty cache: no expert has a way, and victims are the ways in order. */
static void empty(struct ig_engine *e)
{
    ig_device_fill(e->device, IG_VRAM_WAY_OFF, 0xff, IG_VRAM_WAY_BYTES);
    ig_device_fill(e->device, IG_VRAM_VICTIM_OFF, 0xff, IG_VRAM_VICTIM_BYTES);
}

enum ig_err ig_cache_open(struct ig_engine *e, struct ig_why *why)
{
    struct ig_device *d = e->device;
    void *seen = NULL;
    e->miss.ask = ig_device_pin(d, sizeof *e->miss.ask, &seen);
    if (!e->miss.ask)
        return ig_fail(why, IG_NO_MEM, "device: cannot pin %zu bytes of host memory",
                       sizeof *e->miss.ask);
    if (seen != e->miss.ask)
        return ig_fail(why, IG_NO_DEVICE, "device: it maps host memory elsewhere");
    memset(e->miss.ask, 0, sizeof *e->miss.ask);
    memset(e->miss.ask->recorded, 0xff, sizeof e->miss.ask->recorded); /* -1: none */
    empty(e);
    ig_device_fill(d, IG_VRAM_FILL_OFF, 0, IG_VRAM_FILL_BYTES);
    ig_device_fill(d, IG_VRAM_USE_OFF, 0, IG_VRAM_USE_BYTES);
    ig_device_fill(d, IG_VRAM_COUNT_OFF, 0, IG_VRAM_COUNT_BYTES);
    return IG_OK;
}

enum ig_err ig_cache_size(struct ig_engine *e, const struct ig_open *o, struct ig_why *why)
{
    /* A layer's choice over the slowed link fits the device's 32-bit clock of ns. */
    const uint64_t most = o->vram, slowest = (uint64_t)IG_N_EXPERT_USED * IG_XC_SLOT_BYTES / 2 + 1;
    if (o->link_bw && o->link_bw < slowest)
        return ig_fail(why, IG_USAGE, "--link-bw: want %llu bytes a second or more, got %llu",
                       (unsigned long long)slowest, (unsigned long long)o->link_bw);
    const uint64_t least = IG_VRAM_SLOTS_OFF + (uint64_t)IG_N_EXPERT_USED * IG_XC_SLOT_BYTES;
    struct ig_miss *m = &e->miss;
    m->sets = IG_XC_SETS;
    m->ways = IG_XC_WAYS;
    if (most == 0 || most >= IG_VRAM_BYTES) return IG_OK;
    if (most < least)
        return ig_fail(why, IG_NO_MEM,
                       "device: --vram: want %llu bytes or more (one layer's choice beside what is "
                       "resident), got %llu",
                       (unsigned long long)least, (unsigned long long)most);
    /* Fewer ways of all sets; when those are too few for a row's experts, fewer sets. */
    const uint64_t slots = (most - IG_VRAM_SLOTS_OFF) / IG_XC_SLOT_BYTES;
    if (slots / IG_XC_SETS >= IG_N_EXPERT_USED) {
        m->ways = (int)(slots / IG_XC_SETS);
    } else {
        m->ways = IG_N_EXPERT_USED;
        m->sets = (int)(slots / IG_N_EXPERT_USED);
    }
    e->vram = IG_VRAM_SLOTS_OFF + ig_cache_bytes(e);
    if (largest(0, IG_N_LAYER_ENC) > half_bytes(e))
        return ig_fail(
            why, IG_NO_MEM,
            "device: --vram: want slots of %llu bytes or more, through which the encoder's "
            "layers pass, two at a time, got %llu",
            2 * (unsigned long long)largest(0, IG_N_LAYER_ENC),
            (unsigned long long)ig_cache_bytes(e));
    ig_downgrade_add(e,
                     "device memory: %llu MiB of the planned %llu by --vram: %d sets of %d slots, "
                     "planned %d of %d",
                     (unsigned long long)e->vram >> 20, (unsigned long long)IG_VRAM_BYTES >> 20,
                     m->sets, m->ways, IG_XC_SETS, IG_XC_WAYS);
    return IG_OK;
}

static uint32_t counts_before[COUNTS + 1];

static void read_counts(struct ig_engine *e, uint32_t *to)
{
    ig_device_get(e->device, to, ig_device_mem(e->device) + IG_VRAM_COUNT_OFF,
                  sizeof counts_before);
    ig_device_wait(e->device);
}
void ig_step_stats_reset(struct ig_engine *e) { read_counts(e, counts_before); }

/* How much longer a layer's steps took where experts were missing. */
static double stall(const uint32_t *n, uint32_t steps)
{
    const double hit = steps > n[IG_N_LATE] ? n[IG_T_HIT] / (double)(steps - n[IG_N_LATE]) : 0.0;
    return 32e-9 * (n[IG_T_LATE] - n[IG_N_LATE] * hit);
}

struct ig_expert_stats ig_step_stats(struct ig_engine *e, int layer)
{
    static uint32_t now[COUNTS + 1];
    const struct ig_miss *m = &e->miss;
    const double expert = (double)IG_XC_SLOT_BYTES;
    struct ig_expert_stats s = { .active = 1 };
    read_counts(e, now);
    s.steps = now[COUNTS] - counts_before[COUNTS];
    if (m->link.each[1] > 0.0) s.link_bw = expert / m->link.each[m->cpu];
    if (m->by_cpu.each[1] > 0.0) s.cpu_bw = expert / m->by_cpu.each[1];
    for (int l = 0; l < IG_N_LAYER; l++) {
        uint32_t n[IG_N_DCOUNT];
        for (int i = 0; i < IG_N_DCOUNT; i++)
            n[i] = now[IG_N_DCOUNT * l + i] - counts_before[IG_N_DCOUNT * l + i];
        if (layer >= 0 && layer != l) continue;
        s.bytes += (n[IG_N_LINK] + n[IG_N_BEHIND] + n[IG_N_AHEAD]) * ig_layers[l].expert_stride;
        s.hit += n[IG_N_HIT];
        s.miss += n[IG_N_LINK] + n[IG_N_CPU];
        s.late += n[IG_N_WAITED];
        s.fill += n[IG_N_LINK] + n[IG_N_BEHIND] + n[IG_N_AHEAD];
        s.early += n[IG_N_AHEAD];
        s.early_used += n[IG_N_AHEAD_USED];
        s.early_lost += n[IG_N_AHEAD_LOST];
        s.behind += n[IG_N_BEHIND];
        s.behind_used += n[IG_N_BEHIND_USED];
        s.behind_lost += n[IG_N_BEHIND_LOST];
        s.by_cpu += n[IG_N_CPU];
        s.stall_s += stall(n, (uint32_t)s.steps);
    }
    return s;
}

enum { AHEAD = 2 }; /* layers with experts that prefetch looks ahead, if not said otherwise */
#define PINNED_FIRST (UINT64_C(1) << 30)
static void (*progress)(const char *what, uint64_t done, uint64_t total); /* NULL: said all */

void ig_cache_pinned(struct ig_engine *e, int quiet)
{
    struct ig_miss *m = &e->miss;
    if (m->reach == m->reach_want) return;
    m->reach = ig_device_reached(e->device);
    if (!progress) return;
    const int over = quiet || !ig_device_reaching(e->device);
    progress("pinning experts", over ? m->reach_want : m->reach, m->reach_want);
    if (over) progress = NULL;
}

void ig_cache_reach(struct ig_engine *e, const struct ig_open *o, struct ig_dcache *c)
{
    const uint64_t experts = IG_DATA_BYTES - IG_RESIDENT_BYTES;
    const uint64_t want =
        o->unpinned ? experts / 100 * (uint64_t)(100 - o->unpinned) / 4096 * 4096 : experts;
    struct ig_miss *m = &e->miss;
    m->reach = m->reach_want = 0;
    /* The first part now: the rates are measured with it; the rest beside what follows. */
    if (want)
        m->reach = ig_device_reach(e->device, e->mem + IG_MEM_DATA_OFF + IG_RESIDENT_BYTES, want,
                                   o->settle ? want : PINNED_FIRST, o->progress);
    if (m->reach > 0) m->reach_want = want;
    progress = o->progress;
    m->share = o->link_share - 1;
    m->behind = o->behind - 1;
    m->ahead = o->ahead ? o->ahead - 1 : m->share < 0 && m->behind != 0 ? AHEAD : 0;
    /* Its threads start prefetches, too. */
    m->cpu = IG_XC_STATIC || m->share != 100 || o->ahead > 1 || m->reach < experts ||
             m->sets < routed_before(IG_N_LAYER);
    ig_miss_team(e);
    ig_device_slow(e->device, o->link_bw);
    m->link_bw = o->link_bw;
    if (o->link_bw)
        ig_downgrade_add(e, "link: simulated, at most %.1f GB/s", 1e-9 * (double)o->link_bw);
    ig_rate_measure(e);
    m->slow = ig_miss_slow(m);
    if (m->slow && !o->ahead) m->ahead = 0;
    ig_miss_team(e); /* as the rates have it */
    ig_miss_plan(m);
    ig_prefill_open(e);
    ig_hot_fill(e);
    /* What is refused later than now, ig_device_pinned_says says. */
    const uint64_t in_the_end = ig_device_reaching(e->device) ? want : ig_device_reached(e->device);
    if (in_the_end < experts)
        ig_downgrade_add(e, "pinned: %.0f %% of the experts; the CPU computes the others' misses",
                         100.0 * (double)in_the_end / (double)experts);
    fill_args(e, c);
}

void ig_cache_close(struct ig_engine *e)
{
    ig_device_unreach(e->device);
    if (e->miss.ask) ig_device_unpin(e->device, e->miss.ask);
    e->miss.ask = NULL;
}

/* -- many rows: layers pass through the cache's memory */

int ig_stream_fits(const struct ig_engine *e)
{
    return largest(IG_N_LAYER_ENC, IG_N_LAYER) <= half_bytes(e);
}

/* Layers that pass through, in order, and each layer's number among them, -1: none of them. */
static int passing[IG_N_LAYER], turn[IG_N_LAYER], n_passing;

static unsigned char *half(const struct ig_engine *e, int i)
{
    return ig_device_mem(e->device) + IG_VRAM_SLOTS_OFF + (uint64_t)(i % 2) * half_bytes(e);
}
static void upload(struct ig_engine *e, int i)
{
    if (i >= n_passing) return;
    ig_range_begin("fill", passing[i]);
    ig_device_copy(e->device, half(e, i), ig_data(e, ig_layers[passing[i]].expert_off),
                   layer_bytes(passing[i]), i % 2);
    ig_range_end();
}
void ig_stream_begin(struct ig_engine *e, int first, int end)
{
    n_passing = 0;
    for (int l = first; l < end; l++) {
        turn[l] = -1;
        if (layer_bytes(l) == 0 || (l >= IG_N_LAYER_ENC && ig_prefill_by_cpu(l))) continue;
        turn[l] = n_passing;
        passing[n_passing++] = l;
    }
    for (int i = 0; i < 2 && i < n_passing; i++) {
        ig_device_free(e->device, i);
        upload(e, i);
    }
}
void ig_stream_end(struct ig_engine *e)
{
    if (n_passing == 0) return;
    empty(e); /* the slots held layers */
    ig_hot_gone();
    ig_prefill_streamed();
}
const unsigned char *ig_stream_layer(struct ig_engine *e, int layer)
{
    if (turn[layer] < 0) return ig_device_mem(e->device) + IG_VRAM_SLOTS_OFF; /* unused */
    ig_device_filled(e->device, turn[layer] % 2);
    return half(e, turn[layer]);
}
void ig_stream_next(struct ig_engine *e, int layer)
{
    if (turn[layer] < 0) return;
    ig_device_free(e->device, turn[layer] % 2);
    upload(e, turn[layer] + 2);
}

#endif
