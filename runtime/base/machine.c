/* machine.c -- what the running machine has and does: instruction sets, time, memory. */
#include "machine.h"

#include "kernels.h"

#include <stdlib.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

static const struct {
    unsigned bit;
    const char *name;
} isas[] = {
    { IG_CPU_AVX2, "AVX2 (with FMA and F16C)" },
    { IG_CPU_AVX512, "AVX-512 (F, BW, DQ, VL and VNNI)" },
    { IG_CPU_AMX, "AMX (bf16, with AVX512_BF16, tiles granted by the system)" },
    { IG_CPU_NEON, "NEON with dot products (asimddp)" },
    { IG_CPU_I8MM, "NEON's matrix products (i8mm)" },
};

const char *ig_machine_isa(unsigned mask, char *buf, size_t cap)
{
    size_t at = 0;
    snprintf(buf, cap, "none");
    for (size_t i = 0; i < sizeof isas / sizeof *isas; i++) {
        if (!(mask & isas[i].bit)) continue;
        const int n = snprintf(buf + at, cap - at, "%s%s", at ? ", " : "", isas[i].name);
        at += (size_t)n < cap - at ? (size_t)n : cap - at - 1;
        mask &= ~isas[i].bit;
    }
    if (mask) snprintf(buf + at, cap - at, "%sunnamed bits %#x", at ? ", " : "", mask);
    return buf;
}

enum ig_err ig_machine_check(unsigned need, unsigned have, struct ig_why *why)
{
    char missing[256], found[256];
    if ((need & ~have) == 0) return IG_OK;
    return ig_fail(why, IG_NO_ISA,
                   "this build needs a CPU with %s; this machine has: %s; generate the engine for "
                   "this machine (make HW=this) or run it on one that has it",
                   ig_machine_isa(need & ~have, missing, sizeof missing),
                   ig_machine_isa(have, found, sizeof found));
}

double ig_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

int ig_machine_cpus(void)
{
    enum { MOST = 1 << 16 }; /* the kernel's set may be larger than cpu_set_t */
    int n = 0;
    for (size_t cpus = CPU_SETSIZE; cpus <= MOST && n == 0; cpus *= 2) {
        cpu_set_t *set = CPU_ALLOC(cpus);
        const size_t bytes = CPU_ALLOC_SIZE(cpus);
        if (set && sched_getaffinity(0, bytes, set) == 0) n = CPU_COUNT_S(bytes, set);
        CPU_FREE(set);
    }
    return n > 0 ? n : 1;
}

/* VmHWM: getrusage's figure also has what the process was before it became this program. */
uint64_t ig_machine_peak(void)
{
    char line[128];
    unsigned long long kib;
    FILE *f = fopen("/proc/self/status", "re");
    while (f && fgets(line, sizeof line, f)) {
        if (sscanf(line, "VmHWM: %llu", &kib) != 1) continue;
        fclose(f);
        return (uint64_t)kib * 1024;
    }
    if (f) fclose(f);
    struct rusage u;
    return getrusage(RUSAGE_SELF, &u) == 0 ? (uint64_t)u.ru_maxrss * 1024 : 0;
}

uint64_t ig_machine_memory(void)
{
    const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    return pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page : 0;
}

/* Far above the last-level caches that one process gets a share of. */
enum { MEMBENCH_BYTES = 256 << 20 };

enum ig_err ig_membench_open(struct ig_membench *b, int threads, struct ig_why *why)
{
    b->bytes = MEMBENCH_BYTES;
    void *p = mmap(NULL, b->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return ig_fail(why, IG_NO_MEM, "memory benchmark: want %zu MiB, the system refused",
                       b->bytes >> 20);
    madvise(p, b->bytes, MADV_HUGEPAGE); /* as the arena; not having it only costs speed */
    b->words = p;
    const size_t n = b->bytes / sizeof *b->words;
#pragma omp parallel for num_threads(threads) schedule(static)
    for (size_t i = 0; i < n; i++) b->words[i] = i; /* each thread's pages near it */
    return IG_OK;
}

/* One word of each line brings the line.  Four streams and a prefetch of 32 lines
 * keep enough of them under way: a single plain loop reached two thirds of this
 * on a server CPU (bench prints the result as "memory read"). */
enum { LINE_WORDS = 8, STREAMS = 4, AHEAD = 32 * LINE_WORDS };

static uint64_t read_lines(const uint64_t *w, size_t lines)
{
    const size_t each = lines / STREAMS * LINE_WORDS; /* words of a stream */
    uint64_t sum[STREAMS] = { 0 };
    for (size_t i = 0; i < each; i += LINE_WORDS)
        for (size_t s = 0; s < STREAMS; s++) {
            const uint64_t *line = w + s * each + i;
            __builtin_prefetch(line + AHEAD); /* past the end it does nothing */
            sum[s] += *line;
        }
    return sum[0] + sum[1] + sum[2] + sum[3];
}

double ig_membench_read(const struct ig_membench *b, int threads)
{
    const size_t lines = b->bytes / (LINE_WORDS * sizeof *b->words),
                 share = lines / (size_t)threads;
    uint64_t sum = 0;
    const double t0 = ig_seconds();
#pragma omp parallel for num_threads(threads) schedule(static, 1) reduction(+ : sum)
    for (int i = 0; i < threads; i++)
        sum += read_lines(b->words + (size_t)i * share * LINE_WORDS, share);
    const double s = ig_seconds() - t0;
    __asm__ volatile("" : : "r"(sum)); /* the reads must happen */
    return (double)(share / STREAMS * STREAMS * (size_t)threads * LINE_WORDS * sizeof sum) / s;
}

void ig_membench_close(struct ig_membench *b)
{
    if (b->words) munmap(b->words, b->bytes);
    b->words = NULL;
}

double ig_machine_read(int fd, uint64_t from, uint64_t bytes)
{
    enum { READERS = 4, READS = 16, PIECE = 4 << 20, HUGE_PAGE = 2 << 20 };
    char self[64];
    int bad = 0;
    snprintf(self, sizeof self, "/proc/self/fd/%d", fd);
    const int direct = open(self, O_RDONLY | O_CLOEXEC | O_DIRECT);
    if (direct < 0 || bytes < PIECE) {
        if (direct >= 0) close(direct);
        return 0;
    }
    const double t0 = ig_seconds();
#pragma omp parallel for num_threads(READERS) schedule(static, 1) reduction(+ : bad)
    for (int r = 0; r < READERS; r++) {
        void *to = aligned_alloc(HUGE_PAGE, PIECE);
        if (to) madvise(to, PIECE, MADV_HUGEPAGE); /* as the slots: fewer requests a read */
        uint64_t x = (uint64_t)r + (uint64_t)(t0 * 1e6);
        for (int i = 0; to && i < READS; i++) {
            x = x * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
            const uint64_t at = (x >> 20) % (bytes - PIECE + 1) & ~UINT64_C(4095);
            bad += pread(direct, to, PIECE, (off_t)(from + at)) != PIECE;
        }
        bad += to == NULL;
        free(to);
    }
    const double s = ig_seconds() - t0;
    close(direct);
    return bad ? 0 : (double)READERS * READS * PIECE / s;
}
