/* moe.c -- router, top-k and the chosen experts of one layer.
 *
 * Rows are grouped by expert, so an expert's weights are read once a batch; each
 * row's expert outputs are then added in rank order (largest weight first),
 * whoever computed them.
 */
#include "state.h"

#include <string.h>

/* Experts of one row: the k largest logits, ties to the lower id; weights are the
 * softmax over the chosen logits (Jiang et al. 2024, Mixtral, section 2.1). */
static void choose(struct ig_engine *e, int row)
{
    const float *logit = IG_BUF(e, RL, float) + (size_t)row * IG_RL_STRIDE;
    int32_t *id = ig_topk_id(e, row);
    float *weight = ig_topk_w(e, row);

    for (int k = 0; k < IG_N_EXPERT_USED; k++) {
        int best = -1;
        for (int x = 0; x < IG_N_EXPERT; x++) {
            int taken = 0;
            for (int j = 0; j < k; j++) taken |= id[j] == x;
            if (!taken && (best < 0 || logit[x] > logit[best])) best = x;
        }
        id[k] = best;
        weight[k] = logit[best];
    }
    ig_kern.softmax(weight, IG_N_EXPERT_USED);
}

/* Rows [lo, hi) take recorded choices in place of the router's. */
static void force(struct ig_engine *e, int layer, int lo, int hi)
{
    const size_t k = IG_N_EXPERT_USED;
    for (int t = lo; t < hi; t++) {
        const size_t at = ((size_t)t * IG_N_LAYER + (size_t)layer) * k;
        memcpy(ig_topk_id(e, t), e->force_expert + at, k * sizeof(int32_t));
        memcpy(ig_topk_w(e, t), e->force_weight + at, k * sizeof(float));
    }
}

/* ROUTE: start[IG_N_EXPERT + 1], then (row * k + rank) grouped by expert, rows ascending. */
static int32_t *route_start(struct ig_engine *e) { return IG_BUF(e, ROUTE, int32_t); }
static int32_t *route_slot(struct ig_engine *e) { return route_start(e) + IG_N_EXPERT + 1; }

static void group_by_expert(struct ig_engine *e)
{
    int32_t *start = route_start(e), *slot = route_slot(e), fill[IG_N_EXPERT];
    const int n = e->batch->n * IG_N_EXPERT_USED;
    const int32_t *id = ig_topk_id(e, 0);

    memset(start, 0, sizeof(int32_t) * (IG_N_EXPERT + 1));
    for (int i = 0; i < n; i++) start[id[i] + 1]++;
    for (int x = 0; x < IG_N_EXPERT; x++) start[x + 1] += start[x];
    memcpy(fill, start, sizeof fill);
    for (int i = 0; i < n; i++) slot[fill[id[i]]++] = i;
}

/* Which experts this batch needs and where their weights are. */
static void locate(struct ig_engine *e, const struct ig_layer *l)
{
#if IG_MEM_SLOTS_BYTES
    ig_tier_layer(e, (int)(l - ig_layers));
    return;
#endif
    const int32_t *start = route_start(e);
    e->n_active = 0;
    for (int x = 0; x < IG_N_EXPERT; x++) {
        if (start[x] == start[x + 1]) continue;
        e->active[e->n_active] = x;
        e->slab[e->n_active++] = ig_expert(e, l->expert_off + (uint64_t)x * l->expert_stride);
    }
}

static struct ig_xq *hq_at(struct ig_engine *e, int slot)
{
    return IG_BUF(e, HQ, struct ig_xq) + (size_t)slot * (IG_FF_PAD / IG_QBLOCK);
}
static float *h_at(struct ig_engine *e, int slot)
{
    return IG_BUF(e, H, float) + (size_t)slot * IG_FF_PAD;
}

/* 32 hidden values of every row that chose active expert a: silu(gate) * up, as down reads them. */
static void hidden_block(struct ig_worker *w, const struct ig_layer *l, int a, int block)
{
    struct ig_engine *e = w->e;
    const int32_t *start = route_start(e), *slot = route_slot(e) + start[e->active[a]];
    const int n = start[e->active[a] + 1] - start[e->active[a]];
    const int panels = (int)(l->gate.rows + 15) / 16;
    float h[IG_QBLOCK];

    for (int half = 0; half < 2; half++) {
        const int p = 2 * block + half;
        if (p >= panels) break;
        const unsigned char *gate = e->slab[a] + l->gate.off + (uint64_t)p * l->gate.stride;
        const unsigned char *up = e->slab[a] + l->up.off + (uint64_t)p * l->up.stride;
        for (int t = 0; t < n; t++)
            w->ptr[t] = ig_act(e, slot[t] / IG_N_EXPERT_USED, l->gate.fmt);
        ig_kern.panel[l->gate.fmt](w->ya, gate, w->ptr, IG_N_EMBD, n);
        if (l->up.fmt != l->gate.fmt)
            for (int t = 0; t < n; t++)
                w->ptr[t] = ig_act(e, slot[t] / IG_N_EXPERT_USED, l->up.fmt);
        ig_kern.panel[l->up.fmt](w->yb, up, w->ptr, IG_N_EMBD, n);
        for (int t = 0; t < n; t++) {
            float *out = ig_is_block(l->down.fmt) ? w->spare + (size_t)t * IG_QBLOCK + half * 16
                                                  : h_at(e, slot[t]) + block * IG_QBLOCK + half * 16;
            ig_kern.swiglu(out, w->ya[t], w->yb[t], 16);
        }
    }
    if (!ig_is_block(l->down.fmt)) return;
    for (int t = 0; t < n; t++) {
        memcpy(h, w->spare + (size_t)t * IG_QBLOCK, sizeof h);
        if (2 * block + 1 >= panels) memset(h + 16, 0, sizeof h / 2);
        ig_kern.quantize(hq_at(e, slot[t]) + block, h, IG_QBLOCK);
    }
}

