/* device_step.c -- the life of a batch on a device: which kernels run, in which order, on what.
 *
 * One row is a graph of six kernels a layer (latent attention and a Q8_0 cache have
 * more) with no host synchronisation; more rows, and runs that somebody looks into,
 * are launched one kernel after the other.  The kernels are in kernels/cuda/;
 * docs/ARCHITECTURE.md has the list.
 */
#include "device_step.h"
#include "device.h"
#include "device_cache.h"
#include "cuda/args.h"
#include "cuda/list.h"

#include <omp.h>
#include <string.h>

enum {
    EMBD_PANELS = (IG_N_EMBD + 15) / 16,
    HEAD_SLICES = (IG_KV_LORA ? IG_KV_LORA : IG_HEAD_DIM) / IG_ATTN_SLICE,
    ATTN_THREADS = IG_SPAN_BLOCKS * 32,
    /* Bytes in shared memory: V of Q8_0 is not there. */
    KV_ELEM = (int)IG_KV_FMT == (int)IG_F32 ? 4
              : IG_KV_Q8                    ? 0
                                            : 2,
    ATTN_SHARED = IG_SPAN_BLOCKS * IG_KV_BLOCK * IG_ATTN_SLICE * KV_ELEM,
    DOWN_THREADS = IG_PANEL_THREADS * (IG_DOWN_RANKS(IG_N_EXPERT_USED) + (IG_N_FF_ASIDE > 0)),
    FORCED = IG_N_ROW * IG_N_LAYER * IG_N_EXPERT_USED,
    FF_BLOCKS = IG_FF_PAD / IG_QBLOCK
};

#define X(name, threads, shared) STEP_##name,
enum { IG_STEP_KERNELS(X) N_STEP };
#undef X
#define X(name, threads, shared) BATCH_##name,
enum { IG_BATCH_KERNELS(X) N_BATCH };
#undef X

struct named_kernel {
    const char *name;
    struct ig_kernel k;
};
#define X(id, t, s) { "ig_" #id, { .threads = (t), .shared = (s) } },
static struct named_kernel of_step[N_STEP] = { IG_STEP_KERNELS(X) };
static struct named_kernel of_batch[N_BATCH] = { IG_BATCH_KERNELS(X) };
#undef X

/* What the host and the device share, in pinned memory: the batch, the logits, and
 * what a tap is shown. */
struct shared {
    int32_t token[IG_N_ROW], pos[IG_N_ROW], seq[IG_N_ROW], turn[IG_N_ROW], want[IG_N_LOGIT_ROW];
    int32_t force, force_expert[FORCED]; /* recorded choices */
    float force_weight[FORCED];
    int32_t expert[IG_N_ROW * IG_N_EXPERT_USED];
    float weight[IG_N_ROW * IG_N_EXPERT_USED];
    float hidden[IG_N_ROW * IG_N_EMBD];
    /* with a cache, a row by itself is the last */
    float logits[(IG_N_LOGIT_ROW + IG_XC) * IG_LOGIT_STRIDE];
    struct ig_candidate sample[IG_N_VOCAB]; /* the host's alone */
};

_Static_assert(IG_TILED(IG_HEAD_DIM, IG_KV_Q8 || IG_KV_LORA) == IG_TILES,
               "the plan's tiles are the kernels'");
_Static_assert(IG_N_SEQ == 1, "rows of a tile are of one sequence");

static struct shared *shared, *shared_seen; /* the host's address of it, the device's */
static struct ig_args args;
static const unsigned char *weights; /* where the device reads them */
static int shown_row;                /* of the batch: what row 0 on the device is */

static struct ig_dmat matrix(const unsigned char *data, const struct ig_mat *m)
{
    const float *bias = m->bias ? (const float *)(const void *)(data + m->bias) : NULL;
    return (struct ig_dmat){ data + m->off, bias, m->stride, m->fmt };
}
static const float *vector(const unsigned char *data, uint64_t off)
{
    return off ? (const float *)(const void *)(data + off) : NULL;
}

static struct ig_rows rows_at(int32_t *p)
{
    return (struct ig_rows){ p, p + IG_N_ROW, p + 2 * IG_N_ROW, p + 3 * IG_N_ROW,
                             p + 4 * IG_N_ROW };
}

