/* pack: what is written is what was there: weights, tokenizer, random weights, copies.
 *
 * Runs with any plan: the checkpoints are made in its shape.  pack_refuse_test.c has what pack
 * refuses.
 */
#include "pack_run.h"
#include "file.h"
#include "gguf.h"
#include "pack_verify.h"
#include "safetensors.h"

static void must_verify(const char *src, const char *out)
{
    struct ig_gguf g = { 0 };
    struct stat st;

    if (stat(src, &st) == 0 && !S_ISDIR(st.st_mode) && strstr(src, ".gguf"))
        must(ig_gguf_open(&g, src, &why));
    else
        must(ig_safetensors_open(&g.ckpt, src, &why));
    const char *bad = verify(out, &g.ckpt);
    if (bad) fail_msg("%s: %s", src, bad);
    ig_gguf_close(&g);
}

static void must_differ(const char *a, const char *b)
{
    struct ig_wfile f, g;
    must(ig_wfile_open(&f, a, 0, &why));
    must(ig_wfile_open(&g, b, 0, &why));
    for (uint32_t i = 0; i < f.h.n_block; i++)
        assert_int_not_equal(f.blocks[i].hash, g.blocks[i].hash);
    ig_wfile_close(&f);
    ig_wfile_close(&g);
}

/* cmocka's skip() prints "not ok" in TAP, which is not what happened. */
static void not_here(const char *what) { printf("# %s: not with this plan\n", what); }

static void test_float_types(void **state)
{
    const char *f32 = in_folder("f32.safetensors"), *half = in_folder("half.safetensors"),
               *one = in_folder("one.ingot"), *two = in_folder("two.ingot");
    (void)state;

    fx_make(f32, &(struct fixture){ .fmt = is_big() ? IG_BF16 : IG_F32 });
    must(pack(f32, one));
    assert_int_equal(last_done, IG_DATA_BYTES);
    assert_int_equal(last_total, IG_DATA_BYTES);
    must_verify(f32, one);
    unlink(f32);
    if (is_big()) return;
    fx_make(half, &(struct fixture){ .fmt = IG_F16 });
    must(pack(half, two));
    must_verify(half, two);
    must_equal(one, two);
    fx_make(half, &(struct fixture){ .fmt = IG_BF16 });
    must(pack(half, two));
    must_verify(half, two);
    must_equal(one, two);
    unlink(half);
}

static void test_shards(void **state)
{
    const char *folder = in_folder("sharded"), *out = in_folder("two.ingot"),
               *one = in_folder("one.ingot");
    (void)state;

    if (is_big()) {
        not_here("shards");
        return;
    }
    fx_make(folder, &(struct fixture){ .fmt = IG_BF16, .shards = 1 });
    must(pack(folder, out));
    must_verify(folder, out);
    must_equal(one, out);
}

static void test_gguf_float(void **state)
{
    const char *src = in_folder("x.gguf"), *out = in_folder("two.ingot"),
               *one = in_folder("one.ingot");
    (void)state;

    for (int per_expert = 0; per_expert < (is_big() ? 1 : 2); per_expert++) {
        fx_make(src, &(struct fixture){ .gguf = 1, .fmt = IG_BF16, .per_expert = per_expert });
        must(pack(src, out));
        must_verify(src, out);
        must_equal(one, out); /* the same model, whatever its file */
    }
}

/* What the checkpoint says of its model is no obstacle where it is right (wrong:
 * pack_refuse_test.c). */
static void test_right_facts(void **state)
{
    const char *out = in_folder("two.ingot"), *gguf = in_folder("facts.gguf"),
               *hf = in_folder("facts"), *one = in_folder("one.ingot");
    (void)state;

    fx_make(gguf, &(struct fixture){ .gguf = 1, .fmt = IG_BF16, .facts = 1 });
    must(pack(gguf, out));
    must_equal(one, out);
    unlink(gguf);
    if (is_big()) return;
    fx_make(hf, &(struct fixture){ .fmt = IG_BF16, .shards = 1, .facts = 1 });
    must(pack(hf, out));
    must_equal(one, out);
}

