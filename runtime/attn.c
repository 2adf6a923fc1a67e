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

_Static_assert(IG_N_HEAD % IG_N_HEAD_KV == 0, "query heads share KV heads evenly");

static struct ig_attn state_at(float *f)
{
    return (struct ig_attn){ f, f + IG_GROUP, f + 2 * IG_GROUP };
}

static void state_clear(float *f)
{
    for (int g = 0; g < IG_GROUP; g++) f[g] = -INFINITY;
    memset(f + IG_GROUP, 0, sizeof(float) * (STATE - IG_GROUP));
}

static float *part_at(struct ig_engine *e, int row, int head, int span)
{
    const size_t i = ((size_t)row * IG_N_HEAD_KV + (size_t)head) * IG_N_SPAN + (size_t)span;
    return IG_BUF(e, PART, float) + i * STATE;
}

/* Rotate one row's heads and put its K and V into the cache. */
static void store_kv(struct ig_engine *e, int layer, int row, int head)
{
    const struct ig_batch *b = e->batch;
    const int pos = b->pos[row];
    const float *cs = IG_BUF(e, ROPE, float) + (size_t)pos * IG_HEAD_DIM;
    float *q = IG_BUF(e, Q, float) + (size_t)row * IG_Q_STRIDE + head * IG_GROUP * IG_HEAD_DIM;
    float *k = IG_BUF(e, K, float) + (size_t)row * IG_KV_STRIDE + head * IG_HEAD_DIM;
    const float *v = IG_BUF(e, V, float) + (size_t)row * IG_KV_STRIDE + head * IG_HEAD_DIM;

    for (int g = 0; g < IG_GROUP; g++) ig_kern.rope(q + g * IG_HEAD_DIM, cs, IG_HEAD_DIM);
    ig_kern.rope(k, cs, IG_HEAD_DIM);
    ig_kern.store_kv[IG_KV_FMT](
        ig_kv(e, layer, b->seq[row], pos / IG_KV_BLOCK, head), k, v, IG_HEAD_DIM,
        pos % IG_KV_BLOCK);
}

/* First position that `row` of this layer attends to. */
static int first_pos(const struct ig_engine *e, int layer, int row)
{
    const int window = (int)ig_layers[layer].window, pos = e->batch->pos[row];
    return window > 0 && pos + 1 > window ? pos + 1 - window : 0;
}

/* Fold the blocks of one span into st, as far as the row may see. */
static void fold_span(struct ig_engine *e, int layer, int row, int head, int span, float *st)
{
    const int from = first_pos(e, layer, row), to = e->batch->pos[row] + 1;
    const float *q = IG_BUF(e, Q, float) + (size_t)row * IG_Q_STRIDE + head * IG_GROUP * IG_HEAD_DIM;
    struct ig_attn a = state_at(st);

    state_clear(st);
    for (int blk = span * IG_SPAN_BLOCKS; blk < (span + 1) * IG_SPAN_BLOCKS; blk++) {
        const int lo = from - blk * IG_KV_BLOCK, hi = to - blk * IG_KV_BLOCK;
        if (hi <= 0) break;
        if (lo >= IG_KV_BLOCK) continue;
        const unsigned char *kv = ig_kv(e, layer, e->batch->seq[row], blk, head);
        ig_kern.attn[IG_KV_FMT](&a, q, kv, kv + (size_t)IG_KV_BLOCK * IG_HEAD_DIM * IG_KV_ELEM,
                                IG_HEAD_DIM, IG_GROUP, lo > 0 ? lo : 0,
                                hi < IG_KV_BLOCK ? hi : IG_KV_BLOCK, IG_ATTN_SCALE);
    }
}

static void finish(struct ig_engine *e, int row, int head, const float *st)
{
    float *out = IG_BUF(e, AO, float) + (size_t)row * IG_Q_DIM + head * IG_GROUP * IG_HEAD_DIM;
    for (int g = 0; g < IG_GROUP; g++) {
        const float inv = 1.0f / st[IG_GROUP + g];
        const float *o = st + 2 * IG_GROUP + g * IG_HEAD_DIM;
        for (int d = 0; d < IG_HEAD_DIM; d++) out[g * IG_HEAD_DIM + d] = o[d] * inv;
    }
}

static int span_of(int pos) { return pos / (IG_KV_BLOCK * IG_SPAN_BLOCKS); }

/* One row and KV head, all spans in order. */
static void attend(struct ig_worker *w, int layer, int row, int head)
{
    struct ig_engine *e = w->e;
    float *all = w->attn, *one = w->attn + STATE;
    const int first = span_of(first_pos(e, layer, row)), last = span_of(e->batch->pos[row]);

    fold_span(e, layer, row, head, first, all);
    for (int s = first + 1; s <= last; s++) {
        fold_span(e, layer, row, head, s, one);
        struct ig_attn a = state_at(all), b = state_at(one);
        ig_kern.attn_merge(&a, &b, IG_HEAD_DIM, IG_GROUP);
    }
    finish(e, row, head, all);
}

