/* device_step.c -- the life of a batch on a device: which kernels run, in which order, on what.
 *
 * One row is a graph of six kernels a layer with no host synchronisation; more
 * rows, and runs that somebody looks into, are launched one kernel after the
 * other.  The kernels are in kernels/cuda/; docs/ARCHITECTURE.md has the list.
 */
#include "device_step.h"
#include "device.h"
#include "device_cache.h"
#include "cuda/args.h"

#include <omp.h>
#include <string.h>

enum {
    EMBD_PANELS = (IG_N_EMBD + 15) / 16,
    HEAD_SLICES = IG_HEAD_DIM / IG_ATTN_SLICE,
    ATTN_THREADS = IG_SPAN_BLOCKS * 32,
    KV_ELEM = (int)IG_KV_FMT == (int)IG_F32 ? 4 : 2, /* bytes; the kernels know f32 and f16 */
    ATTN_SHARED = IG_SPAN_BLOCKS * IG_KV_BLOCK * IG_ATTN_SLICE * KV_ELEM,
    DOWN_THREADS = IG_PANEL_THREADS * (IG_DOWN_RANKS(IG_N_EXPERT_USED) + (IG_N_FF_ASIDE > 0)),
    FORCED = IG_N_ROW * IG_N_LAYER * IG_N_EXPERT_USED,
    FF_BLOCKS = IG_FF_PAD / IG_QBLOCK
};

/* name, threads, shared memory beyond its own: of one row, then of a batch. */
#if IG_XC
#define PLACE_KERNEL(X) X(place, IG_PLACE_THREADS, 0)
#else
#define PLACE_KERNEL(X)
#endif
#define STEP_KERNELS(X) \
    PLACE_KERNEL(X) \
    X(embed, IG_ROW_THREADS, 0) \
    X(qkv, IG_PANEL_THREADS, 0) \
    X(attn, ATTN_THREADS, ATTN_SHARED) \
    X(attn_out, IG_PANEL_THREADS, 0) \
    X(router, IG_PANEL_THREADS, 0) \
    X(gate_up, IG_GATE_UP_THREADS, 0) \
    X(down, DOWN_THREADS, 0) \
    X(norm, IG_ROW_THREADS, 0) \
    X(output, IG_PANEL_THREADS, 0)
#if IG_TILED(IG_HEAD_DIM)
#define TILE_KERNEL(X) X(tile, IG_TILE_THREADS, IG_TILE_BYTES(IG_HEAD_DIM, IG_TILE_PAD))
#else
#define TILE_KERNEL(X)
#endif
#define BATCH_KERNELS(X) \
    TILE_KERNEL(X) \
    X(gemm_qkv, IG_GEMM_THREADS, IG_GEMM_BYTES) \
    X(gemm_out, IG_GEMM_THREADS, IG_GEMM_BYTES) \
    X(gemm_gate_up, IG_GEMM_THREADS, IG_GEMM_BYTES) \
    X(gemm_down, IG_GEMM_THREADS, IG_GEMM_BYTES) \
    X(gemm_router, IG_ROUTER_THREADS, 0) \
    X(embed, IG_ROW_THREADS, 0) \
    X(norm, IG_ROW_THREADS, 0) \
    X(qkv, IG_PANEL_THREADS, 0) \
    X(store_kv, IG_PANEL_THREADS, 0) \
    X(attn, ATTN_THREADS, ATTN_SHARED) \
    X(quantize, IG_ROW_THREADS, 0) \
    X(attn_out, IG_PANEL_THREADS, 0) \
    X(router, IG_PANEL_THREADS, 0) \
    X(topk, IG_TOPK_THREADS, 0) \
    X(group, IG_GROUP_THREADS, 0) \
    X(gate_up, IG_GATE_UP_THREADS, 0) \
    X(down, IG_PANEL_THREADS, 0) \
    X(combine, IG_ROW_THREADS, 0) \
    X(output, IG_PANEL_THREADS, 0)

#define X(name, threads, shared) STEP_##name,
enum { STEP_KERNELS(X) N_STEP };
#undef X
#define X(name, threads, shared) BATCH_##name,
enum { BATCH_KERNELS(X) N_BATCH };
#undef X

