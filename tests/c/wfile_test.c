/* The weights file: written whole or not at all, and no byte of it can change unseen. */
#include "file.h"
#include "wfile_fixture.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

static struct bytes slurp(const char *path)
{
    struct bytes b = { 0 };
    char *p;
    assert_int_equal(ig_file_slurp(path, 1 << 26, &p, &b.n, &why), IG_OK);
    b.p = (unsigned char *)p;
    b.room = b.n + 1;
    return b;
}

/* Everything that a loader does with verification on. */
static enum ig_err load_all(const char *path)
{
    struct ig_wfile f;
    void *blob;
    size_t n;
    static unsigned char got[1 << 16];

    enum ig_err err = ig_wfile_open(&f, path, LAYOUT, &why);
    if (err) return err;
    err = ig_wfile_tokenizer(&f, &blob, &n, &why);
    if (!err) free(blob);
    for (uint32_t i = 0; i < f.h.n_block && !err; i++) {
        assert_true(f.blocks[i].bytes <= sizeof got);
        err = ig_wfile_read(&f, got, f.blocks[i].off, f.blocks[i].bytes, &why);
        if (!err) err = ig_wfile_check(&f, i, got, &why);
    }
    ig_wfile_close(&f);
    return err;
}

static void test_round_trip(void **state)
{
    struct ig_wfile f;
    unsigned char got[DATA];
    void *blob;
    size_t n;
    char want[700];
    (void)state;

    const char *path = in_folder("w.ingot");
    write_to(path, 0);
    assert_int_equal(files_in_folder(), 1);
    assert_int_equal(load_all(path), IG_OK);
    assert_int_equal(ig_wfile_open(&f, path, 0, &why), IG_OK);
    assert_string_equal(f.h.model_id, "a-model");
    assert_string_equal(f.h.layout_text, "f32 everywhere");
    assert_int_equal(f.h.file_bytes, 3 * 4096 + 12288);
    assert_int_equal(ig_wfile_read(&f, got, 0, DATA, &why), IG_OK);
    assert_memory_equal(got, data, DATA);
    assert_int_equal(ig_wfile_tokenizer(&f, &blob, &n, &why), IG_OK);
    assert_int_equal(n, sizeof tokenizer);
    assert_memory_equal(blob, tokenizer, n);
    free(blob);
    assert_int_equal(ig_wfile_read(&f, got, 9999, 2, &why), IG_BAD_FILE);
    snprintf(want, sizeof want, "%s: data: want 2 bytes at 9999, got 10000 in all", path);
    want_text(why.text, want);
    ig_wfile_close(&f);
}

static void test_mismatch(void **state)
{
    struct ig_wfile f;
    char want[1024];
    (void)state;

    const char *path = in_folder("w.ingot");
    write_to(path, 0);
    assert_int_equal(ig_wfile_open(&f, path, 78, &why), IG_MISMATCH);
    snprintf(want, sizeof want,
             "%s: packed for another model; use the binary it was packed with, or another file\n"
             "  this binary: 000000000000004e, this test\n"
             "  the file:    000000000000004d, f32 everywhere",
             path);
    want_text(why.text, want);
}

static void test_truncated(void **state)
{
    (void)state;
    write_to(in_folder("w.ingot"), 0);
    struct bytes b = slurp(in_folder("w.ingot"));

    for (size_t n = 0; n < b.n; n += n < 9000 ? 1 : 37)
        assert_int_equal(load_all(save_n("cut.ingot", b.p, n)), IG_BAD_FILE);
    put_zero(&b, 1);
    assert_int_equal(load_all(save("cut.ingot", &b)), IG_BAD_FILE);
    free(b.p);
}

/* Every single flipped bit is noticed, in padding too. */
static void test_flipped(void **state)
{
    (void)state;
    write_to(in_folder("w.ingot"), 0);
    struct bytes b = slurp(in_folder("w.ingot"));
    const char *path = save("flip.ingot", &b);
    FILE *f = fopen(path, "r+b");
    assert_non_null(f);

    for (size_t i = 0; i < b.n; i++) {
        const int bit = (int)(i % 8);
        fseek(f, (long)i, SEEK_SET);
        fputc(b.p[i] ^ 1 << bit, f);
        fflush(f);
        const enum ig_err err = load_all(path);
        assert_true(err == IG_BAD_FILE);
        fseek(f, (long)i, SEEK_SET);
        fputc(b.p[i], f);
    }
    fclose(f);
    assert_int_equal(load_all(path), IG_OK);
    free(b.p);
}

