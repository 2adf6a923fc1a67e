/* moe.c -- the feed-forward block of one layer: router, chosen experts, dense block.
 *
 * Rows are grouped by expert, so an expert's weights are read once a batch; each
 * row's expert outputs are then added in rank order (largest weight first), the dense
 * block's last, whoever computed them.  A dense layer is the dense block alone.
 */
#include "state.h"

#include <string.h>

enum { USED = IG_N_EXPERT_USED ? IG_N_EXPERT_USED : 1, ASIDE = IG_N_ROW * IG_N_EXPERT_USED };

/* Rows of expert work have slots: row * k + rank; the dense block's are ASIDE + row. */
static int row_of(int slot) { return slot >= ASIDE ? slot - ASIDE : slot / USED; }

/* ROUTE: start[IG_N_EXPERT + 1], then (row * k + rank) grouped by expert, rows ascending. */
static int32_t *route_start(struct ig_engine *e) { return IG_BUF(e, ROUTE, int32_t); }
static int32_t *route_slot(struct ig_engine *e) { return route_start(e) + IG_N_EXPERT + 1; }

static void group_by_expert(struct ig_engine *e)
{
    int32_t *start = route_start(e), *slot = route_slot(e), fill[IG_N_EXPERT + 1];
    const int n = e->batch->n * IG_N_EXPERT_USED;
    const int32_t *id = ig_topk_id(e, 0);

    memset(start, 0, sizeof(int32_t) * (IG_N_EXPERT + 1));
    for (int i = 0; i < n; i++) start[id[i] + 1]++;
    for (int x = 0; x < IG_N_EXPERT; x++) start[x + 1] += start[x];
    memcpy(fill, start, sizeof(int32_t) * IG_N_EXPERT);
    for (int i = 0; i < n; i++) slot[fill[id[i]]++] = i;
}

/* Which experts this batch needs and where their weights are; thread 0. */
static void locate(struct ig_engine *e, const struct ig_layer *l)
{
    e->n_active = 0;
#if IG_MEM_SLOTS_BYTES
    if (l->ffn == IG_FFN_MOE) ig_tier_layer(e, (int)(l - ig_layers));
#else
    const int32_t *start = route_start(e);
    for (int x = 0; x < IG_N_EXPERT && l->ffn == IG_FFN_MOE; x++) {
        if (start[x] == start[x + 1]) continue;
        e->active[e->n_active] = x;
        e->slab[e->n_active++] = ig_expert(e, l->expert_off + (uint64_t)x * l->expert_stride);
    }
#endif
    if (!l->dense_gate.rows) return;
    e->active[e->n_active] = IG_DENSE;
    e->slab[e->n_active++] = ig_data(e, 0);
}

/* Where a single row's experts are always at their place, each thread finds them by itself, and
 * they are active in rank order.  Behind slots thread 0 does, since it starts their reads. */
enum { FINDS_ALONE = IG_MEM_SLOTS_BYTES == 0 };

static void locate_alone(struct ig_worker *w, const struct ig_layer *l)
{
    struct ig_engine *e = w->e;
    int n = 0;
    for (; n < IG_N_EXPERT_USED && l->ffn == IG_FFN_MOE; n++)
        w->place[n] = ig_expert(e, l->expert_off + (uint64_t)w->id[n] * l->expert_stride);
    if (l->dense_gate.rows) {
        w->id[n] = IG_DENSE;
        w->place[n++] = ig_data(e, 0);
    }
    w->active = w->id, w->slab = w->place, w->n_active = n;
}

/* The three matrices and the rows of active block a. */
struct work {
    const struct ig_mat *gate, *up, *down;
    const unsigned char *slab;
    const int32_t *slots; /* NULL: first, first + 1, ... */
    int n, first;
};

