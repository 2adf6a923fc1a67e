/* SentencePiece's precompiled rules: small unigram models, as tokenizer.json and as GGUF, give the
 * ids of tokenizers and of sentencepiece (tests/tokenizer/check.py --small wrote them); maps that
 * lie. */
#include "tok_util.h"

static struct tok make_gguf(const struct ig_tok_gguf *g)
{
    struct tok k = { 0 };
    struct ig_why why = { "" };
    if (ig_tok_compile_gguf(&k.blob, &k.bytes, "x.gguf", g, &why) ||
        ig_tok_load(&k.t, k.blob, k.bytes, 1 << 22, &why))
        fail_msg("%s", why.text);
    return k;
}

static unsigned from_base64(char c)
{
    static const char all[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *at = strchr(all, c);
    return at && c ? (unsigned)(at - all) : 0;
}

static uint32_t decode_base64(const char *p, char *out)
{
    uint32_t n = 0;
    for (; p[0]; p += 4) {
        const unsigned v = from_base64(p[0]) << 18 | from_base64(p[1]) << 12 |
                           from_base64(p[2]) << 6 | from_base64(p[3]);
        out[n++] = (char)(v >> 16);
        if (p[2] != '=') out[n++] = (char)(v >> 8);
        if (p[3] != '=') out[n++] = (char)v;
    }
    return n;
}

enum { MOST = 1000 };
struct arrays {
    const char *token[MOST];
    uint32_t bytes[MOST];
    int32_t type[MOST];
    float score[MOST];
    char map[1 << 16];
};

static struct ig_tok_gguf view_of(json_t *model, struct arrays *a)
{
    json_t *tok = json_object_get(model, "tokenizer"), *step, *v;
    json_t *m = json_object_get(tok, "model"), *types = json_object_get(model, "types");
    size_t i;
    step = json_array_get(json_object_get(json_object_get(tok, "normalizer"), "normalizers"), 0);
    const char *map = json_string_value(json_object_get(step, "precompiled_charsmap"));
    assert_true(json_array_size(types) <= MOST && map && strlen(map) < sizeof a->map);
    json_array_foreach(json_object_get(m, "vocab"), i, v)
    {
        a->token[i] = json_string_value(json_array_get(v, 0));
        a->bytes[i] = (uint32_t)strlen(a->token[i]);
        a->score[i] = (float)json_number_value(json_array_get(v, 1));
        a->type[i] = (int32_t)json_integer_value(json_array_get(types, i));
    }
    return (struct ig_tok_gguf){ .model = "t5",
                                 .n_vocab = (uint32_t)i,
                                 .token = a->token,
                                 .token_bytes = a->bytes,
                                 .type = a->type,
                                 .score = a->score,
                                 .bos = -1,
                                 .eos = 2,
                                 .eot = -1,
                                 .unk = 0,
                                 .pad = -1,
                                 .add_bos = -1,
                                 .add_eos = -1,
                                 .space_prefix =
                                     json_is_true(json_object_get(model, "space_prefix")),
                                 .trim_spaces = json_is_true(json_object_get(model, "trim_spaces")),
                                 .charsmap = a->map,
                                 .charsmap_bytes = decode_base64(map, a->map) };
}

static void same_as_references(void **state)
{
    static struct arrays a;
    json_t *all = read_json(TOK_DATA "charsmap.json"), *model, *c;
    size_t i, k, n, cases = 0;
    (void)state;
    json_array_foreach(json_object_get(all, "models"), i, model)
    {
        char *json = json_dumps(json_object_get(model, "tokenizer"), JSON_COMPACT);
        const struct ig_tok_gguf view = view_of(model, &a);
        const struct tok hf = make_tok(json, strlen(json), NULL, NULL), spm = make_gguf(&view);
        json_array_foreach(json_object_get(model, "cases"), k, c)
        {
            const char *text = text_of(c, "text", &n);
            encode_is(hf, text, n, 1, 1, json_object_get(c, "ids"));
            encode_is(spm, text, n, 0, 0, json_object_get(c, "spm"));
            text = text_of(c, "decoded", &n);
            decode_is(hf, json_object_get(c, "ids"), 0, text, n);
            cases++;
        }
        free_tok(hf);
        free_tok(spm);
        free(json);
    }
    assert_true(i == 3 && cases > 100);
    json_decref(all);
}

/* GGUF's kind "t5" ends a text with the end token unless told otherwise, and starts it with none.
 */
static void ends_of_text(void **state)
{
    static struct arrays a;
    json_t *all = read_json(TOK_DATA "charsmap.json");
    json_t *want = json_loads("[2]", 0, NULL), *none = json_array();
    struct ig_tok_gguf view = view_of(json_array_get(json_object_get(all, "models"), 0), &a);
    (void)state;
    struct tok k = make_gguf(&view);
    encode_is(k, "", 0, 1, 1, want);
    free_tok(k);
    view.add_eos = 0;
    k = make_gguf(&view);
    encode_is(k, "", 0, 1, 1, none);
    free_tok(k);
    json_decref(want);
    json_decref(none);
    json_decref(all);
}

/* A mark travels with what a rule makes of it: no control token comes out of a person's text. */
static void rules_make_no_control_token(void **state)
{
    static struct arrays a;
    json_t *all = read_json(TOK_DATA "charsmap.json");
    const struct ig_tok_gguf view = view_of(json_array_get(json_object_get(all, "models"), 0), &a);
    const struct tok k = make_gguf(&view);
    static const char text[] = "</s>\xe3\x80\x80</s>";
    struct ig_why why;
    int32_t *ids;
    size_t n;
    (void)state;
    assert_int_equal(ig_tok_encode(k.t, text, strlen(text), 0, 0, &ids, &n, &why), IG_OK);
    for (size_t i = 0; i < n; i++) assert_int_not_equal(ids[i], 2);
    free(ids);
    free_tok(k);
    json_decref(all);
}

static void put_u32(char *p, uint32_t v) { memcpy(p, &v, sizeof v); }

static void maps_that_lie(void **state)
{
    static const struct {
        const char *what, *why;
        uint32_t trie, unit; /* the head's word, the one unit */
        size_t bytes;
        const char *to; /* behind the unit */
        size_t to_bytes;
    } bad[] = {
        { "no head", "found one of 0 bytes", 4, 0, 3, "a", 2 },
        { "no trie", "found one of 0 bytes", 0, 0, 10, "a", 2 },
        { "half a unit", "found one of 3 bytes", 3, 0, 10, "a", 2 },
        { "a trie that is longer", "found one of 8 bytes", 8, 0, 10, "a", 2 },
        { "a trie near 2^32", "found one of 4294967292 bytes", 0xfffffffc, 0, 10, "a", 2 },
        { "nothing behind it", "that end with NUL", 4, 0, 8, "", 0 },
        { "no NUL", "that end with NUL", 4, 0, 9, "a", 1 },
        { "no UTF-8", "that end with NUL", 4, 0, 10, "\xe9", 2 },
        { "a replacement outside", "below 2, found 2", 4, 0x80000002, 10, "a", 2 },
        { "half a character", "below 3, found 1", 4, 0x80000001, 11, "\xc3\xa9", 3 },
    };
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char map[32] = { 0 };
        struct ig_why why = { "" };
        put_u32(map, bad[i].trie);
        put_u32(map + 4, bad[i].unit);
        memcpy(map + 8, bad[i].to, bad[i].to_bytes);
        if (ig_charsmap_check(map, bad[i].bytes, &why) != IG_BAD_FILE)
            fail_msg("%s passed", bad[i].what);
        if (!strstr(why.text, bad[i].why)) fail_msg("%s: %s", bad[i].what, why.text);
    }
}

