/* predict.h -- which experts a later layer will want: the predictors of the study.
 *
 *   last     the experts of that layer for the row before
 *   history  co-occurrence with the experts of the layer at hand, counted on other documents
 *   next     the trace's stored next-router predictions
 *   token    the layer's experts when this token id last occurred (first layers only)
 *   hybrid   token where the layer is below `token_layers` or next has no answer, else next
 *   perfect  what the trace says: the bound of any predictor
 */
#ifndef IG_REPLAY_PREDICT_H
#define IG_REPLAY_PREDICT_H

#include "trace.h"

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

struct predictor {
    enum predict_kind kind;
    const struct trace *t;
    uint32_t token_layers;
    uint32_t n_token;
    int64_t *seen;             /* [n_token] last row of each token id, -1 */
    int64_t previous;          /* row before the one at hand, -1 */
    float *joint[IG_MAX_DIST]; /* history: [layer][expert here][expert there] per distance 1.. */
    float *score;              /* [n_expert] scratch */
};

/* train: [n_row], 1 where history may look. */
void ig_predict_init(struct predictor *p, enum predict_kind kind, const struct trace *t,
                     const uint8_t *train, uint32_t max_dist);
void ig_predict_free(struct predictor *p);

/* Experts of layer `layer` for `row`, best first, seen from layer - dist; dist > layer means the
 * start of the token, where only its id is known.  Returns how many, at most top_k. */
uint32_t ig_predict(struct predictor *p, uint32_t row, uint32_t layer, uint32_t dist,
                    uint16_t *out);

/* The row is done: its choices are known. */
void ig_predict_row(struct predictor *p, uint32_t row);

#endif
