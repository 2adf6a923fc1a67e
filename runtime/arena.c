/* arena.c -- mapping the arena and asking the machine whether it fits. */
#include "arena.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

static uint64_t number_in(const char *path, const char *format)
{
    uint64_t v = 0;
    FILE *f = fopen(path, "re");
    if (!f) return UINT64_MAX;
    char line[128];
    int found = 0;
    while (!found && fgets(line, sizeof line, f)) found = sscanf(line, format, &v) == 1;
    fclose(f);
    return found ? v : UINT64_MAX; /* "max" in a cgroup file: no limit */
}

uint64_t ig_memory_left(void)
{
    const uint64_t kib = number_in("/proc/meminfo", "MemAvailable: %" SCNu64);
    uint64_t left = kib == UINT64_MAX ? kib : kib << 10;
    const uint64_t limit = number_in("/sys/fs/cgroup/memory.max", "%" SCNu64);
    const uint64_t used = number_in("/sys/fs/cgroup/memory.current", "%" SCNu64);
    if (limit != UINT64_MAX && used != UINT64_MAX) {
        const uint64_t file = number_in("/sys/fs/cgroup/memory.stat", "file %" SCNu64);
        const uint64_t held = file != UINT64_MAX && file < used ? used - file : used;
        const uint64_t room = limit > held ? limit - held : 0; /* page cache can be dropped */
        if (room < left) left = room;
    }
    return left;
}

enum ig_err ig_arena_map(unsigned char **mem, uint64_t bytes, int *huge, struct ig_why *why)
{
    const uint64_t left = ig_memory_left();
    if (left < bytes)
        return ig_fail(why, IG_NO_MEM,
                       "memory: the plan needs %" PRIu64 " MiB, the machine has %" PRIu64
                       " MiB left",
                       bytes >> 20, left >> 20);
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                   -1, 0);
    if (p == MAP_FAILED)
        return ig_fail(why, IG_NO_MEM, "memory: mapping %" PRIu64 " MiB: %s", bytes >> 20,
                       strerror(errno));
    *huge = madvise(p, bytes, MADV_HUGEPAGE) == 0;
    *mem = p;
    return IG_OK;
}

void ig_arena_unmap(unsigned char *mem, uint64_t bytes)
{
    if (mem) munmap(mem, bytes);
}
