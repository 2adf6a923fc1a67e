/* tier_ahead.c -- experts of later layers, asked for before their routers have run.
 *
 * Prediction: the plan's predictor (predict.h), which may want to hear what a later layer's norm
 * and router make of the residual stream as it is now.  Distance: the stride of that layer, moved
 * by what happens (stride.h).  It is asked again when the layer is nearer, and copies that are then
 * no longer named are cancelled.  Decode steps only: a prefill chooses nearly all experts anyway.
 * Prefetch compares itself with being off (trial.h), and stays on only if that is faster.
 */
#include "state.h"
#include "machine.h"

#include <string.h>

#if IG_MEM_RLP_BYTES

/* Without prefetch, unless a step with it takes at most 0.98 of one without; until a trial has
 * ended, with it.  The first trial waits: it shall not judge an empty cache. */
static const struct ig_trial_rule rule = {
    .warm = 8, .block = 8, .skip = 2, .rounds = 4, .every = 2048, .gain = 0.98, .behind = 2.0
};

static const struct ig_pshape shape = { IG_N_LAYER, IG_N_EXPERT, IG_N_EXPERT_USED, IG_N_EMBD };

enum ig_err ig_ahead_open(struct ig_engine *e, struct ig_why *why)
{
    struct ig_ahead *h = &e->tier.ahead;
    const size_t bytes = IG_PREDICTOR.bytes(&shape, &ig_ptables);
    if (bytes > IG_MEM_PREDICT_BYTES)
        return ig_fail(why, IG_FAIL, "predictor: the plan has %llu bytes for it, it takes %zu",
                       (unsigned long long)IG_MEM_PREDICT_BYTES, bytes);
    h->predictor = &IG_PREDICTOR;
    h->state = IG_BUF(e, PREDICT, void);
    h->least = IG_PREDICT_LEAST;
    h->predictor->init(h->state, &shape, &ig_ptables);
    ig_stride_init(h->stride, IG_N_LAYER, ig_xc_stride);
    h->past = (struct ig_stride_log){ .at = h->past_at[0] };
    ig_trial_init(&h->trial, &rule, 2);
    h->trial.best = h->trial.now = IG_AHEAD_ON;
    return IG_OK;
}

double ig_ahead_gain(const struct ig_ahead *h)
{
    const double *mean = h->trial.mean;
    return mean[IG_AHEAD_ON] > 0 ? mean[IG_AHEAD_OFF] / mean[IG_AHEAD_ON] : 0;
}

/* A step begins: a decode step before it took its time with or without, up to now if this is the
 * next one. */
static void step(struct ig_tier *t, int decode)
{
    struct ig_ahead *h = &t->ahead;
    const double now = ig_seconds(), took = now - h->began;
    if (h->decode) ig_trial_step(&h->trial, &rule, decode ? took : -1.0);
    h->began = now;
    h->decode = decode;
    memset(h->issued, 0, sizeof h->issued);
    if (!decode) return;
    if (h->step > 0) ig_stride_step(h->stride, IG_N_LAYER, &ig_stride_usual, h->step);
    ig_stride_note(&h->past, h->stride, IG_N_LAYER, h->step);
    h->steps_on += h->trial.now == IG_AHEAD_ON;
    h->step++;
}

/* What happened to the chosen experts tells whether copies start too early or too late. */
void ig_ahead_feedback(struct ig_tier *t, int layer, int slot)
{
    if (slot < 0) return;
    const struct ig_xslot *s = &t->cache.slot[slot];
    if (s->state == IG_XC_FILLING)
        ig_stride_wait(&t->ahead.stride[layer]);
    else if (s->early && t->move[slot].ready_s < t->ahead.layer_began)
        ig_stride_overload(&t->ahead.stride[layer]);
}

/* A prefetch of this layer that is still under way and wanted, from the i-th on; -1: none. */
static int under_way(const struct ig_tier *t, int layer, int i)
{
    for (; i < t->n_early; i++) {
        const int slot = t->early[i];
        if (!t->dropped[slot] && t->cache.slot[slot].id / IG_N_EXPERT == (uint32_t)layer &&
            ig_move_state(&t->move[slot]) == IG_MOVE_PENDING)
            return i;
    }
    return -1;
}