static void long_replacements(void **state)
{
    static char map[8 + 1026];
    struct ig_why why;
    (void)state;
    put_u32(map, 4);
    put_u32(map + 4, 0);
    memset(map + 8, 'a', 1024);
    assert_int_equal(ig_charsmap_check(map, 8 + 1025, &why), IG_OK);
    map[8 + 1024] = 'a';
    assert_int_equal(ig_charsmap_check(map, sizeof map, &why), IG_BAD_FILE);
    assert_non_null(strstr(why.text, "at most 1024 bytes"));
}

/* Tries whose ways lead outside, or round in a circle, or to no leaf: no rule, and no harm. */
static void tries_that_lead_nowhere(void **state)
{
    static const uint32_t unit[][2] = { { 0xffffffff & ~0x80000000u, 0 },
                                        { 'a' << 10, 0x7fffffff },
                                        { ('a' ^ 1) << 10, 'a' | 0x100 | 1 << 10 },
                                        { ('a' ^ 1) << 10, 'a' | 0x100 | 0x7ffffe00 },
                                        { ('a' ^ 1) << 10, 'a' } };
    static struct arrays a;
    json_t *all = read_json(TOK_DATA "charsmap.json");
    struct ig_tok_gguf view = view_of(json_array_get(json_object_get(all, "models"), 0), &a);
    (void)state;
    for (size_t i = 0; i < sizeof unit / sizeof *unit; i++) {
        char map[16] = { 0 };
        struct ig_why why;
        int32_t *ids;
        size_t n;
        put_u32(map, 8);
        put_u32(map + 4, unit[i][0]);
        put_u32(map + 8, unit[i][1]);
        memcpy(map + 12, "x", 2);
        view.charsmap = map;
        view.charsmap_bytes = 14;
        const struct tok k = make_gguf(&view);
        assert_int_equal(ig_tok_encode(k.t, "aaaa", 4, 0, 0, &ids, &n, &why), IG_OK);
        assert_true(n >= 1);
        free(ids);
        free_tok(k);
    }
    json_decref(all);
}

static void json_without_a_map(void **state)
{
    static const char *const map[] = { "null",     "\"\"",     "7",       "\"AAA\"",
                                       "\"A=AA\"", "\"AAA*\"", "\"AAAA\"" };
    (void)state;
    for (size_t i = 0; i < sizeof map / sizeof *map; i++) {
        char json[400];
        struct ig_why why = { "" };
        void *blob;
        size_t n;
        snprintf(
            json, sizeof json,
            "{\"normalizer\":{\"type\":\"Precompiled\",\"precompiled_charsmap\":%s},\"decoder\":"
            "{\"type\":\"Metaspace\",\"replacement\":\"_\"},\"model\":{\"type\":\"Unigram\","
            "\"unk_id\":0,\"vocab\":[[\"u\",0]]}}",
            map[i]);
        assert_int_equal(
            ig_tok_compile_hf(&blob, &n, "t.json", json, strlen(json), NULL, 0, NULL, 0, &why),
            IG_BAD_FILE);
        if (!strstr(why.text, "t.json: normalizer") || !strstr(why.text, "precompiled_charsmap"))
            fail_msg("%s: %s", map[i], why.text);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_as_references),          cmocka_unit_test(ends_of_text),
        cmocka_unit_test(rules_make_no_control_token), cmocka_unit_test(maps_that_lie),
        cmocka_unit_test(long_replacements),           cmocka_unit_test(tries_that_lead_nowhere),
        cmocka_unit_test(json_without_a_map),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests_name("charsmap", tests, NULL, NULL);
}
