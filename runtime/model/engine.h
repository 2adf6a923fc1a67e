/* engine.h -- one model in memory and the forward pass over it.
 *
 * The engine is one static struct; its memory is one arena whose map the plan
 * fixed (out/<id>/config.h).  After ig_engine_open nothing allocates.
 */
#ifndef IG_ENGINE_H
#define IG_ENGINE_H

#include "base.h"
#include "wfile.h"

struct ig_engine;

struct ig_open {
    const char *weights; /* path, or NULL for the embedded file */
    int threads;         /* 0: as many as the plan and the machine allow */
    int n_ctx;           /* 0: the plan's */
    int verify;          /* check every block's checksum while loading */
    int settle;     /* all that start-up may leave to the background is done before open returns */
    int unpinned;   /* per cent of the experts that a device shall not read in RAM */
    int link_share; /* 1 + per cent of its cache's misses that take the link; 0: as measured */
    int behind; /* 2: experts that the CPU computed are copied to the device afterwards; 1: not; 0:
                 * as it pays */
    int ahead;  /* 1 + layers with experts that a device's cache looks ahead; 0: as it pays */
    uint64_t vram;    /* most bytes of a device's memory to take; 0: the plan's */
    uint64_t link_bw; /* bytes a second that the link carries at most (a simulation); 0: as it is */
    const char *root; /* stands before /sys and /proc when cores are found (tests); NULL: "" */
    int poison;       /* fill scratch with NaN first (tests) */
    void (*progress)(const char *what, uint64_t done, uint64_t total); /* NULL: quiet */
};

enum ig_err ig_engine_open(struct ig_engine **e, const struct ig_open *o, struct ig_why *why);
void ig_engine_close(struct ig_engine *e);

/* Rows of work: token `token[i]` of sequence `seq[i]` at position `pos[i]`.
 * Rows of one sequence stand in ascending positions and continue what its KV
 * cache holds.  n <= IG_N_ROW; at most IG_N_LOGIT_ROW rows want logits. */
struct ig_batch {
    int n;
    const int32_t *token, *pos, *seq;
    const uint8_t *want; /* [n] 1: compute this row's logits */
};

/* No sequence will pass n positions (0: the context) before the KV cache starts anew.  Models with
 * two sets of rotary frequencies choose by this, once a sequence, so that cached and new keys
 * agree. */
void ig_set_length(struct ig_engine *e, int n);

/* Models with an encoder, once before their decoder's first batch: run it over an input of n <=
 * context ids, `batch` rows at a time.  The decoder sees the last input. */
void ig_encode(struct ig_engine *e, const int32_t *ids, int n, int batch);

/* Run the batch; logits of the wanting rows, in order, at ig_logits(). */
void ig_forward(struct ig_engine *e, const struct ig_batch *b);
const float *ig_logits(const struct ig_engine *e, int i); /* [IG_N_VOCAB] */
/* ig_sample's work area, [IG_N_VOCAB]. */
struct ig_candidate *ig_sample_work(struct ig_engine *e);

/* Called on the forward pass's values as they are made (eval --dump, trace).  Layers below 0 are
 * the encoder's output after its final norm, its embeddings, the (decoder's) embeddings. */
enum { IG_TAP_ENC_NORM = -3, IG_TAP_ENC_EMBED, IG_TAP_EMBED };
struct ig_tap {
    void *ctx;
    /* layer IG_N_LAYER: after the final norm (wanting rows only) */
    void (*hidden)(void *ctx, int layer, int pos, const float *x);
    void (*routed)(void *ctx, int layer, int pos, const int32_t *expert, const float *weight);
    /* Before a layer's router: the residual stream, and its norm that the router reads. */
    void (*router_in)(void *ctx, int layer, int pos, const float *x, const float *norm);
};
void ig_set_tap(struct ig_engine *e, const struct ig_tap *tap); /* NULL: none */

/* Choices that take the place of the routers' until set again (bench --route): expert and weight
 * [row][IG_N_LAYER][IG_N_EXPERT_USED]; NULL: the routers'.  predicted: what a predictor says of a
 * row, [distance 0..8][IG_N_LAYER][IG_N_EXPERT_USED], -1 none; NULL: the plan's predictor. */
