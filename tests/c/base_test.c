/* base.h, file.h and temp.h: messages that cannot steer a terminal, names that are links. */
#include "base.h"
#include "bytes.h"
#include "temp.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/wait.h>

static void escapes(const char *from, size_t room, const char *want)
{
    char to[64];
    memset(to, 'x', sizeof to);
    ig_escape(to, room, from);
    want_text(to, want);
}

static void test_escape(void **state)
{
    struct ig_why why;
    (void)state;

    escapes("plain, \xc3\xa4 and \xe2\x82\xac", 64, "plain, \xc3\xa4 and \xe2\x82\xac");
    escapes("\x1b[31m\x07", 64, "\\x1b[31m\\x07");
    escapes("a\rb\x7f", 64,
            "a\\x0d"
            "b\\x7f");
    escapes("C1 \xc2\x9b"
            "31m, no C1 \xc2\xa0",
            64,
            "C1 \\xc2\\x9b"
            "31m, no C1 \xc2\xa0");
    escapes("cut at the end: \xc2", 64, "cut at the end: \xc2");
    escapes("a\nb", 64, "a\\x0ab");
    escapes("a\n  b", 64, "a\n  b");
    /* What does not fit is left out whole. */
    escapes("ab\x1b", 3, "ab");
    escapes("ab\x1b", 6, "ab");
    escapes("ab\x1b", 7, "ab\\x1b");
    escapes("ab\xc2\x9b", 10, "ab");
    escapes("abc", 3, "ab");
    escapes("abc", 1, "");
    /* A message may pass through twice. */
    assert_int_equal(ig_fail(&why, IG_IO, "%s: cannot open",
                             "\x1b"
                             "c"),
                     IG_IO);
    ig_fail(&why, IG_IO, "eval: %s", why.text);
    want_text(why.text, "eval: \\x1b"
                        "c: cannot open");
}

static void leads_to(const char *link, const char *want)
{
    char *to = ig_file_target(link);
    assert_non_null(to);
    want_text(to, want);
    free(to);
}

static void put_text_at(const char *path, const char *text)
{
    struct ig_temp t;
    struct ig_why why;

    assert_int_equal(ig_temp_open(&t, path, 0666, &why), IG_OK);
    assert_int_equal(write(t.fd, text, strlen(text)), (ssize_t)strlen(text));
    assert_int_equal(ig_temp_keep(&t, &why), IG_OK);
}

static void holds(const char *path, const char *want)
{
    struct ig_why why;
    char *text;
    size_t n;
    assert_int_equal(ig_file_slurp(path, 100, &text, &n, &why), IG_OK);
    want_text(text, want);
    free(text);
}

static void is_link(const char *path)
{
    struct stat st;
    assert_int_equal(lstat(path, &st), 0);
    assert_true(S_ISLNK(st.st_mode));
}

/* A link to a link, to a file of another folder that is not there yet. */
static void test_links(void **state)
{
    const char *folder = in_folder("real"), *file = in_folder("real/file"), *one = in_folder("one"),
               *two = in_folder("two"), *away = in_folder("real/away");
    (void)state;

    mkdir(folder, 0700);
    leads_to(file, file);
    assert_int_equal(symlink("real/file", one), 0);
    assert_int_equal(symlink(one, away), 0);
    assert_int_equal(symlink("real/away", two), 0);
    leads_to(two, file);
    put_text_at(two, "first");
    holds(file, "first");
    put_text_at(one, "second");
    holds(file, "second");
    is_link(one), is_link(two), is_link(away);
    assert_int_equal(files_in_folder(), 3); /* nothing partial beside the links */
}

/* What a killed writer leaves goes when the name is written again; what a living one writes stays.
 */
static void test_partial(void **state)
{
    const char *out = in_folder("out"), *dead = in_folder("out.partial-99999998"),
               *alive = in_folder("out.partial-99999999"), *other = in_folder("out.partial-x"),
               *running = in_folder("out.partial-1");
    (void)state;

    put_text_at(dead, "half");
    put_text_at(other, "not ours");
    put_text_at(alive, "half");
    put_text_at(running, "of a process that is there");
    const int before = files_in_folder(), fd = open(alive, O_RDONLY);
    assert_int_equal(flock(fd, LOCK_EX), 0);
    put_text_at(out, "whole");
    assert_int_equal(files_in_folder(), before); /* one more, one less */
    assert_int_equal(access(dead, F_OK), -1);
    holds(alive, "half"), holds(other, "not ours"), holds(out, "whole");
    holds(running, "of a process that is there");
    close(fd);
}

/* In a container a number comes back: what its former bearer left is removed, what another
 * container's writes is not. */
static void test_partial_of_our_number(void **state)
{
    char name[40], want[700];
    struct ig_temp t;
    struct ig_why why;
    (void)state;
    snprintf(name, sizeof name, "same.partial-%ld", (long)getpid());
    const char *out = in_folder("same"), *ours = in_folder(name);

    put_text_at(ours, "half");
    put_text_at(out, "whole");
    assert_int_equal(access(ours, F_OK), -1);

    put_text_at(ours, "half");
    const int fd = open(ours, O_RDONLY);
    assert_int_equal(flock(fd, LOCK_EX), 0);
    assert_int_equal(ig_temp_open(&t, out, 0666, &why), IG_IO);
    snprintf(want, sizeof want,
             "%s: another program is writing it, into %s: try again when that has ended", out,
             ours);
    want_text(why.text, want);
    holds(ours, "half"), holds(out, "whole");
    close(fd);
    unlink(ours);
}

static void test_bad_links(void **state)
{
    const char *loop = in_folder("loop"), *nowhere = in_folder("nowhere");
    struct ig_temp t;
    struct ig_why why;
    char want[700];
    (void)state;

    assert_int_equal(symlink("loop", loop), 0);
    assert_int_equal(ig_temp_open(&t, loop, 0666, &why), IG_IO);
    snprintf(want, sizeof want, "%s: cannot create: %s", loop, strerror(ELOOP));
    want_text(why.text, want);
    assert_int_equal(symlink("/no-such-folder/file", nowhere), 0);
    assert_int_equal(ig_temp_open(&t, nowhere, 0666, &why), IG_IO);
    snprintf(want, sizeof want, "%s: cannot create: the folder /no-such-folder does not exist",
             nowhere);
    want_text(why.text, want);
}

/* What exits in the middle, as libgomp does without threads, leaves the old file and nothing
 * partial. */
static void test_exit_leaves_nothing(void **state)
{
    const char *path = in_folder("kept");
    const int before = files_in_folder();
    int status = -1;
    (void)state;

    put_text_at(path, "old");
    const pid_t child = fork();
    if (child == 0) {
        struct ig_temp t;
        struct ig_why why;
        *test_folder = 0; /* the parent's to remove */
        exit(ig_temp_open(&t, path, 0666, &why) == IG_OK && write(t.fd, "new", 3) == 3 ? 7 : 8);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(WEXITSTATUS(status), 7);
    holds(path, "old");
    assert_int_equal(files_in_folder(), before + 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_escape),    cmocka_unit_test(test_links),
        cmocka_unit_test(test_partial),   cmocka_unit_test(test_partial_of_our_number),
        cmocka_unit_test(test_bad_links), cmocka_unit_test(test_exit_leaves_nothing),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests_name("base", tests, NULL, NULL);
}