struct named_kernel {
    const char *name;
    struct ig_kernel k;
};
#define X(id, t, s) { "ig_" #id, { .threads = (t), .shared = (s) } },
static struct named_kernel of_step[N_STEP] = { STEP_KERNELS(X) };
static struct named_kernel of_batch[N_BATCH] = { BATCH_KERNELS(X) };
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
    float logits[(IG_N_LOGIT_ROW + IG_XC) * IG_LOGIT_STRIDE]; /* with a cache, a row by itself is the last */
    struct ig_candidate sample[IG_N_VOCAB]; /* the host's alone */
};

_Static_assert(IG_TILED(IG_HEAD_DIM) == (IG_TILE_LEAST > 0), "the plan's tiles are the kernels'");
_Static_assert(IG_N_SEQ == 1, "rows of a tile are of one sequence");

static struct shared *shared, *shared_seen; /* the host's address of it, the device's */
static struct ig_args args;
static int shown_row; /* of the batch: what row 0 on the device is */

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
    return (struct ig_rows){ p, p + IG_N_ROW, p + 2 * IG_N_ROW, p + 3 * IG_N_ROW, p + 4 * IG_N_ROW };
}

/* Everything that is the same in all layers and batches. */
static void fill_args(unsigned char *mem, struct shared *seen)
{
#define AT(NAME, type) ((type *)(void *)(mem + IG_VRAM_##NAME##_OFF))
    const unsigned char *data = mem + IG_VRAM_DATA_OFF;
    int32_t *const expert = AT(TOPK, int32_t), *const force = AT(FORCED, int32_t);
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
    const unsigned char *data = mem + IG_VRAM_DATA_OFF;
    const uint64_t layer_kv =
        (uint64_t)IG_N_KV_BLOCK * IG_N_HEAD_KV * 2 * IG_KV_BLOCK * IG_HEAD_DIM * KV_ELEM;
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
    QKV_PANELS = (IG_Q_STRIDE + 2 * IG_KV_STRIDE) / 16,
    ATTN_BLOCKS = IG_N_HEAD / IG_ATTN_HEADS * HEAD_SLICES
};

/* 32 hidden values each: of this layer's dense block. */
static int aside_blocks(void) { return (args.aside + IG_QBLOCK - 1) / IG_QBLOCK; }

static void step_layer(struct ig_engine *e, int layer)
{
    layer_args(e, layer);
    const int routers = args.routed ? router_blocks(&ig_layers[layer].router) : 0;
    run_step(e, STEP_qkv, QKV_PANELS, 1);
    run_step(e, STEP_attn, ATTN_BLOCKS, IG_N_SPAN);
    run_step(e, STEP_attn_out, EMBD_PANELS, 1);
    run_step(e, STEP_router, 1 + routers, 1);
#if IG_XC
    if (args.routed) run_step(e, STEP_place, 1, 1);
#endif
    const int fills = IG_XC && args.routed ? IG_N_EXPERT_USED * IG_FILL_BLOCKS(IG_N_EMBD) : 0;
    run_step(e, STEP_gate_up, (args.routed ? IG_N_EXPERT_USED * FF_BLOCKS : 0) + aside_blocks() + fills, 1);
    run_step(e, STEP_down, EMBD_PANELS, 1);
}

static void step_output(struct ig_engine *e)
{
    args.in = 2;
    run_step(e, STEP_norm, 1, 1);
    run_step(e, STEP_output, IG_LOGIT_STRIDE / 16, 1);
}

/* From so many rows on the matrix units are faster (gen/plan_device.lua); they know block formats. */
static int on_matrix_units(const struct ig_mat *m) { return args.n >= IG_GEMM_ROWS && ig_is_block(m->fmt); }

static int up(int n, int each) { return (n + each - 1) / each; }

