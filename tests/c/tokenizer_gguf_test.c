/* Tokenizers from GGUF metadata: the same ids, and metadata that lies. */
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

/* The same tokenizer through GGUF's view of it: the same ids. */
static void gguf_byte_level(void **state)
{
    enum { N = 4096 };
    static const char *token[N], *merge[N];
    static uint32_t token_bytes[N], merge_bytes[N];
    static int32_t type[N];
    json_t *j = read_json(TOK_DATA "tiny-tokenizer.json"), *v;
    json_t *model = json_object_get(j, "model"), *g = read_json(TOK_DATA "strings.json"), *c;
    const char *key;
    size_t i, n;
    struct ig_tok_gguf view = { .model = "gpt2",
                                .pre = "llama-bpe",
                                .n_vocab = N,
                                .token = token,
                                .token_bytes = token_bytes,
                                .type = type,
                                .merge = merge,
                                .merge_bytes = merge_bytes,
                                .bos = 0,
                                .eos = 1,
                                .eot = 4,
                                .unk = -1,
                                .pad = -1,
                                .add_bos = -1,
                                .add_eos = -1,
                                .space_prefix = -1,
                                .trim_spaces = -1,
                                .chat_template = "x" };
    (void)state;
    json_object_foreach(json_object_get(model, "vocab"), key, v)
    {
        i = (size_t)json_integer_value(v);
        token[i] = key;
        token_bytes[i] = (uint32_t)strlen(key);
        type[i] = i < 5 ? 3 : 1;
    }
    json_array_foreach(json_object_get(model, "merges"), i, v)
    {
        char *text = NULL;
        merge_bytes[i] = (uint32_t)asprintf(&text, "%s %s", json_string_value(json_array_get(v, 0)),
                                            json_string_value(json_array_get(v, 1)));
        merge[i] = text;
    }
    view.n_merge = (uint32_t)i;
    const struct tok k = make_gguf(&view);
    json_array_foreach(json_object_get(g, "encode"), i, c)
    {
        const char *text = text_of(c, "text", &n);
        encode_is(k, text, n, 1, 0, json_object_get(c, "ids"));
        encode_is(k, text, n, 1, 1, json_object_get(c, "ids_with_bos"));
        text = text_of(c, "decoded", &n);
        decode_is(k, json_object_get(c, "ids"), 1, text, n);
    }
    assert_true(ig_tok_is_end(k.t, 1) && ig_tok_is_end(k.t, 4));
    assert_string_equal(ig_tok_special_text(k.t, "bos_token"), "<s>");
    assert_string_equal(ig_tok_chat_template(k.t), "x");
    free_tok(k);
    for (i = 0; i < view.n_merge; i++) free((void *)(uintptr_t)merge[i]);
    json_decref(j);
    json_decref(g);
}

static const char *const spm_token[] = { "<unk>",
                                         "<s>",
                                         "</s>",
                                         "<0xE4>",
                                         "<0xBD>",
                                         "<0xA0>",
                                         "\xe2\x96\x81",
                                         "a",
                                         "b",
                                         "ab",
                                         "\xe2\x96\x81"
                                         "ab",
                                         "ba",
                                         "<tool>" };
enum { N_SPM = sizeof spm_token / sizeof *spm_token };
static uint32_t spm_bytes[N_SPM];
static int32_t spm_type[N_SPM] = { 2, 3, 3, 6, 6, 6, 1, 1, 1, 1, 1, 1, 4 };
static float spm_score[N_SPM] = { 0, 0, 0, 0, 0, 0, -1, -2, -3, -5, -6, -4, 0 };

static struct ig_tok_gguf spm_view(void)
{
    for (int i = 0; i < N_SPM; i++) spm_bytes[i] = (uint32_t)strlen(spm_token[i]);
    return (struct ig_tok_gguf){ .model = "llama",
                                 .n_vocab = N_SPM,
                                 .token = spm_token,
                                 .token_bytes = spm_bytes,
                                 .type = spm_type,
                                 .score = spm_score,
                                 .bos = 1,
                                 .eos = 2,
                                 .eot = -1,
                                 .unk = 0,
                                 .pad = -1,
                                 .add_bos = -1,
                                 .add_eos = -1,
                                 .space_prefix = -1,
                                 .trim_spaces = -1 };
}

