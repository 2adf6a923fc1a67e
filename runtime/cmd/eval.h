/* eval.h -- logits of every position of given ids, and what lies behind them. */
#ifndef IG_EVAL_H
#define IG_EVAL_H

#include "args.h"
#include "engine.h"

/* Run ids[0, n) from position 0 in batches of `batch` rows and show each position's
 * logits to `take`, which is called in ascending order of positions.  A batch with more rows than
 * may want logits is run again for the others, so that `batch` means what it says. 0 when a signal
 * stopped it. */
struct ig_eval_to {
    void *ctx;
    void (*take)(void *ctx, int pos, const float *logits);
};
int ig_eval_rows(struct ig_engine *e, const int32_t *ids, int n, int batch,
                 const struct ig_eval_to *to);

/* eval --tokens: run given ids, continue greedily, write what was seen. */
enum ig_err ig_eval_tokens(struct ig_engine *e, const struct ig_opts *o, int batch,
                           struct ig_why *why);

#endif
