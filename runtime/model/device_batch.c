/* device_batch.c -- a batch on a device: kernels of the prefill, one after the other.
 *
 * From IG_GEMM_ROWS rows on matrices go to the matrix units, and attention goes by tiles.
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

/* From IG_GEMM_ROWS on the matrix units are used (assumed, not measured: gen/plan_device.lua);
 * they know block formats, and BF16 where the plan says so. */
static int on_matrix_units(int fmt)
{
    return ig_step.args.n >= IG_GEMM_ROWS && (ig_is_block(fmt) || (IG_GEMM_FAST && fmt == IG_BF16));
}

static int up(int n, int each) { return (n + each - 1) / each; }
static int groups(void) { return up(ig_step.args.n, IG_DEVICE_ROWS); }

/* Gate, up and down of items of the route, or of the layer's dense block (`aside`). */
static void batch_mlp(struct ig_engine *e, const struct ig_mat *gate, const struct ig_mat *down,
                      int aside)
{
    const int n = ig_step.args.n, wide = on_matrix_units(gate->fmt) && on_matrix_units(down->fmt);
    const int picked = n * IG_N_EXPERT_USED,
              most =
                  aside ? 0 : picked / ig_step.args.group + IG_N_EXPERT; /* group: the router's */
    const int items = aside           ? up(n, wide ? IG_GEMM_TOKENS : IG_DEVICE_ROWS)
                      : most < picked ? most
                                      : picked;
    const int blocks = aside ? ig_aside_blocks() : FF_BLOCKS; /* of 32 hidden values */
    ig_step.args.in = aside;
    if (wide) {
        run_batch(e, BATCH_gemm_gate_up,
                  up((IG_ACT == IG_ACT_RELU ? 2 : 4) * blocks, IG_GEMM_PANELS), items,
                  1); /* ReLU: gate alone */
        run_batch(e, BATCH_gemm_down, up(EMBD_PANELS, IG_GEMM_PANELS), items, 1);
    } else {
        run_batch(e, BATCH_gate_up, blocks, items, 1);
        run_batch(e, BATCH_down, EMBD_PANELS, items, 1);
    }
}

#if IG_ROUTED
static void batch_experts(struct ig_engine *e, const struct ig_layer *l)
{
    const int wide = on_matrix_units(l->gate.fmt) && on_matrix_units(l->down.fmt);
    ig_step.args.group = wide ? (int)IG_GEMM_TOKENS : (int)IG_DEVICE_ROWS;
    if (ig_step.args.n >= IG_GEMM_ROWS && !ig_is_block(l->router.fmt))
        run_batch(e, BATCH_gemm_router, up(IG_RL_STRIDE / 16, IG_ROUTER_PANELS),
                  up(ig_step.args.n, IG_ROUTER_TOKENS), 1);
    else
        run_batch(e, BATCH_router, ig_router_blocks(&l->router), groups(), 1);
    run_batch(e, BATCH_topk, ig_step.args.n, 1, 1);
    run_batch(e, BATCH_group, up(IG_N_EXPERT, IG_GROUP_THREADS / 32), 1, 1);
    batch_mlp(e, &l->gate, &l->down, 0);
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
    const int tiles = up(ig_step.args.n, IG_GEMM_TOKENS);
    if (on_matrix_units(ig_step.args.mq.fmt) && on_matrix_units(ig_step.args.mk.fmt))
        run_batch(e, BATCH_gemm_qkv, up(Q_PANELS, IG_GEMM_PANELS) + up(K_PANELS, IG_GEMM_PANELS),
                  tiles, 1);
    else
        run_batch(e, BATCH_qkv, QKV_PANELS, groups(), 1);
    run_batch(e, BATCH_latent, ig_step.args.n, 1, 1);
#if IG_Q_LORA
    if (on_matrix_units(ig_step.args.mq_b.fmt))
        run_batch(e, BATCH_gemm_latent_q, up(QH_PANELS, IG_GEMM_PANELS), tiles, 1);
    else
        run_batch(e, BATCH_latent_q, QH_PANELS, groups(), 1);
#endif
    run_batch(e, BATCH_absorb, ABSORB_BLOCKS, groups(), 1);
}
#else
void ig_batch_project(struct ig_engine *e, enum ig_of of)
{
    struct ig_args *const a = &ig_step.args;
    const int q = of != IG_OF_KV, kv = of != IG_OF_Q;
    a->kv_alone = !q;
    if ((!q || on_matrix_units(a->mq.fmt)) &&
        (!kv || (on_matrix_units(a->mk.fmt) && on_matrix_units(a->mv.fmt))))
        run_batch(e, BATCH_gemm_qkv,
                  q * up(Q_PANELS, IG_GEMM_PANELS) +
                      kv * (up(K_PANELS, IG_GEMM_PANELS) + up(V_PANELS, IG_GEMM_PANELS)),
                  up(a->n, IG_GEMM_TOKENS), 1);
    else
        run_batch(e, BATCH_qkv, q * Q_PANELS + kv * (K_PANELS + V_PANELS), groups(), 1);
}

void ig_batch_store(struct ig_engine *e)
{
    run_batch(e, BATCH_store_kv, ig_step.args.n, IG_N_HEAD_KV, 1);
}
#endif

void ig_batch_attend(struct ig_engine *e)
{
    const int n = ig_step.args.n, fmt = ig_step.args.mo.fmt;
    const int tiled = IG_TILE_LEAST > 0 && n >= (int)IG_TILE_LEAST;
#if IG_TILES
    if (tiled) run_batch(e, BATCH_tile, IG_N_HEAD, up(n, IG_TILE_ROWS), 1);
#endif
    if (!tiled) run_batch(e, BATCH_attn, ATTN_BLOCKS, IG_N_SPAN, n);
#if IG_KV_LORA
    run_batch(e, BATCH_values, VALUE_BLOCKS, groups(), 1);
#endif
    if ((tiled || !OUT_BLOCKS) && ig_is_block(fmt)) run_batch(e, BATCH_quantize, n, 1, 1);
    if (on_matrix_units(fmt))
        run_batch(e, BATCH_gemm_out, up(EMBD_PANELS, IG_GEMM_PANELS), up(n, IG_GEMM_TOKENS), 1);
    else
        run_batch(e, BATCH_attn_out, EMBD_PANELS, groups(), 1);
}

void ig_batch_ffn(struct ig_engine *e, const struct ig_layer *l)
{
    ig_batch_norm(e, 1);
#if IG_ROUTED
    if (ig_step.args.routed) batch_experts(e, l);
#endif
    if (ig_step.args.aside) batch_mlp(e, &l->dense_gate, &l->dense_down, 1);
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
