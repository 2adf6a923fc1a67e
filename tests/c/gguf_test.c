/* GGUF: one small file, and every way in which it can lie. */
#include "bytes.h"
#include "gguf.h"

#include "../../kernels/kernels.h"

static struct ig_why why;

/* Fields of the small file that a test overwrites. */
// clang-format off
enum field {
    MAGIC, VERSION, N_TENSOR, N_KV, KEY_BYTES, KV_TYPE, ALIGNMENT, STRING_BYTES, ARRAY_TYPE, ARRAY_N,
    TEXT_BYTES, NUMBERS_TYPE, NUMBERS_N, LAST_KEY, NAME_BYTES, NAME_TEXT, N_DIM, DIM0, DIM1, TYPE,
    OFFSET, NAME2_TEXT, OFFSET2, N_FIELD
};
// clang-format on

static size_t at[N_FIELD];

static void info(struct bytes *b, const char *name, int n_dim, const uint64_t *dim, uint32_t type,
                 uint64_t offset)
{
    put_str(b, name);
    put_u32(b, (uint32_t)n_dim);
    for (int i = 0; i < n_dim; i++) put_u64(b, dim[i]);
    put_u32(b, type);
    put_u64(b, offset);
}

static struct bytes small_file(void)
{
    struct bytes b = { 0 };

    at[MAGIC] = b.n, put_text(&b, "GGUF");
    at[VERSION] = b.n, put_u32(&b, 3);
    at[N_TENSOR] = b.n, put_u64(&b, 3);
    at[N_KV] = b.n, put_u64(&b, 4);

    at[KEY_BYTES] = b.n, put_str(&b, "general.alignment");
    at[KV_TYPE] = b.n, put_u32(&b, IG_GGUF_U32);
    at[ALIGNMENT] = b.n, put_u32(&b, 64);
    put_str(&b, "s");
    put_u32(&b, IG_GGUF_STRING);
    at[STRING_BYTES] = b.n, put_str(&b, "text");
    put_str(&b, "t");
    put_u32(&b, IG_GGUF_ARRAY);
    at[ARRAY_TYPE] = b.n, put_u32(&b, IG_GGUF_STRING);
    at[ARRAY_N] = b.n, put_u64(&b, 2);
    at[TEXT_BYTES] = b.n, put_str(&b, "ab");
    put_str(&b, "c");
    at[LAST_KEY] = b.n + 8, put_str(&b, "n");
    put_u32(&b, IG_GGUF_ARRAY);
    at[NUMBERS_TYPE] = b.n, put_u32(&b, IG_GGUF_I32);
    at[NUMBERS_N] = b.n, put_u64(&b, 3);
    put_u32(&b, 1), put_u32(&b, 2), put_u32(&b, 3);

    at[NAME_BYTES] = b.n;
    at[NAME_TEXT] = b.n + 8;
    at[N_DIM] = b.n + 9;
    at[DIM0] = b.n + 13;
    at[DIM1] = b.n + 21;
    at[TYPE] = b.n + 29;
    at[OFFSET] = b.n + 33;
    info(&b, "x", 2, (const uint64_t[]){ 32, 2 }, 8, 0); /* Q8_0: 68 bytes */
    at[NAME2_TEXT] = b.n + 8;
    at[OFFSET2] = b.n + 8 + 1 + 4 + 8 + 4;
    info(&b, "y", 1, (const uint64_t[]){ 4 }, 0, 128);    /* F32: 16 bytes */
    info(&b, "z", 2, (const uint64_t[]){ 3, 0 }, 1, 192); /* F16, no element: legal */
    put_zero(&b, -b.n % 64);
    for (int i = 0; i < 192; i++) put_int(&b, (uint64_t)i, 1);
    return b;
}

