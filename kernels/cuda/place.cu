/* place.cu -- the expert cache of a decode step: hit, miss, victim, and who computes a miss.
 *
 * One block a layer, after the router.  Uses fade by a constant factor a step (decayed frequency,
 * as runtime/cache/policy_decay.c), so a use counts the more the later it was.  Of the misses that
 * the link can reach, split[m] of m take it, those used most first: they will be wanted again.
 * A newcomer takes the way of the least used expert.  A layer without a set has no reach.
 */
#include "args.h"
#include "place.h"

#if ROWS == 1 && N_WAY > 0

struct decision {
    struct routing r;
    int hit[N_EXPERT_USED];    /* way of a rank's expert, -1: it is missing */
    float worth[N_EXPERT_USED];
    float use[N_EXPERT];
    int tag[N_WAY];
    int victim[N_EXPERT_USED]; /* ways to give up, the least used first; -1: none */
};

/* What the set holds and how much each expert is used, this step included. */
IG_FN void load_set(const struct ig_args *a, struct decision *d)
{
    const int t = (int)threadIdx.x;
    for (int e = t; e < N_EXPERT; e += PLACE_THREADS) d->use[e] = a->xc.use[e] * CACHE_FADE;
    for (int w = t; w < a->xc.ways; w += PLACE_THREADS) d->tag[w] = a->xc.tag[w];
    if (t < N_EXPERT_USED) {
        d->hit[t] = -1;
        d->victim[t] = -1;
    }
    __syncthreads();
    if (t < N_EXPERT_USED) d->use[d->r.id[t]] += 1.0f; /* ids of a row differ */
    __syncthreads();
    for (int e = t; e < N_EXPERT; e += PLACE_THREADS) a->xc.use[e] = d->use[e];
    if (t < N_EXPERT_USED) d->worth[t] = d->use[d->r.id[t]];
    for (int w = t; w < a->xc.ways; w += PLACE_THREADS)
        for (int k = 0; k < N_EXPERT_USED; k++)
            if (d->tag[w] == d->r.id[k]) d->hit[k] = w;
    __syncthreads();
}

/* Worth of what a way holds; below all others when it is empty, above them when this row needs it. */
IG_FN float way_worth(const struct decision *d, int w)
{
    const int e = d->tag[w];
    for (int k = 0; k < N_EXPERT_USED; k++)
        if (d->hit[k] == w) return INFINITY;
    return e < 0 ? -1.0f : d->use[e];
}

/* victim[i]: the way with i others below it; ties go to the lower way. */
IG_FN void find_victims(const struct ig_args *a, struct decision *d)
{
    IG_SHARED float worth[N_WAY];
    const int t = (int)threadIdx.x;
    for (int w = t; w < a->xc.ways; w += PLACE_THREADS) worth[w] = way_worth(d, w);
    __syncthreads();
    for (int w = t; w < a->xc.ways; w += PLACE_THREADS) {
        const float mine = worth[w];
        int below = 0;
        for (int v = 0; v < a->xc.ways; v++) below += worth[v] < mine || (worth[v] == mine && v < w);
        if (below < N_EXPERT_USED && mine < INFINITY) d->victim[below] = w;
    }
    __syncthreads();
}

/* Ranks that are missing, those used most first; returns how many. */
IG_FN int list_misses(const struct decision *d, int *list)
{
    int n = 0;
    for (int k = 0; k < N_EXPERT_USED; k++) {
        if (d->hit[k] >= 0) continue;
        int at = n++;
        for (; at > 0 && d->worth[list[at - 1]] < d->worth[k]; at--) list[at] = list[at - 1];
        list[at] = k;
    }
    return n;
}

IG_FN int reachable(const struct ig_args *a, int expert)
{
    return (uint64_t)(expert + 1) * a->expert_stride <= a->xc.reach;
}

/* A missing expert takes the link, into the next victim's way: a set has at least as many as a row
 * has experts. */
IG_FN void take_link(const struct ig_args *a, struct decision *d, struct ig_places *p, int k, int *next)
{
    const int e = d->r.id[k], w = d->victim[(*next)++];
    const uint64_t at = a->xc.set + (uint64_t)w * a->xc.slot_bytes;
    a->xc.tag[w] = e;
    p->at[k] = at;
    p->shift[k] = (int64_t)((uintptr_t)a->xc.host + (uint64_t)e * a->expert_stride -
                            ((uintptr_t)a->xc.slots + at));
}

