/* miss_plan.c -- which side takes the device's misses, and what is copied beside the work: see
 * miss.h.
 */
#include "state.h"
#include "machine.h"
#include "cuda/args.h"

#include <string.h>

#if IG_XC

/* What the trial of the ways counts.  A cache's content follows the way, so that blocks have to be
 * longer than a step or two, and longest where what the CPU computes stays missing; but a text's
 * steps are not alike, so that there have to be many. */
static const struct ig_trial_rule long_blocks = {
    .warm = 32, .block = 32, .skip = 16, .rounds = 8, .every = 4096, .gain = 0.98, .behind = 1.15
};
static const struct ig_trial_rule short_blocks = {
    .warm = 32, .block = 16, .skip = 4, .rounds = 8, .every = 4096, .gain = 0.98, .behind = 1.15
};
static const struct ig_trial_rule *rule_of(const struct ig_miss *m)
{
    return m->way[0].behind || m->way[0].ahead ? &short_blocks : &long_blocks;
}

/* What is prefetched over such a link comes after its layer, even if that lacks all its experts;
 * what is copied in two steps of it can be started by any thread. */
#define SLOW_LAYERS 2.0

int ig_miss_slow(const struct ig_miss *m)
{
    const double layer = ig_split_seconds(&m->link, &m->by_cpu, 0, IG_N_EXPERT_USED);
    return m->by_cpu.each[0] > 0.0 && m->link.each[0] > SLOW_LAYERS * layer;
}

float ig_miss_fade(const struct ig_miss *m) { return m->slow ? IG_XC_FADE_SLOW : IG_XC_FADE; }

int ig_miss_share(const struct ig_miss *m) { return IG_XC_STATIC ? 0 : m->share; }

/* A thread's part of an expert that comes into its core's cache before it is asked for: more would
 * push out what came before. */
#define WARM_BYTES (UINT64_C(512) << 10)

/* A way of the trial: prefetches that may be under way, and copies of what the CPU computes, which
 * else stays missing. */
static struct ig_miss_way *add_way(struct ig_miss *m, int *n, const char *name, int ahead,
                                   int behind)
{
    struct ig_miss_way *w = &m->way[(*n)++];
    *w = (struct ig_miss_way){ .name = name, .ahead = ahead, .behind = behind };
    w->warm = ahead && IG_XC_SLOT_BYTES / (uint64_t)m->team.n <= WARM_BYTES ? IG_WARM_MOST : 0;
    return w;
}
static int copies_most(const struct ig_miss *m) { return m->slow ? IG_FILLS_SLOW : IG_FILLS_MOST; }

static void by_link(struct ig_miss_way *w, int per_cent)
{
    for (int n = 0; n <= IG_N_EXPERT_USED; n++) w->split[n] = (n * per_cent + 50) / 100;
}

static void by_rates(const struct ig_miss *m, struct ig_miss_way *w, int again)
{
    ig_split(&m->link, m->cpu ? &m->by_cpu : &(struct ig_side){ 0 }, IG_N_EXPERT_USED, again,
             w->split);
}

/* With prefetch the link is its own: what is asked of it meanwhile waits for copies, and they for
 * it, and copies behind the work delay them (bench/LOG.tsv), so that the CPU, where it is no slower
 * by far, answers all, or all but what is many at once. */
static void plan_copies(struct ig_miss *m)
{
    const int ahead = m->ahead > 0;
    const double cpu = ig_split_seconds(&m->link, &m->by_cpu, 0, 1),
                 link = ig_split_seconds(&m->link, &m->by_cpu, 1, 0);
    int n = 0;
    if (cpu < 1.5 * link) {
        if (ahead) by_link(add_way(m, &n, "by the CPU and prefetch", IG_FILLS_AHEAD, 0), 0);
        by_link(add_way(m, &n, "by the CPU and copies", 0, copies_most(m)), 0);
    }
    /* A link far below the CPU is not worth a trial's steps. */
    if (n == 0 || m->link.each[0] < 3 * m->by_cpu.each[0]) {
        by_rates(m, add_way(m, &n, "by the rates", ahead ? IG_FILLS_AHEAD : 0, 0), !ahead);
        by_link(add_way(m, &n, "with the link alone", 0, 0), 100);
    }
    ig_trial_init(&m->trial, rule_of(m), n);
}

void ig_miss_plan(struct ig_miss *m)
{
    const int share = ig_miss_share(m), own = share < 0;
    const int can = m->cpu && !IG_XC_STATIC && m->ways > IG_N_EXPERT_USED && m->link.each[0] > 0.0;
    int n = 0, same = 1;
    if (!can) m->ahead = 0;
    if (own && can && m->behind < 0) {
        plan_copies(m);
        return;
    }
    const int ahead = m->ahead ? IG_FILLS_AHEAD : 0, behind = can && m->behind == 1;
    const int copies = ahead ? IG_FILLS_BESIDE : copies_most(m);
    struct ig_miss_way *w = add_way(m, &n, "by the rates", ahead, behind ? copies : 0);
    by_rates(m, w, !w->behind);
    if (m->cpu && !own) by_link(w, share);
    for (int i = 0; i <= IG_N_EXPERT_USED; i++) same &= w->split[i] == i;
    if (own && !same && m->link.each[0] < 3 * m->by_cpu.each[0])
        by_link(add_way(m, &n, "with the link alone", ahead, 0), 100);
    ig_trial_init(&m->trial, rule_of(m), n);
}

void ig_miss_begin(struct ig_miss *m, int pinning, int each)
{
    const struct ig_miss_way *w = &m->way[m->trial.now];
    int32_t *split = m->ask->split;
    m->step++;
    m->looked = 0;
    memcpy(split, w->split, sizeof w->split);
    split[IG_ASK_PAGES] = (int32_t)(m->reach / 4096);
    split[IG_ASK_BEHIND] = pinning ? 0 : w->behind;
    split[IG_ASK_AHEAD] = pinning ? 0 : w->ahead;
    split[IG_ASK_WARM] = w->warm;
    split[IG_ASK_EACH] = each;
    split[IG_ASK_FADE] = (int32_t)(ig_miss_fade(m) * IG_FADE_ONE);
    split[IG_ASK_WAIT] = m->link.each[0] < 2 * (m->by_cpu.start + m->by_cpu.each[0]);
    /* A set that is full soon misses less: simulated with the trace, bench/LOG.tsv. */
    split[0] = ig_miss_share(m) < 0 && w->behind == 0 && w->ahead == 0;
    m->began = ig_seconds();
}

void ig_miss_end(struct ig_miss *m, int judged)
{
    ig_trial_step(&m->trial, rule_of(m), judged ? ig_seconds() - m->began : -1.0);
}

#endif
