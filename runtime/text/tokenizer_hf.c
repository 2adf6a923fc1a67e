/* tokenizer_hf.c -- tokenizer.json, with the two small files beside it, to a blob.
 *
 * Everything the format can say is either honoured or refused by the name of
 * its field: a tokenizer that is nearly right is worse than none.
 */
#include "tokenizer_int.h"
#include <math.h>
#include <stdlib.h>

static const char *type_name(const json_t *j)
{
    if (!j) return "nothing";
    switch (json_typeof(j)) {
    case JSON_OBJECT:
        return "an object";
    case JSON_ARRAY:
        return "an array";
    case JSON_STRING:
        return "a string";
    case JSON_INTEGER:
        return "an integer";
    case JSON_REAL:
        return "a real number";
    case JSON_NULL:
        return "null";
    default:
        return "a boolean";
    }
}

enum ig_err ig_hf_want(struct ig_hf *h, const char *path, const char *want, const json_t *found)
{
    if (json_is_string(found))
        return ig_fail(h->why, IG_BAD_FILE, "%s: %s: want %s, found \"%.80s\"", h->name, path, want,
                       json_string_value(found));
    if (json_is_integer(found))
        return ig_fail(h->why, IG_BAD_FILE, "%s: %s: want %s, found %" JSON_INTEGER_FORMAT, h->name,
                       path, want, json_integer_value(found));
    return ig_fail(h->why, IG_BAD_FILE, "%s: %s: want %s, found %s", h->name, path, want,
                   type_name(found));
}

static enum ig_err no_mem(struct ig_hf *h)
{
    return ig_fail(h->why, IG_NO_MEM, "%s: out of memory", h->name);
}

int ig_hf_true(const json_t *j, const char *key, int otherwise)
{
    const json_t *v = json_object_get(j, key);
    return json_is_boolean(v) ? json_is_true(v) : otherwise;
}

static int id_ok(const json_t *j, json_int_t below)
{
    return json_is_integer(j) && json_integer_value(j) >= 0 && json_integer_value(j) < below;
}

/* -- vocabulary */
static enum ig_err put_token(struct ig_hf *h, size_t id, const char *p, size_t n, const char *path)
{
    struct ig_blob *b = &h->b;
    char raw[IG_TOK_MAX_KEY];
    long len = -1;
    if (n > IG_TOK_MAX_KEY || n == 0)
        return ig_fail(h->why, IG_BAD_FILE, "%s: %s: want 1 to %d bytes, found %zu (id %zu)",
                       h->name, path, IG_TOK_MAX_KEY, n, id);
    if (!ig_blob_tokens(b, id + 1)) return no_mem(h);
    if (b->key.v[id].bytes)
        return ig_fail(h->why, IG_BAD_FILE, "%s: %s: id %zu is given twice (\"%.80s\")", h->name,
                       path, id, p);
    if (b->head.flags & IG_TOK_BYTE_LEVEL) len = ig_blob_byte_level(p, n, raw);
    if (len >= 0 || !(b->head.flags & IG_TOK_BYTE_LEVEL)) b->flag.v[id] |= IG_TOKF_LOOKUP;
    return ig_blob_text(b, len >= 0 ? raw : p, len >= 0 ? (size_t)len : n, &b->key.v[id])
               ? IG_OK
               : no_mem(h);
}

static enum ig_err read_vocab_object(struct ig_hf *h, json_t *vocab)
{
    const char *key;
    size_t n;
    json_t *id;
    json_object_keylen_foreach(vocab, key, n, id)
    {
        if (!id_ok(id, IG_TOK_MAX_VOCAB)) {
            char path[160];
            snprintf(path, sizeof path, "model.vocab[\"%.100s\"]", key);
            return ig_hf_want(h, path, "an id below 4194304", id);
        }
        const enum ig_err err = put_token(h, (size_t)json_integer_value(id), key, n, "model.vocab");
        if (err) return err;
    }
    return IG_OK;
}

/* A score as the reference reads it: its shortest digits as an integer, which a power of ten then
 * divides.  That rounds twice, and sometimes decides between splits whose sums are equal. */
