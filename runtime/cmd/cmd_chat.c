/* cmd_chat.c -- talk with the model through its chat template: chat.
 *
 * The whole conversation is rendered for each turn; the KV cache keeps the
 * longest common beginning of the ids, so only what is new gets computed.
 */
#include "cmd.h"

#include "chat.h"
#include "generate.h"
#include "input.h"
#include "out.h"
#include "stop.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct ig_gen *gen;

struct talk {
    const struct ig_opts *o;
    struct ig_session s;
    struct ig_chat_template *template;
    json_t *messages; /* array of {role, content} */
    int once;         /* one message, one answer */
};

/* A JSON string of any bytes: what is not UTF-8 reads as U+FFFD, as the tokenizer takes it. */
static json_t *json_bytes(const struct ig_tokenizer *tok, const char *text, size_t bytes)
{
    struct ig_why why;
    int32_t *ids = NULL;
    char *clean = NULL;
    size_t n = 0;
    json_t *j = json_stringn(text, bytes);
    if (j) return j;
    if (ig_tok_encode(tok, text, bytes, 0, 0, &ids, &n, &why) == IG_OK &&
        ig_tok_decode(tok, ids, n, 1, &clean, &bytes, &why) == IG_OK)
        j = json_stringn(clean, bytes);
    free(ids);
    free(clean);
    return j;
}

static enum ig_err add(struct talk *t, const char *role, const char *text, size_t bytes,
                       struct ig_why *why)
{
    json_t *m = json_pack("{s:s, s:o}", "role", role, "content", json_bytes(t->s.tok, text, bytes));
    return json_array_append_new(t->messages, m) == 0
               ? IG_OK
               : ig_fail(why, IG_NO_MEM, "no memory for the conversation");
}

static void drop_last(struct talk *t)
{
    json_array_remove(t->messages, json_array_size(t->messages) - 1);
}

static enum ig_err start_over(struct talk *t, struct ig_why *why)
{
    json_array_clear(t->messages);
    return t->o->system ? add(t, "system", t->o->system, strlen(t->o->system), why) : IG_OK;
}

/* The generated text as the next message. */
static enum ig_err keep_answer(struct talk *t, int n_prompt, struct ig_why *why)
{
    char *text = NULL;
    size_t bytes = 0;
    enum ig_err err = ig_tok_decode(t->s.tok, gen->ids + n_prompt, (size_t)(gen->n_ids - n_prompt),
                                    0, &text, &bytes, why);
    if (err == IG_OK) err = add(t, "assistant", text, bytes, why);
    free(text);
    return err;
}

/* One message and its answer.  A message that does not fit is taken back, so that
 * the conversation can go on with another. */
static enum ig_err turn(struct talk *t, const char *text, size_t bytes, struct ig_why *why)
{
    int32_t *ids = NULL;
    size_t n = 0;
    enum ig_err err = add(t, "user", text, bytes, why);
    if (err != IG_OK) return err;
    const struct ig_chat_input in = { t->messages, NULL, NULL, 1 };
    err = ig_chat_encode(t->template, t->s.tok, &in, &ids, &n, why);
    if (err == IG_OK && n > (size_t)gen->n_ctx)
        err = ig_fail(why, IG_FAIL,
                      "the conversation has %zu tokens, the context has room for %d (/reset "
                      "starts over; SET=\"ctx=N\" plans more)",
                      n, gen->n_ctx);
    if (err == IG_OK && n == 0)
        err = ig_fail(why, IG_FAIL, "the chat template made nothing of the conversation");
    if (err != IG_OK) {
        drop_last(t);
        free(ids);
        return err;
    }
    enum ig_gen_end end = IG_GEN_STOPPED;
    if (ig_gen_prompt(gen, ids, (int)n)) {
        end = ig_gen_answer(gen, t->o->n_predict, t->o->ignore_eos);
        err = keep_answer(t, (int)n, why);
    } else {
        drop_last(t);
    }
    free(ids);
    ig_out("\n", 1);
    if (end != IG_GEN_CLOSED) (t->once ? ig_gen_report : ig_gen_report_turn)(gen, end);
    return err;
}

