/* miss.h -- experts that the device's cache does not hold: which of them the CPU computes.
 *
 * The device asks through memory that both see: a layer's experts and the activations they read.
 * It goes on with its own and waits for the answer only where it adds them up.
 */
#ifndef IG_MISS_H
#define IG_MISS_H

#include "config.h"
#include "kernels.h"

struct ig_engine;
struct ig_worker;

#if IG_XC

/* A word that one side writes and the other waits for, alone in its cache line. */
struct ig_flag {
    _Alignas(64) uint32_t step;
};

/* Mapped host memory.  Arrays by layer, since the device may be a layer ahead when nothing was
 * asked. */
struct ig_ask {
    struct ig_flag posted[IG_N_LAYER], done[IG_N_LAYER];
    int32_t asked[IG_N_LAYER][1 + 2 * IG_N_EXPERT_USED]; /* n, ranks[k], experts[k] */
    int32_t split[IG_N_EXPERT_USED + 1]; /* of m misses that the link can reach, how many take it;
                                            [0]: 1, as many as there are empty ways */
    struct ig_xq xq[IG_N_LAYER][IG_N_EMBD / IG_QBLOCK + 1];
    float xn[IG_N_LAYER][IG_N_EMBD];
    float answer[IG_N_EXPERT_USED * IG_N_EMBD];
};

struct ig_miss {
    struct ig_ask *ask;
    int sets, ways;   /* in use: the plan's, or fewer with --vram */
    uint64_t link_bw; /* bytes a second that the link carries at most; 0: as it is */
    int cpu;          /* 1: the CPU takes part */
    int share;        /* per cent of misses that take the link; -1: as measured */
    uint32_t step;
    uint64_t reach;   /* bytes of the experts that the device can read */
    double link_s[2]; /* seconds of an expert over the link: alone, and while the CPU computes */
    double cpu_s[2];  /* of an expert by the CPU: alone, and while the link is busy */
};

/* How many of m misses take the link, from what was measured or as `share` says. */
void ig_miss_split(struct ig_miss *m);
/* Compute n experts of layer `layer`, [0, n), one after the other as if they were asked for;
 * seconds of one. */
double ig_miss_rehearse(struct ig_engine *e, int layer, int n);
/* All threads: wait for a layer's question and answer it. */
void ig_miss_answer(struct ig_worker *w, int layer);

#endif
#endif