/* Everything that is the same in all layers and batches. */
static void fill_args(unsigned char *mem, const unsigned char *data, struct shared *seen)
{
#define AT(NAME, type) ((type *)(void *)(mem + IG_VRAM_##NAME##_OFF))
    int32_t *const expert = AT(TOPK, int32_t), *const force = AT(FORCED, int32_t);
    // clang-format off
    args = (struct ig_args){
        .host = { seen->token, seen->pos, seen->seq, seen->turn, seen->want },
        .row = rows_at(AT(BATCH, int32_t)),
        .x = AT(X, float), .xn = AT(XN, float), .q = AT(Q, float), .k = AT(K, float),
        .v = AT(V, float), .ao = AT(AO, float), .rl = AT(RL, float), .h = AT(H, float),
        .ln = AT(LN, float), .logits = seen->logits, .part = AT(PART, float),
        .y = AT(Y, float), .xq = AT(XQ, struct ig_xq), .aoq = AT(AOQ, struct ig_xq),
        .hq = AT(HQ, struct ig_xq), .lnq = AT(LNQ, struct ig_xq), .rope = AT(ROPE, float),
        .expert = expert, .weight = (float *)(void *)(expert + IG_N_ROW * IG_N_EXPERT_USED),
        .route = AT(ROUTE, int32_t), .arrived = AT(ARRIVED, uint32_t),
        .embd = matrix(data, &ig_token_embd), .output = matrix(data, &ig_output),
        .output_norm = vector(data, ig_output_norm),
        .output_norm_bias = vector(data, ig_output_norm_bias),
        .shared_scale = AT(GATE, float),
        .force = force, .force_expert = force + 1, .force_weight = (float *)(void *)(force + 1 + FORCED),
        .host_force = &seen->force, .host_expert = seen->force_expert, .host_weight = seen->force_weight,
    };
    // clang-format on
#if IG_KV_LORA
    args.q = IG_Q_LORA ? AT(QA, float) : AT(QH, float);
    args.qaq =
        (struct ig_xq *)(void *)(AT(QA, float) + (size_t)IG_N_ROW * ((IG_Q_LORA + 15) / 16 * 16));
    args.qh = AT(QH, float);
    args.ql = AT(Q, float);
    args.k = AT(KVA, float);
    args.al = AT(AL, float);
#endif
#undef AT
}

/* The layer's experts are at `place` of the device's memory, one after the other or in slots. */
static void experts_at(const struct ig_layer *l, const unsigned char *place)
{
    args.gate = matrix(place, &l->gate);
    args.up = matrix(place, &l->up);
    args.down = matrix(place, &l->down);
}

static void layer_args(const struct ig_engine *e, int layer)
{
    const struct ig_layer *l = &ig_layers[layer];
    unsigned char *mem = ig_device_mem(e->device);
    const unsigned char *data = weights;
    const uint64_t layer_kv = (uint64_t)IG_N_KV_BLOCK * IG_N_HEAD_KV * 2 * IG_KV_PART_BYTES;
    args.window = (int32_t)l->window;
    args.kv = mem + IG_VRAM_KV_OFF + (uint64_t)layer * layer_kv;
    args.layer = layer;
    args.routed = l->ffn == IG_FFN_MOE;
    args.aside = (int32_t)l->dense_gate.rows;
    args.mixer_norm = vector(data, l->mixer_norm);
    args.ffn_norm = vector(data, l->ffn_norm);
    args.mixer_norm_bias = vector(data, l->mixer_norm_bias);
    args.ffn_norm_bias = vector(data, l->ffn_norm_bias);
    args.q_norm = vector(data, l->q_norm);
    args.k_norm = vector(data, l->k_norm);
    args.sinks = vector(data, l->sinks);
    args.route_bias = vector(data, l->route_bias);
    args.shared_gate = vector(data, l->shared_gate);
    args.mq = matrix(data, &l->q);
    args.mk = matrix(data, &l->k);
    args.mv = matrix(data, &l->v);
    args.mo = matrix(data, &l->o);
#if IG_KV_LORA
    args.mq = matrix(data, IG_Q_LORA ? &l->q_a : &l->q);
    args.mk = matrix(data, &l->kv_a);
    args.mq_b = matrix(data, &l->q);
    args.mk_b = matrix(data, &l->k_b);
    args.mv_b = matrix(data, &l->v_b);
    args.q_a_norm = vector(data, l->q_a_norm);
    args.kv_a_norm = vector(data, l->kv_a_norm);
#endif
    args.router = matrix(data, &l->router);
#if IG_XC
    experts_at(l, mem + IG_VRAM_SLOTS_OFF);
#else
    experts_at(l, data + l->expert_off);
#endif
    args.dense_gate = matrix(data, &l->dense_gate);
    args.dense_up = matrix(data, &l->dense_up);
    args.dense_down = matrix(data, &l->dense_down);
    args.expert_stride = l->expert_stride;
#if IG_XC
    ig_cache_layer(e, &args.xc, layer);
#endif
}