static void test_good(void **state)
{
    unsigned char got[4];
    struct ig_gguf g;
    (void)state;

    for (uint32_t version = 2; version <= 3; version++) {
        struct bytes b = small_file();
        b.p[at[VERSION]] = (unsigned char)version;
        assert_int_equal(ig_gguf_open(&g, save("x.gguf", &b), &why), IG_OK);
        assert_int_equal(g.n_kv, 4);
        assert_int_equal(g.ckpt.n_tensor, 3);
        const struct ig_tensor *t = ig_ckpt_find(&g.ckpt, "x");
        assert_int_equal(t->fmt, IG_Q8_0);
        assert_int_equal(t->n_dim, 2);
        assert_int_equal(t->dim[0], 2); /* rows first, as everywhere but in the file */
        assert_int_equal(t->dim[1], 32);
        assert_int_equal(t->bytes, 68);
        t = ig_ckpt_find(&g.ckpt, "y");
        assert_int_equal(ig_ckpt_read(&g.ckpt, t, got, 4, 4, &why), IG_OK);
        assert_memory_equal(got, "\x84\x85\x86\x87", 4);
        t = ig_ckpt_find(&g.ckpt, "z");
        assert_int_equal(t->bytes, 0);
        assert_int_equal(t->dim[0], 0);
        const struct ig_gguf_kv *kv = ig_gguf_find(&g, "s");
        assert_int_equal(kv->type, IG_GGUF_STRING);
        assert_memory_equal(kv->data, "text", 4);
        assert_int_equal(ig_gguf_find(&g, "n")->n, 3);
        assert_null(ig_gguf_find(&g, "general"));
        ig_gguf_close(&g);
        free(b.p);
    }
}

