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
    ROUTE_PAIRS = 16, /* of columns, in shared memory at once */
    LEVELS = 4        /* of the tree: IG_FLOAT_PARTS is 16 */
};
_Static_assert(ROUTE_THREADS * 16 == ROUTE_TOKENS * ROUTE_ROWS && 1 << LEVELS == IG_FLOAT_PARTS, "4 x 4 a thread");

struct route_tile {
    float w[2 * ROUTE_PAIRS][ROUTE_ROWS], x[2 * ROUTE_PAIRS][ROUTE_TOKENS + 4];
};

/* Some pairs of columns of the tile's panels and rows, on their way: part `part`, from its pair k on. */
enum { W_EACH = ROUTE_PAIRS * ROUTE_ROWS / ROUTE_THREADS, X_EACH = ROUTE_PAIRS * ROUTE_TOKENS / ROUTE_THREADS };
struct route_chunk {
    unsigned w[W_EACH][2]; /* one word a pair, two of F32 */
    ig_f2 x[X_EACH];
};
IG_FN int route_pairs(int part) { return (N_EMBD / 2 - part + IG_FLOAT_PARTS - 1) / IG_FLOAT_PARTS; }
IG_FN int route_part(int leaf) { return (leaf & 1) << 3 | (leaf & 2) << 1 | (leaf & 4) >> 1 | leaf >> 3; }

IG_FN void route_ask(struct route_chunk *c, const struct ig_args *a, int fmt, int part, int k0)
{
    enum { PANELS = RL_STRIDE / PR };
    const int first = (int)blockIdx.y * ROUTE_TOKENS, panel = (int)blockIdx.x * IG_ROUTER_PANELS, last = route_pairs(part) - 1;
    UNROLL for (int u = 0; u < W_EACH; u++)
    {
        const int i = (int)threadIdx.x + u * ROUTE_THREADS, r = i % ROUTE_ROWS, p = LEAST(panel + r / PR, PANELS - 1);
        const size_t pair = (size_t)(part + LEAST(k0 + i / ROUTE_ROWS, last) * IG_FLOAT_PARTS);
        const unsigned char *m = a->router.p + (size_t)p * a->router.stride;
        c->w[u][0] = ig_load4(m + (pair * (fmt == IG_F32 ? 2 : 1) * PR + (size_t)(r % PR)) * 4);
        if (fmt == IG_F32) c->w[u][1] = ig_load4(m + ((pair * 2 + 1) * PR + (size_t)(r % PR)) * 4);
    }
    UNROLL for (int u = 0; u < X_EACH; u++)
    {
        const int i = (int)threadIdx.x + u * ROUTE_THREADS, row = LEAST(first + i % ROUTE_TOKENS, a->n - 1);
        const int pair = part + LEAST(k0 + i / ROUTE_TOKENS, last) * IG_FLOAT_PARTS;
        c->x[u] = *(const ig_f2 *)(const void *)(a->xn + (size_t)row * N_EMBD + 2 * pair);
    }
}

IG_FN void route_put(struct route_tile *s, const struct route_chunk *c, int fmt)
{
    UNROLL for (int u = 0; u < W_EACH; u++)
    {
        const int i = (int)threadIdx.x + u * ROUTE_THREADS, k = i / ROUTE_ROWS, r = i % ROUTE_ROWS;
        const ig_u4 q = { c->w[u][0], 0, fmt == IG_F32 ? c->w[u][1] : 0, 0 };
        s->w[2 * k][r] = weight_of(&q, fmt, 0, 0);
        s->w[2 * k + 1][r] = weight_of(&q, fmt, 0, 1);
    }
    UNROLL for (int u = 0; u < X_EACH; u++)
    {
        const int i = (int)threadIdx.x + u * ROUTE_THREADS, k = i / ROUTE_TOKENS, t = i % ROUTE_TOKENS;
        s->x[2 * k][t] = c->x[u].x;
        s->x[2 * k + 1][t] = c->x[u].y;
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
    struct route_chunk c;
    route_ask(&c, a, fmt, route_part(0), 0);
    for (int leaf = 0; leaf < IG_FLOAT_PARTS; leaf++) {
        const int pairs = route_pairs(route_part(leaf));
        UNROLL for (int i = 0; i < 16; i++) acc[i] = 0.0f;
        for (int k = 0; k < pairs; k += ROUTE_PAIRS) {
            const int more = k + ROUTE_PAIRS < pairs, to = more ? leaf : LEAST(leaf + 1, IG_FLOAT_PARTS - 1);
            __syncthreads();
            route_put(s, &c, fmt);
            __syncthreads();
            route_ask(&c, a, fmt, route_part(to), more ? k + ROUTE_PAIRS : 0); /* while this one is used */
            route_use(acc, s, 2 * LEAST(ROUTE_PAIRS, pairs - k));
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
