/* probe.c -- what this machine is and how fast it reads, as a hardware profile.
 *
 *     probe FOLDER > hw/this.lua
 *
 * Run by build.lua.  Finds the instruction set, the cores and the RAM that this
 * process may use (affinity and cgroup limits count), and the caches; measures
 * how fast all cores and one core read memory, how fast FOLDER's disk
 * reads, what a GPU is and does (probe_gpu.c), how fast a checksum is (probe_hash.c).  Writes nothing but one temporary file in FOLDER, which has no name
 * while it is in use.  Knows nothing of models or plans.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <omp.h>
#include <sched.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>
#include "probe.h"
#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

enum {
    MAX_CPU = 8192,
    LEAST_PASSES = 5,      /* of a measurement; the best one counts, for others run here too */
    STRETCH = 32 << 20,    /* bytes that one thread reads between two looks at the clock */
    DISK_CHUNK = 16 << 20, /* of writing the file that is then read */
};
static const double least_seconds = 1.5; /* of a measurement's passes */
#define MIB  (UINT64_C(1) << 20)
#define NONE UINT64_MAX

static void say(const char *fmt, ...)
{
    if (!isatty(STDERR_FILENO)) return;
    va_list ap;
    va_start(ap, fmt);
    fputs("\r\033[Kprobe: ", stderr);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fflush(stderr);
}

static _Noreturn void fail(const char *what, const char *why)
{
    fprintf(stderr, "probe: %s: %s\n", what, why);
    exit(1);
}

