/* trial.c -- see trial.h. */
#include "trial.h"

#include <string.h>

/* The mean of the middle half; 0: none counted. */
static double typical(const struct ig_trial *t, int way)
{
    const uint32_t n = t->n[way] < IG_TRIAL_STEPS ? t->n[way] : IG_TRIAL_STEPS;
    const uint32_t lo = n / 4, hi = n - n / 4;
    float v[IG_TRIAL_STEPS];
    double sum = 0.0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t k = i;
        for (; k > 0 && v[k - 1] > t->took[way][i]; k--) v[k] = v[k - 1];
        v[k] = t->took[way][i];
    }
    for (uint32_t i = lo; i < hi; i++) sum += (double)v[i];
    return n ? sum / (hi - lo) : 0.0;
}

static void judge(struct ig_trial *t, const struct ig_trial_rule *rule)
{
    t->best = 0;
    t->trials++;
    for (int w = 0; w < t->n_way; w++) {
        t->mean[w] = typical(t, w);
        const double want = t->mean[t->best] * (t->best == 0 ? rule->gain : 1.0);
        if (w > 0 && t->n[w] && t->n[0] && t->mean[w] <= want) t->best = w;
    }
}

/* What is far behind is not tried again in this trial. */
static void leave_out(struct ig_trial *t, const struct ig_trial_rule *rule)
{
    double least = 0.0;
    for (int w = 0; w < t->n_way; w++) {
        const double mine = typical(t, w);
        if (mine > 0.0 && (least <= 0.0 || mine < least)) least = mine;
    }
    for (int w = 0; w < t->n_way; w++) t->out[w] |= typical(t, w) > rule->behind * least;
}

/* The way of the trial's block: every other round backwards. */
static int way_now(const struct ig_trial *t)
{
    return (int)(t->round % 2 ? (uint32_t)t->n_way - 1 - t->turn : t->turn);
}

/* On to the next block, -> 0: that was the last. */
static int next_block(struct ig_trial *t, const struct ig_trial_rule *rule)
{
    t->at = 0;
    do {
        if (++t->turn < (uint32_t)t->n_way) continue;
        t->turn = 0;
        leave_out(t, rule);
        if (++t->round == rule->rounds) return 0;
    } while (t->out[way_now(t)]);
    return 1;
}

static void begin(struct ig_trial *t)
{
    t->at = t->round = t->turn = 0;
    memset(t->n, 0, sizeof t->n);
    memset(t->out, 0, sizeof t->out);
}

void ig_trial_init(struct ig_trial *t, const struct ig_trial_rule *rule, int n_way)
{
    /* The first trial begins after `warm` steps, the next ones `every` steps apart. */
    memset(t, 0, sizeof *t);
    t->n_way = n_way;
    t->round = rule->rounds;
    t->at = rule->every - rule->warm;
}

static void count(struct ig_trial *t, double took)
{
    const uint32_t n = t->n[t->now];
    if (n < IG_TRIAL_STEPS) t->took[t->now][n] = (float)took;
    t->n[t->now] = n + 1;
}

int ig_trial_step(struct ig_trial *t, const struct ig_trial_rule *rule, double took)
{
    if (t->n_way < 2) return t->now = 0;
    if (t->round == rule->rounds) {
        if (++t->at < rule->every) return t->now = t->best;
        begin(t);
        return t->now = way_now(t);
    }
    if (took >= 0.0 && t->at >= rule->skip) count(t, took);
    if (++t->at < rule->block || next_block(t, rule)) return t->now = way_now(t);
    judge(t, rule);
    return t->now = t->best;
}