void ig_set_choices(struct ig_engine *e, const int32_t *expert, const float *weight,
                    const int32_t *predicted);

/* From a tap: what a layer's norm and router make of a residual stream.  logit: experts rounded up
 * to 16; scratch: IG_PEEK_BYTES. */
#define IG_PEEK_BYTES ((size_t)(IG_N_EMBD + 15) / 16 * 64 + (IG_N_EMBD + 31) / 32 * 40)
void ig_peek_router(struct ig_engine *e, int layer, const float *x, void *scratch, float *logit);

/* The device that the forward pass runs on, in words; NULL: the CPU. */
const char *ig_device(const struct ig_engine *e);
/* Its link, measured now, and what of RAM it can read, in words; "none" on the CPU. */
const char *ig_device_link_says(struct ig_engine *e);
const char *ig_device_pinned_says(const struct ig_engine *e);
/* Who takes experts that a device's cache misses, and why; "none" without one. */
const char *ig_misses_say(const struct ig_engine *e);
/* Where a batch's experts are computed then. */
const char *ig_batches_say(const struct ig_engine *e);
/* Calls of the device so far (device.h); 0: there is none. */
struct ig_device_calls;
int ig_calls(const struct ig_engine *e, struct ig_device_calls *c);
/* Bytes a second at which the plan expects weights to be read there. */
uint64_t ig_read_bw(const struct ig_engine *e);
/* Memory taken there so far (the whole process's), and what the plan says. */
void ig_peak(const struct ig_engine *e, uint64_t *used, uint64_t *planned);
int ig_threads(const struct ig_engine *e);
const char *ig_cpus_used(char *buf, size_t cap); /* the cores found, in words; returns `buf` */
int ig_n_ctx(const struct ig_engine *e);
const struct ig_wfile *ig_weights(const struct ig_engine *e);
/* One line for each way in which this run is slower or less exact than planned. */
int ig_n_downgrade(const struct ig_engine *e);
const char *ig_downgrade(const struct ig_engine *e, int i);

/* Where experts were found, when they come from elsewhere; one layer's, or with layer -1 the sum.
 */
struct ig_expert_stats {
    int active;               /* 0: all experts are in memory, the rest is zero */
    uint64_t steps;           /* batches */
    uint64_t hit, late, miss; /* chosen experts, each once a batch */
    uint64_t fill, evict, early, early_used, early_lost; /* of both phases together */
    uint64_t bytes;                                      /* copied; with layer -1 of both phases */
    double stall_s;                                      /* a thread, on average */
    double copy_busy_s;                  /* with a copy under way; of both phases together */
    double stride;                       /* layers that prefetch looks ahead, mean */
    double ahead_gain;                   /* by its own measure: time of a step without over with */
    uint64_t steps_ahead;                /* steps with prefetch on */
    uint64_t asked, renewed, taken_back; /* questions to the predictor; asked again when nearer;
                                          * copies that were then cancelled */
    uint64_t by_cpu;                     /* misses that the CPU computed, beside a device */
    uint64_t behind, behind_used, behind_lost; /* of these, copied to it afterwards; then used;
                                                * given up unused */
    double link_bw, cpu_bw; /* bytes/s of misses as measured at start, both at once; 0: no device */
};
/* How the weights came into memory, in words. */
const char *ig_loaded(const struct ig_engine *e);
/* Where experts are and how they are read, in words. */
const char *ig_expert_where(const struct ig_engine *e);
/* Whether experts are fetched early, and why: "on, because ...", "off, because ...". */
const char *ig_prefetch_says(const struct ig_engine *e);
struct ig_expert_stats ig_expert_stats(struct ig_engine *e, int decode, int layer);
void ig_expert_stats_reset(struct ig_engine *e);
/* 0: a device still tries ways of serving misses, so that its decode steps are not what they will
 * be. */
int ig_settled(const struct ig_engine *e);
/* How far ahead each layer's experts were fetched, over time: samples of IG_N_LAYER strides, one
 * every so many decode steps; returns their number. */
uint32_t ig_expert_strides(const struct ig_engine *e, uint32_t *every, const uint8_t **at);

#endif