/* 1 when the line is a command and not "/etc/hosts is a file": a slash and one word. */
static int is_command(const char *line)
{
    if (*line != '/') return 0;
    return line[1 + strspn(line + 1, "abcdefghijklmnopqrstuvwxyz")] == 0;
}

/* The message of -p or -f, and its answer. */
static enum ig_err once(struct talk *t, struct ig_why *why)
{
    char *text = NULL;
    size_t bytes = 0;
    t->once = 1;
    if (t->o->prompt) return turn(t, t->o->prompt, strlen(t->o->prompt), why);
    enum ig_err err = ig_input_file(t->o->file, &text, &bytes, why);
    if (err == IG_OK && bytes > 0 && text[bytes - 1] == '\n') bytes--; /* the editor's */
    if (err == IG_OK) err = turn(t, text, bytes, why);
    free(text);
    return err;
}

/* Lines from standard input until /exit, the end, or Ctrl-C while waiting. */
static enum ig_err converse(struct talk *t, struct ig_why *why)
{
    enum ig_err err = IG_OK;
    const int prompt = isatty(STDIN_FILENO);
    if (prompt) ig_note("/exit or Ctrl-D leaves, /reset starts over, Ctrl-C stops an answer");
    while (err == IG_OK && ig_out_flush() == 0) {
        char *line;
        size_t bytes;
        if (prompt) ig_out("> ", 2);
        ig_out_flush();
        err = ig_input_line(&line, &bytes, why);
        if (line && prompt) bytes = ig_input_strip(line, bytes);
        if (err != IG_OK || !line || strcmp(line, "/exit") == 0) {
            if (prompt) ig_out("\n", 1);
            free(line);
            break;
        }
        if (strcmp(line, "/reset") == 0) {
            err = start_over(t, why);
            if (err == IG_OK) ig_note("started over");
        } else if (is_command(line)) {
            ig_note("%s: unknown command; /exit, /reset", line);
        } else if (bytes > 0) {
            err = turn(t, line, bytes, why);
        }
        free(line);
        if (err == IG_FAIL && prompt) { /* for a person to answer; in a script it is the end */
            ig_note("%s; /reset starts over", why->text);
            err = IG_OK;
        }
        if (prompt && ig_stop_signal() == SIGINT) ig_stop_clear();
        if (ig_stop_signal()) break;
    }
    ig_note("seed %llu", (unsigned long long)gen->seed);
    return err;
}

static enum ig_err open_talk(struct talk *t, struct ig_why *why)
{
    if (IG_N_LAYER_ENC)
        return ig_fail(why, IG_FAIL, "a model with an encoder does not chat; use run");
    enum ig_err err = ig_session_open(&t->s, t->o, 1, why);
    if (err != IG_OK) return err;
    const char *source = ig_tok_chat_template(t->s.tok);
    if (!source) return ig_fail(why, IG_FAIL, "the weights file has no chat template; use run");
    err = ig_chat_parse(&t->template, source, why);
    if (err == IG_OK) err = ig_gen_open(&gen, &t->s, t->o, why);
    if (err != IG_OK) return err;
    t->messages = json_array();
    return t->messages ? start_over(t, why) : ig_fail(why, IG_NO_MEM, "no memory to talk");
}

enum ig_err ig_cmd_chat(const struct ig_opts *o, struct ig_why *why)
{
    struct talk t = { .o = o };
    if (o->prompt && o->file) return ig_fail(why, IG_USAGE, "want -p or -f, got both");
    enum ig_err err = open_talk(&t, why);
    if (err == IG_OK) {
        ig_stop_catch();
        err = o->prompt || o->file ? once(&t, why) : converse(&t, why);
    }
    json_decref(t.messages);
    if (t.template) ig_chat_free(t.template);
    ig_gen_close(gen);
    ig_session_close(&t.s);
    return err;
}
