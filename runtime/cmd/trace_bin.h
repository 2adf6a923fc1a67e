/* trace_bin.h -- a trace with what predictors learn from: MOETRC02 with next-router's predictions,
 * and the routers' inputs in a file of their own (docs/FORMAT.md).
 */
#ifndef IG_TRACE_BIN_H
#define IG_TRACE_BIN_H

#include "config.h"
#include "engine.h"
#include "temp.h"

enum { IG_TRACE_DISTS = 4 };

struct ig_trace_bin {
    uint32_t rows, window;
    uint32_t n_dist, dist[IG_TRACE_DISTS];
    uint8_t *expert, *weight; /* [rows][IG_N_LAYER][IG_N_EXPERT_USED] */
    uint8_t *predicted;       /* [n_dist] of these */
    float *logit;             /* [experts, rounded up to 16] */
    void *scratch;            /* IG_PEEK_BYTES */
    struct ig_temp to;        /* the trace; fd -1: not open */
    struct ig_temp hidden;    /* fd -1: not wanted */
    unsigned char *cell;      /* one row of one layer of it */
    int bad;                  /* errno of a failed write */
};

/* rows of text in windows, into `path`; hidden: a path or NULL.  Both files are opened at once. */
enum ig_err ig_trace_bin_open(struct ig_trace_bin *b, uint32_t rows, uint32_t window,
                              const char *path, const char *hidden, struct ig_why *why);
/* As in struct ig_tap; row counts from the start of the text. */
void ig_trace_bin_router_in(struct ig_trace_bin *b, struct ig_engine *e, int layer, uint32_t row,
                            const float *x, const float *norm);
void ig_trace_bin_routed(struct ig_trace_bin *b, int layer, uint32_t row, const int32_t *expert,
                         const float *weight);
/* All rows are known: both files get their names. */
enum ig_err ig_trace_bin_write(struct ig_trace_bin *b, const int32_t *ids, struct ig_why *why);
void ig_trace_bin_close(struct ig_trace_bin *b);

#endif
