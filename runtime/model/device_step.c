/* device_step.c -- the life of a batch on a device, and the step of one row: which kernels run, in
 * which order, on what.
 *
 * One row is a graph of six kernels a layer (latent attention, a Q8_0 cache and attention to an
 * encoder have more) with no host synchronisation; more rows (device_batch.c), and runs that
 * somebody looks into, are launched one kernel after the other.  The kernels are in kernels/cuda/;
 * docs/ARCHITECTURE.md has the list.
 */
#include "device_int.h"
#include "machine.h"
#include "range.h"

#include <omp.h>
#include <string.h>

enum {
    QKV_EACH = IG_QKV_EACH(IG_N_LAYER_ENC, QKV_PANELS, IG_N_UNIT),
    QKV_THREADS = QKV_EACH * IG_PANEL_THREADS,
    DOWN_THREADS = IG_PANEL_THREADS * (IG_DOWN_RANKS(IG_N_EXPERT_USED) + (IG_N_FF_ASIDE > 0))
};

#define X(name, threads, shared) STEP_##name,
enum { IG_STEP_KERNELS(X) N_STEP };
#undef X
static struct ig_step_kernel of_step[N_STEP] = { IG_STEP_KERNELS(IG_STEP_KERNEL) };

enum ig_err ig_step_kernels(struct ig_engine *e, struct ig_why *why)
{
    /* What comes before the embedding is a copy or another step. */
    of_step[STEP_embed].k.alone = 1;
    return ig_step_find(e, of_step, N_STEP, IG_IMAGE_STEP, why);
}

static void run_step(struct ig_engine *e, int kernel, int x, int y)
{
    ig_device_launch(e->device, &of_step[kernel].k, x, y, 1, &ig_step.args);
}

/* Blocks for the items of the chosen experts.  Many are shared by one a multiprocessor, whose
 * threads have registers for the weights of a whole item; with a cache a block an item. */
static int routed_blocks(const struct ig_engine *e, int cached)
{
    const int items = ig_step.args.routed ? IG_N_EXPERT_USED * FF_BLOCKS : 0,
              most = ig_device_units(e->device);
    return cached || !IG_MANY_ITEMS(items) || items < most ? items : most;
}

static void layer_step(struct ig_engine *e, int layer)
{
    ig_step_layer(e, layer);
    const int routers = ig_step.args.routed ? ig_router_blocks(&ig_layers[layer].router) : 0;
    run_step(e, STEP_qkv, (QKV_PANELS + QKV_EACH - 1) / QKV_EACH, 1);
#if IG_KV_LORA
    run_step(e, STEP_latent, 1, 1);
#if IG_Q_LORA
    run_step(e, STEP_latent_q, QH_PANELS, 1);
#endif
    run_step(e, STEP_absorb, ABSORB_BLOCKS, 1);
#elif IG_STEP_STORES
    run_step(e, STEP_store_kv, 1, IG_N_HEAD_KV);
#endif
    run_step(e, STEP_attn, ATTN_BLOCKS, IG_N_SPAN);
#if IG_KV_LORA
    run_step(e, STEP_values, VALUE_BLOCKS, 1);
#endif
    run_step(e, STEP_attn_out, EMBD_PANELS, 1);
#if IG_N_LAYER_ENC
    ig_step_cross(e, layer);
    run_step(e, STEP_qkv, IG_Q_STRIDE / 16, 1);
    run_step(e, STEP_attn, ATTN_BLOCKS, IG_N_SPAN);
    run_step(e, STEP_attn_out, EMBD_PANELS, 1);
#endif
    const int guesses = IG_XC && ig_step.args.routed
                            ? (ig_step.args.xc.ahead.layer >= 0) + IG_GUESSES_NEXT(ig_step.args.xc)
                            : 0;
    run_step(e, STEP_router, IG_ROUTER_LEAVES(IG_N_EMBD) + routers * (1 + guesses), 1);
    const int cached = IG_XC && ig_step.args.routed;
    const int asks = cached && ig_step.args.xc.posted != NULL;
    /* Blocks that fill slots: enough for the link, and most layers have nothing for them to do. */
    const int fills = cached ? IG_FILL_PIECES(IG_N_EMBD) + 1 : 0; /* one keeps the tables */
    run_step(e, STEP_gate_up, asks + guesses + routed_blocks(e, cached) + ig_aside_blocks() + fills,
             1);
    run_step(e, STEP_down, EMBD_PANELS + cached, 1);
}

