/* pack: what is written is what was there, and a failure leaves nothing behind.
 *
 * Runs with any plan: the checkpoints are made in its shape.
 */
#include "pack.h"
#include "bytes.h"
#include "file.h"
#include "gguf.h"
#include "pack_fixture.h"
#include "pack_verify.h"
#include "safetensors.h"

#include <sys/resource.h>

static struct ig_why why;
static char warnings[4096];
static volatile sig_atomic_t stop;
static const char *touched;
static uint64_t stop_at, last_done, last_total;

static void warn(const char *line)
{
    strncat(warnings, line, sizeof warnings - strlen(warnings) - 2);
    strcat(warnings, "\n");
}

static void progress(const char *what, uint64_t done, uint64_t total)
{
    assert_string_equal(what, "pack");
    assert_true(done >= last_done && done <= total);
    last_done = done;
    last_total = total;
    if (stop_at && done >= stop_at) stop = 1;
}

static enum ig_err pack(const char *src, const char *out)
{
    const struct ig_pack_job job = {
        .src = src, .seed = 5, .out = out, .cancel = &stop, .progress = progress, .warn = warn
    };
    warnings[0] = '\0';
    last_done = 0;
    stop = 0;
    return ig_pack(&job, &why);
}

static void must(enum ig_err err)
{
    if (err) fail_msg("%s", why.text);
}

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