static double score_as_read(double v)
{
    char text[40], power[16];
    int digits = 14, n = 0;
    uint64_t whole = 0;
    do /* what 15 digits can say is the shortest, without its zeros at the end */
        snprintf(text, sizeof text, "%.*e", digits, fabs(v));
    while (strtod(text, NULL) != fabs(v) && ++digits <= 16);
    char *e = strchr(text, 'e');
    if (!e) return v;
    int at = (int)(e - text), exponent = atoi(e + 1);
    while (at > 1 && (text[at - 1] == '0' || text[at - 1] == '.')) at--;
    for (int i = 0; i < at; i++) {
        if (text[i] == '.') continue;
        whole = 10 * whole + (uint64_t)(text[i] - '0');
        n++;
    }
    exponent -= n - 1;
    double f = (double)whole;
    for (int step; exponent != 0; exponent -= step) {
        step = exponent < -308 ? -308 : exponent > 308 ? 308 : exponent;
        snprintf(power, sizeof power, "1e%d", abs(step));
        f = step < 0 ? f / strtod(power, NULL) : f * strtod(power, NULL);
    }
    return signbit(v) ? -f : f;
}

static enum ig_err read_vocab_scores(struct ig_hf *h, const json_t *vocab)
{
    if (json_array_size(vocab) > IG_TOK_MAX_VOCAB)
        return ig_hf_want(h, "model.vocab", "at most 4194304 entries", vocab);
    for (size_t i = 0; i < json_array_size(vocab); i++) {
        const json_t *pair = json_array_get(vocab, i), *text = json_array_get(pair, 0),
                     *score = json_array_get(pair, 1);
        char path[64];
        snprintf(path, sizeof path, "model.vocab[%zu]", i);
        if (json_array_size(pair) != 2 || !json_is_string(text) || !json_is_number(score))
            return ig_hf_want(h, path, "[text, score]", pair);
        const enum ig_err err =
            put_token(h, i, json_string_value(text), json_string_length(text), path);
        if (err) return err;
        const double v = score_as_read(json_number_value(score));
        if (!IG_PUSH(h->b.score, v)) return no_mem(h);
    }
    return IG_OK;
}

/* The id of a token's text; -1: none. */
static json_int_t vocab_id(const json_t *vocab, const char *p, size_t n)
{
    const json_t *id = json_object_getn(vocab, p, n);
    return id ? json_integer_value(id) : -1;
}

/* Both spellings of a merge: "a b" and ["a", "b"]. */
static int merge_sides(const json_t *m, const char *side[2], size_t bytes[2])
{
    if (json_is_array(m) && json_array_size(m) == 2) {
        for (size_t k = 0; k < 2; k++) {
            const json_t *s = json_array_get(m, k);
            if (!json_is_string(s)) return 0;
            side[k] = json_string_value(s);
            bytes[k] = json_string_length(s);
        }
        return 1;
    }
    if (!json_is_string(m)) return 0;
    side[0] = json_string_value(m);
    const size_t n = json_string_length(m);
    const char *space = memchr(side[0], ' ', n);
    if (!space || memchr(space + 1, ' ', n - (size_t)(space + 1 - side[0]))) return 0;
    bytes[0] = (size_t)(space - side[0]);
    side[1] = space + 1;
    bytes[1] = n - bytes[0] - 1;
    return 1;
}

static enum ig_err read_merges(struct ig_hf *h, const json_t *vocab, const json_t *merges)
{
    if (!json_is_array(merges) || json_array_size(merges) > IG_TOK_MAX_VOCAB)
        return ig_hf_want(h, "model.merges", "an array", merges);
    if (!IG_RESERVE(h->b.merge, json_array_size(merges) + 1)) return no_mem(h);
    for (size_t i = 0; i < json_array_size(merges); i++) {
        const json_t *m = json_array_get(merges, i);
        const char *side[2];
        size_t bytes[2];
        char path[64], both[2 * IG_TOK_MAX_KEY];
        snprintf(path, sizeof path, "model.merges[%zu]", i);
        if (!merge_sides(m, side, bytes) || bytes[0] > IG_TOK_MAX_KEY || bytes[1] > IG_TOK_MAX_KEY)
            return ig_hf_want(h, path, "\"left right\" or [left, right]", m);
        memcpy(both, side[0], bytes[0]);
        memcpy(both + bytes[0], side[1], bytes[1]);
        const json_int_t id[3] = { vocab_id(vocab, side[0], bytes[0]),
                                   vocab_id(vocab, side[1], bytes[1]),
                                   vocab_id(vocab, both, bytes[0] + bytes[1]) };
        for (int k = 0; k < 3; k++)
            if (id[k] < 0)
                return ig_fail(h->why, IG_BAD_FILE, "%s: %s: \"%.*s\" is not in model.vocab",
                               h->name, path, (int)(k == 2 ? bytes[0] + bytes[1] : bytes[k]),
                               k == 2 ? both : side[k]);
        for (int k = 0; k < 3; k++) h->b.merge.v[i][k] = (uint32_t)id[k];
        h->b.merge.n++;
    }
    return IG_OK;
}

