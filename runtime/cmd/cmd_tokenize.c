/* cmd_tokenize.c -- text to ids and back: tokenize, detokenize. */
#include "cmd.h"

#include "config.h"
#include "input.h"
#include "out.h"
#include "session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The argument, -p, -f or standard input; malloc'ed. */
static enum ig_err read_text(const struct ig_opts *o, char **text, size_t *bytes,
                             struct ig_why *why)
{
    const char *given = o->operand ? o->operand : o->prompt;
    if ((o->operand != NULL) + (o->prompt != NULL) + (o->file != NULL) > 1)
        return ig_fail(why, IG_USAGE, "want one of TEXT, -p and -f, got more");
    if (!given) return ig_input_file(o->file ? o->file : "-", text, bytes, why);
    *bytes = strlen(given);
    *text = strdup(given);
    return *text ? IG_OK : ig_fail(why, IG_NO_MEM, "no memory for the text");
}

/* The arguments as one text, or standard input; malloc'ed. */
static enum ig_err read_ids(const struct ig_opts *o, char **text, struct ig_why *why)
{
    size_t room = 1, at = 0;
    if (o->n_operand == 0) {
        const enum ig_err err = ig_input_file("-", text, &room, why);
        if (err == IG_OK && memchr(*text, 0, room))
            return ig_fail(why, IG_USAGE, "standard input: want token ids, got a NUL byte");
        return err;
    }
    for (int i = 0; i < o->n_operand; i++) room += strlen(o->operands[i]) + 1;
    *text = malloc(room);
    if (!*text) return ig_fail(why, IG_NO_MEM, "no memory for the ids");
    for (int i = 0; i < o->n_operand; i++)
        at += (size_t)snprintf(*text + at, room - at, "%s ", o->operands[i]);
    return IG_OK;
}

static void print_ids(const int32_t *ids, size_t n, int format)
{
    ig_outf("%s", format == IG_JSON ? "{\"ids\": [" : "");
    for (size_t i = 0; i < n; i++) ig_outf("%s%d", i ? "," : "", ids[i]);
    ig_outf("%s\n", format == IG_JSON ? "]}" : "");
}

enum ig_err ig_cmd_tokenize(const struct ig_opts *o, struct ig_why *why)
{
    struct ig_session s;
    char *text = NULL;
    int32_t *ids = NULL;
    size_t bytes = 0, n = 0;
    enum ig_err err = ig_session_tokenizer(&s, o, why);
    if (err != IG_OK) return err;
    err = read_text(o, &text, &bytes, why);
    if (err == IG_OK)
        err = ig_tok_encode(s.tok, text, bytes, o->special, !o->no_bos, &ids, &n, why);
    if (err == IG_OK) print_ids(ids, n, o->format);
    free(ids);
    free(text);
    ig_session_close(&s);
    return err;
}

enum ig_err ig_cmd_detokenize(const struct ig_opts *o, struct ig_why *why)
{
    struct ig_session s;
    char *given = NULL, *text = NULL;
    int32_t *ids = NULL;
    size_t bytes = 0, n = 0;
    enum ig_err err = ig_session_tokenizer(&s, o, why);
    if (err != IG_OK) return err;
    err = read_ids(o, &given, why);
    const char *from = o->n_operand ? "IDS" : "standard input";
    if (err == IG_OK) err = ig_input_ids(from, given, IG_N_VOCAB, &ids, &n, why);
    if (err == IG_OK) err = ig_tok_decode(s.tok, ids, n, o->special, &text, &bytes, why);
    if (err == IG_OK) {
        ig_out(text, bytes);
        if (ig_out_is_terminal()) ig_out("\n", 1); /* in a pipe: the text's bytes, nothing else */
    }
    free(text);
    free(ids);
    free(given);
    ig_session_close(&s);
    return err;
}
