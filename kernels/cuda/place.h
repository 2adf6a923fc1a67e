/* place.h -- where a decode step's chosen experts are: at their place, or in slots of a cache.
 *
 * CACHED: ig_place decides once a layer and leaves struct ig_places.  An expert that is missing
 * comes over the link into a slot, filled by the blocks that are the first to read it, or the CPU
 * computes it.  Without a cache every block finds the experts from the router's logits.
 */
#ifndef IG_PLACE_H
#define IG_PLACE_H

#include "route.h"

/* An expert of a row: its rank (-1: the CPU's), bytes from expert 0's matrices, and the shift of
 * struct ig_places. */
struct spot {
    int rank;
    size_t expert;
    int64_t shift;
    uint64_t ready; /* as in struct ig_places */
};

/* The address in host memory for one in a slot. */
IG_FN const void *shifted(const void *p, int64_t shift)
{
    return (const void *)((uintptr_t)p + (uintptr_t)shift);
}

/* 128 threads copy a panel into its slot: all loads of a round are under way at once. */
IG_FN void fill_panel(const unsigned char *to, int64_t shift, unsigned bytes)
{
    enum { DEEP = 10, WIDE = PANEL_THREADS * 16 }; /* Q4_0 panels of 2048 columns in one round */
    const unsigned t = threadIdx.x % PANEL_THREADS;
    for (unsigned at = t * 16; at < bytes; at += DEEP * WIDE) {
        ig_u4 v[DEEP];
        UNROLL for (unsigned i = 0; i < DEEP; i++)
            if (at + i * WIDE < bytes) v[i] = ig_load16(shifted(to + at + i * WIDE, shift));
        UNROLL for (unsigned i = 0; i < DEEP; i++)
            if (at + i * WIDE < bytes) *(ig_u4 *)((uintptr_t)to + at + i * WIDE) = v[i];
    }
}

/* The i-th expert to work on, after ig_after_previous. */
IG_FN struct spot spot_of(const struct ig_args *a, struct routing *r, int i, int force)
{
    struct spot s = { i, 0, 0, 0 };
    if (CACHED) {
        const struct ig_places *now = a->xc.now;
        s.rank = ig_load_fresh(&now->order[i]);
        s.expert = (size_t)ig_load_fresh8(&now->at[s.rank]);
        s.shift = (int64_t)ig_load_fresh8(&now->shift[s.rank]);
        if (a->xc.link_ns) s.ready = (uint64_t)ig_load_fresh8(&now->ready[s.rank]);
        if (ig_load_fresh(&now->cpu[s.rank])) s.rank = -1;
    } else {
        route(a, r, 0, GATE_UP_THREADS, 0, force);
        s.expert = (size_t)r->id[i] * a->expert_stride;
    }
    return s;
}

/* All of them, rank by rank, and ids and weights into r; ends in a barrier. */
IG_FN void spots_by_rank(const struct ig_args *a, struct routing *r, struct spot *s)
{
    const int t = (int)threadIdx.x;
    if (t < N_EXPERT_USED) {
        s[t].rank = t;
        s[t].shift = 0;
        s[t].expert = (size_t)r->id[t] * a->expert_stride;
        if (CACHED && a->routed) {
            const struct ig_places *now = a->xc.now;
            r->id[t] = ig_load_fresh(&now->id[t]);
            r->weight[t] = ig_load_float(&now->weight[t]);
            s[t].rank = ig_load_fresh(&now->cpu[t]) ? -1 : t;
            s[t].expert = (size_t)ig_load_fresh8(&now->at[t]);
            s[t].shift = (int64_t)ig_load_fresh8(&now->shift[t]);
        }
    }
    __syncthreads();
}

/* 16 rows of what the CPU computed, when it is there. */
IG_FN void take_answers(const struct ig_args *a, const struct spot *s, float (*y)[PR], int threads)
{
    if (!a->routed || ig_load_fresh(&a->xc.now->n_cpu) == 0) return;
    if (threadIdx.x == 0) ig_await_host(a->xc.done, *a->xc.step);
    __syncthreads();
    for (int i = (int)threadIdx.x; i < N_EXPERT_USED * PR; i += threads) {
        const int r = (int)blockIdx.x * PR + i % PR;
        if (s[i / PR].rank < 0 && r < N_EMBD)
            y[i / PR][i % PR] = ig_load_host(a->xc.answer + (size_t)(i / PR) * N_EMBD + (size_t)r);
    }
    __syncthreads();
}

#endif