/* Lies with a right checksum: someone wrote them on purpose. */
#define AT(field) offsetof(struct ig_wheader, field)
static const struct {
    size_t at;
    int bytes;
    uint64_t value;
    const char *text; /* after the path */
} lies[] = {
    { AT(magic), 1, 'X',
      ": not a weights file: its first bytes are not INGOTW01; pack makes one from a "
      "checkpoint" },
    { AT(header_bytes), 4, 0, ": header_bytes: want 432, got 0" },
    { AT(n_block), 4, 3, ": blocks.bytes: want 72, got 48" },
    { AT(n_block), 4, UINT32_MAX, ": blocks.bytes: want 103079215080, got 48" },
    { AT(file_bytes), 8, 1, ": file_bytes: want 24576, got 1" },
    { AT(model_id) + 63, 1, 'x', ": model_id: want text padded with NULs" },
    { AT(layout_text) + 255, 1, 'x', ": layout_text: want text padded with NULs" },
    { AT(tokenizer.off), 8, 0, ": tokenizer.off: want 4096, got 0" },
    { AT(tokenizer.bytes), 8, UINT64_MAX, ": sections: want sizes that add up below 2^64" },
    { AT(tokenizer.bytes), 8, UINT64_MAX - 8191, ": sections: want sizes that add up below 2^64" },
    { AT(tokenizer.bytes), 8, (UINT64_C(1) << 30) + 1,
      ": tokenizer.bytes: want at most 1073741824, got 1073741825" },
    { AT(tokenizer.bytes), 8, 5000, ": blocks.off: want 12288, got 8192" },
    { AT(blocks.off), 8, 4096, ": blocks.off: want 8192, got 4096" },
    { AT(blocks.bytes), 8, 24, ": blocks.bytes: want 48, got 24" },
    { AT(data.off), 8, UINT64_MAX, ": data.off: want 12288, got 18446744073709551615" },
    { AT(data.bytes), 8, 20000, ": file_bytes: want 32768, got 24576" },
    { AT(data.bytes), 8, UINT64_MAX, ": sections: want sizes that add up below 2^64" },
    { AT(data.bytes), 8, 9999, ": block 1: bytes: want 1 to 3999, got 4000" },
    { AT(data.bytes), 8, 10001, ": bytes of all blocks: want 10001, got 10000" },
    { AT(data.hash), 8, 1, ": data.hash: want 0, got 1" },
};

static const struct {
    size_t at;
    uint64_t value;
    const char *text;
} block_lies[] = {
    { 0, 1, ": block 0: off: want 0, got 1" },
    { 8, 0, ": block 0: bytes: want 1 to 10000, got 0" },
    { 8, 10001, ": block 0: bytes: want 1 to 10000, got 10001" },
    { 8, UINT64_MAX, ": block 0: bytes: want 1 to 10000, got 18446744073709551615" },
    { 8, 5999, ": block 1: off: want 5999, got 6000" },
    { 24, 0, ": block 1: off: want 6000, got 0" },
    { 32, 4001, ": block 1: bytes: want 1 to 4000, got 4001" },
    { 32, 1, ": bytes of all blocks: want 10000, got 6001" },
};

static void set(unsigned char *p, uint64_t v, int bytes)
{
    for (int i = 0; i < bytes; i++, v >>= 8) p[i] = (unsigned char)v;
}

static void want_lie(struct bytes *b, const char *text)
{
    char want[1024];
    struct ig_wheader *h = (struct ig_wheader *)(void *)b->p;

    h->header_hash = XXH3_64bits(h, offsetof(struct ig_wheader, header_hash));
    const char *path = save("lie.ingot", b);
    assert_int_equal(load_all(path), IG_BAD_FILE);
    snprintf(want, sizeof want, "%s%s", path, text);
    want_text(why.text, want);
    free(b->p);
}

