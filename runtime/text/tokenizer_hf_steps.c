/* tokenizer_hf_steps.c -- normalizer, pre_tokenizer, decoder and
 * post_processor of tokenizer.json to steps of the blob.
 */
#include "tokenizer_int.h"

enum { MAX_CHARSMAP = 1 << 26 }; /* published ones have 400 KB */

static enum ig_err no_mem(struct ig_hf *h)
{
    return ig_fail(h->why, IG_NO_MEM, "%s: out of memory", h->name);
}

static int is_type(const json_t *j, const char *type)
{
    const char *t = json_string_value(json_object_get(j, "type"));
    return t && !strcmp(t, type);
}

static enum ig_err step(struct ig_hf *h, uint32_t kind, uint32_t arg, const char *a, size_t na,
                        const char *b, size_t nb, const char *path)
{
    if (h->b.step.n == IG_TOK_MAX_STEP)
        return ig_fail(h->why, IG_BAD_FILE, "%s: %s: want at most %d steps", h->name, path,
                       IG_TOK_MAX_STEP);
    return ig_blob_step(&h->b, kind, arg, a, na, b, nb) ? IG_OK : no_mem(h);
}

static enum ig_err unknown(struct ig_hf *h, const json_t *j, const char *path, const char *want)
{
    char sub[160];
    snprintf(sub, sizeof sub, "%s.type", path);
    return ig_hf_want(h, sub, want, json_object_get(j, "type"));
}

/* A Sequence's members, one by one. */
static enum ig_err each(struct ig_hf *h, const json_t *j, const char *path, const char *key,
                        enum ig_err (*one)(struct ig_hf *, const json_t *, const char *))
{
    const json_t *list = json_object_get(j, key);
    char sub[160];
    enum ig_err err = IG_OK;
    snprintf(sub, sizeof sub, "%s.%s", path, key);
    if (!json_is_array(list)) return ig_hf_want(h, sub, "an array", list);
    if (strlen(path) > 80) return ig_hf_want(h, path, "fewer levels", j);
    for (size_t i = 0; i < json_array_size(list) && !err; i++) {
        snprintf(sub, sizeof sub, "%s.%s[%zu]", path, key, i);
        err = one(h, json_array_get(list, i), sub);
    }
    return err;
}

/* {"String": s} or {"Regex": r}; *literal tells which. */
static const char *pattern_of(const json_t *j, int *literal, size_t *n)
{
    const json_t *p = json_object_get(j, "pattern"), *s = json_object_get(p, "String"),
                 *r = json_object_get(p, "Regex");
    *literal = s != NULL;
    *n = json_string_length(s ? s : r);
    return json_string_value(s ? s : r);
}

static enum ig_err replace_step(struct ig_hf *h, const json_t *j, const char *path)
{
    const json_t *content = json_object_get(j, "content");
    const char *to = json_string_value(content);
    int literal;
    size_t n;
    const char *from = pattern_of(j, &literal, &n);
    char sub[160];
    snprintf(sub, sizeof sub, "%s.content", path);
    if (!to || json_string_length(content) > 64)
        return ig_hf_want(h, sub, "at most 64 bytes of text", content);
    snprintf(sub, sizeof sub, "%s.pattern", path);
    if (from && !literal && !strcmp(from, " {2,}"))
        return step(h, IG_STEP_COLLAPSE, 0, "", 0, to, json_string_length(content), path);
    if (!from || !literal || n == 0 || n > 64)
        return ig_hf_want(h, sub, "a String of 1 to 64 bytes", json_object_get(j, "pattern"));
    return step(h, IG_STEP_REPLACE, 0, from, n, to, json_string_length(content), path);
}