// clang-format off
static const struct {
    enum field field;
    int bytes;
    uint64_t value;
    const char *text; /* after the path */
} lies[] = {
    { MAGIC, 1, 'X', ": magic: want GGUF, got 0x46554758" },
    { VERSION, 4, 1, ": version: want 2 or 3, got 1" },
    { VERSION, 4, 4, ": version: want 2 or 3, got 4" },
    { VERSION, 4, 0x03000000, ": version: want 2 or 3 in little-endian order, got 50331648" },
    { N_TENSOR, 8, UINT64_MAX,
      ": tensor count: want at most 20 (the rest of the file), got 18446744073709551615" },
    { N_TENSOR, 8, UINT64_C(1) << 63,
      ": tensor count: want at most 20 (the rest of the file), got 9223372036854775808" },
    { N_KV, 8, UINT64_MAX, ": metadata count: want at most 37, got 18446744073709551615" },
    { N_KV, 8, UINT64_MAX / 48 + 2, ": metadata count: want at most 37, got 384307168202282327" },
    { KEY_BYTES, 8, UINT64_MAX,
      ": key: want 18446744073709551615 bytes at 32, got 480, then the end" },
    { KEY_BYTES, 8, UINT64_MAX - 31,
      ": key: want 18446744073709551584 bytes at 32, got 480, then the end" },
    { KV_TYPE, 4, 13, ": general.alignment: value type: want one below 13, got 13" },
    { KV_TYPE, 4, IG_GGUF_F32, ": general.alignment: want uint32, got float32" },
    { ALIGNMENT, 4, 0, ": general.alignment: want a power of two, got 0" },
    { ALIGNMENT, 4, 48, ": general.alignment: want a power of two, got 48" },
    { ALIGNMENT, 4, 0xffffffff, ": general.alignment: want a power of two, got 4294967295" },
    { ALIGNMENT, 4, 128, 
      ": y: offset: want its 16 bytes inside the file's 128 of data, got offset 128" },
    { ALIGNMENT, 4, UINT32_C(1) << 31,
      ": x: offset: want its 68 bytes inside the file's 0 of data, got offset 0" },
    { STRING_BYTES, 8, UINT64_MAX - 8,
      ": s: want 18446744073709551607 bytes at 78, got 434, then the end" },
    { ARRAY_TYPE, 4, IG_GGUF_ARRAY,
      ": t: want an array of numbers, bools or strings, got element type 9" },
    { ARRAY_TYPE, 4, 99, ": t: want an array of numbers, bools or strings, got element type 99" },
    { ARRAY_N, 8, UINT64_MAX,
      ": t: want at most 50 elements (the rest of the file), got 18446744073709551615" },
    { ARRAY_N, 8, UINT64_C(1) << 61,
      ": t: want at most 50 elements (the rest of the file), got 2305843009213693952" },
    { TEXT_BYTES, 8, 1 << 20, ": t: want 1048576 bytes at 115, got 397, then the end" },
    { NUMBERS_N, 8, UINT64_C(1) << 62,
      ": n: want at most 90 elements (the rest of the file), got 4611686018427387904" },
    { LAST_KEY, 1, 's', ": s: want one value of this key, got two" },
    { NAME_BYTES, 8, 65, ": tensor name: want 1 to 64 bytes without a NUL, got 65" },
    { NAME_BYTES, 8, UINT64_MAX,
      ": tensor name: want 18446744073709551615 bytes at 171, got 341, then the end" },
    { NAME_TEXT, 1, 0, ": tensor name: want 1 to 64 bytes without a NUL, got 1" },
    { N_DIM, 4, 5, ": x: dimensions: want at most 4, got 5" },
    { N_DIM, 4, UINT32_MAX, ": x: dimensions: want at most 4, got 4294967295" },
    { DIM0, 8, 33, ": x: rows: want a multiple of 32 (a block of Q8_0), got 33" },
    { DIM0, 8, UINT64_C(1) << 63, ": x: dimensions: want fewer than 2^63 elements, got more" },
    { DIM1, 8, UINT64_C(1) << 60, ": x: dimensions: want fewer than 2^63 elements, got more" },
    { DIM1, 8, (UINT64_C(1) << 58) - 1,
      ": x: size: want fewer than 2^63 bytes, got more" },
    { DIM1, 8, UINT64_C(1) << 40,
      ": x: offset: want its 37383395344384 bytes inside the file's 192 of data, got offset 0" },
    { DIM1, 8, 6,
      ": x: offset: want its 204 bytes inside the file's 192 of data, got offset 0" },
    { DIM1, 8, 5, ": y: offset: want 490 or more, where x ends, got 448" },
    { TYPE, 4, 4, ": x: type: want " IG_GGUF_TYPES ", got unknown type 4" },
    { TYPE, 4, UINT32_MAX,
      ": x: type: want " IG_GGUF_TYPES ", got unknown type 4294967295" },
    { TYPE, 4, 12, ": x: rows: want a multiple of 256 (a block of Q4_K), got 32" },
    { OFFSET, 8, 1, ": x: offset: want a multiple of 64, got 1" },
    { OFFSET, 8, UINT64_MAX - 63,
      ": x: offset: want its 68 bytes inside the file's 192 of data, got offset "
      "18446744073709551552" },
    { OFFSET, 8, 128,
      ": x: offset: want its 68 bytes inside the file's 192 of data, got offset 128" },
    { NAME2_TEXT, 1, 'x', ": x: want one tensor of this name, got two" },
    { OFFSET2, 8, 64, ": y: offset: want 388 or more, where x ends, got 384" },
};
// clang-format on

static void test_lies(void **state)
{
    struct ig_gguf g;
    char want[700];
    (void)state;

    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        struct bytes b = small_file();
        uint64_t v = lies[i].value;
        for (int k = 0; k < lies[i].bytes; k++, v >>= 8)
            b.p[at[lies[i].field] + (size_t)k] = (unsigned char)v;
        const char *path = save("lie.gguf", &b);
        assert_int_equal(ig_gguf_open(&g, path, &why), IG_BAD_FILE);
        snprintf(want, sizeof want, "%s%s", path, lies[i].text);
        want_text(why.text, want);
        free(b.p);
    }
}