static void run_step(struct ig_engine *e, int kernel, int x, int y)
{
    ig_device_launch(e->device, &of_step[kernel].k, x, y, 1, &args);
}

static void run_batch(struct ig_engine *e, int kernel, int x, int y, int z)
{
    ig_device_launch(e->device, &of_batch[kernel].k, x, y, z, &args);
}

/* Half panels for a float router: see kernels/cuda/linear.cu. */
static int router_blocks(const struct ig_mat *m)
{
    return IG_RL_STRIDE / 16 * (ig_is_block(m->fmt) ? 1 : 2);
}

enum {
#if IG_KV_LORA
    QH_PANELS = (IG_N_HEAD * (IG_NOPE_DIM + IG_ROPE_DIM) + 15) / 16,
    QKV_PANELS = (IG_Q_LORA ? (IG_Q_LORA + 15) / 16 : QH_PANELS) + (IG_HEAD_DIM + 15) / 16,
    ABSORB_BLOCKS = IG_N_HEAD * IG_KV_LORA / 16,
    VALUE_BLOCKS = IG_N_HEAD * IG_V_DIM / 16,
#else
    QKV_PANELS = (IG_Q_STRIDE + 2 * IG_KV_STRIDE) / 16,
#endif
    OUT_BLOCKS = !IG_KV_LORA &&
                 IG_ATTN_SLICE % IG_QBLOCK == 0, /* ig_attn leaves what o reads as int8 blocks */
    ATTN_BLOCKS = IG_N_HEAD / IG_ATTN_HEADS * HEAD_SLICES
};

/* 32 hidden values each: of this layer's dense block. */
static int aside_blocks(void) { return (args.aside + IG_QBLOCK - 1) / IG_QBLOCK; }

static void step_layer(struct ig_engine *e, int layer)
{
    layer_args(e, layer);
    const int routers = args.routed ? router_blocks(&ig_layers[layer].router) : 0;
    run_step(e, STEP_qkv, QKV_PANELS, 1);
#if IG_KV_LORA
    run_step(e, STEP_latent, 1, 1);
#if IG_Q_LORA
    run_step(e, STEP_latent_q, QH_PANELS, 1);
#endif
    run_step(e, STEP_absorb, ABSORB_BLOCKS, 1);
#elif IG_KV_Q8
    run_step(e, STEP_store_kv, 1, IG_N_HEAD_KV);
#endif
    run_step(e, STEP_attn, ATTN_BLOCKS, IG_N_SPAN);
#if IG_KV_LORA
    run_step(e, STEP_values, VALUE_BLOCKS, 1);
#endif
    run_step(e, STEP_attn_out, EMBD_PANELS, 1);
    run_step(e, STEP_router, 1 + routers, 1);
    const int cached = IG_XC && args.routed,
              fills = cached ? IG_N_EXPERT_USED * IG_FILL_BLOCKS(IG_N_EMBD) : 0;
    const int asks = cached && args.xc.posted != NULL;
    run_step(e, STEP_gate_up,
             asks + (args.routed ? IG_N_EXPERT_USED * FF_BLOCKS : 0) + aside_blocks() + fills, 1);
    run_step(e, STEP_down, EMBD_PANELS + cached, 1);
}

static void step_output(struct ig_engine *e)
{
    args.in = 2;
    run_step(e, STEP_norm, 1, 1);
    run_step(e, STEP_output, IG_LOGIT_STRIDE / 16, 1);
}