static enum ig_err read_bpe(struct ig_hf *h, const json_t *model)
{
    static const char *const affix[] = { "continuing_subword_prefix", "end_of_word_suffix" };
    json_t *vocab = json_object_get(model, "vocab");
    const json_t *unk = json_object_get(model, "unk_token"),
                 *dropout = json_object_get(model, "dropout");
    h->b.head.model = IG_TOK_BPE;
    for (int i = 0; i < 2; i++) {
        const json_t *v = json_object_get(model, affix[i]);
        char path[64];
        snprintf(path, sizeof path, "model.%s", affix[i]);
        if (v && !json_is_null(v) && !(json_is_string(v) && json_string_length(v) == 0))
            return ig_hf_want(h, path, "null", v);
    }
    if (dropout && !json_is_null(dropout) && json_number_value(dropout) != 0.0)
        return ig_hf_want(h, "model.dropout", "null", dropout);
    if (!json_is_object(vocab)) return ig_hf_want(h, "model.vocab", "an object", vocab);
    if (ig_hf_true(model, "ignore_merges", 0)) h->b.head.flags |= IG_TOK_IGNORE_MERGES;
    if (ig_hf_true(model, "byte_fallback", 0)) h->b.head.flags |= IG_TOK_BYTE_FALLBACK;
    if (ig_hf_true(model, "fuse_unk", 0)) h->b.head.flags |= IG_TOK_FUSE_UNK;
    enum ig_err err = read_vocab_object(h, vocab);
    if (!err) err = read_merges(h, vocab, json_object_get(model, "merges"));
    if (err || !unk || json_is_null(unk)) return err;
    if (json_is_string(unk))
        h->b.head.unk = (int32_t)vocab_id(vocab, json_string_value(unk), json_string_length(unk));
    return h->b.head.unk >= 0 ? IG_OK
                              : ig_hf_want(h, "model.unk_token", "a token of model.vocab", unk);
}

static enum ig_err read_unigram(struct ig_hf *h, const json_t *model)
{
    const json_t *vocab = json_object_get(model, "vocab"), *unk = json_object_get(model, "unk_id");
    h->b.head.model = IG_TOK_UNIGRAM;
    h->b.head.flags |= IG_TOK_FUSE_UNK;
    if (ig_hf_true(model, "byte_fallback", 0)) h->b.head.flags |= IG_TOK_BYTE_FALLBACK;
    if (!json_is_array(vocab) || json_array_size(vocab) == 0)
        return ig_hf_want(h, "model.vocab", "an array of [text, score]", vocab);
    const enum ig_err err = read_vocab_scores(h, vocab);
    if (err || !unk || json_is_null(unk)) return err;
    if (!id_ok(unk, (json_int_t)json_array_size(vocab)))
        return ig_hf_want(h, "model.unk_id", "an id of model.vocab", unk);
    h->b.head.unk = (int32_t)json_integer_value(unk);
    return IG_OK;
}

static enum ig_err read_model(struct ig_hf *h)
{
    const json_t *model = json_object_get(h->root, "model"), *type = json_object_get(model, "type");
    if (!json_is_object(model)) return ig_hf_want(h, "model", "an object", model);
    const char *name = json_string_value(type);
    if (name && !strcmp(name, "Unigram")) return read_unigram(h, model);
    if (name && !strcmp(name, "BPE")) return read_bpe(h, model);
    /* Old files leave the type out; only BPE has merges. */
    if (!type && json_object_get(model, "merges")) return read_bpe(h, model);
    return ig_hf_want(h, "model.type", "BPE or Unigram", type);
}

