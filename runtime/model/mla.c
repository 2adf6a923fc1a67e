/* mla.c -- latent attention (DeepSeek-AI 2024, DeepSeek-V2, section 2.1), absorbed.
 *
 * The cache holds one row a position for all heads: the normed latent, then the
 * rotated key.  k_b turns each head's query into the latent space, so attention is that of
 * one KV head (attn.c); v_b turns each head's result back.
 *
 *   QA  q_a's output, normed            QH  heads' queries, [nope | rotated]
 *   KVA [latent | key to rotate]        Q   [query in the latent space | rotated query] of each
 * head AL  attention's result, as Q        AO  what o reads
 */
#include "state.h"

#if IG_KV_LORA

enum {
    HEAD = IG_NOPE_DIM + IG_ROPE_DIM, /* of a query before k_b */
    QA_STRIDE = (IG_Q_LORA + 15) / 16 * 16,
    QA_BLOCKS = (IG_Q_LORA + 31) / 32,
    QH_STRIDE = (IG_N_HEAD * HEAD + 15) / 16 * 16,
    KVA_STRIDE = (IG_HEAD_DIM + 15) / 16 * 16,
    O_STRIDE = IG_O_DIM
};
_Static_assert(IG_HEAD_DIM == IG_KV_LORA + IG_ROPE_DIM && IG_N_HEAD_KV == 1, "latent and key");
_Static_assert(IG_KV_LORA % 16 == 0 && IG_V_DIM % 16 == 0, "heads are whole panels");

static float *qa(struct ig_engine *e, int row)
{
    return IG_BUF(e, QA, float) + (size_t)row * QA_STRIDE;
}
/* Int8 copies follow the floats of all rows. */
static struct ig_xq *qa_q(struct ig_engine *e, int row)
{
    return (struct ig_xq *)(void *)qa(e, IG_N_ROW) + (size_t)row * QA_BLOCKS;
}
static float *qh(struct ig_engine *e, int row, int head)
{
    return IG_BUF(e, QH, float) + (size_t)row * QH_STRIDE + head * HEAD;
}
static float *q(struct ig_engine *e, int row, int head)
{
    return IG_BUF(e, Q, float) + (size_t)row * IG_Q_STRIDE + head * IG_HEAD_DIM;
}
static float *kva(struct ig_engine *e, int row)
{
    return IG_BUF(e, KVA, float) + (size_t)row * KVA_STRIDE;
}
static float *al(struct ig_engine *e, int row, int head)
{
    return IG_BUF(e, AL, float) + (size_t)row * IG_Q_DIM + head * IG_HEAD_DIM;
}

/* Panels of all the matrices that read the normed rows. */
static void project(struct ig_worker *w, const struct ig_layer *l)
{
    struct ig_engine *e = w->e;
    const int n = e->batch->n;
    const struct ig_mat *const first = IG_Q_LORA ? &l->q_a : &l->q;
    float *const to = IG_Q_LORA ? qa(e, 0) : qh(e, 0, 0);
    const size_t stride = IG_Q_LORA ? QA_STRIDE : QH_STRIDE;
    const int panels = (int)(first->rows + 15) / 16;
    int lo, hi;

    ig_team_share(&e->team, w->tid, panels + KVA_STRIDE / 16, &lo, &hi);
    if (lo < panels) {
        for (int t = 0; t < n; t++) w->ptr[t] = ig_act(w, t, first->fmt);
        ig_linear(w, first, lo, hi < panels ? hi : panels, w->ptr, n, to, stride);
    }
    if (hi > panels) {
        for (int t = 0; t < n; t++) w->ptr[t] = ig_act(w, t, l->kv_a.fmt);
        ig_linear(w, &l->kv_a, lo > panels ? lo - panels : 0, hi - panels, w->ptr, n, kva(e, 0),
                  KVA_STRIDE);
    }
}

/* Norms of the latents, rotation of the key, both into the cache. */
static void store_latent(struct ig_worker *w, int layer)
{
    struct ig_engine *e = w->e;
    const struct ig_layer *l = &ig_layers[layer];
    const struct ig_batch *b = e->batch;
    int lo, hi;

    ig_team_share(&e->team, w->tid, b->n, &lo, &hi);
    for (int t = lo; t < hi; t++) {
        const int pos = b->pos[t];
        float *k = kva(e, t);
        ig_kern.rmsnorm(k, k, ig_vec(e, l->kv_a_norm), IG_KV_LORA, IG_LATENT_EPS);
        ig_kern.rope(k + IG_KV_LORA, ig_rope(e, pos), IG_ROPE_DIM);
        ig_kern.store_kv[IG_KV_FMT](ig_kv(e, layer, b->seq[t], pos / IG_KV_BLOCK, 0), k, k,
                                    IG_HEAD_DIM, pos % IG_KV_BLOCK);
#if IG_Q_LORA
        ig_kern.rmsnorm(qa(e, t), qa(e, t), ig_vec(e, l->q_a_norm), IG_Q_LORA, IG_LATENT_EPS);
        if (ig_is_block(l->q.fmt)) ig_kern.quantize(qa_q(e, t), qa(e, t), IG_Q_LORA);
#endif
    }
}

