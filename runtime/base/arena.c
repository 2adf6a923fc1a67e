/* arena.c -- mapping the arena and asking the machine whether it fits. */
#include "arena.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

enum { PATH_BYTES = 4096 };

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

/* The names that the two versions of cgroups have for the same things. */
static const struct version {
    const char *limit, *used, *cache;
} versions[] = {
    { "memory.max", "memory.current", "file %" SCNu64 },
    { "memory.limit_in_bytes", "memory.usage_in_bytes", "total_cache %" SCNu64 },
};

static uint64_t field(const char *group, const char *name, const char *format)
{
    char path[PATH_BYTES];
    const int n = snprintf(path, sizeof path, "%s/%s", group, name);
    return n > 0 && (size_t)n < sizeof path ? number_in(path, format) : UINT64_MAX;
}

static uint64_t group_left(const char *group, const struct version *v)
{
    const uint64_t limit = field(group, v->limit, "%" SCNu64);
    const uint64_t used = field(group, v->used, "%" SCNu64);
    if (limit == UINT64_MAX || used == UINT64_MAX) return UINT64_MAX;
    const uint64_t file = field(group, "memory.stat", v->cache);
    const uint64_t held = file < used ? used - file : used;
    return limit > held ? limit - held : 0; /* page cache can be dropped */
}

/* The least of a group and all above it, up to the mount. */
static uint64_t branch_left(const char *mount, const char *own, const struct version *v)
{
    char group[PATH_BYTES];
    const size_t root = strlen(mount);
    uint64_t left = UINT64_MAX;

    /* A group outside what is mounted here has a path with "..". */
    const int n = snprintf(group, sizeof group, "%s%s", mount, strstr(own, "/..") ? "" : own);
    if (n < 0 || (size_t)n >= sizeof group) return left;
    for (char *slash;; *slash = '\0') {
        const uint64_t here = group_left(group, v);
        if (here < left) left = here;
        slash = strrchr(group + root, '/');
        if (!slash) return left;
    }
}

uint64_t ig_cgroup_left(const char *self, const char *mount)
{
    char line[PATH_BYTES], sub[PATH_BYTES];
    uint64_t left = branch_left(mount, "", &versions[0]);
    FILE *f = fopen(self, "re");

    while (f && fgets(line, sizeof line, f)) { /* ID:CONTROLLERS:PATH; none are version 2 */
        line[strcspn(line, "\n")] = '\0';
        char *names = strchr(line, ':'), *path = names ? strchr(++names, ':') : NULL;
        if (!path) continue;
        *path++ = '\0';
        uint64_t here = UINT64_MAX;
        if (!*names) {
            here = branch_left(mount, path, &versions[0]);
        } else {
            for (char *at, *name = strtok_r(names, ",", &at); name; name = strtok_r(NULL, ",", &at))
                if (strcmp(name, "memory") == 0 &&
                    snprintf(sub, sizeof sub, "%s/memory", mount) < (int)sizeof sub)
                    here = branch_left(sub, path, &versions[1]);
        }
        if (here < left) left = here;
    }
    if (f) fclose(f);
    return left;
}

uint64_t ig_memory_left(void)
{
    const uint64_t kib = number_in("/proc/meminfo", "MemAvailable: %" SCNu64);
    const uint64_t left = kib == UINT64_MAX ? kib : kib << 10;
    const uint64_t group = ig_cgroup_left("/proc/self/cgroup", "/sys/fs/cgroup");
    return group < left ? group : left;
}

/* `bytes` at an address that is `skew` past a multiple of a huge page; NULL: refused. */
static unsigned char *map_skewed(uint64_t bytes, uint64_t skew)
{
    const uint64_t huge = UINT64_C(2) << 20;
    unsigned char *p = mmap(NULL, bytes + huge, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) return NULL;
    const uint64_t head = (skew - (uintptr_t)p) % huge, tail = huge - head;
    if (head) munmap(p, head);
    munmap(p + head + bytes, tail);
    return p + head;
}

enum ig_err ig_arena_map(unsigned char **mem, uint64_t bytes, uint64_t skew, int *huge,
                         struct ig_why *why)
{
    const uint64_t left = ig_memory_left();
    if (left < bytes)
        return ig_fail(why, IG_NO_MEM,
                       "memory: the plan needs %" PRIu64 " MiB, the machine has %" PRIu64
                       " MiB left",
                       bytes >> 20, left >> 20);
    unsigned char *p = map_skewed(bytes, skew);
    if (!p)
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
