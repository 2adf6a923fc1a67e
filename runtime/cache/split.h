/* split.h -- misses of a layer between a link and a processor that work at the same time.
 *
 * What an expert costs is linear: so much before the first, so much for each, and another rate
 * while the other side works too (they share RAM).  Of m misses those go to the processor whose
 * layer then ends sooner than with the link alone; with no gain, none does.
 */
#ifndef IG_SPLIT_H
#define IG_SPLIT_H

#include <stdint.h>

/* Seconds, as measured: [0] while the other side stands still, [1] while it works. */
struct ig_side {
    double start;   /* of a layer's share, before its first expert */
    double each[2]; /* of an expert; 0: this side is not there */
};

/* A layer's `link` and `cpu` experts, both at once. */
double ig_split_seconds(const struct ig_side *link, const struct ig_side *cpu, int n_link,
                        int n_cpu);
/* split[m], m in [0, most]: how many of m misses take the link.  again 1: what the processor
 * computes is missing again next time, so it has to be clearly sooner. */
void ig_split(const struct ig_side *link, const struct ig_side *cpu, int most, int again,
              int32_t *split);

#endif
