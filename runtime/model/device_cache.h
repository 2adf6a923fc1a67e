/* device_cache.h -- the cache of experts in VRAM, as the files of a step on a device use it. */
#ifndef IG_DEVICE_CACHE_H
#define IG_DEVICE_CACHE_H

#include "state.h"
#include "pick.h"
#include "cuda/args.h"

#if IG_XC

/* The sets and ways of a run that may take o->vram bytes of the device's memory; 0: the plan's. */
enum ig_err ig_cache_size(struct ig_engine *e, const struct ig_open *o, struct ig_why *why);
/* An empty cache, and memory through which the device and the CPU speak. */
enum ig_err ig_cache_open(struct ig_engine *e, struct ig_why *why);
void ig_cache_close(struct ig_engine *e);
/* The experts are in the arena: let the device read them there, see how fast, and fill what is the
 * same in all layers. */
void ig_cache_reach(struct ig_engine *e, const struct ig_open *o, struct ig_dcache *c);
/* Bytes of the slots in use. */
uint64_t ig_cache_bytes(const struct ig_engine *e);
/* How long an expert takes over the link and by the CPU, each alone and both at once, into e->miss
 * (device_rate.c). */
void ig_rate_measure(struct ig_engine *e);
/* A batch begins: how far pinning has come; the line about it goes before text does (quiet). */
void ig_cache_pinned(struct ig_engine *e, int quiet);
/* An expert into a way of its layer, beside the work; then the fill's number, which the tables
 * have. ahead 1: a prefetch. */
void ig_cache_fill(struct ig_engine *e, int layer, int expert, int way, int ahead);
/* What was recorded of predictions takes the routers' place. */
void ig_cache_recorded(const struct ig_engine *e);
/* The layer whose experts are guessed in `layer`, to be prefetched, to come into the CPU's caches;
 * -1: none. */
int ig_cache_ahead(const struct ig_engine *e, int layer);
int ig_cache_next(const struct ig_engine *e, int layer);
/* What differs by layer. */
void ig_cache_layer(const struct ig_engine *e, struct ig_dcache *c, int layer);

/* Layers [first, end) pass through the slots' memory, half of it each in turn, but for those of a
 * decoder that the CPU computes (ig_prefill_by_cpu).  The cache is empty afterwards, if any did. */
int ig_stream_fits(const struct ig_engine *e); /* two layers do */
void ig_stream_begin(struct ig_engine *e, int first, int end);
/* Where the layer's experts are, one after the other, for kernels launched from now on. */
const unsigned char *ig_stream_layer(struct ig_engine *e, int layer);
/* The layer's kernels are launched: another one may come. */
void ig_stream_next(struct ig_engine *e, int layer);
void ig_stream_end(struct ig_engine *e);

/* With a table of uses: the most used experts come into the slots at start.  Policy static: other
 * things have passed through them; so they come back before a row goes by itself. */
#ifdef IG_POLICY_HOT
void ig_hot_fill(struct ig_engine *e);
void ig_hot_gone(void);
void ig_hot_back(struct ig_engine *e);
#else
static inline void ig_hot_fill(struct ig_engine *e) { (void)e; }
static inline void ig_hot_gone(void) {}
static inline void ig_hot_back(struct ig_engine *e) { (void)e; }
#endif

/* What a batch's layers cost on either side: by ig_prefill_open, after ig_rate_measure and
 * ig_miss_plan. */
extern struct ig_prefill {
    struct ig_pick cost;
    double step_s;              /* of a row by itself; the last ones' mean */
    uint8_t by_cpu[IG_N_LAYER]; /* of layers with experts, in order */
    int rows, cpu_rows;         /* batches up to so many go row by row; have layers on the CPU */
    double refill_s;            /* to have a full cache again when layers went through it */
} ig_prefill;
void ig_prefill_open(struct ig_engine *e);
/* e->batch: 0, it goes row by row; 1, as a batch, of which the CPU takes the layers with experts
 * that ig_prefill_by_cpu names: ig_prefill_layer is their feed-forward block. */
int ig_prefill_batch(struct ig_engine *e);
int ig_prefill_by_cpu(int layer);
void ig_prefill_layer(struct ig_engine *e, int layer);
/* A row went by itself and took so long; layers passed through the slots; these were filled again.
 */
void ig_prefill_row(struct ig_engine *e, double took);
void ig_prefill_streamed(void);
void ig_prefill_filled(const struct ig_engine *e);
const char *ig_prefill_says(const struct ig_engine *e);

#endif
#endif