/* A sparse file whose table says that it has 2^28 blocks: nothing is taken for them. */
static void test_a_table_of_nothing(void **state)
{
    (void)state;
    write_to(in_folder("w.ingot"), 0);
    struct bytes b = slurp(in_folder("w.ingot"));
    struct ig_wheader *h = (struct ig_wheader *)(void *)b.p;
    char want[1024];

    h->n_block = 1u << 28;
    h->blocks.bytes = h->n_block * (uint64_t)sizeof(struct ig_wblock);
    assert_true(ig_wfile_place(h));
    h->header_hash = XXH3_64bits(h, offsetof(struct ig_wheader, header_hash));
    const uint64_t bytes = h->file_bytes;
    b.n = sizeof *h;
    const char *path = save("sparse.ingot", &b);
    assert_int_equal(truncate(path, (off_t)bytes), 0);
    assert_int_equal(load_all(path), IG_BAD_FILE);
    snprintf(want, sizeof want, "%s: block 0: bytes: want 1 to 10000, got 0", path);
    want_text(why.text, want);
    unlink(path);
    free(b.p);
}

static void test_lies(void **state)
{
    (void)state;
    const char *path = in_folder("w.ingot");
    write_to(path, 0);
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        struct bytes b = slurp(in_folder("w.ingot"));
        set(b.p + lies[i].at, lies[i].value, lies[i].bytes);
        want_lie(&b, lies[i].text);
    }
    for (size_t i = 0; i < sizeof block_lies / sizeof *block_lies; i++) {
        struct bytes b = slurp(in_folder("w.ingot"));
        struct ig_wheader *h = (struct ig_wheader *)(void *)b.p;
        unsigned char *table = b.p + h->blocks.off;
        set(table + block_lies[i].at, block_lies[i].value, 8);
        h->blocks.hash = XXH3_64bits(table, (size_t)h->blocks.bytes);
        want_lie(&b, block_lies[i].text);
    }
}

static void test_damage_is_named(void **state)
{
    (void)state;
    write_to(in_folder("w.ingot"), 0);
    struct bytes b = slurp(in_folder("w.ingot"));
    b.p[12288 + BLOCK0] ^= 1;
    assert_int_equal(load_all(save("damage.ingot", &b)), IG_BAD_FILE);
    assert_non_null(strstr(why.text, ": checksum of block 1 (data 6000 to 10000): want "));
    b.p[12288 + BLOCK0] ^= 1;
    b.p[4096] ^= 1;
    assert_int_equal(load_all(save("damage.ingot", &b)), IG_BAD_FILE);
    assert_non_null(strstr(why.text, ": checksum of the tokenizer: want "));
    b.p[4096] ^= 1;
    b.p[4096 + sizeof tokenizer] = 9;
    assert_int_equal(load_all(save("damage.ingot", &b)), IG_BAD_FILE);
    assert_non_null(strstr(why.text, ": padding after tokenizer: want 0 at 4123, got 9"));
    free(b.p);
}

/* An existing file stays until the new one is whole. */
static void test_abort(void **state)
{
    struct ig_wwriter w;
    (void)state;

    const char *path = save_n("keep.ingot", "old", 3);
    const int before = files_in_folder();
    struct ig_wspec spec = spec_of(path);
    assert_int_equal(ig_wwrite_open(&w, &spec, &why), IG_OK);
    assert_int_equal(files_in_folder(), before + 1);
    assert_int_equal(ig_wwrite_data(&w, data, 100, &why), IG_OK);
    ig_wwrite_abort(&w);
    assert_int_equal(files_in_folder(), before);
    struct bytes b = slurp(path);
    assert_int_equal(b.n, 3);
    free(b.p);
    write_to(path, 0);
    assert_int_equal(load_all(path), IG_OK);
    assert_int_equal(files_in_folder(), before);
}

static void test_bad_output(void **state)
{
    struct ig_wwriter w;
    char want[700];
    (void)state;

    struct ig_wspec spec = spec_of(in_folder("no-folder/w.ingot"));
    assert_int_equal(ig_wwrite_open(&w, &spec, &why), IG_IO);
    snprintf(want, sizeof want, "%s: cannot create: the folder %.*s does not exist", spec.out,
             (int)(strrchr(spec.out, '/') - spec.out), spec.out);
    want_text(why.text, want);
    spec = spec_of("/dev/null");
    assert_int_equal(ig_wwrite_open(&w, &spec, &why), IG_IO);
    want_text(why.text, "/dev/null: want the name of a regular file, got something else");
}