/* A dimension of 0 makes any other harmless; no dimension at all is one number. */
static void test_zero(void **state)
{
    struct ig_gguf g;
    (void)state;

    struct bytes b = small_file();
    memset(b.p + at[DIM1], 0, 8);
    assert_int_equal(ig_gguf_open(&g, save("zero.gguf", &b), &why), IG_OK);
    assert_int_equal(ig_ckpt_find(&g.ckpt, "x")->bytes, 0);
    ig_gguf_close(&g);
    free(b.p);

    b = (struct bytes){ 0 };
    put_text(&b, "GGUF");
    put_u32(&b, 3), put_u64(&b, 1), put_u64(&b, 0);
    info(&b, "s", 0, NULL, 0, 0);
    put_zero(&b, -b.n % 32);
    put_u32(&b, 7);
    assert_int_equal(ig_gguf_open(&g, save("zero.gguf", &b), &why), IG_OK);
    assert_int_equal(ig_ckpt_find(&g.ckpt, "s")->bytes, 4);
    ig_gguf_close(&g);
    free(b.p);

    b = (struct bytes){ 0 };
    put_text(&b, "GGUF");
    put_u32(&b, 3), put_u64(&b, 0), put_u64(&b, 0);
    assert_int_equal(ig_gguf_open(&g, save("zero.gguf", &b), &why), IG_OK);
    ig_gguf_close(&g);
    free(b.p);
}

static void test_truncated(void **state)
{
    struct bytes b = small_file();
    struct ig_gguf g;
    (void)state;

    /* The last 48 bytes are no tensor's; a file without them is whole enough. */
    for (size_t n = 0; n < b.n - 48; n++)
        assert_int_equal(ig_gguf_open(&g, save_n("cut.gguf", b.p, n), &why), IG_BAD_FILE);
    free(b.p);
}

static char *corpus_field(FILE *f, size_t *n)
{
    uint32_t bytes;
    if (fread(&bytes, sizeof bytes, 1, f) != 1) return NULL;
    char *p = calloc(bytes + 1, 1);
    assert_true(p && fread(p, 1, bytes, f) == bytes);
    *n = bytes;
    return p;
}

/* tests/gen/hostile.lua's files: the generator's reader has the same verdicts, in words
 * that both messages hold. */
static void test_verdicts(void **state)
{
    FILE *f = fopen("tests/data/gguf_hostile.bin", "rb");
    struct ig_tok_gguf view;
    struct ig_gguf g;
    size_t n;
    char *name;
    int cases = 0;
    (void)state;

    assert_non_null(f);
    while ((name = corpus_field(f, &n)) != NULL) {
        char *words = corpus_field(f, &n), *file = corpus_field(f, &n);
        for (size_t cut = 0; cases == 0 && cut < n;
             cut++) /* the first is legal: no part of it is */
            assert_int_equal(ig_gguf_open(&g, save_n("v.gguf", (void *)file, cut), &why),
                             IG_BAD_FILE);
        enum ig_err err = ig_gguf_open(&g, save_n("v.gguf", (void *)file, n), &why);
        if (!err) {
            err = ig_gguf_tokenizer(&g, &view, &why);
            ig_gguf_close(&g);
        }
        if (*words ? err != IG_BAD_FILE || !strstr(why.text, words) : err != IG_OK)
            fail_msg("%s: want %s, got %s", name, *words ? words : "no complaint",
                     err ? why.text : "none");
        free(name), free(words), free(file);
        cases++;
    }
    assert_true(cases > 40);
    fclose(f);
}

static void test_flipped(void **state)
{
    struct bytes b = small_file();
    unsigned char got[192];
    struct ig_gguf g;
    struct ig_tok_gguf view;
    (void)state;

    for (size_t bit = 0; bit < 8 * (b.n - 192); bit++) {
        b.p[bit / 8] ^= (unsigned char)(1 << bit % 8);
        if (ig_gguf_open(&g, save("flip.gguf", &b), &why) == IG_OK) {
            for (size_t i = 0; i < g.ckpt.n_tensor; i++)
                assert_int_equal(
                    ig_ckpt_read(&g.ckpt, &g.ckpt.tensor[i], got, 0, g.ckpt.tensor[i].bytes, &why),
                    IG_OK);
            (void)ig_gguf_tokenizer(&g, &view, &why);
            ig_gguf_close(&g);
        }
        b.p[bit / 8] ^= (unsigned char)(1 << bit % 8);
    }
    free(b.p);
}

