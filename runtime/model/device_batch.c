/* device_batch.c -- a batch on a device: kernels of the prefill, one after the other.
 *
 * From IG_GEMM_ROWS rows on matrices go to the matrix units, and attention goes by tiles; with
 * gemm=fast both go to those units in 16 bits.
 */
#include "device_int.h"
#include "range.h"

#define X(name, threads, shared) BATCH_##name,
enum { IG_BATCH_KERNELS(X) N_BATCH };
#undef X
static struct ig_step_kernel of_batch[N_BATCH] = { IG_BATCH_KERNELS(IG_STEP_KERNEL) };

_Static_assert(IG_TILED(IG_HEAD_DIM, IG_KV_Q8 || IG_KV_LORA) == IG_TILES,
               "the plan's tiles are the kernels'");
_Static_assert(IG_N_SEQ == 1, "rows of a tile are of one sequence");

enum {
    OUT_BLOCKS = !IG_KV_LORA &&
                 IG_ATTN_SLICE % IG_QBLOCK == 0 /* ig_attn leaves what o reads as int8 blocks */
};

enum ig_err ig_batch_kernels(struct ig_engine *e, struct ig_why *why)
{
    /* What comes before the embedding is a copy or another step. */
    of_batch[BATCH_embed].k.alone = 1;
    return ig_step_find(e, of_batch, N_BATCH, IG_IMAGE_BATCH, why);
}

static void run_batch(struct ig_engine *e, int kernel, int x, int y, int z)
{
    ig_device_launch(e->device, &of_batch[kernel].k, x, y, z, &ig_step.args);
}

/* How a matrix is multiplied: IG_DEVICE_ROWS rows at a time; from IG_GEMM_ROWS on (assumed, not
 * measured: gen/plan_device.lua) on the matrix units, which know block formats, and BF16 where the
 * plan says so. */
enum way { BY_ROWS, BY_BLOCKS, FAST };
static const int tokens_of[] = { IG_DEVICE_ROWS, IG_GEMM_TOKENS, IG_FAST_TOKENS };

static enum way way_of(int fmt)
{
    if (ig_step.args.n < (int)IG_GEMM_ROWS) return BY_ROWS;
    return ig_is_block(fmt) ? BY_BLOCKS : IG_GEMM_FAST && fmt == IG_BF16 ? FAST : BY_ROWS;
}
/* Of matrices that one kernel multiplies. */
static enum way way_of_both(int a, int b) { return way_of(a) == way_of(b) ? way_of(a) : BY_ROWS; }

static int up(int n, int each) { return (n + each - 1) / each; }
#if IG_ROUTED || IG_KV_LORA
static int groups(void) { return up(ig_step.args.n, IG_DEVICE_ROWS); }
#endif

/* Blocks of gemm=fast along so many panels of an expert: rows of few columns are done sooner, so a
 * block goes through more tiles; of dense matrices it has one, since those have fewer blocks. */
static int fast_blocks(int panels, int columns)
{
    enum { COLUMNS = 4096 };
    const int tiles = up(panels, IG_FAST_PANELS),
              blocks = up(tiles, columns < COLUMNS ? COLUMNS / columns : 1);
    ig_step.args.tiles = up(tiles, blocks);
    return blocks;
}

/* A dense matrix of so many panels; in two or three ways. */
static void run_dense(struct ig_engine *e, enum way way, int by_rows, int by_blocks, int fast,
                      int panels)
{
    const int n = ig_step.args.n, each[] = { 1, IG_GEMM_PANELS, IG_FAST_PANELS },
              kernel[] = { by_rows, by_blocks, fast };
    ig_step.args.tiles = 1;
    run_batch(e, kernel[way], up(panels, each[way]), up(n, tokens_of[way]), 1);
}
#if IG_GEMM_FAST
#define FAST_KERNEL(name) BATCH_##name
#else
#define FAST_KERNEL(name) (-1) /* never chosen */
#endif

/* What BF16 matrices read, where no kernel has left it in BF16 (`in` of ig_fast_round). */
static void round_rows(struct ig_engine *e, int in)
{
    ig_step.args.in = in;
    run_batch(e, FAST_KERNEL(fast_round), ig_step.args.n, 1, 1);
}

