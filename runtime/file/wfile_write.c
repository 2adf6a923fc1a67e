/* wfile_write.c -- see wfile_write.h. */
#include "wfile_write.h"
#include "file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

typedef unsigned long long ull; /* for %llu */

enum { COPY_STEP = 1 << 20, WRITE_STEP = 1 << 30, HUGE_PAGE = 2 << 20 };

static uint64_t total_bytes(const struct ig_wwriter *w)
{
    return w->base + w->h.file_bytes + (w->spec->embed ? sizeof(struct ig_wtrailer) : 0);
}

/* Bytes that the folder of the temporary file can still take. */
static uint64_t free_bytes(const struct ig_wwriter *w)
{
    struct statvfs vfs;
    struct rlimit limit;
    uint64_t n = UINT64_MAX;

    if (fstatvfs(w->temp.fd, &vfs) == 0 && !ig_mul_ok(vfs.f_bavail, vfs.f_frsize, &n))
        n = UINT64_MAX;
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
        limit.rlim_cur < n)
        n = limit.rlim_cur;
    return n;
}

static enum ig_err put(struct ig_wwriter *w, const void *data, uint64_t off, uint64_t bytes,
                       struct ig_why *why)
{
    const char *p = data;
    while (bytes > 0) {
        const size_t step = bytes < WRITE_STEP ? (size_t)bytes : WRITE_STEP;
        const ssize_t done = pwrite(w->temp.fd, p, step, (off_t)off);
        if (done < 0 && errno == EINTR) continue;
        if (done < 0 && (errno == ENOSPC || errno == EFBIG || errno == EDQUOT))
            return ig_fail(why, IG_IO, "%s: %s: want %llu bytes, got %llu of them; %llu are free",
                           w->spec->out, strerror(errno), (ull)total_bytes(w), (ull)off,
                           (ull)free_bytes(w));
        if (done < 0) return ig_fail(why, IG_IO, "%s: write: %s", w->spec->out, strerror(errno));
        p += done;
        off += (uint64_t)done;
        bytes -= (uint64_t)done;
    }
    return IG_OK;
}

static const char exe[] = "/proc/self/exe";

/* The running executable, and its size without a weights file that it may carry already. */
static enum ig_err open_executable(struct ig_wwriter *w, int *fd, uint64_t *size,
                                   struct ig_why *why)
{
    uint64_t bytes;
    const enum ig_err err = ig_file_open(fd, size, exe, why);
    if (err) return err;
    (void)ig_wfile_trailer(*fd, *size, size, &bytes); /* on success: where that file starts */
    w->base = (*size + IG_WALIGN - 1) & ~(uint64_t)(IG_WALIGN - 1);
    return IG_OK;
}

static enum ig_err put_executable(struct ig_wwriter *w, int fd, uint64_t size, struct ig_why *why)
{
    enum ig_err err = IG_OK;
    char *buf = malloc(COPY_STEP);
    if (!buf) err = ig_fail(why, IG_NO_MEM, "%s: no memory", w->spec->out);
    for (uint64_t at = 0; at < size && !err; at += COPY_STEP) {
        const uint64_t step = size - at < COPY_STEP ? size - at : COPY_STEP;
        err = ig_file_read(fd, exe, buf, at, step, why);
        if (!err) err = put(w, buf, at, step, why);
    }
    free(buf);
    return err;
}

static enum ig_err fill_header(struct ig_wwriter *w, struct ig_why *why)
{
    const struct ig_wspec *s = w->spec;
    struct ig_wheader *h = &w->h;

    memcpy(h->magic, IG_WMAGIC, sizeof h->magic);
    h->header_bytes = sizeof *h;
    h->n_block = s->n_block;
    h->layout_hash = s->layout_hash;
    /* Text is for messages only: cutting it does no harm. */
    snprintf(h->model_id, sizeof h->model_id, "%s", s->model_id);
    snprintf(h->layout_text, sizeof h->layout_text, "%s", s->layout_text);
    h->tokenizer.bytes = s->tokenizer_bytes;
    h->tokenizer.hash = XXH3_64bits(s->tokenizer, s->tokenizer_bytes);
    h->blocks.bytes = s->n_block * (uint64_t)sizeof *s->block;
    h->data.bytes = s->data_bytes;
    if (!ig_wfile_place(h))
        return ig_fail(why, IG_FAIL, "%s: want a file below 2^64 bytes, got %llu of data alone",
                       s->out, (ull)s->data_bytes);
    return IG_OK;
}

enum ig_err ig_wwrite_open(struct ig_wwriter *w, const struct ig_wspec *spec, struct ig_why *why)
{
    uint64_t size = 0;
    int fd = -1;

