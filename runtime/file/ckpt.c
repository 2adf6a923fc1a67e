/* ckpt.c -- see ckpt.h. */
#include "ckpt.h"
#include "file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum ig_err ig_ckpt_add_file(struct ig_ckpt *c, const char *path, uint32_t *file,
                             struct ig_why *why)
{
    struct ig_ckpt_file *grown = realloc(c->file, (c->n_file + 1) * sizeof *grown);
    if (!grown) return ig_fail(why, IG_NO_MEM, "%s: no memory", path);
    c->file = grown;

    struct ig_ckpt_file *f = &c->file[c->n_file];
    enum ig_err err = ig_file_open(&f->fd, &f->bytes, path, why);
    if (err) return err;
    struct stat st;
    f->path = fstat(f->fd, &st) == 0 ? strdup(path) : NULL;
    if (!f->path) {
        close(f->fd);
        return ig_fail(why, IG_NO_MEM, "%s: no memory", path);
    }
    f->mtim = st.st_mtim;
    f->ctim = st.st_ctim;
    *file = c->n_file++;
    return IG_OK;
}

enum ig_err ig_ckpt_add(struct ig_ckpt *c, const struct ig_tensor *t, const char *name,
                        size_t name_bytes, struct ig_why *why)
{
    /* Room grows at powers of two, which n_tensor itself tells. */
    if ((c->n_tensor & (c->n_tensor - 1)) == 0) {
        const size_t room = c->n_tensor ? 2 * c->n_tensor : 1;
        struct ig_tensor *grown = realloc(c->tensor, room * sizeof *grown);
        if (!grown) return ig_fail(why, IG_NO_MEM, "no memory for %zu tensors", room);
        c->tensor = grown;
    }
    char *copy = malloc(name_bytes + 1);
    if (!copy) return ig_fail(why, IG_NO_MEM, "no memory for a tensor's name");
    memcpy(copy, name, name_bytes);
    copy[name_bytes] = '\0';

    c->tensor[c->n_tensor] = *t;
    c->tensor[c->n_tensor].name = copy;
    c->n_tensor++;
    return IG_OK;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct ig_tensor *)a)->name, ((const struct ig_tensor *)b)->name);
}

static int by_place(const void *a, const void *b)
{
    const struct ig_tensor *s = a, *t = b;
    if (s->file != t->file) return s->file < t->file ? -1 : 1;
    if (s->off != t->off) return s->off < t->off ? -1 : 1;
    return (s->bytes > t->bytes) - (s->bytes < t->bytes); /* empty ones first */
}

enum ig_err ig_ckpt_index(struct ig_ckpt *c, struct ig_why *why)
{
    if (c->n_tensor == 0) return IG_OK;
    qsort(c->tensor, c->n_tensor, sizeof *c->tensor, by_place);
    const struct ig_tensor *s = NULL; /* the last one with bytes */
    for (size_t i = 0; i < c->n_tensor; i++) {
        const struct ig_tensor *t = &c->tensor[i];
        if (t->bytes == 0) continue;
        if (s && s->file == t->file && t->off < s->off + s->bytes)
            return ig_fail(why, IG_BAD_FILE,
                           "%s: %s: offset: want %llu or more, where %s ends, got %llu",
                           c->file[t->file].path, t->name, (unsigned long long)(s->off + s->bytes),
                           s->name, (unsigned long long)t->off);
        s = t;
    }
    qsort(c->tensor, c->n_tensor, sizeof *c->tensor, by_name);
    for (size_t i = 1; i < c->n_tensor; i++)
        if (strcmp(c->tensor[i - 1].name, c->tensor[i].name) == 0)
            return ig_fail(why, IG_BAD_FILE, "%s: %s: want one tensor of this name, got two",
                           c->file[c->tensor[i].file].path, c->tensor[i].name);
    return IG_OK;
}

const struct ig_tensor *ig_ckpt_find(const struct ig_ckpt *c, const char *name)
{
    size_t lo = 0, hi = c->n_tensor;
    while (lo < hi) {
        const size_t mid = lo + (hi - lo) / 2;
        const int order = strcmp(name, c->tensor[mid].name);
        if (order == 0) return &c->tensor[mid];
        if (order < 0)
            hi = mid;
        else
            lo = mid + 1;
    }
    return NULL;
}

enum ig_err ig_ckpt_read(const struct ig_ckpt *c, const struct ig_tensor *t, void *dst,
                         uint64_t off, uint64_t bytes, struct ig_why *why)
{
    IG_ASSERT(off <= t->bytes && bytes <= t->bytes - off);
    if (t->pair) return ig_ckpt_read_pair(c, t, dst, off, bytes, why);
    const struct ig_ckpt_file *f = &c->file[t->file];
    return ig_file_read(f->fd, f->path, dst, t->off + off, bytes, why);
}

static int same_time(struct timespec a, struct timespec b)
{
    return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

enum ig_err ig_ckpt_unchanged(const struct ig_ckpt *c, struct ig_why *why)
{
    for (uint32_t i = 0; i < c->n_file; i++) {
        const struct ig_ckpt_file *f = &c->file[i];
        struct stat st;
        if (fstat(f->fd, &st) != 0 || (uint64_t)st.st_size != f->bytes ||
            !same_time(st.st_mtim, f->mtim) || !same_time(st.st_ctim, f->ctim))
            return ig_fail(why, IG_BAD_FILE, "%s: changed while it was read", f->path);
    }
    return IG_OK;
}

void ig_ckpt_close(struct ig_ckpt *c)
{
    for (uint32_t i = 0; i < c->n_file; i++) {
        close(c->file[i].fd);
        free(c->file[i].path);
    }
    for (size_t i = 0; i < c->n_tensor; i++) free(c->tensor[i].name);
    free(c->file);
    free(c->tensor);
    *c = (struct ig_ckpt){ 0 };
}

const char *ig_shape_text(char *text, size_t bytes, const uint64_t *dim, int n_dim)
{
    size_t at = (size_t)snprintf(text, bytes, "[");
    for (int i = 0; i < n_dim && at < bytes; i++)
        at += (size_t)snprintf(text + at, bytes - at, "%s%llu", i ? ", " : "",
                               (unsigned long long)dim[i]);
    if (at < bytes) snprintf(text + at, bytes - at, "]");
    return text;
}
