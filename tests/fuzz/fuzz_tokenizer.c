/* tokenizer.json, blobs and SentencePiece's rules that nobody meant: an error or a working
 * tokenizer, never a crash.
 *
 * The first byte by 3: 0, the rest is tokenizer.json; 1, a blob; 2, rules for a GGUF vocabulary.
 */
#include "tokenizer.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);
size_t fuzz_seed(int i, uint8_t *out, size_t room);

static const char *const seeds[] = {
    "{\"added_tokens\":[{\"id\":4,\"content\":\"<s>\",\"special\":true}],\"normalizer\":{\"type\":"
    "\"NFC\"},\"pre_tokenizer\":{\"type\":\"ByteLevel\"},\"post_processor\":{\"type\":"
    "\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"<s>\"}},{\"Sequence\":{}}],"
    "\"special_tokens\":{\"<s>\":{\"ids\":[4]}}},\"decoder\":{\"type\":\"ByteLevel\"},\"model\":{"
    "\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"ab\":2,\"c\":3},\"merges\":[\"a b\"]}}",
    "{\"added_tokens\":[],\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":"
    "\"Split\",\"pattern\":{\"Regex\":\"\\\\p{L}+|[^\\\\s]{1,3}+|\\\\s+(?!\\\\S)\"},\"behavior\":"
    "\"MergedWithNext\"},{\"type\":\"Digits\"},{\"type\":\"ByteLevel\",\"use_regex\":false}]},"
    "\"decoder\":{\"type\":\"ByteLevel\"},\"model\":{\"vocab\":{\"a\":0},\"merges\":[]}}",
    "{\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Prepend\",\"prepend\":"
    "\"_\"},{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"_\"}]},\"decoder\":"
    "{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"ByteFallback\"},{\"type\":\"Strip\","
    "\"content\":\" "
    "\",\"start\":1,\"stop\":0}]},\"model\":{\"type\":\"BPE\",\"byte_fallback\":true,"
    "\"unk_token\":\"u\",\"vocab\":{\"u\":0,\"_\":1,\"<0x61>\":2,\"b\":3,\"_b\":4},\"merges\":"
    "[[\"_\",\"b\"]]}}",
    "{\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"_\",\"prepend_scheme\":\"first\"}"
    ","
    "\"decoder\":{\"type\":\"Metaspace\",\"replacement\":\"_\"},\"model\":{\"type\":\"Unigram\","
    "\"unk_id\":0,\"vocab\":[[\"u\",0],[\"_a\",-1.5],[\"a\",-2],[\"ab\",-2.5]]}}",
};

static void use(const void *blob, size_t bytes)
{
    static const char text[] = "ab <s>c_ a1\xcc\x81\xff \xc3\xa9  e\xcc\x81\n";
    struct ig_why why;
    struct ig_tokenizer *t;
    struct ig_tok_stream s = { 0 };
    int32_t *ids;
    char *back;
    size_t n, back_n;
    if (ig_tok_load(&t, blob, bytes, 1u << 22, &why)) return;
    if (!ig_tok_encode(t, text, sizeof text - 1, 1, 1, &ids, &n, &why)) {
        if (!ig_tok_decode(t, ids, n, 1, &back, &back_n, &why)) free(back);
        for (size_t i = 0; i < n; i++) {
            size_t piece;
            ig_tok_piece(t, ids[i], 1, &piece);
            char *out = malloc(3 * piece + 16);
            if (out) ig_tok_stream_push(&s, t, ids[i], out, 3 * piece + 16);
            free(out);
        }
        free(ids);
    }
    ig_tok_free(t);
}

