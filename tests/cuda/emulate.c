/* emulate.c -- a block's threads as fibers, one after the other until each barrier. */
#include "emulate.h"
#include "emulate_run.h"
#include "kernels.h"
#include "cuda/args.h"
#include "math.h"

#include <stdio.h>
#include <stdlib.h>

enum { MOST_THREADS = 1024, WARP = 32, STACK = 64 << 10, SHARED = 256 << 10 };

struct emu_index threadIdx, blockIdx, gridDim;
_Alignas(16) unsigned char emu_shared[SHARED];

/* Fibers that wait for each other: a warp's, the block's. */
struct group {
    int live, arrived;
    unsigned barrier; /* its number: those that all have come to */
};
static struct fiber {
    void *sp;
    const struct group *at; /* whose barrier it waits at, and that barrier's number */
    unsigned barrier;
    int done;
} fibers[MOST_THREADS];
static struct group block, warps[MOST_THREADS / WARP];
static unsigned char *stacks;
static void *scheduler_sp;
static int n_fiber, current;
static uint32_t slots[2][MOST_THREADS]; /* in turn: nobody is two exchanges ahead */
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

/* Whoever comes last, or ends while all others wait, lets them go. */
static void release(struct group *g)
{
    if (g->arrived < g->live) return;
    g->arrived = 0;
    g->barrier++;
}

static void sync(struct group *g)
{
    const unsigned mine = g->barrier;
    g->arrived++;
    release(g);
    if (g != &block && g->barrier != mine) return; /* who comes last to the block's does not go first */
    fibers[current].at = g;
    fibers[current].barrier = mine;
    yield();
    fibers[current].at = NULL;
}

void emu_sync_block(void) { sync(&block); }
void emu_sync_warp(void) { sync(&warps[current / WARP]); }

static void leave(struct group *g)
{
    g->live--;
    release(g);
}

static void entry(void)
{
    threadIdx.x = (unsigned)current;
    kernel(*args);
    fibers[current].done = 1;
    leave(&block);
    leave(&warps[current / WARP]);
    yield();
    abort();
}

/* Where this exchange of the warp puts its values. */
static uint32_t *exchange(uint32_t v)
{
    uint32_t *turn = slots[warps[current / WARP].barrier & 1];
    turn[current] = v;
    emu_sync_warp();
    return turn;
}

uint32_t emu_swap(uint32_t v, int mask) { return exchange(v)[current ^ mask]; }

unsigned emu_ballot(int v)
{
    const uint32_t *turn = exchange(v != 0);
    unsigned bits = 0;
    for (int i = 0; i < WARP; i++) bits |= turn[(current & -WARP) + i] << i;
    return bits;
}

/* What each lane holds of a and b, as the PTX manual has it: element i of a (four a word) is row g,
 * or g + 8 for odd words, column 4c + i % 4, and 16 more from word 2 on; of b, row 4c + i % 4, and 16
 * more in word 1, column g. */
static unsigned fragment_a[MOST_THREADS][4], fragment_b[MOST_THREADS][2];

static int dot_of(int warp, int row, int column, int depth, int c)
{
    for (int k = 0; k < depth; k += 4) {
        const int lane_a = row % 8 * 4 + k % 16 / 4, lane_b = column * 4 + k % 16 / 4;
        c = ig_dot4s(fragment_a[warp + lane_a][k / 16 * 2 + row / 8], (int)fragment_b[warp + lane_b][k / 16], c);
    }
    return c;
}

void emu_mma(int *d, const unsigned *a, const unsigned *b, int c, int depth)
{
    const int lane = current % WARP, warp = current & -WARP;
    for (int i = 0; i < depth / 8; i++) fragment_a[current][i] = a[i];
    for (int i = 0; i < depth / 16; i++) fragment_b[current][i] = b[i];
    emu_sync_warp();
    for (int i = 0; i < 4; i++) d[i] = dot_of(warp, lane / 4 + i / 2 * 8, lane % 4 * 2 + i % 2, depth, c);
    emu_sync_warp();
}

static float bf16_of(unsigned h) { return ig_bits(h << 16); }

/* In the emulated unit the upper 8 columns come first, and the partial sum apart from d: another order than
 * kernels.h's, so that nobody relies on it. */