static double clock_seconds(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

double now(void) { return clock_seconds(CLOCK_MONOTONIC); }

/* First line of a small file, without its newline; 0 when it cannot be read. */
static int read_line(char *line, size_t bytes, const char *fmt, ...)
{
    char path[4096 + 512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(path, sizeof path, fmt, ap);
    va_end(ap);
    FILE *f = fopen(path, "r");
    if (!f) return 0;
    const int ok = fgets(line, (int)bytes, f) != NULL;
    fclose(f);
    if (ok) line[strcspn(line, "\n")] = 0;
    return ok;
}

/* --- instruction set --- */

static const char *find_isa(void)
{
#if defined(__x86_64__)
    unsigned a, b, c, d, leaf1_c, xcr0 = 0, xcr0_high;
    if (!__get_cpuid(1, &a, &b, &leaf1_c, &d)) return "ref";
    if (leaf1_c & bit_OSXSAVE) __asm__ volatile("xgetbv" : "=a"(xcr0), "=d"(xcr0_high) : "c"(0));
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return "ref";

    /* XCR0: the system saves SSE and AVX state; and opmask and both halves of ZMM. */
    const int saves_avx = (xcr0 & 0x06) == 0x06, saves_avx512 = (xcr0 & 0xe6) == 0xe6;
    const unsigned avx512 = bit_AVX512F | bit_AVX512BW | bit_AVX512DQ | bit_AVX512VL;
    const unsigned fma_f16c = bit_FMA | bit_F16C;
    const int avx2 = saves_avx && (b & bit_AVX2) && (leaf1_c & fma_f16c) == fma_f16c;
    if (avx2 && saves_avx512 && (b & avx512) == avx512 && (c & bit_AVX512VNNI)) return "avx512";
    if (avx2) return "avx2";
#elif defined(__aarch64__)
    if (getauxval(AT_HWCAP) & HWCAP_ASIMDDP)
        return getauxval(AT_HWCAP2) & HWCAP2_I8MM ? "i8mm" : "neon";
#endif
    return "ref";
}

/* What /proc/cpuinfo says first of `field`, only characters that need no escape in Lua; or 0. */
static int find_cpuinfo(char *value, size_t bytes, const char *field)
{
    FILE *f = fopen("/proc/cpuinfo", "r");
    char line[512];
    int found = 0;
    while (!found && f && fgets(line, sizeof line, f)) {
        if (strncmp(line, field, strlen(field)) != 0 || !strchr(line, ':')) continue;
        const char *from = strchr(line, ':') + 1;
        size_t n = 0;
        for (; *from && *from != '\n' && n + 1 < bytes; from++) {
            if (*from == ' ' && (n == 0 || value[n - 1] == ' ')) continue;
            value[n++] = *from < ' ' || *from > '~' || *from == '"' || *from == '\\' ? '?' : *from;
        }
        value[n] = 0;
        found = 1;
    }
    if (f) fclose(f);
    return found;
}

/* The CPU's name for the profile.  Linux on AArch64 has numbers for it. */
static void find_cpu_name(char *name, size_t bytes)
{
    char maker[32], part[32];
    if (find_cpuinfo(name, bytes, "model name")) return;
    if (find_cpuinfo(maker, sizeof maker, "CPU implementer") &&
        find_cpuinfo(part, sizeof part, "CPU part"))
        snprintf(name, bytes, "CPU implementer %s, part %s", maker, part);
    else
        snprintf(name, bytes, "an unnamed CPU");
}

/* --- limits --- */

/* This process's cgroup path of `controller` ("" for version 2), or 0. */
static int find_cgroup(char *path, size_t bytes, const char *controller)
{
    FILE *f = fopen("/proc/self/cgroup", "r");
    char line[4096];
    int found = 0;
    while (!found && f && fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = 0;
        char *list = strchr(line, ':'), *where = list ? strchr(list + 1, ':') : NULL;
        if (!where) continue;
        *where++ = 0;
        char *save = NULL;
        if (!*controller) found = list[1] == 0;
        for (char *c = strtok_r(list + 1, ",", &save); c && *controller;
             c = strtok_r(NULL, ",", &save))
            found |= strcmp(c, controller) == 0;
        if (found) snprintf(path, bytes, "%s", where);
    }
    if (f) fclose(f);
    return found;
}

/* Call `see` on the first line of `file` in the process's cgroup and in each of
 * its parents: every one of them limits. */
static void walk_cgroup(const char *mount, const char *controller, const char *file,
                        void (*see)(const char *line, const char *dir, void *ctx), void *ctx)
{
    char path[4096] = "", line[256], dir[4096 + 256];
    if (!find_cgroup(path, sizeof path, controller)) return;
    for (;;) {
        snprintf(dir, sizeof dir, "%s%s", mount, path);
        if (read_line(line, sizeof line, "%s/%s", dir, file)) see(line, dir, ctx);
        char *cut = strrchr(path, '/');
        if (!cut || !*path) return;
        *cut = 0;
    }
}

static void see_bytes(const char *line, const char *dir, void *ctx)
{
    (void)dir;
    uint64_t *least = ctx, n;
    if (sscanf(line, "%" SCNu64, &n) == 1 && n < *least) *least = n; /* "max" is no number */
}

static void see_quota2(const char *line, const char *dir, void *ctx)
{
    (void)dir;
    double *least = ctx, quota, period;
    if (sscanf(line, "%lf %lf", &quota, &period) == 2 && period > 0 && quota / period < *least)
        *least = quota / period;
}

static void see_quota1(const char *line, const char *dir, void *ctx)
{
    char period[64];
    double *least = ctx;
    const double q = atof(line);
    if (q <= 0 || !read_line(period, sizeof period, "%s/cpu.cfs_period_us", dir)) return;
    if (atof(period) > 0 && q / atof(period) < *least) *least = q / atof(period);
}

static uint64_t find_ram(uint64_t *available)
{
    char line[256];
    uint64_t total = 0, kib;
    *available = 0;
    FILE *f = fopen("/proc/meminfo", "r");
    while (f && fgets(line, sizeof line, f)) {
        if (sscanf(line, "MemTotal: %" SCNu64, &kib) == 1) total = kib << 10;
        if (sscanf(line, "MemAvailable: %" SCNu64, &kib) == 1) *available = kib << 10;
    }
    if (f) fclose(f);
    if (!total) fail("/proc/meminfo", "no MemTotal");
    if (!*available) *available = total / 2;
    walk_cgroup("/sys/fs/cgroup", "", "memory.max", see_bytes, &total);
    walk_cgroup("/sys/fs/cgroup/memory", "memory", "memory.limit_in_bytes", see_bytes, &total);
    if (*available > total) *available = total;
    return total;
}

/* Physical cores among the CPUs this process may run on; *first is one of them. */
static int find_cores(int *first)
{
    static uint64_t seen[MAX_CPU]; /* package << 32 | core */
    cpu_set_t *set = CPU_ALLOC(MAX_CPU);
    const size_t bytes = CPU_ALLOC_SIZE(MAX_CPU);
    int n = 0;
    *first = 0;
    if (!set || sched_getaffinity(0, bytes, set) != 0) fail("sched_getaffinity", strerror(errno));
    for (int cpu = MAX_CPU - 1; cpu >= 0; cpu--) {
        if (!CPU_ISSET_S((size_t)cpu, bytes, set)) continue;
        *first = cpu;
        char core[64], package[64];
        const char *where = "/sys/devices/system/cpu/cpu%d/topology/%s";
        uint64_t id = NONE - (uint64_t)cpu; /* without a topology, each CPU is a core */
        if (read_line(core, sizeof core, where, cpu, "core_id") &&
            read_line(package, sizeof package, where, cpu, "physical_package_id"))
            id = (uint64_t)strtoul(package, NULL, 10) << 32 | (uint32_t)strtoul(core, NULL, 10);
        int k = 0;
        while (k < n && seen[k] != id) k++;
        if (k == n) seen[n++] = id;
    }
    CPU_FREE(set);
    if (n < 1) fail("sched_getaffinity", "no CPU");

    double quota = n;
    walk_cgroup("/sys/fs/cgroup", "", "cpu.max", see_quota2, &quota);
    walk_cgroup("/sys/fs/cgroup/cpu", "cpu", "cpu.cfs_quota_us", see_quota1, &quota);
    const int limited = (int)quota;
    return limited < 1 ? 1 : limited;
}

/* --- caches --- */

struct caches {
    uint64_t l1d, l2, l3;
};

static uint64_t known(long sysconf_value)
{
    return sysconf_value > 0 ? (uint64_t)sysconf_value : 0;
}

static struct caches find_caches(int cpu)
{
    struct caches c = { known(sysconf(_SC_LEVEL1_DCACHE_SIZE)),
                        known(sysconf(_SC_LEVEL2_CACHE_SIZE)),
                        known(sysconf(_SC_LEVEL3_CACHE_SIZE)) };
    for (int i = 0; i < 8; i++) {
        char level[16], type[32], size[32];
        const char *where = "/sys/devices/system/cpu/cpu%d/cache/index%d/%s";
        if (!read_line(level, sizeof level, where, cpu, i, "level") ||
            !read_line(type, sizeof type, where, cpu, i, "type") ||
            !read_line(size, sizeof size, where, cpu, i, "size") ||
            strcmp(type, "Instruction") == 0)
            continue;
        char *unit;
        uint64_t bytes = strtoull(size, &unit, 10);
        bytes <<= *unit == 'K' ? 10 : *unit == 'M' ? 20 : 0;
        if (atoi(level) == 1) c.l1d = bytes;
        if (atoi(level) == 2) c.l2 = bytes;
        if (atoi(level) == 3) c.l3 = bytes;
    }
    return c;
}

/* --- bandwidths --- */

struct line { /* a cache line, in pieces that every 64-bit CPU loads at once */
    uint64_t __attribute__((vector_size(16))) v[4];
};

/* Reads every byte.  Four streams, each asked for 32 lines ahead: a single one reached a third less
 * on a server CPU, and it is not what weights are read with (runtime/base/machine.c). */
enum { STREAMS = 4, AHEAD = 32 };
__attribute__((noinline)) static uint64_t read_all(const struct line *p, size_t n)
{
    const size_t each = n / STREAMS;
    uint64_t __attribute__((vector_size(16))) a = { 0 }, b = a, c = a, d = a;
    for (size_t i = 0; i < each; i++)
        for (size_t s = 0; s < STREAMS; s++) {
            const struct line *at = p + s * each + i;
            __builtin_prefetch(at + AHEAD); /* past the end it does nothing */
            a ^= at->v[0];
            b ^= at->v[1];
            c ^= at->v[2];
            d ^= at->v[3];
        }
    a ^= b ^ c ^ d;
    return a[0] ^ a[1];
}

static volatile uint64_t sink; /* keeps the reads alive */

/* One stretch of the buffer, cut between the threads.  From the first start to
 * the last end: a thread that waits for its turn can only lower the rate. */
static double measure_stretch(const struct line *buf, size_t lines, int threads)
{
    double from = now() + 1e9, to = 0;
    uint64_t sum = 0;
#pragma omp parallel num_threads(threads) reduction(^ : sum) reduction(min : from) reduction(max : to)
    {
        const size_t share = lines / (size_t)threads;
        from = now();
        sum ^= read_all(buf + share * (size_t)omp_get_thread_num(), share);
        to = now();
    }
    sink = sum;
    const size_t read = lines / (size_t)threads / STREAMS * STREAMS * (size_t)threads;
    return (double)(read * sizeof *buf) / (to - from);
}

/* Best rate of `threads` threads.  Stretches are short (milliseconds), so that
 * some pass undisturbed by other programs, and follow each other through the
 * whole buffer, so that none is still in a cache. */
static double measure_memory(const struct line *buf, uint64_t bytes, int threads, int *disturbed)
{
    const size_t all = bytes / sizeof *buf;
    size_t stretch = (size_t)threads * (STRETCH / sizeof *buf);
    if (stretch > all) stretch = all;
    const double began = now(), cpu = clock_seconds(CLOCK_PROCESS_CPUTIME_ID);
    double best = 0;
    for (int pass = 0; pass < LEAST_PASSES || now() - began < least_seconds; pass++)
        for (size_t at = 0; at + stretch <= all; at += stretch) {
            const double rate = measure_stretch(buf + at, stretch, threads);
            if (rate > best) best = rate;
        }
    /* A fifth of the time without a CPU: other programs had it. */
    const double had = clock_seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu;
    *disturbed |= had < 0.8 * threads * (now() - began);
    return best;
}

/* Far beyond the last cache level, but no more than half of what is free. */
static struct line *make_buffer(uint64_t l3, uint64_t available, int threads, uint64_t *bytes)
{
    *bytes = 4 * l3 > 256 * MIB ? 4 * l3 : 256 * MIB;
    if (*bytes > available / 2) *bytes = available / 2;
    *bytes = *bytes / MIB * MIB;
    if (*bytes < 16 * MIB) fail("memory", "want 32 MiB free to measure with, got less");
    void *p = mmap(NULL, *bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) fail("memory", strerror(errno));
    madvise(p, *bytes, MADV_HUGEPAGE); /* as the engine does; without it the rate is only lower */
    struct line *buf = p;
    const int64_t lines = (int64_t)(*bytes / sizeof *buf);
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t i = 0; i < lines; i++) memset(&buf[i], (int)(i & 255), sizeof buf[i]);
    return buf;
}

/* What the disk's part of the profile says. */
struct disk {
    double bw;
    uint64_t piece; /* bytes of a read ... */
    int depth;      /* ... and how many at a time come near bw with the least under way */
    double latency; /* seconds of one small read alone */
    double burst;   /* bytes a second of such reads after a rest, without the latency */
};

enum { DISK_DEPTHS = 5, DISK_PIECES = 4, LONE_READS = 65 };
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

/* Half of such reads take longer: the disk rests before each, as it does between two layers. */
static double read_alone(int fd, char *memory, uint64_t bytes)
{
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

/* As a layer's missing experts are read: `depth` pieces at once, then a rest.  Half of them take longer. */
static double read_bursts(int fd, char *memory, uint64_t bytes, const struct disk *d)
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
    const double rest = took[LONE_READS / 2] - d->latency;
    return rest > 0 ? (double)d->piece * d->depth / rest : d->bw;
}

/* Reads of FOLDER's disk, past the page cache where it allows that.  The memory is of large pages
 * where the system has them, as the engine's: a read into small ones is cut into more requests. */
static struct disk measure_disk(const char *folder, const char **how)
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
    d.latency = read_alone(fd, memory, bytes);
    d.burst = read_bursts(fd, memory, bytes, &d);
    if (d.bw == 0 || d.latency == 0 || d.burst == 0) fail(folder, "want to read what was written, got less");
    free(memory);
    close(fd);
    return d;
}

