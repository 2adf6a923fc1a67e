/* place.h -- where a decode step's chosen experts are: at their place, or in slots of a cache.
 *
 * CACHED: every block that needs the chosen experts looks them up itself, by tables that the step
 * before left (place.cu keeps them), so that no kernel stands between the router and the experts.
 * All come to the same answer.  An expert that is missing comes over the link into a slot, filled by
 * the blocks that are the first to read it, or the CPU computes it.  Of the misses that the link can
 * reach, split[m] of m take it, and with split[0] at least as many as the set has empty ways; those
 * used most first: they will be wanted again.
 */
#ifndef IG_PLACE_H
#define IG_PLACE_H

#include "route.h"

#if N_EXPERT > 0
enum {
    REACH_PAGE = 4096,
    EMPTY_WAY = 1 << 16, /* beside a victim's number: it holds no expert */
    VICTIMS = 2 * N_EXPERT_USED, /* as many as a row can use, and as many that it may hit */
    SET_EXPERTS = CACHED ? N_EXPERT : 1
};

/* In shared memory: a row's experts, rank by rank, and what its layer's set holds. */
struct chosen {
    struct routing r;
    int way[SET_EXPERTS]; /* of an expert, -1: it is missing */
    float use[SET_EXPERTS];
    int victim[VICTIMS];  /* ways to give up, the least used first */
    int split[N_EXPERT_USED + 2];
    int at[N_EXPERT_USED];   /* a rank's way, -1: the CPU computes it */
    int fill[N_EXPERT_USED]; /* 1: the way is to be filled first */
};
#endif

/* An expert of a row: its rank (-1: the CPU's), bytes from expert 0's matrices, and from their
 * address to that in host memory where they are to be fetched from (0: they are there). */
struct spot {
    int rank;
    size_t expert;
    int64_t shift;
    unsigned wait; /* ns until a slowed link has delivered it; 0: none */
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

#if N_EXPERT > 0

/* Steps take turns with two copies of the tables: a step reads one and leaves the other. */
IG_FN int table_of(const struct ig_args *a, int next)
{
    return (ig_load_fresh((const int *)a->xc.step) + next) & 1;
}

/* What the set holds; known before ig_after_previous.  A victim of -1 is that of an empty set, whose
 * order is that of the ways. */
IG_FN void load_set(const struct ig_args *a, struct chosen *c, int threads)
{
    const int t = (int)threadIdx.x, from = table_of(a, 0);
    for (int e = t; e < N_EXPERT; e += threads) {
        c->way[e] = ig_load_fresh(a->xc.way + from * N_EXPERT + e);
        c->use[e] = ig_load_float(a->xc.use + from * N_EXPERT + e);
    }
    if (t < VICTIMS) {
        const int way = ig_load_fresh(a->xc.victim + from * VICTIMS + t);
        c->victim[t] = way >= 0 ? way : t < a->xc.ways ? t | EMPTY_WAY : t;
    }
    if (t <= N_EXPERT_USED + 1) c->split[t] = ig_load_fresh(a->xc.split + t);
}

/* Of the experts' bytes so many pages are mapped in this step (pinning goes on beside it). */
IG_FN int reachable(const struct ig_args *a, const struct chosen *c, int expert)
{
    const uint64_t to = a->xc.before + (uint64_t)(expert + 1) * a->expert_stride;
    return to <= (uint64_t)(unsigned)c->split[N_EXPERT_USED + 1] * REACH_PAGE;
}

/* The i-th way to give up that this row does not need. */
IG_FN int take_victim(const struct chosen *c, int i)
{
    for (int j = 0; j < VICTIMS; j++) {
        int hit = 0;
        for (int k = 0; k < N_EXPERT_USED; k++) hit |= c->way[c->r.id[k]] == c->victim[j];
        if (!hit && i-- == 0) return c->victim[j] & ~EMPTY_WAY;
    }
    return 0; /* a set has at least as many ways as a row has experts */
}

/* Hit, link or CPU for each rank, once ids are there; ends in a barrier. */
IG_FN void place(const struct ig_args *a, struct chosen *c)
{
    const int k = (int)threadIdx.x;
    if (k < N_EXPERT_USED) {
        const int e = c->r.id[k], way = c->way[e], can = way < 0 && reachable(a, c, e);
        int all = 0, before = 0, empty = 0; /* reachable misses; those that come before this one */
        for (int j = 0; j < N_EXPERT_USED && can; j++) {
            const int other = c->r.id[j];
            if (c->way[other] >= 0 || !reachable(a, c, other)) continue;
            all++;
            before += c->use[other] > c->use[e] || (c->use[other] == c->use[e] && j < k);
        }
        for (int j = 0; j < VICTIMS && can && c->split[0]; j++) empty += (c->victim[j] & EMPTY_WAY) != 0;
        const int link = can && (before < c->split[all] || before < empty);
        c->fill[k] = link;
        c->at[k] = link ? take_victim(c, before) : way;
    }
    __syncthreads();
}

/* Rank k after place(). */
IG_FN struct spot spot_of(const struct ig_args *a, const struct chosen *c, int k)
{
    struct spot s = { k, 0, 0, 0 };
    const uint64_t from = (uint64_t)c->r.id[k] * a->expert_stride;
    if (!CACHED) {
        s.expert = (size_t)from;
        return s;
    }
    if (c->at[k] < 0) s.rank = -1;
    else s.expert = (size_t)(a->xc.set + (uint64_t)c->at[k] * a->xc.slot_bytes);
    if (c->fill[k]) {
        s.shift = (int64_t)((uintptr_t)a->xc.host + from - ((uintptr_t)a->xc.slots + s.expert));
        for (int i = 0; i <= k; i++) s.wait += c->fill[i] ? a->xc.link_ns : 0; /* one after the other */
    }
    return s;
}

/* Ids of the first `ranks`, with `weights` weights, and places of a row's experts: the router's kernel has ended. */
IG_FN void choose_places(const struct ig_args *a, struct chosen *c, int threads, int ranks, int weights, int force)
{
    route(a, &c->r, 0, threads, ranks, weights, force);
    if (CACHED) place(a, c);
}

#endif

#endif
