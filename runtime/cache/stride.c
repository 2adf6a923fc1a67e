/* stride.c -- the prefetch distance controller; rules in stride.h. */
#include "stride.h"

#include "base.h"

void ig_stride_init(struct ig_stride *layer, uint32_t n_layer, const struct ig_stride_rule *rule,
                    const uint8_t *planned)
{
    IG_ASSERT(rule->min >= 1 && rule->min <= rule->max && rule->window >= 1);
    for (uint32_t l = 0; l < n_layer; l++) {
        uint8_t s = planned[l];
        if (s < rule->min) s = rule->min;
        if (s > rule->max) s = rule->max;
        layer[l] = (struct ig_stride){ .s = s };
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
        const int far = p->wait > rule->wait_max && p->s < rule->max;
        const int near = !far && p->wait <= rule->wait_max && p->overload > rule->overload_max &&
                         p->s > rule->min;
        if (far) p->s++;
        if (near) p->s--;
        if (far || near || window_ends) p->wait = p->overload = 0;
        moved += (uint32_t)(far + near);
    }
    return moved;
}
