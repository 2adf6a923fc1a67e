/* sim.c -- replays rows of a trace through the engine's own cache table; see sim.h. */
#include "sim.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "say.h"
#include "xcache.h"

enum { MAX_K = 256, NO_SLOT = -1 };

/* A copy that is queued or under way. */
struct copy {
    int slot; /* NO_SLOT: not to be kept */
    uint32_t id;
    double left; /* bytes */
};

struct sim {
    const struct sim_conf *c;
    struct ig_xcache cache;
    void *mem;
    double now, link_now, bw, last_layer; /* seconds, seconds, bytes/s, seconds */
    double moved;                         /* bytes over the link */
    struct copy *queue;                   /* first is under way; demand stands in front */
    uint32_t n_queue;
    double *arrived; /* [n_slot] when its copy ended */
    int batch;       /* prompt rows go through: nothing is looked ahead for */
    struct ig_stride *stride;
};

void *ig_zalloc(size_t n, size_t size)
{
    void *p = calloc(n ? n : 1, size);
    if (!p) {
        ig_say("not enough memory for %zu x %zu bytes", n, size);
        exit(1);
    }
    return p;
}

void ig_geometry(struct ig_xgeom *g, const struct trace *t, uint32_t n_set, uint32_t n_slot)
{
    uint16_t *set_of = ig_zalloc(t->n_layer, sizeof *set_of);
    uint32_t *first = ig_zalloc((size_t)n_set + 1, sizeof *first);
    for (uint32_t l = 0; l < t->n_layer; l++) set_of[l] = (uint16_t)(l * n_set / t->n_layer);
    for (uint32_t s = 0; s < n_set; s++)
        first[s + 1] = first[s] + n_slot / n_set + (s < n_slot % n_set);
    *g = (struct ig_xgeom){ .n_layer = t->n_layer,
                            .n_expert = t->n_expert,
                            .n_set = n_set,
                            .n_slot = n_slot,
                            .set_of = set_of,
                            .first = first };
}

void ig_geometry_free(struct ig_xgeom *g)
{
    free((void *)(uintptr_t)g->set_of);
    free((void *)(uintptr_t)g->first);
}

uint32_t ig_slots(const struct trace *t, double pool, uint32_t n_set)
{
    const uint32_t slots = (uint32_t)(pool / 100 * t->n_layer * t->n_expert + 1e-9);
    return slots < n_set ? n_set : slots;
}

void ig_rows(struct run_rows *r, const struct trace *t, const uint8_t *docs, int decode,
             uint32_t batch)
{
    *r = (struct run_rows){ .row = ig_zalloc(t->n_row, sizeof *r->row),
                            .counted = ig_zalloc(t->n_row, 1),
                            .batch = ig_zalloc(t->n_row, sizeof *r->batch) };
    for (uint32_t d = 0; d < t->n_doc; d++) {
        uint32_t first = 0; /* of the batch */
        for (uint32_t i = 0; docs[d] && i < t->doc[d].tokens; i++) {
            if (i == 0 || i >= t->doc[d].prompt || i - first >= batch) first = i;
            r->batch[r->n - (i - first)]++;
            r->counted[r->n] = !decode || i >= t->doc[d].prompt;
            r->row[r->n++] = t->doc[d].first + i;
        }
    }
}

void ig_rows_free(struct run_rows *r)
{
    free(r->row);
    free(r->counted);
    free(r->batch);
}

/* -- the link */

static void copy_done(struct sim *s)
{
    if (s->queue[0].slot != NO_SLOT) {
        ig_xcache_ready(&s->cache, s->queue[0].slot);
        s->arrived[s->queue[0].slot] = s->link_now;
    }
    memmove(s->queue, s->queue + 1, --s->n_queue * sizeof *s->queue);
}

/* What the link does until `until`. */
static void link_run(struct sim *s, double until)
{
    while (s->n_queue && s->link_now < until) {
        const double end = s->link_now + s->queue[0].left / s->bw;
        if (end > until) {
            const double part = (until - s->link_now) * s->bw;
            s->moved += part;
            s->queue[0].left -= part;
            break;
        }
        s->moved += s->queue[0].left;
        s->link_now = end;
        copy_done(s);
    }
    if (s->link_now < until) s->link_now = until;
}