static const void *down_act(struct ig_engine *e, const struct ig_layer *l, int slot)
{
    return ig_is_block(l->down.fmt) ? (const void *)hq_at(e, slot) : (const void *)h_at(e, slot);
}

/* One row: expert by expert, so that each is one contiguous read. */
static void down_one(struct ig_worker *w, const struct ig_layer *l)
{
    struct ig_engine *e = w->e;
    const int32_t *id = ig_topk_id(e, 0);
    const float *weight = ig_topk_w(e, 0);
    float *sum = w->spare, *x = ig_x(e, 0);
    int lo, hi;

    ig_team_share(&e->team, w->tid, (IG_N_EMBD + 15) / 16, &lo, &hi);
    memset(sum, 0, sizeof(float) * 16 * (size_t)(hi - lo));
    for (int k = 0; k < IG_N_EXPERT_USED; k++) {
        int a = 0;
        while (e->active[a] != id[k]) a++;
        const void *act = down_act(e, l, k);
        const unsigned char *panel = e->slab[a] + l->down.off + (uint64_t)lo * l->down.stride;
        for (int p = lo; p < hi; p++, panel += l->down.stride) {
            ig_kern.panel[l->down.fmt](w->ya, panel, &act, IG_N_FF, 1);
            ig_kern.axpy(sum + (size_t)(p - lo) * 16, weight[k], w->ya[0], 16);
        }
    }
    const int end = hi * 16 < IG_N_EMBD ? hi * 16 : IG_N_EMBD;
    for (int r = lo * 16; r < end; r++) x[r] += sum[r - lo * 16];
}

/* One output panel for every row: all experts into yb, then each row's sum in rank order. */
static void down_panel(struct ig_worker *w, const struct ig_layer *l, int p)
{
    struct ig_engine *e = w->e;
    const int32_t *start = route_start(e), *slots = route_slot(e);
    const int rows = IG_N_EMBD - p * 16 < 16 ? IG_N_EMBD - p * 16 : 16;

    for (int a = 0; a < e->n_active; a++) {
        const int first = start[e->active[a]], n = start[e->active[a] + 1] - first;
        for (int t = 0; t < n; t++) w->ptr[t] = down_act(e, l, slots[first + t]);
        ig_kern.panel[l->down.fmt](w->ya, e->slab[a] + l->down.off + (uint64_t)p * l->down.stride,
                                   w->ptr, IG_N_FF, n);
        for (int t = 0; t < n; t++) memcpy(w->yb[slots[first + t]], w->ya[t], sizeof w->ya[t]);
    }
    for (int t = 0; t < e->batch->n; t++) {
        float sum[16] = { 0 }, *x = ig_x(e, t) + p * 16;
        for (int k = 0; k < IG_N_EXPERT_USED; k++)
            ig_kern.axpy(sum, ig_topk_w(e, t)[k], w->yb[t * IG_N_EXPERT_USED + k], 16);
        for (int r = 0; r < rows; r++) x[r] += sum[r];
    }
}

#if IG_MEM_YD_BYTES
/* YD: expert outputs by (row * k + rank), where a layer's experts come in waves. */
static float *yd_at(struct ig_engine *e, int slot)
{
    return IG_BUF(e, YD, float) + (size_t)slot * ((IG_N_EMBD + 15) / 16 * 16);
}

/* One output panel of the experts [a_lo, a_hi), for the sum that follows the last wave. */
static void down_store(struct ig_worker *w, const struct ig_layer *l, int p, int a_lo, int a_hi)
{
    struct ig_engine *e = w->e;
    const int32_t *start = route_start(e), *slots = route_slot(e);

    for (int a = a_lo; a < a_hi; a++) {
        const int first = start[e->active[a]], n = start[e->active[a] + 1] - first;
        for (int t = 0; t < n; t++) w->ptr[t] = down_act(e, l, slots[first + t]);
        ig_kern.panel[l->down.fmt](w->ya, e->slab[a] + l->down.off + (uint64_t)p * l->down.stride,
                                   w->ptr, IG_N_FF, n);
        for (int t = 0; t < n; t++)
            memcpy(yd_at(e, slots[first + t]) + p * 16, w->ya[t], sizeof w->ya[t]);
    }
}