/* Three digits: what a measurement is worth. */
static uint64_t rounded(double rate)
{
    uint64_t unit = 1;
    while (rate / (double)unit >= 1000) unit *= 10;
    return (uint64_t)(rate / (double)unit + 0.5) * unit;
}

struct cores { /* to be measured beside the link */
    const struct line *buf;
    uint64_t bytes;
    int threads;
};
static double measure_cores(void *ctx)
{
    const struct cores *c = ctx;
    int disturbed = 0;
    return measure_memory(c->buf, c->bytes, c->threads, &disturbed);
}

/* The GPU's part of the profile.  What the driver and others have of its memory is reserved, and room
 * for the kernels and their context. */
static void print_gpu(const struct gpu_found *g)
{
    const uint64_t reserve = g->total - g->free + 512 * MIB;
    printf("  gpu = {  -- driver %d.%d; %s%s\n"
           "    name = \"%s\",\n"
           "    arch = \"sm_%d%d\",\n"
           "    vram = %" PRIu64 ",\n"
           "    vram_reserve = %" PRIu64 ",  -- %" PRIu64 " MiB are free; less 512 for kernels\n"
           "    vram_bw = %" PRIu64 ",\n"
           "    link_bw = %" PRIu64 ", link_up_bw = %" PRIu64 ", link_both_bw = %" PRIu64 ",\n"
           "    busy_link_bw = %" PRIu64 ", busy_cpu_bw = %" PRIu64 ",  -- link and cores at the same time\n"
           "    unified = %s,\n"
           "  },\n",
           g->driver / 1000, g->driver / 10 % 100, g->pinned ? "memory can be pinned" : "little memory can be pinned (ulimit -l)",
           "; link: copies of 4 MiB", g->name, g->major, g->minor, g->total,
           reserve < g->total ? reserve : g->total - 1, g->free / MIB, rounded(g->vram), rounded(g->down), rounded(g->up),
           rounded(g->both), rounded(g->busy_down), rounded(g->cpu), g->unified ? "true" : "false");
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fputs("usage: probe FOLDER > hw/this.lua\n", stderr);
        return 2;
    }
    char name[128];
    int first;
    uint64_t available, bytes;
    const char *how;
    find_cpu_name(name, sizeof name);
    const char *isa = find_isa();
    const int cores = find_cores(&first);
    const struct caches c = find_caches(first);
    const uint64_t ram = find_ram(&available);

    say("memory, filling");
    struct line *buf = make_buffer(c.l3, available, cores, &bytes);
    say("memory, %d threads", cores);
    int disturbed = 0;
    double all = measure_memory(buf, bytes, cores, &disturbed);
    say("memory, 1 thread");
    const double one = measure_memory(buf, bytes, 1, &disturbed);
    if (one > all) all = one; /* the others may rest */
    say("checksum");
    const double hash = strcmp(isa, "ref") != 0 ? probe_hash(buf, bytes) : 0;
    say("GPU");
    struct gpu_found gpu;
    const char *no_gpu = probe_gpu(&gpu, measure_cores, &(struct cores){ buf, bytes, cores });
    munmap(buf, bytes);
    say("disk");
    const struct disk disk = measure_disk(argv[1], &how);
    say("done\n");
    if (disturbed)
        fputs("probe: other programs were using the CPU, so memory may be faster than measured; "
              "PROBE=1 (build.lua: --probe) measures again\n",
              stderr);

    char hash_line[80] = "";
    if (hash > 0)
        snprintf(hash_line, sizeof hash_line, "  hash_bw = %" PRIu64 ",  -- 1 thread, XXH3\n", rounded(hash));
    printf(
        "-- This machine, measured by tools/probe.c; `build.lua MODEL this --probe` measures "
        "again.\n"
        "-- Cores, RAM: what this process may use.  Memory: best of %d or more passes over %" PRIu64
        " MiB.\n"
        "-- Disk: reads of 1 to 8 MiB, 1 to 16 at a time, %s; piece, depth: the least under way that\n"
        "-- comes within 3 %% of the best; latency: 4 KiB alone, in nanoseconds;\n"
        "-- burst: depth pieces after a rest, the latency taken off.\n"
        "hardware {\n"
        "  source = \"measured by tools/probe.c on %s%s\",\n"
        "  isa = \"%s\",\n"
        "  cores = %d,\n"
        "  ram = %" PRIu64 ",\n"
        "  mem_bw = %" PRIu64 ",  -- %d threads\n"
        "  core_bw = %" PRIu64 ",  -- 1 thread\n"
        "%s"
        "  disk_bw = %" PRIu64 ", disk_burst_bw = %" PRIu64 ",\n"
        "  disk_piece = %" PRIu64 ", disk_depth = %d, disk_latency = %" PRIu64 ",\n"
        "  cache = { l1d = %" PRIu64 ", l2 = %" PRIu64 ", l3 = %" PRIu64 " },\n",
        LEAST_PASSES, bytes / MIB, how, name,
        disturbed ? ", busy with other programs" : "", isa, cores, ram, rounded(all), cores,
        rounded(one), hash_line, rounded(disk.bw), rounded(disk.burst < disk.bw ? disk.burst : disk.bw), disk.piece, disk.depth, rounded(1e9 * disk.latency), c.l1d, c.l2, c.l3);
    if (no_gpu)
        printf("  -- no GPU was measured: %s\n", no_gpu);
    else
        print_gpu(&gpu);
    printf("}\n");
    if (no_gpu) fprintf(stderr, "probe: no GPU: %s\n", no_gpu);
    return fflush(stdout) == 0 ? 0 : 1;
}