/* A part that says it is part `no` of `count`, with one tensor; `total` < 0: no such key. */
static struct bytes part_file(uint32_t type, uint32_t no, uint32_t count, int total,
                              const char *tensor)
{
    struct bytes b = { 0 };
    put_text(&b, "GGUF");
    put_u32(&b, 3), put_u64(&b, 1), put_u64(&b, total < 0 ? 2 : 3);
    put_str(&b, "split.no");
    put_u32(&b, type), put_int(&b, no, type == IG_GGUF_U16 ? 2 : 4);
    put_str(&b, "split.count");
    put_u32(&b, IG_GGUF_U16), put_int(&b, count, 2);
    if (total >= 0) {
        put_str(&b, "split.tensors.count");
        put_u32(&b, IG_GGUF_I32), put_u32(&b, (uint32_t)total);
    }
    info(&b, tensor, 1, (const uint64_t[]){ 4 }, 0, 0);
    put_zero(&b, -b.n % 32);
    put_u32(&b, no), put_zero(&b, 12);
    return b;
}

static void save_part(const char *name, struct bytes b)
{
    save(name, &b);
    free(b.p);
}

/* Open the first part; the message must end so. */
static void want_split(const char *name, const char *text)
{
    struct ig_gguf g;
    char path[512];
    snprintf(path, sizeof path, "%s/%s", test_folder, name);
    const enum ig_err err = ig_gguf_open(&g, path, &why);
    if (!text) {
        assert_int_equal(err, IG_OK);
        ig_gguf_close(&g);
        return;
    }
    assert_int_not_equal(err, IG_OK);
    assert_non_null(strstr(why.text, text));
}

static void test_split(void **state)
{
    struct ig_gguf g;
    char path[512];
    uint32_t no;
    (void)state;

    save_part("s-00001-of-00002.gguf", part_file(IG_GGUF_U16, 0, 2, 2, "a"));
    want_split("s-00001-of-00002.gguf", "s-00002-of-00002.gguf: ");
    save_part("s-00002-of-00002.gguf", part_file(IG_GGUF_U16, 1, 2, -1, "b"));
    snprintf(path, sizeof path, "%s/s-00001-of-00002.gguf", test_folder);
    assert_int_equal(ig_gguf_open(&g, path, &why), IG_OK);
    assert_int_equal(g.ckpt.n_tensor, 2);
    assert_int_equal(ig_ckpt_read(&g.ckpt, ig_ckpt_find(&g.ckpt, "b"), &no, 0, sizeof no, &why),
                     IG_OK);
    assert_int_equal(no, 1); /* from the second file */
    ig_gguf_close(&g);

    save_part("one.gguf", part_file(IG_GGUF_U16, 0, 1, -1, "a"));
    want_split("one.gguf", NULL);
    save_part("x.gguf", part_file(IG_GGUF_U16, 0, 2, 2, "a"));
    want_split("x.gguf",
               "x.gguf: name: want NAME-00001-of-00002.gguf (the first of 2 parts), got ");
    want_split("s-00002-of-00002.gguf", "split.no: want 0, got 1");
    save_part("s-00002-of-00002.gguf", part_file(IG_GGUF_U16, 0, 2, 2, "a"));
    want_split("s-00001-of-00002.gguf", "s-00002-of-00002.gguf: split.no: want 1, got 0");
    save_part("s-00002-of-00002.gguf", part_file(IG_GGUF_U16, 1, 3, -1, "b"));
    want_split("s-00001-of-00002.gguf", "s-00002-of-00002.gguf: split.count: want 2, got 3");
    save_part("s-00002-of-00002.gguf", part_file(IG_GGUF_U32, 1, 2, -1, "b"));
    want_split("s-00001-of-00002.gguf", "s-00002-of-00002.gguf: split.no: want uint16, got uint32");
    save_part("s-00002-of-00002.gguf", part_file(IG_GGUF_U16, 1, 2, -1, "a"));
    want_split("s-00001-of-00002.gguf", ": a: want one tensor of this name, got two");
    save_part("s-00001-of-00002.gguf", part_file(IG_GGUF_U16, 0, 2, 3, "c"));
    want_split("s-00001-of-00002.gguf", "split.tensors.count: want 2 (of all parts), got 3");
}

