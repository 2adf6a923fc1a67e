/* attn.c -- grouped-query attention over KV blocks of 64 positions.
 *
 * Blocks are folded in ascending order into a running softmax; 16 blocks make a
 * span, and spans are merged in ascending order.  Spans end at fixed positions,
 * so a long context may be split between threads (few rows) or walked by one
 * (many rows) with the same bits.
 */
#include "state.h"

#include <math.h>
#include <string.h>

enum { STATE = IG_GROUP * (IG_HEAD_DIM + 2) }; /* floats of one group's softmax state */

static struct ig_attn state_at(float *f)
{
    return (struct ig_attn){ f, f + IG_GROUP, f + 2 * IG_GROUP };
}

static void state_clear(float *f)
{
    for (int g = 0; g < IG_GROUP; g++) f[g] = -INFINITY;
    memset(f + IG_GROUP, 0, sizeof(float) * (STATE - IG_GROUP));
}

static float *part_at(struct ig_engine *e, int row, int group, int span)
{
    const size_t i = ((size_t)row * IG_N_GROUP + (size_t)group) * IG_N_SPAN + (size_t)span;
    return IG_BUF(e, PART, float) + i * STATE;
}

/* One head of q or k: norm, clip, rotation; k's bias and q's came with their matrix. */
static void turn(struct ig_engine *e, float *x, uint64_t norm, const float *cs)
{
    if (IG_QK_NORM == IG_QK_NORM_HEAD && norm)
        ig_kern.rmsnorm(x, x, ig_vec(e, norm), IG_HEAD_DIM, IG_NORM_EPS);
    if (IG_QKV_CLIP > 0.0f) ig_kern.clamp(x, IG_QKV_CLIP, IG_HEAD_DIM);
    if (!IG_N_REL_BUCKET) ig_kern.rope(x, cs, IG_ROPE_DIM);
}

/* Rotate one row's heads that share KV head `head`, and put its K and V into the cache. */
static void store_head(struct ig_engine *e, const struct ig_layer *l, int place, int row, int head)
{
    enum { SHARE = IG_N_HEAD / IG_N_HEAD_KV };
    const struct ig_batch *b = e->batch;
    const int pos = b->pos[row];
    const float *cs = ig_rope(e, pos);
    float *q = IG_BUF(e, Q, float) + (size_t)row * IG_Q_STRIDE + head * SHARE * IG_HEAD_DIM;
    float *k = IG_BUF(e, K, float) + (size_t)row * IG_KV_STRIDE + head * IG_HEAD_DIM;
    float *v = IG_BUF(e, V, float) + (size_t)row * IG_KV_STRIDE + head * IG_HEAD_DIM;

    for (int g = 0; g < SHARE; g++) turn(e, q + g * IG_HEAD_DIM, l->q_norm, cs);
    turn(e, k, l->k_norm, cs);
    if (IG_QKV_CLIP > 0.0f) ig_kern.clamp(v, IG_QKV_CLIP, IG_HEAD_DIM);
    ig_kern.store_kv[IG_KV_FMT](ig_kv(e, place, b->seq[row], pos / IG_KV_BLOCK, head), k, v,
                                IG_HEAD_DIM, pos % IG_KV_BLOCK);
}

/* The batch's K and V.  A norm over all heads needs the whole row in one hand. */
void ig_store(struct ig_worker *w, const struct ig_layer *l, int place)
{
    struct ig_engine *e = w->e;
    enum { FULL = IG_QK_NORM == IG_QK_NORM_FULL, PER_ROW = FULL ? 1 : IG_N_HEAD_KV };
    int lo, hi;

    ig_team_share(&e->team, w->tid, e->batch->n * PER_ROW, &lo, &hi);
    for (int i = lo; i < hi; i++) {
        if (!FULL) {
            store_head(e, l, place, i / PER_ROW, i % PER_ROW);
            continue;
        }
        float *q = IG_BUF(e, Q, float) + (size_t)i * IG_Q_STRIDE;
        float *k = IG_BUF(e, K, float) + (size_t)i * IG_KV_STRIDE;
        ig_kern.rmsnorm(q, q, ig_vec(e, l->q_norm), IG_Q_DIM, IG_NORM_EPS);
        ig_kern.rmsnorm(k, k, ig_vec(e, l->k_norm), IG_KV_DIM, IG_NORM_EPS);
        for (int head = 0; head < IG_N_HEAD_KV; head++) store_head(e, l, place, i, head);
    }
}

/* First and last position that `row` attends to. */
static int first_pos(const struct ig_engine *e, const struct ig_reach *r, int row)
{
    const int pos = e->batch->pos[row];
    return r->window > 0 && pos + 1 > r->window ? pos + 1 - r->window : 0;
}
static int last_pos(const struct ig_engine *e, const struct ig_reach *r, int row)
{
    return r->whole > 0 ? r->whole - 1 : e->batch->pos[row];
}

/* A row's query heads of one group as the KV format's kernel reads them: floats, or int8 blocks in
 * the thread's spare room. */