/* Gate, up and down of items of the route, or of the layer's dense block (`aside`). */
static void batch_mlp(struct ig_engine *e, enum way way, int aside)
{
    enum { OF_GATE = IG_ACT == IG_ACT_RELU ? 1 : 2 }; /* ReLU: gate alone */
    const int n = ig_step.args.n, picked = n * IG_N_EXPERT_USED,
              most = aside ? up(n, tokens_of[way]) : picked / tokens_of[way] + IG_N_EXPERT;
    const int items = aside || most < picked ? most : picked;
    const int blocks = aside ? ig_aside_blocks() : FF_BLOCKS; /* of 32 hidden values */
    ig_step.args.in = aside;
    if (way == FAST) {
        const int columns = aside ? ig_step.args.aside : IG_N_FF;
        run_batch(e, FAST_KERNEL(fast_gate_up), fast_blocks(OF_GATE * 2 * blocks, IG_N_EMBD), items,
                  1);
        run_batch(e, FAST_KERNEL(fast_down), fast_blocks(EMBD_PANELS, columns), items, 1);
    } else if (way == BY_BLOCKS) {
        run_batch(e, BATCH_gemm_gate_up, up(OF_GATE * 2 * blocks, IG_GEMM_PANELS), items, 1);
        run_batch(e, BATCH_gemm_down, up(EMBD_PANELS, IG_GEMM_PANELS), items, 1);
    } else {
        run_batch(e, BATCH_gate_up, blocks, items, 1);
        run_batch(e, BATCH_down, EMBD_PANELS, items, 1);
    }
}

#if IG_ROUTED
static void batch_experts(struct ig_engine *e, const struct ig_layer *l)
{
    const enum way way = way_of_both(l->gate.fmt, l->down.fmt);
    ig_step.args.group = tokens_of[way];
    if (ig_step.args.n >= IG_GEMM_ROWS && !ig_is_block(l->router.fmt))
        run_batch(e, BATCH_gemm_router, up(IG_RL_STRIDE / 16, IG_ROUTER_PANELS),
                  up(ig_step.args.n, IG_ROUTER_TOKENS), 1);
    else
        run_batch(e, BATCH_router, ig_router_blocks(&l->router), groups(), 1);
    run_batch(e, BATCH_topk, ig_step.args.n, 1, 1);
    run_batch(e, BATCH_group, up(IG_N_EXPERT, IG_GROUP_THREADS / 32), 1, 1);
    batch_mlp(e, way, 0);
}
#endif

void ig_batch_embed(struct ig_engine *e) { run_batch(e, BATCH_embed, ig_step.args.n, 1, 1); }

void ig_batch_norm(struct ig_engine *e, int in)
{
    ig_step.args.in = in;
    run_batch(e, BATCH_norm, ig_step.args.n, 1, 1);
}

#if IG_KV_LORA
static void latent(struct ig_engine *e)
{
    const struct ig_args *const a = &ig_step.args;
    const enum way way = way_of_both(a->mq.fmt, a->mk.fmt);
    const int each[] = { 1, IG_GEMM_PANELS, IG_FAST_PANELS },
              kernel[] = { BATCH_qkv, BATCH_gemm_qkv, FAST_KERNEL(fast_qkv) };
    ig_step.args.tiles = 1;
    run_batch(e, kernel[way], up(Q_PANELS, each[way]) + up(K_PANELS, each[way]),
              up(a->n, tokens_of[way]), 1);
    run_batch(e, BATCH_latent, a->n, 1, 1);
#if IG_Q_LORA
    if (way_of(a->mq_b.fmt) == FAST) round_rows(e, 1);
    run_dense(e, way_of(a->mq_b.fmt), BATCH_latent_q, BATCH_gemm_latent_q,
              FAST_KERNEL(fast_latent_q), QH_PANELS);
#endif
    run_batch(e, BATCH_absorb, ABSORB_BLOCKS, groups(), 1);
}
#else
void ig_batch_project(struct ig_engine *e, enum ig_of of)
{
    struct ig_args *const a = &ig_step.args;
    const int q = of != IG_OF_KV, kv = of != IG_OF_Q;
    const int each[] = { 1, IG_GEMM_PANELS, IG_FAST_PANELS },
              kernel[] = { BATCH_qkv, BATCH_gemm_qkv, FAST_KERNEL(fast_qkv) };
    enum way way = way_of_both(a->mk.fmt, a->mv.fmt);
    if (!kv) way = way_of(a->mq.fmt);
    if (q && kv && way != way_of(a->mq.fmt)) way = BY_ROWS;
    a->kv_alone = !q;
    a->tiles = 1;
    run_batch(e, kernel[way],
              q * up(Q_PANELS, each[way]) +
                  kv * (up(K_PANELS, each[way]) + up(V_PANELS, each[way])),
              up(a->n, tokens_of[way]), 1);
}

