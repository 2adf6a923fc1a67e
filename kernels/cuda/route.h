/* route.h -- router logits of a row -> its experts and their weights, as runtime/model/route.c.
 *
 * All threads of a block work on one row.  An expert's rank is how many stand before it, so
 * nothing is sorted; ties go to the lower id.
 */
#ifndef IG_ROUTE_H
#define IG_ROUTE_H

#include "row.h"

#if N_EXPERT > 0

enum {
    LOGITS = UP_TO(N_EXPERT, 16),
    CHOICE_APART = ROUTE_SIGMOID || N_ROUTE_GROUP > 1, /* what decides is not the scores */
    CHOSEN_ALONE = ROUTE_NORM && !CHOICE_APART && !ROUTE_SPARSEMIXER, /* weights need no other expert's score */
    GROUP_EACH = N_EXPERT / N_ROUTE_GROUP
};

/* In shared memory.  score: logits, or their sigmoids. */
struct routing {
    float score[LOGITS], choice[CHOICE_APART ? LOGITS : 4], group[N_ROUTE_GROUP], weight[N_EXPERT_USED];
    int id[N_EXPERT_USED];
};

/* Experts outside the best groups cannot be chosen; a group's score is the sum of its best, largest first.
 * One thread a group. */
IG_FN void limit_groups(struct routing *r)
{
    const int g = (int)threadIdx.x;
    float *const of = r->choice + (g < N_ROUTE_GROUP ? g : 0) * GROUP_EACH;
    if (g < N_ROUTE_GROUP) {
        int taken[ROUTE_GROUP_TOP];
        float sum = 0.0f;
        for (int i = 0; i < ROUTE_GROUP_TOP; i++) {
            int best = -1;
            for (int x = 0; x < GROUP_EACH; x++) {
                int gone = 0;
                for (int j = 0; j < i; j++) gone |= taken[j] == x;
                if (!gone && (best < 0 || of[x] > of[best])) best = x;
            }
            taken[i] = best;
            sum += of[best];
        }
        r->group[g] = sum;
    }
    __syncthreads();
    if (g < N_ROUTE_GROUP) {
        int before = 0;
        for (int x = 0; x < N_ROUTE_GROUP; x++)
            before += r->group[x] > r->group[g] || (r->group[x] == r->group[g] && x < g);
        for (int x = 0; x < GROUP_EACH && before >= N_ROUTE_GROUP_USED; x++) of[x] = -INFINITY;
    }
    __syncthreads();
}

/* A row's scores and, where they differ, what decides the choice; nothing behind them can be chosen. */
IG_FN void load_scores(const struct ig_args *a, struct routing *r, const float *rl, int threads)
{
    for (int i = (int)threadIdx.x; i < LOGITS; i += threads) {
        const float x = i < N_EXPERT ? ig_load_float(rl + i) : -INFINITY;
        if (!ROUTE_SIGMOID) {
            r->score[i] = x;
            if (CHOICE_APART) r->choice[i] = x;
            continue;
        }
        const float s = 1.0f / (1.0f + ig_expf(-x));
        r->score[i] = s;
        r->choice[i] = i < N_EXPERT ? s + (a->route_bias ? a->route_bias[i] : 0.0f) : -INFINITY;
    }
    __syncthreads();
    if (N_ROUTE_GROUP > 1) limit_groups(r);
}

/* Orders as the values do; 0: not-a-number, which has no rank. */
IG_FN unsigned rank_key(float x)
{
    const unsigned u = ig_f32_bits(x + 0.0f); /* zeros are alike */
    return x != x ? 0 : u >> 31 ? ~u : u | 0x80000000u;
}

IG_FN float of_rank_key(unsigned key) { return ig_bits(key >> 31 ? key & 0x7fffffffu : ~key); }

/* The experts of ranks below `ranks`, by what is larger first and the lower id: one warp, a lane has neighbours
 * in its registers.  `fresh`: `by` is in memory, where another kernel left the logits. */
IG_FN void choose(struct routing *r, const float *by, int ranks, int fresh)
{
    enum { EACH = DIV_UP(N_EXPERT, 32) };
    const int lane = (int)threadIdx.x & 31;
    unsigned key[EACH];
    UNROLL for (int i = 0; i < EACH; i++)
    {
        const int e = lane * EACH + i;
        key[i] = e >= N_EXPERT ? 0 : rank_key(fresh ? ig_load_float(by + e) : by[e]);
    }
    UNROLL_BY(1) for (int rank = 0; rank < ranks; rank++)
    {
        unsigned mine = 0;
        int at = 0;
        UNROLL for (int i = 0; i < EACH; i++)
        {
            at = key[i] > mine ? i : at;
            mine = larger(mine, key[i]);
        }
        const unsigned most = ig_warp_max(mine), who = ig_ballot(mine == most);
        if (mine == most && most > 0 && !(who & ((1u << lane) - 1))) {
            r->id[rank] = lane * EACH + at;
            r->weight[rank] = fresh ? of_rank_key(most) : r->score[lane * EACH + at];
            UNROLL for (int i = 0; i < EACH; i++) key[i] = i == at ? 0 : key[i];
        }
    }
}

