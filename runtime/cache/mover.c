/* mover.c -- the mover's thread and its two queues; rules in mover.h. */
#include "move_check.h"

#include "machine.h"

#include <errno.h>
#include <linux/futex.h>
#include <limits.h>
#include <sched.h>
#include <stdbool.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    SPINS = 2000,    /* about 20 us: a sleep and its wake-up cost more */
    WARM = 32 << 10, /* bytes; 2 us of a core */
};
#define HELP_SECONDS 0.01 /* reads that take longer than ten of a few MiB: sleep */

static void futex_wait(_Atomic uint32_t *word, uint32_t while_is)
{
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, while_is, NULL, NULL, 0);
}
static void futex_wake(_Atomic uint32_t *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}
void ig_move_tell(struct ig_move *v) { futex_wake(&v->state); }

/* -- queues; the lock is held */

static void queue_init(struct ig_move_queue *q)
{
    q->first = NULL;
    q->last = &q->first;
}

static void queue_push(struct ig_move_queue *q, struct ig_move *v)
{
    v->next = NULL;
    *q->last = v;
    q->last = &v->next;
}

static void queue_remove(struct ig_move_queue *q, struct ig_move *v)
{
    for (struct ig_move **p = &q->first; *p; p = &(*p)->next)
        if (*p == v) {
            *p = v->next;
            if (q->last == &v->next) q->last = p;
            return;
        }
}

static void unqueue(struct ig_mover *m, struct ig_move *v)
{
    queue_remove(v->demand ? &m->demand : &m->prefetch, v);
    v->started = v->pieces;
}

/* What a move becomes when nothing of it is under way any more. */
static void settle(struct ig_mover *m, struct ig_move *v)
{
    enum ig_move_state to = IG_MOVE_ARRIVED;
    uint32_t is = IG_MOVE_PENDING;
    if (v->err)
        to = IG_MOVE_FAILED;
    else if (v->cancelled)
        to = IG_MOVE_DROPPED;
    m->count.failed += to == IG_MOVE_FAILED;
    m->count.cancelled += to == IG_MOVE_DROPPED;
    m->count.moves += to == IG_MOVE_ARRIVED;
    /* Whoever checks the last block early makes it SEEN, without the lock. */
    if (!atomic_compare_exchange_strong(&v->state, &is, (uint32_t)to))
        atomic_store(&v->state, to == IG_MOVE_ARRIVED ? IG_MOVE_READY : (uint32_t)to);
    futex_wake(&v->state);
}

/* -- the thread */

static uint32_t piece_size(const struct ig_mover *m, const struct ig_move *v, uint32_t piece)
{
    const uint64_t left = v->bytes - (uint64_t)piece * m->piece_bytes;
    return left < m->piece_bytes ? (uint32_t)left : m->piece_bytes;
}

/* Pieces that the disk still has to bring, as far as can be seen. */
static uint32_t at_disk(struct ig_mover *m)
{
    uint32_t n = 0;
    for (struct ig_flight *f = m->flight; m->copy.early && f < m->flight + m->copy.depth; f++) {
        if (!f->move || f->seen) continue;
        const uint64_t end = (uint64_t)f->piece * m->piece_bytes + f->bytes;
        if (ig_move_changed(f->move->to + end))
            f->seen = 1;
        else
            n++;
    }
    return n;
}

/* Whether a prefetch may start: it waits until no demand is under way, not only until all have
 * started, since a disk may take them in turn.  Where it can be seen what has come, the disk always
 * has the next few pieces before it, of whatever kind: a demand then waits for so many at most. */
static bool may_prefetch(struct ig_mover *m)
{
    if (m->copy.early) return at_disk(m) < m->prefetch_depth;
    return m->n_flight == m->n_prefetch && m->n_prefetch < m->prefetch_depth;
}

