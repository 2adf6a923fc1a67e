/* The mover over memory and over a file: bytes, order, priority, cancelling, every error. */
#include "mover.h"
#include "copy_file.h"
#include "copy_shaky.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

enum { BLOCK = 160 << 10, N_BLOCK = 24, N_SLOT = 12, PIECE = 16 << 10 };

static unsigned char *source, *slots;
static struct ig_move *move;
static struct ig_mover mover;
static struct shaky shaky;
static struct ig_why why;

static int setup(void **state)
{
    (void)state;
    source = aligned_alloc(4096, (size_t)BLOCK * N_BLOCK);
    slots = aligned_alloc(4096, (size_t)BLOCK * N_SLOT);
    move = aligned_alloc(64, (sizeof *move * N_SLOT + 63) / 64 * 64);
    unsigned x = 1;
    for (size_t i = 0; i < (size_t)BLOCK * N_BLOCK; i++)
        source[i] = (unsigned char)((x = x * 1664525u + 1013904223u) >> 24);
    return 0;
}
static int teardown(void **state)
{
    (void)state;
    free(source);
    free(slots);
    free(move);
    return 0;
}

static void fresh(void)
{
    memset(&shaky, 0, sizeof shaky);
    memset(move, 0, sizeof *move * N_SLOT);
    shaky.memory = source;
    shaky.memory_bytes = (uint64_t)BLOCK * N_BLOCK;
    shaky.seed = 7;
}

static void begin(uint32_t depth, uint32_t prefetch)
{
    const struct ig_copy c = shaky_copy(&shaky, depth);
    assert_int_equal(ig_mover_start(&mover, &c, PIECE, prefetch, &why), IG_OK);
}

/* The last block is not a whole number of pieces. */
static uint64_t bytes_of(int block) { return block == N_BLOCK - 1 ? BLOCK - 4096 : BLOCK; }

/* Checksums of blocks that are no multiple of pieces; of every third one the whole. */
static struct ig_wblock blocks[N_BLOCK][IG_WBLOCKS];
static uint32_t sums(int block)
{
    const uint64_t from = (uint64_t)block * BLOCK, all = bytes_of(block);
    const uint64_t step = block % 3 == 0 ? all : block % 3 == 1 ? 24 << 10 : 5000;
    uint32_t n = 0;
    for (uint64_t at = 0; at < all; at += step, n++) {
        const uint64_t bytes = all - at < step ? all - at : step;
        blocks[block][n] =
            (struct ig_wblock){ from + at, bytes, XXH3_64bits(source + from + at, bytes) };
    }
    return n;
}

static struct ig_move *fill(int slot, int block)
{
    struct ig_move *v = &move[slot];
    v->from = (uint64_t)block * BLOCK;
    v->bytes = bytes_of(block);
    v->to = slots + (size_t)slot * BLOCK;
    v->block = blocks[block];
    v->n_block = sums(block);
    memset(v->to, 0xff, BLOCK);
    return v;
}

static void assert_block(int slot, int block)
{
    assert_memory_equal(slots + (size_t)slot * BLOCK, source + (size_t)block * BLOCK,
                        bytes_of(block));
}

/* It is right when it can be used, and when all of it has ended. */
static void assert_comes(struct ig_move *v)
{
    ig_mover_wait(&mover, v);
    assert_true(ig_move_usable(v));
    ig_mover_land(&mover, v);
    assert_int_equal(ig_move_state(v), IG_MOVE_READY);
}

static void many(uint32_t depth)
{
    begin(depth, 2);
    for (int round = 0; round < 40; round++) {
        struct ig_move *v[N_SLOT];
        for (int s = 0; s < N_SLOT; s++) v[s] = fill(s, (round * 5 + s) % N_BLOCK);
        ig_mover_submit(&mover, v, 4, 0);
        ig_mover_submit(&mover, v + 4, N_SLOT - 4, 1);
        ig_mover_promote(&mover, v[round % 4]);
        for (int s = 0; s < N_SLOT; s++) {
            assert_comes(v[s]);
            assert_block(s, (round * 5 + s) % N_BLOCK);
        }
    }
    ig_mover_stop(&mover);
    struct ig_mover_count c = mover.count;
    assert_int_equal(c.moves, 40 * N_SLOT);
    assert_int_equal(c.failed + c.cancelled, 0);
}

