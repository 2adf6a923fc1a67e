/* machine.h -- what the running machine has and does: instruction sets, time, memory. */
#ifndef IG_MACHINE_H
#define IG_MACHINE_H

#include "base.h"

/* IG_NO_ISA, naming each missing instruction set, unless `have` covers `need`
 * (both ig_cpu_features masks). */
enum ig_err ig_machine_check(unsigned need, unsigned have, struct ig_why *why);
/* The instruction sets of a mask as text, "none" for 0; returns `buf`. */
const char *ig_machine_isa(unsigned mask, char *buf, size_t cap);

/* In a loop that waits: lets the core's other thread run, and costs little power. */
static inline void ig_pause(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

double ig_seconds(void);          /* monotonic */
int ig_machine_cpus(void);        /* CPUs that this process may use, at least 1 */
uint64_t ig_machine_peak(void);   /* most bytes this process ever had in memory */
uint64_t ig_machine_memory(void); /* bytes of RAM in the machine, 0 when unknown */

/* Bytes a second of direct reads of 4 MiB at random places of [from, from + bytes) of a file, four
 * at a time; 0 when the file system has none or the range is smaller than a read. */
double ig_machine_read(int fd, uint64_t from, uint64_t bytes);

/* Memory whose only use is to be read, to see how fast the machine can. */
struct ig_membench {
    uint64_t *words;
    size_t bytes;
};
enum ig_err ig_membench_open(struct ig_membench *b, int threads, struct ig_why *why);
/* Read all of it once with `threads` threads; bytes a second. */
double ig_membench_read(const struct ig_membench *b, int threads);
void ig_membench_close(struct ig_membench *b);

#endif
