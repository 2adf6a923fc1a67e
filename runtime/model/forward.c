/* forward.c -- the life of a batch: one parallel region, phases and barriers.
 *
 * See "The life of a token" in docs/ARCHITECTURE.md.  Nothing here knows where
 * weights come from or what a mixer or a feed-forward block does inside.
 */
#include "state.h"
#include "device_step.h"

#include <omp.h>
#include <string.h>

/* Normed copies of all rows, as floats and, where block weights read them, as int8 blocks.  Of a
 * single row every thread makes its own. */
void ig_norm_rows(struct ig_worker *w, uint64_t weight, uint64_t bias)
{
    struct ig_engine *e = w->e;
    int lo, hi;
    if (e->batch->n == 1) {
        ig_norm(e, w->xn, ig_x(e, 0), weight, bias);
        if (IG_MEM_XQ_BYTES) ig_kern.quantize(w->xnq, w->xn, IG_N_EMBD);
        return;
    }
    ig_team_share(&e->team, w->tid, e->batch->n, &lo, &hi);
    for (int t = lo; t < hi; t++) {
        ig_norm(e, ig_xn(e, t), ig_x(e, t), weight, bias);
#if IG_MEM_XQ_BYTES
        ig_kern.quantize(ig_xnq(e, t), ig_xn(e, t), IG_N_EMBD);
#endif
    }
    ig_team_wait(&e->team);
}

void ig_embed(struct ig_worker *w)
{
    struct ig_engine *e = w->e;
    int lo, hi;
    ig_team_share(&e->team, w->tid, e->batch->n, &lo, &hi);
    for (int t = lo; t < hi; t++) {
        const int32_t id = e->batch->token[t];
        ig_panel_row(ig_token_embd.fmt, ig_x(e, t),
                     ig_data(e, ig_token_embd.off + (uint64_t)(id / 16) * ig_token_embd.stride),
                     id % 16, IG_N_EMBD);
        if (IG_EMBD_SCALE != 1.0f)
            for (int i = 0; i < IG_N_EMBD; i++) ig_x(e, t)[i] *= IG_EMBD_SCALE;
    }
    ig_team_wait(&e->team);
}

/* Thread 0 shows what a layer left to the tap while the others wait. */
void ig_show(struct ig_worker *w, int layer)
{
    struct ig_engine *e = w->e;
    if (!e->tap.hidden && !e->tap.routed) return;
    if (w->tid == 0)
        for (int t = 0; t < e->batch->n; t++) {
            const int pos = e->batch->pos[t];
            if (e->tap.hidden) e->tap.hidden(e->tap.ctx, layer, pos, ig_x(e, t));
            if (e->tap.routed && layer >= 0 && ig_layers[layer].ffn == IG_FFN_MOE)
                e->tap.routed(e->tap.ctx, layer, pos, ig_topk_id(e, t), ig_topk_w(e, t));
        }
    ig_team_wait(&e->team);
}

static void show_router_in(struct ig_worker *w, int layer)
{
    struct ig_engine *e = w->e;
    if (!e->tap.router_in || ig_layers[layer].ffn != IG_FFN_MOE) return;
    if (w->tid == 0)
        for (int t = 0; t < e->batch->n; t++)
            e->tap.router_in(e->tap.ctx, layer, e->batch->pos[t], ig_x(e, t), ig_xn(e, t));
    ig_team_wait(&e->team);
}

void ig_peek_router(struct ig_engine *e, int layer, const float *x, void *scratch, float *logit)
{
    struct ig_worker w = ig_worker(e, 0);
    const struct ig_layer *l = &ig_layers[layer];
    float *norm = scratch;
    struct ig_xq *blocks = (struct ig_xq *)(void *)(norm + (IG_N_EMBD + 15) / 16 * 16);
    const void *row = norm;
    ig_norm(e, norm, x, l->ffn_norm, l->ffn_norm_bias);
    if (ig_is_block(l->router.fmt)) {
        ig_kern.quantize(blocks, norm, IG_N_EMBD);
        row = blocks;
    }
    ig_linear(&w, &l->router, 0, IG_RL_STRIDE / 16, &row, 1, logit, IG_RL_STRIDE);
}

/* Final norm of the rows that want logits, as the output matrix reads them: w->ptr.  Of a single
 * row every thread makes its own. */
static void output_rows(struct ig_worker *w)
{
    struct ig_engine *e = w->e;
    const int alone = e->n_want == 1, blocks = ig_is_block(ig_output.fmt);
    float *ln = alone && w->tid ? w->xn : IG_BUF(e, LN, float);
    struct ig_xq *lnq = alone && w->tid ? w->xnq : IG_BUF(e, LNQ, struct ig_xq);
    int lo = 0, hi = 1;

    if (!alone) ig_team_share(&e->team, w->tid, e->n_want, &lo, &hi);
    for (int i = 0; i < e->n_want; i++) {
        float *row = ln + (size_t)i * IG_N_EMBD;
        struct ig_xq *as_blocks = lnq + (size_t)i * (IG_N_EMBD / IG_QBLOCK);
        w->ptr[i] = blocks ? (const void *)as_blocks : (const void *)row;
        if (i < lo || i >= hi) continue;
        ig_norm(e, row, ig_x(e, e->want_row[i]), ig_output_norm, ig_output_norm_bias);
        if (blocks) ig_kern.quantize(as_blocks, row, IG_N_EMBD);
    }
    if (!alone) ig_team_wait(&e->team);
    for (int i = 0; i < e->n_want && w->tid == 0 && e->tap.hidden; i++)
        e->tap.hidden(e->tap.ctx, IG_N_LAYER, e->batch->pos[e->want_row[i]],
                      ln + (size_t)i * IG_N_EMBD);
}

