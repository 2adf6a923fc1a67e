/* predict_next.c -- what a later layer's router says of the present hidden state.
 *
 * The list is the caller's; here each rank gets the chance it had so far, by layer and distance.
 */
#include "predict_parts.h"

struct next {
    struct ig_cells cells;
    uint64_t mem[];
};

static size_t next_bytes(const struct ig_pshape *s, const struct ig_ptables *t)
{
    (void)t;
    return sizeof(struct next) + ig_cells_bytes(s, 1);
}

static void next_init(void *state, const struct ig_pshape *s, const struct ig_ptables *t)
{
    struct next *p = state;
    (void)t;
    ig_cells_init(&p->cells, s, 1, p->mem);
}

static void next_ask(void *state, const struct ig_pask *a, float *chance)
{
    struct next *p = state;
    ig_cells_list(&p->cells, a, chance);
    if (a->next) ig_cells_weigh(&p->cells, a->layer, a->dist, chance);
}

static void next_token(void *state, int32_t token)
{
    (void)token;
    ig_cells_row(&((struct next *)state)->cells);
}

static void next_use(void *state, uint32_t back, uint32_t layer, const int32_t *id,
                     const float *weight)
{
    (void)weight;
    if (back == 0) ig_cells_learn(&((struct next *)state)->cells, layer, id);
}

const struct ig_predictor ig_predictor_next_router = { .name = "next-router",
                                                       .bytes = next_bytes,
                                                       .init = next_init,
                                                       .ask = next_ask,
                                                       .token = next_token,
                                                       .use = next_use };
