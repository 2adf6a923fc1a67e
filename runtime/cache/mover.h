/* mover.h -- one thread that brings blocks into slots: demand first, prefetch when there is room.
 *
 * Whoever submits or waits does a turn of its work where the copy allows that (copy.h, sleep): a
 * read then starts, and its end is seen, without the time that waking a thread takes.
 *
 * A move is one block into one slot.  It is cut into pieces, so that a demand never waits for more
 * than the pieces under way.  The block's checksum is checked as pieces arrive; only then is it
 * ready.  Who has nothing better to do may compute with a block that is whole, and throw the result
 * away when it does not become ready.  An error is an error of that move: who demanded it decides.
 *
 * Consumers read `state` and wait on it (a futex word); everything else of a move is the mover's
 * while it is PENDING, and the owner's otherwise.  Nothing here allocates after start.
 */
#ifndef IG_MOVER_H
#define IG_MOVER_H

#include <pthread.h>
#include <stdatomic.h>

#include "base.h"
#include "copy.h"
#include "hash.h"

enum ig_move_state {
    IG_MOVE_NONE,    /* free for its owner */
    IG_MOVE_PENDING, /* queued or under way */
    IG_MOVE_READY,
    IG_MOVE_FAILED,
    IG_MOVE_DROPPED, /* cancelled before it was ready */
};

enum ig_move_err { IG_MOVE_END = -1, IG_MOVE_HASH = -2 }; /* beside errno values, in `err` */

enum { IG_MOVE_PIECES = 64 }; /* most pieces of a move: the piece size follows from it */

struct ig_move {
    _Atomic uint32_t state;     /* enum ig_move_state */
    _Atomic uint32_t whole;     /* all bytes are there, but perhaps not yet checked */
    int err;                    /* of a FAILED move: errno or enum ig_move_err */
    uint64_t from, bytes, hash; /* set by the owner; hash is XXH3-64 of the block */
    unsigned char *to;
    uint64_t err_at; /* place in the source */
    double ready_s;  /* ig_seconds() when it became READY */

    /* Under the mover's lock. */
    struct ig_move *next;
    uint8_t demand, cancelled, pieces;
    uint8_t started, in_flight; /* pieces */
    /* Under drive. */
    uint8_t checked; /* pieces that went through the checksum, in order */
    uint64_t landed; /* bit set of pieces */
    struct ig_hash so_far;
};

struct ig_move_queue {
    struct ig_move *first, **last;
};

struct ig_mover_count {
    uint64_t bytes, moves, cancelled, failed;
    double busy_s; /* time with at least one piece under way */
};

/* A piece that is under way. */
struct ig_flight {
    struct ig_move *move; /* NULL: free */
    uint32_t piece, done, bytes;
    int prefetch;
    int ended, err; /* no longer under way, not yet checked */
};

enum { IG_MOVER_DEPTH = 64 };

struct ig_mover {
    struct ig_copy copy;
    uint32_t piece_bytes, prefetch_depth;
    pthread_t thread;
    int running;
    pthread_mutex_t drive; /* held while taking a turn; taken before lock */
    pthread_mutex_t lock;  /* of the queues, stop and count */
    _Atomic uint32_t bell; /* futex word: rung when there is something to look at */
    int stop;
    struct ig_move_queue demand, prefetch;
    struct ig_mover_count count;

    /* Under drive. */
    struct ig_flight flight[IG_MOVER_DEPTH];
    uint32_t n_flight, n_prefetch; /* under way */
    uint32_t n_ended;
    double busy_from;
};

/* piece_bytes: a multiple of copy->align.  prefetch_depth: most pieces of prefetches at a time. */
enum ig_err ig_mover_start(struct ig_mover *m, const struct ig_copy *copy, uint32_t piece_bytes,
                           uint32_t prefetch_depth, struct ig_why *why);
/* Ends the thread; pending moves are dropped. */
void ig_mover_stop(struct ig_mover *m);

/* n moves that are not PENDING, with from, bytes, hash and to set; served in this order, from the
 * next turn on. */
void ig_mover_submit(struct ig_mover *m, struct ig_move *const *v, int n, int demand);
/* Starts what may start and takes what has ended, unless another thread is at it; never sleeps. */
void ig_mover_turn(struct ig_mover *m);
/* A prefetch became a demand.  Does nothing when it is not PENDING. */
void ig_mover_promote(struct ig_mover *m, struct ig_move *v);
/* Not wanted any more; it becomes DROPPED, at once or when its pieces have ended. */
void ig_mover_cancel(struct ig_mover *m, struct ig_move *v);
void ig_mover_counts(struct ig_mover *m, struct ig_mover_count *c);

static inline enum ig_move_state ig_move_state(const struct ig_move *v)
{
    return (enum ig_move_state)atomic_load_explicit(&v->state, memory_order_acquire);
}
/* Until the move is not PENDING; returns what it is then.  The first sleeps, the second does turns
 * meanwhile and sleeps when that lasts. */
enum ig_move_state ig_move_wait(struct ig_move *v);
enum ig_move_state ig_mover_wait(struct ig_mover *m, struct ig_move *v);
/* As ig_mover_wait, but returns when the move is whole, too. */
enum ig_move_state ig_mover_arrive(struct ig_mover *m, struct ig_move *v);

#endif
