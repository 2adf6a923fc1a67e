/* forced.h -- recorded expert choices, fed to the engine token by token (bench --route). */
#ifndef IG_FORCED_H
#define IG_FORCED_H

#include "engine.h"
#include "trace.h"

struct ig_forced {
    struct trace t;
    uint32_t row;    /* the next one */
    int32_t *expert; /* of the row at hand, all layers */
    float *weight;
    int32_t *predicted; /* the trace's stored predictions, NULL: none */
};

/* The trace's experts and top-k must be the model's; layers repeat when the model has more. */
enum ig_err ig_forced_open(struct ig_forced *r, const char *path, struct ig_why *why);
void ig_forced_close(struct ig_forced *r);
/* The next row's token, so that policies and predictors see the text that routed so; ids beyond the
 * model's vocabulary wrap.  `other` where the trace has no tokens. */
int32_t ig_forced_token(const struct ig_forced *r, int32_t other);
/* The next row's choices become the engine's; after the last row comes the first. */
void ig_forced_next(struct ig_forced *r, struct ig_engine *e);

#endif
