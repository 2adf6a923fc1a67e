/* device_hot.c -- policy static on a device: each set is filled at start with the layer's most used
 * experts of the plan's table, the lower id first, and keeps them.
 *
 * Layers of a batch that pass through the slots (device_cache.c) take their place; they come back
 * before the next row by itself.
 */
#include "device_cache.h"
#include "device.h"

#if IG_XC_STATIC

static int32_t way_of[IG_N_LAYER][2][IG_N_EXPERT]; /* as WAY on the device; -1: none */
static int gone;
_Static_assert(sizeof way_of == IG_VRAM_WAY_BYTES, "a table of ways");

/* The most used expert of a layer that has no way yet. */
static int hottest(int layer)
{
    const float *use = IG_POLICY_HOT + layer * IG_N_EXPERT;
    int best = -1;
    for (int x = 0; x < (int)ig_layers[layer].n_expert; x++)
        if (way_of[layer][0][x] < 0 && (best < 0 || use[x] > use[best])) best = x;
    return best;
}

static void fill_layer(struct ig_engine *e, int layer)
{
    struct ig_dcache c;
    ig_cache_layer(e, &c, layer);
    for (int way = 0; way < c.ways; way++) {
        const int x = hottest(layer);
        const uint64_t bytes = ig_layers[layer].expert_stride;
        way_of[layer][0][x] = way_of[layer][1][x] = way;
        ig_device_copy(e->device,
                       ig_device_mem(e->device) + IG_VRAM_SLOTS_OFF + c.set +
                           (uint64_t)way * IG_XC_SLOT_BYTES,
                       c.host + (uint64_t)x * bytes, bytes, 0);
    }
}

void ig_hot_fill(struct ig_engine *e)
{
    struct ig_why why;
    for (int layer = 0; layer < IG_N_LAYER; layer++)
        for (int x = 0; x < IG_N_EXPERT; x++) way_of[layer][0][x] = way_of[layer][1][x] = -1;
    ig_device_free(e->device, 0); /* what runs has the slots until it has ended */
    for (int layer = IG_N_LAYER_ENC; layer < IG_N_LAYER; layer++) fill_layer(e, layer);
    ig_device_filled(e->device, 0);
    ig_device_wait(e->device);
    if (ig_device_put(e->device, IG_VRAM_WAY_OFF, way_of, sizeof way_of, &why) != IG_OK)
        ig_die("%s", why.text);
    gone = 0;
    ig_prefill_filled(e);
}

void ig_hot_gone(void) { gone = 1; }

void ig_hot_back(struct ig_engine *e)
{
    if (gone) ig_hot_fill(e);
}

#endif