/* Gate, up and down of items of the route, or of the layer's dense block (`aside`). */
static void batch_mlp(struct ig_engine *e, const struct ig_mat *gate, const struct ig_mat *down, int aside)
{
    const int n = args.n, wide = on_matrix_units(gate) && on_matrix_units(down);
    const int picked = n * IG_N_EXPERT_USED, most = picked / args.group + IG_N_EXPERT;
    const int items = aside ? up(n, wide ? IG_GEMM_TOKENS : IG_DEVICE_ROWS) : most < picked ? most : picked;
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
        run_batch(e, BATCH_gemm_router, up(IG_RL_STRIDE / 16, IG_ROUTER_PANELS), up(args.n, IG_ROUTER_TOKENS), 1);
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
    if (on_matrix_units(&l->q) && on_matrix_units(&l->k) && on_matrix_units(&l->v))
        run_batch(e, BATCH_gemm_qkv,
                  up(IG_Q_STRIDE / 16, IG_GEMM_PANELS) + 2 * up(IG_KV_STRIDE / 16, IG_GEMM_PANELS), tiles, 1);
    else
        run_batch(e, BATCH_qkv, QKV_PANELS, groups, 1);
    run_batch(e, BATCH_store_kv, n, IG_N_HEAD_KV, 1);
#if IG_TILED(IG_HEAD_DIM)
    const int tiled = n >= (int)IG_TILE_LEAST;
    if (tiled) run_batch(e, BATCH_tile, IG_N_HEAD, up(n, IG_TILE_ROWS), 1);
#else
    const int tiled = 0;
#endif
    if (!tiled) run_batch(e, BATCH_attn, ATTN_BLOCKS, IG_N_SPAN, n);
    if ((tiled || IG_ATTN_SLICE % IG_QBLOCK != 0) && ig_is_block(l->o.fmt)) run_batch(e, BATCH_quantize, n, 1, 1);
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
        e->tap.hidden(e->tap.ctx, IG_N_LAYER, e->batch->pos[args.n == 1 ? shown_row : e->want_row[i]], shared->hidden + (size_t)i * IG_N_EMBD);
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
        memcpy(shared->force_expert, e->force_expert + (size_t)row * each, each * (size_t)n * sizeof(int32_t));
        memcpy(shared->force_weight, e->force_weight + (size_t)row * each, each * (size_t)n * sizeof(float));
    }
    args.n = n;
}

#if IG_XC
/* Threads answer what the device asks while the graph, or thread 0's launches, run. */
static void answered_step(struct ig_engine *e, int looked_into)
{
    e->miss.step++;
    ig_miss_split(&e->miss);
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
                    shared->logits + (size_t)IG_N_LOGIT_ROW * IG_LOGIT_STRIDE, sizeof(float) * IG_LOGIT_STRIDE);
    }
}

#endif

void ig_step_forward(struct ig_engine *e)
{
#if IG_XC
    if (e->batch->n < IG_STREAM_ROWS || !ig_stream_fits()) {
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

enum ig_err ig_step_open(struct ig_engine *e, int poison, struct ig_why *why)
{
    void *seen = NULL;
    enum ig_err err = ig_device_open(&e->device, IG_DEVICE_ARCH, IG_VRAM_BYTES, why);
    if (err != IG_OK) return err;
    err = find_kernels(e, why);
    if (err == IG_OK && !(shared = ig_device_pin(e->device, sizeof *shared, &seen)))
        err = ig_fail(why, IG_NO_MEM, "device: cannot pin %zu bytes of host memory", sizeof *shared);
    if (err != IG_OK) {
        ig_step_close(e);
        return err;
    }
    /* The kernels find a KV block by its number: the table says the same (kernels/cuda/attn.cu). */
    for (int s = 0; s < IG_N_SEQ; s++)
        for (uint32_t i = 0; i < IG_N_KV_BLOCK / IG_N_SEQ; i++)
            IG_ASSERT(e->kv_table[s][i] == (uint32_t)s * (IG_N_KV_BLOCK / IG_N_SEQ) + i);
    shared_seen = seen;
    fill_args(ig_device_mem(e->device), seen);
    const uint64_t work = IG_VRAM_DATA_OFF + (IG_XC ? IG_RESIDENT_BYTES : IG_DATA_BYTES);
    ig_device_fill(e->device, work, poison ? 0xff : 0, IG_VRAM_BYTES - work);
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
#if IG_XC
    ig_cache_close(e);
#endif
    ig_device_close(e->device);
    shared = NULL;
    e->device = NULL;
}
