/* team.c -- the barrier between phases.  Spins, since a phase is microseconds
 * long; sleeps when a thread is late, so that whoever keeps it from running gets this core: on a
 * machine that others use, threads that only spin take their own share of time away. */
#include "team.h"

#include "machine.h"

#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { SPINS_BEFORE_SLEEP = 2000 }; /* some 0.1 ms, longer than a fair phase is skewed */

static void futex(atomic_uint *word, int op, unsigned v)
{
    syscall(SYS_futex, word, op | FUTEX_PRIVATE_FLAG, v, NULL, NULL, 0);
}

void ig_team_set(struct ig_team *t, int n, const int *node)
{
    t->n = n;
    t->n_pool = 0;
    for (int i = 0; i < n; i++) {
        const int fresh = i == 0 || (node && node[i] != node[i - 1]);
        if (fresh && t->n_pool == IG_POOL_MOST) {
            ig_team_set(t, n, NULL);
            return;
        }
        if (fresh) t->pool[t->n_pool++].first = i;
        t->pool[t->n_pool - 1].end = i + 1;
    }
    for (int p = 0; p < t->n_pool; p++) atomic_store(&t->pool[p].next, 0);
}

void ig_team_wait(struct ig_team *t)
{
    const unsigned phase = atomic_load_explicit(&t->phase, memory_order_relaxed);
    if (atomic_fetch_add_explicit(&t->arrived, 1, memory_order_acq_rel) == t->n - 1) {
        atomic_store_explicit(&t->arrived, 0, memory_order_relaxed);
        for (int p = 0; p < t->n_pool; p++)
            atomic_store_explicit(&t->pool[p].next, 0, memory_order_relaxed);
        /* Either a sleeper's count is seen here, or the sleeper sees the new phase. */
        atomic_store(&t->phase, phase + 1);
        if (atomic_load(&t->asleep) > 0) futex(&t->phase, FUTEX_WAKE, INT_MAX);
        return;
    }
    for (int spins = 0; spins < SPINS_BEFORE_SLEEP; spins++) {
        if (atomic_load_explicit(&t->phase, memory_order_acquire) != phase) return;
        ig_pause();
    }
    atomic_fetch_add(&t->asleep, 1);
    while (atomic_load(&t->phase) == phase) futex(&t->phase, FUTEX_WAIT, phase);
    atomic_fetch_sub(&t->asleep, 1);
}