/* The next piece to start, in a free flight; NULL: none may start now. */
static struct ig_flight *next_flight(struct ig_mover *m)
{
    struct ig_flight *f = m->flight;
    if (m->n_flight == m->copy.depth) return NULL;
    pthread_mutex_lock(&m->lock);
    struct ig_move_queue *q = &m->demand;
    if (!q->first && m->prefetch.first && may_prefetch(m)) q = &m->prefetch;
    struct ig_move *v = q->first;
    if (v) {
        while (f->move) f++;
        *f = (struct ig_flight){ .move = v,
                                 .piece = v->started,
                                 .bytes = piece_size(m, v, v->started),
                                 .prefetch = q == &m->prefetch };
        v->in_flight++;
        if (++v->started == v->pieces) queue_remove(q, v);
    }
    pthread_mutex_unlock(&m->lock);
    if (!v) return NULL;
    if (m->n_flight++ == 0) m->busy_from = ig_seconds();
    m->n_prefetch += f->prefetch;
    return f;
}

static int submit(struct ig_mover *m, struct ig_flight *f)
{
    const uint64_t at = (uint64_t)f->piece * m->piece_bytes + f->done;
    const struct ig_piece p = { f->move->from + at, f->move->to + at, f->bytes - f->done,
                                (uint32_t)(f - m->flight) };
    return m->copy.submit(m->copy.ctx, &p);
}

/* A piece is there, or never will be; after a move's last one, the move is settled, which says that
 * this one is there, too: from then on the move may be its owner's. */
static void ended(struct ig_mover *m, struct ig_flight *f, int err)
{
    struct ig_move *v = f->move;
    const double now = ig_seconds();
    f->move = NULL;
    m->n_flight--;
    m->n_prefetch -= f->prefetch;

    pthread_mutex_lock(&m->lock);
    if (m->n_flight == 0) m->count.busy_s += now - m->busy_from;
    v->in_flight--;
    if (err && !v->err) {
        v->err = err;
        v->err_at = v->from + (uint64_t)f->piece * m->piece_bytes + f->done;
        if (v->started < v->pieces) unqueue(m, v);
    }
    v->ready_s = now;
    m->count.bytes += err ? 0 : f->bytes;
    if (v->in_flight == 0 && v->started == v->pieces)
        settle(m, v);
    else if (!err)
        atomic_fetch_or_explicit(&v->landed, UINT64_C(1) << f->piece, memory_order_release);
    pthread_mutex_unlock(&m->lock);
}

/* A piece came back: the rest of a short one is asked for again. */
static void back(struct ig_mover *m, const struct ig_done *d)
{
    struct ig_flight *f = &m->flight[d->tag];
    int err = d->err;

    f->done += d->bytes;
    if (err == EINTR || err == EAGAIN)
        err = 0;
    else if (!err && f->done < f->bytes && (d->bytes == 0 || f->done % m->copy.align))
        err = IG_MOVE_END;
    if (!err && f->done < f->bytes) {
        err = submit(m, f);
        if (!err) return;
    }
    ended(m, f, err);
}

/* Somebody waits for room among what is under way.  Only whoever drives takes from the queues. */
static bool queued(struct ig_mover *m, bool prefetch)
{
    pthread_mutex_lock(&m->lock);
    const bool some = m->demand.first || (prefetch && m->prefetch.first);
    pthread_mutex_unlock(&m->lock);
    return some;
}

/* Drive is held: what may start does, what has ended makes room, and from the start again. */
static void turn(struct ig_mover *m)
{
    struct ig_flight *f;
    struct ig_done d;
    do {
        while ((f = next_flight(m))) {
            const int err = submit(m, f);
            if (err) ended(m, f, err);
        }
        if (m->n_flight == 0 || !m->copy.poll(m->copy.ctx, &d, m->copy.sleep == NULL)) return;
        back(m, &d);
    } while (true);
}

static void *run(void *arg)
{
    struct ig_mover *m = arg;
    for (;;) {
        const uint32_t bell = atomic_load_explicit(&m->bell, memory_order_acquire);
        pthread_mutex_lock(&m->drive);
        turn(m);
        const uint32_t busy = m->n_flight;
        pthread_mutex_unlock(&m->drive);
        if (busy > 0) {
            m->copy.sleep(m->copy.ctx, queued(m, true) ? 1 : busy);
            continue;
        }
        pthread_mutex_lock(&m->lock);
        const int stop = m->stop;
        pthread_mutex_unlock(&m->lock);
        if (stop) return NULL;
        futex_wait(&m->bell, bell);
    }
}

