/* cpus.c -- the machine's topology from sysfs, its limits from cgroups. */
#include "cpus.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATH_BYTES = 4096 + 256, LINE_BYTES = 4096 };

/* First line of a file; 0 when there is none. */
__attribute__((format(printf, 2, 3))) static int line_of(char line[LINE_BYTES], const char *fmt,
                                                         ...)
{
    char path[PATH_BYTES];
    va_list ap;
    va_start(ap, fmt);
    const int n = vsnprintf(path, sizeof path, fmt, ap);
    va_end(ap);
    FILE *f = n > 0 && (size_t)n < sizeof path ? fopen(path, "re") : NULL;
    if (!f) return 0;
    const int ok = fgets(line, LINE_BYTES, f) != NULL;
    fclose(f);
    if (ok) line[strcspn(line, "\n")] = '\0';
    return ok;
}

/* "0-3,8" into a set; what is no number ends it. */
static cpu_set_t list_of(const char *text)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    while (*text >= '0' && *text <= '9') {
        char *end;
        const long lo = strtol(text, &end, 10);
        const long hi = *end == '-' ? strtol(end + 1, &end, 10) : lo;
        for (long i = lo; i <= hi && i < IG_CPU_MOST; i++) CPU_SET((size_t)i, &set);
        text = *end == ',' ? end + 1 : end;
        if (*end != ',') break;
    }
    return set;
}

/* -- cgroups */

struct limits {
    double quota;   /* 0: none */
    cpu_set_t *set; /* narrowed */
};

static void take_quota(struct limits *l, double quota, double period)
{
    if (quota <= 0 || period <= 0) return;
    if (l->quota == 0 || quota / period < l->quota) l->quota = quota / period;
}

/* One group's own files, of either version. */
static void group_limits(struct limits *l, const char *group)
{
    char line[LINE_BYTES], period[LINE_BYTES];
    double quota, per;
    if (line_of(line, "%s/cpu.max", group) && sscanf(line, "%lf %lf", &quota, &per) == 2)
        take_quota(l, quota, per); /* "max" is no number */
    if (line_of(line, "%s/cpu.cfs_quota_us", group) &&
        line_of(period, "%s/cpu.cfs_period_us", group))
        take_quota(l, atof(line), atof(period)); /* -1: none */
    if (line_of(line, "%s/cpuset.cpus.effective", group) ||
        line_of(line, "%s/cpuset.effective_cpus", group)) {
        const cpu_set_t here = list_of(line);
        if (CPU_COUNT(&here) > 0) CPU_AND(l->set, l->set, &here);
    }
}

/* A group and all above it, up to the mount. */
static void branch_limits(struct limits *l, const char *mount, const char *own)
{
    char group[PATH_BYTES];
    const size_t top = strlen(mount);
    const int n = snprintf(group, sizeof group, "%s%s", mount, strstr(own, "/..") ? "" : own);
    if (n < 0 || (size_t)n >= sizeof group) return;
    for (char *slash;; *slash = '\0') {
        group_limits(l, group);
        slash = strrchr(group + top, '/');
        if (!slash) return;
    }
}

static void cgroup_limits(struct limits *l, const char *root)
{
    char path[PATH_BYTES], mount[PATH_BYTES], line[LINE_BYTES];
    snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    FILE *f = fopen(path, "re");
    while (f && fgets(line, sizeof line, f)) { /* ID:CONTROLLERS:PATH; none are version 2 */
        line[strcspn(line, "\n")] = '\0';
        char *names = strchr(line, ':'), *own = names ? strchr(++names, ':') : NULL, *at;
        if (!own) continue;
        *own++ = '\0';
        snprintf(mount, sizeof mount, "%s/sys/fs/cgroup", root);
        if (!*names) branch_limits(l, mount, own);
        for (char *name = strtok_r(names, ",", &at); name; name = strtok_r(NULL, ",", &at)) {
            if (strcmp(name, "cpu") != 0 && strcmp(name, "cpuset") != 0) continue;
            snprintf(mount, sizeof mount, "%s/sys/fs/cgroup/%s", root, name);
            branch_limits(l, mount, own);
        }
    }
    if (f) fclose(f);
}

/* -- topology */

/* How fast a core is among the others, in any unit; 0: not said. */
static double speed_of(const char *root, int cpu)
{
    char line[LINE_BYTES];
    if (line_of(line, "%s/sys/devices/system/cpu/cpu%d/cpu_capacity", root, cpu)) return atof(line);
    if (line_of(line, "%s/sys/devices/system/cpu/cpu%d/cpufreq/cpuinfo_max_freq", root, cpu))
        return atof(line);
    return 0;
}

