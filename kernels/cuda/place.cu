/* place.cu -- the expert cache of a decode step: what it holds for the next one, and what the CPU is asked.
 *
 * Uses fade by a constant factor a step (decayed frequency, as runtime/cache/policy_decay.c), so a use
 * counts the more the later it was.  A newcomer takes the way of the least used expert.  Both parts run in
 * blocks of their own beside the experts' work (moe.cu).  A layer without a set has no reach.
 */
#include "args.h"
#include "place.h"

#if ROWS == 1 && N_WAY > 0

/* Worth of what each way holds; below all others when it is empty. */
IG_FN void weigh_ways(const struct chosen *c, float *worth, int ways, int threads)
{
    const int t = (int)threadIdx.x;
    for (int w = t; w < ways; w += threads) worth[w] = -1.0f;
    __syncthreads();
    for (int e = t; e < N_EXPERT; e += threads)
        if (c->way[e] >= 0) worth[c->way[e]] = c->use[e];
    __syncthreads();
}

/* One thread: what is counted, once ig_gate_up has ended. */
IG_FN void count_step(const struct ig_args *a, const struct chosen *c)
{
    uint32_t *n = a->xc.count;
    const unsigned took = (ig_clock() - (unsigned)ig_load_fresh((const int *)&n[IG_T_BEGAN])) / 32;
    int hit = 0, link = 0;
    for (int k = 0; k < N_EXPERT_USED; k++) {
        hit += c->at[k] >= 0 && !c->fill[k];
        link += c->fill[k];
    }
    n[IG_N_HIT] += (uint32_t)hit;
    n[IG_N_LINK] += (uint32_t)link;
    n[IG_N_CPU] += (uint32_t)(N_EXPERT_USED - hit - link);
    n[IG_N_LATE] += hit < N_EXPERT_USED;
    n[hit < N_EXPERT_USED ? IG_T_LATE : IG_T_HIT] += took;
}

/* The tables that the next step will read, from those of this one and what it chose.  Before
 * ig_after_previous: what it reads is older, and what it writes nobody reads in this step. */
IG_FN void keep_set(const struct ig_args *a, struct chosen *c, int threads)
{
    IG_SHARED float worth[N_WAY];
    const int t = (int)threadIdx.x, to = table_of(a, 1), ways = a->xc.ways;
    for (int e = t; e < N_EXPERT; e += threads) {
        int way = c->way[e];
        float use = c->use[e] * CACHE_FADE;
        for (int k = 0; k < N_EXPERT_USED; k++) {
            if (c->fill[k] && c->at[k] == way) way = -1; /* given up */
            if (c->r.id[k] == e) use += 1.0f;            /* ids of a row differ */
        }
        for (int k = 0; k < N_EXPERT_USED; k++)
            if (c->fill[k] && c->r.id[k] == e) way = c->at[k];
        c->use[e] = use;
        c->way[e] = way;
        a->xc.use[to * N_EXPERT + e] = use;
        a->xc.way[to * N_EXPERT + e] = way;
    }
    __syncthreads();
    weigh_ways(c, worth, ways, threads);
    for (int w = t; w < ways; w += threads) {
        int below = 0; /* ties go to the lower way */
        for (int v = 0; v < ways; v++) below += worth[v] < worth[w] || (worth[v] == worth[w] && v < w);
        if (below < VICTIMS) a->xc.victim[to * VICTIMS + below] = worth[w] < 0.0f ? w | EMPTY_WAY : w;
    }
}

/* Which experts the CPU shall compute and what they read; then the number of the step, share or none.
 * What it answers goes where ig_down reads it. */
IG_FN void ask_cpu(const struct ig_args *a, const struct chosen *c, int threads)
{
    enum { WORDS = N_EMBD / QB * (int)sizeof(struct ig_xq) / 4 };
    const int t = (int)threadIdx.x;
    int n = 0;
    for (int k = 0; k < N_EXPERT_USED; k++) {
        if (c->at[k] >= 0) continue;
        if (t == 0) {
            a->xc.asked[1 + n] = k;
            a->xc.asked[1 + N_EXPERT_USED + n] = c->r.id[k];
        }
        n++;
    }
    if (n > 0) {
        const int *xq = (const int *)(const void *)a->xq;
        for (int i = t; i < WORDS && ANY_BLOCK(FMT_GATE_UP); i += threads)
            ((int *)(void *)a->xc.asked_xq)[i] = xq[i];
        for (int i = t; i < N_EMBD && ANY_FLOAT(FMT_GATE_UP); i += threads)
            a->xc.asked_xn[i] = a->xn[i];
    }
    if (t == 0) a->xc.asked[0] = n;
    ig_host_fence();
    __syncthreads();
    if (t == 0) {
        ig_post_host(a->xc.posted, *a->xc.step);
        if (n > 0) ig_await_host(a->xc.done, *a->xc.step);
    }
    __syncthreads();
    for (int k = 0; k < N_EXPERT_USED; k++)
        for (int i = t; i < N_EMBD && c->at[k] < 0; i += threads)
            a->y[(size_t)k * N_EMBD + (size_t)i] = ig_load_host(a->xc.answer + (size_t)k * N_EMBD + (size_t)i);
}

#endif