static const void *query(struct ig_worker *w, int row, int group)
{
    const float *q =
        IG_BUF(w->e, Q, float) + (size_t)row * IG_Q_STRIDE + group * IG_GROUP * IG_HEAD_DIM;
    if (!ig_is_block(IG_KV_FMT)) return q;
    struct ig_xq *blocks = (struct ig_xq *)(void *)w->spare;
    ig_kern.quantize(blocks, q, IG_GROUP * IG_HEAD_DIM);
    return blocks;
}

/* Fold the blocks of one span into st, as far as the row may see. */
static void fold_span(struct ig_worker *w, const struct ig_reach *r, int row, int group, int span,
                      float *st)
{
    struct ig_engine *e = w->e;
    const int from = first_pos(e, r, row), to = last_pos(e, r, row) + 1;
    const float *bias =
        IG_N_REL_BUCKET && r->bias ? r->bias + group * IG_GROUP * IG_BIAS_STRIDE : NULL;
    const int head = group / IG_GROUPS_PER_KV, seq = e->batch->seq[row];
    const void *q = query(w, row, group);
    struct ig_attn a = state_at(st);

    state_clear(st);
    for (int blk = span * IG_SPAN_BLOCKS; blk < (span + 1) * IG_SPAN_BLOCKS; blk++) {
        const int lo = from - blk * IG_KV_BLOCK, hi = to - blk * IG_KV_BLOCK;
        if (hi <= 0) break;
        if (lo >= IG_KV_BLOCK) continue;
        const unsigned char *kv = ig_kv(e, r->place, seq, blk, head);
        const unsigned char *next =
            hi > IG_KV_BLOCK ? ig_kv(e, r->place, seq, blk + 1, head) : kv;
        ig_kern.attn[IG_KV_FMT](&a, q, kv, kv + IG_KV_PART_BYTES, next, IG_HEAD_DIM, IG_GROUP,
                                lo > 0 ? lo : 0, hi < IG_KV_BLOCK ? hi : IG_KV_BLOCK, IG_ATTN_SCALE,
                                bias ? bias + blk * IG_KV_BLOCK - e->batch->pos[row] : NULL,
                                IG_BIAS_STRIDE);
    }
}

static void finish(struct ig_engine *e, const struct ig_reach *r, int row, int group, float *st,
                   float *rows)
{
    float *out = rows + (size_t)row * IG_Q_DIM + group * IG_GROUP * IG_HEAD_DIM;
    if (r->sinks) {
        struct ig_attn a = state_at(st);
        ig_kern.attn_sink(&a, ig_vec(e, r->sinks) + group * IG_GROUP, IG_HEAD_DIM, IG_GROUP);
    }
    for (int g = 0; g < IG_GROUP; g++) {
        const float inv = 1.0f / st[IG_GROUP + g];
        const float *o = st + 2 * IG_GROUP + g * IG_HEAD_DIM;
        for (int d = 0; d < IG_HEAD_DIM; d++) out[g * IG_HEAD_DIM + d] = o[d] * inv;
    }
}

static int span_of(int pos) { return pos / (IG_KV_BLOCK * IG_SPAN_BLOCKS); }

/* One row and group of heads, all spans in order. */
static void attend(struct ig_worker *w, const struct ig_reach *r, int row, int group, float *out)
{
    struct ig_engine *e = w->e;
    float *all = w->attn, *one = w->attn + STATE;
    const int first = span_of(first_pos(e, r, row)), last = span_of(last_pos(e, r, row));

    fold_span(w, r, row, group, first, all);
    for (int s = first + 1; s <= last; s++) {
        fold_span(w, r, row, group, s, one);
        struct ig_attn a = state_at(all), b = state_at(one);
        ig_kern.attn_merge(&a, &b, IG_HEAD_DIM, IG_GROUP);
    }
    finish(e, r, row, group, all, out);
}

/* The same with the spans shared between threads, then merged in the same order. */
static void attend_split(struct ig_worker *w, const struct ig_reach *r, int max_span, float *out)
{
    struct ig_engine *e = w->e;
    const int items = e->batch->n * IG_N_GROUP;
    int lo, hi;
    while (ig_team_claim(&e->team, w->tid, items * max_span, 1, &lo, &hi)) {
        const int row = lo / max_span / IG_N_GROUP, group = lo / max_span % IG_N_GROUP;
        const int span = lo % max_span;
        if (span >= span_of(first_pos(e, r, row)) && span <= span_of(last_pos(e, r, row)))
            fold_span(w, r, row, group, span, part_at(e, row, group, span));
    }
    ig_team_wait(&e->team);
    ig_team_share(&e->team, w->tid, items, &lo, &hi);
    for (int i = lo; i < hi; i++) {
        const int row = i / IG_N_GROUP, group = i % IG_N_GROUP;
        const int first = span_of(first_pos(e, r, row)), last = span_of(last_pos(e, r, row));
        float *all = part_at(e, row, group, first);
        for (int s = first + 1; s <= last; s++) {
            struct ig_attn a = state_at(all), b = state_at(part_at(e, row, group, s));
            ig_kern.attn_merge(&a, &b, IG_HEAD_DIM, IG_GROUP);
        }
        finish(e, r, row, group, all, out);
    }
}

