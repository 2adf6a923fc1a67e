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

#endif
