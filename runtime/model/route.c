/* route.c -- router logits of a row -> its experts and their weights.
 *
 * The kind is a constant of the plan.  Ties go to the lower id.  Sums run in rank
 * order, so a row's result depends on its logits only.
 */
#include "state.h"

#include <math.h>

/* The k largest of score[], by descending score; n is IG_N_EXPERT at most. */
static void top(const float *score, int n, int k, int32_t *id)
{
    unsigned char taken[IG_N_EXPERT + 1] = { 0 };
    for (int i = 0; i < k; i++) {
        int best = 0;
        while (taken[best]) best++;
        for (int x = best + 1; x < n; x++)
            if (score[x] > score[best] && !taken[x]) best = x;
        id[i] = best;
        taken[best] = 1;
    }
}

/* Experts outside the best groups get -INFINITY; a group's score is the sum of its
 * IG_ROUTE_GROUP_TOP best (DeepSeek-AI 2024, DeepSeek-V3, section 2.1.2). */
static void limit_groups(float *score)
{
    enum { EACH = IG_N_EXPERT / IG_N_ROUTE_GROUP };
    float group[IG_N_ROUTE_GROUP];
    int32_t best[IG_N_ROUTE_GROUP_USED] = { 0 }, id[IG_ROUTE_GROUP_TOP] = { 0 };

    for (int g = 0; g < IG_N_ROUTE_GROUP; g++) {
        top(score + g * EACH, EACH, IG_ROUTE_GROUP_TOP, id);
        group[g] = 0.0f;
        for (int i = 0; i < IG_ROUTE_GROUP_TOP; i++) group[g] += score[g * EACH + id[i]];
    }
    top(group, IG_N_ROUTE_GROUP, IG_N_ROUTE_GROUP_USED, best);
    for (int g = 0; g < IG_N_ROUTE_GROUP; g++) {
        int kept = 0;
        for (int i = 0; i < IG_N_ROUTE_GROUP_USED; i++) kept |= best[i] == g;
        for (int x = g * EACH; x < (g + 1) * EACH && !kept; x++) score[x] = -INFINITY;
    }
}

/* Weights are the softmax over the chosen logits (Jiang et al. 2024, Mixtral, section
 * 2.1), or over all of them. */
static void by_softmax(const float *logit, int32_t *id, float *weight)
{
    float score[IG_N_EXPERT + 1];
    for (int x = 0; x < IG_N_EXPERT; x++) score[x] = logit[x];
    if (IG_N_ROUTE_GROUP > 1) limit_groups(score);
    top(score, IG_N_EXPERT, IG_N_EXPERT_USED, id);
    if (IG_ROUTE_NORM) {
        for (int i = 0; i < IG_N_EXPERT_USED; i++) weight[i] = logit[id[i]];
        ig_kern.softmax(weight, IG_N_EXPERT_USED);
    } else {
        for (int x = 0; x < IG_N_EXPERT; x++) score[x] = logit[x];
        ig_kern.softmax(score, IG_N_EXPERT);
        for (int i = 0; i < IG_N_EXPERT_USED; i++) weight[i] = score[id[i]];
    }
}

/* Sigmoid scores; a bias takes part in the choice only (DeepSeek-V3, section 2.1.2). */
static void by_sigmoid(const float *logit, const float *bias, int32_t *id, float *weight)
{
    float score[IG_N_EXPERT + 1], choice[IG_N_EXPERT + 1], sum = 0.0f;
    for (int x = 0; x < IG_N_EXPERT; x++) score[x] = logit[x];
    ig_kern.sigmoid(score, IG_N_EXPERT);
    for (int x = 0; x < IG_N_EXPERT; x++) choice[x] = score[x] + (bias ? bias[x] : 0.0f);
    if (IG_N_ROUTE_GROUP > 1) limit_groups(choice);
    top(choice, IG_N_EXPERT, IG_N_EXPERT_USED, id);
    for (int i = 0; i < IG_N_EXPERT_USED; i++) {
        weight[i] = score[id[i]];
        sum += weight[i];
    }
    for (int i = 0; i < IG_N_EXPERT_USED && IG_ROUTE_NORM; i++) weight[i] /= sum + 1e-20f;
}

/* SparseMixer at evaluation (Liu et al. 2024, GRIN): one expert after the other; each one's weight
 * is its softmax among those that are left and near it. */
static void by_sparsemixer(const float *logit, int32_t *id, float *weight)
{
    float near[IG_N_EXPERT + 1];
    top(logit, IG_N_EXPERT, IG_N_EXPERT_USED, id);
    for (int i = 0; i < IG_N_EXPERT_USED; i++) {
        const float best = logit[id[i]];
        int n = 0, at = 0;
        for (int x = 0; x < IG_N_EXPERT; x++) {
            const float size = fabsf(logit[x]) > best ? fabsf(logit[x]) : best;
            int taken = 0;
            for (int j = 0; j < i; j++) taken |= id[j] == x;
            if (taken || (best - logit[x]) / size > 2.0f * IG_ROUTER_JITTER) continue;
            if (x == id[i]) at = n;
            near[n++] = logit[x];
        }
        ig_kern.softmax(near, n);
        weight[i] = near[at];
    }
}

void ig_choose(struct ig_engine *e, const struct ig_layer *l, int row, int32_t *id, float *weight)
{
    const float *logit = IG_BUF(e, RL, float) + (size_t)row * IG_RL_STRIDE;

    switch (IG_ROUTER) {
    case IG_ROUTER_SOFTMAX:
        by_softmax(logit, id, weight);
        break;
    case IG_ROUTER_SIGMOID:
        by_sigmoid(logit, l->route_bias ? ig_vec(e, l->route_bias) : NULL, id, weight);
        break;
    case IG_ROUTER_SPARSEMIXER:
        by_sparsemixer(logit, id, weight);
        break;
    }
    for (int i = 0; i < IG_N_EXPERT_USED && IG_ROUTE_SCALE != 1.0f; i++)
        weight[i] *= IG_ROUTE_SCALE;
}
