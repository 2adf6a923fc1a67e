/* ahead.cu -- prefetch: what a layer further on will want comes into its set while this one works.
 *
 * The layer's own router on the present residual stream says it (ig_router's last blocks made the logits), or
 * a record (bench --route).  One block beside the experts' work changes that layer's tables for this very
 * step, which nobody reads before, and asks the host for copies.  What is wrong of it costs a way and time of
 * the link, never bits.
 */
#include "args.h"
#include "place.h"

#if ROWS == 1 && N_WAY > 0

/* Ids of the likely experts, best first; -1: none.  Groups are not minded: it is a guess. */
IG_FN void guess(const struct ig_args *a, struct routing *r, int threads, int force)
{
    const struct ig_dahead *h = &a->xc.ahead;
    const int t = (int)threadIdx.x;
    if (t < N_EXPERT_USED) r->id[t] = force > 1 ? ig_load_host_int(h->recorded + t) : -1;
    if (force) {
        __syncthreads();
        return;
    }
    for (int e = t; e < N_EXPERT; e += threads) {
        const float x = ig_load_float(h->rl + e);
        r->score[e] = !ROUTE_SIGMOID ? x : 1.0f / (1.0f + ig_expf(-x)) + (h->route_bias ? h->route_bias[e] : 0.0f);
    }
    __syncthreads();
    for (int e = t; e < N_EXPERT; e += threads) {
        const float mine = r->score[e];
        int before = 0;
        for (int j = 0; j < N_EXPERT; j++) before += r->score[j] > mine || (r->score[j] == mine && j < e);
        if (before < N_EXPERT_USED && mine == mine) r->id[before] = e;
    }
    __syncthreads();
}

/* What is asked for: so many experts, and the ways that they get; those that will be missing none the less. */
struct guessed {
    int n, expert[IG_AHEAD_EACH], way[IG_AHEAD_EACH];
    int n_warm, warm[N_EXPERT_USED];
};

/* The least used way that none of the guessed experts has. */
IG_FN int give_up(struct chosen *c)
{
    for (int j = 0; j < VICTIMS; j++) {
        const int way = c->victim[j];
        int needed = way == NO_WAY;
        for (int k = 0; k < N_EXPERT_USED && !needed; k++) {
            const int e = c->r.id[k], word = e >= 0 ? c->way[e] : -1;
            needed = word >= 0 && (word & JUST_WAY) == way;
        }
        if (needed) continue;
        c->victim[j] = NO_WAY;
        c->filling++;
        return way & JUST_WAY;
    }
    return -1;
}

/* One thread.  c->way has the table's words. */
IG_FN void want(const struct ig_args *a, struct chosen *c, struct guessed *g)
{
    const struct ig_dahead *h = &a->xc.ahead;
    const int room = c->split[N_EXPERT_USED + IG_SPLIT_AHEAD] - under_way(c), warm = c->split[N_EXPERT_USED + IG_SPLIT_WARM];
    g->n = g->n_warm = 0;
    for (int k = 0; k < N_EXPERT_USED; k++) {
        const int e = c->r.id[k];
        if (e < 0 || e >= N_EXPERT || c->way[e] >= 0) continue;
        const int fetch = g->n < LEAST(room, IG_AHEAD_EACH) && reachable(a, c, h->before, e) &&
                          h->ways - N_EXPERT_USED - c->filling > 0;
        const int way = fetch ? give_up(c) : -1;
        if (way >= 0) {
            g->expert[g->n] = e;
            g->way[g->n++] = way;
        } else if (g->n_warm < warm) {
            g->warm[g->n_warm++] = e;
        }
    }
}

/* The tables of that layer for this step. */
IG_FN void change_tables(const struct ig_args *a, const struct chosen *c, const struct guessed *g, int threads)
{
    const struct ig_dahead *h = &a->xc.ahead;
    const int t = (int)threadIdx.x, from = table_of(a, 0);
    for (int e = t; e < N_EXPERT; e += threads)
        for (int i = 0; i < g->n; i++) {
            const int word = c->way[e];
            if (word >= 0 && (word & JUST_WAY) == g->way[i]) {
                h->way[from * N_EXPERT + e] = -1;
                if (word & UNUSED) atomicAdd(&h->count[word & BY_AHEAD ? IG_N_AHEAD_LOST : IG_N_BEHIND_LOST], 1u);
            }
            if (e != g->expert[i]) continue;
            h->way[from * N_EXPERT + e] = g->way[i] | COMING | UNUSED | BY_AHEAD;
            h->fill[from * N_EXPERT + e] = c->seen[IG_N_FILL + IG_AHEAD] + i + 1;
        }
    if (t < VICTIMS && g->n > 0) h->victim[from * VICTIM_WORDS + t] = c->victim[t];
    if (t == VICTIMS && g->n > 0) h->victim[from * VICTIM_WORDS + t] = c->filling;
}

/* Before ig_after_previous: what is there of that layer's set. */
IG_FN void load_ahead(const struct ig_args *a, struct chosen *c, int threads)
{
    const struct ig_dahead *h = &a->xc.ahead;
    const int t = (int)threadIdx.x, from = table_of(a, 0);
    for (int e = t; e < N_EXPERT; e += threads) c->way[e] = ig_load_fresh(h->way + from * N_EXPERT + e);
    load_victims(c, h->victim + from * VICTIM_WORDS, h->ways);
    if (t < N_EXPERT_USED + IG_SPLIT_MORE) c->split[t] = ig_load_fresh(a->xc.split + t);
    if (t < 2 * IG_N_FILL) c->seen[t] = ig_load_fresh(a->xc.seen + t);
}

/* The block's work; with a limit of 0 there is none, and nobody waits for it. */
IG_FN void look_ahead(const struct ig_args *a, struct chosen *c, int threads, int force)
{
    IG_SHARED struct guessed g;
    const struct ig_dahead *h = &a->xc.ahead;
    const int t = (int)threadIdx.x;
    __syncthreads();
    if (c->split[N_EXPERT_USED + IG_SPLIT_AHEAD] == 0 && c->split[N_EXPERT_USED + IG_SPLIT_WARM] == 0) return;
    guess(a, &c->r, threads, force);
    if (t == 0) want(a, c, &g);
    __syncthreads();
    change_tables(a, c, &g, threads);
    if (t < g.n) {
        h->asked[1 + t] = g.expert[t];
        h->asked[1 + IG_AHEAD_EACH + t] = g.way[t];
    }
    if (t < g.n_warm) h->asked[2 + 2 * IG_AHEAD_EACH + t] = g.warm[t];
    if (t == 0) {
        h->asked[0] = g.n;
        h->asked[1 + 2 * IG_AHEAD_EACH] = g.n_warm;
        a->xc.begun[IG_AHEAD] = c->seen[IG_N_FILL + IG_AHEAD] + g.n;
        h->count[IG_N_AHEAD] += (uint32_t)g.n;
    }
    if (g.n + g.n_warm == 0) return; /* nobody waits for it */
    ig_host_fence();
    __syncthreads();
    if (t == 0) ig_post_host(h->posted, *a->xc.step);
}

#endif
