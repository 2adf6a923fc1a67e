/* The weights file's pages in the page cache, mapped in place of memory (wmap.h). */
#include "wfile_fixture.h"
#include "wmap.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>

static char mapped_path[] = "/tmp/ingot-wmap-XXXXXX";
static unsigned char *place;

static void map_it(struct ig_wfile *f)
{
    place = mmap(NULL, 3 * IG_WALIGN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(place != MAP_FAILED);
    assert_int_equal(ig_wfile_open(f, mapped_path, LAYOUT, &why), IG_OK);
}

static int map_fixture(void **state)
{
    (void)state;
    strcpy(mapped_path + strlen(mapped_path) - 6, "XXXXXX");
    const int fd = mkstemp(mapped_path);
    if (fd < 0) return -1;
    close(fd);
    write_to(mapped_path, 0);
    return 0;
}
static int map_gone(void **state)
{
    (void)state;
    return unlink(mapped_path);
}

static void test_mapped(void **state)
{
    struct ig_wfile f;
    (void)state;
    map_it(&f);
    assert_int_equal(ig_wmap_open(&f, place, DATA, &why), IG_OK);
    for (uint32_t i = 0; i < f.h.n_block; i++) {
        assert_int_equal(ig_wmap_fetch(&f, place, f.blocks[i].off, f.blocks[i].bytes, &why), IG_OK);
        assert_int_equal(ig_wfile_check(&f, i, place + f.blocks[i].off, &why), IG_OK);
    }
    assert_memory_equal(place, data, DATA);
    ig_wmap_close();
    ig_wfile_close(&f);
    munmap(place, 3 * IG_WALIGN);
}

/* Once more beside it, wherever; both are watched. */
static void test_mapped_plainly(void **state)
{
    struct ig_wfile f;
    const unsigned char *at[2];
    (void)state;
    map_it(&f);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(ig_wmap_plain(&f, &at[i], DATA, &why), IG_OK);
        assert_memory_equal(at[i], data, DATA);
        assert_int_equal(fcntl(f.fd, F_GETLEASE), F_RDLCK);
    }
    ig_wmap_close();
    ig_wfile_close(&f);
    for (int i = 0; i < 2; i++) munmap((void *)(uintptr_t)at[i], DATA);
    munmap(place, 3 * IG_WALIGN);
    const int writer = open(mapped_path, O_RDWR);
    assert_true(writer >= 0);
    assert_int_equal(ig_wfile_open(&f, mapped_path, LAYOUT, &why), IG_OK);
    assert_int_equal(ig_wmap_plain(&f, &at[0], DATA, &why), IG_IO);
    assert_non_null(strstr(why.text, "it is open for writing"));
    ig_wfile_close(&f);
    close(writer);
}

/* A file that somebody may still be writing is not mapped, and the memory stays as it was. */
static void test_not_mapped_while_written(void **state)
{
    struct ig_wfile f;
    (void)state;
    map_it(&f);
    const int writer = open(mapped_path, O_RDWR);
    assert_true(writer >= 0);
    assert_int_equal(ig_wmap_open(&f, place, DATA, &why), IG_IO);
    assert_non_null(strstr(why.text, "it is open for writing"));
    place[0] = 1;
    close(writer);
    ig_wfile_close(&f);
    munmap(place, 3 * IG_WALIGN);
}

/* A file of BIG bytes written `step` at a time, its descriptor as a weights file's, and memory for
 * it. */
