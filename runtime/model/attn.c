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

/* Query heads [head, head + n) of a row: one item of work.  They share a KV head; who folds how
 * many of them at once changes no bit of any. */
struct heads {
    int row, head, n;
};

/* Item i of a batch's heads, `each` a item. */
static struct heads heads_of(int i, int each)
{
    const int items = IG_N_HEAD / each;
    return (struct heads){ i / items, i % items * each, each };
}

static struct ig_attn state_at(float *f, int n) { return (struct ig_attn){ f, f + n, f + 2 * n }; }

static void state_clear(float *f, int n)
{
    for (int g = 0; g < n; g++) f[g] = -INFINITY;
    memset(f + n, 0, sizeof(float) * (size_t)(n * (IG_HEAD_DIM + 1)));
}

static float *part_at(struct ig_engine *e, const struct heads *h, int span)
{
    const size_t head = (size_t)h->row * IG_N_HEAD + (size_t)h->head;
    return IG_BUF(e, PART, float) + (head * IG_N_SPAN + (size_t)(span * h->n)) * (IG_HEAD_DIM + 2);
}

/* One head of q or k: norm, clip, rotation; k's bias and q's came with their matrix. */
static void turn(struct ig_engine *e, float *x, uint64_t norm, const float *cs)
{
    if (IG_QK_NORM == IG_QK_NORM_HEAD && norm)
        ig_kern.rmsnorm(x, x, ig_vec(e, norm), IG_HEAD_DIM, IG_NORM_EPS);
    if (IG_QKV_CLIP > 0.0f) ig_kern.clamp(x, IG_QKV_CLIP, IG_HEAD_DIM);
    if (!IG_N_REL_BUCKET) ig_kern.rope(x, cs, IG_ROPE_DIM);
}

/* Rotate one head of a row: first come its KV heads, whose K and V go into the cache, then its
 * query heads. */
static void store_head(struct ig_engine *e, const struct ig_layer *l, int place, int row, int head)
{
    const struct ig_batch *b = e->batch;
    const int pos = b->pos[row];
    const float *cs = ig_rope(e, pos);
    float *q = IG_BUF(e, Q, float) + (size_t)row * IG_Q_STRIDE;
    float *k = IG_BUF(e, K, float) + (size_t)row * IG_KV_STRIDE + head * IG_HEAD_DIM;
    float *v = IG_BUF(e, V, float) + (size_t)row * IG_KV_STRIDE + head * IG_HEAD_DIM;

    if (head >= IG_N_HEAD_KV) {
        turn(e, q + (head - IG_N_HEAD_KV) * IG_HEAD_DIM, l->q_norm, cs);
        return;
    }
    turn(e, k, l->k_norm, cs);
    if (IG_QKV_CLIP > 0.0f) ig_kern.clamp(v, IG_QKV_CLIP, IG_HEAD_DIM);
    ig_kern.store_kv[IG_KV_FMT](ig_kv(e, place, b->seq[row], pos / IG_KV_BLOCK, head), k, v,
                                IG_HEAD_DIM, pos % IG_KV_BLOCK);
}

