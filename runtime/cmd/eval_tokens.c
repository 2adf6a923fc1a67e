/* eval_tokens.c -- run given ids and write what the pass computed: eval --tokens.
 *
 * Tensors of T positions: logits [T, vocab], hidden.embed, hidden.layerL and
 * hidden.final_norm [T, n_embd], router.layerL.topk_idx and .topk_weight (layers with experts)
 * [T, experts used], the chosen experts by descending weight, equal weights by
 * lower id.  A model with an encoder has enc. in front of its hidden and router names, dec. in
 * front of the decoder's, layers counted in each, and decoder_input_ids; T is then the stack's.
 * With --greedy N: greedy.tokens [N] and greedy.logits [N, vocab], row i being what token i was
 * taken from.
 */
#include "eval.h"

#include "config.h"
#include "tables.h"
#include "dump.h"
#include "temp.h"
#include "generate.h"
#include "input.h"
#include "out.h"
#include "stop.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct input {
    int32_t *ids, *enc; /* what the decoder (or the only stack) reads, what the encoder reads */
    size_t n, n_enc;
};

/* Hidden states by the tap's layer numbers. */
enum { BELOW = -IG_TAP_ENC_NORM, N_HIDDEN = BELOW + IG_N_LAYER + 1 };
enum { N_TENSOR = 3 + N_HIDDEN + 2 * IG_N_LAYER + 2 };

struct capture {
    int n;     /* T */
    int n_enc; /* T of the encoder */
    float *logits;
    float *hidden[N_HIDDEN]; /* at BELOW + layer */
    int32_t *expert[IG_N_LAYER];
    float *weight[IG_N_LAYER];
    int n_greedy;
    int32_t *greedy;
    float *greedy_logits;
    int failed; /* an allocation */
};

static void *room(struct capture *c, size_t rows, size_t cols)
{
    void *p = calloc(rows ? rows : 1, cols * sizeof(float));
    if (!p) c->failed = 1;
    return p;
}

static int is_encoder(int layer)
{
    return layer == IG_TAP_ENC_NORM || layer == IG_TAP_ENC_EMBED ||
           (layer >= 0 && layer < IG_N_LAYER_ENC);
}

static enum ig_err open_capture(struct capture *c, int dump, struct ig_why *why)
{
    const size_t rows = (size_t)c->n, made = (size_t)c->n_greedy;
    c->greedy = room(c, made, 1);
    if (dump) {
        c->logits = room(c, rows, IG_N_VOCAB);
        c->greedy_logits = room(c, made, IG_N_VOCAB);
        for (int i = 0; i < N_HIDDEN; i++)
            c->hidden[i] = room(c, is_encoder(i - BELOW) ? (size_t)c->n_enc : rows, IG_N_EMBD);
        for (int i = 0; i < IG_N_LAYER; i++) {
            c->expert[i] = room(c, is_encoder(i) ? (size_t)c->n_enc : rows, IG_N_EXPERT_USED);
            c->weight[i] = room(c, is_encoder(i) ? (size_t)c->n_enc : rows, IG_N_EXPERT_USED);
        }
    }
    return c->failed ? ig_fail(why, IG_NO_MEM, "no memory to keep %d positions",
                               c->n_enc + c->n + c->n_greedy)
                     : IG_OK;
}

static void close_capture(struct capture *c)
{
    free(c->logits);
    free(c->greedy);
    free(c->greedy_logits);
    for (int i = 0; i < N_HIDDEN; i++) free(c->hidden[i]);
    for (int i = 0; i < IG_N_LAYER; i++) {
        free(c->expert[i]);
        free(c->weight[i]);
    }
}

static void hidden(void *ctx, int layer, int pos, const float *x)
{
    struct capture *c = ctx;
    memcpy(c->hidden[BELOW + layer] + (size_t)pos * IG_N_EMBD, x, IG_N_EMBD * sizeof *x);
}

/* Insertion sort: a handful of experts, nearly always in order already. */
static void routed(void *ctx, int layer, int pos, const int32_t *expert, const float *weight)
{
    struct capture *c = ctx;
    const size_t at = (size_t)pos * IG_N_EXPERT_USED;
    int32_t *id = c->expert[layer] + at;
    float *w = c->weight[layer] + at;
    for (int i = 0; i < IG_N_EXPERT_USED; i++) {
        int j = i;
        while (j > 0 &&
               (w[j - 1] < weight[i] || (!(w[j - 1] > weight[i]) && id[j - 1] > expert[i]))) {
            id[j] = id[j - 1];
            w[j] = w[j - 1];
            j--;
        }
        id[j] = expert[i];
        w[j] = weight[i];
    }
}

