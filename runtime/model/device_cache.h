/* device_cache.h -- the cache of experts in VRAM, as device_step.c uses it. */
#ifndef IG_DEVICE_CACHE_H
#define IG_DEVICE_CACHE_H

#include "state.h"
#include "cuda/args.h"

#if IG_XC

/* The sets and ways of a run that may take o->vram bytes of the device's memory; 0: the plan's. */
enum ig_err ig_cache_size(struct ig_engine *e, const struct ig_open *o, struct ig_why *why);
/* An empty cache, and memory through which the device and the CPU speak. */
enum ig_err ig_cache_open(struct ig_engine *e, struct ig_why *why);
void ig_cache_close(struct ig_engine *e);
/* The experts are in the arena: let the device read them there, see how fast, and fill what is the
 * same in all layers. */
void ig_cache_reach(struct ig_engine *e, const struct ig_open *o, struct ig_xcache *c);
/* Bytes of the slots in use. */
uint64_t ig_cache_bytes(const struct ig_engine *e);
/* How long an expert takes over the link and by the CPU, each alone and both at once, into e->miss
 * (device_rate.c). */
void ig_rate_measure(struct ig_engine *e);
/* What differs by layer. */
void ig_cache_layer(const struct ig_engine *e, struct ig_xcache *c, int layer);

/* A batch that uses most experts: whole layers pass through the slots' memory, half of it each in turn.
 * The cache is empty afterwards. */
int ig_stream_fits(const struct ig_engine *e); /* two layers do */
void ig_stream_begin(struct ig_engine *e);
/* Where the layer's experts are, one after the other, for kernels launched from now on. */
const unsigned char *ig_stream_layer(struct ig_engine *e, int layer);
/* The layer's kernels are launched: the one after the next may come. */
void ig_stream_next(struct ig_engine *e, int layer);
void ig_stream_end(struct ig_engine *e);

#endif
#endif
