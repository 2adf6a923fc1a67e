/* device_args.c -- what kernels of a step on a device are handed. */
#include "device_int.h"

struct ig_step ig_step;

static struct ig_dmat matrix(const unsigned char *data, const struct ig_mat *m)
{
    const float *bias = m->bias ? (const float *)(const void *)(data + m->bias) : NULL;
    return (struct ig_dmat){ data + m->off, bias, m->stride, m->fmt };
}
static const float *vector(const unsigned char *data, uint64_t off)
{
    return off ? (const float *)(const void *)(data + off) : NULL;
}
#if IG_XC
static void guess_router(const unsigned char *data, struct ig_dahead *h)
{
    if (h->layer < 0) return;
    const struct ig_layer *l = &ig_layers[h->layer];
    h->router = matrix(data, &l->router);
    h->norm = vector(data, l->ffn_norm);
    h->norm_bias = vector(data, l->ffn_norm_bias);
    h->route_bias = vector(data, l->route_bias);
}
#endif

static struct ig_rows rows_at(int32_t *p)
{
    return (struct ig_rows){ p, p + IG_N_ROW, p + 2 * IG_N_ROW, p + 3 * IG_N_ROW,
                             p + 4 * IG_N_ROW };
}

void ig_step_fill(unsigned char *mem)
{
    const unsigned char *const data = ig_step.weights;
    struct ig_step_shared *const seen = ig_step.seen;
#define AT(NAME, type) ((type *)(void *)(mem + IG_VRAM_##NAME##_OFF))
    int32_t *const expert = AT(TOPK, int32_t), *const force = AT(FORCED, int32_t);
    // clang-format off
    ig_step.args = (struct ig_args){
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
        .input = AT(INPUT, int32_t),
        .force = force, .force_expert = force + 1, .force_weight = (float *)(void *)(force + 1 + FORCED),
        .host_force = &seen->force, .host_expert = seen->force_expert, .host_weight = seen->force_weight,
    };
    // clang-format on
#if IG_GEMM_FAST
    ig_step.args.xb = AT(XB, unsigned short);
    ig_step.args.hb = AT(H, unsigned short);
#endif
#if IG_KV_LORA
    ig_step.args.q = IG_Q_LORA ? AT(QA, float) : AT(QH, float);
    ig_step.args.qaq =
        (struct ig_xq *)(void *)(AT(QA, float) + (size_t)IG_N_ROW * ((IG_Q_LORA + 15) / 16 * 16));
    ig_step.args.qh = AT(QH, float);
    ig_step.args.ql = AT(Q, float);
    ig_step.args.k = AT(KVA, float);
    ig_step.args.al = AT(AL, float);
#endif
#undef AT
}

void ig_step_experts(const struct ig_layer *l, const unsigned char *place)
{
    ig_step.args.gate = matrix(place, &l->gate);
    ig_step.args.up = matrix(place, &l->up);
    ig_step.args.down = matrix(place, &l->down);
}

/* A place of the KV cache. */
static unsigned char *kv_at(unsigned char *mem, int place)
{
    return mem + IG_VRAM_KV_OFF +
           (uint64_t)place * IG_N_KV_BLOCK * IG_N_HEAD_KV * 2 * IG_KV_PART_BYTES;
}

void ig_step_layer(const struct ig_engine *e, int layer)
{
    struct ig_args *const a = &ig_step.args;
    const struct ig_layer *l = &ig_layers[layer];
    unsigned char *mem = ig_device_mem(e->device);
    const unsigned char *data = ig_step.weights;
    a->window = (int32_t)l->window;
    a->whole = a->kv_alone = 0;
    a->kv = kv_at(mem, ig_kv_self(layer));
#if IG_N_REL_BUCKET
    a->rel_bias = ig_rel_bias_in((const float *)(const void *)(mem + IG_VRAM_BIAS_OFF),
                                 layer >= IG_N_LAYER_ENC);
#endif
    a->layer = layer;
    a->routed = l->ffn == IG_FFN_MOE;
    a->aside = (int32_t)l->dense_gate.rows;
    a->mixer_norm = vector(data, l->mixer_norm);
    a->ffn_norm = vector(data, l->ffn_norm);
    a->mixer_norm_bias = vector(data, l->mixer_norm_bias);
    a->ffn_norm_bias = vector(data, l->ffn_norm_bias);
    a->q_norm = vector(data, l->q_norm);
    a->k_norm = vector(data, l->k_norm);
    a->sinks = vector(data, l->sinks);
    a->route_bias = vector(data, l->route_bias);
    a->shared_gate = vector(data, l->shared_gate);
    a->mq = matrix(data, &l->q);
    a->mk = matrix(data, &l->k);
    a->mv = matrix(data, &l->v);
    a->mo = matrix(data, &l->o);
#if IG_KV_LORA
    a->mq = matrix(data, IG_Q_LORA ? &l->q_a : &l->q);
    a->mk = matrix(data, &l->kv_a);
    a->mq_b = matrix(data, &l->q);
    a->mk_b = matrix(data, &l->k_b);
    a->mv_b = matrix(data, &l->v_b);
    a->q_a_norm = vector(data, l->q_a_norm);
    a->kv_a_norm = vector(data, l->kv_a_norm);
#endif
    a->router = matrix(data, &l->router);
#if IG_XC
    ig_step_experts(l, mem + IG_VRAM_SLOTS_OFF);
#else
    ig_step_experts(l, data + l->expert_off);
#endif
    a->dense_gate = matrix(data, &l->dense_gate);
    a->dense_up = matrix(data, &l->dense_up);
    a->dense_down = matrix(data, &l->dense_down);
    a->expert_stride = l->expert_stride;
#if IG_XC
    ig_cache_layer(e, &a->xc, layer);
    a->routers = a->routed ? ig_router_blocks(&l->router) : 0;
    guess_router(data, &a->xc.ahead);
    guess_router(data, &a->xc.next);
#endif
}

#if IG_N_LAYER_ENC
void ig_step_enc_norm(void) { ig_step.args.mixer_norm = vector(ig_step.weights, ig_enc_norm); }

void ig_step_cross(const struct ig_engine *e, int layer)
{
    struct ig_args *const a = &ig_step.args;
    const struct ig_layer *l = &ig_layers[layer];
    const unsigned char *data = ig_step.weights;
    a->kv = kv_at(ig_device_mem(e->device), ig_kv_cross(layer));
    a->whole = -1;
    a->rel_bias = NULL;
    a->mixer_norm = vector(data, l->cross_norm);
    a->mq = matrix(data, &l->cross_q);
    a->mk = matrix(data, &l->cross_k);
    a->mv = matrix(data, &l->cross_v);
    a->mo = matrix(data, &l->cross_o);
}
#endif

int ig_router_blocks(const struct ig_mat *m)
{
    return IG_RL_STRIDE / 16 * (ig_is_block(m->fmt) ? 1 : 2);
}

int ig_aside_blocks(void) { return (ig_step.args.aside + IG_QBLOCK - 1) / IG_QBLOCK; }
