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
 * they know block formats. */
static int on_matrix_units(const struct ig_mat *m)
{
    return ig_step.args.n >= IG_GEMM_ROWS && ig_is_block(m->fmt);
}

static int up(int n, int each) { return (n + each - 1) / each; }

/* Gate, up and down of items of the route, or of the layer's dense block (`aside`). */
static void batch_mlp(struct ig_engine *e, const struct ig_mat *gate, const struct ig_mat *down,
                      int aside)
{
    const int n = ig_step.args.n, wide = on_matrix_units(gate) && on_matrix_units(down);
    const int picked = n * IG_N_EXPERT_USED,
              most =
                  aside ? 0 : picked / ig_step.args.group + IG_N_EXPERT; /* group: the router's */
    const int items = aside           ? up(n, wide ? IG_GEMM_TOKENS : IG_DEVICE_ROWS)
                      : most < picked ? most
                                      : picked;
    const int blocks = aside ? ig_aside_blocks() : FF_BLOCKS; /* of 32 hidden values */
    ig_step.args.in = aside;
    if (wide) {
        run_batch(e, BATCH_gemm_gate_up, up(2 * blocks, IG_GEMM_PANELS / 2), items, 1);
        run_batch(e, BATCH_gemm_down, up(EMBD_PANELS, IG_GEMM_PANELS), items, 1);
    } else {
        run_batch(e, BATCH_gate_up, blocks, items, 1);
        run_batch(e, BATCH_down, EMBD_PANELS, items, 1);
    }
}

#if IG_ROUTED
static void batch_experts(struct ig_engine *e, const struct ig_layer *l, int groups)
{
    const int wide = on_matrix_units(&l->gate) && on_matrix_units(&l->down);
    ig_step.args.group = wide ? (int)IG_GEMM_TOKENS : (int)IG_DEVICE_ROWS;
    if (ig_step.args.n >= IG_GEMM_ROWS && !ig_is_block(l->router.fmt))
        run_batch(e, BATCH_gemm_router, up(IG_RL_STRIDE / 16, IG_ROUTER_PANELS),
                  up(ig_step.args.n, IG_ROUTER_TOKENS), 1);
    else
        run_batch(e, BATCH_router, ig_router_blocks(&l->router), groups, 1);
    run_batch(e, BATCH_topk, ig_step.args.n, 1, 1);
    run_batch(e, BATCH_group, up(IG_N_EXPERT, IG_GROUP_THREADS / 32), 1, 1);
    batch_mlp(e, &l->gate, &l->down, 0);
}
#endif

/* q, k and v, attention, its output into the residual stream. */
static void batch_attention(struct ig_engine *e, const struct ig_layer *l, int groups)
{
    const int n = ig_step.args.n, tiles = up(n, IG_GEMM_TOKENS);
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
    const int n = ig_step.args.n, groups = up(n, IG_DEVICE_ROWS);
    ig_step_layer(e, layer);
    if (place) ig_step_experts(l, place);
    ig_step.args.in = 0;
    ig_range_begin("attention", layer);
    run_batch(e, BATCH_norm, n, 1, 1);
    batch_attention(e, l, groups);
    ig_range_end();
#if IG_XC
    if (ig_prefill_by_cpu(layer)) {
        ig_prefill_layer(e, layer);
        return;
    }
#endif
    ig_step.args.in = 1;
    ig_range_begin("experts", layer);
    run_batch(e, BATCH_norm, n, 1, 1);
#if IG_ROUTED
    if (ig_step.args.routed) batch_experts(e, l, groups);
#endif
    if (ig_step.args.aside) batch_mlp(e, &l->dense_gate, &l->dense_down, 1);
    run_batch(e, BATCH_combine, n, 1, 1);
    ig_range_end();
}

static void batch_output(struct ig_engine *e)
{
    const int n = ig_step.args.n_want, groups = (n + IG_DEVICE_ROWS - 1) / IG_DEVICE_ROWS;
    if (n == 0) return;
    ig_step.args.in = 2;
    run_batch(e, BATCH_norm, n, 1, 1);
    run_batch(e, BATCH_output, IG_LOGIT_STRIDE / 16, groups, 1);
}

void ig_batch_all(struct ig_engine *e)
{
    ig_step.args.logits = ig_step.seen->logits;
    run_batch(e, BATCH_embed, ig_step.args.n, 1, 1);
    ig_step_show(e, IG_TAP_EMBED);
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
        ig_step_show(e, layer);
    }
    batch_output(e);
    ig_step_show_output(e);
#if IG_XC
    ig_stream_end(e);
#endif
}