/* Runs until the first copy of the queue has ended; returns when. */
static double link_first(struct sim *s)
{
    s->moved += s->queue[0].left;
    s->link_now += s->queue[0].left / s->bw;
    copy_done(s);
    return s->link_now;
}

static void link_insert(struct sim *s, uint32_t at, struct copy copy)
{
    memmove(s->queue + at + 1, s->queue + at, (s->n_queue++ - at) * sizeof *s->queue);
    s->queue[at] = copy;
}

static struct copy link_take(struct sim *s, uint32_t at)
{
    const struct copy copy = s->queue[at];
    memmove(s->queue + at, s->queue + at + 1, (--s->n_queue - at) * sizeof *s->queue);
    return copy;
}

/* -- a layer of a token */

static double bytes_of(const struct sim *s, uint32_t layer)
{
    const uint64_t b = s->c->t->bytes[layer];
    return (double)(b ? b : s->c->m.bytes);
}

static int among(const uint16_t *list, uint32_t n, uint32_t expert)
{
    for (uint32_t i = 0; i < n; i++)
        if (list[i] == expert) return 1;
    return 0;
}

/* Drops the copies of a layer's experts that are not in `keep`, as far as they are not done. */
static void cancel(struct sim *s, uint32_t layer, uint32_t from, const uint16_t *keep, uint32_t n)
{
    const uint32_t experts = s->c->t->n_expert;
    for (uint32_t i = s->n_queue; i-- > from;)
        if (s->queue[i].slot != NO_SLOT && s->queue[i].id / experts == layer &&
            !among(keep, n, s->queue[i].id % experts))
            ig_xcache_drop(&s->cache, link_take(s, i).slot);
}

/* Behind the copies of nearer layers, before those of farther ones. */
static void queue_early(struct sim *s, int slot, uint32_t layer)
{
    uint32_t at = s->n_queue;
    while (at && s->queue[at - 1].slot != NO_SLOT &&
           s->queue[at - 1].id / s->c->t->n_expert > layer)
        at--;
    link_insert(s, at, (struct copy){ slot, s->cache.slot[slot].id, bytes_of(s, layer) });
}

/* Asks for the experts of every layer whose distance reaches back to `here` (-1: token start),
 * again at each nearer layer: what a nearer prediction no longer names is cancelled.  The first
 * `front` copies of the queue are demand. */
static void look_ahead(struct sim *s, uint32_t row, int here, uint32_t front)
{
    const struct sim_conf *c = s->c;
    for (int l = here + 1; c->predictor && l < (int)c->t->n_layer; l++) {
        const int dist = s->stride ? s->stride[l].s : (int)c->distance;
        const uint32_t layer = (uint32_t)l;
        uint16_t want[MAX_K];
        int pinned[MAX_K];
        if (l - dist > here) continue;

        uint32_t n = ig_predict(c->predictor, row, layer, (uint32_t)(l - here), want);
        if (c->width && n > c->width) n = c->width;
        cancel(s, layer, front, want, n);
        uint32_t n_pinned = 0;
        for (uint32_t i = 0; i < n; i++) {
            const int slot = ig_xcache_find(&s->cache, layer, want[i]);
            ig_xcache_predict(&s->cache, layer, want[i]);
            if (slot >= 0) ig_xcache_pin(&s->cache, pinned[n_pinned++] = slot);
        }
        for (uint32_t i = 0; c->prefetch && i < n; i++) {
            if (ig_xcache_find(&s->cache, layer, want[i]) >= 0) continue;
            const int slot = ig_xcache_claim(&s->cache, layer, want[i], 1);
            if (slot >= 0) queue_early(s, slot, layer);
        }
        while (n_pinned) ig_xcache_unpin(&s->cache, pinned[--n_pinned]);
    }
}

static void feedback(struct sim *s, uint32_t layer, int slot, int was_early)
{
    if (!s->stride || slot < 0) return;
    if (s->cache.slot[slot].state == IG_XC_FILLING)
        ig_stride_wait(&s->stride[layer]);
    else if (was_early && s->arrived[slot] <= s->now - s->last_layer)
        ig_stride_overload(&s->stride[layer]);
}

/* Looks up and fetches the experts of one layer.  Returns how many copies stand in front of the
 * queue for it; *late of them were under way. */
