/* tile.cu -- attention of a large batch: TILE_ROWS rows of one head, block after block of the KV cache.
 *
 * The order of every sum is that of kernels.h, so bits equal ig_attn's: a score is one chain over a
 * head's dimensions, an output one chain over positions.  What the tile gains is that K and V are
 * read once for all its rows, and that a thread makes TILE_TALL x 4 scores, then TILE_TALL x HEAD_DIM / 16
 * outputs, from registers.  Shared memory gives a multiprocessor's threads 128 bytes a cycle, so a load of 16
 * bytes costs a warp as much as 16 multiply-adds of its share: 4 rows a thread wait for those loads, 8
 * hardly do (3 loads for 32 multiply-adds of scores, 4 for 64 of outputs; of 4 rows 4 and 6).  With 8 rows a
 * block has half the threads, so only chips that have room for two blocks take them (gen/plan_device.lua).
 * Positions that a row does not see are skipped, not multiplied by zero.
 */
#include "kv.h"

#if IG_TILED(HEAD_DIM, KV_Q8 || KV_LORA > 0)

enum {
    TILE_ROWS = IG_TILE_ROWS,
    TALL = TILE_TALL,                           /* rows of a thread */
    TILE_THREADS = IG_TILE_THREADS(TILE_TALL),
    SOFT = TILE_THREADS / TILE_ROWS,            /* threads of a row's softmax */
    P_STRIDE = TILE_ROWS + 4,                   /* banks */
    TILE_WIDE = HEAD_DIM % 64 == 0 ? 4 : 1,     /* neighbouring dimensions of a thread */
    TILE_DIMS = HEAD_DIM / 16,
    KV_LOADS = DIV_UP(HEAD_DIM * KB / 4, TILE_THREADS) /* of 4 elements, a thread's of K or V */
};

/* In shared memory. */
struct tile {
    float q[HEAD_DIM][TILE_ROWS + TILE_PAD];
    union {
        float k[HEAD_DIM][KB];
        float p[KB][P_STRIDE]; /* scores, then their exponentials; of position j in p_row(j) */
    } u;
    float v[KB][HEAD_DIM];
};
_Static_assert(sizeof(struct tile) == IG_TILE_BYTES(HEAD_DIM, TILE_PAD), "what the host asks for");

/* What a row attends to, and what its softmax has come to. */
struct tile_rows {
    int from[TILE_ROWS], to[TILE_ROWS];      /* positions [from, to) */
    int at[TILE_ROWS];                       /* its own */
    float c[TILE_ROWS];                      /* of this block */
    float ca[TILE_ROWS], cb[TILE_ROWS];      /* of this span: for what was, for what comes */
    float m[TILE_ROWS], l[TILE_ROWS];        /* of all */
    int least, most, all_from, all_to;       /* of positions that some row sees, that every row sees */
};

/* Softmax of a row: SOFT threads have the same. */
struct soft {
    float m, l;    /* of the span */
    float all_m, all_l;
    int any;       /* a span is in all_m, all_l */
};

/* A thread has 4 neighbouring positions: so 8 threads' rows lie in different banks. */
IG_FN int p_row(int j) { return j % 4 * (KB / 4) + j / 4; }
/* This thread's first row. */
IG_FN int tile_row(void) { return (int)threadIdx.x / 16 * TALL; }
/* This thread's dimension u. */
IG_FN int tile_dim(int u)
{
    return u / TILE_WIDE * 16 * TILE_WIDE + ((int)threadIdx.x & 15) * TILE_WIDE + u % TILE_WIDE;
}

IG_FN void tile_bounds(const struct ig_args *a, struct tile_rows *r, int first)
{
    const int t = (int)threadIdx.x;
    if (t < TILE_ROWS) {
        const int row = first + t, real = row < a->n, pos = real ? a->row.pos[row] : 0;
        r->at[t] = pos;
        r->to[t] = real ? seen_to(a, pos) : 0;
        r->from[t] = real && a->window > 0 && pos + 1 > a->window ? pos + 1 - a->window : 0;
    }
    __syncthreads();
    if (t == 0) {
        r->least = r->all_to = 1 << 30;
        r->most = r->all_from = 0;
        for (int i = 0; i < TILE_ROWS; i++) {
            if (r->to[i] > r->most) r->most = r->to[i];
            if (r->from[i] > r->all_from) r->all_from = r->from[i];
            r->all_to = LEAST(r->all_to, r->to[i]);
            if (r->to[i] > 0) r->least = LEAST(r->least, r->from[i]);
        }
    }
    __syncthreads();
}

