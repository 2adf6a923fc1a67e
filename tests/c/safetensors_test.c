/* safetensors: every lie has its message, and nothing crashes. */
#include "bytes.h"
#include "file.h"
#include "safetensors.h"

#include <math.h>

#include "../../kernels/panel.h"

static struct ig_why why;

/* header length, header, `data` bytes of data */
static struct bytes file_of(const char *header, size_t data)
{
    struct bytes b = { 0 };
    put_u64(&b, strlen(header));
    put_text(&b, header);
    for (size_t i = 0; i < data; i++) put_int(&b, i, 1);
    return b;
}

static enum ig_err open_header(const char *header, size_t data, struct ig_ckpt *c)
{
    struct bytes b = file_of(header, data);
    const enum ig_err err = ig_safetensors_open(c, save("x.safetensors", &b), &why);
    free(b.p);
    return err;
}

#define A "{\"a\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]}}"

static void test_good(void **state)
{
    struct ig_ckpt c;
    unsigned char got[4];
    (void)state;

    const char *header = "{\"__metadata__\":{\"format\":\"pt\"},"
                         "\"b\":{\"dtype\":\"BF16\",\"shape\":[4],\"data_offsets\":[24,32]},"
                         "\"none\":{\"dtype\":\"F16\",\"shape\":[3,0],\"data_offsets\":[32,32]},"
                         "\"one\":{\"dtype\":\"I64\",\"shape\":[],\"data_offsets\":[32,40]},"
                         "\"a\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]}}   ";
    assert_int_equal(open_header(header, 40, &c), IG_OK);
    assert_int_equal(c.n_tensor, 4);
    const struct ig_tensor *t = ig_ckpt_find(&c, "a");
    assert_non_null(t);
    assert_int_equal(t->fmt, IG_F32);
    assert_int_equal(t->n_dim, 2);
    assert_int_equal(t->dim[0], 2);
    assert_int_equal(t->dim[1], 3);
    t = ig_ckpt_find(&c, "b");
    assert_int_equal(t->fmt, IG_BF16);
    assert_int_equal(ig_ckpt_read(&c, t, got, 2, 4, &why), IG_OK);
    assert_memory_equal(got, "\x1a\x1b\x1c\x1d", 4);
    t = ig_ckpt_find(&c, "one"); /* listed, for others to refuse by name */
    assert_int_equal(t->fmt, IG_FMT_NONE);
    assert_string_equal(t->type, "I64");
    assert_int_equal(ig_ckpt_find(&c, "none")->bytes, 0);
    assert_null(ig_ckpt_find(&c, "c"));
    ig_ckpt_close(&c);
}