static enum ig_err charsmap_step(struct ig_hf *h, const json_t *j, const char *path)
{
    const json_t *text = json_object_get(j, "precompiled_charsmap");
    struct ig_tok_text map = { 0 };
    struct ig_why inner;
    char sub[160];
    snprintf(sub, sizeof sub, "%s.precompiled_charsmap", path);
    if (!json_is_string(text) || json_string_length(text) == 0 ||
        json_string_length(text) > MAX_CHARSMAP)
        return ig_hf_want(h, sub, "text in base64", text);
    enum ig_err err = IG_OK;
    if (!ig_base64(json_string_value(text), json_string_length(text), &map))
        err = ig_hf_want(h, sub, "base64", text);
    if (!err && ig_charsmap_check(map.p, map.n, &inner))
        err = ig_fail(h->why, IG_BAD_FILE, "%s: %s: %.200s", h->name, path, inner.text);
    if (!err) err = step(h, IG_STEP_CHARSMAP, 0, map.p, map.n, "", 0, path);
    ig_text_free(&map);
    return err;
}

enum ig_err ig_hf_normalizer(struct ig_hf *h, const json_t *j, const char *path)
{
    if (!j || json_is_null(j)) return IG_OK;
    if (is_type(j, "Sequence")) return each(h, j, path, "normalizers", ig_hf_normalizer);
    if (is_type(j, "NFC")) return step(h, IG_STEP_NFC, 0, "", 0, "", 0, path);
    if (is_type(j, "Replace")) return replace_step(h, j, path);
    if (is_type(j, "Precompiled")) return charsmap_step(h, j, path);
    if (is_type(j, "Prepend")) {
        const json_t *p = json_object_get(j, "prepend");
        char sub[160];
        snprintf(sub, sizeof sub, "%s.prepend", path);
        if (!json_is_string(p) || json_string_length(p) > 64)
            return ig_hf_want(h, sub, "at most 64 bytes of text", p);
        return step(h, IG_STEP_PREPEND, 0, json_string_value(p), json_string_length(p), "", 0,
                    path);
    }
    if (is_type(j, "Strip")) {
        const uint32_t sides = (ig_hf_true(j, "strip_left", 1) ? 1u : 0u) |
                               (ig_hf_true(j, "strip_right", 1) ? 2u : 0u);
        return step(h, IG_STEP_STRIP, sides, "", 0, "", 0, path);
    }
    return unknown(h, j, path, "NFC, Replace, Prepend, Strip, Precompiled or Sequence");
}

/* -- pre-tokenizer */
static int behaviour(const json_t *j)
{
    static const char *const name[IG_N_SPLIT] = { "Isolated", "Removed", "MergedWithPrevious",
                                                  "MergedWithNext", "Contiguous" };
    const char *b = json_string_value(json_object_get(j, "behavior"));
    for (int i = 0; b && i < IG_N_SPLIT; i++)
        if (!strcmp(b, name[i])) return i;
    return -1;
}

static enum ig_err split_literal(struct ig_hf *h, const char *p, size_t n, uint32_t arg,
                                 const char *path)
{
    char out[512];
    size_t used = 0;
    if (n == 0 || n > 200)
        return ig_fail(h->why, IG_BAD_FILE, "%s: %s.pattern: want a String of 1 to 200 bytes",
                       h->name, path);
    for (size_t i = 0; i < n; i++) {
        if (p[i] > 0 && strchr("\\^$.|?*+()[]{}", p[i])) out[used++] = '\\';
        out[used++] = p[i];
    }
    return step(h, IG_STEP_SPLIT, arg, out, used, "", 0, path);
}

static enum ig_err split_step(struct ig_hf *h, const json_t *j, const char *path)
{
    char sub[160];
    int literal;
    size_t n;
    const int how = behaviour(j);
    const char *p = pattern_of(j, &literal, &n);
    snprintf(sub, sizeof sub, "%s.behavior", path);
    if (how < 0)
        return ig_hf_want(h, sub, "Isolated, Removed, MergedWith... or Contiguous",
                          json_object_get(j, "behavior"));
    snprintf(sub, sizeof sub, "%s.pattern", path);
    if (!p) return ig_hf_want(h, sub, "a String or a Regex", json_object_get(j, "pattern"));
    const uint32_t arg = (uint32_t)how | (ig_hf_true(j, "invert", 0) ? IG_SPLIT_INVERT : 0u);
    if (literal) return split_literal(h, p, n, arg, path);
    return step(h, IG_STEP_SPLIT, arg, p, n, "", 0, path);
}

static enum ig_err split_fixed(struct ig_hf *h, const char *pattern, uint32_t arg, const char *path)
{
    return step(h, IG_STEP_SPLIT, arg, pattern, strlen(pattern), "", 0, path);
}

