/* trial.c -- see trial.h. */
#include "trial.h"

#include "base.h"

#include <math.h>
#include <string.h>

/* The mean of the middle half of the block's steps. */
static double worth(const struct ig_trial *t)
{
    const uint32_t lo = t->n / 4, hi = t->n - t->n / 4;
    float v[IG_TRIAL_BLOCK];
    double sum = 0.0;
    for (uint32_t i = 0; i < t->n; i++) {
        uint32_t k = i;
        for (; k > 0 && v[k - 1] > t->took[i]; k--) v[k] = v[k - 1];
        v[k] = t->took[i];
    }
    for (uint32_t i = lo; i < hi; i++) sum += (double)v[i];
    return t->n ? sum / (hi - lo) : 0.0;
}

/* Of rounds that both ways have: the mean of way w's time over way `to`'s, less 1, and its standard
 * error. */
static double against(const struct ig_trial *t, int w, int to, double *error)
{
    double sum = 0.0, squares = 0.0;
    int n = 0;
    for (int r = 0; r < IG_TRIAL_ROUNDS; r++) {
        if (t->block[w][r] <= 0.0 || t->block[to][r] <= 0.0) continue;
        const double d = t->block[w][r] / t->block[to][r] - 1.0;
        sum += d;
        squares += d * d;
        n++;
    }
    *error = 0.0;
    if (n == 0) return 0.0;
    const double mean = sum / n, spread = squares / n - mean * mean;
    if (n > 1 && spread > 0.0) *error = sqrt(spread / (n - 1));
    return mean;
}

static double mean_of(const struct ig_trial *t, int w)
{
    double sum = 0.0;
    int n = 0;
    for (int r = 0; r < IG_TRIAL_ROUNDS; r++) {
        sum += t->block[w][r];
        n += t->block[w][r] > 0.0;
    }
    return n ? sum / n : 0.0;
}

static void judge(struct ig_trial *t, const struct ig_trial_rule *rule)
{
    double error, least = 0.0;
    t->best = 0;
    t->trials++;
    for (int w = 0; w < t->n_way; w++) {
        t->mean[w] = mean_of(t, w);
        if (w == 0 || t->out[w]) continue;
        const double gain = against(t, w, 0, &error);
        if (gain > rule->gain - 1.0 || gain + error > 0.0 || gain >= least) continue;
        t->best = w;
        least = gain;
    }
}

/* What is far behind the fastest, after two rounds twice as far, is not tried again in this trial.
 * -> how many ways are left */
static int leave_out(struct ig_trial *t, const struct ig_trial_rule *rule)
{
    int best = 0, left = 0;
    const double far = (rule->behind - 1.0) * (t->round < 2 ? 2.0 : 1.0);
    double error;
    for (int w = 1; w < t->n_way; w++)
        if (!t->out[w] && against(t, w, best, &error) < 0.0) best = w;
    for (int w = 0; w < t->n_way; w++) {
        t->out[w] |= against(t, w, best, &error) - error > far;
        left += !t->out[w];
    }
    return left;
}

/* The way of the trial's block: every other round backwards. */
static int way_now(const struct ig_trial *t)
{
    return (int)(t->round % 2 ? (uint32_t)t->n_way - 1 - t->turn : t->turn);
}

/* On to the next block, -> 0: that was the last. */
static int next_block(struct ig_trial *t, const struct ig_trial_rule *rule)
{
    t->block[t->now][t->round] = worth(t);
    t->at = t->n = 0;
    do {
        if (++t->turn < (uint32_t)t->n_way) continue;
        t->turn = 0;
        if (t->round % 2 && leave_out(t, rule) < 2) t->round = rule->rounds - 1;
        if (++t->round == rule->rounds) return 0;
    } while (t->out[way_now(t)]);
    return 1;
}

static void begin(struct ig_trial *t)
{
    t->at = t->n = t->round = t->turn = 0;
    memset(t->block, 0, sizeof t->block);
    memset(t->out, 0, sizeof t->out);
}

void ig_trial_init(struct ig_trial *t, const struct ig_trial_rule *rule, int n_way)
{
    /* The first trial begins after `warm` steps, the next ones `every` steps after one's end. */
    IG_ASSERT(n_way <= IG_TRIAL_WAYS && rule->rounds <= IG_TRIAL_ROUNDS);
    memset(t, 0, sizeof *t);
    t->n_way = n_way;
    t->round = rule->rounds;
    t->at = rule->every - rule->warm;
}

int ig_trial_step(struct ig_trial *t, const struct ig_trial_rule *rule, double took)
{
    if (t->n_way < 2) return t->now = 0;
    if (t->round == rule->rounds) {
        if (++t->at < rule->every) return t->now = t->best;
        begin(t);
        return t->now = way_now(t);
    }
    if (took >= 0.0 && t->at >= rule->skip && t->n < IG_TRIAL_BLOCK) t->took[t->n++] = (float)took;
    if (++t->at < rule->block || next_block(t, rule)) return t->now = way_now(t);
    judge(t, rule);
    return t->now = t->best;
}