static int max_span(const struct ig_engine *e, const struct ig_reach *r)
{
    int max = 0;
    for (int i = 0; i < e->batch->n; i++)
        if (span_of(last_pos(e, r, i)) > max) max = span_of(last_pos(e, r, i));
    return max + 1;
}

/* Panels of q, k and v share one phase, since all read the same normed rows; NULL: not wanted. */
void ig_project(struct ig_worker *w, const struct ig_mat *q, const struct ig_mat *k,
                const struct ig_mat *v)
{
    struct ig_engine *e = w->e;
    const int n = e->batch->n;
    const struct ig_mat *const mats[3] = { q, k, v };
    float *const outs[3] = { IG_BUF(e, Q, float), IG_BUF(e, K, float), IG_BUF(e, V, float) };
    const int panels[3] = { q ? IG_Q_STRIDE / 16 : 0, k ? IG_KV_STRIDE / 16 : 0,
                            v ? IG_KV_STRIDE / 16 : 0 };
    int lo, hi;

    ig_team_share(&e->team, w->tid, panels[0] + panels[1] + panels[2], &lo, &hi);
    for (int i = 0, base = 0; i < 3; base += panels[i++]) {
        const int from = lo > base ? lo - base : 0;
        const int to = hi - base < panels[i] ? hi - base : panels[i];
        if (from >= to) continue;
        for (int t = 0; t < n; t++) w->ptr[t] = ig_act(e, t, mats[i]->fmt);
        ig_linear(w, mats[i], from, to, w->ptr, n, outs[i], i == 0 ? IG_Q_STRIDE : IG_KV_STRIDE);
    }
}

/* Rows of attention output, as o reads them, times o, onto the residual stream. */
void ig_attn_output(struct ig_worker *w, const struct ig_mat *o)
{
    struct ig_engine *e = w->e;
    const int n = e->batch->n;
    int lo, hi;

    if (ig_is_block(o->fmt)) {
        ig_team_share(&e->team, w->tid, n, &lo, &hi);
        for (int t = lo; t < hi; t++)
            ig_kern.quantize(IG_BUF(e, AOQ, struct ig_xq) + (size_t)t * (IG_O_DIM / IG_QBLOCK),
                             IG_BUF(e, AO, float) + (size_t)t * IG_O_DIM, IG_O_DIM);
        ig_team_wait(&e->team);
    }
    for (int t = 0; t < n; t++)
        w->ptr[t] =
            ig_is_block(o->fmt)
                ? (const void *)(IG_BUF(e, AOQ, struct ig_xq) + (size_t)t * (IG_O_DIM / IG_QBLOCK))
                : (const void *)(IG_BUF(e, AO, float) + (size_t)t * IG_O_DIM);
    ig_team_share(&e->team, w->tid, (IG_N_EMBD + 15) / 16, &lo, &hi);
    ig_panel_fn *const fn = ig_kern.panel[o->fmt];
    for (int p = lo; p < hi; p++) {
        fn(w->ya, ig_data(e, o->off + (uint64_t)p * o->stride), w->ptr, (int)o->cols, n);
        const int rows = IG_N_EMBD - p * 16 < 16 ? IG_N_EMBD - p * 16 : 16;
        for (int t = 0; t < n; t++) {
            float *x = ig_x(e, t) + p * 16;
            if (o->bias) ig_kern.add(w->ya[t], ig_vec(e, o->bias) + p * 16, 16);
            for (int r = 0; r < rows; r++) x[r] += w->ya[t][r] * IG_RESIDUAL_SCALE;
        }
    }
}

void ig_attend(struct ig_worker *w, const struct ig_reach *r, float *out)
{
    struct ig_engine *e = w->e;
    const int spans = max_span(e, r);
    int lo, hi;

    if (spans > 1 && e->batch->n <= IG_PART_ROW)
        attend_split(w, r, spans, out);
    else
        while (ig_team_claim(&e->team, w->tid, e->batch->n * IG_N_GROUP, 1, &lo, &hi))
            attend(w, r, lo / IG_N_GROUP, lo % IG_N_GROUP, out);
    ig_team_wait(&e->team);
}

/* Attention of one layer: normed rows in, residual stream updated. */
void ig_attention(struct ig_worker *w, int layer)
{
    struct ig_engine *e = w->e;
    const struct ig_layer *l = &ig_layers[layer];

    const struct ig_reach reach = { .place = ig_kv_self(layer),
                                    .window = (int)l->window,
                                    .sinks = l->sinks,
                                    .bias = ig_rel_bias(e, 1) };

    ig_project(w, &l->q, &l->k, &l->v);
    ig_team_wait(&e->team);
    ig_store(w, l, reach.place);
    ig_team_wait(&e->team);
    ig_attend(w, &reach, IG_BUF(e, AO, float));
    ig_attn_output(w, &l->o);
}