IG_FN void tile_queries(const struct ig_args *a, struct tile *s, int first, int head)
{
    const int lane = (int)threadIdx.x & 31;
    for (int i = (int)threadIdx.x / 32; i < TILE_ROWS; i += TILE_THREADS / 32) {
        const int row = first + i;
        struct turn q = q_head(a, row < a->n ? row : 0, row < a->n ? a->row.turn[row] : 0, head);
        if (row < a->n && (QK_NORM_HEAD || QK_NORM_FULL) && a->q_norm)
            q.scale = turn_scale(a->q + (size_t)row * Q_STRIDE, &q, Q_DIM);
        for (int d = lane; d < HEAD_DIM; d += 32) s->q[d][i] = row < a->n ? turned(&q, d) : 0.0f;
    }
}

/* A block's K or V on its way: asked for long before it is stored. */
struct asked {
    unsigned w[KV_LOADS][KV_FMT == IG_F32 ? 4 : 2];
};
IG_FN void tile_ask(struct asked *k, const kv_elem *from)
{
    UNROLL for (int u = 0; u < KV_LOADS; u++)
    {
        const int i = LEAST(((int)threadIdx.x + u * TILE_THREADS) * 4, HEAD_DIM * KB - 4); /* small heads */
#if KV_FMT == 0
        const ig_u4 x = ig_load16(from + i);
        k->w[u][0] = x.x;
        k->w[u][1] = x.y;
        k->w[u][2] = x.z;
        k->w[u][3] = x.w;
#else
        ig_load8(&k->w[u][0], &k->w[u][1], from + i);
#endif
    }
}
IG_FN void tile_store(float *to, const struct asked *k)
{
    UNROLL for (int u = 0; u < KV_LOADS; u++)
    {
        const int i = ((int)threadIdx.x + u * TILE_THREADS) * 4;
        if (i >= HEAD_DIM * KB) break;
        const unsigned *w = k->w[u];
#if KV_FMT == 0
        const ig_f4 x = { ig_bits(w[0]), ig_bits(w[1]), ig_bits(w[2]), ig_bits(w[3]) };
#else
        const ig_f4 x = { ig_half(w[0] & 0xffffu), ig_half(w[0] >> 16), ig_half(w[1] & 0xffffu), ig_half(w[1] >> 16) };
#endif
        *(ig_f4 *)(void *)(to + i) = x;
    }
}

/* Four floats of shared memory. */
IG_FN void take4(float *to, const float *from)
{
    const ig_f4 v = *(const ig_f4 *)(const void *)from;
    to[0] = v.x;
    to[1] = v.y;
    to[2] = v.z;
    to[3] = v.w;
}

/* Scores of TALL rows and 4 positions, [row][position]. */
IG_FN void tile_scores(float (*x)[4], const struct tile *s)
{
    const int row = tile_row(), at = (int)threadIdx.x % 16 * 4;
    UNROLL for (int i = 0; i < TALL * 4; i++) x[i / 4][i % 4] = 0.0f;
    UNROLL_BY(8) for (int d = 0; d < HEAD_DIM; d++)
    {
        float q[TALL], k[4];
        UNROLL for (int i = 0; i < TALL; i += 4) take4(q + i, &s->q[d][row + i]);
        take4(k, &s->u.k[d][at]);
        UNROLL for (int i = 0; i < TALL * 4; i++) x[i / 4][i % 4] = fmaf(q[i / 4], k[i % 4], x[i / 4][i % 4]);
    }
}

/* `first`: the block's position. */
IG_FN void put_scores(const struct ig_args *a, struct tile *s, const struct tile_rows *r, float (*x)[4], int first)
{
    const int row = tile_row(), at = (int)threadIdx.x % 16 * 4, head = (int)blockIdx.x;
    UNROLL for (int j = 0; j < 4; j++)
    {
        float y[TALL];
        UNROLL for (int i = 0; i < TALL; i++) y[i] = score_of(a, head, first + at + j - r->at[row + i], x[i][j]);
        UNROLL for (int i = 0; i < TALL; i += 4)
        {
            const ig_f4 v = { y[i], y[i + 1], y[i + 2], y[i + 3] };
            *(ig_f4 *)(void *)&s->u.p[p_row(at + j)][row + i] = v;
        }
    }
}