static void test_bytes(void **state)
{
    (void)state;
    static const uint32_t depth[] = { 1, 3, 16 };
    for (int i = 0; i < 3; i++) {
        fresh();
        many(depth[i]);
    }
}

static void test_delays_and_sizes(void **state)
{
    (void)state;
    fresh();
    shaky.short_some = shaky.shuffle = 1;
    shaky.delay_us = 50;
    many(8);
    assert_true(shaky.n_short > 100);
}

/* A demand passes prefetches that were there before it, but for the pieces under way. */
static void test_priority(void **state)
{
    (void)state;
    fresh();
    shaky.delay_us = 2000;
    begin(8, 2);
    struct ig_move *v[5];
    for (int s = 0; s < 5; s++) v[s] = fill(s, s);
    ig_mover_submit(&mover, v, 4, 0);
    while (shaky.n_order < 3) usleep(100);
    ig_mover_submit(&mover, v + 4, 1, 1);
    assert_int_equal(ig_mover_wait(&mover, v[4]), IG_MOVE_READY);
    assert_int_equal(ig_move_state(v[1]), IG_MOVE_PENDING);
    ig_mover_stop(&mover);
    uint32_t last = 0, before = 0;
    for (uint32_t i = 0; i < shaky.n_order; i++)
        if (shaky.order[i] / BLOCK == 4) last = i;
    for (uint32_t i = 0; i < last; i++) before += shaky.order[i] / BLOCK != 4;
    assert_true(before < BLOCK / PIECE); /* less than one prefetch in front of it */
    assert_block(4, 4);
    for (int s = 0; s < 4; s++) assert_int_not_equal(ig_move_state(v[s]), IG_MOVE_PENDING);
}

static void test_cancel(void **state)
{
    (void)state;
    fresh();
    shaky.delay_us = 1000;
    begin(4, 2);
    struct ig_move *v[6];
    for (int s = 0; s < 6; s++) v[s] = fill(s, s);
    ig_mover_submit(&mover, v, 6, 0);
    while (shaky.n_order < 2) usleep(100);
    for (int s = 0; s < 6; s++) ig_mover_cancel(&mover, v[s]);
    for (int s = 1; s < 6; s++) assert_int_equal(ig_mover_wait(&mover, v[s]), IG_MOVE_DROPPED);
    assert_int_not_equal(ig_mover_wait(&mover, v[0]), IG_MOVE_FAILED);
    /* A slot can be used again at once. */
    struct ig_move *w = fill(3, 17);
    ig_mover_submit(&mover, &w, 1, 1);
    assert_int_equal(ig_mover_wait(&mover, w), IG_MOVE_READY);
    assert_block(3, 17);
    ig_mover_cancel(&mover, w); /* means nothing now */
    assert_int_equal(ig_move_state(w), IG_MOVE_READY);
    ig_mover_stop(&mover);
    assert_true(shaky.n_piece < 2 * BLOCK / PIECE);
}

