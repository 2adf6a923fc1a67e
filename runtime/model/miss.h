/* miss.h -- experts that the device's cache does not hold: which of them the CPU computes.
 *
 * The device asks through memory that both see: a layer's experts and the activations they read.
 * It goes on with its own and waits for the answer only where it adds them up.
 */
#ifndef IG_MISS_H
#define IG_MISS_H

#include "config.h"
#include "kernels.h"
#include "split.h"
#include "team.h"
#include "trial.h"

struct ig_engine;
struct ig_worker;

#if IG_XC

/* A word that one side writes and the other waits for, alone in its cache line. */
struct ig_flag {
    _Alignas(64) uint32_t step;
};

/* Words of `split` behind its k + 1 numbers: how many pages of 4 KiB of the experts the link can
 * reach; how many fills may be under way for one behind the work to begin, and for a prefetch; how
 * many experts that will be missing a layer names ahead; 1: the next to arrive is waited for; 1:
 * layers ask even when nothing is missing; what a use counts in the next step, of IG_FADE_ONE
 * (kernels/cuda/args.h). */
enum {
    IG_ASK_PAGES = IG_N_EXPERT_USED + 1,
    IG_ASK_BEHIND,
    IG_ASK_AHEAD,
    IG_ASK_WARM,
    IG_ASK_WAIT,
    IG_ASK_EACH,
    IG_ASK_FADE,
    IG_ASK_WORDS
};
/* Fills count apart by kind (kernels/cuda/args.h); most under way (the link's queue: each holds a
 * way that is of no use until it is there), alone, over a slow link and beside prefetches; more
 * than that. */
enum {
    IG_FILLS_MOST = 8,
    IG_FILLS_SLOW = 2,
    IG_FILLS_BESIDE = 1,
    IG_FILLS_AHEAD = 1,
    IG_WARM_MOST = 3,
    IG_FILLS = 64
};
/* Of one layer: prefetches. */
enum { IG_GUESS_MOST = 2 };
/* A row as int8 blocks. */
enum { IG_XQ_WORDS = IG_N_EMBD / IG_QBLOCK * (int)sizeof(struct ig_xq) / 4 };

/* A word that the device tells, and in its upper half the step that it is of: words are seen in no
 * certain order.  A list of them begins a cache line. */
typedef uint64_t ig_told;
#define IG_TOLD_LINE(n) (((n) + 7) / 8 * 8)

/* Mapped host memory.  Arrays by layer, since the device may be layers ahead when nothing was
 * asked. */
struct ig_ask {
    struct ig_flag posted; /* step x layers + the last layer that asked + 1 */
    struct ig_flag done[IG_N_LAYER];
    /* n, ranks[k], experts[k], ways[k] that they shall be copied into afterwards (-1: none), number
     * of the last prefetch that a layer before it asked for */
    _Alignas(64) ig_told asked[IG_N_LAYER][IG_TOLD_LINE(2 + 3 * IG_N_EXPERT_USED)];
    /* What a layer wants prefetched of the layer ahead: n, experts, ways, number of the first fill;
     * what the next one will lack: n, experts. */
    ig_told guess[IG_N_LAYER][IG_TOLD_LINE(2 + 2 * IG_GUESS_MOST)];
    ig_told warm[IG_N_LAYER][IG_TOLD_LINE(1 + IG_N_EXPERT_USED)];
    ig_told xq[IG_N_LAYER][IG_TOLD_LINE(IG_XQ_WORDS)], xn[IG_N_LAYER][IG_TOLD_LINE(IG_N_EMBD)];
    int32_t recorded[2][IG_N_LAYER][IG_N_EXPERT_USED]; /* predictions for both; -1: none */
    /* Of m misses that the link can reach, how many take it; [0]: 1, as many as there are empty
     * ways; then IG_ASK_... */
    int32_t split[IG_ASK_WORDS];
    uint32_t fill[2][IG_FILLS]; /* numbers of fills, each at its number modulo IG_FILLS */
    _Alignas(64) float answer[IG_N_EXPERT_USED * IG_N_EMBD];
};

struct ig_miss {
    struct ig_ask *ask;
    /* Who computes: all threads, or all but the last, which starts the copies: with so many that
     * memory is the limit, a copy that begins at once is worth more. */
    struct ig_team team;
    int copier;       /* 1: there is such a thread */
    int sets, ways;   /* in use: the plan's, or fewer with --vram */
    uint64_t link_bw; /* bytes a second that the link carries at most; 0: as it is */
    int cpu;          /* 1: the CPU takes part */
    int share;        /* per cent of misses that take the link; -1: as measured */
    int behind; /* 1: what the CPU computed is copied into a slot behind the work; -1: as it pays */
    int ahead;  /* prefetch for the layer with experts so many further on; 0: none */
    int looked; /* layers whose prefetches have been started in this step */
    uint32_t fills[2]; /* so far, by kind */
    uint32_t step;
    uint64_t reach;              /* bytes of the experts that the device can read; grows at first */
    uint64_t reach_want;         /* and shall read in the end */
    struct ig_side link, by_cpu; /* an expert over the link, by the CPU: as measured */
    int slow;                    /* 1: the link brings few experts a step (ig_miss_slow) */
    /* Ways on trial; 0: what is kept unless another is clearly faster (miss_plan.c). */
    struct ig_miss_way {
        const char *name;
        int32_t split[IG_N_EXPERT_USED + 1];
        int behind, ahead, warm; /* IG_ASK_... */
    } way[IG_TRIAL_WAYS];
    struct ig_trial trial; /* of these, by the time of steps */
    double began;          /* of the step under way */
};

/* By link and by_cpu: m->slow, over which nothing is prefetched and no thread waits for copies. */
int ig_miss_slow(const struct ig_miss *m);
/* What a use counts in the next step. */
float ig_miss_fade(const struct ig_miss *m);
/* The tables of `split`, from link, by_cpu and share. */
void ig_miss_plan(struct ig_miss *m);
/* Per cent of a step's misses that take the link, -1: as measured.  Policy static keeps what is in
 * its slots, so that nothing could come into them. */
int ig_miss_share(const struct ig_miss *m);
/* A step begins (while memory is pinned the driver starts no copy; each 1: all layers ask, even
 * with nothing missing, for a step that is looked into), and has ended; judged 0: nothing can be
 * said by its time. */
void ig_miss_begin(struct ig_miss *m, int pinning, int each);
void ig_miss_end(struct ig_miss *m, int judged);
/* Prefetches that are still to be started: the step's kernels have ended. */
void ig_miss_look(struct ig_engine *e);
/* Whether experts are fetched early, and why. */
const char *ig_miss_ahead_says(const struct ig_miss *m);
/* What was measured, how misses are split, and what the trials said. */
const char *ig_miss_says(const struct ig_miss *m);
/* Of all experts that layers with a router have, the i-th that is rehearsed with: far from the one
 * before, so that no cache has it; below `most`.  -> its layer */
int ig_miss_pick(uint32_t i, uint32_t most, int32_t *expert);
/* Compute n questions of `of` experts, of picks `from` and on; seconds of a question. */
double ig_miss_rehearse(struct ig_engine *e, uint32_t from, int n, int of);
/* Who computes: with or without a thread for the copies, as m says. */
void ig_miss_team(struct ig_engine *e);
/* All threads: wait for a layer's question and answer it, or start what it asks to be copied. */
void ig_miss_answer(struct ig_worker *w, int layer);

#endif
#endif