/* From IG_GEMM_ROWS on the matrix units are used (assumed, not measured: gen/plan_device.lua);
 * they know block formats. */
static int on_matrix_units(const struct ig_mat *m)
{
    return args.n >= IG_GEMM_ROWS && ig_is_block(m->fmt);
}

static int up(int n, int each) { return (n + each - 1) / each; }

/* Gate, up and down of items of the route, or of the layer's dense block (`aside`). */
static void batch_mlp(struct ig_engine *e, const struct ig_mat *gate, const struct ig_mat *down,
                      int aside)
{
    const int n = args.n, wide = on_matrix_units(gate) && on_matrix_units(down);
    const int picked = n * IG_N_EXPERT_USED,
              most = aside ? 0 : picked / args.group + IG_N_EXPERT; /* group: the router's */
    const int items = aside           ? up(n, wide ? IG_GEMM_TOKENS : IG_DEVICE_ROWS)
                      : most < picked ? most
                                      : picked;
    const int blocks = aside ? aside_blocks() : FF_BLOCKS; /* of 32 hidden values */
    args.in = aside;
    if (wide) {
        run_batch(e, BATCH_gemm_gate_up, up(2 * blocks, IG_GEMM_PANELS / 2), items, 1);
        run_batch(e, BATCH_gemm_down, up(EMBD_PANELS, IG_GEMM_PANELS), items, 1);
    } else {
        run_batch(e, BATCH_gate_up, blocks, items, 1);
        run_batch(e, BATCH_down, EMBD_PANELS, items, 1);
    }
}

static void batch_experts(struct ig_engine *e, const struct ig_layer *l, int groups)
{
    const int wide = on_matrix_units(&l->gate) && on_matrix_units(&l->down);
    args.group = wide ? (int)IG_GEMM_TOKENS : (int)IG_DEVICE_ROWS;
    if (args.n >= IG_GEMM_ROWS && !ig_is_block(l->router.fmt))
        run_batch(e, BATCH_gemm_router, up(IG_RL_STRIDE / 16, IG_ROUTER_PANELS),
                  up(args.n, IG_ROUTER_TOKENS), 1);
    else
        run_batch(e, BATCH_router, router_blocks(&l->router), groups, 1);
    run_batch(e, BATCH_topk, args.n, 1, 1);
    run_batch(e, BATCH_group, up(IG_N_EXPERT, IG_GROUP_THREADS / 32), 1, 1);
    batch_mlp(e, &l->gate, &l->down, 0);
}

/* q, k and v, attention, its output into the residual stream. */
static void batch_attention(struct ig_engine *e, const struct ig_layer *l, int groups)
{
    const int n = args.n, tiles = up(n, IG_GEMM_TOKENS);
#if !IG_KV_LORA
    if (on_matrix_units(&l->q) && on_matrix_units(&l->k) && on_matrix_units(&l->v))
        run_batch(e, BATCH_gemm_qkv,
                  up(IG_Q_STRIDE / 16, IG_GEMM_PANELS) + 2 * up(IG_KV_STRIDE / 16, IG_GEMM_PANELS),
                  tiles, 1);
    else
#endif
        run_batch(e, BATCH_qkv, QKV_PANELS, groups, 1);
#if IG_KV_LORA
    run_batch(e, BATCH_latent, n, 1, 1);
#if IG_Q_LORA
    run_batch(e, BATCH_latent_q, QH_PANELS, groups, 1);
#endif
    run_batch(e, BATCH_absorb, ABSORB_BLOCKS, groups, 1);
#else
    run_batch(e, BATCH_store_kv, n, IG_N_HEAD_KV, 1);
#endif
    const int tiled = IG_TILE_LEAST > 0 && n >= (int)IG_TILE_LEAST;
#if IG_TILES
    if (tiled) run_batch(e, BATCH_tile, IG_N_HEAD, up(n, IG_TILE_ROWS), 1);
#endif
    if (!tiled) run_batch(e, BATCH_attn, ATTN_BLOCKS, IG_N_SPAN, n);
#if IG_KV_LORA
    run_batch(e, BATCH_values, VALUE_BLOCKS, groups, 1);
#endif
    if ((tiled || !OUT_BLOCKS) && ig_is_block(l->o.fmt)) run_batch(e, BATCH_quantize, n, 1, 1);
    if (on_matrix_units(&l->o))
        run_batch(e, BATCH_gemm_out, up(EMBD_PANELS, IG_GEMM_PANELS), tiles, 1);
    else
        run_batch(e, BATCH_attn_out, EMBD_PANELS, groups, 1);
}