/* An error is of that move: the others arrive, and the slot works again. */
static void test_errors(void **state)
{
    (void)state;
    static const struct {
        enum shaky_fault fault;
        int err;
    } t[] = { { SHAKY_EIO, EIO }, { SHAKY_END, IG_MOVE_END }, { SHAKY_FLIP, IG_MOVE_HASH } };
    for (int i = 0; i < 3; i++) {
        fresh();
        shaky.fault = t[i].fault;
        shaky.fault_at = 2 * BLOCK + 5 * PIECE + 100;
        shaky.fault_left = 1;
        begin(8, 2);
        struct ig_move *v[4];
        for (int s = 0; s < 4; s++) v[s] = fill(s, s);
        ig_mover_submit(&mover, v, 4, 1);
        for (int s = 0; s < 4; s++)
            assert_int_equal(ig_mover_wait(&mover, v[s]), s == 2 ? IG_MOVE_FAILED : IG_MOVE_READY);
        assert_int_equal(v[2]->err, t[i].err);
        assert_int_equal(
            v[2]->err_at,
            2 * BLOCK + (t[i].err == IG_MOVE_HASH ? (5 * PIECE + 100) / 5000 * 5000 : 5 * PIECE));
        v[2] = fill(2, 2);
        ig_mover_submit(&mover, &v[2], 1, 1);
        assert_int_equal(ig_mover_wait(&mover, v[2]), IG_MOVE_READY);
        assert_block(2, 2);
        ig_mover_stop(&mover);
        assert_int_equal(mover.count.failed, 1);
    }
}

/* Threads that wait for the same moves share their blocks, and all hear the same of each. */
enum { WAITERS = 3 };
static void *waiter(void *arg)
{
    enum ig_move_state *s = arg;
    for (int i = 0; i < N_SLOT; i++)
        s[i] = i % 2 ? ig_mover_wait(&mover, &move[i]) : ig_mover_arrive(&mover, &move[i]);
    return NULL;
}
static void test_shared_checks(void **state)
{
    (void)state;
    static enum ig_move_state seen[WAITERS][N_SLOT];
    for (int round = 0; round < 30; round++) {
        pthread_t thread[WAITERS];
        struct ig_move *v[N_SLOT];
        fresh();
        shaky.delay_us = round % 3 * 40;
        if (round % 2) shaky.fault = SHAKY_FLIP;
        shaky.fault_at = 5 * BLOCK + 7 * PIECE; /* slot 5's third block and no other */
        shaky.fault_left = 1;
        begin(6, 2);
        for (int s = 0; s < N_SLOT; s++) v[s] = fill(s, s);
        ig_mover_submit(&mover, v, N_SLOT, 1);
        for (int t = 0; t < WAITERS; t++)
            assert_int_equal(pthread_create(&thread[t], NULL, waiter, seen[t]), 0);
        for (int t = 0; t < WAITERS; t++) pthread_join(thread[t], NULL);
        for (int s = 0; s < N_SLOT; s++) {
            const enum ig_move_state want = round % 2 && s == 5 ? IG_MOVE_FAILED : IG_MOVE_READY;
            assert_int_equal(ig_mover_wait(&mover, v[s]), want);
            for (int t = 0; t < WAITERS; t++)
                if (seen[t][s] != want) {
                    assert_true(s % 2 == 0);
                    assert_int_equal(seen[t][s], IG_MOVE_ARRIVED);
                }
            if (want == IG_MOVE_READY) assert_block(s, s);
        }
        ig_mover_stop(&mover);
        assert_int_equal(mover.count.failed, round % 2);
        assert_int_equal(mover.count.moves, N_SLOT - round % 2);
    }
}

/* A block is used as soon as it is seen; its memory is free when all its pieces have ended. */
static void test_seen(void **state)
{
    (void)state;
    for (int fault = 0; fault < 2; fault++) {
        fresh();
        struct ig_move *v[2] = { fill(0, 1), fill(1, 2) };
        shaky.early = SHAKY_ALL;
        shaky.silent = 1;
        shaky.fault = fault ? SHAKY_EIO : SHAKY_NONE;
        shaky.fault_at = 2 * BLOCK;
        shaky.fault_left = 1;
        begin(64, 2);
        ig_mover_submit(&mover, v, 2, 1);
        for (int s = 0; s < 2; s++) {
            assert_int_equal(ig_mover_wait(&mover, v[s]), IG_MOVE_SEEN);
            assert_true(ig_move_usable(v[s]));
            assert_block(s, s + 1);
        }
        shaky.silent = 0;
        ig_mover_land(&mover, v[0]);
        ig_mover_land(&mover, v[1]);
        assert_int_equal(ig_move_state(v[0]), IG_MOVE_READY);
        assert_int_equal(ig_move_state(v[1]), fault ? IG_MOVE_FAILED : IG_MOVE_READY);
        ig_mover_stop(&mover);
        assert_int_equal(mover.count.moves, 2 - fault);
        assert_int_equal(mover.count.failed, fault);
    }
}