/* The same with the spans shared between threads, then merged in the same order. */
static void attend_split(struct ig_worker *w, int layer, int max_span)
{
    struct ig_engine *e = w->e;
    const int heads = e->batch->n * IG_N_HEAD_KV;
    int lo, hi;
    while (ig_team_claim(&e->team, heads * max_span, 1, &lo, &hi)) {
        const int row = lo / max_span / IG_N_HEAD_KV, head = lo / max_span % IG_N_HEAD_KV;
        const int span = lo % max_span;
        if (span >= span_of(first_pos(e, layer, row)) && span <= span_of(e->batch->pos[row]))
            fold_span(e, layer, row, head, span, part_at(e, row, head, span));
    }
    ig_team_wait(&e->team);
    ig_team_share(&e->team, w->tid, heads, &lo, &hi);
    for (int i = lo; i < hi; i++) {
        const int row = i / IG_N_HEAD_KV, head = i % IG_N_HEAD_KV;
        const int first = span_of(first_pos(e, layer, row)), last = span_of(e->batch->pos[row]);
        float *all = part_at(e, row, head, first);
        for (int s = first + 1; s <= last; s++) {
            struct ig_attn a = state_at(all), b = state_at(part_at(e, row, head, s));
            ig_kern.attn_merge(&a, &b, IG_HEAD_DIM, IG_GROUP);
        }
        finish(e, row, head, all);
    }
}

static int max_span(const struct ig_batch *b)
{
    int max = 0;
    for (int i = 0; i < b->n; i++)
        if (span_of(b->pos[i]) > max) max = span_of(b->pos[i]);
    return max + 1;
}

/* Panels of q, k and v share one phase, since all read the same normed rows. */
static void project(struct ig_worker *w, const struct ig_layer *l)
{
    struct ig_engine *e = w->e;
    const int n = e->batch->n;
    const struct ig_mat *const mats[3] = { &l->q, &l->k, &l->v };
    float *const outs[3] = { IG_BUF(e, Q, float), IG_BUF(e, K, float), IG_BUF(e, V, float) };
    const int panels[3] = { IG_Q_STRIDE / 16, IG_KV_STRIDE / 16, IG_KV_STRIDE / 16 };
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
static void project_out(struct ig_worker *w, const struct ig_layer *l)
{
    struct ig_engine *e = w->e;
    const int n = e->batch->n;
    int lo, hi;

    if (ig_is_block(l->o.fmt)) {
        ig_team_share(&e->team, w->tid, n, &lo, &hi);
        for (int t = lo; t < hi; t++)
            ig_kern.quantize(IG_BUF(e, AOQ, struct ig_xq) + (size_t)t * (IG_Q_DIM / IG_QBLOCK),
                             IG_BUF(e, AO, float) + (size_t)t * IG_Q_DIM, IG_Q_DIM);
        ig_team_wait(&e->team);
    }
    for (int t = 0; t < n; t++)
        w->ptr[t] = ig_is_block(l->o.fmt)
                        ? (const void *)(IG_BUF(e, AOQ, struct ig_xq) + (size_t)t * (IG_Q_DIM / IG_QBLOCK))
                        : (const void *)(IG_BUF(e, AO, float) + (size_t)t * IG_Q_DIM);
    ig_team_share(&e->team, w->tid, (IG_N_EMBD + 15) / 16, &lo, &hi);
    ig_panel_fn *const fn = ig_kern.panel[l->o.fmt];
    for (int p = lo; p < hi; p++) {
        fn(w->ya, ig_data(e, l->o.off + (uint64_t)p * l->o.stride), w->ptr, (int)l->o.cols, n);
        const int rows = IG_N_EMBD - p * 16 < 16 ? IG_N_EMBD - p * 16 : 16;
        for (int t = 0; t < n; t++) {
            float *x = ig_x(e, t) + p * 16;
            for (int r = 0; r < rows; r++) x[r] += w->ya[t][r];
        }
    }
}

/* Attention of one layer: normed rows in, residual stream updated. */
void ig_attention(struct ig_worker *w, int layer)
{
    struct ig_engine *e = w->e;
    const struct ig_layer *l = &ig_layers[layer];
    const int items = e->batch->n * IG_N_HEAD_KV;
    int lo, hi;

    project(w, l);
    ig_team_wait(&e->team);
    ig_team_share(&e->team, w->tid, items, &lo, &hi);
    for (int i = lo; i < hi; i++) store_kv(e, layer, i / IG_N_HEAD_KV, i % IG_N_HEAD_KV);
    ig_team_wait(&e->team);

    const int spans = max_span(e->batch);
    if (spans > 1 && e->batch->n <= IG_PART_ROW)
        attend_split(w, layer, spans);
    else
        while (ig_team_claim(&e->team, items, 1, &lo, &hi))
            attend(w, layer, lo / IG_N_HEAD_KV, lo % IG_N_HEAD_KV);
    ig_team_wait(&e->team);
    project_out(w, l);
}
