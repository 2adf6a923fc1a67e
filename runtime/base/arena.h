/* arena.h -- the engine's only memory: one mapping, made at start-up; nothing is taken later, which
 * tests/gates.sh checks. */
#ifndef IG_ARENA_H
#define IG_ARENA_H

#include "base.h"

/* Map `bytes`, refusing when the machine (or its cgroup) has less left.  The address is `skew` past
 * a huge page's start: what is mapped into the arena from a file keeps the file's huge pages then.
 * The pages are huge where the kernel allows; *huge says whether it may. */
enum ig_err ig_arena_map(unsigned char **mem, uint64_t bytes, uint64_t skew, int *huge,
                         struct ig_why *why);
void ig_arena_unmap(unsigned char *mem, uint64_t bytes);

/* Bytes this process may still take: MemAvailable, and what its cgroups leave it. */
uint64_t ig_memory_left(void);
/* The least that the limits of a process's own cgroup and those above it leave; UINT64_MAX: no
 * limit.  `self` is its /proc/PID/cgroup, `mount` where cgroups of version 1 or 2 are. */
uint64_t ig_cgroup_left(const char *self, const char *mount);

#endif
