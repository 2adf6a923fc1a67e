/* cmd_trace.c -- which experts a text goes through: trace -f TEXT [-o CSV].
 *
 * Windows of -c tokens, each a turn, run from position 0 as one prefill; the CSV is
 * the one that bench --route, the replay tool and build.lua read.  They read -o NAME.trace too,
 * which also has the token ids and next-router's predictions.
 */
#include "cmd.h"

#include "config.h"
#include "temp.h"
#include "generate.h"
#include "input.h"
#include "out.h"
#include "progress.h"
#include "stop.h"
#include "tables.h"
#include "trace_bin.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct trace_run {
    int turn;
    uint32_t first; /* row of the turn's start */
    struct ig_engine *e;
    struct ig_trace_bin *bin; /* NULL: a CSV */
};

static void routed(void *ctx, int layer, int pos, const int32_t *expert, const float *weight)
{
    const struct trace_run *r = ctx;
    if (ig_layers[layer].ffn != IG_FFN_MOE) return;
    if (r->bin) {
        ig_trace_bin_routed(r->bin, layer, r->first + (uint32_t)pos, expert, weight);
        return;
    }
    for (int k = 0; k < IG_N_EXPERT_USED; k++)
        ig_outf("%d,0,%d,%d,%d,%d,%.6f,0,%" PRIu64 "\n", r->turn, pos, layer, k, expert[k],
                (double)weight[k], ig_layers[layer].expert_stride);
}

static void router_in(void *ctx, int layer, int pos, const float *x, const float *norm)
{
    const struct trace_run *r = ctx;
    ig_trace_bin_router_in(r->bin, r->e, layer, r->first + (uint32_t)pos, x, norm);
}

static void header(void)
{
    ig_outf("# route_trace v1\n# model=%s arch=ingot n_layer=%d n_expert=%d n_expert_used=%d\n",
            IG_MODEL_ID, IG_N_LAYER, IG_N_EXPERT, IG_N_EXPERT_USED);
    for (int l = 0; l < IG_N_LAYER; l++)
        ig_outf("# layer=%d expert_bytes=%" PRIu64 " dense_bytes=0\n", l,
                ig_layers[l].expert_stride);
    ig_outf("turn,phase,step,layer,slot,expert,weight,residency,expert_bytes\n");
}

/* One window in batches; 0 when a signal or a closed output ended it. */
static int window(struct ig_engine *e, const int32_t *ids, int n, int batch)
{
    static int32_t pos[IG_N_ROW], seq[IG_N_ROW];
    static uint8_t want[IG_N_ROW];
    for (int at = 0; at < n; at += batch) {
        const int rows = n - at < batch ? n - at : batch;
        for (int i = 0; i < rows; i++) pos[i] = at + i;
        const struct ig_batch b = { rows, ids + at, pos, seq, want };
        ig_forward(e, &b);
        if (ig_out_flush() != 0 || ig_stop_signal()) return 0;
    }
    return 1;
}

/* All windows; 0 when the run ended early. */
static int windows(struct trace_run *run, const int32_t *ids, size_t n, int batch)
{
    const struct ig_tap tap = { .ctx = run,
                                .routed = routed,
                                .router_in = run->bin ? router_in : NULL };
    const size_t most = (size_t)ig_n_ctx(run->e);
    int whole = 1;
    ig_stop_catch();
    ig_set_tap(run->e, &tap);
    for (size_t at = 0; whole && at < n; at += most, run->turn++) {
        const int len = n - at < most ? (int)(n - at) : (int)most;
        run->first = (uint32_t)at;
        whole = window(run->e, ids + at, len, batch);
        ig_progress_count("tokens", at + (size_t)len, n);
    }
    ig_progress_end();
    return whole;
}

static enum ig_err interrupted(const char *path, struct ig_why *why)
{
    return ig_fail(why, IG_FAIL, "%s: not written: the run was interrupted", path);
}