/* -- added tokens */
static enum ig_err added_text(struct ig_hf *h, const char *p, size_t n, struct ig_tok_added *a)
{
    struct ig_tok_text out = { 0 };
    size_t n_norm = 0;
    while (n_norm < h->b.step.n && h->b.step.v[n_norm].kind < IG_STEP_SPLIT) n_norm++;
    if (!(a->flags & IG_ADD_NORMALIZED) || n_norm == 0)
        return ig_blob_text(&h->b, p, n, &a->text) ? IG_OK : no_mem(h);
    enum ig_err err = ig_tok_normalize(h->b.step.v, n_norm, h->b.text.p, NULL, p, NULL, n,
                                       IG_EDGE_START | IG_EDGE_END, IG_TOK_MAX_ADDED, &out, h->why);
    if (!err && out.n == 0)
        err = ig_fail(h->why, IG_BAD_FILE,
                      "%s: added_tokens: \"%.80s\" "
                      "normalises to nothing",
                      h->name, p);
    if (!err && !ig_blob_text(&h->b, out.p, out.n, &a->text)) err = no_mem(h);
    ig_text_free(&out);
    return err;
}

static enum ig_err read_one_added(struct ig_hf *h, const json_t *j, const char *path)
{
    static const struct {
        const char *key;
        uint32_t flag;
        int otherwise;
    } flag[] = { { "lstrip", IG_ADD_LSTRIP, 0 },
                 { "rstrip", IG_ADD_RSTRIP, 0 },
                 { "single_word", IG_ADD_SINGLE_WORD, 0 },
                 { "normalized", IG_ADD_NORMALIZED, 1 } };
    const json_t *id = json_object_get(j, "id"), *content = json_object_get(j, "content");
    struct ig_tok_added a = { 0 };
    char sub[96];
    if (!id_ok(id, IG_TOK_MAX_VOCAB)) {
        snprintf(sub, sizeof sub, "%s.id", path);
        return ig_hf_want(h, sub, "an id below 4194304", id);
    }
    const char *p = json_string_value(content);
    const size_t n = json_string_length(content);
    snprintf(sub, sizeof sub, "%s.content", path);
    if (!p || n == 0 || n > IG_TOK_MAX_ADDED)
        return ig_hf_want(h, sub, "1 to 512 bytes of text", content);
    const int special = ig_hf_true(j, "special", 0);
    a.id = (uint32_t)json_integer_value(id);
    for (size_t i = 0; i < sizeof flag / sizeof *flag; i++)
        if (ig_hf_true(j, flag[i].key, flag[i].otherwise && !special)) a.flags |= flag[i].flag;

    struct ig_blob *b = &h->b;
    if (!ig_blob_tokens(b, (size_t)a.id + 1)) return no_mem(h);
    snprintf(sub, sizeof sub, "%s.id", path);
    if (b->flag.v[a.id] & IG_TOKF_ADDED) return ig_hf_want(h, sub, "an id not used before", id);
    const json_t *vocab = json_object_get(json_object_get(h->root, "model"), "vocab");
    const json_int_t known = json_is_object(vocab) ? vocab_id(vocab, p, n) : -1;
    if (json_is_object(vocab) && known != a.id && (known >= 0 || b->key.v[a.id].bytes))
        return ig_hf_want(h, sub, "the id of model.vocab", id);
    b->flag.v[a.id] |= IG_TOKF_ADDED;
    if (special) b->flag.v[a.id] |= IG_TOKF_SPECIAL;
    if (special || ig_blob_looks_like_control(p, n)) {
        /* The model itself must not make one from text either. */
        b->flag.v[a.id] |= IG_TOKF_CONTROL;
        b->flag.v[a.id] &= (uint8_t)~IG_TOKF_LOOKUP;
    }
    if (!ig_blob_text(b, p, n, &b->piece.v[a.id])) return no_mem(h);
    const enum ig_err err = added_text(h, p, n, &a);
    if (err) return err;
    return IG_PUSH(b->added, a) ? IG_OK : no_mem(h);
}