static struct work work_of(const struct ig_worker *w, const struct ig_layer *l, int a)
{
    struct ig_engine *e = w->e;
    const int32_t *start = route_start(e), x = w->active[a];
    if (x == IG_DENSE)
        return (struct work){ &l->dense_gate, &l->dense_up, &l->dense_down, w->slab[a],
                              NULL,           e->batch->n,  ASIDE };
    if (w->active == w->id)
        return (struct work){ &l->gate, &l->up, &l->down, w->slab[a], NULL, 1, a };
    return (struct work){
        &l->gate, &l->up, &l->down, w->slab[a], route_slot(e) + start[x], start[x + 1] - start[x], 0
    };
}
static int slot_of(const struct work *k, int t) { return k->slots ? k->slots[t] : k->first + t; }

/* Where the hidden values of a slot are, as elements of `each` a 32 of them. */
static size_t hidden_at(int slot, size_t each)
{
    const size_t wide = IG_FF_PAD / IG_QBLOCK * each, aside = IG_ASIDE_PAD / IG_QBLOCK * each;
    return slot < ASIDE ? (size_t)slot * wide : ASIDE * wide + (size_t)(slot - ASIDE) * aside;
}
static struct ig_xq *hq_at(struct ig_engine *e, int slot)
{
    return IG_BUF(e, HQ, struct ig_xq) + hidden_at(slot, 1);
}
static float *h_at(struct ig_engine *e, int slot)
{
    return IG_BUF(e, H, float) + hidden_at(slot, IG_QBLOCK);
}

void ig_activate(float *h, const float *gate, const float *up)
{
    if (IG_ACT == IG_ACT_RELU)
        ig_kern.relu(h, gate, IG_PANEL_ROWS);
    else if (IG_ACT == IG_ACT_SWIGLU_OAI)
        ig_kern.swiglu_oai(h, gate, up, IG_ACT_LIMIT, IG_PANEL_ROWS);
    else
        ig_kern.swiglu(h, gate, up, IG_PANEL_ROWS);
}

/* 16 hidden values of every row of the block, before the activation. */
static void hidden_panel(struct ig_worker *w, const struct work *k, const struct ig_mat *m, int p,
                         float (*y)[IG_PANEL_ROWS])
{
    for (int t = 0; t < k->n; t++) w->ptr[t] = ig_act(w, row_of(slot_of(k, t)), m->fmt);
    ig_kern.panel[m->fmt](y, k->slab + m->off + (uint64_t)p * m->stride, w->ptr, IG_N_EMBD, k->n);
    if (!m->bias) return;
    const float *bias = (const float *)(const void *)(k->slab + m->bias) + p * IG_PANEL_ROWS;
    for (int t = 0; t < k->n; t++) ig_kern.add(y[t], bias, IG_PANEL_ROWS);
}

/* 32 hidden values of every row of active block a: act(gate) * up, as down reads them. */
static void hidden_block(struct ig_worker *w, const struct ig_layer *l, int a, int block)
{
    struct ig_engine *e = w->e;
    const struct work k = work_of(w, l, a);
    const int panels = (int)(k.gate->rows + 15) / 16, to_blocks = ig_is_block(k.down->fmt);
    float h[IG_QBLOCK];

    for (int half = 0; half < 2; half++) {
        const int p = 2 * block + half;
        if (p >= panels) break;
        hidden_panel(w, &k, k.gate, p, w->ya);
        if (IG_ACT != IG_ACT_RELU) hidden_panel(w, &k, k.up, p, w->yb);
        for (int t = 0; t < k.n; t++) {
            float *out = to_blocks ? w->spare + (size_t)t * IG_QBLOCK + half * 16
                                   : h_at(e, slot_of(&k, t)) + block * IG_QBLOCK + half * 16;
            ig_activate(out, w->ya[t], w->yb[t]);
        }
    }
    if (!to_blocks) return;
    for (int t = 0; t < k.n; t++) {
        memcpy(h, w->spare + (size_t)t * IG_QBLOCK, sizeof h);
        if (2 * block + 1 >= panels) memset(h + 16, 0, sizeof h / 2);
        ig_kern.quantize(hq_at(e, slot_of(&k, t)) + block, h, IG_QBLOCK);
    }
}

/* Hidden blocks of the active blocks [a_lo, a_hi): of `routed` experts IG_FF_PAD / 32 each, and
 * `aside` of the dense block.  A pool's items are its part of every expert, expert by expert, then
 * its part of the dense block: what its node has. */