/* A small unigram vocabulary with these rules. */
static void use_rules(const char *map, size_t bytes, int flags)
{
    static const char *const token[] = { "u", "</s>",  "\xe2\x96\x81", "a", "\xe2\x96\x81x",
                                         "z", "<0xC3>" };
    static const uint32_t token_bytes[] = { 1, 4, 3, 1, 4, 1, 6 };
    static const int32_t type[] = { 2, 3, 1, 4, 1, 1, 6 };
    static const float score[] = { 0, 0, -1, 0, -2, -3, 0 };
    const struct ig_tok_gguf view = { .model = "t5",
                                      .n_vocab = 7,
                                      .token = token,
                                      .token_bytes = token_bytes,
                                      .type = type,
                                      .score = score,
                                      .bos = -1,
                                      .eos = 1,
                                      .eot = -1,
                                      .unk = 0,
                                      .pad = -1,
                                      .add_bos = -1,
                                      .add_eos = -1,
                                      .space_prefix = flags & 1,
                                      .trim_spaces = flags >> 1 & 1,
                                      .charsmap = map,
                                      .charsmap_bytes = (uint32_t)bytes };
    struct ig_why why;
    void *blob;
    size_t n;
    if (ig_tok_compile_gguf(&blob, &n, "x.gguf", &view, &why)) return;
    use(blob, n);
    free(blob);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct ig_why why;
    void *blob;
    size_t n;
    if (bytes < 1) return 0;
    char *copy = malloc(bytes); /* a blob is 8-byte aligned, and ends where it ends */
    if (!copy) return 0;
    memcpy(copy, data + 1, bytes - 1);
    if (data[0] % 3 == 2) {
        use_rules(copy, bytes - 1, data[0] / 3);
    } else if (data[0] % 3 == 1) {
        use(copy, bytes - 1);
    } else if (!ig_tok_compile_hf(&blob, &n, "tokenizer.json", copy, bytes - 1, NULL, 0, NULL, 0,
                                  &why)) {
        use(blob, n);
        free(blob);
    }
    free(copy);
    return 0;
}

/* A trie of "a", "ab", "\xc3\xa9" and " "; what is not here is 0. */
enum { N_UNIT = 195 };
static const struct {
    uint32_t at, value;
} unit[] = { { 0, 0x400 },      { 2, 0x80000002 }, { 3, 0x80000000 }, { 5, 0x80000000 },
             { 6, 0x80000004 }, { 33, 0x9d20 },    { 96, 0x18d61 },   { 97, 0x18d62 },
             { 173, 0x2a1a9 },  { 194, 0x318c3 } };

static size_t rules_seed(uint8_t *out, size_t room)
{
    static const char to[] = "x\0y\0zz ";
    static uint32_t trie[N_UNIT];
    const uint32_t bytes = sizeof trie;
    for (size_t i = 0; i < sizeof unit / sizeof *unit; i++) trie[unit[i].at] = unit[i].value;
    if (5 + sizeof trie + sizeof to > room) return 0;
    out[0] = 2 + 3 * 3;
    memcpy(out + 1, &bytes, 4);
    memcpy(out + 5, trie, sizeof trie);
    memcpy(out + 5 + sizeof trie, to, sizeof to);
    return 5 + sizeof trie + sizeof to;
}

size_t fuzz_seed(int i, uint8_t *out, size_t room)
{
    enum { N = sizeof seeds / sizeof *seeds };
    struct ig_why why;
    void *blob;
    size_t n;
    if (i == 2 * N) return rules_seed(out, room);
    if (i < 0 || i > 2 * N) return 0;
    const char *json = seeds[i % N];
    if (i < N) {
        n = strlen(json);
        if (n + 1 > room) return 0;
        out[0] = 0;
        memcpy(out + 1, json, n);
        return n + 1;
    }
    if (ig_tok_compile_hf(&blob, &n, "tokenizer.json", json, strlen(json), NULL, 0, NULL, 0, &why))
        return 0;
    if (n + 1 <= room) {
        out[0] = 1;
        memcpy(out + 1, blob, n);
    }
    free(blob);
    return n + 1 <= room ? n + 1 : 0;
}
