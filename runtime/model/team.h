/* team.h -- the threads of one forward pass: barrier and work sharing.
 *
 * One OpenMP parallel region runs a whole batch; inside it the phases are
 * separated by ig_team_wait, which costs a quarter of an OpenMP barrier on two
 * cores.  Which thread takes which item never changes a result.
 *
 * The threads of one memory node are a pool.  Shares give a pool always the same part of n items,
 * which is where place.c puts the weights of these items; claims begin in one's own pool's part.
 */
#ifndef IG_TEAM_H
#define IG_TEAM_H

#include <stdatomic.h>
#include <stdint.h>

enum { IG_POOL_MOST = 8, IG_TEAM_MOST = 1024 };

/* How much of its share a thread has begun in this phase. */
struct ig_begun {
    _Alignas(64) atomic_uint_least64_t items; /* the phase << 32 | items */
};

struct ig_pool {
    int first, end;               /* threads */
    _Alignas(64) atomic_int next; /* next unclaimed item of its part in this phase */
};

struct ig_team {
    int n;      /* threads; fixed after start-up */
    int n_pool; /* at least 1 */
    struct ig_pool pool[IG_POOL_MOST];
    _Alignas(64) atomic_int arrived; /* threads waiting in this phase */
    _Alignas(64) atomic_uint phase;  /* how many phases have ended */
    atomic_int asleep;               /* threads that wait in the kernel */
    struct ig_begun begun[IG_TEAM_MOST];
};

/* n threads, thread i's memory on node[i], equal ones side by side; more than IG_POOL_MOST nodes,
 * or node NULL: one pool. */
void ig_team_set(struct ig_team *t, int n, const int *node);

/* Wait until all threads of the team are here; the pools' item counters start again. */
void ig_team_wait(struct ig_team *t);

/* This thread's even share [*lo, *hi) of n items: for items of equal cost. */
static inline void ig_team_share(const struct ig_team *t, int tid, int n, int *lo, int *hi)
{
    *lo = (int)((long long)n * tid / t->n);
    *hi = (int)((long long)n * (tid + 1) / t->n);
}

/* A pool's part [*lo, *hi) of n items: its threads' shares. */
static inline void ig_team_part(const struct ig_team *t, int pool, int n, int *lo, int *hi)
{
    *lo = 0, *hi = n;
    if (t->n_pool == 1) return;
    *lo = (int)((long long)n * t->pool[pool].first / t->n);
    *hi = (int)((long long)n * t->pool[pool].end / t->n);
}

static inline int ig_team_pool(const struct ig_team *t, int tid)
{
    int p = 0;
    while (tid >= t->pool[p].end) p++;
    return p;
}

/* Take the next items of thread `of`'s share of n: half of what is left, so that the last are
 * single ones.  0: nothing is left. */
static inline int ig_team_take_of(struct ig_team *t, int of, int n, int *lo, int *hi)
{
    const uint64_t phase = atomic_load_explicit(&t->phase, memory_order_relaxed);
    uint64_t was = atomic_load_explicit(&t->begun[of].items, memory_order_relaxed);
    int from, to, begun, part;
    ig_team_share(t, of, n, &from, &to);
    do {
        begun = was >> 32 == phase ? (int)(was & UINT32_MAX) : 0;
        if (begun == to - from) return 0;
        part = (to - from - begun + 1) / 2;
    } while (!atomic_compare_exchange_weak_explicit(&t->begun[of].items, &was,
                                                    phase << 32 | (uint64_t)(begun + part),
                                                    memory_order_relaxed, memory_order_relaxed));
    *lo = from + begun;
    *hi = *lo + part;
    return 1;
}

/* Take some of n items, until it returns 0: this thread's share, in the order in which the items
 * lie, then what others have not begun, those of its own pool first.  For items that would cost the
 * same on threads of the same speed.  Once a phase; a barrier must lie between two phases that
 * take. */
static inline int ig_team_take(struct ig_team *t, int tid, int n, int *lo, int *hi)
{
    if (ig_team_take_of(t, tid, n, lo, hi)) return 1;
    const struct ig_pool *own = &t->pool[ig_team_pool(t, tid)];
    for (int i = own->first; i < own->end; i++)
        if (ig_team_take_of(t, i, n, lo, hi)) return 1;
    for (int i = 0; i < t->n && t->n_pool > 1; i++)
        if (ig_team_take_of(t, i, n, lo, hi)) return 1;
    return 0;
}

/* Claim up to `grain` of n items: for items of unequal cost.  0 when none is left, in no pool's
 * part. */
static inline int ig_team_claim(struct ig_team *t, int tid, int n, int grain, int *lo, int *hi)
{
    const int own = ig_team_pool(t, tid);
    for (int k = 0; k < t->n_pool; k++) {
        const int p = own + k < t->n_pool ? own + k : own + k - t->n_pool;
        int from, to;
        ig_team_part(t, p, n, &from, &to);
        const int i =
            from + atomic_fetch_add_explicit(&t->pool[p].next, grain, memory_order_relaxed);
        if (i >= to) continue;
        *lo = i;
        *hi = i + grain < to ? i + grain : to;
        return 1;
    }
    return 0;
}

#endif