/* `place`: where the layer's experts are, one after the other; NULL: among the weights. */
static void batch_layer(struct ig_engine *e, int layer, const unsigned char *place)
{
    const struct ig_layer *l = &ig_layers[layer];
    const int n = args.n, groups = up(n, IG_DEVICE_ROWS);
    layer_args(e, layer);
    if (place) experts_at(l, place);
    args.in = 0;
    run_batch(e, BATCH_norm, n, 1, 1);
    batch_attention(e, l, groups);
    args.in = 1;
    run_batch(e, BATCH_norm, n, 1, 1);
    if (args.routed) batch_experts(e, l, groups);
    if (args.aside) batch_mlp(e, &l->dense_gate, &l->dense_down, 1);
    run_batch(e, BATCH_combine, n, 1, 1);
}

static void batch_output(struct ig_engine *e)
{
    const int n = args.n_want, groups = (n + IG_DEVICE_ROWS - 1) / IG_DEVICE_ROWS;
    if (n == 0) return;
    args.in = 2;
    run_batch(e, BATCH_norm, n, 1, 1);
    run_batch(e, BATCH_output, IG_LOGIT_STRIDE / 16, groups, 1);
}

/* Rows of the residual stream, and what the router chose, as they are now. */
static void show(struct ig_engine *e, int layer)
{
    const int n = args.n, k = IG_N_EXPERT_USED;
    if (!e->tap.hidden && !e->tap.routed) return;
    ig_device_get(e->device, shared->hidden, args.x, sizeof(float) * (size_t)(n * IG_N_EMBD));
    ig_device_get(e->device, shared->expert, args.expert, sizeof(int32_t) * (size_t)(n * k));
    ig_device_get(e->device, shared->weight, args.weight, sizeof(float) * (size_t)(n * k));
    ig_device_wait(e->device);
    for (int t = 0; t < n; t++) {
        const int pos = e->batch->pos[shown_row + t];
        if (e->tap.hidden)
            e->tap.hidden(e->tap.ctx, layer, pos, shared->hidden + (size_t)t * IG_N_EMBD);
        if (e->tap.routed && layer >= 0 && args.routed)
            e->tap.routed(e->tap.ctx, layer, pos, shared->expert + t * k, shared->weight + t * k);
    }
}

static void show_output(struct ig_engine *e)
{
    if (!e->tap.hidden || args.n_want == 0) return;
    ig_device_get(e->device, shared->hidden, args.ln,
                  sizeof(float) * (size_t)args.n_want * IG_N_EMBD);
    ig_device_wait(e->device);
    for (int i = 0; i < args.n_want; i++)
        e->tap.hidden(e->tap.ctx, IG_N_LAYER,
                      e->batch->pos[args.n == 1 ? shown_row : e->want_row[i]],
                      shared->hidden + (size_t)i * IG_N_EMBD);
}

static void step_all(struct ig_engine *e)
{
    run_step(e, STEP_embed, 1, 1);
    show(e, IG_TAP_EMBED);
    for (int layer = 0; layer < IG_N_LAYER; layer++) {
        step_layer(e, layer);
        show(e, layer);
    }
    step_output(e);
    show_output(e);
}

static void batch_all(struct ig_engine *e)
{
    args.logits = shared_seen->logits;
    run_batch(e, BATCH_embed, args.n, 1, 1);
    show(e, IG_TAP_EMBED);
#if IG_XC
    ig_stream_begin(e);
#endif
    for (int layer = 0; layer < IG_N_LAYER; layer++) {
#if IG_XC
        batch_layer(e, layer, ig_stream_layer(e, layer));
        ig_stream_next(e, layer);
#else
        batch_layer(e, layer, NULL);
#endif
        show(e, layer);
    }
    batch_output(e);
    show_output(e);
#if IG_XC
    ig_stream_end(e);
#endif
}

