/* session.c -- from the command line to an open engine: which weights, which tokenizer. */
#include "session.h"

#include "config.h"
#include "file.h"
#include "out.h"
#include "progress.h"
#include "tier_stats.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum ig_err ig_session_weights(const struct ig_opts *o, const char **path, struct ig_why *why)
{
    static char beside[IG_PATH];
    *path = o->model;
    if (o->model) return IG_OK;
    int found;
    const enum ig_err err = ig_wfile_embedded(&found, why);
    if (found || err == IG_BAD_FILE) return err;

    const ssize_t n = readlink("/proc/self/exe", beside, sizeof beside);
    char *slash = NULL;
    if (n > 0 && (size_t)n < sizeof beside) {
        beside[n] = 0;
        slash = strrchr(beside, '/');
    }
    if (!slash) snprintf(beside, sizeof beside, "./"), slash = beside + 1;
    const size_t room = sizeof beside - (size_t)(slash + 1 - beside);
    const int m = snprintf(slash + 1, room, "%s.ingot", IG_MODEL_ID);
    if (m > 0 && (size_t)m < room && access(beside, F_OK) == 0) {
        *path = beside;
        return IG_OK;
    }
    if (err != IG_OK) return err; /* an executable that cannot be read */
    return ig_fail(why, IG_FAIL,
                   "no weights: want -m FILE, weights inside this program, or a file %s; make one "
                   "from a checkpoint with: pack CHECKPOINT -o FILE",
                   beside);
}

enum ig_err ig_session_out(const struct ig_opts *o, const char *out, struct ig_why *why)
{
    struct ig_why none;
    const char *weights;
    if (!out || access(out, F_OK) != 0) return IG_OK;
    const char *same = ig_file_same("/proc/self/exe", out)     ? "the running program"
                       : o->file && ig_file_same(o->file, out) ? "the text"
                                                               : NULL;
    if (!same && ig_session_weights(o, &weights, &none) == IG_OK && weights &&
        ig_file_same(weights, out))
        same = "the weights file";
    if (!same) return IG_OK;
    return ig_fail(why, IG_USAGE, "%s: want another name: this is %s", out, same);
}

static enum ig_err load_tokenizer(struct ig_session *s, const struct ig_wfile *f,
                                  struct ig_why *why)
{
    size_t bytes = 0;
    if (f->h.tokenizer.bytes == 0)
        return ig_fail(
            why, IG_FAIL,
            "the weights file has no tokenizer (random weights have none; of a checkpoint "
            "without one, pack --tokenizer SRC takes another's): only bench, info and eval "
            "--tokens can use it");
    enum ig_err err = ig_wfile_tokenizer(f, &s->blob, &bytes, why);
    if (err == IG_OK) err = ig_tok_load(&s->tok, s->blob, bytes, IG_N_VOCAB, why);
    return err;
}

enum ig_err ig_session_open(struct ig_session *s, const struct ig_opts *o, int tokenizer,
                            struct ig_why *why)
{
    struct ig_open open = { .threads = o->threads,
                            .n_ctx = o->n_ctx,
                            .verify = 1,
                            .progress = ig_progress_bytes,
                            .settle = o->settle,
                            .unpinned = 100 - o->pin,
                            .link_share = o->link_share + 1,
                            .behind = o->behind + 1,
                            .ahead = o->ahead + 1,
                            .vram = o->vram.value,
                            .link_bw = o->link_bw.value };
    *s = (struct ig_session){ .stats = o->stats };
    enum ig_err err = ig_session_weights(o, &open.weights, why);
    if (err == IG_OK) err = ig_engine_open(&s->e, &open, why);
    ig_progress_end();
    if (err == IG_OK && tokenizer) err = load_tokenizer(s, ig_weights(s->e), why);
    if (err != IG_OK) {
        ig_session_close(s);
        return err;
    }
    for (int i = 0; i < ig_n_downgrade(s->e); i++) ig_note("downgrade: %s", ig_downgrade(s->e, i));
    return IG_OK;
}

enum ig_err ig_session_tokenizer(struct ig_session *s, const struct ig_opts *o, struct ig_why *why)
{
    struct ig_wfile f;
    const char *path;
    *s = (struct ig_session){ 0 };
    enum ig_err err = ig_session_weights(o, &path, why);
    if (err == IG_OK) err = ig_wfile_open(&f, path, IG_LAYOUT_HASH, why);
    if (err != IG_OK) return err;
    err = load_tokenizer(s, &f, why);
    ig_wfile_close(&f);
    if (err != IG_OK) ig_session_close(s);
    return err;
}

static void note(const char *text) { ig_note("%s", text); }

void ig_session_close(struct ig_session *s)
{
    if (s->tok) ig_tok_free(s->tok);
    if (s->e) {
        if (s->stats) ig_expert_table(s->e, 0, note);
        if (s->stats) ig_expert_table(s->e, 1, note);
        ig_expert_lines(s->e, note);
        ig_engine_close(s->e);
    }
    free(s->blob);
    *s = (struct ig_session){ 0 };
}
