/* cmd_eval.c -- perplexity of a text: eval.
 *
 * Windows of -c tokens run alone from position 0; a window's first token has
 * nothing before it and is not predicted.  No special tokens are added.
 */
#include "cmd.h"

#include "config.h"
#include "eval.h"
#include "generate.h"
#include "input.h"
#include "machine.h"
#include "out.h"
#include "progress.h"
#include "stop.h"

#include <math.h>
#include <stdlib.h>

enum { WINDOW = 512 }; /* the usual window of published perplexities */

struct tally {
    const int32_t *ids; /* of the window */
    double nll;         /* nats, of the tokens of whole windows */
    double window_nll;
    int predicted, windows, batch;
    double seconds;
};

/* -log softmax(logits)[id] */
static double nll(const float *logits, int32_t id)
{
    const float max = logits[ig_gen_argmax(logits)];
    double sum = 0;
    for (int i = 0; i < IG_N_VOCAB; i++) sum += (double)expf(logits[i] - max);
    return log(sum) - (double)(logits[id] - max);
}

static void take(void *ctx, int pos, const float *logits)
{
    struct tally *t = ctx;
    t->window_nll += nll(logits, t->ids[pos + 1]);
}

/* Whole windows only: what a signal cuts off does not count. */
static void measure(struct ig_engine *e, const int32_t *ids, int n, int window, struct tally *t)
{
    const struct ig_eval_to to = { t, take };
    const double t0 = ig_seconds();
    for (int at = 0; at < n; at += window) {
        const int len = n - at < window ? n - at : window;
        t->ids = ids + at;
        t->window_nll = 0;
        if (!ig_eval_rows(e, t->ids, len - 1, t->batch, &to)) break;
        t->nll += t->window_nll;
        t->predicted += len - 1;
        t->windows++;
        ig_progress_count("tokens", (uint64_t)(at + len), (uint64_t)n);
    }
    ig_progress_end();
    t->seconds = ig_seconds() - t0;
}

static void report(const struct ig_opts *o, const struct tally *t, size_t bytes, int n, int window)
{
    const double mean = t->nll / t->predicted;
    const int whole = t->predicted + t->windows == n;
    if (!whole)
        ig_note("interrupted: %d of %d windows were measured", t->windows,
                (n + window - 1) / window);
    if (o->format == IG_JSON) {
        json_t *j =
            json_pack("{s:s, s:s, s:s, s:I, s:i, s:i, s:i, s:i, s:f, s:f, s:b, s:i, s:f}", "model",
                      IG_MODEL_ID, "hw", IG_HW_ID, "plan", IG_PLAN_HASH, "bytes", (json_int_t)bytes,
                      "tokens", n, "window", window, "windows", t->windows, "predicted_tokens",
                      t->predicted, "mean_nll", mean, "perplexity", exp(mean), "complete", whole,
                      "batch", t->batch, "seconds", t->seconds);
        if (whole)
            json_object_set_new(j, "bits_per_byte", json_real(t->nll / log(2) / (double)bytes));
        ig_out_json(j);
        return;
    }
    ig_outf("perplexity %.4f, mean NLL %.6f nats over %d token%s in %d window%s of %d\n", exp(mean),
            mean, t->predicted, IG_S(t->predicted), t->windows, IG_S(t->windows), window);
    ig_note("%.1f s, %.0f tokens/s, batches of %d", t->seconds, t->predicted / t->seconds,
            t->batch);
}

static enum ig_err perplexity(const struct ig_session *s, const struct ig_opts *o, int batch,
                              struct ig_why *why)
{
    const int most = ig_n_ctx(s->e), window = o->n_ctx || most < WINDOW ? most : WINDOW;
    char *text = NULL;
    int32_t *ids = NULL;
    size_t bytes = 0, n = 0;
    enum ig_err err = ig_input_file(o->file, &text, &bytes, why);
    if (err == IG_OK) err = ig_tok_encode(s->tok, text, bytes, 0, 0, &ids, &n, why);
    if (err == IG_OK && (n < 2 || n > INT32_MAX))
        err =
            ig_fail(why, IG_FAIL, "%s: want 2 tokens or more to predict one, got %zu", o->file, n);
    if (err == IG_OK) {
        struct tally t = { .batch = batch };
        ig_set_length(s->e, window);
        measure(s->e, ids, (int)n, window, &t);
        if (t.predicted > 0 && !isfinite(exp(t.nll / t.predicted)))
            err = ig_fail(why, IG_FAIL,
                          "%s: want a finite perplexity, got %g: are the weights whole?", o->file,
                          exp(t.nll / t.predicted));
        else if (t.predicted > 0)
            report(o, &t, bytes, (int)n, window);
    }
    free(ids);
    free(text);
    return err;
}

enum ig_err ig_cmd_eval(const struct ig_opts *o, struct ig_why *why)
{
    const int row = IG_N_LOGIT_ROW < IG_N_ROW ? IG_N_LOGIT_ROW : IG_N_ROW;
    const int batch = o->n_batch ? o->n_batch : row;
    struct ig_session s;
    if (!o->file == !o->tokens)
        return ig_fail(why, IG_USAGE, "want -f FILE or --tokens IDS, got %s",
                       o->file ? "both" : "neither");
    if (o->file && IG_N_LAYER_ENC)
        return ig_fail(why, IG_USAGE,
                       "-f: want --tokens IDS: a model with an encoder has no "
                       "perplexity of one text");
    if (o->file && (o->dump || o->greedy >= 0))
        return ig_fail(why, IG_USAGE, "%s: want --tokens IDS with it, got -f",
                       o->dump ? "--dump" : "--greedy");
    if (o->tokens && !o->dump && o->greedy < 0)
        return ig_fail(why, IG_USAGE, "--tokens: want --dump FILE or --greedy N with it");
    if (o->n_ctx == 1)
        return ig_fail(why, IG_USAGE, "-c: want a window of 2 tokens or more, got \"1\"");
    enum ig_err err = ig_session_out(o, o->dump, why);
    if (err == IG_OK) err = ig_session_open(&s, o, o->file != NULL, why);
    if (err != IG_OK) return err;
    ig_stop_catch();
    err = o->file ? perplexity(&s, o, batch, why) : ig_eval_tokens(s.e, o, batch, why);
    ig_session_close(&s);
    return err;
}