static void step_output(struct ig_engine *e)
{
    ig_step.args.in = 2;
    run_step(e, STEP_norm, 1, 1);
    run_step(e, STEP_output, IG_LOGIT_STRIDE / 16, 1);
}

void ig_step_show(struct ig_engine *e, int layer)
{
    const struct ig_args *const a = &ig_step.args;
    struct ig_step_shared *const s = ig_step.shared;
    const int n = a->n, k = IG_N_EXPERT_USED;
    if (!e->tap.hidden && !e->tap.routed) return;
    ig_device_get(e->device, s->hidden, a->x, sizeof(float) * (size_t)(n * IG_N_EMBD));
    ig_device_get(e->device, s->expert, a->expert, sizeof(int32_t) * (size_t)(n * k));
    ig_device_get(e->device, s->weight, a->weight, sizeof(float) * (size_t)(n * k));
    ig_device_wait(e->device);
    for (int t = 0; t < n; t++) {
        const int pos = e->batch->pos[ig_step.shown_row + t];
        if (e->tap.hidden) e->tap.hidden(e->tap.ctx, layer, pos, s->hidden + (size_t)t * IG_N_EMBD);
        if (e->tap.routed && layer >= 0 && a->routed)
            e->tap.routed(e->tap.ctx, layer, pos, s->expert + t * k, s->weight + t * k);
    }
}

void ig_step_show_output(struct ig_engine *e)
{
    if (!e->tap.hidden || ig_step.args.n_want == 0) return;
    ig_device_get(e->device, ig_step.shared->hidden, ig_step.args.ln,
                  sizeof(float) * (size_t)ig_step.args.n_want * IG_N_EMBD);
    ig_device_wait(e->device);
    for (int i = 0; i < ig_step.args.n_want; i++)
        e->tap.hidden(e->tap.ctx, IG_N_LAYER,
                      e->batch->pos[ig_step.args.n == 1 ? ig_step.shown_row : e->want_row[i]],
                      ig_step.shared->hidden + (size_t)i * IG_N_EMBD);
}

void ig_step_all(struct ig_engine *e)
{
    run_step(e, STEP_embed, 1, 1);
    ig_step_show(e, IG_TAP_EMBED);
    for (int layer = IG_N_LAYER_ENC; layer < IG_N_LAYER; layer++) {
        layer_step(e, layer);
        ig_step_show(e, layer);
    }
    step_output(e);
    ig_step_show_output(e);
}

void ig_step_hand_over(const struct ig_engine *e, int row, int n)
{
    struct ig_step_shared *const s = ig_step.shared;
    const struct ig_batch *b = e->batch;
    const size_t bytes = sizeof(int32_t) * (size_t)n, each = (size_t)IG_N_LAYER * IG_N_EXPERT_USED;
    memcpy(s->token, b->token + row, bytes);
    memcpy(s->pos, b->pos + row, bytes);
    memcpy(s->seq, b->seq + row, bytes);
    for (int i = 0; i < n; i++) s->turn[i] = e->rope * IG_N_CTX + b->pos[row + i];
    s->force = e->force_expert != NULL;
#if IG_XC
    if (s->force && e->force_predicted) ig_cache_recorded(e);
    s->force += s->force && e->force_predicted;
#endif
    if (s->force) {
        memcpy(s->force_expert, e->force_expert + (size_t)row * each,
               each * (size_t)n * sizeof(int32_t));
        memcpy(s->force_weight, e->force_weight + (size_t)row * each,
               each * (size_t)n * sizeof(float));
    }
    ig_step.args.n = n;
}

