/* device_step.h -- the forward pass on a device that holds the model, or a cache of its experts. */
#ifndef IG_DEVICE_STEP_H
#define IG_DEVICE_STEP_H

#include "state.h"

/* Take the device, its kernels and the planned memory; the caller then puts weights and
 * rotations there.  IG_NO_DEVICE: this machine has none that the build can use. */
enum ig_err ig_step_open(struct ig_engine *e, const struct ig_open *o, struct ig_why *why);
void ig_step_close(struct ig_engine *e);
#if IG_XC
/* The experts are in the arena: let the device read them there, and see how fast it does. */
void ig_step_reach(struct ig_engine *e, const struct ig_open *o);
/* Of a layer, or with -1 of all: steps, hits, misses, those that took the link, bytes over it. */
struct ig_expert_stats ig_step_stats(struct ig_engine *e, int layer);
void ig_step_stats_reset(struct ig_engine *e);
#endif
/* What `fill` writes, by way of pinned memory, into the device's memory at `off`. */
enum ig_err ig_step_put(struct ig_engine *e, uint64_t off, uint64_t bytes,
                        void (*fill)(struct ig_engine *e, float *to), struct ig_why *why);
#if IG_N_LAYER_ENC
void ig_step_bias(struct ig_engine *e, float *to); /* ig_fill_bias from the weights there */
/* ig_encode. */
void ig_step_encode(struct ig_engine *e, const int32_t *ids, int n, int batch);
#endif
/* Make a decode step one graph. */
void ig_step_record(struct ig_engine *e);
/* Run e->batch, whose e->n_want rows e->want_row want logits. */
void ig_step_forward(struct ig_engine *e);
const float *ig_step_logits(void); /* [n_want][IG_LOGIT_STRIDE] */
struct ig_candidate *ig_step_sample(void);

#endif