static enum ig_err read_added(struct ig_hf *h)
{
    const json_t *list = json_object_get(h->root, "added_tokens");
    if (!list || json_is_null(list)) return IG_OK;
    if (!json_is_array(list) || json_array_size(list) > 1 << 16)
        return ig_hf_want(h, "added_tokens", "an array", list);
    for (size_t i = 0; i < json_array_size(list); i++) {
        char path[64];
        snprintf(path, sizeof path, "added_tokens[%zu]", i);
        const enum ig_err err = read_one_added(h, json_array_get(list, i), path);
        if (err) return err;
    }
    return IG_OK;
}

/* -- what each token decodes to */
static enum ig_err piece(struct ig_hf *h, size_t id)
{
    struct ig_blob *b = &h->b;
    const struct ig_tok_span key = b->key.v[id];
    struct ig_tok_text text = { 0 }, next = { 0 };
    if (b->piece.v[id].bytes || key.bytes == 0) return IG_OK; /* an added token, or a hole */
    const int byte = h->byte_tokens ? ig_blob_byte_token(b->text.p + key.off, key.bytes) : -1;
    if (byte >= 0) {
        const char c = (char)byte;
        return ig_blob_text(b, &c, 1, &b->piece.v[id]) ? IG_OK : no_mem(h);
    }
    if (h->n_replace == 0) {
        b->piece.v[id] = key;
        return IG_OK;
    }
    int ok = ig_text_put(&text, b->text.p + key.off, key.bytes, 0);
    for (int i = 0; i < h->n_replace && ok; i++) {
        const char *from = h->replace[i].from, *to = h->replace[i].to;
        const size_t n = strlen(from);
        next = (struct ig_tok_text){ 0 };
        for (size_t at = 0; at < text.n && ok;) {
            const int hit = text.n - at >= n && !memcmp(text.p + at, from, n);
            ok =
                hit ? ig_text_put(&next, to, strlen(to), 0) : ig_text_put(&next, text.p + at, 1, 0);
            at += hit ? n : 1;
        }
        ig_text_free(&text);
        text = next;
    }
    ok = ok && ig_blob_text(b, text.n ? text.p : "", text.n, &b->piece.v[id]);
    ig_text_free(&text);
    return ok ? IG_OK : no_mem(h);
}

static enum ig_err read_pieces(struct ig_hf *h)
{
    enum ig_err err = IG_OK;
    if (h->byte_level != ((h->b.head.flags & IG_TOK_BYTE_LEVEL) != 0))
        return ig_hf_want(h, "decoder",
                          h->byte_level ? "none of type ByteLevel without a "
                                          "pre_tokenizer of that type"
                                        : "type ByteLevel as in pre_tokenizer",
                          json_object_get(json_object_get(h->root, "decoder"), "type"));
    for (size_t id = 0; id < h->b.key.n && !err; id++) err = piece(h, id);
    return err;
}

/* -- tokenizer_config.json and generation_config.json */
static const char *named_text(const json_t *v, size_t *n)
{
    if (json_is_object(v)) v = json_object_get(v, "content");
    *n = json_string_length(v);
    return json_string_value(v);
}

static int32_t added_id(const struct ig_hf *h, const char *p, size_t n)
{
    for (size_t i = 0; i < h->b.added.n; i++) {
        const struct ig_tok_span s = h->b.piece.v[h->b.added.v[i].id];
        if (s.bytes == n && !memcmp(h->b.text.p + s.off, p, n)) return (int32_t)h->b.added.v[i].id;
    }
    return -1;
}

static const char *template_text(const json_t *v, size_t *n)
{
    if (json_is_array(v)) { /* several: the one called default, else the first */
        const json_t *pick = json_array_get(v, 0);
        for (size_t i = 0; i < json_array_size(v); i++) {
            const json_t *e = json_array_get(v, i);
            const char *name = json_string_value(json_object_get(e, "name"));
            if (name && !strcmp(name, "default")) pick = e;
        }
        v = json_object_get(pick, "template");
    }
    *n = json_string_length(v);
    return json_string_value(v);
}

