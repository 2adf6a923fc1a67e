/* predict_parts.h -- what predictors share: calibration, and a memory of rows.
 *
 * Both live in memory of the predictor that has them.
 */
#ifndef IG_PREDICT_PARTS_H
#define IG_PREDICT_PARTS_H

#include "heat.h"
#include "predict.h"

/* Evidence to chance: how often an expert was chosen when this was said of it, counted for each
 * layer and distance.  What was said is a rank (0 .. top_k, the last: not named) and a level. */
struct ig_cell {
    float chosen, all;
};
struct ig_cells {
    struct ig_pshape s;
    uint32_t levels;
    struct ig_cell *cell; /* [n_layer][dist 0..8][top_k + 1][levels] */
    uint16_t *said;       /* [n_layer][dist 0..8][n_expert] of the newest row */
    uint8_t *asked;       /* [n_layer][dist 0..8] */
};

size_t ig_cells_bytes(const struct ig_pshape *s, uint32_t levels);
void *ig_cells_init(struct ig_cells *c, const struct ig_pshape *s, uint32_t levels, void *mem);
void ig_cells_row(struct ig_cells *c); /* questions of the row before were never answered */
/* What is said of each expert; the caller fills it in before it weighs. */
uint16_t *ig_cells_said(struct ig_cells *c, uint32_t layer, uint32_t dist);
/* chance: in, what to believe before anything was counted; out, the calibrated one. */
void ig_cells_weigh(struct ig_cells *c, uint32_t layer, uint32_t dist, float *chance);
void ig_cells_learn(struct ig_cells *c, uint32_t layer, const int32_t *id);
/* said and chance of a list: an expert's rank in it, level 0. */
void ig_cells_list(struct ig_cells *c, const struct ig_pask *a, float *chance);

/* The last rows: their tokens and choices, and how often experts were used.  Earlier rows with the
 * newest row's token vote for what they chose, the more so the longer the text before agrees
 * (policy_echo.c looks at the rows after them: it wants to know what is needed later). */
enum { IG_SENSE_MATCHES = 16, IG_SENSE_CONTEXT = 4 };
struct ig_sense {
    struct ig_pshape s;
    uint32_t words, row; /* rows begun */
    int stale;           /* matches are not of the newest row */
    uint32_t n_match, context, match[IG_SENSE_MATCHES];
    float weight[IG_SENSE_MATCHES]; /* their sum is 1 */
    struct ig_heat heat;
    double rate;
    double *count;   /* [n_layer * n_expert] */
    uint64_t *chose; /* [rows][n_layer][words] bit sets */
    uint32_t *head;  /* chains of rows with one token */
    uint32_t *prev;  /* [rows] */
    int32_t *token;  /* [rows] */
    float *vote;     /* [n_expert] scratch */
};

size_t ig_sense_bytes(const struct ig_pshape *s);
void *ig_sense_init(struct ig_sense *p, const struct ig_pshape *s, void *mem);
void ig_sense_token(struct ig_sense *p, int32_t token);
void ig_sense_use(struct ig_sense *p, uint32_t back, uint32_t layer, const int32_t *id);
void ig_sense_vote(struct ig_sense *p, uint32_t layer, float *share); /* [n_expert] 0..1 */
/* f: [n_expert] features of a question.  linear: of its layer and distance, or NULL. */
void ig_sense_features(struct ig_sense *p, const struct ig_pask *a, const struct ig_ptables *t,
                       uint8_t (*f)[IG_N_PFEATURE]);
/* Whether anything speaks for an expert: forest and mlp look at no other. */
static inline int ig_sense_candidate(const uint8_t *f)
{
    return f[IG_PF_NEXT] || f[IG_PF_VOTE] || f[IG_PF_LAST] || f[IG_PF_LEARNED] > 12;
}

float ig_sigmoid1(float x);

#endif
