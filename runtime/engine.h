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
    const char *weights;  /* path, or NULL for the embedded file */
    int threads;          /* 0: as many as the plan and the machine allow */
    int n_ctx;            /* 0: the plan's */
    int verify;           /* check every block's checksum while loading */
    int poison;           /* fill scratch with NaN first (tests) */
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

/* Run the batch; logits of the wanting rows, in order, at ig_logits(). */
void ig_forward(struct ig_engine *e, const struct ig_batch *b);
const float *ig_logits(const struct ig_engine *e, int i); /* [IG_N_VOCAB] */

/* Called on the forward pass's values as they are made (eval --dump, trace). */
struct ig_tap {
    void *ctx;
    /* layer -1: embeddings; IG_N_LAYER: after the final norm (wanting rows only) */
    void (*hidden)(void *ctx, int layer, int row, const float *x);
    void (*routed)(void *ctx, int layer, int row, const int32_t *expert, const float *weight);
};
void ig_set_tap(struct ig_engine *e, const struct ig_tap *tap); /* NULL: none */

/* The device that the forward pass runs on, in words; NULL: the CPU. */
const char *ig_device(const struct ig_engine *e);
/* Bytes a second at which the plan expects weights to be read there. */
uint64_t ig_read_bw(const struct ig_engine *e);
/* Memory taken there so far (the whole process's), and what the plan says. */
void ig_peak(const struct ig_engine *e, uint64_t *used, uint64_t *planned);
int ig_threads(const struct ig_engine *e);
int ig_n_ctx(const struct ig_engine *e);
const struct ig_wfile *ig_weights(const struct ig_engine *e);
/* One line for each way in which this run is slower or less exact than planned. */
int ig_n_downgrade(const struct ig_engine *e);
const char *ig_downgrade(const struct ig_engine *e, int i);

#endif
