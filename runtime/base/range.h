/* range.h -- named stretches of the host's work, for a profiler's time line (NVTX).
 *
 * In a debug build (make RANGES=1); elsewhere they are nothing.  A thread's ranges nest.
 */
#ifndef IG_RANGE_H
#define IG_RANGE_H

#ifdef IG_RANGES
/* `number` goes with the name: a layer, rows. */
void ig_range_begin(const char *name, int number);
void ig_range_end(void);
#else
static inline void ig_range_begin(const char *name, int number) { (void)name, (void)number; }
static inline void ig_range_end(void) {}
#endif

#endif