/* The chosen experts' softmax: over themselves, or over all experts; rank 0 is the largest. */
IG_FN void by_softmax(struct routing *r)
{
    const int lane = (int)threadIdx.x & 31, n = ROUTE_NORM ? N_EXPERT_USED : N_EXPERT;
    const float *of = ROUTE_NORM ? r->weight : r->score;
    float most = r->weight[0];
    /* With groups the largest of all may be outside. */
    for (int i = 0; i < N_EXPERT && N_ROUTE_GROUP > 1 && !ROUTE_NORM; i++)
        most = r->score[i] > most ? r->score[i] : most;
    float sum = 0.0f;
    for (int i = lane & 15; i < n; i += 16) sum += ig_expf(of[i] - most);
    const float inv = 1.0f / tree_of_lanes(sum);
    __syncwarp();
    for (int i = lane; i < N_EXPERT_USED; i += 32) r->weight[i] = ig_expf(r->weight[i] - most) * inv;
}

IG_FN void by_sigmoid(struct routing *r)
{
    float sum = 0.0f;
    for (int i = 0; i < N_EXPERT_USED; i++) sum += r->weight[i];
    __syncwarp();
    for (int i = (int)threadIdx.x & 31; i < N_EXPERT_USED && ROUTE_NORM; i += 32)
        r->weight[i] /= sum + 1e-20f;
}

/* One thread: each expert's softmax among those that are left and near it. */
IG_FN void by_sparsemixer(struct routing *r)
{
    for (int i = 0; i < N_EXPERT_USED; i++) {
        const float best = r->score[r->id[i]];
        float sums[16] = { 0 }, mine = 0.0f;
        int n = 0;
        for (int x = 0; x < N_EXPERT; x++) {
            const float s = r->score[x], size = fabsf(s) > best ? fabsf(s) : best;
            int taken = 0;
            for (int j = 0; j < i; j++) taken |= r->id[j] == x;
            if (taken || (best - s) / size > 2.0f * ROUTER_JITTER) continue;
            const float e = ig_expf(s - best);
            if (x == r->id[i]) mine = e;
            sums[n++ % 16] += e;
        }
        r->weight[i] = mine * (1.0f / ig_tree16(sums));
    }
}

/* Weights from the scores that choose() left: one warp. */
IG_FN void weigh(struct routing *r)
{
    if (ROUTE_SPARSEMIXER) {
        if ((threadIdx.x & 31) == 0) by_sparsemixer(r);
    } else if (ROUTE_SIGMOID) {
        by_sigmoid(r);
    } else {
        by_softmax(r);
    }
    __syncwarp();
    for (int i = (int)threadIdx.x & 31; i < N_EXPERT_USED && ROUTE_SCALE != 1.0f; i += 32)
        r->weight[i] *= ROUTE_SCALE;
    __syncwarp();
}

/* Recorded choices of a row take the routers' place (bench --route). */
IG_FN void forced(const struct ig_args *a, struct routing *r, int row)
{
    const int t = (int)threadIdx.x;
    if (t < N_EXPERT_USED) {
        const size_t at = ((size_t)row * N_LAYER + (size_t)a->layer) * N_EXPERT_USED + (size_t)t;
        r->id[t] = ig_load_fresh(a->force_expert + at);
        r->weight[t] = ig_load_float(a->force_weight + at);
    }
    __syncthreads();
}

/* Of one row the experts of ranks below `ranks`, with `weights` what weigh() needs; ends in a barrier.  `force`: what
 * a->force says, which a kernel can know before it waits; then there is nothing to weigh. */
IG_FN void route(const struct ig_args *a, struct routing *r, int row, int threads, int ranks, int weights, int force)
{
    const float *const rl = a->rl + (size_t)row * RL_STRIDE;
    const int t = (int)threadIdx.x, direct = !CHOICE_APART && (!weights || CHOSEN_ALONE);
    if (force) {
        forced(a, r, row);
        return;
    }
    if (!direct) load_scores(a, r, rl, threads);
    if (t < 32) {
        UNROLL for (int i = t; i - t < N_EXPERT_USED; i += 32) /* what has no rank */
        {
            if (i >= N_EXPERT_USED) break;
            r->id[i] = 0;
            r->weight[i] = ig_bits(0x7fc00000u);
        }
        __syncwarp();
        choose(r, direct ? rl : CHOICE_APART ? r->choice : r->score, ranks, direct);
    }
    __syncthreads();
}

#endif

/* What the dense block's output of a normed row counts: one warp. */
IG_FN void weigh_shared(const struct ig_args *a, const float *xn, int row)
{
    const float z = warp_sum(SUM_DOT, xn, a->shared_gate, 0.0f, N_EMBD);
    if ((threadIdx.x & 31) == 0) a->shared_scale[row] = 1.0f / (1.0f + ig_expf(-z));
}

#endif