/* Softmax of the block's positions [lo, hi) of a row: SOFT threads, 16 / SOFT lanes of sum16 each. */
IG_FN void tile_softmax(struct tile *s, struct tile_rows *r, struct soft *f, int first)
{
    enum { LANES = 16 / SOFT, MINE = KB / SOFT };
    const int row = (int)threadIdx.x / SOFT, part = (int)threadIdx.x % SOFT;
    const int lo = r->from[row] - first, hi = r->to[row] - first, in = hi > 0 && lo < KB;
    float x[MINE], most = f->m, sum[LANES];
    UNROLL for (int i = 0; i < MINE; i++)
    {
        const int j = part + SOFT * i;
        x[i] = s->u.p[p_row(j)][row];
        if (j >= lo && j < hi) most = x[i] > most ? x[i] : most;
    }
    UNROLL for (int mask = 1; mask < SOFT; mask *= 2)
    {
        const float other = ig_swap(most, mask);
        most = other > most ? other : most;
    }
    most += 0.0f;
    UNROLL for (int i = 0; i < MINE; i++)
    {
        const int j = part + SOFT * i;
        x[i] = j >= lo && j < hi ? ig_expf(x[i] - most) : 0.0f;
        s->u.p[p_row(j)][row] = x[i];
    }
    UNROLL for (int i = 0; i < LANES; i++)
        sum[i] = ((0.0f + x[i] + x[i + LANES]) + x[i + 2 * LANES]) + x[i + 3 * LANES];
    UNROLL for (int half = LANES / 2; half > 0; half /= 2)
    {
        UNROLL for (int i = 0; i < half; i++) sum[i] += sum[i + half];
    }
    float all = sum[0];
    UNROLL for (int mask = SOFT / 2; mask > 0; mask /= 2) all += ig_swap(all, mask);
    const float c = in ? ig_expf(f->m - most) : 1.0f;
    if (part == 0) r->c[row] = c;
    if (!in) return;
    f->l = fmaf(f->l, c, all);
    f->m = most;
}
_Static_assert(KB == 4 * 16, "four values a lane of sum16");

/* o of TALL rows and this thread's dimensions; `whole`: every row sees every position. */
IG_FN void tile_values(float (*o)[TILE_DIMS], const struct tile *s, const struct tile_rows *r, int first, int whole)
{
    const int row = tile_row();
    int lo[TALL], hi[TALL];
    UNROLL for (int i = 0; i < TALL; i++)
    {
        lo[i] = r->from[row + i] - first;
        hi[i] = r->to[row + i] - first;
        UNROLL for (int u = 0; u < TILE_DIMS; u++) o[i][u] *= r->c[row + i];
    }
    UNROLL_BY(4) for (int j = 0; j < KB; j++)
    {
        float p[TALL], v[TILE_DIMS];
        UNROLL for (int i = 0; i < TALL; i += 4) take4(p + i, &s->u.p[p_row(j)][row + i]);
        UNROLL for (int u = 0; u < TILE_DIMS; u += TILE_WIDE)
        {
            if (TILE_WIDE == 4)
                take4(v + u, &s->v[j][tile_dim(u)]);
            else
                v[u] = s->v[j][tile_dim(u)];
        }
        UNROLL for (int i = 0; i < TALL; i++)
        {
            if (!whole && (j < lo[i] || j >= hi[i])) continue;
            UNROLL for (int u = 0; u < TILE_DIMS; u++) o[i][u] = fmaf(p[i], v[u], o[i][u]);
        }
    }
}

/* A span is done: its state, where the row saw any of it, joins what was before. */
IG_FN void span_softmax(struct tile_rows *r, struct soft *f, int span)
{
    const int row = (int)threadIdx.x / SOFT, part = (int)threadIdx.x % SOFT;
    const int in = r->to[row] > span * SPAN && r->from[row] < (span + 1) * SPAN;
    float ca = 1.0f, cb = 0.0f;
    if (in && !f->any) {
        ca = 0.0f;
        cb = 1.0f;
        f->all_m = f->m;
        f->all_l = f->l;
        f->any = 1;
    } else if (in) {
        const float top = f->all_m > f->m ? f->all_m : f->m;
        ca = ig_expf(f->all_m - top);
        cb = ig_expf(f->m - top);
        f->all_m = top;
        f->all_l = fmaf(f->l, cb, f->all_l * ca);
    }
    if (part == 0) {
        r->ca[row] = in ? ca : -1.0f; /* no such factor: the row saw nothing of the span */
        r->cb[row] = cb;
        r->m[row] = f->all_m;
        r->l[row] = f->all_l;
    }
    f->m = -INFINITY;
    f->l = 0.0f;
}

