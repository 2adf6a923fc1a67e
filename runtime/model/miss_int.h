/* miss_int.h -- what miss.c, which answers, and miss_hear.c, which hears the device, share. */
#ifndef IG_MISS_INT_H
#define IG_MISS_INT_H

#include "state.h"

#if IG_XC

/* An expert's hidden blocks, and gate's and up's panels of one. */
enum { IG_MISS_BLOCKS = IG_FF_PAD / IG_QBLOCK, IG_MISS_PARTS = 4 };

/* A layer's question: experts, their ranks, the ways that they are copied into afterwards (-1:
 * none).  What they read is in the thread's xnq or xn. */
struct ig_asked {
    const struct ig_layer *l;
    int layer, n;
    int32_t rank[IG_N_EXPERT_USED], expert[IG_N_EXPERT_USED], way[IG_N_EXPERT_USED];
};

/* All threads: wait for the layer's question, with the threads' caches and copies at work; 0:
 * nothing was missing. */
int ig_miss_hear(struct ig_worker *w, int layer, struct ig_asked *q);

#endif
#endif
