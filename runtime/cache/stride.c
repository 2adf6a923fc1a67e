/* stride.c -- the prefetch distance controller; rules in stride.h. */
#include "stride.h"

#include "base.h"

#include <string.h>

const struct ig_stride_rule ig_stride_usual = { .wait_max = 8, .overload_max = 12, .window = 16 };

void ig_stride_init(struct ig_stride *layer, uint32_t n_layer, const uint8_t (*planned)[3])
{
    for (uint32_t l = 0; l < n_layer; l++) {
        const uint8_t s = planned[l][0], least = planned[l][1], most = planned[l][2];
        IG_ASSERT(least >= 1 && least <= most);
        layer[l] = (struct ig_stride){ .s = s < least  ? least
                                            : s > most ? most
                                                       : s,
                                       .least = least,
                                       .most = most };
    }
}

void ig_stride_wait(struct ig_stride *layer)
{
    if (layer->wait < UINT16_MAX) layer->wait++;
}

void ig_stride_overload(struct ig_stride *layer)
{
    if (layer->overload < UINT16_MAX) layer->overload++;
}

uint32_t ig_stride_step(struct ig_stride *layer, uint32_t n_layer,
                        const struct ig_stride_rule *rule, uint64_t step)
{
    const int window_ends = step % rule->window == rule->window - 1u;
    uint32_t moved = 0;

    for (struct ig_stride *p = layer; p < layer + n_layer; p++) {
        const int far = p->wait > rule->wait_max && p->wait >= p->overload && p->s < p->most;
        const int near = !far && p->wait <= rule->wait_max && p->overload > rule->overload_max &&
                         p->s > p->least;
        if (far) p->s++;
        if (near) p->s--;
        if (far || near || window_ends) p->wait = p->overload = 0;
        moved += (uint32_t)(far + near);
    }
    return moved;
}

void ig_stride_note(struct ig_stride_log *g, const struct ig_stride *layer, uint32_t n_layer,
                    uint64_t step)
{
    if (g->every == 0) g->every = 1;
    if (step % g->every != 0) return;
    if (g->n == IG_STRIDE_PAST) {
        g->n /= 2;
        g->every *= 2;
        for (uint32_t i = 1; i < g->n; i++)
            memcpy(g->at + (size_t)i * n_layer, g->at + (size_t)2 * i * n_layer, n_layer);
        if (step % g->every != 0) return;
    }
    uint8_t *now = g->at + (size_t)g->n++ * n_layer;
    for (uint32_t l = 0; l < n_layer; l++) now[l] = layer[l].s;
}