/* Final norm and output matrix. */
static void output(struct ig_worker *w)
{
    struct ig_engine *e = w->e;
    const int n = e->n_want;
    float *logits = IG_BUF(e, LOGITS, float);
    int lo, hi;

    if (n == 0) return;
    output_rows(w);
    while (ig_team_take(&e->team, w->tid, IG_LOGIT_STRIDE / 16, &lo, &hi)) {
        ig_linear(w, &ig_output, lo, hi, w->ptr, n, logits, IG_LOGIT_STRIDE);
        for (int i = 0; i < n && IG_LOGIT_SCALE != 1.0f; i++)
            for (int c = lo * 16; c < hi * 16; c++)
                logits[(size_t)i * IG_LOGIT_STRIDE + (size_t)c] /= IG_LOGIT_SCALE;
    }
}

struct ig_worker ig_worker(struct ig_engine *e, int tid)
{
    const size_t slots = IG_N_SLOT;
    unsigned char *p = e->mem + IG_MEM_THREAD_OFF + (uint64_t)tid * IG_THREAD_BYTES;
    struct ig_worker w = { .e = e, .tid = tid };
    w.xn = tid ? (float *)(void *)p : IG_BUF(e, XN, float);
    w.xnq = tid || !IG_MEM_XQ_BYTES ? (struct ig_xq *)(void *)(p + IG_N_EMBD * sizeof(float))
                                    : IG_BUF(e, XQ, struct ig_xq);
    w.ya = (float(*)[IG_PANEL_ROWS])(void *)(p + IG_OWN_BYTES);
    w.yb = w.ya + slots;
    w.ptr = (const void **)(void *)(w.yb + slots);
    w.attn = (float *)(void *)(w.ptr + slots);
    w.spare = w.attn + 2 * IG_GROUP * (IG_HEAD_DIM + 2);
    return w;
}

static void run(struct ig_engine *e, int tid)
{
    struct ig_worker w = ig_worker(e, tid);

    ig_embed(&w);
    ig_show(&w, IG_TAP_EMBED);
    for (int layer = IG_N_LAYER_ENC; layer < IG_N_LAYER; layer++) {
        const struct ig_layer *l = &ig_layers[layer];
        ig_tier_turn(&w);
        ig_norm_rows(&w, l->mixer_norm, l->mixer_norm_bias);
        switch (l->mixer) {
        case IG_MIXER_GQA:
            ig_attention(&w, layer);
            break;
#if IG_KV_LORA
        case IG_MIXER_MLA:
            ig_latent(&w, layer);
            break;
#endif
        }
        ig_team_wait(&e->team);
#if IG_N_LAYER_ENC
        ig_norm_rows(&w, l->cross_norm, 0);
        ig_cross(&w, layer);
        ig_team_wait(&e->team);
#endif
        ig_tier_turn(&w);
        ig_norm_rows(&w, l->ffn_norm, l->ffn_norm_bias);
        show_router_in(&w, layer);
        ig_moe(&w, layer);
        ig_team_wait(&e->team);
        ig_show(&w, layer);
    }
    output(&w);
}

void ig_forward(struct ig_engine *e, const struct ig_batch *b)
{
    IG_ASSERT(b->n > 0 && b->n <= IG_N_ROW);
    IG_ASSERT(e->n_enc > 0 || !IG_N_LAYER_ENC);
    e->batch = b;
    e->x = IG_BUF(e, X, float);
    e->n_want = 0;
    for (int i = 0; i < b->n; i++) {
        IG_ASSERT(b->token[i] >= 0 && b->token[i] < IG_N_VOCAB);
        IG_ASSERT(b->pos[i] >= 0 && b->pos[i] < e->n_ctx && b->seq[i] >= 0 && b->seq[i] < IG_N_SEQ);
        if (!b->want[i]) continue;
        IG_ASSERT(e->n_want < IG_N_LOGIT_ROW);
        e->want_row[e->n_want++] = i;
    }
#if IG_DEVICE
    if (e->device) {
        ig_step_forward(e);
        return;
    }
#endif
    ig_tier_batch(e);
#pragma omp parallel num_threads(e->team.n)
    run(e, omp_get_thread_num());
}

const float *ig_logits(const struct ig_engine *e, int i)
{
#if IG_DEVICE
    if (e->device) return ig_step_logits() + (size_t)i * IG_LOGIT_STRIDE;
#endif
    return (const float *)(const void *)(e->mem + IG_MEM_LOGITS_OFF) + (size_t)i * IG_LOGIT_STRIDE;
}
