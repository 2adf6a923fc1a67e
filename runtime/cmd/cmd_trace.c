/* cmd_trace.c -- which experts a text goes through: trace -f TEXT [-o CSV].
 *
 * Windows of -c tokens, each a turn, run from position 0 as one prefill; the CSV is
 * the one that bench --route, the replay tool and build.lua read.
 */
#include "cmd.h"

#include "config.h"
#include "generate.h"
#include "input.h"
#include "out.h"
#include "progress.h"
#include "stop.h"
#include "tables.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct trace_run {
    int turn;
};

static void routed(void *ctx, int layer, int pos, const int32_t *expert, const float *weight)
{
    const struct trace_run *r = ctx;
    if (ig_layers[layer].ffn != IG_FFN_MOE) return;
    for (int k = 0; k < IG_N_EXPERT_USED; k++)
        ig_outf("%d,0,%d,%d,%d,%d,%.6f,0,%" PRIu64 "\n", r->turn, pos, layer, k, expert[k],
                (double)weight[k], ig_layers[layer].expert_stride);
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

/* Standard output becomes the file. */
static enum ig_err redirect(const char *path, struct ig_why *why)
{
    if (!path) return IG_OK;
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0 || dup2(fd, STDOUT_FILENO) < 0)
        return ig_fail(why, IG_IO, "%s: cannot write: %s", path, strerror(errno));
    close(fd);
    return IG_OK;
}

enum ig_err ig_cmd_trace(const struct ig_opts *o, struct ig_why *why)
{
    struct ig_session s = { NULL, NULL, NULL };
    char *text = NULL;
    int32_t *ids = NULL;
    size_t bytes = 0, n = 0;
    if (IG_N_EXPERT == 0)
        return ig_fail(why, IG_FAIL, "want a model with experts, got a dense one");
    if (IG_N_LAYER_ENC)
        return ig_fail(why, IG_FAIL, "a model with an encoder has no trace of one text");
    if (!o->file) return ig_fail(why, IG_USAGE, "want -f FILE, got none");
    enum ig_err err = ig_input_file(o->file, &text, &bytes, why);
    if (err == IG_OK) err = ig_session_open(&s, o, 1, why);
    if (err == IG_OK) err = ig_tok_encode(s.tok, text, bytes, 0, 0, &ids, &n, why);
    if (err == IG_OK) err = redirect(o->out, why);
    if (err == IG_OK) {
        struct trace_run run = { 0 };
        const struct ig_tap tap = { .ctx = &run, .routed = routed };
        const int most = ig_n_ctx(s.e), batch = o->n_batch ? o->n_batch : IG_N_ROW;
        ig_stop_catch();
        ig_set_tap(s.e, &tap);
        header();
        for (size_t at = 0; at < n; at += (size_t)most, run.turn++) {
            const int len = n - at < (size_t)most ? (int)(n - at) : most;
            if (!window(s.e, ids + at, len, batch)) break;
            ig_progress_count("tokens", at + (size_t)len, n);
        }
        ig_progress_end();
    }
    free(ids);
    free(text);
    ig_session_close(&s);
    return err;
}
