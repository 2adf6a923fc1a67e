/* probe.c -- what this machine is and how fast it reads, as a hardware profile.
 *
 *     probe FOLDER > hw/this.lua
 *
 * Run by build.lua.  Each part of the profile is found or measured by a file of its own, probe_*.c;
 * this one writes the profile.  Nothing is written but one temporary file in FOLDER (probe_disk.c).
 * Knows nothing of models or plans.
 */
#define _GNU_SOURCE
#include "probe.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

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

_Noreturn void fail(const char *what, const char *why)
{
    fprintf(stderr, "probe: %s: %s\n", what, why);
    exit(1);
}

double clock_seconds(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

double now(void) { return clock_seconds(CLOCK_MONOTONIC); }

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

/* The GPU's part of the profile.  What the driver and others have of its memory is reserved, and
 * room for the kernels and their context. */
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
           "    busy_link_bw = %" PRIu64 ", busy_cpu_bw = %" PRIu64
           ",  -- link and cores at the same time\n"
           "    unified = %s,\n"
           "  },\n",
           g->driver / 1000, g->driver / 10 % 100,
           g->pinned ? "memory can be pinned" : "little memory can be pinned (ulimit -l)",
           "; link: copies of 4 MiB", g->name, g->major, g->minor, g->total,
           reserve < g->total ? reserve : g->total - 1, g->free / MIB, rounded(g->vram),
           rounded(g->down), rounded(g->up), rounded(g->both), rounded(g->busy_down),
           rounded(g->cpu), g->unified ? "true" : "false");
}

/* All but the GPU. */
struct found {
    char name[128];
    const char *isa, *disk_how;
    int cores, disturbed;
    struct caches cache;
    uint64_t ram, buffer_bytes;
    double mem_bw, core_bw, hash_bw; /* hash_bw 0: no vectors to do it with */
    struct disk disk;
};

static void print_profile(const struct found *f)
{
    const struct disk *d = &f->disk;
    printf(
        "-- This machine, measured by tools/probe.c; `build.lua MODEL this --probe` measures "
        "again.\n"
        "-- Cores, RAM: what this process may use.  Memory: best of %d or more passes over %" PRIu64
        " MiB.\n"
        "-- Disk: reads of 1 to 8 MiB, 1 to 16 at a time, %s; piece, depth: the least under way "
        "that\n"
        "-- comes within 3 %% of the best; latency: 4 KiB alone, in nanoseconds;\n"
        "-- burst: depth pieces after a rest, the latency taken off.\n",
        LEAST_PASSES, f->buffer_bytes / MIB, f->disk_how);
    printf("hardware {\n"
           "  source = \"measured by tools/probe.c on %s%s\",\n"
           "  isa = \"%s\",\n"
           "  cores = %d,\n"
           "  ram = %" PRIu64 ",\n"
           "  mem_bw = %" PRIu64 ",  -- %d threads\n"
           "  core_bw = %" PRIu64 ",  -- 1 thread\n",
           f->name,
           f->disturbed              ? ", busy with other programs"
           : d->spread > MOST_SPREAD ? ", its disk busy with other programs"
                                     : "",
           f->isa, f->cores, f->ram, rounded(f->mem_bw), f->cores, rounded(f->core_bw));
    if (f->hash_bw > 0)
        printf("  hash_bw = %" PRIu64 ",  -- 1 thread, XXH3\n", rounded(f->hash_bw));
    printf("  disk_bw = %" PRIu64 ", disk_burst_bw = %" PRIu64 ",\n"
           "  disk_piece = %" PRIu64 ", disk_depth = %d, disk_latency = %" PRIu64 ",\n"
           "  cache = { l1d = %" PRIu64 ", l2 = %" PRIu64 ", l3 = %" PRIu64 " },\n",
           rounded(d->bw), rounded(d->burst < d->bw ? d->burst : d->bw), d->piece, d->depth,
           rounded(1e9 * d->latency), f->cache.l1d, f->cache.l2, f->cache.l3);
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fputs("usage: probe FOLDER > hw/this.lua\n", stderr);
        return 2;
    }
    struct found f = { .isa = find_isa() };
    int first_cpu;
    uint64_t available;
    find_cpu_name(f.name, sizeof f.name);
    f.cores = find_cores(&first_cpu);
    f.cache = find_caches(first_cpu);
    f.ram = find_ram(&available);

    say("memory, filling");
    struct line *buf = make_buffer(f.cache.l3, available, f.cores, &f.buffer_bytes);
    say("memory, %d threads", f.cores);
    f.mem_bw = measure_memory(buf, f.buffer_bytes, f.cores, &f.disturbed);
    say("memory, 1 thread");
    f.core_bw = measure_memory(buf, f.buffer_bytes, 1, &f.disturbed);
    if (f.core_bw > f.mem_bw) f.mem_bw = f.core_bw; /* the others may rest */
    say("checksum");
    if (strcmp(f.isa, "ref") != 0) f.hash_bw = probe_hash(buf, f.buffer_bytes);
    say("GPU");
    struct gpu_found gpu;
    const char *no_gpu =
        probe_gpu(&gpu, measure_cores, &(struct cores){ buf, f.buffer_bytes, f.cores });
    munmap(buf, f.buffer_bytes);
    say("disk");
    f.disk = measure_disk(argv[1], &f.disk_how);
    say("done\n");
    if (f.disturbed)
        fputs("probe: other programs were using the CPU, so memory may be faster than measured; "
              "PROBE=1 (build.lua: --probe) measures again\n",
              stderr);
    if (f.disk.spread > MOST_SPREAD)
        fprintf(stderr,
                "probe: repeated reads took up to %.1f times as long as the fastest, so others use "
                "the disk or "
                "the CPU, and it may be faster than measured; PROBE=1 (build.lua: --probe) "
                "measures again\n",
                f.disk.spread);

    print_profile(&f);
    if (no_gpu)
        printf("  -- no GPU was measured: %s\n", no_gpu);
    else
        print_gpu(&gpu);
    printf("}\n");
    if (no_gpu) fprintf(stderr, "probe: no GPU: %s\n", no_gpu);
    return fflush(stdout) == 0 ? 0 : 1;
}