static void *speak(void *arg)
{
    (void)arg;
    usleep(3000);
    shaky.silent = 0;
    return NULL;
}

/* The ends of blocks are there, what is between is not: nobody takes that for the block, nor for a
 * damaged file. */
static void test_partly_there(void **state)
{
    (void)state;
    for (int damaged = 0; damaged < 2; damaged++) {
        pthread_t thread;
        fresh();
        struct ig_move *v = fill(0, 4);
        shaky.early = SHAKY_TAILS;
        shaky.silent = 1;
        shaky.fault = damaged ? SHAKY_FLIP : SHAKY_NONE;
        shaky.fault_at = 4 * BLOCK + 5 * PIECE;
        shaky.fault_left = 1;
        begin(64, 2);
        ig_mover_submit(&mover, &v, 1, 1);
        assert_int_equal(pthread_create(&thread, NULL, speak, NULL), 0);
        assert_int_equal(ig_mover_wait(&mover, v), damaged ? IG_MOVE_FAILED : IG_MOVE_READY);
        pthread_join(thread, NULL);
        assert_true(v->partial != 0);
        if (damaged)
            assert_int_equal(v->err, IG_MOVE_HASH);
        else
            assert_block(0, 4);
        ig_mover_stop(&mover);
    }
}

/* A slot that still has this expert's right bytes, from before a move that was dropped: they are not
 * taken for those of the file, which is damaged since. */
static void test_older_bytes(void **state)
{
    (void)state;
    pthread_t thread;
    fresh();
    struct ig_move *v = fill(0, 4);
    memcpy(v->to, source + 4 * BLOCK, BLOCK);
    atomic_store(&v->state, IG_MOVE_DROPPED);
    shaky.early = SHAKY_TAILS;
    shaky.silent = 1;
    shaky.fault = SHAKY_FLIP;
    shaky.fault_at = 4 * BLOCK + 5 * PIECE;
    shaky.fault_left = 1;
    begin(64, 2);
    ig_mover_submit(&mover, &v, 1, 1);
    assert_int_equal(pthread_create(&thread, NULL, speak, NULL), 0);
    assert_int_equal(ig_mover_wait(&mover, v), IG_MOVE_FAILED);
    pthread_join(thread, NULL);
    assert_int_equal(v->err, IG_MOVE_HASH);
    ig_mover_stop(&mover);
}

/* Prefetches start behind a demand, but the disk has only so many pieces before it that are not
 * seen to be there. */
static void test_prefetch_by_what_is_seen(void **state)
{
    (void)state;
    fresh();
    struct ig_move *v[2] = { fill(0, 0), fill(1, 3) };
    shaky.early = SHAKY_NOTHING;
    shaky.silent = 1;
    begin(64, 2);
    ig_mover_submit(&mover, v, 1, 1);
    ig_mover_submit(&mover, v + 1, 1, 0);
    ig_mover_turn(&mover);
    assert_int_equal(shaky.n_order, BLOCK / PIECE);
    memcpy(v[0]->to, source, BLOCK - PIECE); /* all but the demand's last piece */
    ig_mover_turn(&mover);
    assert_int_equal(shaky.n_order, BLOCK / PIECE + 1);
    ig_mover_turn(&mover);
    assert_int_equal(shaky.n_order, BLOCK / PIECE + 1);
    memcpy(v[0]->to, source, BLOCK);
    ig_mover_turn(&mover);
    assert_int_equal(shaky.n_order, BLOCK / PIECE + 2);
    assert_int_equal(ig_mover_wait(&mover, v[0]), IG_MOVE_SEEN);
    shaky.silent = 0;
    for (int s = 0; s < 2; s++) {
        ig_mover_land(&mover, v[s]);
        while (ig_move_state(v[s]) == IG_MOVE_ARRIVED) ig_mover_wait(&mover, v[s]);
        assert_int_equal(ig_move_state(v[s]), IG_MOVE_READY);
        assert_block(s, 3 * s);
    }
    ig_mover_stop(&mover);
}