/* What the spans so far have come to is where the output will be: it is needed once in a span. */
IG_FN float *tile_output(const struct ig_args *a, int row, int head)
{
    return a->ao + (size_t)row * Q_DIM + (size_t)head * HEAD_DIM;
}
IG_FN void span_values(const struct ig_args *a, float (*o)[TILE_DIMS], const struct tile_rows *r, int *any, int first,
                       int head)
{
    const int row = tile_row();
    UNROLL for (int i = 0; i < TALL; i++)
    {
        const float ca = r->ca[row + i], cb = r->cb[row + i];
        const int in = !(ca < 0.0f), before = *any >> i & 1, there = first + row + i < a->n;
        float *const to = tile_output(a, there ? first + row + i : first, head);
        UNROLL for (int u = 0; u < TILE_DIMS; u++)
        {
            float *const all = to + tile_dim(u);
            if (in && there) *all = before ? fmaf(o[i][u], cb, *all * ca) : o[i][u];
            o[i][u] = 0.0f;
        }
        *any |= in << i;
    }
}

/* Where a KV block's K is; V follows. */
IG_FN const kv_elem *tile_kv(const struct ig_args *a, int block, int head)
{
    return (const kv_elem *)(const void *)kv_block(a, a->row.seq[0], block, head / GROUP);
}

/* `k`: this block's K, then, where there is one, the next one's. */
IG_FN void tile_block(const struct ig_args *a, struct tile *s, struct tile_rows *r, struct soft *f,
                      float (*o)[TILE_DIMS], struct asked *k, int block, int head)
{
    const int first = block * KB, whole = first >= r->all_from && first + KB <= r->all_to;
    struct asked v;
    float x[TALL][4];
    __syncthreads(); /* all have used what the block before left */
    tile_store(&s->u.k[0][0], k);
    tile_ask(&v, tile_kv(a, block, head) + HEAD_DIM * KB);
    __syncthreads();
    tile_scores(x, s);
    tile_store(&s->v[0][0], &v);
    __syncthreads();
    put_scores(a, s, r, x, first);
    if (first + KB < r->most) tile_ask(k, tile_kv(a, block + 1, head));
    __syncthreads();
    tile_softmax(s, r, f, first);
    __syncthreads();
    if (whole)
        tile_values(o, s, r, first, 1);
    else
        tile_values(o, s, r, first, 0);
}

/* The latest rows, which see most, first. */
IG_KERNEL(ig_tile, TILE_THREADS, TALL == 8 ? 2 : 1)
{
    IG_SHARED_SPARE(struct tile, tiles);
    IG_SHARED struct tile_rows r;
    struct tile *const s = tiles;
    const int head = (int)blockIdx.x, first = ((int)gridDim.y - 1 - (int)blockIdx.y) * TILE_ROWS;
    struct soft f = { -INFINITY, 0.0f, -INFINITY, 0.0f, 0 };
    struct asked k;
    float o[TALL][TILE_DIMS];
    int any = 0;
    ig_after_previous();
    tile_bounds(&a, &r, first);
    if (r.least < r.most) tile_ask(&k, tile_kv(&a, r.least / KB, head));
    tile_queries(&a, s, first, head);
    UNROLL for (int i = 0; i < TALL * TILE_DIMS; i++) o[i / TILE_DIMS][i % TILE_DIMS] = 0.0f;
    for (int block = r.least / KB; block * KB < r.most; block++) {
        tile_block(&a, s, &r, &f, o, &k, block, head);
        if (block % SPAN_BLOCKS != SPAN_BLOCKS - 1 && (block + 1) * KB < r.most) continue;
        span_softmax(&r, &f, block / SPAN_BLOCKS);
        __syncthreads();
        span_values(&a, o, &r, &any, first, head);
    }
    const int row = tile_row();
    UNROLL for (int i = 0; i < TALL; i++)
    {
        if (first + row + i >= a.n) continue;
        float *const to = tile_output(&a, first + row + i, head);
        UNROLL for (int u = 0; u < TILE_DIMS; u++)
            to[tile_dim(u)] = finished(&a, head, r.m[row + i], r.l[row + i], to[tile_dim(u)]);
    }
}

#endif
