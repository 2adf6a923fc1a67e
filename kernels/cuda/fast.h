/* fast.h -- panels of BF16 times many activation rows on the matrix units: `--set gemm=fast`.
 *
 * Not the sums of kernels.h: activations are rounded to BF16, which the unit wants, and the unit adds 16 products at
 * a time in an order of its own.  A result is within 2^-8 of the sum of its products' sizes of the exact one
 * (the rounding), and 2^-22 of that sum for each step of 16 columns (the additions): tests/c/mma_test.c.  So a
 * batch's bits are not the CPU's, nor those of a batch that is too small to come here.
 *
 * A warp multiplies two panels with all activation rows of the block's tile.  Weights go from memory to the
 * registers of the lane that multiplies them, a stage ahead: 16 bytes are 4 rows of 2 columns, lanes g < 4 have
 * rows of the first panel, the others of the second.  Activations come into shared memory in the background.
 */
#ifndef IG_FAST_H
#define IG_FAST_H

#include "unit.h"

enum {
    FAST_WARPS = IG_FAST_THREADS / 32,
    FAST_PANELS = 2 * FAST_WARPS,       /* of a block */
    FAST_TOKENS = IG_FAST_TOKENS,       /* activation rows of a block */
    FAST_DEEP = 64,                     /* columns of a stage: a line of the unit's */
    FAST_STEPS = FAST_DEEP / 16,
    FAST_STAGES = IG_FAST_STAGES,       /* in use, in use by who is behind, arriving */
    FAST_AHEAD = 4, /* stages that weights come into L2 before they are loaded */
    FAST_STAGE = FAST_TOKENS * UNIT_LINE
};
_Static_assert(FAST_STAGES * FAST_STAGE + UNIT_ALIGN == IG_FAST_BYTES, "what the host asks for");

/* What a block multiplies: `cols` columns, a multiple of 32, of this lane's rows. */
struct fast {
    const unsigned char *w; /* this lane's rows of column 0: see fast_rows */
    const unsigned short *x;
    const unsigned *row;    /* [FAST_TOKENS] in shared memory: where in x, in 32 numbers */
    int cols, rows;
};
typedef float fast_tile[2][FAST_TOKENS / 8][4];
typedef unsigned fast_weights[FAST_STEPS][2][4]; /* [step][half][row] */

/* Where a lane's 4 rows of a panel begin; result [m][..][i] is of row 4 * (lane / 4 % 4) + 2 * m + i / 2. */
IG_FN int fast_rows(void) { return (int)threadIdx.x / 4 % 4 * 4; }
IG_FN int fast_panel(void) { return (int)threadIdx.x / 16; } /* of the block's */
IG_FN int fast_token(int n, int i) { return 8 * n + 2 * ((int)threadIdx.x & 3) + i % 2; }

/* A block's shared memory, where lines may begin. */
IG_FN unsigned char *fast_lines(unsigned char *shared)
{
    return shared + (UNIT_ALIGN - ((uintptr_t)shared & (UNIT_ALIGN - 1))) % UNIT_ALIGN;
}

IG_FN void fast_fetch(unsigned char *lines, const struct fast *g, int at)
{
    const int chunk = (int)threadIdx.x % 8, column = at + chunk * 8, first = (int)threadIdx.x / 8;
    UNROLL for (int i = 0; i < FAST_TOKENS; i += FAST_WARPS * 4)
    {
        const int t = first + i, left = column < g->cols ? UNIT_CHUNK : 0;
        if (t < g->rows && at < g->cols)
            ig_fetch16_of(lines + unit_chunk(t, chunk), g->x + (size_t)g->row[t] * 32 + (left ? column : 0), left);
    }
    ig_fetch_mark();
}

/* Columns from `at` on; behind the last ones once more the last, which meet zeros.  No branch: loads are to be under
 * way together. */
IG_FN void fast_load(fast_weights w, const struct fast *g, int at)
{
    UNROLL for (int k = 0; k < FAST_STEPS; k++)
    {
        const int column = LEAST(at + 16 * k, g->cols - 16);
        const unsigned char *const p = g->w + ((size_t)column / 2 + (threadIdx.x & 3)) * PR * 4;
        UNROLL for (int h = 0; h < 2; h++)
        {
            const ig_u4 v = ig_load16(p + 4 * h * PR * 4);
            w[k][h][0] = v.x, w[k][h][1] = v.y, w[k][h][2] = v.z, w[k][h][3] = v.w;
        }
    }
}

/* A line of a stage's weights comes into L2: half a warp has a panel's part. */
IG_FN void fast_ask(const struct fast *g, int at)
{
    const int column = at + (int)threadIdx.x % 16 * 4;
    if (column < g->cols) ig_prefetch(g->w - fast_rows() * 4 + (size_t)column * PR * 2);
}

/* Stage i, while the weights of the next one come. */
IG_FN void fast_stage(fast_tile acc, const struct fast *g, unsigned char *lines, int i, int wide, fast_weights now,
                      fast_weights next)
{
    unsigned char *const stage = lines + i % FAST_STAGES * FAST_STAGE;
    ig_fetched_but(FAST_STAGES - 3);
    unit_see_shared();
    __syncthreads(); /* all see this stage, and have used the one before the last */
    unit_begin();
    UNROLL for (int k = 0; k < FAST_STEPS; k++)
    {
        UNROLL for (int m = 0; m < 2; m++)
        {
            const unsigned a[4] = { now[k][0][2 * m], now[k][0][2 * m + 1], now[k][1][2 * m], now[k][1][2 * m + 1] };
            unit_rows_bf16(acc[m], a, stage, k, wide);
        }
    }
    unit_mark();
    unit_done_but(1);
    fast_load(next, g, (i + 1) * FAST_DEEP);
    fast_ask(g, (i + FAST_AHEAD) * FAST_DEEP);
    fast_fetch(lines + (i + FAST_STAGES - 2) % FAST_STAGES * FAST_STAGE, g, (i + FAST_STAGES - 2) * FAST_DEEP);
}

IG_FN void fast_sum_of(fast_tile acc, const struct fast *g, unsigned char *lines, int wide)
{
    fast_weights w[2];
    const int stages = (g->cols + FAST_DEEP - 1) / FAST_DEEP;
    for (int i = 0; i < FAST_STAGES - 2; i++) fast_fetch(lines + i * FAST_STAGE, g, i * FAST_DEEP);
    fast_load(w[0], g, 0);
    for (int i = 1; i < FAST_AHEAD; i++) fast_ask(g, i * FAST_DEEP);
    UNROLL_BY(1) for (int i = 0; i < stages; i += 2)
    {
        fast_stage(acc, g, lines, i, wide, w[0], w[1]);
        if (i + 1 < stages) fast_stage(acc, g, lines, i + 1, wide, w[1], w[0]);
    }
    unit_done_but(0);
}

/* The block's tile; of few rows half of it. */
IG_FN void fast_sum(fast_tile acc, const struct fast *g, unsigned char *lines)
{
    UNROLL for (int j = 0; j < FAST_TOKENS; j++) acc[j / 64][j / 4 % 16][j % 4] = 0.0f;
    if (g->rows > FAST_TOKENS / 2)
        fast_sum_of(acc, g, lines, FAST_TOKENS / 8);
    else
        fast_sum_of(acc, g, lines, FAST_TOKENS / 16);
}

#endif
