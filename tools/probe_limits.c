/* probe_limits.c -- the cores and the RAM that this process may use: affinity and cgroups count. */
#define _GNU_SOURCE
#include "probe.h"

#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_CPU = 8192 };
#define NONE UINT64_MAX

/* First line of a small file, without its newline; 0 when it cannot be read. */
int read_line(char *line, size_t bytes, const char *fmt, ...)
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

uint64_t find_ram(uint64_t *available)
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
int find_cores(int *first)
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