struct hidden_work {
    int a_lo, a_hi, routed, aside;
};

static void hidden_item(struct ig_worker *w, const struct ig_layer *l, const struct hidden_work *k,
                        int i)
{
    const struct ig_team *t = &w->e->team;
    int lo, hi, d_lo, d_hi, part;
    for (int p = 0;; p++, i -= part) {
        ig_team_part(t, p, IG_FF_PAD / IG_QBLOCK, &lo, &hi);
        ig_team_part(t, p, k->aside, &d_lo, &d_hi);
        part = k->routed * (hi - lo) + d_hi - d_lo;
        if (i < part || p + 1 == t->n_pool) break;
    }
    if (i < k->routed * (hi - lo)) {
        const int a = k->a_lo + i / (hi - lo);
        ig_tier_need(w->e, a);
        hidden_block(w, l, a, lo + i % (hi - lo));
    } else {
        hidden_block(w, l, k->a_hi - 1, d_lo + i - k->routed * (hi - lo));
    }
}

/* Hidden values of the active blocks [a_lo, a_hi).  Where experts may still be on their way,
 * threads share each of them, so that all work on the first ones while the last arrive. */
static void hidden(struct ig_worker *w, const struct ig_layer *l, int a_lo, int a_hi)
{
    struct ig_engine *e = w->e;
    const int with_dense = a_hi > a_lo && w->active[a_hi - 1] == IG_DENSE;
    const struct hidden_work k = { a_lo, a_hi, a_hi - a_lo - with_dense,
                                   with_dense ? (int)(l->dense_gate.rows + 31) / IG_QBLOCK : 0 };
    const int items = k.routed * (IG_FF_PAD / IG_QBLOCK) + k.aside;
    int lo, hi;

    if (w->active == w->id) {
        while (ig_team_take(&e->team, w->tid, items, &lo, &hi))
            for (; lo < hi; lo++) hidden_item(w, l, &k, lo);
        return;
    }
    while (ig_team_claim(&e->team, w->tid, items, 2, &lo, &hi))
        for (; lo < hi; lo++) hidden_item(w, l, &k, lo);
}

static const void *down_act(struct ig_engine *e, const struct work *k, int slot)
{
    return ig_is_block(k->down->fmt) ? (const void *)hq_at(e, slot) : (const void *)h_at(e, slot);
}

/* Output panel p of the block's rows `act`. */
static void down_rows(const struct work *k, int p, const void *const *act, int n,
                      float (*y)[IG_PANEL_ROWS])
{
    const struct ig_mat *m = k->down;
    ig_kern.panel[m->fmt](y, k->slab + m->off + (uint64_t)p * m->stride, act, (int)m->cols, n);
    if (!m->bias) return;
    const float *bias = (const float *)(const void *)(k->slab + m->bias) + p * IG_PANEL_ROWS;
    for (int t = 0; t < n; t++) ig_kern.add(y[t], bias, IG_PANEL_ROWS);
}

/* What the dense block's output of a row counts. */
static float aside_weight(struct ig_engine *e, int row)
{
    return IG_SHARED_GATE ? IG_BUF(e, GATE, float)[row] : 1.0f;
}

/* One row: expert by expert, so that each is one contiguous read. */
static void down_one(struct ig_worker *w, const struct ig_layer *l)
{
    struct ig_engine *e = w->e;
    float *sum = w->spare, *x = ig_x(e, 0);
    int lo, hi;

    while (ig_team_take(&e->team, w->tid, (IG_N_EMBD + 15) / 16, &lo, &hi)) {
        memset(sum, 0, sizeof(float) * 16 * (size_t)(hi - lo));
        for (int a = 0; a < w->n_active; a++) {
            const struct work k = work_of(w, l, a);
            const void *act = down_act(e, &k, slot_of(&k, 0));
            for (int p = lo; p < hi; p++) {
                down_rows(&k, p, &act, 1, w->ya);
                ig_kern.axpy(sum + (size_t)(p - lo) * 16, w->weight[a], w->ya[0], 16);
            }
        }
        const int end = hi * 16 < IG_N_EMBD ? hi * 16 : IG_N_EMBD;
        for (int r = lo * 16; r < end; r++) x[r] += sum[r - lo * 16] * IG_RESIDUAL_SCALE;
    }
}