static enum ig_err read_config(struct ig_hf *h)
{
    const char *key;
    json_t *v;
    size_t n;
    json_object_foreach(h->config, key, v)
    {
        const size_t key_n = strlen(key);
        const int is_token = key_n > 6 && !strcmp(key + key_n - 6, "_token");
        const int is_template = !strcmp(key, "chat_template");
        const char *text = is_token ? named_text(v, &n) : is_template ? template_text(v, &n) : NULL;
        if (!text) continue;
        if (memchr(text, 0, n)) return ig_hf_want(h, key, "text without NUL", v);
        if (!ig_blob_name(&h->b, key, text, n)) return no_mem(h);
        const int32_t id = is_token ? added_id(h, text, n) : -1;
        if (!strcmp(key, "bos_token")) h->b.head.bos = id;
        if (!strcmp(key, "eos_token") && id >= 0 && !ig_blob_end_id(&h->b, id)) return no_mem(h);
    }
    if (h->b.head.bos < 0 && h->b.prefix.n > 0) h->b.head.bos = h->b.prefix.v[0];
    if (h->b.prefix.n == 0 && ig_hf_true(h->config, "add_bos_token", 0) && h->b.head.bos >= 0 &&
        !IG_PUSH(h->b.prefix, h->b.head.bos))
        return no_mem(h);
    return IG_OK;
}

static enum ig_err read_generation(struct ig_hf *h)
{
    const json_t *eos = json_object_get(h->generation, "eos_token_id");
    if (!eos || json_is_null(eos)) return ig_blob_guess_ends(&h->b) ? IG_OK : no_mem(h);
    for (size_t i = 0; i < (json_is_array(eos) ? json_array_size(eos) : 1); i++) {
        const json_t *v = json_is_array(eos) ? json_array_get(eos, i) : eos;
        if (!id_ok(v, (json_int_t)h->b.key.n))
            return ig_hf_want(h, "generation_config: eos_token_id", "an id of the vocabulary", v);
        if (!ig_blob_end_id(&h->b, json_integer_value(v))) return no_mem(h);
    }
    return IG_OK;
}

static enum ig_err parse(struct ig_hf *h, json_t **out, const char *what, const char *text,
                         size_t n)
{
    json_error_t e;
    *out = NULL;
    if (!text) return IG_OK;
    *out = json_loadb(text, n, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &e);
    if (!*out)
        return ig_fail(h->why, IG_BAD_FILE, "%s%s: line %d: %s", h->name, what, e.line, e.text);
    if (!json_is_object(*out)) return ig_hf_want(h, what, "an object", *out);
    return IG_OK;
}

static enum ig_err compile(struct ig_hf *h)
{
    const json_t *r = h->root;
    enum ig_err err = ig_hf_normalizer(h, json_object_get(r, "normalizer"), "normalizer");
    if (!err) err = ig_hf_pre_tokenizer(h, json_object_get(r, "pre_tokenizer"), "pre_tokenizer");
    if (!err) err = ig_hf_decoder(h, json_object_get(r, "decoder"), "decoder");
    if (!err) err = read_model(h);
    if (!err) err = read_added(h);
    if (!err) err = read_pieces(h);
    if (!err) err = ig_hf_post_processor(h, json_object_get(r, "post_processor"), "post_processor");
    if (!err) err = read_config(h);
    if (!err) err = read_generation(h);
    while (!err && h->b.score.n && h->b.score.n < h->b.key.n)
        if (!IG_PUSH(h->b.score, 0.0)) err = no_mem(h);
    return err;
}

enum ig_err ig_tok_compile_hf(void **blob, size_t *blob_bytes, const char *name, const char *json,
                              size_t json_bytes, const char *config_json, size_t config_bytes,
                              const char *generation_json, size_t generation_bytes,
                              struct ig_why *why)
{
    struct ig_hf h = { .name = name, .why = why };
    *blob = NULL;
    *blob_bytes = 0;
    h.b.head.bos = h.b.head.unk = -1;
    enum ig_err err = parse(&h, &h.root, "", json ? json : "", json_bytes);
    if (!err) err = parse(&h, &h.config, ": tokenizer_config.json", config_json, config_bytes);
    if (!err)
        err =
            parse(&h, &h.generation, ": generation_config.json", generation_json, generation_bytes);
    if (!err) err = compile(&h);
    if (!err) err = ig_blob_finish(&h.b, name, blob, blob_bytes, why);
    ig_blob_free(&h.b);
    json_decref(h.root);
    json_decref(h.config);
    json_decref(h.generation);
    return err;
}