static void take(void *ctx, int pos, const float *logits)
{
    struct capture *c = ctx;
    if (c->logits)
        memcpy(c->logits + (size_t)pos * IG_N_VOCAB, logits, IG_N_VOCAB * sizeof *logits);
    if (pos == c->n - 1 && c->n_greedy > 0) {
        c->greedy[0] = ig_gen_argmax(logits);
        if (c->greedy_logits) memcpy(c->greedy_logits, logits, IG_N_VOCAB * sizeof *logits);
    }
}

/* Tokens 1 .. n_greedy - 1, each from the one before; take() made token 0. */
static int continue_greedily(struct ig_engine *e, struct capture *c)
{
    static const int32_t seq = 0;
    static const uint8_t want = 1;
    for (int i = 1; i < c->n_greedy; i++) {
        const int32_t pos = c->n + i - 1;
        const struct ig_batch b = { 1, &c->greedy[i - 1], &pos, &seq, &want };
        if (ig_stop_signal()) return 0;
        ig_forward(e, &b);
        const float *logits = ig_logits(e, 0);
        c->greedy[i] = ig_gen_argmax(logits);
        if (c->greedy_logits)
            memcpy(c->greedy_logits + (size_t)i * IG_N_VOCAB, logits, IG_N_VOCAB * sizeof *logits);
    }
    return 1;
}

/* Append [rows, cols], or [rows] for cols 0. */
static void list(struct ig_array *t, int *n, int is_int, int rows, int cols, const void *data,
                 const char *name)
{
    struct ig_array *x = &t[(*n)++];
    snprintf(x->name, sizeof x->name, "%s", name);
    x->is_int = is_int;
    x->n_dim = cols > 0 ? 2 : 1;
    x->dim[0] = (uint64_t)rows;
    x->dim[1] = (uint64_t)cols;
    x->data = data;
}

/* Hidden states and router choices of the layers [lo, hi), which are a stack's, between its
 * embeddings and its final norm. */
static void list_stack(struct ig_array *t, int *n, const struct capture *c, int lo, int hi)
{
    const int enc = is_encoder(lo), rows = enc ? c->n_enc : c->n;
    const char *const of = enc ? "enc." : IG_N_LAYER_ENC ? "dec." : "";
    char name[48];
    snprintf(name, sizeof name, "%shidden.embed", of);
    list(t, n, 0, rows, IG_N_EMBD, c->hidden[BELOW + (enc ? IG_TAP_ENC_EMBED : IG_TAP_EMBED)],
         name);
    for (int i = lo; i < hi; i++) {
        snprintf(name, sizeof name, "%shidden.layer%d", of, i - lo);
        list(t, n, 0, rows, IG_N_EMBD, c->hidden[BELOW + i], name);
    }
    snprintf(name, sizeof name, "%shidden.final_norm", of);
    list(t, n, 0, rows, IG_N_EMBD, c->hidden[BELOW + (enc ? IG_TAP_ENC_NORM : IG_N_LAYER)], name);
    for (int i = lo; i < hi; i++) {
        if (ig_layers[i].ffn != IG_FFN_MOE) continue;
        snprintf(name, sizeof name, "%srouter.layer%d.topk_idx", of, i - lo);
        list(t, n, 1, rows, IG_N_EXPERT_USED, c->expert[i], name);
        snprintf(name, sizeof name, "%srouter.layer%d.topk_weight", of, i - lo);
        list(t, n, 0, rows, IG_N_EXPERT_USED, c->weight[i], name);
    }
}