/* Rows [row, row + n) of the batch into memory that the device sees. */
static void hand_over(const struct ig_engine *e, int row, int n)
{
    const struct ig_batch *b = e->batch;
    const size_t bytes = sizeof(int32_t) * (size_t)n, each = (size_t)IG_N_LAYER * IG_N_EXPERT_USED;
    memcpy(shared->token, b->token + row, bytes);
    memcpy(shared->pos, b->pos + row, bytes);
    memcpy(shared->seq, b->seq + row, bytes);
    for (int i = 0; i < n; i++) shared->turn[i] = e->rope * IG_N_CTX + b->pos[row + i];
    shared->force = e->force_expert != NULL;
    if (shared->force) {
        memcpy(shared->force_expert, e->force_expert + (size_t)row * each,
               each * (size_t)n * sizeof(int32_t));
        memcpy(shared->force_weight, e->force_weight + (size_t)row * each,
               each * (size_t)n * sizeof(float));
    }
    args.n = n;
}

#if IG_XC
/* Threads answer what the device asks while the graph, or thread 0's launches, run. */
static void answered_step(struct ig_engine *e, int looked_into)
{
    ig_miss_begin(&e->miss);
    if (looked_into) {
        args.logits = shared_seen->logits + (size_t)IG_N_LOGIT_ROW * IG_LOGIT_STRIDE;
        run_step(e, STEP_embed, 1, 1);
        show(e, IG_TAP_EMBED);
    } else {
        ig_device_replay(e->device);
    }
#pragma omp parallel num_threads(e->miss.cpu ? e->team.n : 1)
    {
        struct ig_worker w = ig_worker(e, omp_get_thread_num());
        for (int layer = 0; layer < IG_N_LAYER; layer++) {
            if (looked_into && w.tid == 0) step_layer(e, layer);
            if (e->miss.cpu) ig_miss_answer(&w, layer);
            if (looked_into && w.tid == 0) show(e, layer);
        }
    }
    if (looked_into) {
        step_output(e);
        show_output(e);
    }
    ig_device_wait(e->device);
    ig_miss_end(&e->miss, !looked_into);
}

/* A few rows, one after the other: their experts are in the cache more often than not. */
static void row_by_row(struct ig_engine *e)
{
    const struct ig_batch *b = e->batch;
    const int n_want = e->n_want, looked_into = e->tap.hidden || e->tap.routed;
    for (int row = 0, done = 0; row < b->n; row++) {
        const int wanted = done < n_want && e->want_row[done] == row;
        hand_over(e, row, 1);
        shared->want[0] = 0;
        args.n_want = wanted || !looked_into;
        shown_row = row;
        answered_step(e, looked_into);
        if (wanted)
            memmove(shared->logits + (size_t)done++ * IG_LOGIT_STRIDE,
                    shared->logits + (size_t)IG_N_LOGIT_ROW * IG_LOGIT_STRIDE,
                    sizeof(float) * IG_LOGIT_STRIDE);
    }
}

#endif

void ig_step_forward(struct ig_engine *e)
{
#if IG_XC
    if (e->batch->n < IG_STREAM_ROWS || !ig_stream_fits(e)) {
        row_by_row(e);
        return;
    }
#endif
    hand_over(e, 0, e->batch->n);
    memcpy(shared->want, e->want_row, sizeof(int32_t) * (size_t)e->n_want);
    args.n_want = e->n_want;
    shown_row = 0;
    if (e->batch->n > 1) {
        batch_all(e);
    } else if (e->tap.hidden || e->tap.routed) {
        step_all(e);
    } else {
        shared->want[0] = 0; /* the graph always makes the row's logits */
        ig_device_replay(e->device);
    }
    ig_device_wait(e->device);
}

const float *ig_step_logits(void) { return shared->logits; }
struct ig_candidate *ig_step_sample(void) { return shared->sample; }

static enum ig_err find_kernels(struct ig_engine *e, struct ig_why *why)
{
    enum ig_err err = IG_OK;
    for (int i = 0; i < N_STEP && err == IG_OK; i++)
        err = ig_device_kernel(e->device, &of_step[i].k, IG_IMAGE_STEP, of_step[i].name, why);
    for (int i = 0; i < N_BATCH && err == IG_OK; i++)
        err = ig_device_kernel(e->device, &of_batch[i].k, IG_IMAGE_BATCH, of_batch[i].name, why);
    /* The embedding stands first: what comes before it is a copy or another step. */
    of_step[STEP_embed].k.alone = of_batch[BATCH_embed].k.alone = 1;
    return err;
}

