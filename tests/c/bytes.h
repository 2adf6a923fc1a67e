/* bytes.h -- files written byte by byte, for tests of readers.
 *
 * Every test program gets one folder under $TMPDIR, removed when it ends.
 */
#ifndef IG_TEST_BYTES_H
#define IG_TEST_BYTES_H

#include <dirent.h>
#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

struct bytes {
    unsigned char *p;
    size_t n, room;
};

static inline void put_raw(struct bytes *b, const void *p, size_t n)
{
    if (b->n + n > b->room) {
        b->room = 2 * (b->n + n);
        b->p = realloc(b->p, b->room);
        assert_non_null(b->p);
    }
    if (n) memcpy(b->p + b->n, p, n);
    b->n += n;
}

static inline void put_int(struct bytes *b, uint64_t v, int n)
{
    for (int i = 0; i < n; i++, v >>= 8) put_raw(b, &(unsigned char){ (unsigned char)v }, 1);
}

static inline void put_u32(struct bytes *b, uint32_t v) { put_int(b, v, 4); }
static inline void put_u64(struct bytes *b, uint64_t v) { put_int(b, v, 8); }
static inline void put_text(struct bytes *b, const char *s) { put_raw(b, s, strlen(s)); }

/* GGUF's string. */
static inline void put_str(struct bytes *b, const char *s)
{
    put_u64(b, strlen(s));
    put_text(b, s);
}

static inline void put_zero(struct bytes *b, size_t n)
{
    while (n--) put_raw(b, "", 1);
}

static char test_folder[256];

static inline int remove_one(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    (void)st;
    (void)kind;
    (void)at;
    return remove(path);
}

static inline void remove_test_folder(void)
{
    nftw(test_folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

/* "FOLDER/name", in one of eight buffers that take turns. */
static inline const char *in_folder(const char *name)
{
    static char path[8][512];
    static int next;
    const char *tmp = getenv("TMPDIR");

    if (!*test_folder) {
        snprintf(test_folder, sizeof test_folder, "%s/ingot-test-XXXXXX", tmp ? tmp : "/tmp");
        assert_non_null(mkdtemp(test_folder));
        atexit(remove_test_folder);
    }
    char *p = path[next++ % 8];
    snprintf(p, sizeof path[0], "%s/%s", test_folder, name);
    return p;
}

static inline const char *save_n(const char *name, const void *p, size_t n)
{
    const char *path = in_folder(name);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(p, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
    return path;
}

static inline const char *save(const char *name, const struct bytes *b)
{
    return save_n(name, b->p, b->n);
}

/* The message is the contract: it must say exactly this. */
static inline void want_text(const char *got, const char *want)
{
    if (strcmp(got, want) != 0) fail_msg("want \"%s\"\n  got \"%s\"", want, got);
}

static inline int files_in_folder(void)
{
    DIR *d = opendir(test_folder);
    int n = 0;
    while (d && readdir(d)) n++;
    if (d) closedir(d);
    return n - 2;
}

#endif
