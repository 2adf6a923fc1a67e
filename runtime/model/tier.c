/* tier.c -- a layer's experts: lookup, demand, waves; see tier.h. */
#include "state.h"
#include "machine.h"

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#if IG_MEM_SLOTS_BYTES

_Static_assert(sizeof(struct ig_move) <= 160, "gen/plan_tier.lua counts with this");

static unsigned char *slot_at(struct ig_engine *e, int slot)
{
    return e->mem + IG_MEM_SLOTS_OFF + (uint64_t)slot * IG_SLOT_BYTES;
}

/* Fills in a move of one expert into one slot. */
struct ig_move *ig_tier_prepare(struct ig_engine *e, int layer, int expert, int slot)
{
    const struct ig_layer *l = &ig_layers[layer];
    struct ig_move *v = &e->tier.move[slot];
    ig_mover_land(&e->tier.mover, v); /* the slot's former expert may just have been seen */
    if (e->tier.poison) memset(slot_at(e, slot), 0xff, IG_SLOT_BYTES);
    v->from = l->expert_off + (uint64_t)expert * l->expert_stride;
    v->bytes = l->expert_stride;
    v->n_block = e->tier.per_expert[layer];
    v->block = &e->file.blocks[e->tier.block[layer] + (uint32_t)expert * v->n_block];
    v->to = slot_at(e, slot);
    return v;
}

/* -- reads that are seen and not told: filling their slots anew would wait for the disk */

/* A slot that is READY from now on; a pin of the caller's becomes the list's. */
static void unpin_landed(struct ig_tier *t, int slot)
{
    int i = 0;
    while (i < t->n_landing && t->landing[i] != slot) i++;
    if (i == t->n_landing && ig_move_state(&t->move[slot]) == IG_MOVE_SEEN)
        t->landing[t->n_landing++] = slot;
    else
        ig_xcache_unpin(&t->cache, slot);
}

void ig_tier_landed(struct ig_tier *t)
{
    for (int i = t->n_landing; i-- > 0;) {
        if (ig_move_state(&t->move[t->landing[i]]) == IG_MOVE_SEEN) continue;
        ig_xcache_unpin(&t->cache, t->landing[i]);
        t->landing[i] = t->landing[--t->n_landing];
    }
}

/* Waits until one of them is told; 0 when there is none. */
static int wait_landing(struct ig_tier *t)
{
    if (t->n_landing == 0) return 0;
    ig_mover_land(&t->mover, &t->move[t->landing[0]]);
    ig_tier_landed(t);
    return 1;
}

/* -- prefetches under way */

static void forget_early(struct ig_tier *t, int i)
{
    t->dropped[t->early[i]] = 0;
    t->early[i] = t->early[--t->n_early];
}

static void count_early(struct ig_tier *t, int slot)
{
    t->count[t->phase][t->cache.slot[slot].id / IG_N_EXPERT].bytes += t->move[slot].bytes;
}

/* Prefetches that ended become resident, to be checked when they are used, or their slots empty. */
static void reap(struct ig_tier *t)
{
    for (int i = t->n_early; i-- > 0;) {
        const int slot = t->early[i];
        const enum ig_move_state s = ig_move_state(&t->move[slot]);
        if (s == IG_MOVE_PENDING) continue;
        if (s == IG_MOVE_ARRIVED || ig_move_usable(&t->move[slot])) {
            ig_xcache_ready(&t->cache, slot);
            ig_xcache_pin(&t->cache, slot);
            unpin_landed(t, slot);
            count_early(t, slot);
        } else {
            ig_xcache_drop(&t->cache, slot);
        }
        forget_early(t, i);
    }
}

/* A prefetch that was chosen before it was there: a demand from now on, unless it was being
 * cancelled.  Returns its slot, or IG_XC_MISS. */
static int demand_early(struct ig_tier *t, int slot)
{
    int i = 0;
    while (i < t->n_early && t->early[i] != slot) i++;
    if (i == t->n_early) return slot;
    if (t->dropped[slot] && ig_move_wait(&t->move[slot]) != IG_MOVE_ARRIVED &&
        !ig_move_usable(&t->move[slot])) {
        ig_xcache_drop(&t->cache, slot);
        slot = IG_XC_MISS;
    } else {
        ig_mover_promote(&t->mover, &t->move[slot]);
        count_early(t, slot);
    }
    forget_early(t, i);
    return slot;
}

/* Waits until one prefetch has ended; 0 when none is under way. */
static int wait_early(struct ig_tier *t)
{
    if (t->n_early == 0) return 0;
    ig_move_wait(&t->move[t->early[0]]);
    reap(t);
    return 1;
}

/* -- the layer at hand */

