/* place.cu -- the expert cache of a decode step: what it holds for the next one, and what the CPU is asked.
 *
 * Uses fade by a constant factor a step (decayed frequency, as runtime/cache/policy_decay.c), so a use
 * counts the more the later it was.  A newcomer takes the way of the least used expert.  Both parts run in
 * blocks of their own beside the experts' work (moe.cu).  A layer without a set has no reach.
 */
#include "args.h"
#include "place.h"

#if ROWS == 1 && N_WAY > 0

/* Worth of what each way holds: below all others when it is empty, above while it is being filled. */
IG_FN void weigh_ways(const struct chosen *c, float *worth, int ways, int threads)
{
    const int t = (int)threadIdx.x;
    for (int w = t; w < ways; w += threads) worth[w] = -1.0f;
    __syncthreads();
    for (int e = t; e < N_EXPERT; e += threads) {
        if (c->way[e] >= 0) worth[c->way[e]] = c->use[e];
        if (c->way[e] < -1) worth[-2 - c->way[e]] = INFINITY;
    }
    __syncthreads();
}

/* One thread: what is counted, once ig_gate_up has ended. */
IG_FN void count_step(const struct ig_args *a, const struct chosen *c)
{
    uint32_t *n = a->xc.count;
    const unsigned took = (ig_clock() - (unsigned)ig_load_fresh((const int *)&n[IG_T_BEGAN])) / 32;
    int hit = 0, link = 0, behind = 0, waited = 0;
    for (int k = 0; k < N_EXPERT_USED; k++) {
        hit += c->at[k] >= 0 && !c->fill[k] && !c->wait[k];
        waited += c->wait[k];
        link += c->fill[k];
        behind += c->behind[k] >= 0;
    }
    n[IG_N_HIT] += (uint32_t)hit;
    n[IG_N_LINK] += (uint32_t)link;
    n[IG_N_CPU] += (uint32_t)(N_EXPERT_USED - hit - link - waited);
    n[IG_N_WAITED] += (uint32_t)waited;
    n[IG_N_BEHIND] += (uint32_t)behind;
    n[IG_N_LATE] += hit < N_EXPERT_USED;
    n[hit < N_EXPERT_USED ? IG_T_LATE : IG_T_HIT] += took;
}

/* Where expert e is in the next step, whose table has `word` of it now -> the word that it shall have. */
IG_FN int keep_expert(const struct ig_args *a, struct chosen *c, int e, int word, int *fill)
{
    int way = c->way[e], marks = word >= 0 ? word & (UNUSED | BY_AHEAD) : 0, fills = c->seen[IG_N_FILL + IG_BEHIND];
    const int counted = marks & BY_AHEAD ? IG_N_AHEAD_USED : IG_N_BEHIND_USED;
    for (int k = 0; k < N_EXPERT_USED; k++) {
        const int taken = c->fill[k] ? c->at[k] : c->behind[k], mine = c->r.id[k] == e; /* ids of a row differ */
        fills += c->behind[k] >= 0;
        if (way >= 0 && taken == way) { /* given up */
            if (marks & UNUSED) atomicAdd(&a->xc.count[counted + 1], 1u);
            way = -1;
        }
        if (!mine) continue;
        if ((way >= 0 || c->wait[k]) && marks & UNUSED) {
            atomicAdd(&a->xc.count[counted], 1u);
            marks &= ~UNUSED;
        }
        if (taken < 0) continue;
        marks = c->fill[k] ? 0 : UNUSED;
        way = c->fill[k] ? taken : -2 - taken;
        if (!c->fill[k]) *fill = fills;
    }
    c->way[e] = way;
    if (way >= 0) return way | (marks & UNUSED ? marks : 0);
    return way < -1 ? (-2 - way) | COMING | marks : -1;
}

/* The tables that the next step will read, from those of this one and what it chose.  Before
 * ig_after_previous: what it reads is older, and what it writes nobody reads in this step. */
