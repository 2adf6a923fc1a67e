/* Copies that fail, files that change, a process that is killed: an end with words, never a wrong
 * token. */
#include "tier_own.h"
#include "wfile_write.h"

#include <sys/stat.h>
#include <sys/wait.h>

/* In a child: tokens until a fault ends it.  Its words in `err`; what it printed in `out`. */
static int child(void (*plant)(struct ig_engine *e), char *err, size_t err_cap, char *out,
                 size_t out_cap)
{
    int p[2], q[2], status, finite;
    assert_int_equal(pipe(p), 0);
    assert_int_equal(pipe(q), 0);
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        dup2(p[1], 2);
        close(p[0]), close(q[0]);
        struct ig_engine *e = start(2);
        if (plant) plant(e);
        tokens(e, 16, fdopen(q[1], "w"), &finite);
        _exit(0);
    }
    close(p[1]), close(q[1]);
    size_t n = 0;
    for (ssize_t got; n < out_cap - 1 && (got = read(q[0], out + n, out_cap - 1 - n)) > 0;)
        n += (size_t)got;
    out[n] = 0;
    n = 0;
    for (ssize_t got; n < err_cap - 1 && (got = read(p[0], err + n, err_cap - 1 - n)) > 0;)
        n += (size_t)got;
    err[n] = 0;
    close(p[0]), close(q[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static char err[4096], whole[4096], out[4096];

/* Fault in an expert that the run uses late: the last read of a run without faults. */
static void test_faults(void **state)
{
    (void)state;
    static const struct {
        enum shaky_fault fault;
        const char *say;
    } t[] = { { SHAKY_EIO, "cannot read" },
              { SHAKY_END, "cut short" },
              { SHAKY_FLIP, "wrong checksum" } };
    shaky = (struct shaky){ .seed = 3 };
    shake = 1;
    run(1, 16); /* no threads yet: children could not use them */
    const uint64_t late = shaky.order[shaky.n_order * 3 / 4];
    for (int i = 0; i < 3; i++) {
        /* The second read of that place and all later ones: the first is in the prompt. */
        shaky =
            (struct shaky){ .seed = 3, .fault = t[i].fault, .fault_at = late, .fault_left = 1000 };
        assert_int_equal(child(NULL, err, sizeof err, out, sizeof out), 1);
        assert_non_null(strstr(err, t[i].say));
        assert_non_null(strstr(err, "layer"));
        assert_non_null(strstr(err, "expert"));
        assert_non_null(strstr(err, weights));
        assert_memory_equal(out, whole, strlen(out)); /* what came before was right */
        assert_true(strlen(out) < strlen(whole));
    }
    shake = 0;
}

static void cut(struct ig_engine *e)
{
    (void)e;
    struct stat st;
    stat(weights, &st);
    if (truncate(weights, st.st_size / 2) != 0) _exit(9);
}
static void scribble(struct ig_engine *e)
{
    char zero[4096] = { 0 };
    FILE *f = fopen(weights, "r+b");
    for (uint64_t at = e->tier.base + IG_RESIDENT_BYTES; at < e->file.h.file_bytes; at += 100000)
        if (fseek(f, (long)at, SEEK_SET) || fwrite(zero, 1, sizeof zero, f) != sizeof zero)
            _exit(9);
    fclose(f);
}
/* Another file under the same name: the open one goes on. */
static void replace(struct ig_engine *e)
{
    (void)e;
    FILE *f = fopen(beside, "wb");
    fputs("something else", f);
    fclose(f);
    if (rename(beside, weights) != 0) _exit(9);
}

static void test_file_changes(void **state)
{
    (void)state;
    assert_int_equal(child(cut, err, sizeof err, out, sizeof out), 1);
    assert_non_null(strstr(err, "cut short"));
    assert_memory_equal(out, whole, strlen(out));
    pack();
    assert_int_equal(child(scribble, err, sizeof err, out, sizeof out), 1);
    assert_non_null(strstr(err, "wrong checksum"));
    assert_memory_equal(out, whole, strlen(out));
    pack();
    assert_int_equal(child(replace, err, sizeof err, out, sizeof out), 0);
    assert_string_equal(out, whole);
    pack();
}

/* The weights with experts in blocks of at most so many bytes; 0: all data one block. */
static void write_blocks(const char *to, uint64_t most)
{
    struct ig_wfile f;
    struct ig_wwriter w;
    struct ig_why why;
    void *tokenizer;
    struct ig_wspec spec = { .out = to,
                             .layout_hash = IG_LAYOUT_HASH,
                             .data_bytes = IG_DATA_BYTES };
    assert_int_equal(ig_wfile_open(&f, weights, IG_LAYOUT_HASH, &why), IG_OK);
    assert_int_equal(ig_wfile_tokenizer(&f, &tokenizer, &spec.tokenizer_bytes, &why), IG_OK);
    spec.tokenizer = tokenizer;
    spec.model_id = f.h.model_id;
    spec.layout_text = f.h.layout_text;
    spec.block = calloc((size_t)(f.h.n_block * IG_WBLOCKS), sizeof *spec.block);
    uint64_t at = 0;
    if (!most) spec.block[spec.n_block++].bytes = at = IG_DATA_BYTES;
    for (; at < IG_RESIDENT_BYTES; at += spec.block[spec.n_block++].bytes)
        spec.block[spec.n_block] = f.blocks[spec.n_block];
    for (int l = 0; most && l < IG_N_LAYER; l++)
        for (uint32_t x = 0; x < ig_layers[l].n_expert; x++)
            for (uint64_t left = ig_layers[l].expert_stride, step; left > 0; left -= step) {
                step = left < most ? left : most;
                spec.block[spec.n_block++] = (struct ig_wblock){ .off = at, .bytes = step };
                at += step;
            }
    unsigned char *data = malloc(IG_DATA_BYTES);
    assert_int_equal(ig_wfile_read(&f, data, 0, IG_DATA_BYTES, &why), IG_OK);
    assert_int_equal(ig_wwrite_open(&w, &spec, &why), IG_OK);
    assert_int_equal(ig_wwrite_data(&w, data, IG_DATA_BYTES, &why), IG_OK);
    assert_int_equal(ig_wwrite_finish(&w, &why), IG_OK);
    ig_wfile_close(&f);
    free(data), free(tokenizer), free(spec.block);
}

/* Older files have one block an expert; several are shared by the threads that wait. */
static void test_blocks_of_the_file(void **state)
{
    (void)state;
    const char *now = weights, *other = beside;
    static const uint64_t most[] = { UINT64_MAX, 8192, 50000 };
    for (int i = 0; i < 3; i++) {
        write_blocks(other, most[i]);
        weights = other;
        const uint64_t alone = run(1, 16), shared = run(2, 16);
        weights = now;
        unlink(other);
        assert_int_equal(alone, right);
        assert_int_equal(shared, right);
    }
}

/* A block of what is read at start that goes on into the experts would be read over other memory.
 */
static void test_block_runs_into_the_experts(void **state)
{
    (void)state;
    const char *now = weights;
    struct ig_engine *e;
    struct ig_why why;
    write_blocks(beside, 0);
    weights = beside;
    const struct ig_open o = { .weights = weights, .threads = 1, .verify = 1 };
    const enum ig_err got = ig_engine_open(&e, &o, &why);
    unlink(weights);
    weights = now;
    assert_int_equal(got, IG_BAD_FILE);
    assert_non_null(strstr(why.text, ": block 0: want its end at "));
}

/* Killed at any moment: there is nothing to repair, the next run is right. */
static void test_kill(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        const pid_t pid = fork();
        if (pid == 0) {
            int finite;
            struct ig_engine *e = start(2);
            for (;;) tokens(e, 16, NULL, &finite);
        }
        usleep(20000 + 30000 * (unsigned)i);
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
    }
    assert_int_equal(run(2, 16), right);
}

/* What a run without faults prints, by a child, too: no threads yet. */
static int setup_whole(void **state)
{
    (void)state;
    own_files();
    assert_int_equal(child(NULL, err, sizeof err, whole, sizeof whole), 0);
    right = run(1, PROMPT);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        /* Those that fork come first: a child has only the thread that forked. */
        cmocka_unit_test(test_faults),
        cmocka_unit_test(test_file_changes),
        cmocka_unit_test(test_kill),
        cmocka_unit_test(test_blocks_of_the_file),
        cmocka_unit_test(test_block_runs_into_the_experts),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests_name("tier_fault", tests, setup_whole, teardown);
}