/* Take out cores made for efficiency: Intel names them; elsewhere they are those below 80 % of the
 * fastest (the best cores of a chip differ from its others by less). */
static int drop_slow(const char *root, cpu_set_t *set)
{
    char line[LINE_BYTES];
    double speed[IG_CPU_MOST], most = 0;
    const int before = CPU_COUNT(set);
    cpu_set_t slow;
    CPU_ZERO(&slow);
    if (line_of(line, "%s/sys/devices/cpu_atom/cpus", root)) slow = list_of(line);
    for (int i = 0; i < IG_CPU_MOST; i++) {
        speed[i] = CPU_ISSET((size_t)i, set) ? speed_of(root, i) : 0;
        most = speed[i] > most ? speed[i] : most;
    }
    for (int i = 0; i < IG_CPU_MOST; i++)
        if (speed[i] > 0 && speed[i] < 0.8 * most) CPU_SET((size_t)i, &slow);
    CPU_AND(&slow, &slow, set);
    if (CPU_COUNT(&slow) == before) return 0; /* there is nothing else */
    CPU_XOR(set, set, &slow);
    return before - CPU_COUNT(set);
}

/* Leave one CPU of each core. */
static int drop_siblings(const char *root, cpu_set_t *set)
{
    char line[LINE_BYTES];
    int dropped = 0;
    for (int i = 0; i < IG_CPU_MOST; i++) {
        if (!CPU_ISSET((size_t)i, set) ||
            !line_of(line, "%s/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", root,
                     i))
            continue;
        const cpu_set_t with = list_of(line);
        for (int j = i + 1; j < IG_CPU_MOST; j++) {
            if (!CPU_ISSET((size_t)j, &with) || !CPU_ISSET((size_t)j, set)) continue;
            CPU_CLR((size_t)j, set);
            dropped++;
        }
    }
    return dropped;
}

/* CPUs of `set` into c, node by node; those of no node come last. */
static void by_node(struct ig_cpus *c, const char *root, cpu_set_t set)
{
    enum { NODES_MOST = 64 };
    char line[LINE_BYTES];
    for (int node = 0; node <= NODES_MOST; node++) {
        cpu_set_t here = set;
        if (node < NODES_MOST) {
            if (!line_of(line, "%s/sys/devices/system/node/node%d/cpulist", root, node)) continue;
            const cpu_set_t list = list_of(line);
            CPU_AND(&here, &set, &list);
        }
        if (CPU_COUNT(&here) == 0) continue;
        for (int i = 0; i < IG_CPU_MOST; i++) {
            if (!CPU_ISSET((size_t)i, &here)) continue;
            c->cpu[c->n] = i;
            c->node[c->n++] = node % NODES_MOST;
            CPU_CLR((size_t)i, &set);
        }
        c->n_node++;
    }
}

void ig_cpus_find(struct ig_cpus *c, const char *root, const cpu_set_t *mask)
{
    memset(c, 0, sizeof *c);
    if (mask)
        c->mask = *mask;
    else if (sched_getaffinity(0, sizeof c->mask, &c->mask) != 0)
        CPU_SET(0, &c->mask); /* more CPUs than a set holds */
    cpu_set_t set = c->mask;
    struct limits l = { 0, &set };
    cgroup_limits(&l, root);
    if (CPU_COUNT(&set) == 0) set = c->mask;
    c->allowed = CPU_COUNT(&set);
    c->quota = l.quota;
    c->efficient = drop_slow(root, &set);
    c->siblings = drop_siblings(root, &set);
    by_node(c, root, set);
    /* A thread over the quota stops all of them for the rest of each period. */
    if (c->quota > 0 && c->n > (int)c->quota) c->n = c->quota < 1 ? 1 : (int)c->quota;
}

const char *ig_cpus_text(const struct ig_cpus *c, char *buf, size_t cap)
{
    char quota[48] = "";
    if (c->quota > 0) snprintf(quota, sizeof quota, ", a quota of %.2f CPUs", c->quota);
    snprintf(buf, cap,
             "%d core%s to use: %d CPUs allowed, %d left out as second threads of cores, %d as "
             "efficiency cores%s; %d memory node%s",
             c->n, c->n == 1 ? "" : "s", c->allowed, c->siblings, c->efficient, quota, c->n_node,
             c->n_node == 1 ? "" : "s");
    return buf;
}

/* Not being allowed to only costs speed. */
void ig_cpus_pin(const struct ig_cpus *c, int i)
{
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET((size_t)c->cpu[i], &one);
    (void)sched_setaffinity(0, sizeof one, &one);
}

void ig_cpus_unpin(const struct ig_cpus *c)
{
    (void)sched_setaffinity(0, sizeof c->mask, &c->mask);
}