IG_FN void keep_set(const struct ig_args *a, struct chosen *c, int threads)
{
    IG_SHARED float worth[N_WAY];
    const int t = (int)threadIdx.x, to = table_of(a, 1), from = 1 - to, ways = a->xc.ways;
    const float fade = (float)c->split[N_EXPERT_USED + IG_SPLIT_FADE] / IG_FADE_ONE;
    for (int e = t; e < N_EXPERT; e += threads) {
        int fill = ig_load_fresh(a->xc.fill + from * N_EXPERT + e);
        const int word = keep_expert(a, c, e, ig_load_fresh(a->xc.way + from * N_EXPERT + e), &fill);
        float use = c->use[e] * fade;
        for (int k = 0; k < N_EXPERT_USED; k++) use += c->r.id[k] == e ? 1.0f : 0.0f;
        c->use[e] = use;
        a->xc.use[to * N_EXPERT + e] = use;
        a->xc.way[to * N_EXPERT + e] = word;
        a->xc.fill[to * N_EXPERT + e] = fill;
    }
    __syncthreads();
    weigh_ways(c, worth, ways, threads);
    int filling = 0;
    for (int w = t; w < ways; w += threads) {
        int below = 0; /* ties go to the lower way */
        for (int v = 0; v < ways; v++) {
            below += worth[v] < worth[w] || (worth[v] == worth[w] && v < w);
            filling += w == 0 && worth[v] == INFINITY;
        }
        if (below < VICTIMS)
            a->xc.victim[to * VICTIM_WORDS + below] = worth[w] < 0.0f        ? w | EMPTY_WAY
                                                      : worth[w] == INFINITY ? NO_WAY
                                                                             : w;
    }
    if (t > 0) return;
    int fills = c->seen[IG_N_FILL + IG_BEHIND];
    for (int k = 0; k < N_EXPERT_USED; k++) fills += c->behind[k] >= 0;
    a->xc.victim[to * VICTIM_WORDS + VICTIMS] = filling;
    a->xc.begun[IG_BEHIND] = fills;
}

/* What the CPU answered, to where ig_down reads it: all reads of a round are under way at once. */
IG_FN void take_answer(const struct ig_args *a, const struct chosen *c, int threads)
{
    enum { WIDE = N_EMBD % 4 == 0 ? 4 : 1 };
    for (int i = (int)threadIdx.x * WIDE; i < N_EMBD; i += threads * WIDE) {
        ig_u4 v[N_EXPERT_USED];
        UNROLL for (int k = 0; k < N_EXPERT_USED; k++)
        {
            const float *from = a->xc.answer + (size_t)k * N_EMBD + (size_t)i;
            if (c->at[k] >= 0) continue;
            if (WIDE == 4) v[k] = ig_load16_host(from);
            else a->y[(size_t)k * N_EMBD + (size_t)i] = ig_load_host(from);
        }
        UNROLL for (int k = 0; k < N_EXPERT_USED && WIDE == 4; k++)
            if (c->at[k] < 0) *(ig_u4 *)(void *)(a->y + (size_t)k * N_EMBD + (size_t)i) = v[k];
    }
}

/* Which experts the CPU shall compute and what they read, in words that say which step they are of, so that no
 * order among them counts; and which layer asks. */
IG_FN void ask_cpu(const struct ig_args *a, const struct chosen *c, int threads)
{
    enum { WORDS = N_EMBD / QB * (int)sizeof(struct ig_xq) / 4 };
    const int t = (int)threadIdx.x;
    const unsigned step = *a->xc.step;
    int n = 0;
    for (int k = 0; k < N_EXPERT_USED; k++) {
        if (c->at[k] >= 0) continue;
        n++;
        if (t > 0) continue;
        ig_tell_host(a->xc.asked + n, k, step);
        ig_tell_host(a->xc.asked + n + N_EXPERT_USED, c->r.id[k], step);
        ig_tell_host(a->xc.asked + n + 2 * N_EXPERT_USED, c->behind[k], step);
    }
    /* A write that has to be seen on the other side of a busy link takes long. */
    if (n == 0 && !a->xc.last && !c->split[N_EXPERT_USED + IG_SPLIT_EACH]) return;
    if (t == 0) ig_tell_host(a->xc.asked, n, step);
    if (t == 0) ig_tell_host(a->xc.asked + 1 + 3 * N_EXPERT_USED, c->seen[IG_N_FILL + IG_AHEAD], step);
    if (t == 0) ig_post_host(a->xc.posted, step * N_LAYER + (unsigned)a->layer + 1);
    if (n > 0) {
        const int *xq = (const int *)(const void *)a->xq, *xn = (const int *)(const void *)a->xn;
        for (int i = t; i < WORDS && ANY_BLOCK(FMT_GATE_UP); i += threads)
            ig_tell_host(a->xc.asked_xq + i, xq[i], step);
        for (int i = t; i < N_EMBD && ANY_FLOAT(FMT_GATE_UP); i += threads)
            ig_tell_host(a->xc.asked_xn + i, xn[i], step);
        __syncthreads(); /* all words are on their way */
        if (t == 0) ig_await_host(a->xc.done, step);
    }
    __syncthreads();
    take_answer(a, c, threads);
}

#endif
