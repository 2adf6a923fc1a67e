/* gguf_tok.c -- the tokenizer's keys of a GGUF file, as the view that the tokenizer's
 * compiler takes.  Types and lengths are checked here, ids and texts there.
 */
#include "gguf.h"

#include <stdlib.h>
#include <string.h>

/* An allocation that lives as long as g. */
static void *own(struct ig_gguf *g, uint64_t n, size_t each)
{
    IG_ASSERT(g->n_owned < (int)(sizeof g->owned / sizeof *g->owned));
    void *p = calloc((size_t)n + 1, each);
    if (p) g->owned[g->n_owned++] = p;
    return p;
}

static enum ig_err no_memory(const struct ig_gguf *g, const char *key, struct ig_why *why)
{
    return ig_fail(why, IG_NO_MEM, "%s: %s: no memory", g->ckpt.file[0].path, key);
}

static enum ig_err wrong_type(const struct ig_gguf *g, const char *key, const char *want,
                              const struct ig_gguf_kv *kv, struct ig_why *why)
{
    if (kv->type == IG_GGUF_ARRAY)
        return ig_fail(why, IG_BAD_FILE, "%s: %s: want %s, got array of %s", g->ckpt.file[0].path,
                       key, want, ig_gguf_type_name(kv->elem));
    return ig_fail(why, IG_BAD_FILE, "%s: %s: want %s, got %s", g->ckpt.file[0].path, key, want,
                   ig_gguf_type_name(kv->type));
}

/* An absent key leaves NULL. */
static enum ig_err get_text(struct ig_gguf *g, const char *key, const char **text,
                            struct ig_why *why)
{
    const struct ig_gguf_kv *kv = ig_gguf_find(g, key);
    if (!kv) return IG_OK;
    if (kv->type != IG_GGUF_STRING) return wrong_type(g, key, "string", kv, why);
    if (memchr(kv->data, 0, (size_t)kv->n))
        return ig_fail(why, IG_BAD_FILE, "%s: %s: want text, got a NUL byte in it",
                       g->ckpt.file[0].path, key);
    char *copy = own(g, kv->n, 1);
    if (!copy) return no_memory(g, key, why);
    memcpy(copy, kv->data, (size_t)kv->n);
    *text = copy;
    return IG_OK;
}

static enum ig_err get_texts(struct ig_gguf *g, const char *key, uint32_t *n,
                             const char *const **text, const uint32_t **bytes, struct ig_why *why)
{
    const struct ig_gguf_kv *kv = ig_gguf_find(g, key);
    if (!kv) return IG_OK;
    if (kv->type != IG_GGUF_ARRAY || kv->elem != IG_GGUF_STRING)
        return wrong_type(g, key, "array of string", kv, why);
    const char **t = own(g, kv->n, sizeof *t);
    uint32_t *b = own(g, kv->n, sizeof *b);
    if (!t || !b) return no_memory(g, key, why);

    const unsigned char *p = kv->data;
    for (uint64_t i = 0; i < kv->n; i++) { /* lengths were checked by the reader */
        uint64_t length;
        memcpy(&length, p, sizeof length);
        t[i] = (const char *)p + sizeof length;
        b[i] = (uint32_t)length;
        p += sizeof length + length;
    }
    *n = (uint32_t)kv->n;
    *text = t;
    *bytes = b;
    return IG_OK;
}

/* An array of 4-byte elements beside the tokens; copied, since the file aligns nothing. */
static enum ig_err get_column(struct ig_gguf *g, const char *key, uint32_t type, uint32_t n,
                              void **column, struct ig_why *why)
{
    const struct ig_gguf_kv *kv = ig_gguf_find(g, key);
    if (!kv) return IG_OK;
    if (kv->type != IG_GGUF_ARRAY || kv->elem != type)
        return wrong_type(g, key, type == IG_GGUF_I32 ? "array of int32" : "array of float32", kv,
                          why);
    if (kv->n != n)
        return ig_fail(why, IG_BAD_FILE, "%s: %s: want %u elements (one a token), got %llu",
                       g->ckpt.file[0].path, key, n, (unsigned long long)kv->n);
    *column = own(g, n, 4);
    if (!*column) return no_memory(g, key, why);
    memcpy(*column, kv->data, (size_t)n * 4);
    return IG_OK;
}

static enum ig_err get_id(struct ig_gguf *g, const char *key, int32_t *id, struct ig_why *why)
{
    const struct ig_gguf_kv *kv = ig_gguf_find(g, key);
    uint32_t v;

    *id = -1;
    if (!kv) return IG_OK;
    if (kv->type != IG_GGUF_U32 && kv->type != IG_GGUF_I32)
        return wrong_type(g, key, "uint32", kv, why);
    memcpy(&v, kv->data, sizeof v);
    if (v == UINT32_MAX) return IG_OK; /* writers' word for "none" */
    if (v > INT32_MAX)
        return ig_fail(why, IG_BAD_FILE, "%s: %s: want a token id below 2^31, got %u",
                       g->ckpt.file[0].path, key, v);
    *id = (int32_t)v;
    return IG_OK;
}

static enum ig_err get_bool(struct ig_gguf *g, const char *key, int *flag, struct ig_why *why)
{
    const struct ig_gguf_kv *kv = ig_gguf_find(g, key);
    *flag = -1;
    if (!kv) return IG_OK;
    if (kv->type != IG_GGUF_BOOL) return wrong_type(g, key, "bool", kv, why);
    *flag = kv->data[0] != 0;
    return IG_OK;
}