/* The batch's K and V.  A norm over all heads needs the whole row in one hand. */
void ig_store(struct ig_worker *w, const struct ig_layer *l, int place)
{
    struct ig_engine *e = w->e;
    enum { HEADS = IG_N_HEAD_KV + IG_N_HEAD };
    enum { FULL = IG_QK_NORM == IG_QK_NORM_FULL, PER_ROW = FULL ? 1 : HEADS };
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
        for (int head = 0; head < HEADS; head++) store_head(e, l, place, i, head);
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

/* Query heads as the KV format's kernel reads them: floats, or int8 blocks in the thread's spare
 * room. */
static const void *query(struct ig_worker *w, const struct heads *h)
{
    const float *q = IG_BUF(w->e, Q, float) + (size_t)h->row * IG_Q_STRIDE + h->head * IG_HEAD_DIM;
    if (!ig_is_block(IG_KV_FMT)) return q;
    struct ig_xq *blocks = (struct ig_xq *)(void *)w->spare;
    ig_kern.quantize(blocks, q, h->n * IG_HEAD_DIM);
    return blocks;
}

/* Fold the blocks of one span into st, as far as the row may see. */
static void fold_span(struct ig_worker *w, const struct ig_reach *r, const struct heads *h,
                      int span, float *st)
{
    struct ig_engine *e = w->e;
    const int row = h->row, from = first_pos(e, r, row), to = last_pos(e, r, row) + 1;
    const float *bias = IG_N_REL_BUCKET && r->bias ? r->bias + h->head * IG_BIAS_STRIDE : NULL;
    const int head = h->head / (IG_N_HEAD / IG_N_HEAD_KV), seq = e->batch->seq[row];
    const void *q = query(w, h);
    struct ig_attn a = state_at(st, h->n);

    state_clear(st, h->n);
    for (int blk = span * IG_SPAN_BLOCKS; blk < (span + 1) * IG_SPAN_BLOCKS; blk++) {
        const int lo = from - blk * IG_KV_BLOCK, hi = to - blk * IG_KV_BLOCK;
        if (hi <= 0) break;
        if (lo >= IG_KV_BLOCK) continue;
        const unsigned char *kv = ig_kv(e, r->place, seq, blk, head);
        const unsigned char *next = hi > IG_KV_BLOCK ? ig_kv(e, r->place, seq, blk + 1, head) : kv;
        ig_kern.attn[IG_KV_FMT](&a, q, kv, kv + IG_KV_PART_BYTES, next, IG_HEAD_DIM, h->n,
                                lo > 0 ? lo : 0, hi < IG_KV_BLOCK ? hi : IG_KV_BLOCK, IG_ATTN_SCALE,
                                bias ? bias + blk * IG_KV_BLOCK - e->batch->pos[row] : NULL,
                                IG_BIAS_STRIDE);
    }
}

static void finish(struct ig_engine *e, const struct ig_reach *r, const struct heads *h, float *st)
{
    float *out = r->out + (size_t)h->row * IG_Q_DIM + h->head * IG_HEAD_DIM;
    if (r->sinks) {
        struct ig_attn a = state_at(st, h->n);
        ig_kern.attn_sink(&a, ig_vec(e, r->sinks) + h->head, IG_HEAD_DIM, h->n);
    }
    for (int g = 0; g < h->n; g++) {
        const float inv = 1.0f / st[h->n + g];
        const float *o = st + 2 * h->n + g * IG_HEAD_DIM;
        for (int d = 0; d < IG_HEAD_DIM; d++) out[g * IG_HEAD_DIM + d] = o[d] * inv;
    }
    if (r->to_blocks) ig_output_heads(e, h->row, h->head, h->n);
}

static int span_of(int pos) { return pos / (IG_KV_BLOCK * IG_SPAN_BLOCKS); }

/* One item of heads, all spans in order. */
static void attend(struct ig_worker *w, const struct ig_reach *r, struct heads h)
{
    struct ig_engine *e = w->e;
    float *all = w->attn, *one = w->attn + STATE;
    const int first = span_of(first_pos(e, r, h.row)), last = span_of(last_pos(e, r, h.row));

    fold_span(w, r, &h, first, all);
    for (int s = first + 1; s <= last; s++) {
        fold_span(w, r, &h, s, one);
        struct ig_attn a = state_at(all, h.n), b = state_at(one, h.n);
        ig_kern.attn_merge(&a, &b, IG_HEAD_DIM, h.n);
    }
    finish(e, r, &h, all);
}

/* The same with the spans shared between threads, then merged in the same order. */
static void attend_split(struct ig_worker *w, const struct ig_reach *r, int each, int max_span)
{
    struct ig_engine *e = w->e;
    const int items = e->batch->n * (IG_N_HEAD / each);
    int lo, hi;
    while (ig_team_claim(&e->team, w->tid, items * max_span, 1, &lo, &hi)) {
        const struct heads h = heads_of(lo / max_span, each);
        const int span = lo % max_span;
        if (span >= span_of(first_pos(e, r, h.row)) && span <= span_of(last_pos(e, r, h.row)))
            fold_span(w, r, &h, span, part_at(e, &h, span));
    }
    ig_team_wait(&e->team);
    ig_team_share(&e->team, w->tid, items, &lo, &hi);
    for (int i = lo; i < hi; i++) {
        const struct heads h = heads_of(i, each);
        const int first = span_of(first_pos(e, r, h.row)), last = span_of(last_pos(e, r, h.row));
        float *all = part_at(e, &h, first);
        for (int s = first + 1; s <= last; s++) {
            struct ig_attn a = state_at(all, each), b = state_at(part_at(e, &h, s), each);
            ig_kern.attn_merge(&a, &b, IG_HEAD_DIM, each);
        }
        finish(e, r, &h, all);
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

    while (ig_team_take(&e->team, w->tid, panels[0] + panels[1] + panels[2], &lo, &hi)) {
        for (int i = 0, base = 0; i < 3; base += panels[i++]) {
            const int from = lo > base ? lo - base : 0;
            const int to = hi - base < panels[i] ? hi - base : panels[i];
            if (from >= to) continue;
            for (int t = 0; t < n; t++) w->ptr[t] = ig_act(w, t, mats[i]->fmt);
            ig_linear(w, mats[i], from, to, w->ptr, n, outs[i],
                      i == 0 ? IG_Q_STRIDE : IG_KV_STRIDE);
        }
    }
}

/* AOQ of a row. */
static struct ig_xq *output_blocks(struct ig_engine *e, int row)
{
    return IG_BUF(e, AOQ, struct ig_xq) + (size_t)row * (IG_O_DIM / IG_QBLOCK);
}

void ig_output_heads(struct ig_engine *e, int row, int head, int n)
{
    const int at = head * IG_V_DIM;
    ig_kern.quantize(output_blocks(e, row) + at / IG_QBLOCK,
                     IG_BUF(e, AO, float) + (size_t)row * IG_O_DIM + at, n * IG_V_DIM);
}

/* Rows of attention output, as o reads them, times o, onto the residual stream. */
void ig_attn_output(struct ig_worker *w, const struct ig_mat *o)
{
    struct ig_engine *e = w->e;
    const int n = e->batch->n;
    int lo, hi;

    if (ig_is_block(o->fmt) && !IG_HEADS_TO_BLOCKS) {
        ig_team_share(&e->team, w->tid, n, &lo, &hi);
        for (int t = lo; t < hi; t++) ig_output_heads(e, t, 0, IG_N_HEAD);
        ig_team_wait(&e->team);
    }
    for (int t = 0; t < n; t++)
        w->ptr[t] = ig_is_block(o->fmt)
                        ? (const void *)output_blocks(e, t)
                        : (const void *)(IG_BUF(e, AO, float) + (size_t)t * IG_O_DIM);
    ig_panel_fn *const fn = ig_kern.panel[o->fmt];
    while (ig_team_take(&e->team, w->tid, (IG_N_EMBD + 15) / 16, &lo, &hi)) {
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
}

/* Heads of an item: fewer of a group where there would be less items than threads. */
static int heads_each(const struct ig_engine *e, int spans)
{
    int each = IG_GROUP;
    while (each % 2 == 0 && e->batch->n * (IG_N_HEAD / each) * spans * 2 <= e->team.n) each /= 2;
    return each;
}

void ig_attend(struct ig_worker *w, const struct ig_reach *r)
{
    struct ig_engine *e = w->e;
    const int split = e->batch->n <= IG_PART_ROW, spans = split ? max_span(e, r) : 1;
    const int each = heads_each(e, spans);
    int lo, hi;

    if (spans > 1)
        attend_split(w, r, each, spans);
    else
        while (ig_team_claim(&e->team, w->tid, e->batch->n * (IG_N_HEAD / each), 1, &lo, &hi))
            attend(w, r, heads_of(lo, each));
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
                                    .bias = ig_rel_bias(e, 1),
                                    .out = IG_BUF(e, AO, float),
                                    .to_blocks = IG_HEADS_TO_BLOCKS && ig_is_block(l->o.fmt) };

    ig_project(w, &l->q, &l->k, &l->v);
    ig_team_wait(&e->team);
    ig_store(w, l, reach.place);
    ig_team_wait(&e->team);
    ig_attend(w, &reach);
    ig_attn_output(w, &l->o);
}
