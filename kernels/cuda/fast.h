/* fast.h -- panels of BF16 times many activation rows on the matrix units: `--set gemm=fast`.
 *
 * Not the sums of kernels.h: activations are rounded to BF16, which the unit wants, and the unit adds 16 products at
 * a time in an order of its own.  A result is within 2^-8 of the sum of its products' sizes of the exact one
 * (the rounding: tests/c/mma_test.c), and 2^-22 of that sum for each step of 16 columns (the additions:
 * tests/c/fast_test.c).  So a batch's bits are not the CPU's, nor those of a batch that is too small to come here.
 *
 * A warp multiplies two panels with all activation rows of the block's tile.  Weights go from memory to the
 * registers of the lane that multiplies them, seven steps ahead, and into L2 before: 8 bytes are 2 rows of 2 columns,
 * what the unit wants side by side.  Activations come into shared memory in the background.  A block goes through
 * some tiles of panels for the same activation rows, one behind the other without a pause: while a tile's results are
 * left, the next one's numbers come.
 */
#ifndef IG_FAST_H
#define IG_FAST_H

#include "unit.h"

enum {
    FAST_WARPS = IG_FAST_THREADS / 32,
    FAST_PANELS = 2 * FAST_WARPS,       /* of a tile */
    FAST_TOKENS = IG_FAST_TOKENS,       /* activation rows of a block */
    FAST_DEEP = 64,                     /* columns of a stage: a line of the unit's */
    FAST_STEPS = FAST_DEEP / 16,
    FAST_STAGES = IG_FAST_STAGES,       /* in use, in use by who is behind, arriving */
    FAST_STAGE = FAST_TOKENS * UNIT_LINE,
    FAST_AHEAD = 2                      /* pairs of stages that weights come into L2 before they are used */
};
_Static_assert(FAST_STAGES % 2 == 0 && FAST_STAGES * FAST_STAGE + UNIT_ALIGN == IG_FAST_BYTES, "what the host asks for");

/* What a block multiplies: `cols` columns, a multiple of 32, of this lane's rows in each tile. */
struct fast {
    const unsigned char *w[2]; /* this lane's rows of column 0 of the warp's panels */
    int last[2];               /* tile behind which there is no such panel: then once more that of this one */
    size_t more;               /* bytes from a tile's to the next one's */
    const unsigned short *x;
    const unsigned *row;    /* [FAST_TOKENS] in shared memory: where in x, in 32 numbers */
    int cols, rows, tiles;
};
typedef float fast_tile[2][FAST_TOKENS / 8][4];
typedef unsigned fast_weights[2 * FAST_STEPS][2][4]; /* [step of two stages][panel]: two rows of a pair of columns, of another */

/* Two stages of a tile; those behind the last are the first of the next tile. */
struct fast_pair {
    int tile, column;
};
IG_FN void fast_step_on(struct fast_pair *p, const struct fast *g)
{
    p->column += 2 * FAST_DEEP;
    if (p->column < g->cols) return;
    p->column = 0;
    p->tile++;
}

/* A lane's two rows of a panel begin there; result [m][..][i] is of panel m of the warp, row fast_row() + i / 2. */
IG_FN int fast_row(void) { return (int)threadIdx.x / 4 % 8 * 2; }
/* The warp's first panel, of the tile's. */
IG_FN int fast_panel(void) { return (int)threadIdx.x / 32 * 2; }
IG_FN int fast_token(int n, int i) { return 8 * n + 2 * ((int)threadIdx.x & 3) + i % 2; }

/* A block's shared memory, where lines may begin. */
IG_FN unsigned char *fast_lines(unsigned char *shared)
{
    return shared + (UNIT_ALIGN - ((uintptr_t)shared & (UNIT_ALIGN - 1))) % UNIT_ALIGN;
}

/* Activations of a stage, half `half` of a pair. */
IG_FN void fast_fetch(unsigned char *stage, const struct fast *g, const struct fast_pair *p, int half)
{
    const int chunk = (int)threadIdx.x % 8, column = p->column + half * FAST_DEEP + chunk * 8, first = (int)threadIdx.x / 8;
    const int left = column < g->cols ? UNIT_CHUNK : 0;
    UNROLL for (int i = 0; i < FAST_TOKENS; i += FAST_WARPS * 4)
    {
        const int t = first + i;
        if (t < g->rows && p->tile < g->tiles)
            ig_fetch16_of(stage + unit_chunk(t, chunk), g->x + (size_t)g->row[t] * 32 + (left ? column : 0), left);
    }
    ig_fetch_mark();
}

/* Weights of a step of a pair; behind the last columns once more the last, which meet zeros.  No branch: loads are to
 * be under way together. */