/* -- the owner */

static void ring(struct ig_mover *m)
{
    atomic_fetch_add_explicit(&m->bell, 1, memory_order_release);
    futex_wake(&m->bell);
}

enum ig_err ig_mover_start(struct ig_mover *m, const struct ig_copy *copy, uint32_t piece_bytes,
                           uint32_t prefetch_depth, struct ig_why *why)
{
    IG_ASSERT(copy->depth >= 1 && copy->depth <= IG_MOVER_DEPTH && piece_bytes % copy->align == 0);
    memset(m, 0, sizeof *m);
    m->copy = *copy;
    m->piece_bytes = piece_bytes;
    m->prefetch_depth = prefetch_depth < 1 ? 1 : prefetch_depth;
    queue_init(&m->demand);
    queue_init(&m->prefetch);
    pthread_mutex_init(&m->lock, NULL);
    pthread_mutex_init(&m->drive, NULL);
    const int err = pthread_create(&m->thread, NULL, run, m);
    if (err) return ig_fail(why, IG_FAIL, "mover: no thread: %s", strerror(err));
    pthread_setname_np(m->thread, "mover");
    m->running = 1;
    return IG_OK;
}

void ig_mover_stop(struct ig_mover *m)
{
    if (!m->running) return;
    pthread_mutex_lock(&m->lock);
    m->stop = 1;
    for (int i = 0; i < 2; i++) {
        struct ig_move_queue *q = i ? &m->demand : &m->prefetch;
        while (q->first) {
            struct ig_move *v = q->first;
            v->cancelled = 1;
            unqueue(m, v);
            if (v->in_flight == 0) settle(m, v);
        }
    }
    pthread_mutex_unlock(&m->lock);
    ring(m);
    pthread_join(m->thread, NULL);
    pthread_mutex_destroy(&m->lock);
    pthread_mutex_destroy(&m->drive);
    m->running = 0;
}

void ig_mover_submit(struct ig_mover *m, struct ig_move *const *v, int n, int demand)
{
    if (n == 0) return;
    for (int i = 0; i < n; i++) {
        const uint64_t pieces = (v[i]->bytes + m->piece_bytes - 1) / m->piece_bytes;
        IG_ASSERT(pieces >= 1 && pieces <= IG_MOVE_PIECES);
        v[i]->err = 0;
        v[i]->demand = demand != 0;
        v[i]->pieces = (uint8_t)pieces;
        IG_ASSERT(v[i]->n_block >= 1 && v[i]->n_block <= IG_WBLOCKS);
        v[i]->by = m;
        v[i]->cancelled = v[i]->started = v[i]->in_flight = 0;
        atomic_store_explicit(&v[i]->warmed, 0, memory_order_relaxed);
        atomic_store_explicit(&v[i]->checked, 0, memory_order_relaxed);
        atomic_store_explicit(&v[i]->landed, 0, memory_order_relaxed);
        atomic_store_explicit(&v[i]->taken, 0, memory_order_relaxed);
        atomic_store_explicit(&v[i]->wrong, 0, memory_order_relaxed);
        /* Where the last move brought nothing, or not all, older bytes are left, of this very
         * expert perhaps: then none of its blocks is there before its pieces have landed. */
        const enum ig_move_state was = ig_move_state(v[i]);
        const int older = was == IG_MOVE_DROPPED || was == IG_MOVE_FAILED;
        atomic_store_explicit(&v[i]->partial, older ? UINT64_MAX : 0, memory_order_relaxed);
        ig_move_mark(v[i]);
        atomic_store_explicit(&v[i]->state, IG_MOVE_PENDING, memory_order_relaxed);
    }
    pthread_mutex_lock(&m->lock);
    for (int i = 0; i < n; i++) queue_push(demand ? &m->demand : &m->prefetch, v[i]);
    pthread_mutex_unlock(&m->lock);
    if (!m->copy.sleep) ring(m);
}