static uint32_t demand(struct sim *s, const uint16_t *chosen, const float *weight, uint32_t layer,
                       int *pinned, uint32_t *n_pinned, uint32_t *late)
{
    const uint32_t k = s->c->t->top_k;
    struct ig_xcache *x = &s->cache;
    uint16_t missed[MAX_K];
    uint32_t n_missed = 0, copies = 0;

    *n_pinned = *late = 0;
    for (uint32_t j = 0; j < k; j++) {
        const uint32_t i = s->c->rank_order ? j : k - 1 - j;
        if (chosen[i] == IG_NO_EXPERT) continue;
        const int found = ig_xcache_find(x, layer, chosen[i]);
        const int was_early = found >= 0 && x->slot[found].early == IG_XC_AWAITED;
        const int slot = ig_xcache_use(x, layer, chosen[i], weight[i]);
        feedback(s, layer, slot, was_early);
        if (slot < 0) {
            missed[n_missed++] = chosen[i];
            continue;
        }
        if (x->slot[slot].state == IG_XC_FILLING) {
            uint32_t at = 0;
            while (s->queue[at].slot != slot) at++;
            link_insert(s, copies++, link_take(s, at));
            ++*late;
        }
        if (s->c->pin) ig_xcache_pin(x, pinned[(*n_pinned)++] = slot);
    }
    for (uint32_t i = 0; i < n_missed; i++) {
        int slot = ig_xcache_claim(x, layer, missed[i], 0);
        if (slot >= 0 && s->c->pin) {
            ig_xcache_pin(x, pinned[(*n_pinned)++] = slot);
        } else if (slot >= 0) { /* may be the next victim, so it may not be seen as under way */
            ig_xcache_ready(x, slot);
            slot = NO_SLOT;
        }
        link_insert(s, copies++,
                    (struct copy){ slot < 0 ? NO_SLOT : slot, layer * x->g.n_expert + missed[i],
                                   bytes_of(s, layer) });
    }
    return copies;
}

static void layer_step(struct sim *s, uint32_t row, uint32_t layer, struct sim_result *r)
{
    const struct trace *t = s->c->t;
    const size_t at = trace_at(t, row, layer);
    const double start = s->now;
    int pinned[MAX_K];
    uint32_t n_pinned = 0, late = 0, used = 0, copies = 0;

    s->now += s->c->m.layer_s;
    link_run(s, s->now);
    for (uint32_t i = 0; i < t->top_k; i++) used += t->expert[at + i] != IG_NO_EXPERT;
    if (s->c->policy) {
        copies = demand(s, t->expert + at, t->weight + at, layer, pinned, &n_pinned, &late);
        cancel(s, layer, copies, NULL, 0); /* predicted, but not chosen */
        for (uint32_t n = ig_xcache_passed(&s->cache, layer); s->stride && n > 0; n--)
            ig_stride_overload(&s->stride[layer]);
        if (!s->batch) look_ahead(s, row, (int)layer, copies);
    } else {
        for (; copies < used; copies++)
            link_insert(s, copies, (struct copy){ NO_SLOT, 0, bytes_of(s, layer) });
    }

    const double read = bytes_of(s, layer) / s->c->m.bw_mem;
    double done = s->now + (used - copies) * read;
    for (uint32_t i = 0; i < copies; i++) done = fmax(done, link_first(s)) + read;
    link_run(s, done);
    while (n_pinned) ig_xcache_unpin(&s->cache, pinned[--n_pinned]);

    r->uses += used;
    r->late += late;
    r->hits += used - copies;
    r->stall += done - s->now - used * read;
    s->now = done;
    s->last_layer = done - start;
}

/* -- a run */

static void prefetch_counts(const struct sim *s, struct sim_result *r)
{
    r->early = r->early_used = r->early_lost = 0;
    for (uint32_t l = 0; s->c->policy && l < s->c->t->n_layer; l++) {
        r->early += s->cache.count[l].early;
        r->early_used += s->cache.count[l].early_used;
        r->early_lost += s->cache.count[l].early_lost;
    }
}