/* -- the tokenizer's view */

static void kv_texts(struct bytes *b, const char *key, uint32_t elem, uint64_t n)
{
    put_str(b, key);
    put_u32(b, IG_GGUF_ARRAY);
    put_u32(b, elem);
    put_u64(b, n);
}

static void kv_u32(struct bytes *b, const char *key, uint32_t type, uint32_t v)
{
    put_str(b, key);
    put_u32(b, type);
    put_int(b, v, type == IG_GGUF_BOOL ? 1 : 4);
}

static struct bytes tokenizer_file(uint64_t n_kv)
{
    struct bytes b = { 0 };
    put_text(&b, "GGUF");
    put_u32(&b, 3), put_u64(&b, 0), put_u64(&b, n_kv);
    put_str(&b, "tokenizer.ggml.model");
    put_u32(&b, IG_GGUF_STRING);
    put_str(&b, "gpt2");
    kv_texts(&b, "tokenizer.ggml.tokens", IG_GGUF_STRING, 3);
    put_str(&b, "a"), put_str(&b, ""), put_str(&b, "xyz");
    return b;
}

static void test_tokenizer(void **state)
{
    struct ig_gguf g;
    struct ig_tok_gguf v;
    struct bytes b = tokenizer_file(7);
    (void)state;

    kv_texts(&b, "tokenizer.ggml.token_type", IG_GGUF_I32, 3);
    put_u32(&b, 1), put_u32(&b, 3), put_u32(&b, 4);
    kv_texts(&b, "tokenizer.ggml.merges", IG_GGUF_STRING, 1);
    put_str(&b, "x y");
    kv_u32(&b, "tokenizer.ggml.bos_token_id", IG_GGUF_U32, 2);
    kv_u32(&b, "tokenizer.ggml.padding_token_id", IG_GGUF_U32, UINT32_MAX);
    kv_u32(&b, "tokenizer.ggml.add_bos_token", IG_GGUF_BOOL, 1);
    assert_int_equal(ig_gguf_open(&g, save("tok.gguf", &b), &why), IG_OK);
    for (int twice = 0; twice < 2; twice++) {
        assert_int_equal(ig_gguf_tokenizer(&g, &v, &why), IG_OK);
        assert_string_equal(v.model, "gpt2");
        assert_null(v.pre);
        assert_int_equal(v.n_vocab, 3);
        assert_int_equal(v.token_bytes[1], 0);
        assert_int_equal(v.token_bytes[2], 3);
        assert_memory_equal(v.token[2], "xyz", 3);
        assert_int_equal(v.type[2], 4);
        assert_null(v.score);
        assert_int_equal(v.n_merge, 1);
        assert_memory_equal(v.merge[0], "x y", 3);
        assert_int_equal(v.bos, 2);
        assert_int_equal(v.eos, -1);
        assert_int_equal(v.pad, -1);
        assert_int_equal(v.add_bos, 1);
        assert_int_equal(v.add_eos, -1);
        assert_null(v.chat_template);
    }
    ig_gguf_close(&g);
    free(b.p);
}

/* The space that SentencePiece puts before a text, unless the file says otherwise. */
static void test_space_prefix(void **state)
{
    static const struct {
        int there, value, read;
    } want[] = { { 0, 0, -1 }, { 1, 1, 1 }, { 1, 0, 0 } };
    struct ig_gguf g;
    struct ig_tok_gguf v;
    (void)state;

    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        struct bytes b = tokenizer_file(2 + (uint64_t)want[i].there);
        if (want[i].there)
            kv_u32(&b, "tokenizer.ggml.add_space_prefix", IG_GGUF_BOOL, (uint32_t)want[i].value);
        assert_int_equal(ig_gguf_open(&g, save("tok.gguf", &b), &why), IG_OK);
        assert_int_equal(ig_gguf_tokenizer(&g, &v, &why), IG_OK);
        assert_int_equal(v.space_prefix, want[i].read);
        ig_gguf_close(&g);
        free(b.p);
    }
}

