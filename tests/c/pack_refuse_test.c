/* pack: what it refuses, and that a failure leaves nothing behind.
 *
 * Runs with any plan: the checkpoints are made in its shape.
 */
#include "pack_run.h"
#include "file.h"
#include "gguf.h"

#include <sys/resource.h>

static const char *touched; /* the source that changes while it is read */

/* A refusal leaves the folder and the old output as they were. */
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
    const uint64_t n_block =
        (IG_RESIDENT_BYTES + (1 << 20) - 1) / (1 << 20) + (uint64_t)IG_N_LAYER * IG_N_EXPERT;
    snprintf(text, sizeof text, "%s: no room: want %llu bytes, got %llu free", out,
             (unsigned long long)(4096 + (n_block * 24 + 4095) / 4096 * 4096 + IG_DATA_BYTES),
             (unsigned long long)limit.rlim_cur);
    want_refusal(NULL, out, IG_IO, text);
    setrlimit(RLIMIT_FSIZE, &old);
}
int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wrong_tensors),    cmocka_unit_test(test_wrong_facts),
        cmocka_unit_test(test_not_finite),       cmocka_unit_test(test_not_a_checkpoint),
        cmocka_unit_test(test_output_is_source), cmocka_unit_test(test_changed_source),
        cmocka_unit_test(test_cancel),           cmocka_unit_test(test_no_room),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests_name("pack_refuse", tests, NULL, NULL);
}
