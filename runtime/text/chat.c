/* chat.c -- a conversation through its template, to text or to ids.
 *
 * Strings of the conversation are marked, the template's own are not; the
 * marks of the rendered bytes tell the tokenizer where control tokens may be.
 * Roles that name one of the usual speakers are not marked: templates spell
 * tokens like <|user|> with them.
 */
#include "chat.h"
#include "jinja.h"
#include <stdlib.h>

struct ig_chat_template {
    struct ig_jtemplate *t;
};

enum ig_err ig_chat_parse(struct ig_chat_template **out, const char *source, struct ig_why *why)
{
    struct ig_chat_template *t = calloc(1, sizeof *t);
    *out = NULL;
    if (!t) return ig_fail(why, IG_NO_MEM, "out of memory");
    const enum ig_err err = ig_jinja_parse(&t->t, source, strlen(source), why);
    if (err) {
        free(t);
        return err;
    }
    *out = t;
    return IG_OK;
}

void ig_chat_free(struct ig_chat_template *t)
{
    if (!t) return;
    ig_jinja_free(t->t);
    free(t);
}

static int marked_string(struct ig_jctx *c, const char *p, size_t n, struct ig_jv *out)
{
    unsigned char *mark = ig_jget(c, n + 1);
    if (!mark) return 0;
    memset(mark, 1, n);
    return ig_jstr_new(c, p, mark, n, out);
}

static int usual_role(const char *s)
{
    static const char *const role[] = { "system",      "user",     "assistant", "tool",
                                        "developer",   "function", "ipython",   "observation",
                                        "environment", "model",    "documents", "tool_response" };
    for (size_t i = 0; i < sizeof role / sizeof *role; i++)
        if (!strcmp(s, role[i])) return 1;
    return 0;
}

static int from_json(struct ig_jctx *c, const json_t *j, int depth, struct ig_jv *out)
{
    const char *key;
    size_t key_n;
    json_t *v;
    struct ig_jv x, k;
    if (depth > 100) return ig_jinja_fail(c, "messages: nested too deep");
    *out = (struct ig_jv){ .type = IG_J_NONE };
    switch (json_typeof(j)) {
    case JSON_NULL:
        return 1;
    case JSON_TRUE:
    case JSON_FALSE:
        *out = ig_jbool(json_is_true(j));
        return 1;
    case JSON_INTEGER:
        *out = ig_jint(json_integer_value(j));
        return 1;
    case JSON_REAL:
        *out = ig_jfloat(json_real_value(j));
        return 1;
    case JSON_STRING:
        return marked_string(c, json_string_value(j), json_string_length(j), out);
    case JSON_ARRAY:
        if (!ig_jlist_new(c, IG_J_LIST, out)) return 0;
        for (size_t i = 0; i < json_array_size(j); i++)
            if (!from_json(c, json_array_get(j, i), depth + 1, &x) || !ig_jlist_put(c, out->u.l, x))
                return 0;
        return 1;
    default:
        break;
    }
    if (!ig_jdict_new(c, out)) return 0;
    json_object_keylen_foreach((json_t *)(uintptr_t)j, key, key_n, v)
    {
        const char *role = depth == 1 && !strcmp(key, "role") ? json_string_value(v) : NULL;
        const int ok = role && usual_role(role) ? ig_jstr_new(c, role, NULL, strlen(role), &x)
                                                : from_json(c, v, depth + 1, &x);
        if (!ok || !marked_string(c, key, key_n, &k) || !ig_jdict_put(c, out->u.d, k, x)) return 0;
    }
    return 1;
}

static int set_text(struct ig_jctx *c, const char *name, const char *text)
{
    struct ig_jv v;
    return ig_jstr_new(c, text, NULL, strlen(text), &v) && ig_jframe_set(c, c->globals, name, v);
}

static int set_json(struct ig_jctx *c, const char *name, const json_t *j)
{
    struct ig_jv v = { .type = IG_J_NONE };
    if (j && !from_json(c, j, 0, &v)) return 0;
    return ig_jframe_set(c, c->globals, name, v);
}

/* The variables that the reference renderer passes. */
static int set_up(struct ig_jctx *c, const struct ig_tokenizer *tok, const struct ig_chat_input *in)
{
    static const char *const special[] = { "bos_token", "eos_token", "unk_token", "pad_token",
                                           "sep_token", "cls_token", "mask_token" };
    const char *key;
    json_t *v;
    c->globals = ig_jget(c, sizeof *c->globals);
    if (!c->globals) return 0;
    for (size_t i = 0; tok && i < sizeof special / sizeof *special; i++) {
        const char *text = ig_tok_special_text(tok, special[i]);
        if (text && !set_text(c, special[i], text)) return 0;
    }
    if (!set_json(c, "messages", in->messages) || !set_json(c, "tools", in->tools) ||
        !set_json(c, "documents", NULL) ||
        !ig_jframe_set(c, c->globals, "add_generation_prompt", ig_jbool(in->add_generation_prompt)))
        return 0;
    json_object_foreach((json_t *)(uintptr_t)in->extra, key, v)
    {
        struct ig_jv name; /* the frame keeps the name */
        if (!ig_jstr_new(c, key, NULL, strlen(key), &name) || !set_json(c, name.u.s->p, v))
            return 0;
    }
    return 1;
}

static enum ig_err render(const struct ig_chat_template *t, const struct ig_tokenizer *tok,
                          const struct ig_chat_input *in, struct ig_jctx *c, struct ig_jbuf *out)
{
    c->out = out;
    if (!set_up(c, tok, in)) return c->err;
    return ig_jinja_render(t->t, c);
}

enum ig_err ig_chat_render(const struct ig_chat_template *t, const struct ig_tokenizer *tok,
                           const struct ig_chat_input *in, char **text, struct ig_why *why)
{
    struct ig_jctx c = { .why = why };
    struct ig_jbuf out = { 0 };
    *text = NULL;
    enum ig_err err = render(t, tok, in, &c, &out);
    if (!err) {
        *text = malloc(out.n + 1);
        if (!*text) err = ig_fail(why, IG_NO_MEM, "out of memory");
    }
    if (!err) {
        if (out.n) memcpy(*text, out.p, out.n);
        (*text)[out.n] = 0;
    }
    ig_jarena_free(&c.arena);
    return err;
}

enum ig_err ig_chat_encode(const struct ig_chat_template *t, const struct ig_tokenizer *tok,
                           const struct ig_chat_input *in, int32_t **ids, size_t *n,
                           struct ig_why *why)
{
    struct ig_jctx c = { .why = why };
    struct ig_jbuf out = { 0 };
    *ids = NULL;
    *n = 0;
    enum ig_err err = render(t, tok, in, &c, &out);
    if (!err) err = ig_tok_encode_marked(tok, out.n ? out.p : "", out.mark, out.n, 0, ids, n, why);
    ig_jarena_free(&c.arena);
    return err;
}
