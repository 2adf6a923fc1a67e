/* emulate.c -- a block's threads as fibers, one after the other until each barrier. */
#include "emulate.h"
#include "emulate_run.h"
#include "kernels.h"
#include "cuda/args.h"
#include "math.h"

#include <stdio.h>
#include <stdlib.h>

enum { MOST_THREADS = 1024, STACK = 64 << 10, SHARED = 256 << 10 };

struct emu_index threadIdx, blockIdx, gridDim;
_Alignas(16) unsigned char emu_shared[SHARED];

static struct fiber {
    void *sp;
    int done;
    unsigned waits, warp_waits; /* barriers that this fiber has come to */
} fibers[MOST_THREADS];
static unsigned char *stacks;
static void *scheduler_sp;
static int n_fiber, current;
static uint32_t slots[MOST_THREADS];
static void (*kernel)(const struct ig_args a);
static const struct ig_args *args;

unsigned short ig_to_half(float f) { return ig_fp16_from_f32(f); }
float ig_half(unsigned h) { return ig_fp16_to_f32((uint16_t)h); }

/* Save the callee's registers and change stacks (System V, x86-64). */
void emu_switch(void **from, void *to);
__asm__(".text\n.globl emu_switch\nemu_switch:\n"
        "push %rbp; push %rbx; push %r12; push %r13; push %r14; push %r15\n"
        "mov %rsp, (%rdi)\n mov %rsi, %rsp\n"
        "pop %r15; pop %r14; pop %r13; pop %r12; pop %rbx; pop %rbp\n ret\n");

static void yield(void)
{
    emu_switch(&fibers[current].sp, scheduler_sp);
    threadIdx.x = (unsigned)current;
}

static void entry(void)
{
    threadIdx.x = (unsigned)current;
    kernel(*args);
    fibers[current].done = 1;
    yield();
    abort();
}

/* Wait until every live fiber of [lo, hi) has come to its barrier number `mine` too. */
static void sync(int lo, int hi, int warp)
{
    struct fiber *const me = &fibers[current];
    const unsigned mine = warp ? ++me->warp_waits : ++me->waits;
    for (;;) {
        int all = 1;
        for (int i = lo; i < hi && all; i++)
            all = fibers[i].done || (warp ? fibers[i].warp_waits : fibers[i].waits) >= mine;
        if (all) return;
        yield();
    }
}

void emu_sync_block(void) { sync(0, n_fiber, 0); }
void emu_sync_warp(void)
{
    const int lo = current & ~31;
    sync(lo, lo + 32 < n_fiber ? lo + 32 : n_fiber, 1);
}

uint32_t emu_swap(uint32_t v, int mask)
{
    slots[current] = v;
    emu_sync_warp();
    const uint32_t got = slots[current ^ mask];
    emu_sync_warp();
    return got;
}

static void start(int i)
{
    void **top = (void **)(void *)(stacks + (size_t)(i + 1) * STACK) - 2;
    *top = (void *)(uintptr_t)entry;
    fibers[i] = (struct fiber){ .sp = top - 6 };
}

static void run_block(void)
{
    for (int i = 0; i < n_fiber; i++) start(i);
    for (int left = n_fiber; left > 0;) {
        left = 0;
        for (current = 0; current < n_fiber; current++) {
            if (fibers[current].done) continue;
            emu_switch(&scheduler_sp, fibers[current].sp);
            left += !fibers[current].done;
        }
    }
}

void emu_launch(void (*k)(const struct ig_args a), const struct ig_args *a, struct emu_index grid,
                int threads)
{
    if (!stacks) stacks = aligned_alloc(4096, (size_t)MOST_THREADS * STACK);
    if (!stacks || threads > MOST_THREADS) abort();
    kernel = k;
    args = a;
    n_fiber = threads;
    gridDim = grid;
    for (blockIdx.z = 0; blockIdx.z < grid.z; blockIdx.z++)
        for (blockIdx.y = 0; blockIdx.y < grid.y; blockIdx.y++)
            for (blockIdx.x = 0; blockIdx.x < grid.x; blockIdx.x++) run_block();
}