/* To standard output, which is the file when there is one. */
static enum ig_err csv(struct trace_run *run, const struct ig_opts *o, const int32_t *ids, size_t n,
                       int batch, struct ig_why *why)
{
    struct ig_temp to = { .fd = -1 };
    enum ig_err err = o->out ? ig_temp_open(&to, o->out, 0666, why) : IG_OK;
    if (err == IG_OK && o->out && dup2(to.fd, STDOUT_FILENO) < 0)
        err = ig_fail(why, IG_IO, "%s: cannot write: %s", o->out, strerror(errno));
    if (err == IG_OK) {
        header();
        const int whole = windows(run, ids, n, batch), bad = ig_out_flush();
        if (o->out && bad)
            err = ig_fail(why, IG_IO, "%s: cannot write: %s", o->out, strerror(bad));
        else if (o->out && !whole)
            err = interrupted(o->out, why);
    }
    if (err == IG_OK && o->out) return ig_temp_keep(&to, why);
    ig_temp_drop(&to);
    return err;
}

static void say_written(const struct ig_opts *o, const struct trace_run *run, size_t n)
{
    char more[64];
    snprintf(more, sizeof more, "; %zu tokens in %d windows", n, run->turn);
    if (o->out) ig_note_written(o->out, more);
    if (o->hidden) ig_note_written(o->hidden, "");
}

static enum ig_err binary(struct trace_run *run, const struct ig_opts *o, const int32_t *ids,
                          size_t n, int batch, struct ig_why *why)
{
    struct ig_trace_bin bin;
    if (n < 1 || n > UINT32_MAX / 2)
        return ig_fail(why, IG_FAIL, "%s: want 1 token or more, got %zu", o->file, n);
    enum ig_err err =
        ig_trace_bin_open(&bin, (uint32_t)n, (uint32_t)ig_n_ctx(run->e), o->out, o->hidden, why);
    run->bin = &bin;
    if (err == IG_OK && !windows(run, ids, n, batch)) err = interrupted(o->out, why);
    if (err == IG_OK) err = ig_trace_bin_write(&bin, ids, why);
    ig_trace_bin_close(&bin);
    return err;
}

static enum ig_err check(const struct ig_opts *o, int bin, struct ig_why *why)
{
    if (IG_N_EXPERT == 0)
        return ig_fail(why, IG_FAIL, "want a model with experts, got a dense one");
    if (IG_N_LAYER_ENC)
        return ig_fail(why, IG_FAIL, "a model with an encoder has no trace of one text");
    if (!o->file) return ig_fail(why, IG_USAGE, "want -f FILE, got none");
    if (o->hidden && !bin)
        return ig_fail(why, IG_USAGE, "--hidden: want -o NAME.trace beside it, got %s",
                       o->out ? o->out : "none");
    if (o->hidden && ig_file_same(o->out, o->hidden))
        return ig_fail(why, IG_USAGE, "%s: want two outputs, got the same file twice", o->out);
    const enum ig_err err = ig_session_out(o, o->out, why);
    return err ? err : ig_session_out(o, o->hidden, why);
}

enum ig_err ig_cmd_trace(const struct ig_opts *o, struct ig_why *why)
{
    static const char suffix[] = ".trace";
    const size_t len = o->out ? strlen(o->out) : 0, end = sizeof suffix - 1;
    const int bin = len > end && strcmp(o->out + len - end, suffix) == 0;
    struct ig_session s = { 0 };
    char *text = NULL;
    int32_t *ids = NULL;
    size_t bytes = 0, n = 0;
    enum ig_err err = check(o, bin, why);
    if (err == IG_OK) err = ig_input_file(o->file, &text, &bytes, why);
    if (err == IG_OK) err = ig_session_open(&s, o, 1, why);
    if (err == IG_OK) err = ig_tok_encode(s.tok, text, bytes, 0, 0, &ids, &n, why);
    if (err == IG_OK) {
        struct trace_run run = { .e = s.e };
        const int batch = o->n_batch ? o->n_batch : IG_N_ROW;
        err = (bin ? binary : csv)(&run, o, ids, n, batch, why);
        if (err == IG_OK) say_written(o, &run, n);
    }
    free(ids);
    free(text);
    ig_session_close(&s);
    return err;
}