// clang-format off
static const struct {
    const char *header;
    size_t data;
    const char *text; /* after the path; NULL: starts there, the parser's words follow */
    const char *start;
} hostile[] = {
    { "", 0, NULL, ": header: want JSON, got at byte " },
    { "{", 0, NULL, ": header: want JSON, got at byte " },
    { "[]", 0, ": header: want an object, got an array", NULL },
    { A "x", 24, NULL, ": header: want JSON, got at byte " },
    { "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
      "\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}", 8,
      NULL, ": header: want JSON, got at byte 57: duplicate object key" },
    { "{\"a\":7}", 0, ": a: want an object, got an integer", NULL },
    { "{\"a\":{\"shape\":[1],\"data_offsets\":[0,4]}}", 4,
      ": a: dtype: want a string, got nothing", NULL },
    { "{\"a\":{\"dtype\":\"Q9\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4,
      ": a: dtype: want F32, F16 or BF16, got Q9", NULL },
    { "{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}}", 4,
      ": a: shape: want an array, got nothing", NULL },
    { "{\"a\":{\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,4]}}", 4,
      ": a: shape: want integers of 0 or more, got a negative one", NULL },
    { "{\"a\":{\"dtype\":\"F32\",\"shape\":[1.5],\"data_offsets\":[0,4]}}", 4,
      ": a: shape: want integers of 0 or more, got a number with a fraction or exponent", NULL },
    { "{\"a\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,4]}}", 4,
      ": a: shape: want at most 8 dimensions, got 9", NULL },
    { "{\"a\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296,2],\"data_offsets\":[0,4]}}", 4,
      ": a: shape: want fewer than 2^64 elements, got more", NULL },
    /* 2^62 elements of 4 bytes wrap to 0 bytes */
    { "{\"a\":{\"dtype\":\"F32\",\"shape\":[4611686018427387904],\"data_offsets\":[0,0]}}", 0,
      ": a: shape: want a whole number of bytes below 2^61, got 4611686018427387904 elements", NULL },
    { "{\"a\":{\"dtype\":\"F4\",\"shape\":[3],\"data_offsets\":[0,2]}}", 2,
      ": a: shape: want a whole number of bytes below 2^61, got 3 elements", NULL },
    { "{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4,
      ": a: data_offsets: want [begin, end], got nothing", NULL },
    { "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0]}}", 4,
      ": a: data_offsets: want [begin, end], got an array of another length", NULL },
    { "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[-4,0]}}", 4,
      ": a: data_offsets: want integers of 0 or more, got a negative one", NULL },
    { "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,\"4\"]}}", 4,
      ": a: data_offsets: want integers of 0 or more, got a string", NULL },
    { "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[18446744073709551612,4]}}", 4,
      NULL, ": header: want JSON, got at byte " },
    { "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,0]}}", 4,
      ": a: data_offsets: want begin <= end <= 4 (the file's data), got [4, 0]", NULL },
    { "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}", 4,
      ": a: data_offsets: want begin <= end <= 4 (the file's data), got [4, 8]", NULL },
    { "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,4]}}", 4,
      ": a: data_offsets: want 8 bytes (shape and dtype), got 4", NULL },
    { "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
      "\"b\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[4,12]}}", 12,
      ": b: offset: want 124 or more, where a ends, got 120", NULL },
    { "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
      "\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[8,12]}}", 12,
      ": data: want 8 bytes (all its tensors), got 12", NULL },
    { A, 28, ": data: want 24 bytes (all its tensors), got 28", NULL },
    { A, 23, ": a: data_offsets: want begin <= end <= 23 (the file's data), got [0, 24]", NULL },
};
// clang-format on

static void test_hostile(void **state)
{
    struct ig_ckpt c;
    char want[600];
    (void)state;

    for (size_t i = 0; i < sizeof hostile / sizeof *hostile; i++) {
        assert_int_equal(open_header(hostile[i].header, hostile[i].data, &c), IG_BAD_FILE);
        snprintf(want, sizeof want, "%s%s", in_folder("x.safetensors"),
                 hostile[i].text ? hostile[i].text : hostile[i].start);
        if (!hostile[i].text && strlen(why.text) > strlen(want)) why.text[strlen(want)] = '\0';
        want_text(why.text, want);
    }
}

static void test_header_length(void **state)
{
    static const struct {
        uint64_t length;
        const char *text;
    } row[] = {
        { 9, "header length: want at most 8, got 9" },
        { UINT64_MAX, "header length: want at most 8, got 18446744073709551615" },
        { UINT64_MAX - 7, "header length: want at most 8, got 18446744073709551608" },
        { UINT64_C(1) << 63, "header length: want at most 8, got 9223372036854775808" },
    };
    struct ig_ckpt c;
    char want[600];
    (void)state;

    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        struct bytes b = { 0 };
        put_u64(&b, row[i].length);
        put_text(&b, "{}      ");
        const char *path = save("length.safetensors", &b);
        assert_int_equal(ig_safetensors_open(&c, path, &why), IG_BAD_FILE);
        snprintf(want, sizeof want, "%s: %s: not a safetensors file, or cut", path, row[i].text);
        want_text(why.text, want);
        free(b.p);
    }
}

