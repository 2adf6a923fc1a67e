/* predict_mlp.c -- a small network over an expert's features, one a group of layers.
 *
 * Trained by tools/train_predictor.py.  int8 weights, float sums in ascending order.
 */
#include "predict_parts.h"

struct mlp {
    struct ig_sense sense;
    const struct ig_ptables *t;
    uint8_t (*f)[IG_N_PFEATURE]; /* [n_expert] */
    uint64_t mem[];
};

static size_t mlp_bytes(const struct ig_pshape *s, const struct ig_ptables *t)
{
    (void)t;
    return sizeof(struct mlp) + ig_sense_bytes(s) + (size_t)s->n_expert * IG_N_PFEATURE;
}

static void mlp_init(void *state, const struct ig_pshape *s, const struct ig_ptables *t)
{
    struct mlp *p = state;
    p->t = t;
    p->f = ig_sense_init(&p->sense, s, p->mem);
}

static float dot(const int8_t *w, const float *x, uint32_t n)
{
    float sum = 0;
    for (uint32_t i = 0; i < n; i++) sum += (float)w[i] * x[i];
    return sum;
}

static float chance_of(const struct ig_pmlp *g, const uint8_t *f)
{
    float in[IG_PMLP_WIDTH], out[IG_PMLP_WIDTH];
    const int8_t *w = g->weight;
    const float *bias = g->bias;
    uint32_t n = IG_N_PFEATURE;
    _Static_assert((int)IG_N_PFEATURE <= (int)IG_PMLP_WIDTH, "features fit a layer");

    for (uint32_t i = 0; i < n; i++) in[i] = (float)f[i] / 255;
    for (uint32_t layer = 0; layer < g->n_hidden; layer++, n = g->width) {
        for (uint32_t i = 0; i < g->width; i++, w += n) {
            const float x = dot(w, in, n) * g->scale[layer] + *bias++;
            out[i] = x > 0 ? x : 0;
        }
        for (uint32_t i = 0; i < g->width; i++) in[i] = out[i];
    }
    return ig_sigmoid1(dot(w, in, n) * g->scale[g->n_hidden] + *bias);
}

static void mlp_ask(void *state, const struct ig_pask *a, float *chance)
{
    struct mlp *p = state;
    const struct ig_pmlp *g = p->t->mlp;
    uint32_t i = 0;
    while (i < p->t->n_mlp && !(a->layer >= g[i].first && a->layer <= g[i].last)) i++;
    if (i < p->t->n_mlp) ig_sense_features(&p->sense, a, p->t, p->f);
    for (uint32_t e = 0; e < p->sense.s.n_expert; e++)
        chance[e] = i < p->t->n_mlp && ig_sense_candidate(p->f[e]) ? chance_of(&g[i], p->f[e]) : 0;
}

static void mlp_token(void *state, int32_t token)
{
    ig_sense_token(&((struct mlp *)state)->sense, token);
}

static void mlp_use(void *state, uint32_t back, uint32_t layer, const int32_t *id,
                    const float *weight)
{
    (void)weight;
    ig_sense_use(&((struct mlp *)state)->sense, back, layer, id);
}

const struct ig_predictor ig_predictor_mlp = { .name = "mlp",
                                               .bytes = mlp_bytes,
                                               .init = mlp_init,
                                               .ask = mlp_ask,
                                               .token = mlp_token,
                                               .use = mlp_use };
