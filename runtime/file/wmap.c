/* wmap.c -- see wmap.h. */
#include "wmap.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22 /* Linux 5.14 */
#endif

/* Texts are made before the signals can come: a handler may only write and end. */
static struct {
    int n;
    const unsigned char *at[IG_WMAPS];
    uint64_t bytes[IG_WMAPS];
    char written[512], unread[512];
    size_t n_written, n_unread;
    struct sigaction io, bus;
} map;

static _Noreturn void end(const char *text, size_t n)
{
    if (write(STDERR_FILENO, text, n) < 0) _exit(ig_exit_code(IG_IO));
    _exit(ig_exit_code(IG_IO));
}

static void on_lease(int sig)
{
    (void)sig;
    end(map.written, map.n_written);
}

static void on_bus(int sig, siginfo_t *info, void *context)
{
    const unsigned char *p = info->si_addr;
    (void)context;
    for (int i = 0; i < map.n; i++)
        if (p >= map.at[i] && p < map.at[i] + map.bytes[i]) end(map.unread, map.n_unread);
    signal(sig, SIG_DFL); /* somebody else's: it comes again when this returns */
}

static size_t text_of(char *to, size_t room, const char *path, const char *what)
{
    char text[512];
    snprintf(text, sizeof text - 1, "ingot: %s: %s", path, what);
    ig_escape(to, room - 1, text);
    const size_t n = strlen(to);
    to[n] = '\n';
    return n + 1;
}

static void catch_signals(const struct ig_wfile *f)
{
    struct sigaction io = { .sa_handler = on_lease },
                     bus = { .sa_sigaction = on_bus, .sa_flags = SA_SIGINFO };
    map.n_written =
        text_of(map.written, sizeof map.written, f->path,
                "opened for writing while its weights are in use; ended before they change");
    map.n_unread =
        text_of(map.unread, sizeof map.unread, f->path, "its weights cannot be read any more");
    sigaction(SIGIO, &io, &map.io);
    sigaction(SIGBUS, &bus, &map.bus);
}

/* Mapped wherever the system likes, with word of who wants to write. */
static enum ig_err map_leased(const struct ig_wfile *f, uint64_t bytes, void **p,
                              struct ig_why *why)
{
    IG_ASSERT(map.n < IG_WMAPS);
    *p = mmap(NULL, bytes, PROT_READ, MAP_SHARED, f->fd, (off_t)(f->base + f->h.data.off));
    if (*p == MAP_FAILED)
        return ig_fail(why, IG_IO, "the system does not map it: %s", strerror(errno));
    if (map.n == 0) catch_signals(f);
    if (fcntl(f->fd, F_SETLEASE, F_RDLCK) == 0) return IG_OK;
    const int error = errno;
    if (map.n == 0) ig_wmap_close();
    munmap(*p, bytes);
    return ig_fail(why, IG_IO, "the system gives no lease on it: %s",
                   error == EACCES   ? "it is another user's"
                   : error == EAGAIN ? "it is open for writing"
                                     : strerror(error));
}

static void remember(const void *at, uint64_t bytes)
{
    map.at[map.n] = at;
    map.bytes[map.n++] = bytes;
}

enum ig_err ig_wmap_open(const struct ig_wfile *f, unsigned char *at, uint64_t bytes,
                         struct ig_why *why)
{
    void *p;
    const enum ig_err err = map_leased(f, bytes, &p, why);
    if (err != IG_OK) return err;
    /* One step, so that `at` is never without memory. */
    if (mremap(p, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, at) == MAP_FAILED) {
        const int error = errno;
        if (map.n == 0) {
            ig_wmap_close();
            fcntl(f->fd, F_SETLEASE, F_UNLCK);
        }
        munmap(p, bytes);
        return ig_fail(why, IG_IO, "the system does not map it: %s", strerror(error));
    }
    madvise(at, bytes, MADV_HUGEPAGE); /* of what is not in the page cache yet */
    remember(at, bytes);
    return IG_OK;
}

enum ig_err ig_wmap_plain(const struct ig_wfile *f, const unsigned char **at, uint64_t bytes,
                          struct ig_why *why)
{
    void *p;
    const enum ig_err err = map_leased(f, bytes, &p, why);
    if (err != IG_OK) return err;
    remember(p, bytes);
    *at = p;
    return IG_OK;
}

enum ig_err ig_wmap_fetch(const struct ig_wfile *f, unsigned char *at, uint64_t off, uint64_t bytes,
                          struct ig_why *why)
{
    enum { PAGE = 4096 };
    const uint64_t lo = off / PAGE * PAGE, hi = (off + bytes + PAGE - 1) / PAGE * PAGE;
    int rc;
    madvise(at + lo, hi - lo, MADV_WILLNEED);
    do rc = madvise(at + lo, hi - lo, MADV_POPULATE_READ);
    while (rc != 0 && errno == EINTR);
    if (rc == 0 || errno == EINVAL) return IG_OK; /* an old kernel: the check touches every page */
    return ig_fail(why, IG_IO, "%s: data: cannot read %llu bytes at %llu: %s", f->path,
                   (unsigned long long)bytes, (unsigned long long)off, strerror(errno));
}

int ig_wmap_lock(unsigned char *at, uint64_t bytes) { return mlock(at, bytes) == 0; }

void ig_wmap_close(void)
{
    if (map.n_unread == 0) return;
    sigaction(SIGIO, &map.io, NULL);
    sigaction(SIGBUS, &map.bus, NULL);
    memset(&map, 0, sizeof map);
}
