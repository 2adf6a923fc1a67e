/* predict_forest.c -- trees over an expert's features, one forest a group of layers.
 *
 * Trained by tools/train_predictor.py.  A tree is a table of thresholds, walked to a leaf; the
 * chance is the mean of the leaves.
 */
#include "predict_parts.h"

struct trees {
    struct ig_sense sense;
    const struct ig_ptables *t;
    uint8_t (*f)[IG_N_PFEATURE]; /* [n_expert] */
    uint64_t mem[];
};

static size_t trees_bytes(const struct ig_pshape *s, const struct ig_ptables *t)
{
    (void)t;
    return sizeof(struct trees) + ig_sense_bytes(s) + (size_t)s->n_expert * IG_N_PFEATURE;
}

static void trees_init(void *state, const struct ig_pshape *s, const struct ig_ptables *t)
{
    struct trees *p = state;
    p->t = t;
    p->f = ig_sense_init(&p->sense, s, p->mem);
}

static float chance_of(const struct ig_pforest *g, const uint8_t *f)
{
    const uint32_t inner = (1u << g->depth) - 1;
    uint32_t sum = 0;
    for (uint32_t tree = 0; tree < g->n_tree; tree++) {
        const uint8_t *node = g->node + (size_t)tree * inner * 2;
        uint32_t i = 0;
        while (i < inner) i = 2 * i + 1 + (f[node[2 * i]] > node[2 * i + 1]);
        sum += g->leaf[(size_t)tree * (inner + 1) + i - inner];
    }
    return (float)sum / (255 * (float)g->n_tree);
}

static void trees_ask(void *state, const struct ig_pask *a, float *chance)
{
    struct trees *p = state;
    const struct ig_pforest *g = p->t->forest;
    uint32_t i = 0;
    while (i < p->t->n_forest && !(a->layer >= g[i].first && a->layer <= g[i].last)) i++;
    if (i < p->t->n_forest) ig_sense_features(&p->sense, a, p->t, p->f);
    for (uint32_t e = 0; e < p->sense.s.n_expert; e++)
        chance[e] =
            i < p->t->n_forest && ig_sense_candidate(p->f[e]) ? chance_of(&g[i], p->f[e]) : 0;
}

static void trees_token(void *state, int32_t token)
{
    ig_sense_token(&((struct trees *)state)->sense, token);
}

static void trees_use(void *state, uint32_t back, uint32_t layer, const int32_t *id,
                      const float *weight)
{
    (void)weight;
    ig_sense_use(&((struct trees *)state)->sense, back, layer, id);
}

const struct ig_predictor ig_predictor_forest = { .name = "forest",
                                                  .bytes = trees_bytes,
                                                  .init = trees_init,
                                                  .ask = trees_ask,
                                                  .token = trees_token,
                                                  .use = trees_use };