static enum ig_err byte_level(struct ig_hf *h, const json_t *j, const char *path)
{
    /* GPT-2's pattern */
    static const char gpt2[] =
        "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";
    enum ig_err err = step(h, IG_STEP_BYTE_LEVEL, ig_hf_true(j, "add_prefix_space", 1) ? 1u : 0u,
                           "", 0, "", 0, path);
    if (!err && ig_hf_true(j, "use_regex", 1)) err = split_fixed(h, gpt2, IG_SPLIT_ISOLATED, path);
    h->b.head.flags |= IG_TOK_BYTE_LEVEL;
    return err;
}

static enum ig_err metaspace_step(struct ig_hf *h, const json_t *j, const char *path)
{
    static const char *const name[] = { "never", "first", "always" };
    const json_t *rep = json_object_get(j, "replacement");
    const char *scheme = json_string_value(json_object_get(j, "prepend_scheme"));
    uint32_t arg = ig_hf_true(j, "add_prefix_space", 1) ? IG_META_ALWAYS : IG_META_NEVER;
    char sub[160];
    for (uint32_t i = 0; scheme && i < 3; i++)
        if (!strcmp(scheme, name[i])) arg = i;
    snprintf(sub, sizeof sub, "%s.replacement", path);
    if (!json_is_string(rep) || json_string_length(rep) == 0 || json_string_length(rep) > 4)
        return ig_hf_want(h, sub, "one character", rep);
    if (ig_hf_true(j, "split", 1)) arg |= IG_META_SPLIT;
    return step(h, IG_STEP_METASPACE, arg, json_string_value(rep), json_string_length(rep), "", 0,
                path);
}

enum ig_err ig_hf_pre_tokenizer(struct ig_hf *h, const json_t *j, const char *path)
{
    if (!j || json_is_null(j)) return IG_OK;
    if (is_type(j, "Sequence")) return each(h, j, path, "pretokenizers", ig_hf_pre_tokenizer);
    if (h->b.head.flags & IG_TOK_BYTE_LEVEL)
        return ig_hf_want(h, path, "ByteLevel as the last step", json_object_get(j, "type"));
    if (is_type(j, "Split")) return split_step(h, j, path);
    if (is_type(j, "ByteLevel")) return byte_level(h, j, path);
    if (is_type(j, "Digits"))
        return split_fixed(h, ig_hf_true(j, "individual_digits", 0) ? "\\p{N}" : "\\p{N}+",
                           IG_SPLIT_ISOLATED, path);
    if (is_type(j, "Punctuation")) {
        const int how = json_object_get(j, "behavior") ? behaviour(j) : IG_SPLIT_ISOLATED;
        char sub[160];
        snprintf(sub, sizeof sub, "%s.behavior", path);
        if (how < 0) return ig_hf_want(h, sub, "a behavior", json_object_get(j, "behavior"));
        return split_fixed(h, "[\\p{P}$+<=>^`|~]", (uint32_t)how, path);
    }
    if (is_type(j, "Whitespace"))
        return split_fixed(h, "\\w+|[^\\w\\s]+", IG_SPLIT_REMOVED | IG_SPLIT_INVERT, path);
    if (is_type(j, "WhitespaceSplit")) return split_fixed(h, "\\s", IG_SPLIT_REMOVED, path);
    if (is_type(j, "Metaspace")) return metaspace_step(h, j, path);
    return unknown(h, j, path,
                   "Split, ByteLevel, Digits, Punctuation, Whitespace, WhitespaceSplit, Metaspace "
                   "or Sequence");
}

/* -- decoder */
static enum ig_err decoder_replace(struct ig_hf *h, const char *from, const char *to,
                                   const json_t *j, const char *path)
{
    if (!from || !from[0] || !to || strlen(to) > 64 || h->n_replace == 4)
        return ig_hf_want(h, path, "at most four Replace of a String by text", j);
    h->replace[h->n_replace].from = from;
    h->replace[h->n_replace++].to = to;
    return IG_OK;
}

