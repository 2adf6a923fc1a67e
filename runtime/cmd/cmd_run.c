/* cmd_run.c -- complete a prompt: run. */
#include "cmd.h"

#include "generate.h"
#include "input.h"
#include "out.h"
#include "stop.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct ig_gen *gen;

/* The prompt's bytes, malloc'ed, from -p, -f or standard input. */
static enum ig_err read_prompt(const struct ig_opts *o, char **text, size_t *bytes,
                               struct ig_why *why)
{
    if (o->prompt && o->file) return ig_fail(why, IG_USAGE, "want -p or -f, got both");
    if (o->prompt) {
        *text = strdup(o->prompt);
        *bytes = strlen(o->prompt);
        return *text ? IG_OK : ig_fail(why, IG_NO_MEM, "no memory for the prompt");
    }
    if (!o->file && isatty(STDIN_FILENO))
        return ig_fail(why, IG_USAGE, "want a prompt: -p TEXT, -f FILE or standard input");
    const enum ig_err err = ig_input_file(o->file ? o->file : "-", text, bytes, why);
    /* Editors and echo end files with a newline that nobody means as a part of the prompt. */
    if (err == IG_OK && *bytes > 0 && (*text)[*bytes - 1] == '\n') (*bytes)--;
    return err;
}

static enum ig_err complete(const struct ig_opts *o, const char *text, size_t bytes,
                            struct ig_why *why)
{
    struct ig_session s;
    int32_t *ids = NULL;
    size_t n = 0;
    enum ig_err err = ig_session_open(&s, o, 1, why);
    if (err != IG_OK) return err;

    err = ig_tok_encode(s.tok, text, bytes, o->special, 1, &ids, &n, why);
    if (err == IG_OK && n == 0)
        err = ig_fail(why, IG_USAGE,
                      "the prompt is empty, and this model has no token to begin with");
    if (err == IG_OK && n > (size_t)ig_n_ctx(s.e))
        err = ig_fail(
            why, IG_FAIL,
            "the prompt has %zu tokens, the context has room for %d (-c; SET=\"ctx=N\" plans "
            "more)",
            n, ig_n_ctx(s.e));
    if (err == IG_OK) err = ig_gen_open(&gen, &s, o, why);
    if (err == IG_OK) {
        ig_stop_catch();
        const int left = ig_n_ctx(s.e) - (int)n, more = o->n_predict;
        ig_set_length(s.e, more >= 0 && more <= left ? (int)n + more : 0);
        enum ig_gen_end end = IG_GEN_STOPPED;
        if (IG_N_LAYER_ENC) { /* the prompt is the encoder's, and the decoder starts its text alone
                               */
            ig_encode(s.e, ids, (int)n, gen->n_batch);
            ids[0] = IG_START_TOKEN;
            n = 1;
        }
        if (ig_gen_prompt(gen, ids, (int)n)) {
            if (o->display_prompt) ig_out(text, bytes); /* now: progress lines would wipe it */
            end = ig_gen_answer(gen, o->n_predict, o->ignore_eos);
        }
        if (ig_out_is_terminal()) ig_out("\n", 1); /* in a pipe: the model's bytes, nothing else */
        if (end != IG_GEN_CLOSED) ig_gen_report(gen, end);
    }
    ig_gen_close(gen);
    free(ids);
    ig_session_close(&s);
    return err;
}

enum ig_err ig_cmd_run(const struct ig_opts *o, struct ig_why *why)
{
    char *text = NULL;
    size_t bytes = 0;
    enum ig_err err = read_prompt(o, &text, &bytes, why);
    if (err == IG_OK) err = complete(o, text, bytes, why);
    free(text);
    return err;
}
