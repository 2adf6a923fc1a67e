/* device_hot.c -- each set is filled at start with the layer's most used experts of the plan's
 * table (gen/plan_hot.lua), the lower id first.  Policy static keeps them; the cache that learns
 * begins with them, and with uses as if the table's trace had gone on for ever.
 *
 * Layers of a batch that pass through the slots (device_cache.c) take their place; policy static
 * has them back before the next row by itself.
 */
#include "device_cache.h"
#include "device.h"

#include <string.h>

#if IG_XC && defined(IG_POLICY_HOT)

enum { VICTIM_WORDS = 2 * IG_N_EXPERT_USED + 1 };

/* As on the device, two copies of each (struct ig_dcache): -1, no way; the order of an empty set.
 */
static struct {
    int32_t way[IG_N_LAYER][2][IG_N_EXPERT], victim[IG_N_LAYER][2][VICTIM_WORDS];
    float use[IG_N_LAYER][2][IG_N_EXPERT];
} table;
static int gone;
_Static_assert(sizeof table.way == IG_VRAM_WAY_BYTES && sizeof table.use == IG_VRAM_USE_BYTES &&
                   sizeof table.victim == IG_VRAM_VICTIM_BYTES,
               "the device's tables");

/* The most used expert of a layer that has no way yet. */
static int hottest(int layer)
{
    const float *use = IG_POLICY_HOT + layer * IG_N_EXPERT;
    int best = -1;
    for (int x = 0; x < (int)ig_layers[layer].n_expert; x++)
        if (table.way[layer][0][x] < 0 && (best < 0 || use[x] > use[best])) best = x;
    return best;
}

static void fill_layer(struct ig_engine *e, int layer)
{
    struct ig_dcache c;
    ig_cache_layer(e, &c, layer);
    for (int way = 0; way < c.ways; way++) {
        const int x = hottest(layer), from_last = c.ways - 1 - way;
        const uint64_t bytes = ig_layers[layer].expert_stride;
        table.way[layer][0][x] = table.way[layer][1][x] = way;
        if (from_last < VICTIM_WORDS - 1)
            table.victim[layer][0][from_last] = table.victim[layer][1][from_last] = way;
        ig_device_copy(e->device,
                       ig_device_mem(e->device) + IG_VRAM_SLOTS_OFF + c.set +
                           (uint64_t)way * IG_XC_SLOT_BYTES,
                       c.host + (uint64_t)x * bytes, bytes, 0);
    }
}

/* Nothing is there; uses that fade and come at the table's rate stay what they are. */
static void clear_tables(const struct ig_engine *e)
{
    const float lasts = 1.0f / (1.0f - ig_miss_fade(&e->miss));
    memset(table.way, 0xff, sizeof table.way);
    memset(table.victim, 0xff, sizeof table.victim);
    for (int layer = 0; layer < IG_N_LAYER; layer++)
        for (int x = 0; x < IG_N_EXPERT; x++)
            table.use[layer][0][x] = table.use[layer][1][x] =
                lasts * IG_POLICY_HOT[layer * IG_N_EXPERT + x];
}

static void put(struct ig_engine *e, uint64_t off, const void *src, uint64_t bytes)
{
    struct ig_why why;
    if (ig_device_put(e->device, off, src, bytes, &why) != IG_OK) ig_die("%s", why.text);
}

void ig_hot_fill(struct ig_engine *e)
{
    clear_tables(e);
    ig_device_free(e->device, 0); /* what runs has the slots until it has ended */
    for (int layer = IG_N_LAYER_ENC; layer < IG_N_LAYER; layer++) fill_layer(e, layer);
    ig_device_filled(e->device, 0);
    ig_device_wait(e->device);
    put(e, IG_VRAM_WAY_OFF, table.way, sizeof table.way);
    put(e, IG_VRAM_VICTIM_OFF, table.victim, sizeof table.victim);
    put(e, IG_VRAM_USE_OFF, table.use, sizeof table.use);
    gone = 0;
    ig_prefill_filled(e);
}

void ig_hot_gone(void) { gone = 1; }

void ig_hot_back(struct ig_engine *e)
{
    if (IG_XC_STATIC && gone) ig_hot_fill(e);
}

#endif
