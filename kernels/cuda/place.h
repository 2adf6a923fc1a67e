/* place.h -- where a decode step's chosen experts are: at their place, or in slots of a cache.
 *
 * CACHED: every block that needs the chosen experts looks them up itself, by tables that the step
 * before left (place.cu keeps them), so that no kernel stands between the router and the experts.
 * All come to the same answer.  An expert that is missing comes over the link into a slot, filled by
 * the blocks that are the first to read it, or the CPU computes it.  Of the misses that the link can
 * reach, split[m] of m take it, and with split[0] at least as many as the set has empty ways; those
 * used most first: they will be wanted again.  Of the others, which the CPU computes, some come into a slot
 * behind the work (struct ig_ask's limit): from now on the way belongs to nobody, and to the expert once
 * its fill has arrived.  At least as many ways as a row has experts are never being filled.
 */
#ifndef IG_PLACE_H
#define IG_PLACE_H

#include "route.h"

#if N_EXPERT > 0
enum {
    REACH_PAGE = 4096,
    EMPTY_WAY = 1 << 16, /* beside a victim's number: it holds no expert */
    NO_WAY = -2,         /* in its place: there are no more */
    COMING = 1 << 16,    /* beside an expert's way: its fill brings it there, or has */
    UNUSED = 1 << 17,    /* a fill brought it and it was not used yet */
    BY_AHEAD = 1 << 18,  /* the fill is a prefetch */
    JUST_WAY = COMING - 1,
    VICTIMS = 2 * N_EXPERT_USED, /* as many as a row can use, and as many that it may hit */
    VICTIM_WORDS = VICTIMS + 1,
    SET_EXPERTS = CACHED ? N_EXPERT : 1,
    SET_WAYS = CACHED ? N_WAY : 1
};

/* In shared memory: a row's experts, rank by rank, and what its layer's set holds. */
struct chosen {
    struct routing r;
    int way[SET_EXPERTS]; /* of an expert, -1: it is missing; -2 - way: it is on its way there */
    float use[SET_EXPERTS], held[SET_WAYS]; /* of an expert; of a way's, below 0: it has none */
    int victim[VICTIMS];  /* ways to give up, the least used first */
    int filling, seen[2 * IG_N_FILL]; /* ways that are being filled; fills that have arrived, and begun */
    int split[N_EXPERT_USED + IG_SPLIT_MORE];
    int at[N_EXPERT_USED];     /* a rank's way, below 0: the CPU computes it */
    int fill[N_EXPERT_USED];   /* 1: the way is to be filled first */
    int behind[N_EXPERT_USED]; /* of the CPU's: the way that is filled behind the work, -1: none */
    int wait[N_EXPERT_USED];   /* 1: the way is nearly filled, by the fill `number` that `by` counts */
    int number[N_EXPERT_USED], by[N_EXPERT_USED];
};
#endif

/* An expert of a row: its rank (-1: the CPU's), bytes from expert 0's matrices, and from their
 * address to that in host memory where they are to be fetched from (0: they are there). */
