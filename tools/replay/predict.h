/* predict.h -- which experts a later layer will want: the predictors of the study.
 *
 *   last     the experts of that layer for the row before
 *   history  co-occurrence with the experts of the layer at hand, counted on other documents
 *   next     the trace's stored next-router predictions
 *   token    votes of the rows where this token id occurred before, 16 at most, more weight where
 *            the text before agrees too (policy_echo.c's matches, at the match itself)
 *   hybrid   both: how often an expert with this rank in next and this share of votes was chosen,
 *            counted as the replay goes, per layer and distance
 *   perfect  what the trace says: the bound of any predictor
 */
#ifndef IG_REPLAY_PREDICT_H
#define IG_REPLAY_PREDICT_H

#include "trace.h"

struct run_rows;

enum predict_kind {
    PREDICT_LAST,
    PREDICT_HISTORY,
    PREDICT_NEXT,
    PREDICT_TOKEN,
    PREDICT_HYBRID,
    PREDICT_PERFECT,
    N_PREDICT
};
extern const char *const ig_predict_name[N_PREDICT];

enum { VOTE_LEVELS = 9 };
struct cell {
    float chosen, all;
};

struct predictor {
    enum predict_kind kind;
    const struct trace *t;
    uint32_t n_token;
    int32_t *seen;    /* [n_token] last row of each token id, -1 */
    int32_t *chain;   /* [n_row] the row before with the same token id, -1 */
    int32_t *before;  /* [n_row] the row replayed before, -1 */
    int32_t previous; /* row before the one at hand, -1 */
    float least;
    struct cell *cell;         /* hybrid: [layer][dist 0..8][rank 0..k][vote level] */
    uint8_t *asked;            /* [layer][dist] whether asked in this row */
    uint16_t *feature;         /* [layer][dist][expert] which of the cells */
    float *joint[IG_MAX_DIST]; /* history: [layer][expert here][expert there] per distance 1.. */
    float *score;              /* [n_expert] scratch */
};

/* train: [n_row], 1 where history may look. */
void ig_predict_init(struct predictor *p, enum predict_kind kind, const struct trace *t,
                     const uint8_t *train, uint32_t max_dist);
void ig_predict_free(struct predictor *p);

/* Experts of layer `layer` for `row`, best first, seen from layer - dist; dist > layer means the
 * start of the token, where only its id is known.  Returns how many, at most top_k.  least: hybrid
 * leaves out experts of a lower probability. */
uint32_t ig_predict(struct predictor *p, uint32_t row, uint32_t layer, uint32_t dist,
                    uint16_t *out);

/* The row is done: its choices are known. */
void ig_predict_row(struct predictor *p, uint32_t row);

/* Share of the experts of layers >= dist that were predicted `dist` layers before, over counted
 * rows.  weighted: the same, each expert by its router weight; asked: experts; both may be NULL. */
double ig_predict_recall(const struct trace *t, const struct run_rows *rows, enum predict_kind kind,
                         const uint8_t *train, uint32_t dist, double *weighted, double *asked);

#endif