static void mma_16(float *d, const unsigned *a, const unsigned *b, float (*number)(unsigned h))
{
    const int lane = current & 31, warp = current & ~31;
    memcpy(fragment_a[current], a, 4 * sizeof *a);
    memcpy(fragment_b[current], b, 2 * sizeof *b);
    emu_sync_warp();
    for (int i = 0; i < 4; i++) {
        const int row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
        float sum = 0.0f;
        for (int k = 15; k >= 0; k--) {
            const unsigned wa = fragment_a[warp + row % 8 * 4 + k % 8 / 2][k / 8 * 2 + row / 8],
                           wb = fragment_b[warp + column * 4 + k % 8 / 2][k / 8];
            sum += number(wa >> 16 * (k % 2) & 0xffffu) * number(wb >> 16 * (k % 2) & 0xffffu);
        }
        d[i] += sum;
    }
    emu_sync_warp();
}
void emu_mma_bf16(float *d, const unsigned *a, const unsigned *b) { mma_16(d, a, b, bf16_of); }
void emu_mma_f16(float *d, const unsigned *a, const unsigned *b) { mma_16(d, a, b, ig_half); }

static const void *lines[MOST_THREADS];
void emu_matrices(unsigned *w, const void *line, int turned)
{
    const int lane = current & 31, warp = current & ~31;
    lines[current] = line;
    emu_sync_warp();
    for (int i = 0; i < 4; i++) {
        w[i] = 0;
        for (int j = 0; j < 2; j++) {
            const int row = turned ? lane % 4 * 2 + j : lane / 4, column = turned ? lane / 4 : lane % 4 * 2 + j;
            w[i] |= (unsigned)((const uint16_t *)lines[warp + 8 * i + row])[column] << 16 * j;
        }
    }
    emu_sync_warp();
}

static unsigned bf16_bits(float f)
{
    const unsigned u = ig_f32_bits(f);
    if ((u & 0x7fffffffu) > 0x7f800000u) return 0x7fff; /* NaN */
    return (u + 0x7fffu + (u >> 16 & 1)) >> 16;
}
unsigned ig_to_halves(float lo, float hi) { return ig_to_half(lo) | (unsigned)ig_to_half(hi) << 16; }
unsigned ig_to_bf16(float lo, float hi) { return bf16_bits(lo) | bf16_bits(hi) << 16; }

static void start(int i)
{
    void **top = (void **)(void *)(stacks + (size_t)(i + 1) * STACK) - 2;
    *top = (void *)(uintptr_t)entry;
    fibers[i] = (struct fiber){ .sp = top - 6 };
}

static int waits(const struct fiber *f) { return f->done || (f->at && f->at->barrier == f->barrier); }

/* Each warp goes on alone until all its lanes wait for others, so that nothing but barriers orders warps. */
static int run_warp(int first)
{
    const unsigned phase = block.barrier;
    int moved = 0;
    for (int went = 1; went; moved |= went) {
        went = 0;
        for (current = first; current < first + WARP && current < n_fiber; current++) {
            if (waits(&fibers[current])) continue;
            emu_switch(&scheduler_sp, fibers[current].sp);
            if (block.barrier != phase) return 1;
            went = 1;
        }
    }
    return moved;
}

/* All warps from barrier to barrier, the first or the last of them first: by turns, and not alike in all blocks. */
static int run_phase(void)
{
    const int n_warp = (n_fiber + WARP - 1) / WARP, down = (block.barrier + blockIdx.x + blockIdx.y + blockIdx.z) & 1;
    int moved = 0;
    const unsigned phase = block.barrier;
    for (int i = 0; i < n_warp && block.barrier == phase; i++) moved |= run_warp((down ? n_warp - 1 - i : i) * WARP);
    return moved;
}

static void run_block(void)
{
    block = (struct group){ .live = n_fiber };
    memset(warps, 0, sizeof warps);
    for (int i = 0; i < n_fiber; i++) {
        start(i);
        warps[i / WARP].live++;
    }
    while (block.live) {
        if (run_phase() || !block.live) continue;
        fputs("emulate: threads of a block wait at different barriers\n", stderr);
        abort();
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