void ig_mover_turn(struct ig_mover *m)
{
    if (!m->copy.sleep || pthread_mutex_trylock(&m->drive) != 0) return;
    turn(m);
    pthread_mutex_unlock(&m->drive);
    if (queued(m, !m->copy.early)) ring(m);
}

void ig_mover_promote(struct ig_mover *m, struct ig_move *v)
{
    pthread_mutex_lock(&m->lock);
    if (ig_move_state(v) == IG_MOVE_PENDING && !v->demand) {
        if (v->started < v->pieces) {
            queue_remove(&m->prefetch, v);
            queue_push(&m->demand, v);
        }
        v->demand = 1;
    }
    pthread_mutex_unlock(&m->lock);
    if (!m->copy.sleep) ring(m);
}

void ig_mover_cancel(struct ig_mover *m, struct ig_move *v)
{
    pthread_mutex_lock(&m->lock);
    if (ig_move_state(v) == IG_MOVE_PENDING && v->started < v->pieces) {
        v->cancelled = 1;
        unqueue(m, v);
        if (v->in_flight == 0) settle(m, v);
    }
    pthread_mutex_unlock(&m->lock);
}

void ig_mover_counts(struct ig_mover *m, struct ig_mover_count *c)
{
    pthread_mutex_lock(&m->lock);
    *c = m->count;
    pthread_mutex_unlock(&m->lock);
}

static enum ig_move_state wait_while(struct ig_move *v, enum ig_move_state is)
{
    for (int i = 0; i < SPINS && ig_move_state(v) == is; i++) ig_pause();
    while (ig_move_state(v) == is) futex_wait(&v->state, is);
    return ig_move_state(v);
}

/* Who sleeps does no turns: the mover's thread has to. */
enum ig_move_state ig_move_wait(struct ig_move *v)
{
    if (ig_move_state(v) == IG_MOVE_PENDING) ring(v->by);
    return wait_while(v, IG_MOVE_PENDING);
}

/* The next part of where it goes to, into this core's cache; false: there is none left.  A disk
 * that writes through the processor's caches is a tenth faster where it finds the lines there
 * (bench/LOG.tsv), and who waits has nothing else to do. */
static bool warm(struct ig_move *v)
{
    if (atomic_load_explicit(&v->warmed, memory_order_relaxed) * (uint64_t)WARM >= v->bytes)
        return false;
    const uint64_t at =
        atomic_fetch_add_explicit(&v->warmed, 1, memory_order_relaxed) * (uint64_t)WARM;
    for (uint64_t i = at; i < at + WARM && i < v->bytes; i += 64) __builtin_prefetch(v->to + i, 1);
    return true;
}

/* While it is under way: what has landed is checked, and between turns other programs, and the
 * mover's thread, get the core when they want it. */
static void help(struct ig_mover *m, struct ig_move *v)
{
    const double until = ig_seconds() + HELP_SECONDS;
    while (ig_move_state(v) == IG_MOVE_PENDING) {
        ig_mover_turn(m);
        if (ig_move_check(v)) continue;
        if (!m->copy.sleep || ig_seconds() > until) {
            ig_move_wait(v);
            return;
        }
        if (warm(v)) continue;
        for (int i = 0; i < 20; i++) ig_pause();
        sched_yield();
    }
}

enum ig_move_state ig_mover_arrive(struct ig_mover *m, struct ig_move *v)
{
    help(m, v);
    while (ig_move_state(v) == IG_MOVE_ARRIVED && ig_move_check(v)) {
    }
    return ig_move_state(v);
}

enum ig_move_state ig_mover_wait(struct ig_mover *m, struct ig_move *v)
{
    ig_mover_arrive(m, v);
    return wait_while(v, IG_MOVE_ARRIVED);
}

void ig_mover_land(struct ig_mover *m, struct ig_move *v)
{
    enum ig_move_state is;
    while ((is = ig_move_state(v)) == IG_MOVE_PENDING || is == IG_MOVE_SEEN) {
        ring(m);
        wait_while(v, is);
    }
}
