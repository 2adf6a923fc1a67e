/* forward.c -- the life of a batch: one parallel region, phases and barriers.
 *
 * See "The life of a token" in docs/ARCHITECTURE.md.  Nothing here knows where
 * weights come from or what a mixer or a feed-forward block does inside.
 */
#include "state.h"
#include "device_step.h"

#include <omp.h>
#include <string.h>

/* Normed copies of all rows, as floats and, where block weights read them, as int8 blocks. */
static void norm_rows(struct ig_worker *w, uint64_t norm_off)
{
    struct ig_engine *e = w->e;
    int lo, hi;
    ig_team_share(&e->team, w->tid, e->batch->n, &lo, &hi);
    for (int t = lo; t < hi; t++) {
        ig_kern.rmsnorm(ig_xn(e, t), ig_x(e, t), (const float *)(const void *)ig_data(e, norm_off),
                        IG_N_EMBD, IG_NORM_EPS);
#if IG_MEM_XQ_BYTES
        ig_kern.quantize(ig_xnq(e, t), ig_xn(e, t), IG_N_EMBD);
#endif
    }
    ig_team_wait(&e->team);
}

static void embed(struct ig_worker *w)
{
    struct ig_engine *e = w->e;
    int lo, hi;
    ig_team_share(&e->team, w->tid, e->batch->n, &lo, &hi);
    for (int t = lo; t < hi; t++) {
        const int32_t id = e->batch->token[t];
        ig_panel_row(ig_token_embd.fmt, ig_x(e, t),
                     ig_data(e, ig_token_embd.off + (uint64_t)(id / 16) * ig_token_embd.stride),
                     id % 16, IG_N_EMBD);
    }
    ig_team_wait(&e->team);
}

/* Thread 0 shows what a layer left to the tap while the others wait. */
static void show(struct ig_worker *w, int layer)
{
    struct ig_engine *e = w->e;
    if (!e->tap.hidden && !e->tap.routed) return;
    if (w->tid == 0)
        for (int t = 0; t < e->batch->n; t++) {
            if (e->tap.hidden) e->tap.hidden(e->tap.ctx, layer, t, ig_x(e, t));
            if (e->tap.routed && layer >= 0)
                e->tap.routed(e->tap.ctx, layer, t, ig_topk_id(e, t), ig_topk_w(e, t));
        }
    ig_team_wait(&e->team);
}

/* Final norm and output matrix of the rows that want logits. */
static void output(struct ig_worker *w)
{
    struct ig_engine *e = w->e;
    const int n = e->n_want;
    float *ln = IG_BUF(e, LN, float);
    struct ig_xq *lnq = IG_BUF(e, LNQ, struct ig_xq);
    int lo, hi;

    ig_team_share(&e->team, w->tid, n, &lo, &hi);
    for (int i = lo; i < hi; i++) {
        ig_kern.rmsnorm(ln + (size_t)i * IG_N_EMBD, ig_x(e, e->want_row[i]),
                        (const float *)(const void *)ig_data(e, ig_output_norm_off), IG_N_EMBD,
                        IG_NORM_EPS);
        if (ig_is_block(ig_output.fmt))
            ig_kern.quantize(lnq + (size_t)i * (IG_N_EMBD / IG_QBLOCK), ln + (size_t)i * IG_N_EMBD,
                             IG_N_EMBD);
    }
    ig_team_wait(&e->team);
    if (w->tid == 0 && e->tap.hidden)
        for (int i = 0; i < n; i++)
            e->tap.hidden(e->tap.ctx, IG_N_LAYER, e->want_row[i], ln + (size_t)i * IG_N_EMBD);
    for (int i = 0; i < n; i++)
        w->ptr[i] = ig_is_block(ig_output.fmt)
                        ? (const void *)(lnq + (size_t)i * (IG_N_EMBD / IG_QBLOCK))
                        : (const void *)(ln + (size_t)i * IG_N_EMBD);
    ig_team_share(&e->team, w->tid, IG_LOGIT_STRIDE / 16, &lo, &hi);
    if (n > 0)
        ig_linear(w, &ig_output, lo, hi, w->ptr, n, IG_BUF(e, LOGITS, float), IG_LOGIT_STRIDE);
}

static struct ig_worker worker(struct ig_engine *e, int tid)
{
    const size_t slots = (size_t)IG_N_ROW * IG_N_EXPERT_USED;
    unsigned char *p = e->mem + IG_MEM_THREAD_OFF + (uint64_t)tid * IG_THREAD_BYTES;
    struct ig_worker w = { .e = e, .tid = tid };
    w.ya = (float(*)[IG_PANEL_ROWS])(void *)p;
    w.yb = w.ya + slots;
    w.ptr = (const void **)(void *)(w.yb + slots);
    w.attn = (float *)(void *)(w.ptr + slots);
    w.spare = w.attn + 2 * IG_GROUP * (IG_HEAD_DIM + 2);
    return w;
}

static void run(struct ig_engine *e, int tid)
{
    struct ig_worker w = worker(e, tid);

    embed(&w);
    show(&w, -1);
    for (int layer = 0; layer < IG_N_LAYER; layer++) {
        const struct ig_layer *l = &ig_layers[layer];
        norm_rows(&w, l->mixer_norm);
        switch (l->mixer) {
        case IG_MIXER_GQA: ig_attention(&w, layer); break;
        }
        ig_team_wait(&e->team);
        norm_rows(&w, l->ffn_norm);
        switch (l->ffn) {
        case IG_FFN_MOE: ig_moe(&w, layer); break;
        }
        ig_team_wait(&e->team);
        show(&w, layer);
    }
    output(&w);
}

void ig_forward(struct ig_engine *e, const struct ig_batch *b)
{
    IG_ASSERT(b->n > 0 && b->n <= IG_N_ROW);
    e->batch = b;
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
