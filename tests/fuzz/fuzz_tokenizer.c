/* tokenizer.json and blobs that nobody meant: an error or a working tokenizer, never a crash.
 *
 * The first byte chooses: even, the rest is tokenizer.json; odd, a blob.
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
    static const char text[] = "ab <s>c_ a1\xcc\x81\xff \n";
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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct ig_why why;
    void *blob;
    size_t n;
    if (bytes < 1) return 0;
    char *copy = malloc(bytes); /* a blob is 8-byte aligned, and ends where it ends */
    if (!copy) return 0;
    memcpy(copy, data + 1, bytes - 1);
    if (data[0] & 1) {
        use(copy, bytes - 1);
    } else if (!ig_tok_compile_hf(&blob, &n, "tokenizer.json", copy, bytes - 1, NULL, 0, NULL, 0,
                                  &why)) {
        use(blob, n);
        free(blob);
    }
    free(copy);
    return 0;
}

size_t fuzz_seed(int i, uint8_t *out, size_t room)
{
    enum { N = sizeof seeds / sizeof *seeds };
    struct ig_why why;
    void *blob;
    size_t n;
    if (i < 0 || i >= 2 * N) return 0;
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