static void test_gguf_blocks(void **state)
{
    const char *src = in_folder("x.gguf"), *out = in_folder("two.ingot");
    (void)state;

    if (is_big() || !fits_blocks(32)) {
        not_here("GGUF blocks");
        return;
    }
    for (enum ig_fmt fmt = IG_Q8_0; fmt < IG_N_FMT; fmt++) {
        if (!fits_blocks((uint32_t)ig_fmt_cols(fmt))) continue;
        fx_make(src, &(struct fixture){ .gguf = 1, .fmt = fmt });
        must(pack(src, out));
        must_verify(src, out);
    }
}

/* The model in the repository, with its tokenizer. */
static void test_demo_model(void **state)
{
    const char *src = "tests/data/tiny-mixtral.gguf", *out = in_folder("two.ingot");
    struct ig_wfile f;
    (void)state;

    if (IG_N_VOCAB != 4096 || IG_N_EMBD != 256 || IG_N_EXPERT != 16) {
        not_here("demo model");
        return;
    }
    must(pack(src, out));
    assert_string_equal(warnings, "");
    must_verify(src, out);
    must(ig_wfile_open(&f, out, IG_LAYOUT_HASH, &why));
    assert_string_equal(f.h.model_id, IG_MODEL_ID);
    assert_string_equal(f.h.layout_text, IG_LAYOUT_TEXT);
    assert_true(f.h.tokenizer.bytes > 4096);
    ig_wfile_close(&f);
}

/* -- tokenizer and other things beside the weights */

static void test_tokenizer(void **state)
{
    const char *folder = in_folder("folder"), *out = in_folder("out.ingot");
    char want[1400];
    struct ig_wfile f;
    (void)state;

    assert_int_equal(mkdir(folder, 0700), 0);
    fx_make(in_folder("folder/model.safetensors"),
            &(struct fixture){ .fmt = IG_BF16, .extra = "model.odd.weight" });
    must(pack(folder, out));
    snprintf(want, sizeof want,
             "%s: 1 of its tensors have no place in the plan of %s and are left out; the first is "
             "model.odd.weight\n"
             "%s: want tokenizer.json beside it, got none: packing without a tokenizer; text will "
             "not work, ids will\n",
             folder, IG_MODEL_ID, folder);
    want_text(warnings, want);
    must(ig_wfile_open(&f, out, IG_LAYOUT_HASH, &why));
    assert_int_equal(f.h.tokenizer.bytes, 0);
    ig_wfile_close(&f);

    const char *json = "{\"added_tokens\":[],\"normalizer\":null,\"pre_tokenizer\":{\"type\":"
                       "\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":true},"
                       "\"post_processor\":null,\"decoder\":{\"type\":\"ByteLevel\"},\"model\":"
                       "{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"ab\":2},\"merges\":"
                       "[\"a b\"]}}";
    save_n("folder/tokenizer.json", json, strlen(json));
    must(pack(in_folder("folder/model.safetensors"), out)); /* found beside a single file, too */
    must(ig_wfile_open(&f, out, IG_LAYOUT_HASH, &why));
    assert_true(f.h.tokenizer.bytes > 0);
    ig_wfile_close(&f);

    save_n("folder/tokenizer.json", "{\"model\":", 9);
    unlink(out);
    const int before = files_in_folder();
    assert_int_equal(pack(folder, out), IG_BAD_FILE);
    assert_non_null(strstr(why.text, "tokenizer.json"));
    assert_int_equal(files_in_folder(), before);
    unlink(in_folder("folder/model.safetensors"));
}

/* -- random weights, and copies */