static void test_truncated(void **state)
{
    struct bytes b = file_of(A, 24);
    struct ig_ckpt c;
    (void)state;

    for (size_t n = 0; n < b.n; n++)
        assert_int_equal(ig_safetensors_open(&c, save_n("cut.safetensors", b.p, n), &why),
                         IG_BAD_FILE);
    assert_int_equal(ig_safetensors_open(&c, save("cut.safetensors", &b), &why), IG_OK);
    ig_ckpt_close(&c);
    free(b.p);
}

/* Any verdict is right; what is found must lie inside the file. */
static void test_flipped(void **state)
{
    struct bytes b = file_of(A, 24);
    struct ig_ckpt c;
    unsigned char got[64];
    (void)state;

    for (size_t bit = 0; bit < 8 * (b.n - 24); bit++) {
        b.p[bit / 8] ^= (unsigned char)(1 << bit % 8);
        if (ig_safetensors_open(&c, save("flip.safetensors", &b), &why) == IG_OK) {
            for (size_t i = 0; i < c.n_tensor; i++)
                assert_int_equal(ig_ckpt_read(&c, &c.tensor[i], got, 0, c.tensor[i].bytes, &why),
                                 IG_OK);
            ig_ckpt_close(&c);
        }
        b.p[bit / 8] ^= (unsigned char)(1 << bit % 8);
    }
    free(b.p);
}

static void save_text(const char *name, const char *text) { save_n(name, text, strlen(text)); }

static void want_index(const char *map, const char *text)
{
    struct ig_ckpt c;
    char want[900];

    save_text("shards/model.safetensors.index.json", map);
    const enum ig_err err = ig_safetensors_open(&c, in_folder("shards"), &why);
    if (!text) {
        assert_int_equal(err, IG_OK);
        assert_int_equal(c.n_file, 2);
        assert_int_equal(c.n_tensor, 2);
        ig_ckpt_close(&c);
        return;
    }
    assert_int_not_equal(err, IG_OK);
    snprintf(want, sizeof want, "%s/%s", in_folder("shards"), text);
    want_text(why.text, want);
}

static void test_shards(void **state)
{
    struct ig_ckpt c;
    char want[600];
    (void)state;

    assert_int_equal(mkdir(in_folder("shards"), 0700), 0);
    assert_int_equal(ig_safetensors_open(&c, in_folder("shards"), &why), IG_IO);
    snprintf(want, sizeof want,
             "%s: want model.safetensors or model.safetensors.index.json in it, got neither",
             in_folder("shards"));
    want_text(why.text, want);

    struct bytes a = file_of(A, 24);
    struct bytes b = file_of("{\"b\":{\"dtype\":\"F16\",\"shape\":[1],\"data_offsets\":[0,2]}}", 2);
    save("shards/1.safetensors", &a);
    save("shards/2.safetensors", &b);
    want_index("{\"weight_map\":{\"a\":\"1.safetensors\",\"b\":\"2.safetensors\"}}", NULL);
    want_index("{\"weight_map\":{\"a\":\"1.safetensors\",\"b\":\"3.safetensors\"}}",
               "3.safetensors: cannot open: No such file or directory");
    want_index("{\"weight_map\":{\"a\":\"1.safetensors\",\"b\":\"1.safetensors\"}}",
               "model.safetensors.index.json: b: want it in 1.safetensors, got it in none");
    want_index("{\"weight_map\":{\"a\":\"2.safetensors\",\"b\":\"1.safetensors\"}}",
               "model.safetensors.index.json: a: want it in 2.safetensors, got it in "
               "1.safetensors");
    want_index("{\"weight_map\":{\"a\":\"../1.safetensors\"}}",
               "model.safetensors.index.json: a: want the name of a file beside it, got "
               "../1.safetensors");
    want_index("{\"weight_map\":{\"a\":1}}",
               "model.safetensors.index.json: a: want the name of a file beside it, got an "
               "integer");
    want_index("{\"weight_map\":[]}",
               "model.safetensors.index.json: weight_map: want an object, got an array");
    want_index("{}", "model.safetensors.index.json: weight_map: want an object, got nothing");
    save("shards/2.safetensors", &a);
    want_index("{\"weight_map\":{\"a\":\"1.safetensors\",\"b\":\"2.safetensors\"}}",
               "2.safetensors: a: want one tensor of this name, got two");
    free(a.p);
    free(b.p);
}

