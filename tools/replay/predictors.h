/* predictors.h -- predictors in the simulator: the engine's own (runtime/cache/predict.h), and
 * three that only a study wants.
 *
 *   last     the experts of that layer for the row before
 *   token    the votes that hybrid has, alone
 *   perfect  what the trace says: the bound of any predictor
 */
#ifndef IG_REPLAY_PREDICTORS_H
#define IG_REPLAY_PREDICTORS_H

#include "predict_parts.h"
#include "predictor_file.h"
#include "trace.h"

struct run_rows;

enum predict_kind {
    PREDICT_LAST,
    PREDICT_TOKEN,
    PREDICT_PERFECT,
    PREDICT_NEXT,
    PREDICT_HISTORY,
    PREDICT_HYBRID,
    PREDICT_FOREST,
    PREDICT_MLP,
    N_PREDICT
};
extern const char *const ig_predict_name[N_PREDICT];

/* What predictors were given beside the trace; all may be NULL. */
struct learned {
    const uint8_t *train;              /* [n_row] 1 where history may look */
    const struct predictor_file *file; /* forest, mlp */
    const struct hidden *hidden;
};

struct predictor {
    enum predict_kind kind;
    const struct trace *t;
    struct learned from;
    const struct ig_predictor *engine; /* NULL: one of the simulator's own */
    void *state;
    struct ig_ptables tables;
    struct ig_sense sense; /* token */
    void *sense_mem;
    int64_t row;      /* at hand, -1: none */
    uint32_t fed;     /* layers of it that the predictor knows */
    int32_t previous; /* row before, -1 */
    float least;
    uint8_t *joint;
    float *chance, *hidden; /* scratch: [n_expert], [n_embd] */
};

/* Distances up to max_dist are counted for history. */
void ig_predict_init(struct predictor *p, enum predict_kind kind, const struct trace *t,
                     const struct learned *from, uint32_t max_dist);
void ig_predict_free(struct predictor *p);

/* Experts of layer `layer` for `row`, best first, seen from layer - dist; dist > layer means the
 * start of the token, where only its id is known.  Returns how many, at most top_k; none of a
 * lower chance than p->least, where the predictor knows chances. */
uint32_t ig_predict(struct predictor *p, uint32_t row, uint32_t layer, uint32_t dist,
                    uint16_t *out);

/* The features of every expert (struct ig_pask's), for training; f: [n_expert]. */
void ig_predict_features(struct predictor *p, uint32_t row, uint32_t layer, uint32_t dist,
                         uint8_t (*f)[IG_N_PFEATURE]);

/* The row is done: its choices are known. */
void ig_predict_row(struct predictor *p, uint32_t row);

/* Share of the experts of layers >= dist that were predicted `dist` layers before, over counted
 * rows.  weighted: the same, each expert by its router weight; asked: experts; both may be NULL. */
double ig_predict_recall(const struct trace *t, const struct run_rows *rows, enum predict_kind kind,
                         const struct learned *from, uint32_t dist, double *weighted,
                         double *asked);

#endif