/* Copies for a layer that are not there yet and that `keep` does not name: no use in going on. */
static int take_back(struct ig_tier *t, int layer, const int32_t *keep, int n_keep)
{
    int n = 0;
    for (int i = 0; (i = under_way(t, layer, i)) >= 0; i++) {
        const int slot = t->early[i], expert = (int)(t->cache.slot[slot].id % IG_N_EXPERT);
        int named = 0;
        for (int k = 0; k < n_keep; k++) named |= keep[k] == expert;
        if (named) continue;
        t->dropped[slot] = 1;
        ig_mover_cancel(&t->mover, &t->move[slot]);
        ig_stride_overload(&t->ahead.stride[layer]);
        n++;
    }
    return n;
}

/* Which layers are asked about, seen from `layer`: those whose turn it is, again those of which
 * copies are still under way, and again the next one, of which there is no better word. */
static void targets(struct ig_tier *t, int layer)
{
    struct ig_ahead *h = &t->ahead;
    h->n_target = 0;
    if (h->trial.now != IG_AHEAD_ON) return;
    for (int l = layer + 1; l < IG_N_LAYER && l <= layer + IG_PREDICT_DIST; l++) {
        if (ig_layers[l].ffn != IG_FFN_MOE || l - h->stride[l].s > layer) continue;
        if (h->issued[l] && l > layer + 1 && under_way(t, l, 0) < 0) continue;
        h->target[h->n_target++] = l;
    }
}

/* A layer has chosen: what else was fetched for it is not wanted any more. */
void ig_ahead_routed(struct ig_tier *t, int layer)
{
    t->ahead.layer_began = ig_seconds();
    take_back(t, layer, NULL, 0);
    targets(t, layer);
}

/* Next-router's experts, best first: from the logits in RLP, or as they were recorded. */
static void next_router(struct ig_engine *e, int layer, int dist, int32_t *id)
{
    const float *logit = IG_BUF(e, RLP, float);
    if (e->force_predicted) {
        memcpy(id,
               e->force_predicted + ((size_t)dist * IG_N_LAYER + (size_t)layer) * IG_N_EXPERT_USED,
               sizeof *id * IG_N_EXPERT_USED);
        return;
    }
    for (int k = 0; k < IG_N_EXPERT_USED; k++) {
        int best = -1;
        for (int x = 0; x < IG_N_EXPERT; x++) {
            int taken = 0;
            for (int j = 0; j < k; j++) taken |= id[j] == x;
            if (!taken && (best < 0 || logit[x] > logit[best])) best = x;
        }
        id[k] = best;
    }
}

/* Slots and copies for what is not there; what is there shall not make room for it. */
static void fetch(struct ig_engine *e, int layer, const int32_t *id, int n_id)
{
    struct ig_tier *t = &e->tier;
    struct ig_move *move[IG_N_EXPERT_USED];
    int pinned[IG_N_EXPERT_USED] = { 0 }, n_pinned = 0, n = 0;
    for (int k = 0; k < n_id; k++) {
        const int slot = ig_xcache_find(&t->cache, (uint32_t)layer, (uint32_t)id[k]);
        ig_xcache_predict(&t->cache, (uint32_t)layer, (uint32_t)id[k]);
        if (slot >= 0) ig_xcache_pin(&t->cache, pinned[n_pinned++] = slot);
    }
    for (int k = 0; k < n_id && t->n_early < IG_AHEAD_MOST; k++) {
        if (ig_xcache_find(&t->cache, (uint32_t)layer, (uint32_t)id[k]) >= 0) continue;
        const int slot = ig_xcache_claim(&t->cache, (uint32_t)layer, (uint32_t)id[k], 1);
        if (slot < 0) break;
        t->early[t->n_early++] = slot;
        t->dropped[slot] = 0;
        move[n++] = ig_tier_prepare(e, layer, id[k], slot);
    }
    while (n_pinned) ig_xcache_unpin(&t->cache, pinned[--n_pinned]);
    if (n == 0) return;
    ig_mover_submit(&t->mover, move, n, 0);
    ig_mover_turn(&t->mover);
}

