/* copy_file.c -- reading pieces of a file; see copy_file.h. */
#include "copy_file.h"

#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
    MOST_REGIONS = 1024, /* of registered memory */
    PLAIN_DONE = 64,
    SLEEP_NS = 10000000, /* a sleeper whose pieces others took looks again after this */
};
#define REGION_BYTES (UINT64_C(512) << 20) /* the kernel takes at most 1 GiB in one piece */

struct ig_copy_file {
    int fd, own_fd;
    uint64_t base;
    unsigned char *to;
    int ring_on, registered;
    struct io_uring ring;
    struct ig_done done[PLAIN_DONE]; /* plain: ended in submit, not yet polled */
    uint32_t n_done;
};

static struct ig_copy_file file;

/* Started pieces to the kernel, each at once: the disk begins while the next is being prepared, and
 * a virtual one wakes its host once more (bench/LOG.tsv). */
static int flush(struct ig_copy_file *f, unsigned wait_for)
{
    int err;
    do err = wait_for ? io_uring_submit_and_wait(&f->ring, wait_for) : io_uring_submit(&f->ring);
    while (err == -EINTR || err == -EAGAIN || err == -EBUSY);
    if (err < 0) ig_die("reading: the kernel refused a request: %s", strerror(-err));
    return 0;
}

static int submit_ring(void *ctx, const struct ig_piece *p)
{
    struct ig_copy_file *f = ctx;
    struct io_uring_sqe *sqe = io_uring_get_sqe(&f->ring);
    if (!sqe) return EBUSY;
    const uint64_t at = (uint64_t)(p->to - f->to);
    /* A piece that crosses two registered regions goes unregistered. */
    if (f->registered && at / REGION_BYTES == (at + p->bytes - 1) / REGION_BYTES)
        io_uring_prep_read_fixed(sqe, f->fd, p->to, p->bytes, f->base + p->from,
                                 (int)(at / REGION_BYTES));
    else
        io_uring_prep_read(sqe, f->fd, p->to, p->bytes, f->base + p->from);
    io_uring_sqe_set_data64(sqe, p->tag);
    return flush(f, 0);
}

static int poll_ring(void *ctx, struct ig_done *d, int wait)
{
    struct ig_copy_file *f = ctx;
    struct io_uring_cqe *cqe = NULL;
    if (wait || io_uring_sq_ready(&f->ring) > 0) flush(f, wait != 0);
    if (io_uring_peek_cqe(&f->ring, &cqe) != 0) return 0;
    *d = (struct ig_done){ .tag = (uint32_t)io_uring_cqe_get_data64(cqe) };
    if (cqe->res < 0)
        d->err = -cqe->res;
    else
        d->bytes = (uint32_t)cqe->res;
    io_uring_cqe_seen(&f->ring, cqe);
    return 1;
}

/* Looks at the completions only; whoever polls takes them. */
static void sleep_ring(void *ctx, uint32_t n)
{
    struct ig_copy_file *f = ctx;
    struct io_uring_cqe *cqe;
    struct __kernel_timespec most = { .tv_nsec = SLEEP_NS };
    io_uring_wait_cqes(&f->ring, &cqe, n, &most, NULL);
}

static int submit_plain(void *ctx, const struct ig_piece *p)
{
    struct ig_copy_file *f = ctx;
    if (f->n_done == PLAIN_DONE) return EBUSY;
    const ssize_t got = pread(f->fd, p->to, p->bytes, (off_t)(f->base + p->from));
    f->done[f->n_done++] =
        (struct ig_done){ p->tag, got < 0 ? 0 : (uint32_t)got, got < 0 ? errno : 0 };
    return 0;
}

static int poll_plain(void *ctx, struct ig_done *d, int wait)
{
    struct ig_copy_file *f = ctx;
    (void)wait;
    if (f->n_done == 0) return 0;
    *d = f->done[0];
    memmove(f->done, f->done + 1, --f->n_done * sizeof *f->done);
    return 1;
}

static void start_ring(struct ig_copy_file *f, const struct ig_copy_file_conf *c)
{
    static struct iovec region[MOST_REGIONS];
    unsigned n = 0;
    if (c->plain || io_uring_queue_init(c->depth, &f->ring, 0) < 0) return;
    f->ring_on = 1;
    for (uint64_t at = 0; at < c->bytes; at += REGION_BYTES, n++) {
        if (n == MOST_REGIONS) return;
        const uint64_t left = c->bytes - at;
        region[n] = (struct iovec){ c->to + at, left < REGION_BYTES ? left : REGION_BYTES };
    }
    f->registered = io_uring_register_buffers(&f->ring, region, n) == 0;
}

enum ig_err ig_copy_file_open(struct ig_copy *copy, const struct ig_copy_file_conf *c,
                              struct ig_copy_file_how *how, struct ig_why *why)
{
    struct ig_copy_file *f = &file;
    char self[64];

    memset(f, 0, sizeof *f);
    f->base = c->base;
    f->to = c->to;
    f->fd = c->fd;
    f->own_fd = -1;
    /* Opened again by descriptor: the same file, whatever has become of its name. */
    snprintf(self, sizeof self, "/proc/self/fd/%d", c->fd);
    if (!c->cached) f->own_fd = open(self, O_RDONLY | O_CLOEXEC | O_DIRECT);
    if (f->own_fd >= 0) f->fd = f->own_fd;
    if (f->own_fd < 0 && !c->cached && errno != EINVAL)
        return ig_fail(why, IG_IO, "%s: cannot open for direct reads: %s", c->path,
                       strerror(errno));
    start_ring(f, c);
    *how = (struct ig_copy_file_how){ f->own_fd >= 0, f->ring_on, f->registered };
    *copy = (struct ig_copy){ .ctx = f, .depth = f->ring_on ? c->depth : 1, .align = 4096 };
    copy->early = f->ring_on;
    copy->submit = f->ring_on ? submit_ring : submit_plain;
    copy->poll = f->ring_on ? poll_ring : poll_plain;
    /* Older kernels take the time through the submissions, which are not the sleeper's. */
    if (f->ring_on && f->ring.features & IORING_FEAT_EXT_ARG) copy->sleep = sleep_ring;
    return IG_OK;
}

void ig_copy_file_close(struct ig_copy *copy)
{
    struct ig_copy_file *f = copy->ctx;
    if (!f) return;
    if (f->ring_on) io_uring_queue_exit(&f->ring);
    if (f->own_fd >= 0) close(f->own_fd);
    f->ring_on = 0;
    f->own_fd = -1;
    copy->ctx = NULL;
}
