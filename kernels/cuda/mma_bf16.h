/* mma_bf16.h -- panels of BF16 times many activation rows on the matrix units: `--set gemm=fast`.
 *
 * Not the sums of kernels.h: activations are rounded to BF16, which the unit wants, and the unit adds 16 products at
 * a time in an order of its own.  A result is within 2^-8 of the sum of its products' sizes of the exact one
 * (the rounding), and 2^-22 of that sum for each step of 16 columns (the additions): tests/c/mma_test.c.  So a
 * batch's bits are not the CPU's, nor those of a batch that is too small to come here.
 *
 * A block has the tile of mma.h.  Weights and activations go through shared memory, GEMM_DEEP columns a stage:
 * weights in the background, two stages ahead; activations by way of registers, where they are rounded.
 */
#ifndef IG_MMA_BF16_H
#define IG_MMA_BF16_H

#include "mma.h"

enum {
    GEMM_DEEP = 64,                     /* columns of a stage: 4 steps of the matrix unit */
    FAST_STAGES = 3,                    /* used, arriving, asked for */
    FAST_PANEL = GEMM_DEEP * PR * 2,    /* bytes of a panel's part of a stage */
    FAST_ROW = GEMM_DEEP / 2 + 8,       /* words of an activation row, 8 for the banks */
    FAST_THREADS = 32 * GEMM_WIDE       /* that share the panels of a warp */
};
struct fast_stage {
    unsigned char w[IG_GEMM_PANELS][FAST_PANEL]; /* pairs of columns of 16 rows, as in the panel */
    unsigned x[GEMM_TOKENS][FAST_ROW];
};
_Static_assert(sizeof(struct fast_stage) * FAST_STAGES <= IG_GEMM_BYTES, "where stages of blocks are");
_Static_assert(GEMM_THREADS * 16 == GEMM_TOKENS * GEMM_DEEP, "a step's columns of a row each");

/* A thread's 16 columns of an activation row, on their way. */
struct fast_row {
    ig_f4 v[4];
};
IG_FN void row_ask(struct fast_row *r, const struct gemm *g, int at)
{
    const int t = LEAST((int)threadIdx.x / 4, g->rows - 1), column = at + (int)threadIdx.x % 4 * 16;
    const float *x = g->f + g->row[t] * QB + column;
    const ig_f4 zero = { 0, 0, 0, 0 };
    UNROLL for (int i = 0; i < 4; i++)
        r->v[i] = column < g->blocks * QB ? *(const ig_f4 *)(const void *)(x + 4 * i) : zero;
}
/* Pairs c and c + 4 of the 8, which lane c of the matrix unit has, side by side. */
IG_FN void row_put(struct fast_stage *st, const struct fast_row *r)
{
    unsigned *to = st->x[threadIdx.x / 4] + threadIdx.x % 4 * 8;
    UNROLL for (int i = 0; i < 2; i++)
    {
        const ig_f4 lo = r->v[i], hi = r->v[i + 2];
        const ig_u4 w = { ig_to_bf16(lo.x, lo.y), ig_to_bf16(hi.x, hi.y), ig_to_bf16(lo.z, lo.w), ig_to_bf16(hi.z, hi.w) };
        *(ig_u4 *)(void *)(to + 4 * i) = w;
    }
}

/* Weights of columns `at` ...: the warps that have the same panels share them. */
IG_FN void fast_fetch(struct fast_stage *st, const struct gemm *g, int at)
{
    const int t = warp_wide() * 32 + (int)threadIdx.x % 32, bytes = LEAST(GEMM_DEEP, g->blocks * QB - at) * PR * 2;
    UNROLL for (int m = 0; m < GEMM_MT; m++)
    {
        unsigned char *to = st->w[warp_high() * GEMM_MT + m];
        UNROLL for (int i = 0; i < FAST_PANEL / 16; i += FAST_THREADS)
        {
            const int chunk = (i + t) * 16;
            if (chunk < bytes) ig_fetch16(to + chunk, g->panel[m] + (size_t)at * PR * 2 + chunk);
        }
    }
    ig_fetch_mark();
}

/* 16 columns: step `k` of a stage. */
IG_FN void fast_step(gemm_tile acc, const struct fast_stage *st, int k)
{
    unsigned a[GEMM_MT][4], b[GEMM_NT][2];
    UNROLL for (int m = 0; m < GEMM_MT; m++)
    {
        const unsigned char *w = st->w[warp_high() * GEMM_MT + m] + (k * 8 + mma_column()) * PR * 4 + 8 * mma_group();
        UNROLL for (int h = 0; h < 2; h++)
        {
            const ig_u2 rows = *(const ig_u2 *)(const void *)(w + h * 4 * PR * 4);
            a[m][2 * h] = rows.x;
            a[m][2 * h + 1] = rows.y;
        }
    }
    UNROLL for (int n = 0; n < GEMM_NT; n++)
    {
        const unsigned *x = st->x[(warp_wide() * GEMM_NT + n) * 8 + mma_group()] + k * 8 + 2 * mma_column();
        const ig_u2 pairs = *(const ig_u2 *)(const void *)x;
        b[n][0] = pairs.x;
        b[n][1] = pairs.y;
    }
    UNROLL for (int n = 0; n < GEMM_NT; n++)
    {
        UNROLL for (int m = 0; m < GEMM_MT; m++) ig_mma_bf16(acc[m][n], a[m], b[n]);
    }
}

/* The block's tile, like gemm_sum. */
IG_FN void fast_sum(gemm_tile acc, const struct gemm *g, struct gemm_memory *mem)
{
    struct fast_stage *const st = (struct fast_stage *)(void *)mem;
    const int cols = g->blocks * QB, mine = warp_wide() * GEMM_NT * 8 < g->rows;
    struct fast_row r;
    UNROLL for (int j = 0; j < GEMM_RESULTS; j++) *result(acc, j) = 0.0f;
    for (int i = 0; i < FAST_STAGES - 1; i++) fast_fetch(&st[i], g, i * GEMM_DEEP);
    row_ask(&r, g, 0);
    for (int at = 0, stage = 0; at < cols; at += GEMM_DEEP) {
        row_put(&st[stage], &r);
        row_ask(&r, g, at + GEMM_DEEP);
        ig_fetched_but(FAST_STAGES - 2);
        __syncthreads(); /* all see this stage, and have used the one before it */
        fast_fetch(&st[stage > 0 ? stage - 1 : FAST_STAGES - 1], g, at + (FAST_STAGES - 1) * GEMM_DEEP);
        UNROLL for (int k = 0; k < GEMM_DEEP / 16; k++)
        {
            if (at + k * 16 >= cols || !mine) break;
            fast_step(acc, &st[stage], k);
        }
        stage = stage + 1 < FAST_STAGES ? stage + 1 : 0;
    }
    __syncthreads();
}

#endif