/* What is likely enough of a layer's experts; dist 0: of this token nothing has been computed. */
static void ask(struct ig_engine *e, int layer, int dist)
{
    struct ig_ahead *h = &e->tier.ahead;
    float *chance = IG_BUF(e, RLP, float) + IG_RL_STRIDE;
    int32_t next[IG_N_EXPERT_USED], id[IG_N_EXPERT_USED];
    struct ig_pask a = { .layer = (uint32_t)layer, .dist = (uint32_t)dist };
    if (dist > 0) {
        if (IG_PREDICT_NEXT || e->force_predicted) {
            next_router(e, layer, dist, next);
            a.next = next;
        }
        a.hidden = ig_xn(e, 0);
    }
    h->predictor->ask(h->state, &a, chance);
    const int n = ig_predict_best(chance, IG_N_EXPERT, IG_N_EXPERT_USED, h->least, id);
    if (h->issued[layer]) {
        h->taken_back += (uint64_t)take_back(&e->tier, layer, id, n);
        h->renewed++;
    }
    h->issued[layer] = 1;
    h->asked++;
    fetch(e, layer, id, n);
}

/* The tokens of a batch; of a decode step, what they say of the first layers. */
void ig_ahead_batch(struct ig_engine *e)
{
    const struct ig_ahead *h = &e->tier.ahead;
    const int n = e->batch->n;
    step(&e->tier, n == 1);
    for (int i = 0; i < n; i++) h->predictor->token(h->state, e->batch->token[i]);
    if (n > 1 || h->trial.now != IG_AHEAD_ON) return;
    for (int l = IG_N_LAYER_ENC; l < IG_N_LAYER; l++)
        if (ig_layers[l].ffn == IG_FFN_MOE && l - h->stride[l].s < IG_N_LAYER_ENC) ask(e, l, 0);
}

void ig_ahead_use(struct ig_engine *e, int layer, int row)
{
    const struct ig_ahead *h = &e->tier.ahead;
    h->predictor->use(h->state, (uint32_t)(e->batch->n - 1 - row), (uint32_t)layer,
                      ig_topk_id(e, row), ig_topk_w(e, row));
}

/* A later layer's router on this layer's residual stream; all threads. */
static void router(struct ig_worker *w, const struct ig_layer *l)
{
    struct ig_engine *e = w->e;
    float *norm = w->spare;
    struct ig_xq *blocks = (struct ig_xq *)(void *)(norm + IG_N_EMBD);
    const void *row = norm;
    int lo, hi;
    _Static_assert(IG_N_EMBD * 4 + (IG_N_EMBD + 31) / 32 * 40 <= IG_SPARE_BYTES,
                   "a row fits a spare");

    ig_team_share(&e->team, w->tid, IG_RL_STRIDE / 16, &lo, &hi);
    ig_norm(e, norm, ig_x(e, 0), l->ffn_norm, l->ffn_norm_bias);
    if (ig_is_block(l->router.fmt)) {
        ig_kern.quantize(blocks, norm, IG_N_EMBD);
        row = blocks;
    }
    ig_linear(w, &l->router, lo, hi, &row, 1, IG_BUF(e, RLP, float), IG_RL_STRIDE);
    ig_team_wait(&e->team);
}

void ig_tier_ahead(struct ig_worker *w, int layer)
{
    struct ig_engine *e = w->e;
    const struct ig_ahead *h = &e->tier.ahead;
    for (int i = 0; i < h->n_target; i++) {
        if (IG_PREDICT_NEXT) router(w, &ig_layers[h->target[i]]);
        if (w->tid == 0) ask(e, h->target[i], h->target[i] - layer);
        if (IG_PREDICT_NEXT && i + 1 < h->n_target) ig_team_wait(&e->team);
    }
}

#endif