static void gguf_sentencepiece(void **state)
{
    static const struct {
        const char *text, *ids, *back;
    } want[] = { { "ab", "[1,10]", "ab" },
                 { "abab", "[1,6,7,11,8]", "abab" }, /* "ba" has the better score */
                 { " ab", "[1,6,10]", " ab" },
                 { "\xe4\xbd\xa0", "[1,6,3,4,5]", "\xe4\xbd\xa0" },
                 { "zz", "[1,6,0]", " \xe2\x81\x87 " },
                 { "</s>a", "[1,2,6,7]", "a" },
                 { "a<tool>b", "[1,6,7,12,6,8]", "a<tool> b" },
                 { "", "[1]", "" } };
    const struct ig_tok_gguf view = spm_view();
    const struct tok k = make_gguf(&view);
    (void)state;
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        json_t *ids = json_loads(want[i].ids, 0, NULL);
        encode_is(k, want[i].text, strlen(want[i].text), 1, 1, ids);
        decode_is(k, ids, 0, want[i].back, strlen(want[i].back));
        json_decref(ids);
    }
    json_t *ids = json_loads("[6,0]", 0, NULL); /* a tool's frame in a person's text stays text */
    encode_is(k, "<tool>", 6, 0, 0, ids);
    json_decref(ids);
    free_tok(k);
}

/* A user's own tokens in SentencePiece's unigram model, and unknown ones: what sentencepiece 0.2.3
 * makes of these pieces (scores -1, add_dummy_prefix, remove_extra_whitespaces). */
static void gguf_user_tokens(void **state)
{
    enum { N = 10 };
    static const char *const token[N] = { "<unk>",     "<s>", "</s>",  "\xe2\x96\x81", "a", "x",
                                          "\xc3\xa9!", " x ", "<sep>", "\xe2\x96\x81u" };
    static const int32_t type[N] = { 2, 3, 3, 1, 1, 1, 4, 4, 4, 4 };
    static const float score[N] = { 0, 0, 0, -1, -1, -1 };
    static const struct {
        const char *text, *ids, *back;
    } want[] = { { "<sep>a", "[3,8,4]", "<sep>a" },
                 { "a <sep> a", "[3,4,3,8,3,4]", "a <sep> a" },
                 { "<sep>", "[3,8]", "<sep>" },
                 { "  <sep>  a", "[3,8,3,4]", "<sep> a" },
                 { "\xc3\xa9!a", "[3,6,4]", "\xc3\xa9!a" },
                 { "a x a", "[3,4,3,5,3,4]", "a x a" }, /* normalised, " x " has no spaces */
                 { " x ", "[3,5]", "x" },
                 { "a \xe2\x96\x81u", "[3,4,3,9]", "a  u" },
                 { "a ua", "[3,4,9,4]", "a ua" },
                 { "zz a", "[3,0,3,4]", " \xe2\x81\x87  a" } };
    static const struct {
        const char *ids, *text;
    } decoded[] = { { "[3,3,4]", "a" },
                    { "[3,9,4]", "ua" },
                    { "[1,4,2]", "a" },
                    { "[0,4]", " \xe2\x81\x87 a" },
                    { "[0,3,4,0,0]", " \xe2\x81\x87  a \xe2\x81\x87  \xe2\x81\x87 " } };
    uint32_t bytes[N];
    struct ig_tok_gguf g = spm_view();
    (void)state;
    for (int i = 0; i < N; i++) bytes[i] = (uint32_t)strlen(token[i]);
    g.model = "t5", g.n_vocab = N, g.token = token, g.token_bytes = bytes, g.type = type;
    g.score = score, g.space_prefix = g.trim_spaces = 1;
    const struct tok k = make_gguf(&g);
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        json_t *ids = json_loads(want[i].ids, 0, NULL);
        encode_is(k, want[i].text, strlen(want[i].text), 1, 0, ids);
        decode_is(k, ids, 0, want[i].back, strlen(want[i].back));
        json_decref(ids);
    }
    for (size_t i = 0; i < sizeof decoded / sizeof *decoded; i++) {
        json_t *ids = json_loads(decoded[i].ids, 0, NULL);
        decode_is(k, ids, 0, decoded[i].text, strlen(decoded[i].text));
        json_decref(ids);
    }
    json_t *ids = json_loads("[3,0]", 0, NULL); /* a person's text makes no frame */
    encode_is(k, "<sep>", 5, 0, 0, ids);
    json_decref(ids);
    free_tok(k);
}