static void test_stop_drops(void **state)
{
    (void)state;
    fresh();
    shaky.delay_us = 500;
    begin(2, 1);
    struct ig_move *v[N_SLOT];
    for (int s = 0; s < N_SLOT; s++) v[s] = fill(s, s);
    ig_mover_submit(&mover, v, N_SLOT, 0);
    ig_mover_stop(&mover);
    for (int s = 0; s < N_SLOT; s++) assert_int_not_equal(ig_move_state(v[s]), IG_MOVE_PENDING);
    ig_mover_stop(&mover); /* twice is once */
}

/* -- files */

static int temp_file(char *path)
{
    strcpy(path, "out/tests/mover-XXXXXX"); /* here: /tmp may have no direct reads */
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, source, (size_t)BLOCK * N_BLOCK), BLOCK * N_BLOCK);
    assert_int_equal(fsync(fd), 0);
    return fd;
}

static void over_file(int cached, int plain)
{
    char path[32];
    struct ig_copy_file_how how;
    fresh();
    const int fd = temp_file(path);
    const struct ig_copy_file_conf c = { fd,    path, 0,     cached,
                                         plain, 8,    slots, (uint64_t)BLOCK * N_SLOT };
    assert_int_equal(ig_copy_file_open(&shaky.inner, &c, &how, &why), IG_OK);
    const uint32_t depth = shaky.inner.depth;
    shaky.short_some = 1;
    many(depth);
    ig_copy_file_close(&shaky.inner);

    /* Cut short while open: an error of the moves beyond the end, and the place. */
    assert_int_equal(ftruncate(fd, 3 * BLOCK + 2 * PIECE), 0);
    assert_int_equal(ig_copy_file_open(&shaky.inner, &c, &how, &why), IG_OK);
    shaky.short_some = 0;
    begin(depth, 2);
    struct ig_move *v[2] = { fill(0, 2), fill(1, 3) };
    ig_mover_submit(&mover, v, 2, 1);
    assert_comes(v[0]);
    assert_int_equal(ig_mover_wait(&mover, v[1]), IG_MOVE_FAILED);
    assert_int_equal(v[1]->err, IG_MOVE_END);
    assert_int_equal(v[1]->err_at, 3 * BLOCK + 2 * PIECE);
    ig_mover_stop(&mover);
    ig_copy_file_close(&shaky.inner);
    close(fd);
    unlink(path);
}

static void test_file_direct(void **state) { (void)state, over_file(0, 0); }
static void test_file_cached(void **state) { (void)state, over_file(1, 0); }
static void test_file_plain(void **state) { (void)state, over_file(0, 1); }

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_delays_and_sizes),
        cmocka_unit_test(test_priority),
        cmocka_unit_test(test_cancel),
        cmocka_unit_test(test_errors),
        cmocka_unit_test(test_shared_checks),
        cmocka_unit_test(test_seen),
        cmocka_unit_test(test_partly_there),
        cmocka_unit_test(test_older_bytes),
        cmocka_unit_test(test_prefetch_by_what_is_seen),
        cmocka_unit_test(test_stop_drops),
        cmocka_unit_test(test_file_direct),
        cmocka_unit_test(test_file_cached),
        cmocka_unit_test(test_file_plain),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests_name("mover", tests, setup, teardown);
}
