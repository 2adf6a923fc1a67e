/* move_check.c -- a move's blocks and their checksums; see move_check.h. */
#include "move_check.h"

#include "hash.h"

#include <string.h>

static const uint64_t mark = UINT64_C(0x9d3f5e8a61c2b74f); /* any value */

/* The block's pieces. */
static uint64_t pieces_of(const struct ig_move *v, const struct ig_wblock *b, uint32_t piece_bytes)
{
    const uint64_t at = b->off - v->block[0].off;
    const uint32_t lo = (uint32_t)(at / piece_bytes);
    const uint32_t n = (uint32_t)((at + b->bytes - 1) / piece_bytes) - lo + 1;
    return (n == 64 ? UINT64_MAX : (UINT64_C(1) << n) - 1) << lo;
}

static unsigned char *block_at(const struct ig_move *v, uint32_t b)
{
    return v->to + (v->block[b].off - v->block[0].off);
}

bool ig_move_changed(const unsigned char *end)
{
    uint64_t tail;
    atomic_signal_fence(memory_order_seq_cst); /* read it anew: not the program writes it */
    memcpy(&tail, end - sizeof tail, sizeof tail);
    return tail != mark;
}

void ig_move_mark(const struct ig_move *v)
{
    const uint32_t step = v->by->piece_bytes;
    if (!v->by->copy.early) return;
    for (uint32_t b = 0; b < v->n_block; b++)
        if (v->block[b].bytes >= sizeof mark)
            memcpy(block_at(v, b) + v->block[b].bytes - sizeof mark, &mark, sizeof mark);
    for (uint64_t at = step; at < v->bytes; at += step)
        memcpy(v->to + at - sizeof mark, &mark, sizeof mark);
}

static bool looks_there(const struct ig_move *v, uint32_t b)
{
    return v->by->copy.early && v->block[b].bytes >= sizeof mark &&
           !(atomic_load_explicit(&v->partial, memory_order_relaxed) >> b & 1) &&
           ig_move_changed(block_at(v, b) + v->block[b].bytes);
}

/* A block that nobody has taken and that has landed, or looks so, is the caller's; -1: there is
 * none. */
static int take_block(struct ig_move *v, bool *landed)
{
    const enum ig_move_state is = ig_move_state(v);
    const uint64_t pieces =
        is == IG_MOVE_ARRIVED ? UINT64_MAX : atomic_load_explicit(&v->landed, memory_order_acquire);
    for (uint32_t b = 0; b < v->n_block; b++) {
        const uint64_t bit = UINT64_C(1) << b;
        if (atomic_load_explicit(&v->taken, memory_order_relaxed) & bit) continue;
        *landed = !(pieces_of(v, &v->block[b], v->by->piece_bytes) & ~pieces);
        if (!*landed && !looks_there(v, b)) continue;
        if (!(atomic_fetch_or_explicit(&v->taken, bit, memory_order_relaxed) & bit)) return (int)b;
    }
    return -1;
}

/* All blocks are checked; their pieces' ends may not all have been told. */
static void conclude(struct ig_move *v)
{
    const uint64_t wrong = atomic_load_explicit(&v->wrong, memory_order_relaxed);
    uint32_t is = IG_MOVE_PENDING;
    if (!wrong && atomic_compare_exchange_strong(&v->state, &is, IG_MOVE_SEEN)) {
        ig_move_tell(v);
        return;
    }
    if (is == IG_MOVE_PENDING) is = ig_move_wait(v);
    if (is != IG_MOVE_ARRIVED) return; /* a piece could not be read */
    if (wrong) {
        pthread_mutex_lock(&v->by->lock);
        v->by->count.failed++;
        v->by->count.moves--;
        pthread_mutex_unlock(&v->by->lock);
        v->err = IG_MOVE_HASH;
        v->err_at = v->from + v->block[__builtin_ctzll(wrong)].off - v->block[0].off;
    }
    atomic_store_explicit(&v->state, wrong ? IG_MOVE_FAILED : IG_MOVE_READY, memory_order_release);
    ig_move_tell(v);
}

bool ig_move_check(struct ig_move *v)
{
    bool landed;
    const int b = take_block(v, &landed);
    if (b < 0) return false;
    const uint64_t bit = UINT64_C(1) << b;
    struct ig_hash h;
    ig_hash_start(&h);
    ig_hash_add(&h, block_at(v, (uint32_t)b), (size_t)v->block[b].bytes);
    const bool right = ig_hash_end(&h) == v->block[b].hash;
    if (!right && !landed) {
        atomic_fetch_or_explicit(&v->partial, bit, memory_order_relaxed);
        atomic_fetch_and_explicit(&v->taken, ~bit, memory_order_release);
        return true;
    }
    if (!right) atomic_fetch_or_explicit(&v->wrong, bit, memory_order_relaxed);
    if (atomic_fetch_add_explicit(&v->checked, 1, memory_order_acq_rel) + 1 == v->n_block)
        conclude(v);
    return true;
}
