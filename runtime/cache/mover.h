/* mover.h -- one thread that brings experts into slots: demand first; prefetches behind it, while
 * the disk has few pieces left to bring (where that cannot be seen: when no demand is under way).
 *
 * Whoever submits or waits does a turn of its work where the copy allows that (copy.h, sleep): a
 * read then starts, and its end is seen, without the time that waking a thread takes.  The mover's
 * own thread then wakes only for who sleeps, and while more is queued than may be under way.
 *
 * A move is one expert into one slot.  It is read in pieces, so that a demand never waits for more
 * than the pieces under way, and checked in the blocks that the file has checksums of, by the
 * threads that wait for it: together, each block by one of them, from when it is seen.  The mover's
 * own thread checks nothing, since on a busy machine it would take a core away from them.  So a
 * prefetch is checked when it is used, and one that never is costs no core anything.  Who has
 * nothing better to do may compute with what has arrived, and throw the result away when it does
 * not become ready.  An error is an error of that move: who demanded it decides.
 *
 * A disk may tell of a piece's end much later than its bytes are there: virtual ones tell of all
 * that is under way together.  So each block's last bytes are marked before it is read, and where
 * the mark is gone the block's checksum is tried.  If it is right, the block is there, whatever has
 * been told; if not, it is checked once its pieces have ended.  Only then is it wrong.
 *
 * Consumers read `state` and wait on it (a futex word); everything else of a move is the mover's
 * while it is PENDING or SEEN, and the owner's otherwise, once all who waited are back.  Nothing
 * here allocates after start.
 */
#ifndef IG_MOVER_H
#define IG_MOVER_H

#include <pthread.h>
#include <stdatomic.h>

#include "base.h"
#include "copy.h"
#include "wfile.h"

enum ig_move_state {
    IG_MOVE_NONE,    /* free for its owner */
    IG_MOVE_PENDING, /* queued or under way */
    IG_MOVE_SEEN,    /* all bytes are there and checked, not all of its pieces have ended */
    IG_MOVE_ARRIVED, /* all pieces have ended, not all bytes are checked */
    IG_MOVE_READY,
    IG_MOVE_FAILED,
    IG_MOVE_DROPPED, /* cancelled before it was ready */
};

enum ig_move_err { IG_MOVE_END = -1, IG_MOVE_HASH = -2 }; /* beside errno values, in `err` */

enum { IG_MOVE_PIECES = 64 }; /* most pieces of a move: the piece size follows from it */

struct ig_mover;

struct ig_move {
    _Atomic uint32_t state; /* enum ig_move_state */
    int err;                /* of a FAILED move: errno or enum ig_move_err */
    /* Set by the owner.  Blocks follow each other from `from` to the end; at most IG_WBLOCKS. */
    uint64_t from, bytes;
    const struct ig_wblock *block;
    uint32_t n_block;
    unsigned char *to;
    uint64_t err_at; /* place in the source */
    double ready_s;  /* ig_seconds() when it ARRIVED */
    struct ig_mover *by;

    /* Under the mover's lock. */
    struct ig_move *next;
    uint8_t demand, cancelled, pieces;
    uint8_t started, in_flight; /* pieces */

    /* Of who waits.  A block is taken once all its pieces have landed, or it looks so. */
    _Atomic uint32_t warmed;  /* parts of its destination */
    _Atomic uint32_t checked; /* blocks */
    _Atomic uint64_t landed;  /* bit set of pieces, without the last that came */
    _Atomic uint64_t taken;   /* of blocks: somebody checks it, or has */
    _Atomic uint64_t wrong;   /* of blocks */
    _Atomic uint64_t partial; /* of blocks that looked there and were not: wait for their pieces */
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
    uint8_t prefetch, seen; /* seen: its last bytes are there, though its end was not told */
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
    double busy_from;
};

/* piece_bytes: a multiple of copy->align.  prefetch_depth: most pieces, of any
 * kind, that the disk may have before it when a prefetch starts; where what arrives cannot be seen
 * early, most pieces of prefetches at a time. */
enum ig_err ig_mover_start(struct ig_mover *m, const struct ig_copy *copy, uint32_t piece_bytes,
                           uint32_t prefetch_depth, struct ig_why *why);
/* Ends the thread; pending moves are dropped. */
void ig_mover_stop(struct ig_mover *m);

/* n moves that are not PENDING, with from, bytes, blocks and to set; served in this order, from the
 * next turn on, which is the caller's to take. */
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
/* Until it is no longer PENDING; returns what it is then. */
enum ig_move_state ig_move_wait(struct ig_move *v);
/* Until it is SEEN, READY, FAILED or DROPPED, and checks what is to be checked.  Does turns
 * meanwhile, and sleeps when that lasts. */
enum ig_move_state ig_mover_wait(struct ig_mover *m, struct ig_move *v);
/* As ig_mover_wait, but returns PENDING or ARRIVED when only other threads' checks are missing. */
enum ig_move_state ig_mover_arrive(struct ig_mover *m, struct ig_move *v);
/* Until nothing of it is under way: before its memory or the move itself is used anew. */
void ig_mover_land(struct ig_mover *m, struct ig_move *v);

static inline int ig_move_usable(const struct ig_move *v)
{
    const enum ig_move_state s = ig_move_state(v);
    return s == IG_MOVE_READY || s == IG_MOVE_SEEN;
}

#endif
