/* policies.h -- the policies a name can stand for: the runtime's and the simulator's own.
 *
 * The simulator's may know what no engine can (the future) or keep what no engine should.
 */
#ifndef IG_REPLAY_POLICIES_H
#define IG_REPLAY_POLICIES_H

#include "policy.h"
#include "sim.h"
#include "trace.h"

/* What simulator policies get: `base` is first, so their init may look behind it. */
struct sim_arg {
    struct ig_policy_arg base;
    const struct trace *t;
    const struct run_rows *rows;
    const uint8_t *train; /* [n_row] rows that tables may be learned from */
    /* Uses of each id in the replay: when[first[id]] .. when[first[id + 1] - 1], ascending;
     * time counts (row, layer) pairs in the order in which they run. */
    const uint32_t *first, *when;
};

struct policy_entry {
    const struct ig_policy *policy;
    const char *text;
};

extern const struct policy_entry ig_policies[];

extern const struct ig_policy ig_policy_belady, ig_policy_belady_bypass, ig_policy_arc,
    ig_policy_lirs, ig_policy_tinylfu, ig_policy_score, ig_policy_pred, ig_policy_tokid,
    ig_policy_mix;

/* "name" or "name:num0:num1:num2"; NULL when there is no such policy. */
const struct ig_policy *ig_policy_parse(const char *spec, size_t len, struct ig_policy_arg *arg);

/* Fills first and when; the caller frees both. */
void ig_future(const struct trace *t, const struct run_rows *rows, uint32_t **first,
               uint32_t **when);

static inline double num_or(const double *num, int i, double other)
{
    return num[i] != 0 ? num[i] : other;
}

#endif