    *w = (struct ig_wwriter){ .spec = spec, .temp.fd = -1 };
    w->hash = XXH3_createState();
    w->gathered = malloc(HUGE_PAGE);
    enum ig_err err =
        w->hash && w->gathered ? IG_OK : ig_fail(why, IG_NO_MEM, "%s: no memory", spec->out);
    if (!err) err = fill_header(w, why);
    if (!err && spec->embed) err = open_executable(w, &fd, &size, why);
    if (!err) err = ig_temp_open(&w->temp, spec->out, spec->embed ? 0777 : 0666, why);
    if (!err && free_bytes(w) < total_bytes(w))
        err = ig_fail(why, IG_IO, "%s: no room: want %llu bytes, got %llu free", spec->out,
                      (ull)total_bytes(w), (ull)free_bytes(w));
    if (!err && spec->embed) err = put_executable(w, fd, size, why);
    if (fd >= 0) close(fd);
    if (!err)
        err = put(w, spec->tokenizer, w->base + w->h.tokenizer.off, spec->tokenizer_bytes, why);
    if (err)
        ig_wwrite_abort(w);
    else
        XXH3_64bits_reset(w->hash);
    return err;
}

static enum ig_err put_gathered(struct ig_wwriter *w, struct ig_why *why)
{
    const uint64_t n = w->n_gathered;
    w->n_gathered = 0;
    return put(w, w->gathered, w->gathered_off, n, why);
}

/* Data goes out a huge page of the file at a time: the page cache keeps what was written in one
 * piece as one page, and who maps the file reads it at that speed. */
static enum ig_err gather(struct ig_wwriter *w, const char *p, uint64_t off, uint64_t bytes,
                          struct ig_why *why)
{
    enum ig_err err = IG_OK;
    while (bytes > 0 && !err) {
        const uint64_t room = HUGE_PAGE - off % HUGE_PAGE, step = bytes < room ? bytes : room;
        if (w->n_gathered == 0) w->gathered_off = off;
        memcpy(w->gathered + w->n_gathered, p, step);
        w->n_gathered += step;
        if (step == room) err = put_gathered(w, why);
        p += step, off += step, bytes -= step;
    }
    return err;
}

enum ig_err ig_wwrite_data(struct ig_wwriter *w, const void *data, uint64_t bytes,
                           struct ig_why *why)
{
    const struct ig_wspec *s = w->spec;
    const char *p = data;

    IG_ASSERT(bytes <= s->data_bytes - w->at);
    const enum ig_err err = gather(w, data, w->base + w->h.data.off + w->at, bytes, why);
    if (err) return err;
    while (bytes > 0) {
        struct ig_wblock *b = &s->block[w->block];
        const uint64_t left = b->off + b->bytes - w->at, step = bytes < left ? bytes : left;
        XXH3_64bits_update(w->hash, p, (size_t)step);
        p += step;
        w->at += step;
        bytes -= step;
        if (step == left) {
            b->hash = XXH3_64bits_digest(w->hash);
            XXH3_64bits_reset(w->hash);
            w->block++;
        }
    }
    return IG_OK;
}

/* Everything that could not be known before the data was there. */
static enum ig_err put_rest(struct ig_wwriter *w, struct ig_why *why)
{
    const struct ig_wspec *s = w->spec;
    struct ig_wheader *h = &w->h;

    h->blocks.hash = XXH3_64bits(s->block, (size_t)h->blocks.bytes);
    h->header_hash = XXH3_64bits(h, offsetof(struct ig_wheader, header_hash));
    enum ig_err err = put(w, s->block, w->base + h->blocks.off, h->blocks.bytes, why);
    if (!err) err = put(w, h, w->base, sizeof *h, why);
    if (!err && s->embed) {
        struct ig_wtrailer t = { .off = w->base, .bytes = h->file_bytes };
        memcpy(t.magic, IG_WTRAILER_MAGIC, sizeof t.magic);
        t.hash = XXH3_64bits(&t, offsetof(struct ig_wtrailer, hash));
        err = put(w, &t, w->base + h->file_bytes, sizeof t, why);
    }
    return err;
}

/* A rename is on the disk when its folder is; file systems that cannot sync a
 * folder lose nothing but that promise. */
static void sync_folder(const char *out)
{
    char *folder = strdup(out);
    if (!folder) return;
    char *slash = strrchr(folder, '/');
    if (slash) slash[1] = '\0';
    const int fd = open(slash ? folder : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
        fsync(fd);
        close(fd);
    }
    free(folder);
}

enum ig_err ig_wwrite_finish(struct ig_wwriter *w, struct ig_why *why)
{
    const struct ig_wspec *s = w->spec;

    IG_ASSERT(w->at == s->data_bytes && w->block == s->n_block);
    enum ig_err err = put_gathered(w, why);
    if (!err) err = put_rest(w, why);
    if (!err && (ftruncate(w->temp.fd, (off_t)total_bytes(w)) != 0 ||
                 (s->embed && fchmod(w->temp.fd, 0755) != 0) || fsync(w->temp.fd) != 0))
        err = ig_fail(why, IG_IO, "%s: %s", w->temp.name, strerror(errno));
    char *to = err ? NULL : strdup(w->temp.to);
    if (!err) err = ig_temp_keep(&w->temp, why);
    if (!err && to) sync_folder(to);
    free(to);
    ig_wwrite_abort(w);
    return err;
}

void ig_wwrite_abort(struct ig_wwriter *w)
{
    ig_temp_drop(&w->temp);
    XXH3_freeState(w->hash);
    free(w->gathered);
    *w = (struct ig_wwriter){ .temp.fd = -1 };
}