#if IG_XC
/* Threads answer what the device asks while the graph, or thread 0's launches, run. */
static void answered_step(struct ig_engine *e, int looked_into)
{
    ig_range_begin("decode step", e->batch->pos[ig_step.shown_row]);
    ig_miss_begin(&e->miss, e->miss.reach != e->miss.reach_want && ig_device_reaching(e->device),
                  looked_into);
    if (looked_into) {
        ig_step.args.logits = ig_step.seen->logits + (size_t)IG_N_LOGIT_ROW * IG_LOGIT_STRIDE;
        run_step(e, STEP_embed, 1, 1);
        ig_step_show(e, IG_TAP_EMBED);
    } else {
        ig_device_replay(e->device);
    }
#pragma omp parallel num_threads(e->miss.cpu ? e->team.n : 1)
    {
        struct ig_worker w = ig_worker(e, omp_get_thread_num());
        for (int layer = IG_N_LAYER_ENC; layer < IG_N_LAYER; layer++) {
            if (looked_into && w.tid == 0) layer_step(e, layer);
            if (e->miss.cpu) ig_miss_answer(&w, layer);
            if (looked_into && w.tid == 0) ig_step_show(e, layer);
        }
    }
    if (looked_into) {
        step_output(e);
        ig_step_show_output(e);
    }
    ig_device_wait(e->device);
    if (e->miss.cpu) ig_miss_look(e);
    ig_miss_end(&e->miss, !looked_into);
    if (!looked_into) ig_prefill_row(e, ig_seconds() - e->miss.began);
    ig_range_end();
}

/* A few rows, one after the other: their experts are in the cache more often than not. */
static void row_by_row(struct ig_engine *e)
{
    const struct ig_batch *b = e->batch;
    const int n_want = e->n_want, looked_into = e->tap.hidden || e->tap.routed;
    for (int row = 0, done = 0; row < b->n; row++) {
        const int wanted = done < n_want && e->want_row[done] == row;
        ig_step_hand_over(e, row, 1);
        ig_step.shared->want[0] = 0;
        ig_step.args.n_want = wanted || !looked_into;
        ig_step.shown_row = row;
        answered_step(e, looked_into);
        if (wanted)
            memmove(ig_step.shared->logits + (size_t)done++ * IG_LOGIT_STRIDE,
                    ig_step.shared->logits + (size_t)IG_N_LOGIT_ROW * IG_LOGIT_STRIDE,
                    sizeof(float) * IG_LOGIT_STRIDE);
    }
}

#endif

void ig_step_forward(struct ig_engine *e)
{
#if IG_XC
    ig_cache_pinned(e, e->batch->n == 1);
    if (!ig_prefill_batch(e)) {
        ig_hot_back(e);
        row_by_row(e);
        return;
    }
#endif
    ig_step_hand_over(e, 0, e->batch->n);
    memcpy(ig_step.shared->want, e->want_row, sizeof(int32_t) * (size_t)e->n_want);
    ig_step.args.n_want = e->n_want;
    ig_step.shown_row = 0;
    ig_range_begin(e->batch->n > 1 ? "prefill" : "decode step", e->batch->pos[0]);
    if (e->batch->n > 1) {
        ig_batch_all(e);
    } else if (e->tap.hidden || e->tap.routed) {
        ig_step_all(e);
    } else {
        ig_step.shared->want[0] = 0; /* the graph always makes the row's logits */
        ig_device_replay(e->device);
    }
    ig_device_wait(e->device);
    ig_range_end();
}

const float *ig_step_logits(void) { return ig_step.shared->logits; }
struct ig_candidate *ig_step_sample(void) { return ig_step.shared->sample; }