IG_FN void fast_load(unsigned (*w)[4], const struct fast *g, const struct fast_pair *p, int step)
{
    const size_t at = ((size_t)LEAST(p->column + 16 * step, g->cols - 16) / 2 + (threadIdx.x & 3)) * PR * 4;
    UNROLL for (int m = 0; m < 2; m++)
    {
        const unsigned char *const from = g->w[m] + (size_t)LEAST(p->tile, g->last[m]) * g->more + at;
        ig_load8(&w[m][0], &w[m][1], from);
        ig_load8(&w[m][2], &w[m][3], from + 4 * PR * 4);
    }
}

/* Lines of a stage's weights come into L2: half a warp has a panel's part. */
IG_FN void fast_ask(const struct fast *g, const struct fast_pair *p, int half)
{
    const int column = p->column + half * FAST_DEEP + (int)threadIdx.x % 16 * 4, second = (int)threadIdx.x / 16 % 2;
    const unsigned char *const w = (second ? g->w[1] : g->w[0]) - fast_row() * 4 + (size_t)p->tile * g->more;
    if (column < g->cols && p->tile < g->tiles && p->tile <= (second ? g->last[1] : g->last[0]))
        ig_prefetch(w + (size_t)column * PR * 2);
}

/* Where a block is: the pair in use, the next ones whose weights, activations, lines are asked for. */
struct fast_at {
    struct fast_pair now, next, fetch, ask;
    int slot; /* stage of the ring */
};

/* Half `half` of a pair: of each step the products, then weights seven steps on in place of those before it. */
IG_FN void fast_half(fast_tile acc, fast_weights w, const struct fast *g, unsigned char *lines, const struct fast_at *at,
                     int half, int wide)
{
    const int slot = at->slot + half, to = slot < 2 ? slot + FAST_STAGES - 2 : slot - 2;
    ig_fetched_but(FAST_STAGES - 3);
    unit_see_shared();
    __syncthreads(); /* all see this stage, and have used the one before the last */
    UNROLL for (int k = 0; k < FAST_STEPS; k++)
    {
        const int step = half * FAST_STEPS + k;
        unit_begin();
        UNROLL for (int m = 0; m < 2; m++) unit_rows_bf16(acc[m], w[step][m], lines + slot * FAST_STAGE, k, wide);
        unit_mark();
        unit_done_but(1);
        if (step == 0)
            fast_load(w[2 * FAST_STEPS - 1], g, &at->now, 2 * FAST_STEPS - 1);
        else
            fast_load(w[step - 1], g, &at->next, step - 1);
        if (k == 0) fast_fetch(lines + to * FAST_STAGE, g, &at->fetch, half);
    }
    fast_ask(g, &at->ask, half);
}

IG_FN void fast_on(const struct fast *g, struct fast_at *at)
{
    at->now = at->next;
    fast_step_on(&at->next, g);
    fast_step_on(&at->fetch, g);
    fast_step_on(&at->ask, g);
    at->slot = at->slot + 2 < FAST_STAGES ? at->slot + 2 : 0;
}

/* Before the first tile. */
IG_FN void fast_begin(fast_weights w, const struct fast *g, unsigned char *lines, struct fast_at *at)
{
    const struct fast_at start = { { 0, 0 }, { 0, 0 }, { 0, 0 }, { 0, 0 }, 0 };
    *at = start;
    for (int i = 0; i < FAST_STAGES - 2; i++) {
        fast_fetch(lines + i * FAST_STAGE, g, &at->fetch, i % 2);
        if (i % 2) fast_step_on(&at->fetch, g);
    }
    UNROLL for (int k = 0; k < 2 * FAST_STEPS - 1; k++) fast_load(w[k], g, &at->now, k);
    fast_step_on(&at->next, g);
    for (int i = 0; i < FAST_AHEAD; i++) {
        fast_ask(g, &at->ask, 0);
        fast_ask(g, &at->ask, 1);
        fast_step_on(&at->ask, g);
    }
}

IG_FN void fast_sum_of(fast_tile acc, fast_weights w, const struct fast *g, unsigned char *lines, struct fast_at *at, int wide)
{
    do {
        fast_half(acc, w, g, lines, at, 0, wide);
        fast_half(acc, w, g, lines, at, 1, wide);
        fast_on(g, at);
    } while (at->now.column > 0);
    unit_done_but(0);
}
/* The next tile; with few activation rows half of it. */
IG_FN void fast_sum(fast_tile acc, fast_weights w, const struct fast *g, unsigned char *lines, struct fast_at *at)
{
    UNROLL for (int j = 0; j < FAST_TOKENS; j++) acc[j / 64][j / 4 % 16][j % 4] = 0.0f;
    if (g->rows > FAST_TOKENS / 2)
        fast_sum_of(acc, w, g, lines, at, FAST_TOKENS / 8);
    else
        fast_sum_of(acc, w, g, lines, at, FAST_TOKENS / 16);
}

#endif