/* One output panel for every row: all blocks into yb, then each row's sum in rank order. */
static void down_panel(struct ig_worker *w, const struct ig_layer *l, int p)
{
    struct ig_engine *e = w->e;
    const int routed = l->ffn == IG_FFN_MOE ? IG_N_EXPERT_USED : 0;
    const int rows = IG_N_EMBD - p * 16 < 16 ? IG_N_EMBD - p * 16 : 16;

    for (int a = 0; a < e->n_active; a++) {
        const struct work k = work_of(w, l, a);
        for (int t = 0; t < k.n; t++) w->ptr[t] = down_act(e, &k, slot_of(&k, t));
        down_rows(&k, p, w->ptr, k.n, w->ya);
        for (int t = 0; t < k.n; t++) memcpy(w->yb[slot_of(&k, t)], w->ya[t], sizeof w->ya[t]);
    }
    for (int t = 0; t < e->batch->n; t++) {
        float sum[16] = { 0 }, *x = ig_x(e, t) + p * 16;
        for (int rank = 0; rank < routed; rank++)
            ig_kern.axpy(sum, ig_topk_w(e, t)[rank], w->yb[t * IG_N_EXPERT_USED + rank], 16);
        if (l->dense_gate.rows) ig_kern.axpy(sum, aside_weight(e, t), w->yb[ASIDE + t], 16);
        for (int r = 0; r < rows; r++) x[r] += sum[r] * IG_RESIDUAL_SCALE;
    }
}

#if IG_MEM_SLOTS_BYTES
enum { OUT_STRIDE = (IG_N_EMBD + 15) / 16 * 16 }; /* floats of a kept output */

/* One row's output panel p: kept outputs of its ranks, one after the other, and of the dense block,
 * added in the order of down_one. */
static void sum_panel(struct ig_engine *e, const struct ig_layer *l, int t, int p,
                      const float *routed, const float *aside)
{
    const int rows = IG_N_EMBD - p * 16 < 16 ? IG_N_EMBD - p * 16 : 16;
    float sum[16] = { 0 }, *x = ig_x(e, t) + p * 16;
    for (int k = 0; k < IG_N_EXPERT_USED; k++)
        ig_kern.axpy(sum, ig_topk_w(e, t)[k], routed + (size_t)k * OUT_STRIDE + p * 16, 16);
    if (l->dense_gate.rows) ig_kern.axpy(sum, aside_weight(e, t), aside + p * 16, 16);
    for (int r = 0; r < rows; r++) x[r] += sum[r] * IG_RESIDUAL_SCALE;
}

/* Output panels [lo, hi) of active block a of one row, kept in YR by rank. */
static void down_keep(struct ig_worker *w, const struct ig_layer *l, int a, int lo, int hi)
{
    struct ig_engine *e = w->e;
    const struct work k = work_of(w, l, a);
    int rank = 0;
    while (rank < IG_N_EXPERT_USED && ig_topk_id(e, 0)[rank] != e->active[a]) rank++;
    float *y = IG_BUF(e, YR, float) + (size_t)rank * OUT_STRIDE;
    const void *act = down_act(e, &k, rank < IG_N_EXPERT_USED ? rank : ASIDE);
    for (int p = lo; p < hi; p++) down_rows(&k, p, &act, 1, (float(*)[16])(y + p * 16));
}

/* One row whose experts may be on their way: those that are there, and the dense block, are worked
 * through whole while the others arrive; then each of these alone, so that after the last has come
 * only its own work is left. */
