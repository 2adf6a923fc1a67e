/* fuzz_file.h -- an input as a file with a name, for readers that take a path. */
#ifndef IG_FUZZ_FILE_H
#define IG_FUZZ_FILE_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

size_t fuzz_seed(int i, uint8_t *out, size_t room);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

/* The same file in memory every time; its path lasts as long as the process. */
static inline const char *fuzz_file(const uint8_t *data, size_t bytes)
{
    static char path[64];
    static int fd = -1;

    if (fd < 0) {
        fd = memfd_create("fuzz", MFD_CLOEXEC);
        if (fd < 0) abort();
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    }
    if (ftruncate(fd, 0) != 0 || pwrite(fd, data, bytes, 0) != (ssize_t)bytes) abort();
    return path;
}

struct fuzz_out {
    uint8_t *p;
    size_t n, room;
};

static inline void fuzz_put(struct fuzz_out *o, const void *p, size_t n)
{
    if (o->n + n > o->room) abort();
    memcpy(o->p + o->n, p, n);
    o->n += n;
}

static inline void fuzz_int(struct fuzz_out *o, uint64_t v, size_t n) { fuzz_put(o, &v, n); }

static inline void fuzz_text(struct fuzz_out *o, const char *s) { fuzz_put(o, s, strlen(s)); }

#endif
