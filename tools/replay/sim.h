/* sim.h -- one run of a cache over a trace, and the clock that runs with it.
 *
 * A layer of a token takes layer_us (attention, router), then reads its experts from the fast tier
 * at bw_mem, one after the other, each as soon as it is there.  A missed expert first crosses the
 * link at bw_link.  The link serves demand before prefetch and stops a prefetch for it (the mover
 * works in chunks).  Stall is the time that the experts' layer took beyond its reads.
 */
#ifndef IG_REPLAY_SIM_H
#define IG_REPLAY_SIM_H

#include "policy.h"
#include "predictors.h"
#include "stride.h"
#include "trace.h"

/* The rows to replay, in order; warm rows fill the cache but are not counted.  A batch is rows that
 * go through the layers together, as a prefill does: all of them through a layer, then the next. */
struct run_rows {
    uint32_t n;
    uint32_t *row;
    uint8_t *counted;
    uint32_t *batch; /* at the first row of each batch: its rows */
};

struct machine {
    double bw_link, bw_mem; /* bytes/s */
    double layer_s;         /* seconds of a layer beside its experts */
    uint64_t bytes;         /* of one expert where the trace does not say */
    double drop; /* the link is `drop` times slower from row share drop_from to drop_to */
    double drop_from, drop_to;
};

struct sim_conf {
    const struct trace *t;
    const struct run_rows *rows;
    struct ig_xgeom g;
    const struct ig_policy *policy; /* NULL: no cache, every expert crosses the link */
    const struct ig_policy_arg *arg;
    int pin;        /* a token's experts are never its victims (the engine's rule) */
    int rank_order; /* the heaviest is the oldest of its token, else the lightest */
    struct machine m;
    struct predictor *predictor;       /* NULL: no prefetch */
    int prefetch;                      /* 0: predictions only reach the policy */
    uint32_t distance, width;          /* layers ahead; experts of each prediction, 0: all */
    const struct ig_stride_rule *rule; /* NULL: distance stays */
    const uint8_t *stride;             /* with a rule: its least and most */
    float *stride_log;                 /* [rows->n] mean stride, with a rule */
    float *stall_log; /* [rows->n] stall of the row as a share of its time, may be NULL */
};

/* Over counted rows. */
struct sim_result {
    uint64_t tokens, uses, hits, late;
    uint64_t early, early_used, early_lost;
    double bytes, seconds, stall; /* bytes over the link, prefetched ones too */
};

void ig_sim(const struct sim_conf *conf, struct sim_result *out);

/* Sets and ways from a number of slots: layers are dealt to sets in runs (set = layer * n_set /
 * n_layer), the slots left over by the division go to the first sets.  Free with geometry_free. */
void ig_geometry(struct ig_xgeom *g, const struct trace *t, uint32_t n_set, uint32_t n_slot);
void ig_geometry_free(struct ig_xgeom *g);

/* Slots of a pool in per cent of all experts, rounded down, at least one a set. */
uint32_t ig_slots(const struct trace *t, double pool, uint32_t n_set);

/* docs: [n_doc] 1 where replayed.  decode: prompt rows only warm.  batch: most prompt rows that go
 * through the layers together. */
void ig_rows(struct run_rows *r, const struct trace *t, const uint8_t *docs, int decode,
             uint32_t batch);
void ig_rows_free(struct run_rows *r);

void *ig_zalloc(size_t n, size_t size); /* zeroed, or the process ends with a message */

#endif
