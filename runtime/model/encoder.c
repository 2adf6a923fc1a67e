/* encoder.c -- models of two stacks: the encoder's pass over the input, and what the decoder sees
 * of it.
 *
 * Every position of the input sees every other one, so a layer's keys and values come first, for
 * all of it, and the rest of the layer then, both in batches of rows.  The stream of the whole
 * input lies in ENC.  At the end each layer of the decoder gets its own keys and values of the
 * encoder's output, which stay in the KV cache until the next input.
 */
#include "state.h"
#include "device_step.h"

#include <omp.h>

#if IG_N_LAYER_ENC

void ig_enc_rows(struct ig_engine *e, const struct ig_enc_input *in, int at)
{
    static int32_t pos[IG_N_ROW], seq[IG_N_ROW]; /* seq stays 0 */
    static struct ig_batch b;
    const int n = in->n - at < in->batch ? in->n - at : in->batch;
    for (int i = 0; i < n; i++) pos[i] = at + i;
    b = (struct ig_batch){ n, in->ids + at, pos, seq, NULL };
    e->batch = &b;
}

/* The rows that the phases of forward.c work on, [at, at + batch) of the input. */
static void turn_to(struct ig_worker *w, const struct ig_enc_input *in, int at)
{
    struct ig_engine *e = w->e;

    ig_team_wait(&e->team);
    if (w->tid == 0) {
        ig_enc_rows(e, in, at);
        e->x = IG_BUF(e, ENC, float) + (size_t)at * IG_N_EMBD;
    }
    ig_team_wait(&e->team);
}

static void layer_of(struct ig_worker *w, const struct ig_enc_input *in, int layer)
{
    struct ig_engine *e = w->e;
    const struct ig_layer *l = &ig_layers[layer];
    const struct ig_reach reach = { .place = ig_kv_self(layer),
                                    .whole = in->n,
                                    .bias = ig_rel_bias(e, 0),
                                    .out = IG_BUF(e, AO, float),
                                    .to_blocks = IG_HEADS_TO_BLOCKS && ig_is_block(l->o.fmt) };

    for (int at = 0; at < in->n; at += in->batch) {
        turn_to(w, in, at);
        ig_norm_rows(w, l->mixer_norm, 0);
        ig_project(w, NULL, &l->k, &l->v);
        ig_team_wait(&e->team);
        ig_store(w, l, reach.place);
    }
    for (int at = 0; at < in->n; at += in->batch) {
        turn_to(w, in, at);
        ig_norm_rows(w, l->mixer_norm, 0);
        ig_project(w, &l->q, NULL, NULL);
        ig_team_wait(&e->team);
        ig_attend(w, &reach);
        ig_attn_output(w, &l->o);
        ig_team_wait(&e->team);
        ig_norm_rows(w, l->ffn_norm, 0);
        ig_moe(w, layer);
        ig_team_wait(&e->team);
        ig_show(w, layer);
    }
}

/* Keys and values of the encoder's output, for every layer of the decoder. */
static void output_of(struct ig_worker *w, const struct ig_enc_input *in)
{
    struct ig_engine *e = w->e;
    for (int at = 0; at < in->n; at += in->batch) {
        turn_to(w, in, at);
        ig_norm_rows(w, ig_enc_norm, 0);
        if (w->tid == 0 && e->tap.hidden)
            for (int t = 0; t < e->batch->n; t++)
                e->tap.hidden(e->tap.ctx, IG_TAP_ENC_NORM, at + t, ig_xn(e, t));
        for (int layer = IG_N_LAYER_ENC; layer < IG_N_LAYER; layer++) {
            const struct ig_layer *l = &ig_layers[layer];
            ig_project(w, NULL, &l->cross_k, &l->cross_v);
            ig_team_wait(&e->team);
            ig_store(w, l, ig_kv_cross(layer));
            ig_team_wait(&e->team);
        }
    }
}

static void run(struct ig_engine *e, const struct ig_enc_input *in, int tid)
{
    struct ig_worker w = ig_worker(e, tid);
    for (int at = 0; at < in->n; at += in->batch) {
        turn_to(&w, in, at);
        if (tid == 0) ig_tier_batch(e);
        ig_embed(&w);
        ig_show(&w, IG_TAP_ENC_EMBED);
    }
    for (int layer = 0; layer < IG_N_LAYER_ENC; layer++) layer_of(&w, in, layer);
    output_of(&w, in);
}

void ig_encode(struct ig_engine *e, const int32_t *ids, int n, int batch)
{
    const struct ig_enc_input in = { ids, n, batch };
    IG_ASSERT(n > 0 && n <= e->n_ctx && batch > 0 && batch <= IG_N_ROW);
    for (int i = 0; i < n; i++) IG_ASSERT(ids[i] >= 0 && ids[i] < IG_N_VOCAB);
    e->n_enc = n;
#if IG_DEVICE
    if (e->device) {
        ig_step_encode(e, ids, n, batch);
        return;
    }
#endif
#pragma omp parallel num_threads(e->team.n)
    run(e, &in, omp_get_thread_num());
}

/* The decoder's attention to the encoder's output: normed rows in, residual stream updated. */
void ig_cross(struct ig_worker *w, int layer)
{
    struct ig_engine *e = w->e;
    const struct ig_layer *l = &ig_layers[layer];
    const struct ig_reach reach = { .place = ig_kv_cross(layer),
                                    .whole = e->n_enc,
                                    .out = IG_BUF(e, AO, float),
                                    .to_blocks =
                                        IG_HEADS_TO_BLOCKS && ig_is_block(l->cross_o.fmt) };

    ig_project(w, &l->cross_q, NULL, NULL);
    ig_team_wait(&e->team);
    ig_attend(w, &reach);
    ig_attn_output(w, &l->cross_o);
}

/* What a key at `at` positions from the query falls into; a decoder has no keys behind it. */
static int bucket(int stack, int at)
{
    const int d = at < 0 ? -at : stack == 0 ? at : 0;
    const int b = ig_rel_bucket[stack][d < IG_REL_DISTANCE ? d : IG_REL_DISTANCE];
    return at > 0 && stack == 0 ? b + IG_N_REL_BUCKET / 2 : b;
}

void ig_fill_bias(float *to, const float *const *table)
{
    for (int stack = 0; stack < 2; stack++)
        for (int head = 0; head < IG_N_HEAD; head++, to += IG_BIAS_STRIDE)
            for (int i = 0; i < IG_BIAS_STRIDE; i++)
                to[i] = table[stack][bucket(stack, i - IG_N_CTX) * IG_N_HEAD + head];
}

#else

void ig_encode(struct ig_engine *e, const int32_t *ids, int n, int batch)
{
    (void)e, (void)ids, (void)n, (void)batch;
}

#endif