struct spot {
    int rank;
    size_t expert;
    int64_t shift;
    unsigned wait; /* ns until a slowed link has delivered it; 0: none */
    int late;      /* 1: it is there only when ig_gate_up has ended */
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

/* Which numbers a table's word means. */
IG_FN int filled_by(int word) { return word & BY_AHEAD ? IG_AHEAD : IG_BEHIND; }

/* What a table says of an expert's way, when so many fills have arrived -> as in struct chosen. */
IG_FN int way_now(int word, int fill, int behind, int ahead)
{
    if (word < 0) return -1;
    const int coming = word & COMING && IG_BEYOND(word & BY_AHEAD ? ahead : behind, fill) < 0;
    return coming ? -2 - (word & JUST_WAY) : word & JUST_WAY;
}

/* A word of the copy that this step reads, of two `apart`: both are asked for while the step's number is on its
 * way. */
IG_FN int load_table(const struct ig_args *a, const int32_t *word, int apart)
{
    const int first = ig_load_fresh(word), second = ig_load_fresh(word + apart);
    return table_of(a, 0) ? second : first;
}

/* Victims as in struct chosen, and how many ways are being filled. */
IG_FN void load_victims(const struct ig_args *a, struct chosen *c, const int32_t *victim, int ways)
{
    const int t = (int)threadIdx.x;
    if (t >= VICTIM_WORDS) return;
    const int way = load_table(a, victim + t, VICTIM_WORDS);
    if (t == VICTIMS) c->filling = way > 0 ? way : 0;
    else c->victim[t] = way != -1 ? way : t < ways ? t | EMPTY_WAY : NO_WAY;
}

/* What the set holds; known before ig_after_previous.  A victim of -1 is that of an empty set, whose
 * order is that of the ways. */
IG_FN void load_set(const struct ig_args *a, struct chosen *c, int threads)
{
    const int t = (int)threadIdx.x;
    const int behind = ig_load_fresh(a->xc.seen + IG_BEHIND), ahead = ig_load_fresh(a->xc.seen + IG_AHEAD);
    for (int w = t; w < SET_WAYS; w += threads) c->held[w] = -1.0f;
    __syncthreads();
    for (int e = t; e < N_EXPERT; e += threads) {
        const float first = ig_load_float(a->xc.use + e), second = ig_load_float(a->xc.use + N_EXPERT + e);
        c->way[e] = way_now(load_table(a, a->xc.way + e, N_EXPERT), load_table(a, a->xc.fill + e, N_EXPERT), behind,
                            ahead);
        c->use[e] = table_of(a, 0) ? second : first;
        if (c->way[e] >= 0) c->held[c->way[e]] = c->use[e];
    }
    load_victims(a, c, a->xc.victim, a->xc.ways);
    if (t < N_EXPERT_USED + IG_SPLIT_MORE) c->split[t] = ig_load_fresh(a->xc.split + t);
    if (t < 2 * IG_N_FILL) c->seen[t] = ig_load_fresh(a->xc.seen + t);
}

/* Of the experts' bytes so many pages are mapped in this step (pinning goes on beside it).  `before`: of the
 * expert's layer. */
IG_FN int reachable(const struct ig_args *a, const struct chosen *c, uint64_t before, int expert)
{
    const uint64_t to = before + (uint64_t)(expert + 1) * a->expert_stride;
    return to <= (uint64_t)(unsigned)c->split[N_EXPERT_USED + IG_SPLIT_PAGES] * REACH_PAGE;
}

/* Fills that have been asked for and have not arrived, of all layers. */
IG_FN int under_way(const struct chosen *c)
{
    int n = 0;
    for (int i = 0; i < IG_N_FILL; i++) n += IG_BEYOND(c->seen[IG_N_FILL + i], c->seen[i]);
    return n;
}

/* The i-th way to give up that this row does not need. */
IG_FN int take_victim(const struct chosen *c, int i)
{
    for (int j = 0; j < VICTIMS; j++) {
        int hit = c->victim[j] == NO_WAY;
        for (int k = 0; k < N_EXPERT_USED; k++) hit |= c->way[c->r.id[k]] == c->victim[j];
        if (!hit && i-- == 0) return c->victim[j] & ~EMPTY_WAY;
    }
    return 0; /* a set has at least as many ways that are not being filled as a row has experts */
}

/* So many fills may begin behind this layer's work; `wanted`: of what no prefetch would bring. */
IG_FN int fills_left(const struct ig_args *a, const struct chosen *c, int wanted)
{
    const int *const split = c->split + N_EXPERT_USED;
    const int least = wanted && split[IG_SPLIT_AHEAD] > 0 ? IG_BEHIND_LEAST : 0;
    const int most = (split[IG_SPLIT_BEHIND] > least ? split[IG_SPLIT_BEHIND] : least) - under_way(c);
    return LEAST(most, a->xc.ways - N_EXPERT_USED - c->filling);
}

/* A slow link brings few experts: only what is used more than what it would replace, by more than chance has
 * counts of so many uses differ.  (That halves what is copied, and hits stay as they are: bench/LOG.tsv.) */
IG_FN int worth_a_fill(const struct chosen *c, int e, int way)
{
    const float held = c->held[way], more = c->use[e] + 1.0f - held;
    if (c->split[N_EXPERT_USED + IG_SPLIT_WAIT] || held < 0.0f) return 1;
    return more > 0.0f && more * more > held;
}

/* An expert on its way that is the next to arrive is waited for, unless the link is slow. */
IG_FN void wait_or_not(const struct ig_args *a, struct chosen *c, int k)
{
    const int e = c->r.id[k], from = table_of(a, 0);
    c->wait[k] = 0;
    if (c->way[e] >= -1 || !c->split[N_EXPERT_USED + IG_SPLIT_WAIT]) return;
    c->by[k] = filled_by(ig_load_fresh(a->xc.way + from * N_EXPERT + e));
    c->number[k] = ig_load_fresh(a->xc.fill + from * N_EXPERT + e);
    const int before = IG_BEYOND(c->number[k], c->seen[c->by[k]]) - 1, other = 1 - c->by[k];
    c->wait[k] = before + IG_BEYOND(c->seen[IG_N_FILL + other], c->seen[other]) == 0;
}

/* Hit, link or CPU for each rank, once ids are there; ends in a barrier. */
IG_FN void place(const struct ig_args *a, struct chosen *c)
{
    const int k = (int)threadIdx.x;
    if (k < N_EXPERT_USED) {
        const int e = c->r.id[k], way = c->way[e], can = way == -1 && reachable(a, c, a->xc.before, e);
        int all = 0, before = 0, empty = 0; /* reachable misses; those that come before this one */
        for (int j = 0; j < N_EXPERT_USED && can; j++) {
            const int other = c->r.id[j];
            if (c->way[other] != -1 || !reachable(a, c, a->xc.before, other)) continue;
            all++;
            before += c->use[other] > c->use[e] || (c->use[other] == c->use[e] && j < k);
        }
        for (int j = 0; j < VICTIMS && can; j++) empty += c->victim[j] >= EMPTY_WAY; /* they come first */
        const int least = c->split[0] ? empty : 0, over = c->split[all] > least ? c->split[all] : least;
        const int link = can && before < over;
        c->fill[k] = link;
        wait_or_not(a, c, k);
        c->at[k] = link ? take_victim(c, before) : c->wait[k] ? -2 - way : way;
        const int left = fills_left(a, c, a->xc.alone || before < empty);
        const int behind = can && !link && before - over < left ? take_victim(c, before) : -1;
        c->behind[k] = behind >= 0 && worth_a_fill(c, e, behind) ? behind : -1;
    }
    __syncthreads();
}

/* Rank k after place(). */
IG_FN struct spot spot_of(const struct ig_args *a, const struct chosen *c, int k)
{
    struct spot s = { k, 0, 0, 0, 0 };
    const uint64_t from = (uint64_t)c->r.id[k] * a->expert_stride;
    if (!CACHED) {
        s.expert = (size_t)from;
        return s;
    }
    if (c->at[k] < 0) s.rank = -1;
    else s.expert = (size_t)(a->xc.set + (uint64_t)c->at[k] * a->xc.slot_bytes);
    s.late = c->fill[k] || c->wait[k];
    if (c->fill[k]) {
        s.shift = (int64_t)((uintptr_t)a->xc.host + from - ((uintptr_t)a->xc.slots + s.expert));
        for (int i = 0; i <= k; i++) s.wait += c->fill[i] ? a->xc.link_ns : 0; /* one after the other */
    }
    return s;
}

/* Ids of the first `ranks`, with `weights` what weigh() needs, and places of a row's experts: the router's
 * kernel has ended. */
IG_FN void choose_places(const struct ig_args *a, struct chosen *c, int threads, int ranks, int weights, int force)
{
    route(a, &c->r, 0, threads, ranks, weights, force);
    if (CACHED) place(a, c);
}

#endif

#endif