static void test_no_file(void **state)
{
    struct ig_ckpt c;
    char want[600];
    (void)state;

    const char *path = in_folder("no-such");
    assert_int_equal(ig_safetensors_open(&c, path, &why), IG_IO);
    snprintf(want, sizeof want, "%s: cannot open: No such file or directory", path);
    want_text(why.text, want);
    path = save_n("empty.safetensors", "", 0);
    assert_int_equal(ig_safetensors_open(&c, path, &why), IG_BAD_FILE);
    snprintf(want, sizeof want, "%s: size: want 8 bytes or more, got 0", path);
    want_text(why.text, want);
}

/* -- weights in two tensors */

static struct bytes pair_file(const char *header)
{
    struct bytes b = { 0 };
    put_u64(&b, strlen(header));
    put_text(&b, header);
    return b;
}

/* F8_E4M3 [130, 200] by blocks of 128: two rows of two scales. */
static void test_fp8(void **state)
{
    static const float scale[4] = { 0.5f, 3.0f, 0x1p-20f, 7.25f };
    enum { ROWS = 130, COLS = 200, N = ROWS * COLS };
    struct ig_ckpt c;
    (void)state;

    struct bytes b = pair_file(
        "{\"w\":{\"dtype\":\"F8_E4M3\",\"shape\":[130,200],\"data_offsets\":[0,26000]},"
        "\"w_scale_inv\":{\"dtype\":\"F32\",\"shape\":[2,2],\"data_offsets\":[26000,26016]}}");
    for (int i = 0; i < N; i++) put_int(&b, (uint64_t)(i % 251), 1);
    put_raw(&b, scale, sizeof scale);
    assert_int_equal(ig_safetensors_open(&c, save("f8.safetensors", &b), &why), IG_OK);
    free(b.p);
    assert_int_equal(c.n_tensor, 1);
    const struct ig_tensor *t = ig_ckpt_find(&c, "w");
    assert_int_equal(t->fmt, IG_F32);
    assert_int_equal(t->bytes, 4 * N);
    float *got = malloc(4 * N);
    assert_int_equal(ig_ckpt_read(&c, t, got, 0, 4 * N, &why), IG_OK);
    for (int i = 0; i < N; i++) {
        const int code = i % 251, e = code >> 3 & 15, m = code & 7;
        if ((code & 127) == 127) {
            assert_true(isnan(got[i]));
            continue;
        }
        const double x = e ? ldexp(1.0 + m / 8.0, e - 7) : ldexp(m / 8.0, -6);
        const float want =
            (float)((code & 128 ? -x : x)) * scale[i / COLS / 128 * 2 + i % COLS / 128];
        assert_true(got[i] == want);
    }
    float part[3]; /* over a row's end */
    assert_int_equal(ig_ckpt_read(&c, t, part, 4 * 25599, sizeof part, &why), IG_OK);
    assert_memory_equal(part, got + 25599, sizeof part);
    free(got);
    ig_ckpt_close(&c);
}

