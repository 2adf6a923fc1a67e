/* trial.h -- which of a few ways of doing the same work is the fastest, judged by running them.
 *
 * Blocks of steps take the ways in turn, forth and back (0 1 1 0 ...), so that what changes slowly,
 * like a cache that fills, weighs on all of them alike; the first steps of a block still see what
 * the block before left and do not count.  A block is worth the mean of the middle half of its
 * steps: a thread that was taken away from its core for a while decides nothing.  Way 0 is what
 * reckoning chose: another has to be faster by more than what rounds differ by chance (the text's
 * steps are not alike).  A way that is far behind after two rounds, or four, is left out of the
 * others, which end when one is left.  The owner says when a step begins and how long it took; no
 * clock is read here.
 */
#ifndef IG_TRIAL_H
#define IG_TRIAL_H

#include <stdint.h>

enum { IG_TRIAL_WAYS = 4, IG_TRIAL_ROUNDS = 8, IG_TRIAL_BLOCK = 64 };

struct ig_trial_rule {
    uint32_t warm;        /* steps before the first trial */
    uint32_t block, skip; /* steps of a block, and how many of them do not count */
    uint32_t rounds;      /* blocks of each way; even */
    uint32_t every;       /* steps from one trial's end to the next */
    double gain;          /* another way is taken at so much of way 0's time, or less */
    double behind; /* a way that takes so many times the fastest's time after four rounds is left
                      out */
};

struct ig_trial {
    int n_way;            /* below 2: way 0, for good */
    int best, now;        /* outside a trial; of the step that comes */
    uint32_t trials;      /* that have ended */
    uint32_t at;          /* steps of the block under way, or since the last trial */
    uint32_t round, turn; /* round == rule's rounds: no trial is under way; place in the round */
    uint8_t out[IG_TRIAL_WAYS];
    uint32_t n; /* steps of the block under way that count */
    float took[IG_TRIAL_BLOCK];
    double block[IG_TRIAL_WAYS][IG_TRIAL_ROUNDS]; /* what each was worth; 0: nothing to judge by */
    double mean[IG_TRIAL_WAYS];                   /* of the last trial's */
};

void ig_trial_init(struct ig_trial *t, const struct ig_trial_rule *rule, int n_way);
/* A step of way t->now took so many seconds; below 0: it is none to judge by.  -> the next one's.
 */
int ig_trial_step(struct ig_trial *t, const struct ig_trial_rule *rule, double took);

#endif
