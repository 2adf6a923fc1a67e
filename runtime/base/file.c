/* file.c -- see file.h. */
#include "file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { READ_STEP = 1 << 30 }; /* read(2) moves less than 2 GiB a call */
enum { LINKS_MOST = 40 };     /* as the kernel follows */

enum ig_err ig_file_open(int *fd, uint64_t *size, const char *path, struct ig_why *why)
{
    struct stat st;

    /* O_NONBLOCK: opening a FIFO must not hang; for regular files it means nothing. */
    *fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (*fd < 0) return ig_fail(why, IG_IO, "%s: cannot open: %s", path, strerror(errno));
    if (fstat(*fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        close(*fd);
        *fd = -1;
        return ig_fail(why, IG_IO, "%s: want a regular file, got something else", path);
    }
    *size = (uint64_t)st.st_size;
    return IG_OK;
}

enum ig_err ig_file_read(int fd, const char *path, void *dst, uint64_t off, uint64_t bytes,
                         struct ig_why *why)
{
    uint64_t done = 0;

    if (off > INT64_MAX || bytes > INT64_MAX - off)
        return ig_fail(why, IG_BAD_FILE, "%s: offset %llu: want one below 2^63", path,
                       (unsigned long long)off);
    while (done < bytes) {
        const uint64_t left = bytes - done;
        const size_t step = left < READ_STEP ? (size_t)left : READ_STEP;
        const ssize_t got = pread(fd, (char *)dst + done, step, (off_t)(off + done));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0)
            return ig_fail(why, IG_IO, "%s: read at %llu: %s", path,
                           (unsigned long long)(off + done), strerror(errno));
        if (got == 0)
            return ig_fail(why, IG_BAD_FILE, "%s: read at %llu: want %llu bytes, got %llu", path,
                           (unsigned long long)off, (unsigned long long)bytes,
                           (unsigned long long)done);
        done += (uint64_t)got;
    }
    return IG_OK;
}

enum ig_err ig_file_slurp(const char *path, uint64_t most, char **text, size_t *bytes,
                          struct ig_why *why)
{
    uint64_t size;
    int fd;

    *text = NULL;
    enum ig_err err = ig_file_open(&fd, &size, path, why);
    if (err) return err;
    if (size > most) {
        close(fd);
        return ig_fail(why, IG_BAD_FILE, "%s: size: want at most %llu bytes, got %llu", path,
                       (unsigned long long)most, (unsigned long long)size);
    }
    *text = malloc((size_t)size + 1);
    if (!*text)
        err = ig_fail(why, IG_NO_MEM, "%s: no memory for its %llu bytes", path,
                      (unsigned long long)size);
    else
        err = ig_file_read(fd, path, *text, 0, size, why);
    close(fd);
    if (err) {
        free(*text);
        *text = NULL;
        return err;
    }
    (*text)[size] = '\0';
    *bytes = (size_t)size;
    return IG_OK;
}

char *ig_file_join(const char *folder, const char *name)
{
    const size_t n = strlen(folder) + strlen(name) + 2;
    char *path = malloc(n);
    if (path) snprintf(path, n, "%s/%s", folder, name);
    return path;
}

char *ig_file_target(const char *out)
{
    char link[PATH_MAX];
    char *path = strdup(out);

    for (int hops = 0; path; hops++) {
        const ssize_t n = readlink(path, link, sizeof link - 1);
        if (n < 0) return path; /* no link, or nothing there: whoever creates it says so */
        link[n] = '\0';
        char *slash = strrchr(path, '/');
        if (slash && link[0] != '/') {
            *slash = '\0';
            char *next = ig_file_join(path, link);
            free(path);
            path = next;
        } else {
            free(path);
            path = strdup(link);
        }
        if (hops == LINKS_MOST) {
            free(path);
            errno = ELOOP;
            return NULL;
        }
    }
    return NULL;
}

int ig_file_same(const char *a, const char *b)
{
    struct stat x, y;
    const char *p = strrchr(a, '/'), *q = strrchr(b, '/');

    if (stat(a, &x) == 0) return stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
    if (strcmp(p ? p + 1 : a, q ? q + 1 : b) != 0) return 0;
    char *dir_a = p ? strndup(a, (size_t)(p + 1 - a)) : strdup("./");
    char *dir_b = q ? strndup(b, (size_t)(q + 1 - b)) : strdup("./");
    const int same = dir_a && dir_b && stat(dir_a, &x) == 0 && stat(dir_b, &y) == 0 &&
                     x.st_dev == y.st_dev && x.st_ino == y.st_ino;
    free(dir_a);
    free(dir_b);
    return same;
}
