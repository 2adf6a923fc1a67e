/* wmap.c -- see wmap.h. */
#include "wmap.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
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
    const unsigned char *at;
    uint64_t bytes;
    char written[512], unread[512];
    size_t n_written, n_unread;
    int asked; /* huge pages, and the system takes the wish */
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
    if (p >= map.at && p < map.at + map.bytes) end(map.unread, map.n_unread);
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

/* Not mapped; what was there before is there. */
static enum ig_err give_up(const struct ig_wfile *f, struct ig_why *why, const char *what,
                           const char *reason)
{
    ig_wmap_close();
    fcntl(f->fd, F_SETLEASE, F_UNLCK);
    return ig_fail(why, IG_IO, "%s%s", what, reason);
}

/* KiB of the mapping at `at` that are in memory, and of them in huge pages; 0: unknown. */
static uint64_t resident_kib(const unsigned char *at, uint64_t *huge)
{
    FILE *f = fopen("/proc/self/smaps", "re");
    char line[4096];
    uint64_t rss = 0;
    unsigned long long from, to;
    int here = 0;

    *huge = 0;
    if (!f) return 0;
    while (fgets(line, sizeof line, f)) {
        if (sscanf(line, "%llx-%llx ", &from, &to) == 2) here = from == (uintptr_t)at;
        if (!here) continue;
        sscanf(line, "Rss: %" SCNu64, &rss);
        sscanf(line, "FilePmdMapped: %" SCNu64, huge);
    }
    fclose(f);
    return rss;
}

/* 0: the page cache has the file in small pages, by a sample of it.  Decoding from them was a quarter
 * slower than from huge ones, which a copy gets on any file system. */
static int in_huge_pages(const struct ig_wfile *f, unsigned char *at, uint64_t bytes)
{
    enum { SAMPLES = 16, SAMPLE = 4 << 20 };
    struct ig_why ignored; /* who reads that part for its own sake reports it */
    uint64_t huge;

    if (bytes < (uint64_t)SAMPLES * SAMPLE) return 1; /* too little to be worth it */
    for (uint64_t i = 0; i < SAMPLES; i++)
        ig_wmap_fetch(f, at, bytes / SAMPLES * i, SAMPLE, &ignored);
    const uint64_t rss = resident_kib(at, &huge);
    return rss == 0 || huge >= rss / 2;
}

enum ig_err ig_wmap_open(const struct ig_wfile *f, unsigned char *at, uint64_t bytes,
                         struct ig_why *why)
{
    const off_t off = (off_t)(f->base + f->h.data.off);
    void *p = mmap(NULL, bytes, PROT_READ, MAP_SHARED, f->fd, off);
    if (p == MAP_FAILED)
        return ig_fail(why, IG_IO, "the system does not map it: %s", strerror(errno));
    catch_signals(f);
    if (fcntl(f->fd, F_SETLEASE, F_RDLCK) != 0) {
        const int error = errno;
        munmap(p, bytes);
        return give_up(f, why, "the system gives no lease on it: ",
                       error == EACCES   ? "it is another user's"
                       : error == EAGAIN ? "it is open for writing"
                                         : strerror(error));
    }
    /* One step, so that `at` is never without memory. */
    if (mremap(p, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, at) == MAP_FAILED) {
        const int error = errno;
        munmap(p, bytes);
        return give_up(f, why, "the system does not map it: ", strerror(error));
    }
    map.at = at;
    map.bytes = bytes;
    map.asked = madvise(at, bytes, MADV_HUGEPAGE) == 0; /* of what is not in the page cache yet */
    if (in_huge_pages(f, at, bytes)) return IG_OK;
    p = mmap(at, bytes, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    if (p == MAP_FAILED) return IG_OK; /* still mapped */
    madvise(at, bytes, MADV_HUGEPAGE);
    return give_up(f, why, "the page cache has it in small pages", "");
}

enum ig_err ig_wmap_fetch(const struct ig_wfile *f, unsigned char *at, uint64_t off, uint64_t bytes,
                          struct ig_why *why)
{
    enum { PAGE = 4096 };
    const uint64_t lo = off / PAGE * PAGE, hi = (off + bytes + PAGE - 1) / PAGE * PAGE;
    int rc;
    /* What is read ahead on request comes in small pages, what faults read in the pages wished. */
    if (!map.asked) madvise(at + lo, hi - lo, MADV_WILLNEED);
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