static enum ig_err write_capture(const struct capture *c, const struct input *in, const char *path,
                                 struct ig_why *why)
{
    static struct ig_array t[N_TENSOR];
    int n = 0;
    if (IG_N_LAYER_ENC) list(t, &n, 1, c->n_enc, 0, in->enc, "input_ids");
    list(t, &n, 1, c->n, 0, in->ids, IG_N_LAYER_ENC ? "decoder_input_ids" : "input_ids");
    list(t, &n, 0, c->n, IG_N_VOCAB, c->logits, "logits");
    if (IG_N_LAYER_ENC) list_stack(t, &n, c, 0, IG_N_LAYER_ENC);
    list_stack(t, &n, c, IG_N_LAYER_ENC, IG_N_LAYER);
    if (c->n_greedy > 0) {
        list(t, &n, 1, c->n_greedy, 0, c->greedy, "greedy.tokens");
        list(t, &n, 0, c->n_greedy, IG_N_VOCAB, c->greedy_logits, "greedy.logits");
    }
    return ig_dump_write(path, t, n, why);
}

static void print_greedy(const struct capture *c, int format)
{
    if (format == IG_JSON) {
        json_t *j = json_pack("{s:i, s:[]}", "tokens", c->n, "greedy");
        for (int i = 0; i < c->n_greedy; i++)
            json_array_append_new(json_object_get(j, "greedy"), json_integer(c->greedy[i]));
        ig_out_json(j);
        return;
    }
    for (int i = 0; i < c->n_greedy; i++) ig_outf("%s%d", i ? "," : "", c->greedy[i]);
    if (c->n_greedy > 0) ig_out("\n", 1);
}

static enum ig_err check_length(struct ig_engine *e, const struct input *in, int n_greedy,
                                struct ig_why *why)
{
    const size_t more = n_greedy > 0 ? (size_t)n_greedy - 1 : 0, most = (size_t)ig_n_ctx(e);
    const size_t n = in->n;
    if (n == 0 || (IG_N_LAYER_ENC && in->n_enc == 0))
        return ig_fail(why, IG_USAGE, "%s: want token ids, got none",
                       in->n_enc ? "--decoder-tokens" : "--tokens");
    if (in->n_enc > most)
        return ig_fail(why, IG_FAIL, "--tokens: %zu tokens, the context has %zu positions",
                       in->n_enc, most);
    if (n > most || more > most - n)
        return ig_fail(why, IG_FAIL,
                       "%zu tokens and %zu more need %zu positions, the context has %zu", n, more,
                       n + more, most);
    return IG_OK;
}

static enum ig_err read_input(struct input *in, const struct ig_opts *o, struct ig_why *why)
{
    char start[16];
    if (!IG_N_LAYER_ENC)
        return ig_input_ids("--tokens", o->tokens, IG_N_VOCAB, &in->ids, &in->n, why);
    snprintf(start, sizeof start, "%d", IG_START_TOKEN);
    const enum ig_err err =
        ig_input_ids("--tokens", o->tokens, IG_N_VOCAB, &in->enc, &in->n_enc, why);
    return err ? err
               : ig_input_ids("--decoder-tokens", o->decoder_tokens ? o->decoder_tokens : start,
                              IG_N_VOCAB, &in->ids, &in->n, why);
}

enum ig_err ig_eval_tokens(struct ig_engine *e, const struct ig_opts *o, int batch,
                           struct ig_why *why)
{
    struct input in = { 0 };
    struct capture c = { .n_greedy = o->greedy > 0 ? o->greedy : 0 };
    const struct ig_tap tap = { .ctx = &c, .hidden = hidden, .routed = routed };
    const struct ig_eval_to to = { &c, take };

    enum ig_err err = read_input(&in, o, why);
    if (err == IG_OK) err = check_length(e, &in, c.n_greedy, why);
    if (err == IG_OK && o->dump) err = ig_temp_check(o->dump, why);
    if (err == IG_OK) {
        c.n = (int)in.n;
        c.n_enc = (int)in.n_enc;
        err = open_capture(&c, o->dump != NULL, why);
    }
    if (err == IG_OK) {
        if (o->dump) ig_set_tap(e, &tap);
        ig_set_length(e, c.n + c.n_greedy);
        if (IG_N_LAYER_ENC) ig_encode(e, in.enc, c.n_enc, batch);
        int whole = ig_eval_rows(e, in.ids, c.n, batch, &to);
        ig_set_tap(e, NULL);
        whole = whole && continue_greedily(e, &c);
        if (whole && o->dump) err = write_capture(&c, &in, o->dump, why);
        if (whole && o->dump && err == IG_OK) ig_note_written(o->dump, "");
        if (whole && err == IG_OK) print_greedy(&c, o->format);
    }
    close_capture(&c);
    free(in.ids);
    free(in.enc);
    return err;
}