static void as_they_come(struct ig_worker *w, const struct ig_layer *l)
{
    struct ig_engine *e = w->e;
    const int there = e->tier.n_there, routed = e->tier.n;
    int lo, hi;
    ig_team_share(&e->team, w->tid, OUT_STRIDE / 16, &lo, &hi);
    for (int step = 0, a = 0, end = there; step <= 1 + routed - there; step++) {
        if (step == 1) a = routed, end = e->n_active; /* the dense block, if any */
        if (step > 1) a = there + step - 2, end = a + 1;
        if (a == end) continue;
        ig_tier_turn(w);
        hidden(w, l, a, end);
        ig_team_wait(&e->team);
        for (; a < end; a++) down_keep(w, l, a, lo, hi);
    }
    ig_tier_sure(e);
    const float *y = IG_BUF(e, YR, float);
    for (int p = lo; p < hi; p++)
        sum_panel(e, l, 0, p, y, y + (size_t)IG_N_EXPERT_USED * OUT_STRIDE);
}
#endif

#if IG_MEM_YD_BYTES
/* YD: outputs of slots, where a layer's experts come in waves. */
static float *yd_at(struct ig_engine *e, int slot)
{
    return IG_BUF(e, YD, float) + (size_t)slot * OUT_STRIDE;
}

/* One output panel of the active blocks [a_lo, a_hi), for the sum that follows the last wave. */
static void down_store(struct ig_worker *w, const struct ig_layer *l, int p, int a_lo, int a_hi)
{
    struct ig_engine *e = w->e;
    for (int a = a_lo; a < a_hi; a++) {
        const struct work k = work_of(w, l, a);
        for (int t = 0; t < k.n; t++) w->ptr[t] = down_act(e, &k, slot_of(&k, t));
        down_rows(&k, p, w->ptr, k.n, w->ya);
        for (int t = 0; t < k.n; t++)
            memcpy(yd_at(e, slot_of(&k, t)) + p * 16, w->ya[t], sizeof w->ya[t]);
    }
}

/* Each row's sum in rank order, as down_panel's. */
static void down_sum(struct ig_worker *w, const struct ig_layer *l)
{
    struct ig_engine *e = w->e;
    int lo, hi;
    ig_team_share(&e->team, w->tid, e->batch->n, &lo, &hi);
    for (int t = lo; t < hi; t++)
        for (int p = 0; p < (IG_N_EMBD + 15) / 16; p++)
            sum_panel(e, l, t, p, yd_at(e, t * IG_N_EXPERT_USED), yd_at(e, ASIDE + t));
}

/* More experts than slots: wave by wave, the dense block with the last, the sums at the end. */
static void waves(struct ig_worker *w, const struct ig_layer *l)
{
    struct ig_engine *e = w->e;
    int lo, hi;
    while (e->tier.wave_lo < e->tier.wave_hi) {
        const int a_lo = e->tier.wave_lo;
        const int a_hi = e->tier.wave_hi == e->tier.n ? e->n_active : e->tier.wave_hi;
        hidden(w, l, a_lo, a_hi);
        ig_team_wait(&e->team);
        while (ig_team_claim(&e->team, w->tid, (IG_N_EMBD + 15) / 16, 1, &lo, &hi))
            down_store(w, l, lo, a_lo, a_hi);
        ig_team_wait(&e->team);
        if (w->tid == 0) {
            ig_tier_next(e);
            ig_mover_turn(&e->tier.mover);
        }
        ig_team_wait(&e->team);
    }
    down_sum(w, l);
}
#endif

/* A row's experts and their weights; recorded choices take the place of the router's. */
static void choose(struct ig_engine *e, const struct ig_layer *l, int row, int32_t *id,
                   float *weight)
{
    const size_t k = IG_N_EXPERT_USED;
    const size_t at = ((size_t)row * IG_N_LAYER + (size_t)(l - ig_layers)) * k;
    ig_choose(e, l, row, id, weight);
    if (!e->force_expert) return;
    memcpy(id, e->force_expert + at, k * sizeof(int32_t));
    memcpy(weight, e->force_weight + at, k * sizeof(float));
}

/* What the dense block's output of a normed row counts. */
static float gate_of(struct ig_engine *e, const struct ig_layer *l, const float *xn)
{
    float gate = 1.0f;
    if (IG_SHARED_GATE && l->ffn == IG_FFN_MOE) {
        gate = ig_kern.dot(xn, ig_vec(e, l->shared_gate), IG_N_EMBD);
        ig_kern.sigmoid(&gate, 1);
    }
    return gate;
}

