/* copy_shaky.h -- a copy that wraps another, or a piece of memory, and makes trouble on purpose.
 *
 * Delays, short pieces and a changed order are drawn at random; faults are planted.  Everything
 * runs under the mover's drive but the plan of faults, which is set before it starts.
 */
#ifndef COPY_SHAKY_H
#define COPY_SHAKY_H

#include "copy.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

enum { SHAKY_MOST = 64 };
enum shaky_early { SHAKY_AT_END, SHAKY_NOTHING, SHAKY_TAILS, SHAKY_ALL };
enum shaky_fault { SHAKY_NONE, SHAKY_EIO, SHAKY_END, SHAKY_FLIP };

struct shaky {
    struct ig_copy inner; /* submit NULL: copies from `memory` */
    const unsigned char *memory;
    uint64_t memory_bytes;
    unsigned seed;
    int delay_us;       /* at most, a piece */
    int short_some;     /* pieces come back short */
    int shuffle;        /* pieces end in another order */
    int early;          /* of memory, enum shaky_early: what is there before a piece has ended */
    _Atomic int silent; /* no end is told */
    enum shaky_fault fault;
    uint64_t fault_at;      /* the piece that covers this place of the source */
    _Atomic int fault_left; /* how many times, once it is armed */

    int hold;                         /* with inner: polls until the first pieces start */
    struct ig_piece held[SHAKY_MOST]; /* not yet copied, not yet started */
    uint32_t n_held;
    struct ig_piece asked[SHAKY_MOST]; /* with inner: by tag */
    _Atomic uint64_t n_piece, n_short;
    uint64_t order[4096]; /* places in the order of submission, for tests of priority */
    _Atomic uint32_t n_order;
};

static inline unsigned shaky_draw(struct shaky *s)
{
    return (s->seed = s->seed * 1664525u + 1013904223u) >> 8;
}

static inline void shaky_done(struct shaky *s, const struct ig_piece *p, struct ig_done *d)
{
    if (s->delay_us) usleep(shaky_draw(s) % (unsigned)s->delay_us);
    if (s->fault && s->fault_at >= p->from && s->fault_at < p->from + p->bytes &&
        atomic_fetch_sub(&s->fault_left, 1) > 0) {
        if (s->fault == SHAKY_FLIP) p->to[s->fault_at - p->from] ^= 1;
        if (s->fault == SHAKY_EIO) d->err = EIO, d->bytes = 0;
        if (s->fault == SHAKY_END) d->bytes = 0;
    }
}

static inline int shaky_submit(void *ctx, const struct ig_piece *p)
{
    struct shaky *s = ctx;
    struct ig_piece q = *p;
    s->n_piece++;
    if (s->n_order < 4096) s->order[s->n_order++] = p->from;
    if (s->short_some && q.bytes > 4096 && shaky_draw(s) % 2) {
        q.bytes = 4096 * (1 + shaky_draw(s) % (q.bytes / 4096));
        s->n_short++;
    }
    if (s->inner.submit) {
        s->asked[p->tag] = q;
        if (!s->hold) return s->inner.submit(s->inner.ctx, &q);
        s->held[s->n_held++] = q;
        return 0;
    }
    s->held[s->n_held++] = q;
    if (s->early == SHAKY_ALL) memcpy(q.to, s->memory + q.from, q.bytes);
    for (uint32_t at = 4088; s->early == SHAKY_TAILS && at < q.bytes; at += 4096)
        memcpy(q.to + at, s->memory + q.from + at, 8);
    return 0;
}

static inline int shaky_poll(void *ctx, struct ig_done *d, int wait)
{
    struct shaky *s = ctx;
    if (s->inner.submit) {
        if (s->hold > 0 && --s->hold > 0) return 0;
        for (; s->n_held > 0; s->n_held--)
            if (s->inner.submit(s->inner.ctx, &s->held[s->n_held - 1]) != 0) return 0;
        if (!s->inner.poll(s->inner.ctx, d, wait)) return 0;
        shaky_done(s, &s->asked[d->tag], d);
        return 1;
    }
    if (s->n_held == 0 || s->silent) return 0;
    const uint32_t i = s->shuffle ? shaky_draw(s) % s->n_held : 0;
    const struct ig_piece p = s->held[i];
    memmove(s->held + i, s->held + i + 1, (--s->n_held - i) * sizeof *s->held);
    const uint64_t left = p.from < s->memory_bytes ? s->memory_bytes - p.from : 0;
    *d = (struct ig_done){ p.tag, p.bytes < left ? p.bytes : (uint32_t)left, 0 };
    memcpy(p.to, s->memory + (p.from < s->memory_bytes ? p.from : 0), d->bytes);
    shaky_done(s, &p, d);
    return 1;
}

static inline void shaky_sleep(void *ctx, uint32_t n)
{
    struct shaky *s = ctx;
    if (s->inner.sleep && s->n_held == 0)
        s->inner.sleep(s->inner.ctx, n);
    else
        usleep(100);
}

static inline struct ig_copy shaky_copy(struct shaky *s, uint32_t depth)
{
    /* Faults change or refuse at a piece's end what may be there before. */
    const int early = s->inner.submit ? s->inner.early && !s->fault : s->early;
    struct ig_copy c = { s, depth, 4096, early, shaky_submit, shaky_poll, NULL };
    if (s->inner.sleep || early) c.sleep = shaky_sleep;
    return c;
}

#endif