/* XXH3 of every block: equal when the data sections are. */
static void must_equal(const char *a, const char *b)
{
    struct ig_wfile f, g;
    must(ig_wfile_open(&f, a, 0, &why));
    must(ig_wfile_open(&g, b, 0, &why));
    assert_int_equal(f.h.n_block, g.h.n_block);
    assert_memory_equal(f.blocks, g.blocks, f.h.n_block * sizeof *f.blocks);
    ig_wfile_close(&f);
    ig_wfile_close(&g);
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

/* The demo's plan: fewer routes, since each takes seconds there. */
static int is_big(void) { return IG_DATA_BYTES > 8 << 20; }

/* Do blocks of n columns fit every matrix? */
static int fits_blocks(uint32_t n)
{
    return IG_N_EMBD % n == 0 && ig_layers[0].down.cols % n == 0 && ig_layers[0].o.cols % n == 0;
}

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

/* -- refusals.  Each must leave the folder and the old output as they were. */

static void want_refusal(const char *src, const char *out, enum ig_err err, const char *text)
{
    const char *old = "the file that was there before";
    char want[1400];
    size_t n;
    char *got;

    FILE *f = fopen(out, "wb");
    assert_non_null(f);
    fputs(old, f);
    fclose(f);
    const int before = files_in_folder();
    assert_int_equal(pack(src, out), err);
    snprintf(want, sizeof want, "%s%s", src ? src : "", text);
    want_text(why.text, want);
    assert_int_equal(files_in_folder(), before);
    must(ig_file_slurp(out, 100, &got, &n, &why));
    assert_string_equal(got, old);
    free(got);
}

static void name(char text[160], enum ig_role role, int gguf, int expert)
{
    fx_name(text, (gguf ? ig_sources[role].gguf : ig_sources[role].hf)[0].name, 1, expert);
}

#define OTHER "; this binary is for " IG_MODEL_ID "; make MODEL=%s builds one for it"

static void test_wrong_tensors(void **state)
{
    const char *out = in_folder("out.ingot"), *hf = in_folder("bad.safetensors"),
               *gguf = in_folder("bad.gguf");
    char q[160], up[160], text[700];
    const struct ig_layer *l = &ig_layers[1];
    (void)state;

    name(q, IG_ROLE_ATTN_Q, 0, -1);
    fx_make(hf, &(struct fixture){ .sparse = 1, .drop = q });
    snprintf(text, sizeof text, ": %s: want this tensor (plan of %s), got none" OTHER, q,
             IG_MODEL_ID, hf);
    want_refusal(hf, out, IG_BAD_FILE, text);

    fx_make(hf, &(struct fixture){ .sparse = 1, .reshape = q });
    snprintf(text, sizeof text, ": %s: want [%u, %u] (plan of %s), got [%u, %u]" OTHER, q,
             l->q.rows, l->q.cols, IG_MODEL_ID, l->q.rows + 1, l->q.cols, hf);
    want_refusal(hf, out, IG_MISMATCH, text);

    fx_make(hf, &(struct fixture){ .sparse = 1, .retype = q });
    snprintf(text, sizeof text, ": %s: type: want F32, F16 or BF16, got F64", q);
    want_refusal(hf, out, IG_BAD_FILE, text);

    name(up, IG_ROLE_UP, 1, -1);
    fx_make(gguf, &(struct fixture){ .gguf = 1, .sparse = 1, .reshape = up });
    snprintf(text, sizeof text, ": %s: want [%d, %u, %u] (plan of %s), got [%d, %u, %u]" OTHER, up,
             IG_N_EXPERT, l->up.rows, l->up.cols, IG_MODEL_ID, IG_N_EXPERT + 1, l->up.rows,
             l->up.cols, gguf);
    want_refusal(gguf, out, IG_MISMATCH, text);

    fx_make(gguf, &(struct fixture){ .gguf = 1, .sparse = 1, .drop = up });
    snprintf(text, sizeof text, ": %s: want this tensor (plan of %s), got none" OTHER, up,
             IG_MODEL_ID, gguf);
    want_refusal(gguf, out, IG_BAD_FILE, text);

    if (!fits_blocks(32)) return;
    fx_make(gguf, &(struct fixture){ .gguf = 1, .sparse = 1, .retype = up });
    snprintf(text, sizeof text, ": %s: type: want " IG_GGUF_TYPES ", got Q8_1", up);
    want_refusal(gguf, out, IG_BAD_FILE, text);
}

/* The shapes are right, and what the checkpoint says of its model is not; facts_test.c has the
 * rest. */
static void test_wrong_facts(void **state)
{
    const char *out = in_folder("out.ingot"), *gguf = in_folder("facts.gguf");
    char text[700];
    (void)state;

    fx_make(gguf, &(struct fixture){
                      .gguf = 1, .sparse = 1, .facts = 1, .wrong = "general.architecture" });
    snprintf(text, sizeof text, ": general.architecture: want %s (plan of %s), got other" OTHER,
             fx_arch(), IG_MODEL_ID, gguf);
    want_refusal(gguf, out, IG_MISMATCH, text);
    unlink(gguf);
}

/* The same metadata without a fault is no obstacle. */
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

/* Converted, copied as it is, or a vector. */
static void test_not_finite(void **state)
{
    const char *src = in_folder("nan.safetensors"), *gguf = in_folder("nan.gguf"),
               *out = in_folder("out.ingot");
    const enum ig_fmt fmt = (enum ig_fmt)ig_layers[0].q.fmt;
    char q[160], text[400];
    (void)state;

    name(q, IG_ROLE_ATTN_Q, 0, -1);
    for (enum ig_fmt from = IG_F32; from <= IG_BF16; from++) {
        fx_make(src, &(struct fixture){ .fmt = from, .nan = q });
        snprintf(text, sizeof text,
                 ": %s: row 1, column 2: want a finite value that %s holds, got nan", q,
                 ig_fmt_name(fmt));
        want_refusal(src, out, IG_BAD_FILE, text);
    }
    name(q, IG_ROLE_ATTN_NORM, 0, -1);
    fx_make(src, &(struct fixture){ .fmt = IG_BF16, .nan = q });
    snprintf(text, sizeof text,
             ": %s: row 2, column 0: want a finite value that f32 holds, got nan", q);
    want_refusal(src, out, IG_BAD_FILE, text);
    unlink(src);

    /* Blocks of the planned type, whose scale is none.  E8M0's may read as a large number. */
    if (ig_fmt_cols(fmt) == 1 || fmt == IG_MXFP4 || !fits_blocks((uint32_t)ig_fmt_cols(fmt)))
        return;
    fx_make(gguf, &(struct fixture){ .gguf = 1, .fmt = fmt, .nan = "blk.0.attn_v.weight" });
    if (ig_layers[0].v.fmt == (int)fmt) {
        snprintf(text, sizeof text,
                 ": blk.0.attn_v.weight: row 1, column 0: want a finite value "
                 "that %s holds, got ",
                 ig_fmt_name(fmt));
        assert_int_equal(pack(gguf, out), IG_BAD_FILE);
        assert_non_null(strstr(why.text, text));
    }
    unlink(gguf);
}

static void test_not_a_checkpoint(void **state)
{
    const char *out = in_folder("out.ingot");
    (void)state;

    want_refusal(in_folder("none"), out, IG_IO, ": cannot open: No such file or directory");
    want_refusal(save_n("empty", "", 0), out, IG_BAD_FILE, ": size: want 8 bytes or more, got 0");
    want_refusal(save_n("text", "Call me Ishmael. Some", 21), out, IG_BAD_FILE,
                 ": header length: want at most 13, got 2334391967886893379: not a safetensors "
                 "file, or cut");
    want_refusal(save_n("cut.gguf", "GGUF\3\0\0\0\1", 9), out, IG_BAD_FILE,
                 ": tensor count: want 8 bytes at 8, got 1, then the end");
    want_refusal(save_n("cut.ingot", "INGOTW01", 8), out, IG_BAD_FILE,
                 ": size: want at least 432 bytes, got 8");
}

static void test_output_is_source(void **state)
{
    const char *src = in_folder("same.safetensors");
    char want[700];
    (void)state;

    fx_make(src, &(struct fixture){ .sparse = 1 });
    assert_int_equal(pack(src, src), IG_USAGE);
    snprintf(want, sizeof want, "%s: want an output that is not the checkpoint itself", src);
    want_text(why.text, want);
    assert_int_equal(access(src, R_OK), 0);

    /* What lies beside it is read, too; so is a weights file; and the next output counts. */
    const char *tok = save_n("tokenizer.json", "{}", 2), *other = in_folder("other.ingot");
    const char *const harmed[] = { tok, save_n("a.index.json", "{}", 2) };
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pack(src, harmed[i]), IG_USAGE);
        struct ig_pack_job job = { .src = src, .out = other, .next = harmed[i] };
        assert_int_equal(ig_pack(&job, &why), IG_USAGE);
        snprintf(want, sizeof want, "%s: want an output that is not the checkpoint itself",
                 harmed[i]);
        want_text(why.text, want);
        unlink(harmed[i]);
    }
    must(pack(NULL, other));
    assert_int_equal(pack(other, other), IG_USAGE);
    struct ig_pack_job job = { .out = in_folder("x"), .next = in_folder("./x") };
    assert_int_equal(ig_pack(&job, &why), IG_USAGE);
    snprintf(want, sizeof want, "%s: want two outputs, got the same file twice", job.out);
    want_text(why.text, want);
    assert_int_equal(pack(NULL, "/proc/self/exe"), IG_USAGE);
    unlink(other);
    unlink(src);
}