/* Logits of all rows; they are there after a barrier. */
static void router(struct ig_worker *w, const struct ig_layer *l)
{
    struct ig_engine *e = w->e;
    const int n = e->batch->n;
    int lo, hi;
    for (int t = 0; t < n; t++) w->ptr[t] = ig_act(w, t, l->router.fmt);
    ig_team_share(&e->team, w->tid, IG_RL_STRIDE / 16, &lo, &hi);
    ig_linear(w, &l->router, lo, hi, w->ptr, n, IG_BUF(e, RL, float), IG_RL_STRIDE);
    ig_team_wait(&e->team);
}

/* The experts of all rows, shared between threads; of a single row thread 0 does it. */
static void choose_rows(struct ig_worker *w, const struct ig_layer *l)
{
    struct ig_engine *e = w->e;
    const int n = e->batch->n;
    int lo = 0, hi = w->tid == 0;
    if (n > 1) ig_team_share(&e->team, w->tid, n, &lo, &hi);
    for (int t = lo; t < hi; t++) {
        choose(e, l, t, ig_topk_id(e, t), ig_topk_w(e, t));
        if (IG_SHARED_GATE) IG_BUF(e, GATE, float)[t] = gate_of(e, l, ig_xn(e, t));
    }
    if (n > 1) ig_team_wait(&e->team);
}

/* The experts of a single row, by each thread; thread 0 leaves them for the tap. */
static void choose_alone(struct ig_worker *w, const struct ig_layer *l)
{
    struct ig_engine *e = w->e;
    const int routed = l->ffn == IG_FFN_MOE ? IG_N_EXPERT_USED : 0;
    if (routed) choose(e, l, 0, w->id, w->weight);
    w->weight[routed] = gate_of(e, l, w->xn);
    locate_alone(w, l);
    if (w->tid != 0) return;
    memcpy(ig_topk_id(e, 0), w->id, (size_t)routed * sizeof *w->id);
    memcpy(ig_topk_w(e, 0), w->weight, (size_t)routed * sizeof *w->weight);
}

/* The feed-forward block of one layer: normed rows in, residual stream updated. */
void ig_moe(struct ig_worker *w, int layer)
{
    struct ig_engine *e = w->e;
    const struct ig_layer *l = &ig_layers[layer];
    int lo, hi;

    if (l->ffn == IG_FFN_MOE) router(w, l);
    if (e->batch->n == 1 && (FINDS_ALONE || l->ffn != IG_FFN_MOE)) {
        choose_alone(w, l);
        hidden(w, l, 0, w->n_active);
        ig_team_wait(&e->team);
        down_one(w, l);
        return;
    }
    if (l->ffn == IG_FFN_MOE) choose_rows(w, l);
    if (w->tid == 0) {
        if (l->ffn == IG_FFN_MOE) group_by_expert(e);
        locate(e, l);
    }
    ig_team_wait(&e->team);
#if IG_MEM_SLOTS_BYTES
    /* Reads start before anything else; thread 0 has predictions to ask for. */
    if (w->tid == e->team.n - 1) ig_mover_turn(&e->tier.mover);
#endif
    w->active = e->active, w->slab = e->slab;
#if IG_MEM_YD_BYTES
    if (l->ffn == IG_FFN_MOE && e->tier.wave_hi < e->tier.n) {
        waves(w, l);
        return;
    }
#endif
#if IG_MEM_RLP_BYTES
    if (l->ffn == IG_FFN_MOE && e->batch->n == 1) ig_tier_ahead(w, layer);
#endif
#if IG_MEM_SLOTS_BYTES
    if (l->ffn == IG_FFN_MOE && e->batch->n == 1) {
        as_they_come(w, l);
        return;
    }
#endif
    hidden(w, l, 0, e->n_active);
    ig_team_wait(&e->team);
    while (ig_team_claim(&e->team, w->tid, (IG_N_EMBD + 15) / 16, 1, &lo, &hi))
        down_panel(w, l, lo);
}
