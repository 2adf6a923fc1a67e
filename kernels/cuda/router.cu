/* router.cu -- a router of floats for a large batch: ROUTE_TOKENS rows times ROUTE_PANELS panels a block.
 *
 * The order of sums is that of gemv.h: pairs of columns, 16 parts, a tree over them.  Parts come in the
 * order of the tree's leaves, so a thread keeps four sums of each of its 4 x 4 results beside the running one.
 */
#include "args.h"
#include "gemv.h"

enum {
    ROUTE_TOKENS = IG_ROUTER_TOKENS,
    ROUTE_ROWS = IG_ROUTER_PANELS * PR,
    ROUTE_THREADS = IG_ROUTER_THREADS,
    ROUTE_PAIRS = 32, /* of columns, in shared memory at once */
    LEVELS = 4        /* of the tree: IG_FLOAT_PARTS is 16 */
};
_Static_assert(ROUTE_THREADS * 16 == ROUTE_TOKENS * ROUTE_ROWS && 1 << LEVELS == IG_FLOAT_PARTS, "4 x 4 a thread");

struct route_tile {
    float w[2 * ROUTE_PAIRS][ROUTE_ROWS], x[2 * ROUTE_PAIRS][ROUTE_TOKENS + 4];
};

/* Pairs at, at + IG_FLOAT_PARTS, ... of the tile's panels and rows. */
IG_FN void route_fetch(const struct ig_args *a, int fmt, struct route_tile *s, int at, int pairs)
{
    enum { PANELS = RL_STRIDE / PR };
    const int first = (int)blockIdx.y * ROUTE_TOKENS, panel = (int)blockIdx.x * IG_ROUTER_PANELS;
    for (int i = (int)threadIdx.x; i < pairs * ROUTE_ROWS; i += ROUTE_THREADS) {
        const int k = i / ROUTE_ROWS, r = i % ROUTE_ROWS, p = LEAST(panel + r / PR, PANELS - 1);
        const int pair = at + k * IG_FLOAT_PARTS;
        const unsigned char *m = a->router.p + (size_t)p * a->router.stride;
        ig_u4 q = { 0, 0, 0, 0 };
        if (fmt == IG_F32) {
            q.x = ig_load4(m + ((size_t)pair * 2 * PR + (size_t)(r % PR)) * 4);
            q.z = ig_load4(m + ((size_t)pair * 2 * PR + (size_t)(PR + r % PR)) * 4);
        } else {
            q.x = ig_load4(m + ((size_t)pair * PR + (size_t)(r % PR)) * 4);
        }
        s->w[2 * k][r] = weight_of(&q, fmt, 0, 0);
        s->w[2 * k + 1][r] = weight_of(&q, fmt, 0, 1);
    }
    for (int i = (int)threadIdx.x; i < pairs * ROUTE_TOKENS; i += ROUTE_THREADS) {
        const int k = i / ROUTE_TOKENS, t = i % ROUTE_TOKENS, row = LEAST(first + t, a->n - 1);
        const float *x = a->xn + (size_t)row * N_EMBD + 2 * (at + k * IG_FLOAT_PARTS);
        s->x[2 * k][t] = x[0];
        s->x[2 * k + 1][t] = x[1];
    }
}

IG_FN void route_use(float *acc, const struct route_tile *s, int columns)
{
    const int row = (int)threadIdx.x % (ROUTE_ROWS / 4) * 4, token = (int)threadIdx.x / (ROUTE_ROWS / 4) * 4;
    UNROLL_BY(4) for (int c = 0; c < columns; c++)
    {
        const ig_f4 w = *(const ig_f4 *)(const void *)&s->w[c][row], x = *(const ig_f4 *)(const void *)&s->x[c][token];
        const float ws[4] = { w.x, w.y, w.z, w.w }, xs[4] = { x.x, x.y, x.z, x.w };
        UNROLL for (int i = 0; i < 16; i++) acc[i] = fmaf(ws[i % 4], xs[i / 4], acc[i]);
    }
}

IG_FN void gemm_router_body(const struct ig_args *a, int fmt, struct route_tile *s)
{
    if (IS_BLOCK(fmt)) return;
    float acc[16], kept[LEVELS][16];
    UNROLL for (int i = 0; i < LEVELS * 16; i++) kept[i / 16][i % 16] = 0.0f;
    for (int leaf = 0; leaf < IG_FLOAT_PARTS; leaf++) {
        const int part = (leaf & 1) << 3 | (leaf & 2) << 1 | (leaf & 4) >> 1 | leaf >> 3;
        const int pairs = (N_EMBD / 2 - part + IG_FLOAT_PARTS - 1) / IG_FLOAT_PARTS;
        UNROLL for (int i = 0; i < 16; i++) acc[i] = 0.0f;
        for (int k = 0; k < pairs; k += ROUTE_PAIRS) {
            const int n = LEAST(ROUTE_PAIRS, pairs - k);
            __syncthreads();
            route_fetch(a, fmt, s, part + k * IG_FLOAT_PARTS, n);
            __syncthreads();
            route_use(acc, s, 2 * n);
        }
        int open = 1; /* a sum of the tree is complete, and waits for the other half or joins it */
        UNROLL for (int level = 0; level < LEVELS; level++)
        {
            const int second = leaf >> level & 1;
            UNROLL for (int i = 0; i < 16; i++)
            {
                if (open && second) acc[i] = kept[level][i] + acc[i];
                if (open && !second) kept[level][i] = acc[i];
            }
            open &= second;
        }
    }
    const int row = (int)threadIdx.x % (ROUTE_ROWS / 4) * 4, token = (int)threadIdx.x / (ROUTE_ROWS / 4) * 4;
    UNROLL for (int i = 0; i < 16; i++)
    {
        const int r = (int)blockIdx.x * ROUTE_ROWS + row + i % 4, t = (int)blockIdx.y * ROUTE_TOKENS + token + i / 4;
        if (r < RL_STRIDE && t < a->n) a->rl[(size_t)t * RL_STRIDE + (size_t)r] = biased(&a->router, r, acc[i]);
    }
}

IG_KERNEL(ig_gemm_router, ROUTE_THREADS, 2)
{
    IG_SHARED struct route_tile s;
    ig_after_previous();
    DISPATCH(&a, FMT_ROUTER, a.router.fmt, gemm_router_body, &s)
}