/* Files that say that they have no tokenizer. */
static void test_no_tokenizer(void **state)
{
    static const char *const words[] = { "none", "no_vocab" };
    struct ig_gguf g;
    struct ig_tok_gguf v;
    (void)state;

    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        struct bytes b = { 0 };
        put_text(&b, "GGUF");
        put_u32(&b, 3), put_u64(&b, 0), put_u64(&b, 1);
        put_str(&b, "tokenizer.ggml.model");
        put_u32(&b, IG_GGUF_STRING);
        put_str(&b, words[i]);
        assert_int_equal(ig_gguf_open(&g, save("tok.gguf", &b), &why), IG_OK);
        assert_int_equal(ig_gguf_tokenizer(&g, &v, &why), IG_OK);
        assert_null(v.model);
        ig_gguf_close(&g);
        free(b.p);
    }
}

/* One more key that is wrong. */
static void want_tokenizer(struct bytes *b, const char *text)
{
    struct ig_gguf g;
    struct ig_tok_gguf v;
    char want[700];

    const char *path = save("tok.gguf", b);
    assert_int_equal(ig_gguf_open(&g, path, &why), IG_OK);
    assert_int_equal(ig_gguf_tokenizer(&g, &v, &why), IG_BAD_FILE);
    snprintf(want, sizeof want, "%s: %s", path, text);
    want_text(why.text, want);
    ig_gguf_close(&g);
    free(b->p);
}

static void test_tokenizer_lies(void **state)
{
    (void)state;
    struct bytes b = tokenizer_file(3);
    kv_texts(&b, "tokenizer.ggml.token_type", IG_GGUF_I32, 2);
    put_u64(&b, 0);
    want_tokenizer(&b, "tokenizer.ggml.token_type: want 3 elements (one a token), got 2");

    b = tokenizer_file(3);
    kv_texts(&b, "tokenizer.ggml.scores", IG_GGUF_I32, 3);
    put_zero(&b, 12);
    want_tokenizer(&b, "tokenizer.ggml.scores: want array of float32, got array of int32");

    b = tokenizer_file(3);
    kv_u32(&b, "tokenizer.ggml.merges", IG_GGUF_U32, 3);
    want_tokenizer(&b, "tokenizer.ggml.merges: want array of string, got uint32");

    b = tokenizer_file(3);
    kv_u32(&b, "tokenizer.ggml.bos_token_id", IG_GGUF_F32, 3);
    want_tokenizer(&b, "tokenizer.ggml.bos_token_id: want uint32, got float32");

    b = tokenizer_file(3);
    kv_u32(&b, "tokenizer.ggml.bos_token_id", IG_GGUF_U32, 0x80000000);
    want_tokenizer(&b, "tokenizer.ggml.bos_token_id: want a token id below 2^31, got 2147483648");

    b = tokenizer_file(3);
    kv_u32(&b, "tokenizer.ggml.add_bos_token", IG_GGUF_U32, 1);
    want_tokenizer(&b, "tokenizer.ggml.add_bos_token: want bool, got uint32");

    b = tokenizer_file(3);
    kv_u32(&b, "tokenizer.ggml.add_space_prefix", IG_GGUF_U32, 1);
    want_tokenizer(&b, "tokenizer.ggml.add_space_prefix: want bool, got uint32");

    b = tokenizer_file(3);
    put_str(&b, "tokenizer.chat_template");
    put_u32(&b, IG_GGUF_STRING);
    put_u64(&b, 3);
    put_raw(&b, "a\0b", 3);
    want_tokenizer(&b, "tokenizer.chat_template: want text, got a NUL byte in it");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good),           cmocka_unit_test(test_lies),
        cmocka_unit_test(test_zero),           cmocka_unit_test(test_truncated),
        cmocka_unit_test(test_flipped),        cmocka_unit_test(test_split),
        cmocka_unit_test(test_verdicts),       cmocka_unit_test(test_tokenizer),
        cmocka_unit_test(test_tokenizer_lies), cmocka_unit_test(test_space_prefix),
        cmocka_unit_test(test_no_tokenizer),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests_name("gguf", tests, NULL, NULL);
}
