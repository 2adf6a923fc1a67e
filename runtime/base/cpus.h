/* cpus.h -- which CPUs the threads of a team run on.
 *
 * One thread a physical core; cores made for efficiency are left out, since a phase waits for its
 * slowest thread; limits of cgroups (quota, cpuset; versions 1 and 2) and the affinity mask count.
 */
#ifndef IG_CPUS_H
#define IG_CPUS_H

#include <sched.h>

enum { IG_CPU_MOST = 1024 };

struct ig_cpus {
    int n;                   /* cores to use, at least 1 */
    int cpu[IG_CPU_MOST];    /* one CPU of each; CPUs of one node side by side */
    int node[IG_CPU_MOST];   /* of cpu[i] */
    int allowed;             /* CPUs that the mask and cpusets leave */
    int siblings, efficient; /* of these, left out as a core's second thread; as slow cores */
    int n_node;              /* memory nodes among cpu[] */
    double quota;            /* CPUs that the cgroups' quotas allow; 0: no limit */
    cpu_set_t mask;          /* as the process came */
};

/* `root` stands before /sys and /proc, "" for the machine itself; `mask` NULL: the process's own.
 */
void ig_cpus_find(struct ig_cpus *c, const char *root, const cpu_set_t *mask);
/* What was found and decided, one line. */
const char *ig_cpus_text(const struct ig_cpus *c, char *buf, size_t cap);
/* Hold the calling thread on cpu[i]; give it all of the mask again. */
void ig_cpus_pin(const struct ig_cpus *c, int i);
void ig_cpus_unpin(const struct ig_cpus *c);

#endif