static void touch(const char *what, uint64_t done, uint64_t total)
{
    (void)what;
    (void)total;
    if (done < IG_DATA_BYTES / 2 || !touched) return;
    FILE *f = fopen(touched, "r+b");
    fseek(f, -1, SEEK_END);
    fputc(1, f);
    fclose(f);
    touched = NULL;
}

static void test_changed_source(void **state)
{
    const char *src = in_folder("torn.safetensors"), *out = in_folder("out.ingot");
    struct ig_pack_job job = { .src = src, .out = out, .progress = touch };
    char want[700];
    (void)state;

    fx_make(src, &(struct fixture){ .sparse = 1 });
    unlink(out);
    touched = src;
    usleep(20000); /* a tick of the file system's clock */
    const int before = files_in_folder();
    assert_int_equal(ig_pack(&job, &why), IG_BAD_FILE);
    snprintf(want, sizeof want, "%s: changed while it was read", src);
    want_text(why.text, want);
    assert_int_equal(files_in_folder(), before);
    unlink(src);
}

static void test_cancel(void **state)
{
    const char *out = in_folder("out.ingot");
    char text[700];
    (void)state;

    snprintf(text, sizeof text, "%s: interrupted; nothing was written", out);
    stop_at = IG_DATA_BYTES / 2;
    want_refusal(NULL, out, IG_FAIL, text);
    stop_at = IG_DATA_BYTES;
    want_refusal(NULL, out, IG_FAIL, text);
    stop_at = 0;
}

static void test_no_room(void **state)
{
    const char *out = in_folder("out.ingot");
    struct rlimit old, limit;
    char text[700];
    (void)state;

    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    limit = old;
    limit.rlim_cur = IG_DATA_BYTES / 2;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    /* tokenizer 0, block table in whole pages */
    uint64_t n_block = (IG_RESIDENT_BYTES + (1 << 20) - 1) / (1 << 20);
    for (int l = 0; l < IG_N_LAYER; l++)
        n_block +=
            ig_layers[l].n_expert * ((ig_layers[l].expert_stride + (256 << 10) - 1) / (256 << 10));
    snprintf(text, sizeof text, "%s: no room: want %llu bytes, got %llu free", out,
             (unsigned long long)(4096 + (n_block * 24 + 4095) / 4096 * 4096 + IG_DATA_BYTES),
             (unsigned long long)limit.rlim_cur);
    want_refusal(NULL, out, IG_IO, text);
    setrlimit(RLIMIT_FSIZE, &old);
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
        cmocka_unit_test(test_float_types),      cmocka_unit_test(test_shards),
        cmocka_unit_test(test_gguf_float),       cmocka_unit_test(test_gguf_blocks),
        cmocka_unit_test(test_demo_model),       cmocka_unit_test(test_wrong_tensors),
        cmocka_unit_test(test_wrong_facts),      cmocka_unit_test(test_right_facts),
        cmocka_unit_test(test_not_finite),       cmocka_unit_test(test_not_a_checkpoint),
        cmocka_unit_test(test_output_is_source), cmocka_unit_test(test_changed_source),
        cmocka_unit_test(test_cancel),           cmocka_unit_test(test_no_room),
        cmocka_unit_test(test_tokenizer),        cmocka_unit_test(test_synth),
        cmocka_unit_test(test_copy_and_embed),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests_name("pack", tests, NULL, NULL);
}