static void sim_init(struct sim *s, const struct sim_conf *c)
{
    const uint32_t layers = c->t->n_layer;
    *s = (struct sim){ .c = c, .bw = c->m.bw_link };
    s->queue = ig_zalloc(c->g.n_slot + 2 * (size_t)MAX_K, sizeof *s->queue);
    s->arrived = ig_zalloc(c->g.n_slot, sizeof *s->arrived);
    if (c->policy) {
        const size_t bytes = ig_xcache_bytes(&c->g, c->policy, c->arg);
        s->mem = aligned_alloc(64, bytes);
        if (!bytes || !s->mem) {
            ig_say("no cache of %u slots in %u sets", c->g.n_slot, c->g.n_set);
            exit(1);
        }
        ig_xcache_init(&s->cache, &c->g, c->policy, c->arg, s->mem);
    }
    if (c->rule) {
        uint8_t(*planned)[3] = ig_zalloc(layers, sizeof *planned);
        s->stride = ig_zalloc(layers, sizeof *s->stride);
        for (uint32_t l = 0; l < layers; l++)
            planned[l][0] = (uint8_t)c->distance, memcpy(planned[l] + 1, c->stride, 2);
        ig_stride_init(s->stride, layers, (const uint8_t(*)[3])planned);
        free(planned);
    }
}

static void end_of_batch(struct sim *s, uint32_t at, uint32_t n, double stalled)
{
    const struct sim_conf *c = s->c;
    float sum = 0;
    for (uint32_t i = at; c->predictor && i < at + n; i++)
        ig_predict_row(c->predictor, c->rows->row[i]);
    for (uint32_t l = 0; s->stride && l < c->t->n_layer; l++) sum += s->stride[l].s;
    for (uint32_t i = at; i < at + n; i++) {
        if (c->stride_log) c->stride_log[i] = sum / (float)c->t->n_layer;
        if (c->stall_log) c->stall_log[i] = (float)stalled;
    }
    if (s->stride) ig_stride_step(s->stride, c->t->n_layer, c->rule, at);
}

/* One token, or the prompt rows of a batch: those are not looked ahead for. */
static void batch_step(struct sim *s, uint32_t at, uint32_t n, struct sim_result *r)
{
    const struct sim_conf *c = s->c;
    const struct trace *t = c->t;
    const double share = (double)at / c->rows->n;
    const int slow = c->m.drop > 0 && share >= c->m.drop_from && share < c->m.drop_to;

    s->bw = c->m.bw_link / (slow ? c->m.drop : 1);
    s->batch = n > 1;
    for (uint32_t i = at; c->policy && i < at + n; i++)
        ig_xcache_token(&s->cache, t->token ? t->token[c->rows->row[i]] : -1);
    if (c->policy && n == 1) look_ahead(s, c->rows->row[at], -1, 0);
    for (uint32_t l = 0; l < t->n_layer; l++)
        for (uint32_t i = at; i < at + n; i++) {
            if (n > 1 && c->policy) ig_xcache_row(&s->cache, at + n - 1 - i);
            layer_step(s, c->rows->row[i], l, r);
        }
}

static void add(struct sim_result *a, const struct sim_result *b)
{
    a->tokens += b->tokens;
    a->uses += b->uses;
    a->hits += b->hits;
    a->late += b->late;
    a->early += b->early;
    a->early_used += b->early_used;
    a->early_lost += b->early_lost;
    a->bytes += b->bytes;
    a->seconds += b->seconds;
    a->stall += b->stall;
}

void ig_sim(const struct sim_conf *c, struct sim_result *out)
{
    struct sim s;
    struct sim_result early = { 0 };
    sim_init(&s, c);
    *out = early;

    for (uint32_t at = 0, n; at < c->rows->n; at += n) {
        const double start = s.now, moved = s.moved;
        const struct sim_result before = early;
        struct sim_result r = { .tokens = n = c->rows->batch[at] };

        batch_step(&s, at, n, &r);
        prefetch_counts(&s, &early);
        r.early = early.early - before.early;
        r.early_used = early.early_used - before.early_used;
        r.early_lost = early.early_lost - before.early_lost;
        r.bytes = s.moved - moved;
        r.seconds = s.now - start;
        end_of_batch(&s, at, n, r.stall / r.seconds);
        if (c->rows->counted[at]) add(out, &r);
    }
    free(s.queue);
    free(s.arrived);
    free(s.stride);
    free(s.mem);
}
