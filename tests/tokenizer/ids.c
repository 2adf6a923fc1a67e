/* ids.c -- texts to ids and back, for tests/tokenizer/check.py.
 *
 *   ids FILE.gguf | FOLDER/tokenizer.json
 *
 * Standard input: JSON objects, one a line: text, special (control tokens are read), around (what
 * the post-processor adds).  For each a line: {"ids": [...], "text": ..., "plain": ...}, the text
 * decoded with and without special tokens.
 */
#include "gguf.h"
#include "tokenizer.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static json_t *decoded(const struct ig_tokenizer *t, const int32_t *ids, size_t n, int special)
{
    struct ig_why why;
    char *text = NULL;
    size_t bytes = 0;
    if (ig_tok_decode(t, ids, n, special, &text, &bytes, &why)) return NULL;
    json_t *out = json_stringn(text, bytes);
    free(text);
    return out;
}

static json_t *answer(const struct ig_tokenizer *t, const json_t *line)
{
    struct ig_why why;
    int32_t *ids = NULL;
    size_t n = 0;
    const json_t *text = json_object_get(line, "text");
    if (ig_tok_encode(t, json_string_value(text), json_string_length(text),
                      json_is_true(json_object_get(line, "special")),
                      json_is_true(json_object_get(line, "around")), &ids, &n, &why))
        return json_pack("{s:s}", "error", why.text);
    json_t *list = json_array(), *out;
    for (size_t i = 0; i < n; i++) json_array_append_new(list, json_integer(ids[i]));
    out = json_pack("{s:o,s:o,s:o}", "ids", list, "text", decoded(t, ids, n, 1), "plain",
                    decoded(t, ids, n, 0));
    free(ids);
    return out;
}

static char *slurp(const char *path, size_t *n)
{
    FILE *f = fopen(path, "rb");
    char *p = NULL;
    *n = 0;
    for (size_t room = 1 << 16; f; room *= 2) {
        p = realloc(p, room);
        if (!p) return NULL;
        *n += fread(p + *n, 1, room - *n, f);
        if (*n < room) break;
    }
    if (f) fclose(f);
    return p;
}

static enum ig_err load(const char *path, void **blob, struct ig_tokenizer **t, struct ig_why *why)
{
    static struct ig_gguf g;
    struct ig_tok_gguf view;
    size_t n = 0, bytes = 0;
    enum ig_err err;
    const char *dot = strrchr(path, '.');
    if (dot && !strcmp(dot, ".gguf")) {
        err = ig_gguf_open(&g, path, why);
        if (!err) err = ig_gguf_tokenizer(&g, &view, why);
        if (!err) err = ig_tok_compile_gguf(blob, &bytes, path, &view, why);
    } else {
        char *json = slurp(path, &n);
        err = ig_tok_compile_hf(blob, &bytes, path, json, n, NULL, 0, NULL, 0, why);
        free(json);
    }
    return err ? err : ig_tok_load(t, *blob, bytes, 1u << 22, why);
}

int main(int argc, char **argv)
{
    struct ig_tokenizer *t = NULL;
    struct ig_why why = { "usage: ids FILE" };
    void *blob = NULL;
    char *line = NULL;
    size_t room = 0;

    if (argc != 2 || load(argv[1], &blob, &t, &why)) {
        fprintf(stderr, "%s\n", why.text);
        return 1;
    }
    while (getline(&line, &room, stdin) > 0) {
        json_t *in = json_loads(line, JSON_ALLOW_NUL, NULL), *out = in ? answer(t, in) : NULL;
        if (!out) return 1;
        json_dumpf(out, stdout, JSON_COMPACT);
        putchar('\n');
        json_decref(out);
        json_decref(in);
    }
    free(line);
    ig_tok_free(t);
    free(blob);
    return 0;
}