/* Two rows of 64 columns: value = E2M1 * 2^(scale - 127), low nibble first. */
static void test_mxfp4(void **state)
{
    static const float e2m1[16] = { 0,     0.5f,  1,  1.5f,  2,  3,  4,  6,
                                    -0.0f, -0.5f, -1, -1.5f, -2, -3, -4, -6 };
    static const unsigned char scale[4] = { 127, 120, 3, 200 };
    struct ig_ckpt c;
    unsigned char row[2][34];
    float got[64];
    (void)state;

    struct bytes b =
        pair_file("{\"w_blocks\":{\"dtype\":\"U8\",\"shape\":[1,2,2,16],\"data_offsets\":[0,64]},"
                  "\"w_scales\":{\"dtype\":\"U8\",\"shape\":[1,2,2],\"data_offsets\":[64,68]}}");
    for (int i = 0; i < 64; i++) put_int(&b, (uint64_t)(i * 37 & 255), 1);
    put_raw(&b, scale, sizeof scale);
    assert_int_equal(ig_safetensors_open(&c, save("mx.safetensors", &b), &why), IG_OK);
    free(b.p);
    const struct ig_tensor *t = ig_ckpt_find(&c, "w_blocks");
    assert_int_equal(c.n_tensor, 1);
    assert_int_equal(t->fmt, IG_MXFP4);
    assert_int_equal(t->n_dim, 3);
    assert_int_equal(t->dim[1], 2);
    assert_int_equal(t->dim[2], 64);
    assert_int_equal(t->bytes, sizeof row);
    assert_int_equal(ig_ckpt_read(&c, t, row, 0, sizeof row, &why), IG_OK);
    for (int r = 0; r < 2; r++) {
        ig_row_to_f32(IG_MXFP4, got, row[r], 64);
        for (int i = 0; i < 64; i++) {
            const int byte = (r * 32 + i / 2) * 37 & 255, code = i % 2 ? byte >> 4 : byte & 15;
            assert_true(got[i] == ldexpf(e2m1[code], scale[r * 2 + i / 32] - 127));
        }
    }
    unsigned char second[17];
    assert_int_equal(ig_ckpt_read(&c, t, second, 17, 17, &why), IG_OK);
    assert_memory_equal(second, row[0] + 17, 17);
    ig_ckpt_close(&c);
}

static void test_pairs_that_lie(void **state)
{
    static const char *const lies[][2] = {
        { "{\"w\":{\"dtype\":\"F8_E4M3\",\"shape\":[2,2],\"data_offsets\":[0,4]},"
          "\"w_scale_inv\":{\"dtype\":\"F32\",\"shape\":[2,1],\"data_offsets\":[4,12]}}",
          ": w_scale_inv: want F32, F16 or BF16 [1, 1], got F32 [2, 1]" },
        { "{\"w\":{\"dtype\":\"F8_E4M3\",\"shape\":[2,2],\"data_offsets\":[0,4]},"
          "\"w_scale_inv\":{\"dtype\":\"I64\",\"shape\":[1,1],\"data_offsets\":[4,12]}}",
          ": w_scale_inv: want F32, F16 or BF16 [1, 1], got I64 [1, 1]" },
        { "{\"w_blocks\":{\"dtype\":\"U8\",\"shape\":[1,1,16],\"data_offsets\":[0,16]},"
          "\"w_scales\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[16,18]}}",
          ": w_scales: want U8 [1, 1], got U8 [2]" },
    };
    struct ig_ckpt c;
    (void)state;
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        assert_int_equal(open_header(lies[i][0], i == 2 ? 18 : 12, &c), IG_BAD_FILE);
        assert_non_null(strstr(why.text, lies[i][1]));
    }
    /* alone, each is only a tensor of a type that nothing wants */
    assert_int_equal(open_header("{\"w\":{\"dtype\":\"F8_E4M3\",\"shape\":[2,2],"
                                 "\"data_offsets\":[0,4]}}",
                                 4, &c),
                     IG_OK);
    assert_int_equal(ig_ckpt_find(&c, "w")->fmt, IG_FMT_NONE);
    ig_ckpt_close(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fp8),
        cmocka_unit_test(test_mxfp4),
        cmocka_unit_test(test_pairs_that_lie),
        cmocka_unit_test(test_good),
        cmocka_unit_test(test_hostile),
        cmocka_unit_test(test_header_length),
        cmocka_unit_test(test_truncated),
        cmocka_unit_test(test_flipped),
        cmocka_unit_test(test_shards),
        cmocka_unit_test(test_no_file),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests_name("safetensors", tests, NULL, NULL);
}
