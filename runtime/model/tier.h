/* tier.h -- the experts of a layer, wherever they are: slots, demand, waves, prefetch.
 *
 * With IG_TIER_RAM and IG_TIER_MMAP an expert is at a known place and all of this is nothing.
 * With IG_TIER_DISK thread 0 looks a layer's chosen experts up (xcache), asks the mover for the
 * missing ones and orders them, resident first; the other threads wait for each expert's move as
 * they come to it.  A slot is pinned from its choice to the end of its wave.
 *
 * Waves: a batch may choose more experts of a layer than its set has ways.  They are then worked
 * through in waves, e->active[wave_lo .. wave_hi): while one is computed, the next is being copied
 * into the ways that are left.
 */
#ifndef IG_TIER_H
#define IG_TIER_H

#include "base.h"
#include "config.h"

#if IG_MEM_SLOTS_BYTES

#include "copy_file.h"
#include "mover.h"
#include "predict.h"
#include "stride.h"
#include "tables.h"
#include "trial.h"
#include "xcache.h"

struct ig_engine;

/* Of the experts that batches chose, each once a batch.  Prefetch and eviction: struct ig_xcount.
 */
struct ig_tier_count {
    uint64_t hit, late, miss;
    uint64_t bytes;            /* of copies that were demanded or, fetched early, have come */
    _Atomic uint64_t stall_ns; /* all threads together */
};

enum { IG_TIER_PREFILL, IG_TIER_DECODE, IG_TIER_PHASES };

enum { IG_AHEAD_OFF, IG_AHEAD_ON }; /* the ways of its trial */
enum { IG_AHEAD_TARGETS = IG_PREDICT_DIST, IG_AHEAD_MOST = 64 };

/* Prediction and prefetch (tier_ahead.c); thread 0 writes. */
struct ig_ahead {
    const struct ig_predictor *predictor; /* the plan's */
    void *state;                          /* the predictor's */
    float least;                          /* chance below which nothing is fetched */
    struct ig_stride stride[IG_N_LAYER];
    struct ig_stride_log past; /* strides over time, in past_at */
    uint8_t past_at[IG_STRIDE_PAST][IG_N_LAYER];
    uint8_t issued[IG_N_LAYER];             /* asked for in this step */
    int n_target, target[IG_AHEAD_TARGETS]; /* layers to predict now */
    int decode;                             /* the step is one */
    uint32_t step;
    double began, layer_began; /* seconds: of the step, of the layer */
    struct ig_trial trial;     /* of steps without and with prefetch */
    uint64_t steps_on;
    uint64_t asked, renewed; /* questions; those that followed a farther one of the same step */
    uint64_t taken_back;     /* copies that a nearer question no longer named */
};

struct ig_tier {
    struct ig_xcache cache;
    struct ig_ahead ahead;
    struct ig_mover mover;
    struct ig_copy copy;
    struct ig_copy_file_how how;
    uint64_t base;               /* of the data in the file */
    double direct_bw, cached_bw; /* bytes/s as tried at start, 0: not tried */
    struct ig_move *move;        /* [IG_N_XSLOT + IG_N_SPARE] */
    uint32_t block[IG_N_LAYER];  /* of the weights file: expert 0's first */
    uint32_t per_expert[IG_N_LAYER];

    /* The layer at hand; thread 0 writes, the others read after a barrier. */
    int layer, phase;
    int wave_lo, wave_hi;          /* of e->active */
    int n;                         /* experts in e->active */
    int n_there;                   /* e->active[0, n_there) need no copy */
    int claimed;                   /* e->active[0, claimed) have slots and are pinned */
    uint8_t spare[IG_N_SPARE + 1]; /* in use */
    int poison;                    /* slots are NaN until they are filled (tests) */
    int32_t slot[IG_N_EXPERT];     /* of e->active[a], -1: none yet */

    /* Prefetches under way, thread 0's. */
    int n_early;
    int32_t early[IG_N_XSLOT];
    uint8_t dropped[IG_N_XSLOT]; /* its cancel was asked for */

    /* Slots no longer read, of whose last reads the disk has not told: pinned, thread 0's. */
    int n_landing;
    int32_t landing[IG_N_XSLOT];

    struct ig_tier_count count[IG_TIER_PHASES][IG_N_LAYER];
    uint64_t steps[IG_TIER_PHASES];
    struct ig_mover_count before; /* what the mover had counted at the last reset */
};

#else

struct ig_tier {
    const unsigned char *map; /* IG_TIER_MMAP: the file's data */
};

#endif

/* Start-up, once the arena is there (tier_open.c, or without slots tier_map.c). */
struct ig_engine;
struct ig_open;
enum ig_err ig_tier_open(struct ig_engine *e, const struct ig_open *o, struct ig_why *why);
void ig_tier_close(struct ig_engine *e);

/* What the code that computes experts calls; state.h has ig_tier_need. */
#if IG_MEM_SLOTS_BYTES
/* The move, not yet submitted, of an expert into a slot. */
struct ig_move *ig_tier_prepare(struct ig_engine *e, int layer, int expert, int slot);
#ifdef IG_POLICY_HOT
enum ig_err ig_tier_warm(struct ig_engine *e, struct ig_why *why); /* the hot table's experts */
#else
static inline enum ig_err ig_tier_warm(struct ig_engine *e, struct ig_why *why)
{
    (void)e, (void)why;
    return IG_OK;
}
#endif
enum ig_err ig_ahead_open(struct ig_engine *e, struct ig_why *why);
double ig_ahead_gain(const struct ig_ahead *h); /* time of a step without over with; 0: not known */
void ig_ahead_batch(struct ig_engine *e);       /* a batch begins */
void ig_ahead_use(struct ig_engine *e, int layer, int row);
void ig_ahead_feedback(struct ig_tier *t, int layer, int slot); /* before the use is counted */
void ig_ahead_routed(struct ig_tier *t, int layer);             /* its choices are known */
void ig_tier_landed(struct ig_tier *t);                         /* what has, may be filled anew */
void ig_tier_batch(struct ig_engine *e);                        /* a batch begins */
void ig_tier_layer(struct ig_engine *e, int layer); /* thread 0: rows are grouped by expert */
void ig_tier_next(struct ig_engine *e);             /* thread 0: the wave is done, on to the next */
/* Until e->active[a] is there; with one row perhaps not all checked, while other threads check the
 * rest of it. */
void ig_tier_wait(struct ig_engine *e, int a);
void ig_tier_sure(struct ig_engine *e); /* until all experts are checked: before a result is used */
#else
static inline void ig_tier_batch(struct ig_engine *e) { (void)e; }
#endif

#endif