enum ig_err ig_hf_decoder(struct ig_hf *h, const json_t *j, const char *path)
{
    if (is_type(j, "Sequence")) return each(h, j, path, "decoders", ig_hf_decoder);
    if (is_type(j, "Fuse")) return IG_OK; /* pieces are joined as they are */
    if (is_type(j, "ByteLevel")) {
        h->byte_level = 1;
        return IG_OK;
    }
    if (is_type(j, "ByteFallback")) {
        h->byte_tokens = 1;
        return IG_OK;
    }
    if (is_type(j, "Replace")) {
        int literal;
        size_t n;
        const char *from = pattern_of(j, &literal, &n);
        return decoder_replace(h, literal ? from : NULL,
                               json_string_value(json_object_get(j, "content")), j, path);
    }
    if (is_type(j, "Metaspace")) {
        const char *scheme = json_string_value(json_object_get(j, "prepend_scheme"));
        if (scheme ? strcmp(scheme, "never") != 0 : ig_hf_true(j, "add_prefix_space", 1))
            h->b.head.flags |= IG_TOK_STRIP_SPACE;
        return decoder_replace(h, json_string_value(json_object_get(j, "replacement")), " ", j,
                               path);
    }
    if (is_type(j, "Strip")) {
        const char *c = json_string_value(json_object_get(j, "content"));
        if (!c || strcmp(c, " ") != 0 || json_integer_value(json_object_get(j, "start")) != 1 ||
            json_integer_value(json_object_get(j, "stop")) != 0)
            return ig_hf_want(h, path, "one leading space", j);
        h->b.head.flags |= IG_TOK_STRIP_SPACE;
        return IG_OK;
    }
    return unknown(h, j, path,
                   "ByteLevel, Metaspace, Replace, ByteFallback, Fuse, Strip or "
                   "Sequence");
}

/* -- post-processor: what surrounds a text */
static enum ig_err template_ids(struct ig_hf *h, const json_t *j, const json_t *item,
                                const char *path, int after)
{
    const char *name =
        json_string_value(json_object_get(json_object_get(item, "SpecialToken"), "id"));
    const json_t *ids = json_object_get(
        json_object_get(json_object_get(j, "special_tokens"), name ? name : ""), "ids");
    if (!name || !json_is_array(ids))
        return ig_hf_want(h, path, "SpecialToken with its ids in special_tokens", item);
    for (size_t i = 0; i < json_array_size(ids); i++) {
        const json_t *v = json_array_get(ids, i);
        if (!json_is_integer(v) || json_integer_value(v) < 0 ||
            json_integer_value(v) >= (json_int_t)h->b.key.n)
            return ig_hf_want(h, path, "an id of the vocabulary", v);
        const int32_t id = (int32_t)json_integer_value(v);
        if (after ? !IG_PUSH(h->b.suffix, id) : !IG_PUSH(h->b.prefix, id)) return no_mem(h);
    }
    return IG_OK;
}

static enum ig_err template_step(struct ig_hf *h, const json_t *j, const char *path)
{
    const json_t *single = json_object_get(j, "single");
    char sub[160];
    int after = 0;
    snprintf(sub, sizeof sub, "%s.single", path);
    if (!json_is_array(single) || json_array_size(single) > 64)
        return ig_hf_want(h, sub, "an array", single);
    for (size_t i = 0; i < json_array_size(single); i++) {
        const json_t *item = json_array_get(single, i);
        if (json_object_get(item, "Sequence")) {
            after = 1;
            continue;
        }
        snprintf(sub, sizeof sub, "%s.single[%zu]", path, i);
        const enum ig_err err = template_ids(h, j, item, sub, after);
        if (err) return err;
    }
    return IG_OK;
}

enum ig_err ig_hf_post_processor(struct ig_hf *h, const json_t *j, const char *path)
{
    if (!j || json_is_null(j)) return IG_OK;
    if (is_type(j, "Sequence")) return each(h, j, path, "processors", ig_hf_post_processor);
    if (is_type(j, "ByteLevel")) return IG_OK; /* offsets only */
    if (is_type(j, "TemplateProcessing")) return template_step(h, j, path);
    return unknown(h, j, path, "TemplateProcessing, ByteLevel or Sequence");
}
