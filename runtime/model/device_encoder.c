/* device_encoder.c -- an encoder on a device: as encoder.c, batch after batch of the input's rows.
 *
 * The rows of the input have places of their own: the residual stream in ENC, their tokens and
 * positions in INPUT, behind the number of them that the decoder's attention reads.
 */
#include "device_int.h"

#include <string.h>

#if IG_N_LAYER_ENC

/* Rows [at, at + batch) of the input are what kernels work on, and taps are shown, from now on. */
static void turn_to(struct ig_engine *e, const struct ig_enc_input *in, int at)
{
    unsigned char *const mem = ig_device_mem(e->device);
    int32_t *const token = (int32_t *)(void *)(mem + IG_VRAM_INPUT_OFF) + 1 + at;
    struct ig_args *const a = &ig_step.args;

    ig_enc_rows(e, in, at);
    a->n = e->batch->n;
    a->n_want = 0;
    a->row.token = token;
    a->row.pos = token + IG_N_CTX;
    a->row.seq = token + 2 * IG_N_CTX;
    a->row.turn = token + 3 * IG_N_CTX;
    a->x = (float *)(void *)(mem + IG_VRAM_ENC_OFF) + (size_t)at * IG_N_EMBD;
}

static void embed(struct ig_engine *e, const struct ig_enc_input *in)
{
    for (int at = 0; at < in->n; at += in->batch) {
        turn_to(e, in, at);
        ig_device_wait(e->device); /* it has taken what stands in the host's memory */
        ig_step_hand_over(e, 0, e->batch->n);
        ig_step.args.whole = in->n;
        ig_batch_embed(e);
        ig_step_show(e, IG_TAP_ENC_EMBED);
    }
}

static void layer_of(struct ig_engine *e, const struct ig_enc_input *in, int layer)
{
    ig_step_layer(e, layer);
#if IG_XC
    ig_step_experts(&ig_layers[layer], ig_stream_layer(e, layer));
#endif
    ig_step.args.whole = in->n;
    for (int at = 0; at < in->n; at += in->batch) {
        turn_to(e, in, at);
        ig_batch_norm(e, 0);
        ig_batch_project(e, IG_OF_KV);
        ig_batch_store(e);
    }
    for (int at = 0; at < in->n; at += in->batch) {
        turn_to(e, in, at);
        ig_batch_norm(e, 0);
        ig_batch_project(e, IG_OF_Q);
        ig_batch_attend(e);
        ig_batch_ffn(e, &ig_layers[layer]);
        ig_step_show(e, layer);
    }
#if IG_XC
    ig_stream_next(e, layer);
#endif
}

/* The rows' last norm, to a tap. */
static void show_norm(struct ig_engine *e)
{
    const int n = ig_step.args.n;
    if (!e->tap.hidden) return;
    ig_device_get(e->device, ig_step.shared->hidden, ig_step.args.xn,
                  sizeof(float) * (size_t)n * IG_N_EMBD);
    ig_device_wait(e->device);
    for (int t = 0; t < n; t++)
        e->tap.hidden(e->tap.ctx, IG_TAP_ENC_NORM, e->batch->pos[t],
                      ig_step.shared->hidden + (size_t)t * IG_N_EMBD);
}

/* Keys and values of the encoder's output, for every layer of the decoder. */
static void output_of(struct ig_engine *e, const struct ig_enc_input *in)
{
    for (int at = 0; at < in->n; at += in->batch) {
        turn_to(e, in, at);
        ig_step_enc_norm();
        ig_batch_norm(e, 0);
        show_norm(e);
        for (int layer = IG_N_LAYER_ENC; layer < IG_N_LAYER; layer++) {
            ig_step_cross(e, layer);
            ig_batch_project(e, IG_OF_KV);
            ig_batch_store(e);
        }
    }
}

void ig_step_encode(struct ig_engine *e, const int32_t *ids, int n, int batch)
{
    const struct ig_enc_input in = { ids, n, batch };
    const struct ig_rows row = ig_step.args.row;
    float *const x = ig_step.args.x;
    ig_step.shown_row = 0;
    embed(e, &in);
#if IG_XC
    ig_stream_begin(e, 0, IG_N_LAYER_ENC);
#endif
    for (int layer = 0; layer < IG_N_LAYER_ENC; layer++) layer_of(e, &in, layer);
#if IG_XC
    ig_stream_end(e);
#endif
    output_of(e, &in);
    ig_step.args.row = row;
    ig_step.args.x = x;
    ig_device_wait(e->device);
}

void ig_step_bias(struct ig_engine *e, float *to)
{
    static float tables[2][IG_N_REL_BUCKET * IG_N_HEAD];
    const float *const table[2] = { tables[0], tables[1] };
    for (int stack = 0; stack < 2; stack++) {
        const uint64_t off = ig_layers[stack * IG_N_LAYER_ENC].rel_bias;
        if (e->mapped)
            memcpy(tables[stack], e->mapped + off, sizeof tables[stack]);
        else
            ig_device_get(e->device, tables[stack], ig_step.weights + off, sizeof tables[stack]);
    }
    ig_device_wait(e->device);
    ig_fill_bias(to, table);
}

#endif