/* Queries from their latent. */
static void expand_queries(struct ig_worker *w, const struct ig_layer *l)
{
    struct ig_engine *e = w->e;
    const int n = e->batch->n;
    int lo, hi;

    for (int t = 0; t < n; t++)
        w->ptr[t] = ig_is_block(l->q.fmt) ? (const void *)qa_q(e, t) : (const void *)qa(e, t);
    ig_team_share(&e->team, w->tid, QH_STRIDE / 16, &lo, &hi);
    ig_linear(w, &l->q, lo, hi, w->ptr, n, qh(e, 0, 0), QH_STRIDE);
    ig_team_wait(&e->team);
}

/* Activations of one head for a matrix with a part a head: rows of floats, or int8 blocks of
 * them made by whoever needs them (a head is one item, so nobody else does). */
static void head_rows(struct ig_worker *w, const struct ig_mat *m, struct ig_xq *blocks, int head,
                      float *(*at)(struct ig_engine *, int, int))
{
    struct ig_engine *e = w->e;
    const size_t each = m->cols / IG_QBLOCK;
    for (int t = 0; t < e->batch->n; t++) {
        struct ig_xq *to = blocks + ((size_t)t * IG_N_HEAD + (size_t)head) * each;
        w->ptr[t] = at(e, t, head);
        if (!ig_is_block(m->fmt)) continue;
        ig_kern.quantize(to, at(e, t, head), (int)m->cols);
        w->ptr[t] = to;
    }
}

/* Rows [head * rows, + rows) of m times w->ptr, to y[t * stride ...]. */
static void head_matrix(struct ig_worker *w, const struct ig_mat *m, int head, int rows, float *y,
                        size_t stride)
{
    const int first = head * rows / 16;
    ig_linear(w, m, first, first + rows / 16, w->ptr, w->e->batch->n, y - first * 16, stride);
}

/* Each head's query: k_b times its first part, rotation of the rest. */
static void absorb(struct ig_worker *w, const struct ig_layer *l)
{
    struct ig_engine *e = w->e;
    int lo, hi;
    while (ig_team_claim(&e->team, w->tid, IG_N_HEAD, 1, &lo, &hi)) {
        head_rows(w, &l->k_b, IG_BUF(e, QHQ, struct ig_xq), lo, qh);
        head_matrix(w, &l->k_b, lo, IG_KV_LORA, q(e, 0, lo), IG_Q_STRIDE);
        for (int t = 0; t < e->batch->n; t++) {
            const float *from = qh(e, t, lo) + IG_NOPE_DIM;
            float *to = q(e, t, lo) + IG_KV_LORA;
            for (int i = 0; i < IG_ROPE_DIM; i++) to[i] = from[i];
            ig_kern.rope(to, ig_rope(e, e->batch->pos[t]), IG_ROPE_DIM);
        }
    }
    ig_team_wait(&e->team);
}

/* Each head's result out of the latent space. */
static void expand_values(struct ig_worker *w, const struct ig_layer *l)
{
    struct ig_engine *e = w->e;
    int lo, hi;
    while (ig_team_claim(&e->team, w->tid, IG_N_HEAD, 1, &lo, &hi)) {
        head_rows(w, &l->v_b, IG_BUF(e, ALQ, struct ig_xq), lo, al);
        head_matrix(w, &l->v_b, lo, IG_V_DIM, IG_BUF(e, AO, float) + lo * IG_V_DIM, O_STRIDE);
        for (int t = 0; t < e->batch->n && IG_HEADS_TO_BLOCKS && ig_is_block(l->o.fmt); t++)
            ig_output_heads(e, t, lo, 1);
    }
    ig_team_wait(&e->team);
}

/* Latent attention of one layer: normed rows in, residual stream updated. */
void ig_latent(struct ig_worker *w, int layer)
{
    struct ig_engine *e = w->e;
    const struct ig_layer *l = &ig_layers[layer];

    project(w, l);
    ig_team_wait(&e->team);
    store_latent(w, layer);
    ig_team_wait(&e->team);
    if (IG_Q_LORA) expand_queries(w, l);
    absorb(w, l);
    ig_attend(w, &(struct ig_reach){ .place = layer, .out = al(e, 0, 0) });
    expand_values(w, l);
    ig_attn_output(w, &l->o);
}

#endif