void ig_batch_store(struct ig_engine *e)
{
    run_batch(e, BATCH_store_kv, ig_step.args.n, IG_N_HEAD_KV, 1);
}
#endif

/* Attention of the batch; -> its output is what o reads in BF16. */
static int attend(struct ig_engine *e, int fmt)
{
    const int n = ig_step.args.n, tiled = IG_TILE_LEAST > 0 && n >= (int)IG_TILE_LEAST;
#if IG_GEMM_FAST && IG_FLASHES
    enum { HEADS = IG_FLASH_HEADS(IG_N_HEAD / IG_N_HEAD_KV) };
    if (n >= (int)IG_GEMM_ROWS) {
        run_batch(e, BATCH_flash, IG_N_HEAD / HEADS, up(n, 128 / HEADS), 1);
        if (ig_is_block(fmt)) run_batch(e, BATCH_quantize, n, 1, 1);
        return fmt == IG_BF16;
    }
#endif
#if IG_TILES
    if (tiled) run_batch(e, BATCH_tile, IG_N_HEAD, up(n, IG_TILE_ROWS), 1);
#endif
    if (!tiled) run_batch(e, BATCH_attn, ATTN_BLOCKS, IG_N_SPAN, n);
#if IG_KV_LORA
    run_batch(e, BATCH_values, VALUE_BLOCKS, groups(), 1);
#endif
    if ((tiled || !OUT_BLOCKS) && ig_is_block(fmt)) run_batch(e, BATCH_quantize, n, 1, 1);
    return 0;
}

void ig_batch_attend(struct ig_engine *e)
{
    const int fmt = ig_step.args.mo.fmt, rounded = attend(e, fmt);
    if (way_of(fmt) == FAST && !rounded) round_rows(e, 0);
    run_dense(e, way_of(fmt), BATCH_attn_out, BATCH_gemm_out, FAST_KERNEL(fast_out), EMBD_PANELS);
}

void ig_batch_ffn(struct ig_engine *e, const struct ig_layer *l)
{
    ig_batch_norm(e, 1);
#if IG_ROUTED
    if (ig_step.args.routed) batch_experts(e, l);
#endif
    if (ig_step.args.aside) batch_mlp(e, way_of_both(l->dense_gate.fmt, l->dense_down.fmt), 1);
    run_batch(e, BATCH_combine, ig_step.args.n, 1, 1);
}

/* `place`: where the layer's experts are, one after the other; NULL: among the weights. */
static void batch_layer(struct ig_engine *e, int layer, const unsigned char *place)
{
    const struct ig_layer *l = &ig_layers[layer];
    ig_step_layer(e, layer);
    if (place) ig_step_experts(l, place);
    ig_range_begin("attention", layer);
    ig_batch_norm(e, 0);
#if IG_KV_LORA
    latent(e);
#else
    ig_batch_project(e, IG_OF_ALL);
    ig_batch_store(e);
#endif
    ig_batch_attend(e);
#if IG_N_LAYER_ENC
    ig_step_cross(e, layer);
    ig_batch_norm(e, 0);
    ig_batch_project(e, IG_OF_Q);
    ig_batch_attend(e);
#endif
    ig_range_end();
#if IG_XC
    if (ig_prefill_by_cpu(layer)) {
        ig_prefill_layer(e, layer);
        return;
    }
#endif
    ig_range_begin("experts", layer);
    ig_batch_ffn(e, l);
    ig_range_end();
}

static void batch_output(struct ig_engine *e)
{
    const int n = ig_step.args.n_want;
    if (n == 0) return;
    ig_step.args.in = 2;
    run_batch(e, BATCH_norm, n, 1, 1);
    run_batch(e, BATCH_output, IG_LOGIT_STRIDE / 16, up(n, IG_DEVICE_ROWS), 1);
}

void ig_batch_all(struct ig_engine *e)
{
    ig_step.args.logits = ig_step.seen->logits;
    ig_batch_embed(e);
    ig_step_show(e, IG_TAP_EMBED);
#if IG_XC
    ig_stream_begin(e, IG_N_LAYER_ENC, IG_N_LAYER);
#endif
    for (int layer = IG_N_LAYER_ENC; layer < IG_N_LAYER; layer++) {
#if IG_XC
        batch_layer(e, layer, ig_stream_layer(e, layer));
        ig_stream_next(e, layer);
#else
        batch_layer(e, layer, NULL);
#endif
        ig_step_show(e, layer);
    }
    batch_output(e);
    ig_step_show_output(e);
#if IG_XC
    ig_stream_end(e);
#endif
}
