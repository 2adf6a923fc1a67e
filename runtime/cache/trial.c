/* trial.c -- see trial.h. */
#include "trial.h"

#include <string.h>

static uint32_t length(const struct ig_trial *t, const struct ig_trial_rule *rule)
{
    return rule->block * rule->rounds * (uint32_t)t->n_way;
}

/* The way of a trial's step: every other round backwards. */
static int way_at(const struct ig_trial *t, const struct ig_trial_rule *rule, uint32_t at)
{
    const uint32_t n = (uint32_t)t->n_way, block = at / rule->block, i = block % n;
    return (int)(block / n % 2 ? n - 1 - i : i);
}

static void judge(struct ig_trial *t, const struct ig_trial_rule *rule)
{
    t->best = 0;
    t->trials++;
    for (int w = 0; w < t->n_way; w++) {
        t->mean[w] = t->n[w] ? t->sum[w] / t->n[w] : 0.0;
        const double want = t->mean[t->best] * (t->best == 0 ? rule->gain : 1.0);
        if (w > 0 && t->n[w] && t->n[0] && t->mean[w] <= want) t->best = w;
    }
    memset(t->sum, 0, sizeof t->sum);
    memset(t->n, 0, sizeof t->n);
}

void ig_trial_init(struct ig_trial *t, const struct ig_trial_rule *rule, int n_way)
{
    /* The first trial begins after `warm` steps, the next ones `every` steps apart. */
    *t = (struct ig_trial){ .n_way = n_way, .at = rule->every - rule->warm };
}

int ig_trial_step(struct ig_trial *t, const struct ig_trial_rule *rule, double took)
{
    if (t->n_way < 2) return t->now = 0;
    const uint32_t of = length(t, rule);
    if (took >= 0.0 && t->at < of && t->at % rule->block >= rule->skip) {
        t->sum[t->now] += took;
        t->n[t->now]++;
    }
    t->at++;
    if (t->at == of) judge(t, rule);
    if (t->at >= rule->every) t->at = 0;
    return t->now = t->at < of ? way_at(t, rule, t->at) : t->best;
}
