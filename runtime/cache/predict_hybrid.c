/* predict_hybrid.c -- next-router's rank and the token's votes, weighed by what both were worth.
 *
 * For each layer and distance it counts how often an expert with this rank and this share of the
 * votes was chosen.  Needs no training; before the first layer it has the votes alone.
 */
#include "predict_parts.h"

enum { LEVELS = 9 }; /* of votes; level 0: none at all */

struct hybrid {
    struct ig_sense sense;
    struct ig_cells cells;
    float *vote; /* [n_expert] */
    uint64_t mem[];
};

static size_t hybrid_bytes(const struct ig_pshape *s, const struct ig_ptables *t)
{
    (void)t;
    return sizeof(struct hybrid) + ig_sense_bytes(s) + ig_cells_bytes(s, LEVELS) + s->n_expert * 4;
}

static void hybrid_init(void *state, const struct ig_pshape *s, const struct ig_ptables *t)
{
    struct hybrid *p = state;
    (void)t;
    p->vote = ig_cells_init(&p->cells, s, LEVELS, ig_sense_init(&p->sense, s, p->mem));
}

static void hybrid_ask(void *state, const struct ig_pask *a, float *chance)
{
    struct hybrid *p = state;
    ig_cells_list(&p->cells, a, chance);
    ig_sense_vote(&p->sense, a->layer, p->vote);
    uint16_t *said = ig_cells_said(&p->cells, a->layer, a->dist);
    for (uint32_t e = 0; e < p->cells.s.n_expert; e++) {
        const float v = p->vote[e] * (LEVELS - 1) + 0.999f;
        said[e] = (uint16_t)(said[e] + (v >= LEVELS ? LEVELS - 1 : (uint16_t)v));
        if (p->vote[e] > chance[e]) chance[e] = p->vote[e];
    }
    ig_cells_weigh(&p->cells, a->layer, a->dist, chance);
}

static void hybrid_token(void *state, int32_t token)
{
    struct hybrid *p = state;
    ig_cells_row(&p->cells);
    ig_sense_token(&p->sense, token);
}

static void hybrid_use(void *state, uint32_t back, uint32_t layer, const int32_t *id,
                       const float *weight)
{
    struct hybrid *p = state;
    (void)weight;
    if (back == 0) ig_cells_learn(&p->cells, layer, id);
    ig_sense_use(&p->sense, back, layer, id);
}

const struct ig_predictor ig_predictor_hybrid = { .name = "hybrid",
                                                  .bytes = hybrid_bytes,
                                                  .init = hybrid_init,
                                                  .ask = hybrid_ask,
                                                  .token = hybrid_token,
                                                  .use = hybrid_use };