/* A file-size limit stands for the full disk; the second one comes while writing. */
static void test_no_room(void **state)
{
    struct ig_wwriter w;
    struct rlimit old, limit;
    struct stat st;
    char want[700];
    (void)state;

    const char *path = save_n("full.ingot", "old", 3);
    const int before = files_in_folder();
    struct ig_wspec spec = spec_of(path);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    limit = old;
    limit.rlim_cur = 20000;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    enum ig_err err = ig_wwrite_open(&w, &spec, &why);
    setrlimit(RLIMIT_FSIZE, &old);
    assert_int_equal(err, IG_IO);
    snprintf(want, sizeof want, "%s: no room: want 24576 bytes, got 20000 free", path);
    want_text(why.text, want);
    assert_int_equal(files_in_folder(), before);

    assert_int_equal(ig_wwrite_open(&w, &spec, &why), IG_OK);
    setrlimit(RLIMIT_FSIZE, &limit);
    err = ig_wwrite_data(&w, data, DATA, &why);
    if (err == IG_OK)
        err = ig_wwrite_finish(&w, &why); /* less than a huge page waits for the end */
    setrlimit(RLIMIT_FSIZE, &old);
    assert_int_equal(err, IG_IO);
    snprintf(want, sizeof want,
             "%s: File too large: want 24576 bytes, got 20000 of them; 20000 are free", path);
    want_text(why.text, want);
    ig_wwrite_abort(&w);
    assert_int_equal(files_in_folder(), before);
    /* An executable with weights takes the room of both. */
    assert_int_equal(stat("/proc/self/exe", &st), 0);
    const unsigned long long all =
        (unsigned long long)(st.st_size + 4095) / 4096 * 4096 + 24576 + 32;
    limit.rlim_cur = all - 1;
    spec.embed = 1;
    setrlimit(RLIMIT_FSIZE, &limit);
    err = ig_wwrite_open(&w, &spec, &why);
    setrlimit(RLIMIT_FSIZE, &old);
    assert_int_equal(err, IG_IO);
    snprintf(want, sizeof want, "%s: no room: want %llu bytes, got %llu free", path, all, all - 1);
    want_text(why.text, want);
    assert_int_equal(files_in_folder(), before);
    struct bytes b = slurp(path);
    assert_int_equal(b.n, 3);
    free(b.p);
}

/* The copy of this program, run with --embedded, looks into itself. */
static int run_embedded(const char *path, const char *out)
{
    const pid_t pid = fork();
    if (pid == 0) {
        execl(path, path, out ? "--embed-again" : "--embedded", out, (char *)NULL);
        _exit(99);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void test_embedded(void **state)
{
    struct ig_wfile f;
    struct stat one, two;
    int found;
    (void)state;

    assert_int_equal(ig_wfile_embedded(&found, &why), IG_OK);
    assert_false(found);
    assert_int_equal(ig_wfile_open(&f, NULL, 0, &why), IG_BAD_FILE);
    want_text(why.text, "embedded weights: trailer: want one at this executable's end, got none "
                        "(pass a weights file, or pack with --embed)");
    const char *path = in_folder("program"), *again = in_folder("again");
    write_to(path, 1);
    assert_int_equal(stat(path, &one), 0);
    assert_int_equal(one.st_mode & 0777, 0755);
    assert_int_equal(run_embedded(path, NULL), 0);
    /* Packed by a program that carries weights already: they are replaced, not kept. */
    assert_int_equal(run_embedded(path, again), 0);
    assert_int_equal(run_embedded(again, NULL), 0);
    assert_int_equal(stat(again, &two), 0);
    assert_int_equal(two.st_size, one.st_size);

    struct bytes b = slurp(path);
    b.p[b.n - 20] ^= 1; /* a trailer whose checksum is wrong is none */
    save("program", &b);
    assert_int_equal(run_embedded(path, NULL), 3); /* but something follows the program */
    free(b.p);
}

int main(int argc, char **argv)
{
    int found;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),         cmocka_unit_test(test_mismatch),
        cmocka_unit_test(test_truncated),          cmocka_unit_test(test_flipped),
        cmocka_unit_test(test_a_table_of_nothing), cmocka_unit_test(test_lies),
        cmocka_unit_test(test_damage_is_named),    cmocka_unit_test(test_abort),
        cmocka_unit_test(test_bad_output),         cmocka_unit_test(test_no_room),
        cmocka_unit_test(test_embedded),
    };
    if (argc > 1 && strcmp(argv[1], "--embedded") == 0)
        return ig_wfile_embedded(&found, &why) ? 3 : !found || load_all(NULL) != IG_OK;
    if (argc > 2 && strcmp(argv[1], "--embed-again") == 0) {
        write_to(argv[2], 1);
        return 0;
    }
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests_name("wfile", tests, NULL, NULL);
}