static void must_be_plausible(const struct ig_mat *m, const unsigned char *at)
{
    float row[8192];
    double sum = 0;
    const uint32_t cols = m->cols, rows = m->rows < 64 ? m->rows : 64;

    assert_true(cols <= sizeof row / sizeof *row);
    for (uint32_t r = 0; r < (rows + 15) / 16 * 16; r++) {
        ig_panel_row((enum ig_fmt)m->fmt, row, at + (uint64_t)(r / 16) * m->stride, (int)r % 16,
                     (int)cols);
        for (uint32_t c = 0; c < cols; c++) {
            assert_true(isfinite(row[c]));
            if (r >= rows) assert_true(row[c] == 0.0f || rows < m->rows);
            if (r < rows) sum += (double)row[c] * (double)row[c];
        }
    }
    const double spread = sqrt(sum / ((double)rows * cols)) * sqrt((double)cols);
    assert_true(spread > 0.6 && spread < 1.6); /* in units of 1 / sqrt(cols) */
}

static void test_synth(void **state)
{
    const char *one = in_folder("s1.ingot"), *two = in_folder("s2.ingot");
    struct ig_pack_job job = { .out = two, .seed = 6 };
    struct ig_wfile f;
    (void)state;

    must(pack(NULL, one));
    assert_string_equal(warnings, "");
    must(pack(NULL, two));
    must_equal(one, two);
    must(ig_pack(&job, &why)); /* another seed */
    must_differ(one, two);
    assert_null(verify(one, NULL));

    const struct ig_layer *l = &ig_layers[1];
    unsigned char *p = malloc(IG_DATA_BYTES);
    must(ig_wfile_open(&f, one, IG_LAYOUT_HASH, &why));
    must(ig_wfile_read(&f, p, 0, IG_DATA_BYTES, &why));
    ig_wfile_close(&f);
    must_be_plausible(&ig_token_embd, p + ig_token_embd.off);
    must_be_plausible(&l->q, p + l->q.off);
    must_be_plausible(&l->router, p + l->router.off);
    must_be_plausible(&l->up, p + l->expert_off + l->up.off);
    must_be_plausible(&l->down, p + l->expert_off + l->expert_stride + l->down.off);
    for (int i = 0; i < IG_N_EMBD; i++)
        assert_memory_equal(p + l->ffn_norm + 4 * i, &(float){ 1 }, 4);
    free(p);
}

static void test_copy_and_embed(void **state)
{
    const char *one = in_folder("s1.ingot"), *two = in_folder("s2.ingot"),
               *program = in_folder("program");
    struct ig_pack_job job = { .src = one, .out = program, .embed = 1 };
    struct ig_wfile f;
    struct stat st;
    uint64_t off, bytes, size;
    char want[700];
    int fd;
    (void)state;

    must(pack(NULL, one));
    must(pack(one, two));
    must_equal(one, two);
    must(ig_pack(&job, &why));
    must(ig_file_open(&fd, &size, program, &why));
    assert_int_equal(fstat(fd, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0755);
    assert_true(ig_wfile_trailer(fd, size, &off, &bytes));
    assert_int_equal(off % 4096, 0);
    close(fd);

    /* A damaged block is not copied. */
    must(ig_wfile_open(&f, one, 0, &why));
    const long at = (long)(f.h.data.off + f.blocks[f.h.n_block - 1].off);
    const unsigned last = f.h.n_block - 1;
    ig_wfile_close(&f);
    FILE *file = fopen(one, "r+b");
    fseek(file, at, SEEK_SET);
    const int byte = fgetc(file);
    fseek(file, at, SEEK_SET);
    fputc(byte ^ 4, file);
    fclose(file);
    unlink(two);
    const int before = files_in_folder();
    assert_int_equal(pack(one, two), IG_BAD_FILE);
    snprintf(want, sizeof want, "%s: checksum of block %u (data ", one, last);
    assert_memory_equal(why.text, want, strlen(want));
    assert_int_equal(files_in_folder(), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_float_types),    cmocka_unit_test(test_shards),
        cmocka_unit_test(test_gguf_float),     cmocka_unit_test(test_right_facts),
        cmocka_unit_test(test_gguf_blocks),    cmocka_unit_test(test_demo_model),
        cmocka_unit_test(test_tokenizer),      cmocka_unit_test(test_synth),
        cmocka_unit_test(test_copy_and_embed),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests_name("pack", tests, NULL, NULL);
}
