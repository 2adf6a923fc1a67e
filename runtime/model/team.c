/* team.c -- the barrier between phases.  Spins, since a phase is microseconds
 * long; gives the core away when a thread is late (more threads than cores). */
#include "team.h"

#include "machine.h"

#include <sched.h>

enum { SPINS_BEFORE_YIELD = 2000 }; /* some 0.1 ms, longer than a fair phase is skewed */

void ig_team_wait(struct ig_team *t)
{
    const unsigned phase = atomic_load_explicit(&t->phase, memory_order_relaxed);
    if (atomic_fetch_add_explicit(&t->arrived, 1, memory_order_acq_rel) == t->n - 1) {
        atomic_store_explicit(&t->arrived, 0, memory_order_relaxed);
        atomic_store_explicit(&t->next, 0, memory_order_relaxed);
        atomic_store_explicit(&t->phase, phase + 1, memory_order_release);
        return;
    }
    for (int spins = 0; atomic_load_explicit(&t->phase, memory_order_acquire) == phase; spins++) {
        if (spins < SPINS_BEFORE_YIELD)
            ig_pause();
        else
            sched_yield();
    }
}
