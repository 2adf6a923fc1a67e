/* tok_util.h -- files, tokenizers and ids for the tokenizer's and the templates' tests.
 *
 * Tests run in the repository's root.
 */
#ifndef TOK_UTIL_H
#define TOK_UTIL_H

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tokenizer.h"

#define TOK_DATA "tests/golden/tokenizer/"

struct tok {
    struct ig_tokenizer *t;
    void *blob;
    size_t bytes;
};

static inline char *read_file(const char *path, size_t *n)
{
    FILE *f = fopen(path, "rb");
    if (!f) fail_msg("%s: cannot open (run from the repository's root)", path);
    fseek(f, 0, SEEK_END);
    *n = (size_t)ftell(f);
    rewind(f);
    char *p = malloc(*n + 1);
    assert_non_null(p);
    assert_int_equal(fread(p, 1, *n, f), *n);
    p[*n] = 0;
    fclose(f);
    return p;
}

static inline json_t *read_json(const char *path)
{
    size_t n;
    char *text = read_file(path, &n);
    json_t *j = json_loadb(text, n, JSON_ALLOW_NUL, NULL);
    free(text);
    assert_non_null(j);
    return j;
}

static inline struct tok make_tok(const char *json, size_t n, const char *config,
                                  const char *generation)
{
    struct tok k = { 0 };
    struct ig_why why = { "" };
    if (ig_tok_compile_hf(&k.blob, &k.bytes, "tokenizer.json", json, n, config,
                          config ? strlen(config) : 0, generation,
                          generation ? strlen(generation) : 0, &why) ||
        ig_tok_load(&k.t, k.blob, k.bytes, 1 << 22, &why))
        fail_msg("%s", why.text);
    return k;
}

static inline struct tok tiny_tok(void)
{
    size_t n[3];
    char *f[3] = { read_file(TOK_DATA "tiny-tokenizer.json", &n[0]),
                   read_file(TOK_DATA "tiny-tokenizer_config.json", &n[1]),
                   read_file(TOK_DATA "tiny-generation_config.json", &n[2]) };
    const struct tok k = make_tok(f[0], n[0], f[1], f[2]);
    for (int i = 0; i < 3; i++) free(f[i]);
    return k;
}

static inline void free_tok(struct tok k)
{
    ig_tok_free(k.t);
    free(k.blob);
}

static inline void check_ids(const char *what, const int32_t *ids, size_t n, const json_t *want)
{
    int same = n == json_array_size(want);
    for (size_t i = 0; i < n && same; i++)
        same = ids[i] == json_integer_value(json_array_get(want, i));
    if (!same) {
        char *text = json_dumps(want, JSON_COMPACT);
        print_message("# want %s\n# got  [", text);
        for (size_t i = 0; i < n; i++) print_message("%d,", ids[i]);
        print_message("]\n");
        free(text);
        fail_msg("other ids for \"%.200s\"", what);
    }
}

static inline const char *text_of(const json_t *j, const char *key, size_t *n)
{
    const json_t *v = json_object_get(j, key);
    assert_true(json_is_string(v));
    *n = json_string_length(v);
    return json_string_value(v);
}

static inline void encode_is(struct tok k, const char *text, size_t n, int special, int bos,
                             const json_t *want)
{
    struct ig_why why = { "" };
    int32_t *ids;
    size_t n_ids;
    if (ig_tok_encode(k.t, text, n, special, bos, &ids, &n_ids, &why)) fail_msg("%s", why.text);
    check_ids(text, ids, n_ids, want);
    free(ids);
}

static inline int32_t *ids_of(const json_t *list, size_t *n)
{
    *n = json_array_size(list);
    int32_t *ids = malloc((*n + 1) * sizeof *ids);
    assert_non_null(ids);
    for (size_t i = 0; i < *n; i++) ids[i] = (int32_t)json_integer_value(json_array_get(list, i));
    return ids;
}

static inline void decode_is(struct tok k, const json_t *list, int special, const char *want,
                             size_t n)
{
    struct ig_why why = { "" };
    char *text;
    size_t bytes, n_ids;
    int32_t *ids = ids_of(list, &n_ids);
    assert_int_equal(ig_tok_decode(k.t, ids, n_ids, special, &text, &bytes, &why), IG_OK);
    if (bytes != n || memcmp(text, want, n) != 0)
        fail_msg("decoded \"%s\", want \"%s\"", text, want);
    if (!special) { /* token by token is the same */
        struct ig_tok_stream s = { 0 };
        char *out = malloc(4096 + 64 * (n_ids + 1));
        size_t used = 0;
        assert_non_null(out);
        for (size_t i = 0; i < n_ids; i++)
            used += ig_tok_stream_push(&s, k.t, ids[i], out + used, 4096);
        used += ig_tok_stream_end(&s, out + used, 16);
        assert_int_equal(used, n);
        assert_memory_equal(out, want, n);
        free(out);
    }
    free(text);
    free(ids);
}

#endif