/* The policy learns of every choice, row by row, least weight first. */
static void use(struct ig_engine *e, int layer)
{
    struct ig_xcache *c = &e->tier.cache;
    const int n = e->batch->n;
    for (int t = 0; t < n; t++) {
        const int32_t *id = ig_topk_id(e, t);
        const float *weight = ig_topk_w(e, t);
        if (n > 1) ig_xcache_row(c, (uint32_t)(n - 1 - t));
#if IG_MEM_RLP_BYTES
        ig_ahead_use(e, layer, t);
#endif
        for (int k = IG_N_EXPERT_USED; k-- > 0;) {
#if IG_MEM_RLP_BYTES
            if (n == 1)
                ig_ahead_feedback(&e->tier, layer,
                                  ig_xcache_find(c, (uint32_t)layer, (uint32_t)id[k]));
#endif
            ig_xcache_use(c, (uint32_t)layer, (uint32_t)id[k], weight[k]);
        }
    }
}

static void add(struct ig_engine *e, int expert, int slot)
{
    struct ig_tier *t = &e->tier;
    const int a = t->n++;
    e->active[a] = expert;
    t->slot[a] = slot;
    if (slot < 0) return;
    e->slab[a] = slot_at(e, slot);
    ig_xcache_pin(&t->cache, slot);
}

/* e->active: resident experts, then those under way, then the missing ones. */
static void order(struct ig_engine *e, int layer, const int32_t *chosen, int n)
{
    struct ig_tier *t = &e->tier;
    struct ig_tier_count *count = &t->count[t->phase][layer];
    int32_t other[IG_N_EXPERT], slot[IG_N_EXPERT];
    int n_other = 0;

    t->n = 0;
    for (int i = 0; i < n; i++) {
        const int s = ig_xcache_find(&t->cache, (uint32_t)layer, (uint32_t)chosen[i]);
        if (s >= 0 && t->cache.slot[s].state == IG_XC_READY) {
            add(e, chosen[i], s);
            continue;
        }
        slot[n_other] = s < 0 ? s : demand_early(t, s);
        other[n_other++] = chosen[i];
    }
    t->n_there = t->n;
    count->hit += (uint64_t)t->n;
    for (int i = 0; i < n_other; i++)
        if (slot[i] >= 0) add(e, other[i], slot[i]), count->late++;
    t->claimed = t->n;
    for (int i = 0; i < n_other; i++)
        if (slot[i] < 0) add(e, other[i], IG_XC_MISS), count->miss++;
}

static int take_spare(struct ig_tier *t)
{
    int i = 0;
    while (i < IG_N_SPARE && t->spare[i]) i++;
    if (i == IG_N_SPARE) return IG_XC_MISS;
    t->spare[i] = 1;
    return IG_N_XSLOT + i;
}

/* How many experts must have slots for the wave: one, or all where the plan has no room for waves.
 */
static int least(const struct ig_tier *t)
{
    return IG_MEM_YD_BYTES && t->wave_lo < t->n ? t->wave_lo + 1 : t->n;
}

/* Slots for missing experts, in order, as far as there are any; their copies start. */
static void claim(struct ig_engine *e)
{
    struct ig_tier *t = &e->tier;
    struct ig_move *move[IG_N_EXPERT];
    int n = 0, a = t->claimed;
    do {
        for (; a < t->n; a++) {
            int slot = ig_xcache_claim(&t->cache, (uint32_t)t->layer, (uint32_t)e->active[a], 0);
            if (slot == IG_XC_REFUSED) slot = take_spare(t);
            if (slot < 0) break;
            if (slot < IG_N_XSLOT) ig_xcache_pin(&t->cache, slot);
            t->slot[a] = slot;
            e->slab[a] = slot_at(e, slot);
            move[n] = ig_tier_prepare(e, t->layer, e->active[a], slot);
            t->count[t->phase][t->layer].bytes += move[n++]->bytes;
        }
        /* What one wave needs is not free: prefetches hold ways. */
    } while (a < least(t) && (wait_landing(t) || wait_early(t)));
    if (a < least(t)) ig_die("cache: layer %d: no way is free", t->layer);
    t->claimed = a;
    ig_mover_submit(&t->mover, move, n, 1);
}

/* The slots of the wave are no longer read. */
static void release(struct ig_engine *e)
{
    struct ig_tier *t = &e->tier;
    for (int a = t->wave_lo; a < t->wave_hi; a++) {
        const int slot = t->slot[a];
        if (slot >= IG_N_XSLOT) {
            t->spare[slot - IG_N_XSLOT] = 0;
            continue;
        }
        if (t->cache.slot[slot].state == IG_XC_FILLING) ig_xcache_ready(&t->cache, slot);
        unpin_landed(t, slot);
    }
    t->wave_lo = t->wave_hi;
}