enum { BIG = 96 << 20, HUGE_PAGE = 2 << 20 };
static unsigned char *reserved;
static struct ig_wfile big_file(int step)
{
    struct ig_wfile f = { .path = "big" };
    unsigned char *piece = calloc(1, (size_t)step);
    assert_non_null(piece);
    const int fd = open(mapped_path, O_WRONLY | O_TRUNC);
    for (off_t at = 0; at < BIG; at += step)
        assert_int_equal(pwrite(fd, piece, (size_t)step, at), step);
    free(piece);
    close(fd);
    f.fd = open(mapped_path, O_RDONLY);
    assert_true(f.fd >= 0);
    reserved =
        mmap(NULL, BIG + HUGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(reserved != MAP_FAILED);
    place = reserved + (HUGE_PAGE - (uintptr_t)reserved % HUGE_PAGE);
    return f;
}

/* Pages that would be read slowly are not mapped, and the memory is the caller's as before. */
static void test_not_mapped_in_small_pages(void **state)
{
    (void)state;
    struct ig_wfile f = big_file(4096);
    assert_int_equal(ig_wmap_open(&f, place, BIG, &why), IG_IO);
    want_text(why.text, "the page cache has it in small pages");
    memset(place, 1, BIG);
    munmap(reserved, BIG + HUGE_PAGE);
    close(f.fd);
}

static void test_mapped_in_huge_pages(void **state)
{
    (void)state;
    struct ig_wfile f = big_file(HUGE_PAGE);
    const enum ig_err err = ig_wmap_open(&f, place, BIG, &why);
    if (err == IG_OK) ig_wmap_close();
    close(f.fd);
    munmap(reserved, BIG + HUGE_PAGE);
    if (err == IG_OK) return;
    want_text(why.text, "the page cache has it in small pages");
    skip(); /* a file system that has no others */
}

/* What a process with the file mapped says and ends with when `harm` has come to it. */
static void expect_end(void harm(void), int without_lease, int plain, const char *say)
{
    int ready[2], said[2];
    char text[512] = "", c;
    assert_int_equal(pipe(ready) | pipe(said), 0);
    const pid_t child = fork();
    if (child == 0) {
        struct ig_wfile f;
        dup2(said[1], STDERR_FILENO);
        map_it(&f);
        const unsigned char *at = place;
        if (plain && ig_wmap_plain(&f, &at, DATA, &why) != IG_OK) _exit(9);
        if (!plain && ig_wmap_open(&f, place, DATA, &why) != IG_OK) _exit(9);
        if (without_lease) fcntl(f.fd, F_SETLEASE, F_UNLCK);
        if (write(ready[1], "", 1) != 1) _exit(9);
        for (const volatile unsigned char *p = at;;) c = (char)*p;
    }
    assert_int_equal(read(ready[0], &c, 1), 1);
    harm();
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 1);
    close(said[1]);
    assert_true(read(said[0], text, sizeof text - 1) > 0);
    assert_non_null(strstr(text, mapped_path));
    assert_non_null(strstr(text, say));
    close(said[0]), close(ready[0]), close(ready[1]);
}

static void open_to_write(void) { close(open(mapped_path, O_WRONLY)); }
static void cut(void) { assert_int_equal(truncate(mapped_path, 0), 0); }

static void test_mapped_and_written(void **state)
{
    (void)state;
    for (int plain = 0; plain < 2; plain++) {
        expect_end(open_to_write, 0, plain, "opened for writing while its weights are in use");
        expect_end(cut, 0, plain, "opened for writing while its weights are in use");
        write_to(mapped_path, 0);
        expect_end(cut, 1, plain, "its weights cannot be read any more");
        write_to(mapped_path, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_mapped, map_fixture, map_gone),
        cmocka_unit_test_setup_teardown(test_mapped_plainly, map_fixture, map_gone),
        cmocka_unit_test_setup_teardown(test_not_mapped_while_written, map_fixture, map_gone),
        cmocka_unit_test_setup_teardown(test_not_mapped_in_small_pages, map_fixture, map_gone),
        cmocka_unit_test_setup_teardown(test_mapped_in_huge_pages, map_fixture, map_gone),
        cmocka_unit_test_setup_teardown(test_mapped_and_written, map_fixture, map_gone),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests_name("wmap", tests, NULL, NULL);
}