/* tokenizer.ggml.add_space_prefix false: the text as it is. */
static void gguf_without_space_prefix(void **state)
{
    struct ig_tok_gguf view = spm_view();
    view.space_prefix = 0;
    const struct tok k = make_gguf(&view);
    (void)state;
    json_t *ids = json_loads("[1,9]", 0, NULL);
    encode_is(k, "ab", 2, 1, 1, ids);
    json_decref(ids);
    ids = json_loads("[1,6,7]", 0, NULL); /* and a leading space comes back */
    encode_is(k, " a", 2, 1, 1, ids);
    decode_is(k, ids, 0, " a", 2);
    json_decref(ids);
    free_tok(k);
}

static void gguf_fails(const struct ig_tok_gguf *g, const char *field)
{
    struct ig_why why = { "" };
    void *blob;
    size_t bytes;
    if (!ig_tok_compile_gguf(&blob, &bytes, "x.gguf", g, &why))
        fail_msg("compiled, want an error about %s", field);
    assert_null(blob);
    if (!strstr(why.text, field) || !strstr(why.text, "x.gguf"))
        fail_msg("\"%s\" does not say \"%s\"", why.text, field);
}

static void lying_gguf(void **state)
{
    static const char *const merge[] = { "a b", "a", "a zz", " " };
    static const uint32_t merge_bytes[] = { 3, 1, 4, 1 };
    struct ig_tok_gguf g = spm_view();
    int32_t type[N_SPM];
    (void)state;
    g.model = "bert", gguf_fails(&g, "tokenizer.ggml.model: want gpt2, llama or t5, found bert");
    g.model = NULL, gguf_fails(&g, "tokenizer.ggml.model");
    g = spm_view(), g.score = NULL, gguf_fails(&g, "tokenizer.ggml.scores");
    g = spm_view(), g.n_vocab = 0, gguf_fails(&g, "tokenizer.ggml.tokens");
    g = spm_view(), g.n_vocab = 1u << 31, gguf_fails(&g, "tokenizer.ggml.tokens");
    g = spm_view(), g.bos = N_SPM, gguf_fails(&g, "tokenizer.ggml.bos_token_id: want an id below");
    g = spm_view(), g.pad = 1 << 30, gguf_fails(&g, "tokenizer.ggml.padding_token_id");
    memcpy(type, spm_type, sizeof type);
    type[4] = 7;
    g = spm_view(), g.type = type, gguf_fails(&g, "tokenizer.ggml.token_type[4]");
    g = spm_view(), g.model = "gpt2", g.pre = "zork",
    gguf_fails(&g, "tokenizer.ggml.pre: \"zork\" is not supported");
    for (uint32_t i = 1; i < 4; i++) {
        g = spm_view();
        g.model = "gpt2";
        g.n_merge = 1;
        g.merge = merge + i;
        g.merge_bytes = merge_bytes + i;
        gguf_fails(&g, "tokenizer.ggml.merges[0]");
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(gguf_byte_level),  cmocka_unit_test(gguf_sentencepiece),
        cmocka_unit_test(gguf_user_tokens), cmocka_unit_test(gguf_without_space_prefix),
        cmocka_unit_test(lying_gguf),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests_name("tokenizer_gguf", tests, NULL, NULL);
}