/* Each row's sum in rank order, as down_panel's. */
static void down_sum(struct ig_worker *w)
{
    struct ig_engine *e = w->e;
    int lo, hi;
    ig_team_share(&e->team, w->tid, e->batch->n, &lo, &hi);
    for (int t = lo; t < hi; t++)
        for (int p = 0; p < IG_N_EMBD; p += 16) {
            const int rows = IG_N_EMBD - p < 16 ? IG_N_EMBD - p : 16;
            float sum[16] = { 0 }, *x = ig_x(e, t) + p;
            for (int k = 0; k < IG_N_EXPERT_USED; k++)
                ig_kern.axpy(sum, ig_topk_w(e, t)[k], yd_at(e, t * IG_N_EXPERT_USED + k) + p, 16);
            for (int r = 0; r < rows; r++) x[r] += sum[r];
        }
}
#endif

static void router(struct ig_worker *w, const struct ig_layer *l)
{
    struct ig_engine *e = w->e;
    const int n = e->batch->n;
    int lo, hi;
    for (int t = 0; t < n; t++) w->ptr[t] = ig_act(e, t, l->router.fmt);
    ig_team_share(&e->team, w->tid, IG_RL_STRIDE / 16, &lo, &hi);
    ig_linear(w, &l->router, lo, hi, w->ptr, n, IG_BUF(e, RL, float), IG_RL_STRIDE);
    ig_team_wait(&e->team);
    ig_team_share(&e->team, w->tid, n, &lo, &hi);
    for (int t = lo; t < hi; t++) choose(e, t);
    if (e->force_expert) force(e, (int)(l - ig_layers), lo, hi);
    ig_team_wait(&e->team);
    if (w->tid == 0) {
        group_by_expert(e);
        locate(e, l);
    }
    ig_team_wait(&e->team);
}

/* Hidden values of the experts [a_lo, a_hi).  Where experts may still be on their way, threads
 * share each of them, so that all work on the first ones while the last arrive. */
static void hidden(struct ig_worker *w, const struct ig_layer *l, int a_lo, int a_hi)
{
    struct ig_engine *e = w->e;
    const int blocks = IG_FF_PAD / IG_QBLOCK, items = (a_hi - a_lo) * blocks;
    int lo, hi;

    if (e->batch->n == 1 && IG_TIER != IG_TIER_DISK) {
        ig_team_share(&e->team, w->tid, items, &lo, &hi);
        for (int i = lo; i < hi; i++) hidden_block(w, l, i / blocks, i % blocks);
        return;
    }
    while (ig_team_claim(&e->team, items, 2, &lo, &hi))
        for (int i = lo; i < hi; i++) {
            ig_tier_need(e, a_lo + i / blocks);
            hidden_block(w, l, a_lo + i / blocks, i % blocks);
        }
}

#if IG_MEM_YD_BYTES
/* More experts than slots: wave by wave, the sums at the end. */
static void waves(struct ig_worker *w, const struct ig_layer *l)
{
    struct ig_engine *e = w->e;
    int lo, hi;
    while (e->tier.wave_lo < e->tier.wave_hi) {
        const int a_lo = e->tier.wave_lo, a_hi = e->tier.wave_hi;
        hidden(w, l, a_lo, a_hi);
        ig_team_wait(&e->team);
        while (ig_team_claim(&e->team, (IG_N_EMBD + 15) / 16, 1, &lo, &hi))
            down_store(w, l, lo, a_lo, a_hi);
        ig_team_wait(&e->team);
        if (w->tid == 0) ig_tier_next(e);
        ig_team_wait(&e->team);
    }
    down_sum(w);
}
#endif

/* The feed-forward block of one layer: normed rows in, residual stream updated. */
void ig_moe(struct ig_worker *w, int layer)
{
    struct ig_engine *e = w->e;
    const struct ig_layer *l = &ig_layers[layer];
    int lo, hi;

    router(w, l);
#if IG_MEM_YD_BYTES
    if (e->tier.wave_hi < e->n_active) {
        waves(w, l);
        return;
    }
#endif
#if IG_MEM_RLP_BYTES
    if (e->batch->n == 1) ig_tier_ahead(w, layer);
#endif
    hidden(w, l, 0, e->n_active);
    ig_team_wait(&e->team);
    if (e->batch->n == 1) {
        down_one(w, l);
        return;
    }
    while (ig_team_claim(&e->team, (IG_N_EMBD + 15) / 16, 1, &lo, &hi)) down_panel(w, l, lo);
}
