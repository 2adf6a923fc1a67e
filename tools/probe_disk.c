/* probe_disk.c -- how fast FOLDER's disk reads, and with which sizes and depths.
 *
 * Writes one temporary file, which has no name while it is in use.
 */
#define _GNU_SOURCE
#include "probe.h"

#include <errno.h>
#include <fcntl.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

enum { DISK_CHUNK = 16 << 20 }; /* of writing the file that is then read */
enum { DISK_DEPTHS = 5, DISK_PIECES = 4, LONE_READS = 15, GROUPS = 5 };
static const double disk_seconds = 0.12; /* of reading with one size and depth */

/* Where a reader is next: somewhere in the file. */
static off_t somewhere(uint64_t *x, uint64_t bytes, uint64_t piece)
{
    *x = *x * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (off_t)((*x >> 20) % (bytes - piece + 1) & ~UINT64_C(4095));
}

/* Bytes a second of reads of `piece` bytes, `depth` at a time, all over the file. */
static double read_disk(int fd, char *memory, uint64_t bytes, uint64_t piece, int depth)
{
    uint64_t got = 0;
    int bad = 0;
    const double from = now();
    double to = from;
#pragma omp parallel for num_threads(depth) schedule(static, 1) reduction(+ : got, bad) reduction(max : to)
    for (int r = 0; r < depth; r++) {
        uint64_t x = (uint64_t)r * 977 + (uint64_t)(from * 1e6);
        while (!bad && now() - from < disk_seconds) {
            const off_t at = somewhere(&x, bytes, piece);
            bad = pread(fd, memory + (uint64_t)r * piece, piece, at) != (ssize_t)piece;
            got += piece;
        }
        to = now();
    }
    return bad ? 0 : (double)got / (to - from);
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The least of what groups of reads took, and by how much the slowest exceeds it: alone they are
 * alike. */
static double least_of(double (*group)(int fd, char *memory, uint64_t bytes, const struct disk *d),
                       int fd, char *memory, uint64_t bytes, struct disk *d)
{
    double least = 0, most = 0;
    for (int i = 0; i < GROUPS; i++) {
        const double took = group(fd, memory, bytes, d);
        if (took == 0) return 0;
        if (i == 0 || took < least) least = took;
        if (took > most) most = took;
    }
    if (most / least > d->spread) d->spread = most / least;
    return least;
}

/* Half of such reads take longer: the disk rests before each, as it does between two layers. */
static double read_alone(int fd, char *memory, uint64_t bytes, const struct disk *d)
{
    (void)d;
    double took[LONE_READS];
    uint64_t x = (uint64_t)(now() * 1e6);
    for (int i = 0; i < LONE_READS; i++) {
        nanosleep(&(struct timespec){ .tv_nsec = 500000 }, NULL);
        const double from = now();
        if (pread(fd, memory, 4096, somewhere(&x, bytes, 4096)) != 4096) return 0;
        took[i] = now() - from;
    }
    qsort(took, LONE_READS, sizeof *took, compare);
    return took[LONE_READS / 2];
}

/* Every size with every depth, twice, for other programs read too; then the least that comes
 * within 3 % of the best. */
static void search_disk(int fd, char *memory, uint64_t bytes, struct disk *d)
{
    double rate[DISK_PIECES][DISK_DEPTHS] = { { 0 } };
    uint64_t least = UINT64_MAX;
    for (int pass = 0; pass < 2; pass++)
        for (int p = 0; p < DISK_PIECES; p++)
            for (int q = 0; q < DISK_DEPTHS; q++) {
                const double r = read_disk(fd, memory, bytes, MIB << p, 1 << q);
                if (r > rate[p][q]) rate[p][q] = r;
                if (r > d->bw) d->bw = r;
            }
    for (int p = 0; p < DISK_PIECES; p++)
        for (int q = 0; q < DISK_DEPTHS; q++) {
            const uint64_t under_way = MIB << p << q;
            if (rate[p][q] < 0.97 * d->bw || under_way >= least) continue;
            least = under_way;
            d->piece = MIB << p;
            d->depth = 1 << q;
        }
}

/* As a layer's missing experts are read: `depth` pieces at once, then a rest.  Half of them take
 * longer. */
static double read_burst(int fd, char *memory, uint64_t bytes, const struct disk *d)
{
    double took[LONE_READS];
    uint64_t x = (uint64_t)(now() * 1e6);
    for (int i = 0; i < LONE_READS; i++) {
        off_t at[1 << DISK_DEPTHS];
        int bad = 0;
        for (int r = 0; r < d->depth; r++) at[r] = somewhere(&x, bytes, d->piece);
        nanosleep(&(struct timespec){ .tv_nsec = 500000 }, NULL);
        const double from = now();
#pragma omp parallel for num_threads(d->depth) schedule(static, 1) reduction(+ : bad)
        for (int r = 0; r < d->depth; r++)
            bad += pread(fd, memory + (uint64_t)r * d->piece, d->piece, at[r]) != (ssize_t)d->piece;
        took[i] = now() - from;
        if (bad) return 0;
    }
    qsort(took, LONE_READS, sizeof *took, compare);
    return took[LONE_READS / 2];
}

/* Reads of FOLDER's disk, past the page cache where it allows that.  The memory is of large pages
 * where the system has them, as the engine's: a read into small ones is cut into more requests. */
struct disk measure_disk(const char *folder, const char **how)
{
    char path[4096];
    struct statvfs fs;
    struct disk d = { 0 };
    if ((size_t)snprintf(path, sizeof path, "%s/probe-XXXXXX", folder) >= sizeof path)
        fail(folder, "want a shorter path");
    if (statvfs(folder, &fs) != 0) fail(folder, strerror(errno));
    uint64_t bytes = 256 * MIB;
    const uint64_t room = (uint64_t)fs.f_bavail * fs.f_frsize / 2;
    if (bytes > room) bytes = room / DISK_CHUNK * DISK_CHUNK;
    if (!bytes) fail(folder, "want 32 MiB of free space to measure the disk with, got less");

    const int fd = mkstemp(path);
    if (fd < 0) fail(folder, strerror(errno));
    unlink(path); /* gone whatever happens next */
    const uint64_t room_bytes = MIB << (DISK_PIECES - 1) << (DISK_DEPTHS - 1);
    char *memory = aligned_alloc(2 * MIB, room_bytes);
    if (!memory) fail("memory", strerror(errno));
    madvise(memory, room_bytes, MADV_HUGEPAGE);
    for (uint64_t i = 0; i < room_bytes; i++)
        memory[i] = (char)((uint32_t)i * UINT32_C(2654435761) >> 24);
    *how = "direct";
    if (fcntl(fd, F_SETFL, O_DIRECT) != 0 || pwrite(fd, memory, DISK_CHUNK, 0) != DISK_CHUNK) {
        fcntl(fd, F_SETFL, 0);
        *how = "buffered (the file system has no direct reads)";
    }
    for (uint64_t off = 0; off < bytes; off += DISK_CHUNK)
        if (pwrite(fd, memory, DISK_CHUNK, (off_t)off) != DISK_CHUNK) fail(folder, strerror(errno));
    if (fsync(fd) != 0) fail(folder, strerror(errno));
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    search_disk(fd, memory, bytes, &d);
    d.latency = least_of(read_alone, fd, memory, bytes, &d);
    const double took = least_of(read_burst, fd, memory, bytes, &d);
    d.burst = took > d.latency ? (double)d.piece * d.depth / (took - d.latency)
              : took > 0       ? d.bw
                               : 0;
    if (d.bw == 0 || d.latency == 0 || d.burst == 0)
        fail(folder, "want to read what was written, got less");
    free(memory);
    close(fd);
    return d;
}