/* One thread. */
IG_FN void decide(const struct ig_args *a, struct decision *d, struct ig_places *p)
{
    int miss[N_EXPERT_USED], n_hit = 0, n_link = 0, n_cpu = 0, next = 0, can = 0;
    const int n_miss = list_misses(d, miss);
    for (int k = 0; k < N_EXPERT_USED; k++) {
        p->id[k] = d->r.id[k];
        p->weight[k] = d->r.weight[k];
        p->cpu[k] = 0;
        p->shift[k] = 0;
        p->ready[k] = 0;
        p->at[k] = a->xc.set + (uint64_t)(d->hit[k] < 0 ? 0 : d->hit[k]) * a->xc.slot_bytes;
        if (d->hit[k] >= 0) p->order[n_hit++] = k;
    }
    for (int i = 0; i < n_miss; i++) can += reachable(a, d->r.id[miss[i]]);
    const int most = a->xc.split[can];
    for (int i = 0; i < n_miss; i++) {
        const int k = miss[i];
        if (n_link < most && reachable(a, d->r.id[k])) {
            take_link(a, d, p, k, &next);
            p->order[n_hit + n_link++] = k;
        } else {
            p->cpu[k] = 1;
            p->order[N_EXPERT_USED - 1 - n_cpu++] = k;
        }
    }
    /* A slowed link takes one expert after the other. */
    if (a->xc.link_ns) {
        const uint64_t now = ig_clock(), free = (uint64_t)ig_load_fresh8(&a->xc.now->link_free);
        p->link_free = now > free ? now : free;
        for (int i = n_hit; i < n_hit + n_link; i++) p->ready[p->order[i]] = p->link_free += a->xc.link_ns;
    }
    p->n_link = n_link;
    p->n_cpu = n_cpu;
    a->xc.count[0] += (uint32_t)n_hit;
    a->xc.count[1] += (uint32_t)n_link;
    a->xc.count[2] += (uint32_t)n_cpu;
}

/* What the CPU needs to compute its share; then the number of the step, share or none. */
IG_FN void ask(const struct ig_args *a, const struct ig_places *p)
{
    enum { WORDS = N_EMBD / QB * (int)sizeof(struct ig_xq) / 4 };
    const int t = (int)threadIdx.x;
    if (p->n_cpu > 0) {
        const int *xq = (const int *)(const void *)a->xq;
        for (int i = t; i < WORDS && ANY_BLOCK(FMT_GATE_UP); i += PLACE_THREADS)
            ((int *)(void *)a->xc.asked_xq)[i] = xq[i];
        for (int i = t; i < N_EMBD && ANY_FLOAT(FMT_GATE_UP); i += PLACE_THREADS)
            a->xc.asked_xn[i] = a->xn[i];
    }
    if (t < p->n_cpu) {
        const int k = p->order[N_EXPERT_USED - 1 - t];
        a->xc.asked[1 + t] = k;
        a->xc.asked[1 + N_EXPERT_USED + t] = p->id[k];
    }
    if (t == 0) a->xc.asked[0] = p->n_cpu;
    ig_host_fence();
    __syncthreads();
    if (t == 0) ig_post_host(a->xc.posted, *a->xc.step);
}

IG_KERNEL(ig_place, PLACE_THREADS, 1)
{
    IG_SHARED struct decision d;
    IG_SHARED struct ig_places p;
    const int t = (int)threadIdx.x, force = ig_load_fresh(a.force);
    ig_after_previous();
    route(&a, &d.r, 0, PLACE_THREADS, 1, force);
    load_set(&a, &d);
    find_victims(&a, &d);
    if (t == 0) decide(&a, &d, &p);
    __syncthreads();
    for (int i = t; i < (int)(sizeof p / 4); i += PLACE_THREADS)
        ((int *)(void *)a.xc.now)[i] = ((const int *)(const void *)&p)[i];
    if (a.xc.posted) ask(&a, &p);
}

#endif
