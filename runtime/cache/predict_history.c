/* predict_history.c -- co-occurrence: what a trace chose in this layer beside the experts at hand.
 *
 * joint[a][b], in 1/255: how often this layer chose b when the one `dist` before chose a
 * (gen/history.lua).  An expert's score is the mean over the experts at hand, heavier ones first;
 * its chance is what its rank by score had so far.
 */
#include "predict_parts.h"

struct history {
    struct ig_cells cells;
    const uint8_t *joint;
    uint32_t n_joint;
    int32_t *here;  /* [n_layer][top_k] of the newest row, -1: not chosen yet */
    float *weight;  /* the same */
    float *scratch; /* [n_expert] */
    uint64_t mem[];
};

/* A heavy expert says more; the floor keeps the light ones' voice (docs/POLICIES.md). */
static const float floor_weight = 0.25f;

static size_t history_bytes(const struct ig_pshape *s, const struct ig_ptables *t)
{
    (void)t;
    return sizeof(struct history) + ig_cells_bytes(s, 1) +
           ((size_t)s->n_layer * s->top_k * 2 + s->n_expert) * 4;
}

static void history_init(void *state, const struct ig_pshape *s, const struct ig_ptables *t)
{
    struct history *p = state;
    const size_t n = (size_t)s->n_layer * s->top_k;
    p->joint = t ? t->joint : NULL;
    p->n_joint = t ? t->n_joint : 0;
    p->here = ig_cells_init(&p->cells, s, 1, p->mem);
    p->weight = (float *)(void *)(p->here + n);
    p->scratch = p->weight + n;
    for (size_t i = 0; i < n; i++) p->here[i] = -1;
}

static void history_ask(void *state, const struct ig_pask *a, float *chance)
{
    struct history *p = state;
    const size_t e = p->cells.s.n_expert, k = p->cells.s.top_k;
    float total = 0;
    for (size_t b = 0; b < e; b++) chance[b] = 0;
    if (a->dist == 0 || a->dist > p->n_joint) return;
    const size_t from = a->layer - a->dist;
    for (size_t i = 0; i < k; i++) {
        const int32_t x = p->here[from * k + i];
        if (x < 0) continue;
        const float w = floor_weight + p->weight[from * k + i];
        const uint8_t *row =
            p->joint + (((a->dist - 1) * (size_t)p->cells.s.n_layer + from) * e + (size_t)x) * e;
        for (size_t b = 0; b < e; b++) chance[b] += w * (float)row[b];
        total += w;
    }
    if (total <= 0) return;
    uint16_t *said = ig_cells_said(&p->cells, a->layer, a->dist);
    for (size_t b = 0; b < e; b++) {
        p->scratch[b] = chance[b] /= 255 * total;
        said[b] = (uint16_t)k;
    }
    for (uint16_t i = 0; i < k; i++) {
        int32_t best;
        if (ig_predict_best(p->scratch, (uint32_t)e, 1, 0, &best) == 0) break;
        said[best] = i;
    }
    ig_cells_weigh(&p->cells, a->layer, a->dist, chance);
}

static void history_token(void *state, int32_t token)
{
    struct history *p = state;
    (void)token;
    ig_cells_row(&p->cells);
    for (size_t i = 0; i < (size_t)p->cells.s.n_layer * p->cells.s.top_k; i++) p->here[i] = -1;
}

static void history_use(void *state, uint32_t back, uint32_t layer, const int32_t *id,
                        const float *weight)
{
    struct history *p = state;
    const size_t k = p->cells.s.top_k;
    if (back) return;
    ig_cells_learn(&p->cells, layer, id);
    for (size_t i = 0; i < k; i++)
        p->here[layer * k + i] = id[i], p->weight[layer * k + i] = weight[i];
}

const struct ig_predictor ig_predictor_history = { .name = "history",
                                                   .bytes = history_bytes,
                                                   .init = history_init,
                                                   .ask = history_ask,
                                                   .token = history_token,
                                                   .use = history_use };
