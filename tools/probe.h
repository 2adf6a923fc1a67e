/* probe.h -- between the probe's files: one a part of the profile. */
#ifndef PROBE_H
#define PROBE_H

#include <stddef.h>
#include <stdint.h>
#include <time.h>

#define MIB (UINT64_C(1) << 20)

/* probe.c: the clock, and the end where a measurement fails. */
double clock_seconds(clockid_t clock);
double now(void);
_Noreturn void fail(const char *what, const char *why);

/* probe_cpu.c */
struct caches {
    uint64_t l1d, l2, l3;
};
const char *find_isa(void);
void find_cpu_name(char *name, size_t bytes);
struct caches find_caches(int cpu);

/* probe_limits.c */
int read_line(char *line, size_t bytes, const char *fmt, ...);
uint64_t find_ram(uint64_t *available);
int find_cores(int *first);

/* probe_memory.c */
enum { LEAST_PASSES = 5 }; /* of a measurement; the best one counts, for others run here too */
struct line;               /* a cache line */
struct line *make_buffer(uint64_t l3, uint64_t available, int threads, uint64_t *bytes);
double measure_memory(const struct line *buf, uint64_t bytes, int threads, int *disturbed);

/* probe_disk.c: what the disk's part of the profile says. */
struct disk {
    double bw;
    uint64_t piece; /* bytes of a read ... */
    int depth;      /* ... and how many at a time come near bw with the least under way */
    double latency; /* seconds of one small read alone */
    double burst;   /* bytes a second of such reads after a rest, without the latency */
    double spread;  /* between repeated measurements of the last two: slowest over fastest */
};
#define MOST_SPREAD 1.5 /* of a disk that nobody else reads */
struct disk measure_disk(const char *folder, const char **how);

/* probe_gpu.c */
struct gpu_found {
    char name[128];
    int major, minor, driver, unified, pinned;
    uint64_t total, free;  /* bytes of its memory; what a program can have of it */
    double vram;           /* bytes a second: reading it */
    double down, up;       /* to the device, from it, alone */
    double both;           /* each way at the same time */
    double busy_down, cpu; /* the link's and the cores' while both read memory */
};

/* NULL, or why there is no GPU to measure.  `cpu` measures the cores' rate. */
const char *probe_gpu(struct gpu_found *g, double (*cpu)(void *ctx), void *ctx);

/* Bytes a second at which one core checks memory that no cache holds (probe_hash.c). */
double probe_hash(const void *memory, uint64_t bytes);

#endif
