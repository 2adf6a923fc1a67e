/* ahead.cu -- guesses: what a layer further on will want comes into its set, or the CPU's caches, while this works.
 *
 * The layer's own router on the present residual stream says it (ig_router's last blocks made the logits), or
 * a record (bench --route).  A block beside the experts' work changes that layer's tables for this very
 * step, which nobody reads before, and asks the host for copies.  Another one, or the same where both guess
 * the same layer, says what the CPU will have to compute.  What is wrong of it costs a way and time of
 * the link, never bits.
 */
#include "args.h"
#include "place.h"

#if ROWS == 1 && N_WAY > 0

/* Ids of the likely experts, best first; -1: none.  Groups are not minded: it is a guess. */
IG_FN void guess(const struct ig_dahead *h, struct routing *r, int threads, int force)
{
    const int t = (int)threadIdx.x;
    if (t < N_EXPERT_USED) r->id[t] = force > 1 ? ig_load_fresh(h->recorded + t) : -1;
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

/* What is asked for: so many experts, and the ways that they get. */
struct guessed {
    int n, expert[IG_AHEAD_EACH], way[IG_AHEAD_EACH];
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
    const int room = c->split[N_EXPERT_USED + IG_SPLIT_AHEAD] - under_way(c);
    for (int k = 0; k < N_EXPERT_USED && g->n < LEAST(room, IG_AHEAD_EACH); k++) {
        const int e = c->r.id[k];
        int asked = 0; /* a record may name one twice */
        for (int i = 0; i < g->n; i++) asked |= g->expert[i] == e;
        if (asked || e < 0 || e >= N_EXPERT || c->way[e] >= 0 || !reachable(a, c, h->before, e)) continue;
        if (h->ways - N_EXPERT_USED - c->filling <= 0) return;
        const int way = give_up(c);
        if (way < 0) return;
        g->expert[g->n] = e;
        g->way[g->n++] = way;
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

/* Before ig_after_previous: what is there of the guessed layer's set. */
IG_FN void load_ahead(const struct ig_args *a, struct chosen *c, const struct ig_dahead *h, int threads)
{
    const int t = (int)threadIdx.x;
    for (int e = t; e < N_EXPERT; e += threads) c->way[e] = load_table(a, h->way + e, N_EXPERT);
    load_victims(a, c, h->victim, h->ways);
    if (t < N_EXPERT_USED + IG_SPLIT_MORE) c->split[t] = ig_load_fresh(a->xc.split + t);
    if (t < 2 * IG_N_FILL) c->seen[t] = ig_load_fresh(a->xc.seen + t);
}

/* What comes into ahead's set. */
IG_FN void fetch_guessed(const struct ig_args *a, struct chosen *c, struct guessed *g, int threads)
{
    const struct ig_dahead *h = &a->xc.ahead;
    const int t = (int)threadIdx.x;
    if (t == 0) want(a, c, g);
    __syncthreads();
    change_tables(a, c, g, threads);
    if (t < g->n) {
        ig_tell_host(h->asked + 1 + t, g->expert[t], *a->xc.step);
        ig_tell_host(h->asked + 1 + IG_AHEAD_EACH + t, g->way[t], *a->xc.step);
    }
    if (t > 0) return;
    if (g->n > 0) {
        ig_tell_host(h->asked, g->n, *a->xc.step);
        ig_tell_host(h->asked + 1 + 2 * IG_AHEAD_EACH, c->seen[IG_N_FILL + IG_AHEAD] + 1, *a->xc.step);
    }
    a->xc.begun[IG_AHEAD] = c->seen[IG_N_FILL + IG_AHEAD] + g->n;
    h->count[IG_N_AHEAD] += (uint32_t)g->n;
}

/* Will the expert, whose word this is, be the CPU's: missing, or on its way with others before it? */
IG_FN int will_lack(const struct ig_args *a, const struct chosen *c, int e)
{
    const int word = c->way[e], by = word >= 0 ? filled_by(word) : 0;
    if (word < 0 || !(word & COMING)) return word < 0;
    return IG_BEYOND(ig_load_fresh(a->xc.next.fill + table_of(a, 0) * N_EXPERT + e), c->seen[by]) > 1;
}

/* One thread: what will be missing of next's experts, but for those that are asked for. */
IG_FN void say_missing(const struct ig_args *a, const struct chosen *c, const struct guessed *g)
{
    uint64_t *const to = a->xc.next.warm;
    int n = 0;
    for (int k = 0; k < N_EXPERT_USED && n < c->split[N_EXPERT_USED + IG_SPLIT_WARM]; k++) {
        const int e = c->r.id[k];
        int gone = e < 0 || e >= N_EXPERT || !will_lack(a, c, e);
        for (int i = 0; i < g->n; i++) gone |= g->expert[i] == e;
        if (!gone) ig_tell_host(to + 1 + n++, e, *a->xc.step);
    }
    if (n > 0) ig_tell_host(to, n, *a->xc.step);
}

/* The block's work; with limits of 0 there is none.  Nobody waits for it.  `fetches`, `warms`: it guesses ahead's,
 * next's layer. */
IG_FN void look_ahead(const struct ig_args *a, struct chosen *c, int threads, int force, int fetches, int warms)
{
    IG_SHARED struct guessed g;
    if (threadIdx.x == 0) g.n = 0;
    __syncthreads();
    fetches = fetches && c->split[N_EXPERT_USED + IG_SPLIT_AHEAD] > 0;
    warms = warms && c->split[N_EXPERT_USED + IG_SPLIT_WARM] > 0;
    if (!fetches && !warms) return;
    guess(fetches ? &a->xc.ahead : &a->xc.next, &c->r, threads, force);
    if (fetches) fetch_guessed(a, c, &g, threads);
    if (warms && threadIdx.x == 0) say_missing(a, c, &g);
}

#endif