/* The plan's bytes, or with --vram no more than that: fewer slots where there are any. */
static enum ig_err size_arena(struct ig_engine *e, const struct ig_open *o, struct ig_why *why)
{
    e->vram = IG_VRAM_BYTES;
#if IG_XC
    return ig_cache_size(e, o, why);
#else
    if (o->vram == 0 || o->vram >= e->vram) return IG_OK;
    return ig_fail(why, IG_NO_MEM,
                   "device: --vram: want %llu bytes or more, got %llu; the plan has all experts "
                   "there (build.lua --set "
                   "vram=BYTES makes one with a cache)",
                   (unsigned long long)e->vram, (unsigned long long)o->vram);
#endif
}

/* In the device's memory, or in memory that is its own and the CPU's. */
static enum ig_err place_weights(struct ig_engine *e, struct ig_why *why)
{
    void *seen = NULL;
    weights = ig_device_mem(e->device) + IG_VRAM_DATA_OFF;
    if (!IG_UNIFIED) return IG_OK;
    e->mapped = ig_device_pin(e->device, IG_DATA_BYTES, &seen);
    weights = seen;
    return e->mapped ? IG_OK
                     : ig_fail(why, IG_NO_MEM, "device: cannot map the weights' %llu MiB of memory",
                               (unsigned long long)IG_DATA_BYTES >> 20);
}

enum ig_err ig_step_open(struct ig_engine *e, const struct ig_open *o, struct ig_why *why)
{
    void *seen = NULL;
    enum ig_err err = size_arena(e, o, why);
    if (err == IG_OK) err = ig_device_open(&e->device, IG_DEVICE_ARCH, e->vram, why);
    if (err != IG_OK) return err;
    err = find_kernels(e, why);
    if (err == IG_OK && !(shared = ig_device_pin(e->device, sizeof *shared, &seen)))
        err =
            ig_fail(why, IG_NO_MEM, "device: cannot pin %zu bytes of host memory", sizeof *shared);
    if (err != IG_OK) {
        ig_step_close(e);
        return err;
    }
    /* The kernels find a KV block by its number: the table says the same (kernels/cuda/kv.h). */
    for (int s = 0; s < IG_N_SEQ; s++)
        for (uint32_t i = 0; i < IG_N_KV_BLOCK / IG_N_SEQ; i++)
            IG_ASSERT(e->kv_table[s][i] == (uint32_t)s * (IG_N_KV_BLOCK / IG_N_SEQ) + i);
    shared_seen = seen;
    err = place_weights(e, why);
    if (err != IG_OK) {
        ig_step_close(e);
        return err;
    }
    fill_args(ig_device_mem(e->device), weights, seen);
    const uint64_t work = IG_VRAM_DATA_OFF + IG_VRAM_DATA_BYTES;
    ig_device_fill(e->device, work, o->poison ? 0xff : 0, e->vram - work);
    ig_device_fill(e->device, IG_VRAM_ARRIVED_OFF, 0, IG_VRAM_ARRIVED_BYTES);
#if IG_XC
    err = ig_cache_open(e, why);
    if (err != IG_OK) ig_step_close(e);
#endif
    return err;
}

#if IG_XC
void ig_step_reach(struct ig_engine *e, const struct ig_open *o) { ig_cache_reach(e, o, &args.xc); }
#endif

void ig_step_record(struct ig_engine *e)
{
    args.n = args.n_want = 1;
    args.logits = shared_seen->logits + (IG_XC ? IG_N_LOGIT_ROW * IG_LOGIT_STRIDE : 0);
    ig_device_record(e->device);
    step_all(e);
    ig_device_recorded(e->device);
}

void ig_step_close(struct ig_engine *e)
{
    if (!e->device) return;
    if (shared) ig_device_unpin(e->device, shared);
    if (e->mapped) ig_device_unpin(e->device, e->mapped);
    e->mapped = NULL;
#if IG_XC
    ig_cache_close(e);
#endif
    ig_device_close(e->device);
    shared = NULL;
    e->device = NULL;
}
