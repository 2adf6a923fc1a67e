/* tier_hot.c -- a plan's hot table: its experts are in their slots before the first token. */
#include "state.h"

#if IG_MEM_SLOTS_BYTES && defined(IG_POLICY_HOT)

/* The most used expert of a set that is not resident yet, the lower id first; -1: none was used. */
static int hottest(const struct ig_xcache *c, uint32_t set)
{
    int best = -1;
    for (int id = 0; id < IG_N_LAYER * IG_N_EXPERT; id++)
        if (ig_layers[id / IG_N_EXPERT].ffn == IG_FFN_MOE && c->g.set_of[id / IG_N_EXPERT] == set &&
            c->slot_of[id] < 0 && IG_POLICY_HOT[id] > (best < 0 ? 0 : IG_POLICY_HOT[best]))
            best = id;
    return best;
}

enum ig_err ig_tier_warm(struct ig_engine *e, struct ig_why *why)
{
    struct ig_tier *t = &e->tier;
    int slot = 0, id;
    for (uint32_t set = 0; set < IG_N_SET; set++)
        for (uint32_t i = ig_xc_first[set]; i < ig_xc_first[set + 1]; i++) {
            if ((id = hottest(&t->cache, set)) < 0) break;
            const uint32_t layer = (uint32_t)id / IG_N_EXPERT, expert = (uint32_t)id % IG_N_EXPERT;
            slot = ig_xcache_claim(&t->cache, layer, expert, 0);
            struct ig_move *v = ig_tier_prepare(e, (int)layer, (int)expert, slot);
            ig_mover_submit(&t->mover, &v, 1, 1);
        }
    for (slot = 0; slot < IG_N_XSLOT; slot++) {
        if (t->cache.slot[slot].state != IG_XC_FILLING) continue;
        ig_mover_wait(&t->mover, &t->move[slot]);
        if (!ig_move_usable(&t->move[slot]))
            return ig_fail(why, IG_BAD_FILE,
                           "%s: layer %u expert %u: cannot read it, or its checksum is wrong",
                           e->file.path, t->cache.slot[slot].id / IG_N_EXPERT,
                           t->cache.slot[slot].id % IG_N_EXPERT);
        ig_xcache_ready(&t->cache, slot);
    }
    return IG_OK;
}

#endif
