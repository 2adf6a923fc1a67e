/* team.h -- the threads of one forward pass: barrier and work sharing.
 *
 * One OpenMP parallel region runs a whole batch; inside it the phases are
 * separated by ig_team_wait, which costs a quarter of an OpenMP barrier on two
 * cores.  Which thread takes which item never changes a result.
 */
#ifndef IG_TEAM_H
#define IG_TEAM_H

#include <stdatomic.h>

struct ig_team {
    int n;                                      /* threads; fixed after start-up */
    _Alignas(64) atomic_int arrived;            /* threads waiting in this phase */
    _Alignas(64) atomic_uint phase;             /* how many phases have ended */
    atomic_int asleep;                          /* threads that wait in the kernel */
    _Alignas(64) atomic_int next;               /* next unclaimed item of this phase */
};

/* Wait until all threads of the team are here; the item counter starts again at 0. */
void ig_team_wait(struct ig_team *t);

/* This thread's even share [*lo, *hi) of n items: for items of equal cost. */
static inline void ig_team_share(const struct ig_team *t, int tid, int n, int *lo, int *hi)
{
    *lo = (int)((long long)n * tid / t->n);
    *hi = (int)((long long)n * (tid + 1) / t->n);
}

/* Claim up to `grain` of n items: for items of unequal cost.  0 when none is left. */
static inline int ig_team_claim(struct ig_team *t, int n, int grain, int *lo, int *hi)
{
    const int i = atomic_fetch_add_explicit(&t->next, grain, memory_order_relaxed);
    if (i >= n) return 0;
    *lo = i;
    *hi = i + grain < n ? i + grain : n;
    return 1;
}

#endif
