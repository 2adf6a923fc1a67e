/* copy.h -- an asynchronous copy of pieces into memory that consumers read: what a mover drives.
 *
 * An implementation moves pieces from wherever it likes; it knows neither slots nor priorities.
 * One thread at a time makes calls, but for sleep.  Every accepted piece ends in exactly one
 * ig_done; a piece is small enough that nothing needs to end it early.
 */
#ifndef IG_COPY_H
#define IG_COPY_H

#include <stdint.h>

struct ig_piece {
    uint64_t from; /* place in the source */
    unsigned char *to;
    uint32_t bytes;
    uint32_t tag; /* the caller's; comes back in ig_done */
};

struct ig_done {
    uint32_t tag;
    uint32_t bytes; /* that arrived, from the front; fewer than asked for is not an error here */
    int err;        /* errno, 0: none; 0 bytes and no error: the source ends here */
};

struct ig_copy {
    void *ctx;
    uint32_t depth; /* most pieces at a time */
    uint32_t align; /* of from, to and bytes: a piece is cut at multiples of it */
    int early;      /* what has come of a piece may be looked at before the piece has ended */
    /* Start a piece; 0, or the errno why it did not start. */
    int (*submit)(void *ctx, const struct ig_piece *p);
    /* One piece that ended: 1, or 0 when none has.  wait: sleep until one has. */
    int (*poll)(void *ctx, struct ig_done *d, int wait);
    /* Returns when n pieces may have ended, or after a while; runs beside the others.  NULL: submit
     * or poll may block, and only a thread that has nothing else to do may call them. */
    void (*sleep)(void *ctx, uint32_t n);
};

#endif
