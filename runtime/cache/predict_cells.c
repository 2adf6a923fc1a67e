/* predict_cells.c -- evidence to chance; see predict_parts.h. */
#include "predict_parts.h"

static size_t at(uint32_t layer, uint32_t dist)
{
    return (size_t)layer * (IG_PREDICT_DIST + 1) + dist;
}

size_t ig_cells_bytes(const struct ig_pshape *s, uint32_t levels)
{
    const size_t n = (size_t)s->n_layer * (IG_PREDICT_DIST + 1);
    return n * (s->top_k + 1) * levels * sizeof(struct ig_cell) +
           (n * s->n_expert * 2 + n + 7) / 8 * 8;
}

void *ig_cells_init(struct ig_cells *c, const struct ig_pshape *s, uint32_t levels, void *mem)
{
    const size_t n = (size_t)s->n_layer * (IG_PREDICT_DIST + 1);
    const size_t cells = n * (s->top_k + 1) * levels;
    *c = (struct ig_cells){ .s = *s, .levels = levels, .cell = mem };
    c->said = (uint16_t *)(void *)(c->cell + cells);
    c->asked = (uint8_t *)(c->said + n * s->n_expert);
    for (size_t i = 0; i < cells; i++) c->cell[i] = (struct ig_cell){ 0, 0 };
    for (size_t i = 0; i < n; i++) c->asked[i] = 0;
    return (unsigned char *)mem + ig_cells_bytes(s, levels);
}

void ig_cells_row(struct ig_cells *c)
{
    for (size_t i = 0; i < (size_t)c->s.n_layer * (IG_PREDICT_DIST + 1); i++) c->asked[i] = 0;
}

uint16_t *ig_cells_said(struct ig_cells *c, uint32_t layer, uint32_t dist)
{
    return c->said + at(layer, dist) * c->s.n_expert;
}

static struct ig_cell *cells_of(const struct ig_cells *c, uint32_t layer, uint32_t dist)
{
    return c->cell + at(layer, dist) * (c->s.top_k + 1) * c->levels;
}

void ig_cells_weigh(struct ig_cells *c, uint32_t layer, uint32_t dist, float *chance)
{
    const uint16_t *said = ig_cells_said(c, layer, dist);
    const struct ig_cell *cell = cells_of(c, layer, dist);
    /* What is believed before counts as four cases. */
    for (uint32_t e = 0; e < c->s.n_expert; e++)
        chance[e] = (cell[said[e]].chosen + 4 * chance[e]) / (cell[said[e]].all + 4);
    c->asked[at(layer, dist)] = 1;
}

void ig_cells_learn(struct ig_cells *c, uint32_t layer, const int32_t *id)
{
    for (uint32_t dist = 0; dist <= IG_PREDICT_DIST; dist++) {
        const uint16_t *said = ig_cells_said(c, layer, dist);
        struct ig_cell *cell = cells_of(c, layer, dist);
        if (!c->asked[at(layer, dist)]) continue;
        c->asked[at(layer, dist)] = 0;
        for (uint32_t e = 0; e < c->s.n_expert; e++) cell[said[e]].all += 1;
        for (uint32_t k = 0; k < c->s.top_k; k++)
            if (id[k] >= 0) cell[said[id[k]]].chosen += 1;
    }
}

void ig_cells_list(struct ig_cells *c, const struct ig_pask *a, float *chance)
{
    const uint32_t k = c->s.top_k;
    uint16_t *said = ig_cells_said(c, a->layer, a->dist);
    for (uint32_t e = 0; e < c->s.n_expert; e++) said[e] = (uint16_t)(k * c->levels), chance[e] = 0;
    for (uint32_t i = 0; a->next && i < k; i++) {
        if (a->next[i] < 0) continue;
        said[a->next[i]] = (uint16_t)(i * c->levels);
        chance[a->next[i]] = 0.9f - 0.5f * (float)i / (float)k;
    }
}

int ig_predict_best(float *chance, uint32_t n_expert, uint32_t k, float least, int32_t *id)
{
    for (uint32_t n = 0; n < k; n++) {
        uint32_t best = 0;
        for (uint32_t e = 1; e < n_expert; e++)
            if (chance[e] > chance[best]) best = e;
        if (chance[best] <= 0 || chance[best] < least) return (int)n;
        id[n] = (int32_t)best;
        chance[best] = -1;
    }
    return (int)k;
}