/* Of a batch, what is resident, while the others' reads proceed.  Where nothing is: all that has a
 * slot, or, when more waves follow, half, and the other half arrives meanwhile. */
static void first_wave(struct ig_engine *e)
{
    struct ig_tier *t = &e->tier;
    t->wave_hi = t->claimed < t->n ? (t->claimed + 1) / 2 : t->claimed;
    if (IG_MEM_YD_BYTES && e->batch->n > 1 && t->n_there > 0 && t->n_there < t->n)
        t->wave_hi = t->n_there;
}

void ig_tier_layer(struct ig_engine *e, int layer)
{
    struct ig_tier *t = &e->tier;
    int32_t chosen[IG_N_EXPERT];
    int n = 0;

    release(e); /* the layer before */
    if (t->n_early > 0) ig_mover_turn(&t->mover);
    ig_tier_landed(t);
    reap(t);
    t->layer = layer;
    use(e, layer);
    if (e->batch->n == 1) {
        for (; n < IG_N_EXPERT_USED; n++) chosen[n] = ig_topk_id(e, 0)[n];
    } else {
        const int32_t *start = IG_BUF(e, ROUTE, int32_t);
        for (int x = 0; x < IG_N_EXPERT; x++)
            if (start[x] < start[x + 1]) chosen[n++] = x;
    }
    t->wave_lo = t->wave_hi = 0;
    order(e, layer, chosen, n);
    claim(e);
    first_wave(e);
    e->n_active = t->n;
#if IG_MEM_RLP_BYTES
    if (e->batch->n == 1) ig_ahead_routed(t, layer);
#endif
}

void ig_tier_next(struct ig_engine *e)
{
    struct ig_tier *t = &e->tier;
    const int ahead = t->claimed; /* under way since before the wave that ended */
    release(e);
    if (t->wave_lo == t->n) return;
    reap(t);
    claim(e);
    t->wave_hi = t->claimed == t->n || ahead == t->wave_lo ? t->claimed : ahead;
}

void ig_tier_batch(struct ig_engine *e)
{
    struct ig_tier *t = &e->tier;
    t->phase = e->batch->n == 1 ? IG_TIER_DECODE : IG_TIER_PREFILL;
    t->steps[t->phase]++;
    for (int i = 0; i < e->batch->n; i++) ig_xcache_token(&t->cache, e->batch->token[i]);
#if IG_MEM_RLP_BYTES
    ig_ahead_batch(e);
#endif
}

/* Never a wrong token: the program ends here, once, whichever threads see it. */
static _Noreturn void fail(struct ig_engine *e, int a)
{
    static atomic_flag first = ATOMIC_FLAG_INIT;
    const struct ig_move *v = &e->tier.move[e->tier.slot[a]];
    while (atomic_flag_test_and_set(&first)) pause();
    const uint64_t at = e->tier.base + v->err_at;
    if (v->err == IG_MOVE_HASH)
        ig_die("%s: layer %d expert %d at %" PRIu64 ": %" PRIu64
               " bytes with a wrong checksum: the file is damaged, or was changed while in use",
               e->file.path, e->tier.layer, e->active[a], at, v->bytes);
    if (v->err == IG_MOVE_END)
        ig_die("%s: layer %d expert %d at %" PRIu64
               ": the file ends here: it was cut short while in use",
               e->file.path, e->tier.layer, e->active[a], at);
    ig_die("%s: layer %d expert %d at %" PRIu64 ": cannot read: %s", e->file.path, e->tier.layer,
           e->active[a], at, strerror(v->err));
}

/* Until it is checked; or only, with `share`, while there is something for this thread to check. */
static void await(struct ig_engine *e, int a, int share)
{
    struct ig_tier *t = &e->tier;
    struct ig_move *v = &t->move[t->slot[a]];
    const double t0 = ig_seconds();
    const enum ig_move_state s =
        share ? ig_mover_arrive(&t->mover, v) : ig_mover_wait(&t->mover, v);
    if (!ig_move_usable(v) && !(share && s == IG_MOVE_ARRIVED)) fail(e, a);
    atomic_fetch_add_explicit(&t->count[t->phase][t->layer].stall_ns,
                              (uint64_t)((ig_seconds() - t0) * 1e9), memory_order_relaxed);
}

/* Waves let go of slots as they end, so they want experts that are checked. */
void ig_tier_wait(struct ig_engine *e, int a)
{
    await(e, a, e->batch->n == 1 && e->tier.wave_lo == 0 && e->tier.wave_hi == e->tier.n);
}

void ig_tier_sure(struct ig_engine *e)
{
    for (int a = 0; a < e->tier.n; a++)
        if (!ig_move_usable(&e->tier.move[e->tier.slot[a]])) await(e, a, 0);
}

#endif