/* An array of bytes, of either sign; NULL when there are none. */
static enum ig_err get_bytes(const struct ig_gguf *g, const char *key, const char **bytes,
                             uint32_t *n, struct ig_why *why)
{
    const struct ig_gguf_kv *kv = ig_gguf_find(g, key);
    if (!kv) return IG_OK;
    if (kv->type != IG_GGUF_ARRAY || (kv->elem != IG_GGUF_U8 && kv->elem != IG_GGUF_I8))
        return wrong_type(g, key, "array of uint8", kv, why);
    if (kv->n > UINT32_MAX)
        return ig_fail(why, IG_BAD_FILE, "%s: %s: want less than 4 GiB, got %llu bytes",
                       g->ckpt.file[0].path, key, (unsigned long long)kv->n);
    *bytes = kv->n ? (const char *)kv->data : NULL;
    *n = (uint32_t)kv->n;
    return IG_OK;
}

/* Ids of tokens that exist; types that exist; byte tokens spelled as one byte.  The rules of
 * gen/gguf_vocab.lua. */
static enum ig_err check_ids(const struct ig_gguf *g, const struct ig_tok_gguf *v,
                             struct ig_why *why)
{
    const struct {
        const char *key;
        int32_t id;
    } ids[] = { { "bos", v->bos },
                { "eos", v->eos },
                { "eot", v->eot },
                { "unknown", v->unk },
                { "padding", v->pad } };
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++)
        if (ids[i].id >= 0 && (uint32_t)ids[i].id >= v->n_vocab)
            return ig_fail(why, IG_BAD_FILE,
                           "%s: tokenizer.ggml.%s_token_id: want a token id below %u, got %d",
                           g->ckpt.file[0].path, ids[i].key, v->n_vocab, ids[i].id);
    return IG_OK;
}

static int is_hex(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'F') || (c >= 'a' && c <= 'f');
}

static enum ig_err check_types(const struct ig_gguf *g, const struct ig_tok_gguf *v,
                               struct ig_why *why)
{
    enum { BYTE = 6 };
    for (uint32_t i = 0; v->type && i < v->n_vocab; i++) {
        const char *t = v->token[i];
        const uint32_t n = v->token_bytes[i];
        if (v->type[i] < 1 || v->type[i] > BYTE)
            return ig_fail(why, IG_BAD_FILE,
                           "%s: tokenizer.ggml.token_type[%u]: want 1 to 6, got %d",
                           g->ckpt.file[0].path, i, v->type[i]);
        if (v->type[i] == BYTE &&
            (n != 6 || memcmp(t, "<0x", 3) != 0 || !is_hex(t[3]) || !is_hex(t[4]) || t[5] != '>'))
            return ig_fail(why, IG_BAD_FILE,
                           "%s: tokenizer.ggml.tokens[%u]: want a byte token from <0x00> to "
                           "<0xFF>, got \"%.*s\"",
                           g->ckpt.file[0].path, i, n < 40 ? (int)n : 40, t);
    }
    return IG_OK;
}

enum ig_err ig_gguf_tokenizer(struct ig_gguf *g, struct ig_tok_gguf *view, struct ig_why *why)
{
    void *type = NULL, *score = NULL;
    enum ig_err err;

    *view = (struct ig_tok_gguf){ 0 };
    /* One view a file: a second call starts afresh. */
    while (g->n_owned > 0) free(g->owned[--g->n_owned]);
    // clang-format off
    if ((err = get_text(g, "tokenizer.ggml.model", &view->model, why)) ||
        (err = get_text(g, "tokenizer.ggml.pre", &view->pre, why)) ||
        (err = get_text(g, "tokenizer.chat_template", &view->chat_template, why)) ||
        (err = get_texts(g, "tokenizer.ggml.tokens", &view->n_vocab, &view->token,
                         &view->token_bytes, why)) ||
        (err = get_texts(g, "tokenizer.ggml.merges", &view->n_merge, &view->merge,
                         &view->merge_bytes, why)) ||
        (err = get_column(g, "tokenizer.ggml.token_type", IG_GGUF_I32, view->n_vocab, &type, why)) ||
        (err = get_column(g, "tokenizer.ggml.scores", IG_GGUF_F32, view->n_vocab, &score, why)) ||
        (err = get_id(g, "tokenizer.ggml.bos_token_id", &view->bos, why)) ||
        (err = get_id(g, "tokenizer.ggml.eos_token_id", &view->eos, why)) ||
        (err = get_id(g, "tokenizer.ggml.eot_token_id", &view->eot, why)) ||
        (err = get_id(g, "tokenizer.ggml.unknown_token_id", &view->unk, why)) ||
        (err = get_id(g, "tokenizer.ggml.padding_token_id", &view->pad, why)) ||
        (err = get_bool(g, "tokenizer.ggml.add_bos_token", &view->add_bos, why)) ||
        (err = get_bool(g, "tokenizer.ggml.add_eos_token", &view->add_eos, why)) ||
        (err = get_bool(g, "tokenizer.ggml.add_space_prefix", &view->space_prefix, why)) ||
        (err = get_bool(g, "tokenizer.ggml.remove_extra_whitespaces", &view->trim_spaces, why)) ||
        (err = get_bytes(g, "tokenizer.ggml.precompiled_charsmap", &view->charsmap,
                         &view->charsmap_bytes, why)))
        return err;
    // clang-format on
    /* Writers' words for a file without one. */
    if (view->model && (!strcmp(view->model, "none") || !strcmp(view->model, "no_vocab")))
        view->model = NULL;
    view->type = type;
    view->score = score;
    struct ig_why inner;
    if (view->charsmap && ig_charsmap_check(view->charsmap, view->charsmap_bytes, &inner))
        return ig_fail(why, IG_BAD_FILE, "%s: tokenizer.ggml.%.300s", g->ckpt.file[0].path,
                       inner.text);
    err = view->token ? check_ids(g, view, why) : IG_OK;
    return err ? err : check_types(g, view, why);
}
