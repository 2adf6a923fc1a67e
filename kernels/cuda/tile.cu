/* tile.cu -- attention of a large batch: TILE_ROWS rows of one head, block after block of the KV cache.
 *
 * The order of every sum is that of kernels.h, so bits equal ig_attn's: a score is one chain over a
 * head's dimensions, an output one chain over positions.  What the tile gains is that K and V are
 * read once for all its rows, and that a thread makes 4 x 4 scores, then 4 x HEAD_DIM / 16 outputs, from
 * registers.  Positions that a row does not see are skipped, not multiplied by zero.
 */
#include "kv.h"

#if IG_TILED(HEAD_DIM, KV_Q8 || KV_LORA > 0)

enum {
    TILE_ROWS = IG_TILE_ROWS,
    TILE_THREADS = IG_TILE_THREADS,
    P_STRIDE = TILE_ROWS + 4,                   /* banks */
    TILE_WIDE = HEAD_DIM % 64 == 0 ? 4 : 1,     /* neighbouring dimensions of a thread */
    TILE_DIMS = HEAD_DIM / 16
};

/* In shared memory. */
struct tile {
    float q[HEAD_DIM][TILE_ROWS + TILE_PAD];
    union {
        float k[HEAD_DIM][KB];
        float p[KB][P_STRIDE]; /* scores, then their exponentials */
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

/* Softmax of a row: four threads have the same. */
struct soft {
    float m, l;    /* of the span */
    float all_m, all_l;
    int any;       /* a span is in all_m, all_l */
};

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

/* `n` elements of the cache as floats. */
IG_FN void tile_floats(float *to, const kv_elem *from, int n)
{
    enum { EACH = 16 / KV_ELEM };
    UNROLL for (int u = 0; u < DIV_UP(HEAD_DIM * KB / EACH, TILE_THREADS); u++)
    {
        const int i = ((int)threadIdx.x + u * TILE_THREADS) * EACH;
        if (i >= n) break;
        const ig_u4 x = ig_load16(from + i);
        const unsigned w[4] = { x.x, x.y, x.z, x.w };
        UNROLL for (int j = 0; j < 4; j++)
        {
            if (KV_FMT == IG_F32) {
                to[i + j] = ig_bits(w[j]);
            } else {
                to[i + 2 * j] = ig_half(w[j] & 0xffffu);
                to[i + 2 * j + 1] = ig_half(w[j] >> 16);
            }
        }
    }
}

/* Scores of 4 rows and 4 positions, [row][position]. */
IG_FN void tile_scores(float (*x)[4], const struct tile *s)
{
    const int row = (int)threadIdx.x / 16 * 4, at = (int)threadIdx.x % 16 * 4;
    UNROLL for (int i = 0; i < 16; i++) x[i / 4][i % 4] = 0.0f;
    UNROLL_BY(8) for (int d = 0; d < HEAD_DIM; d++)
    {
        const ig_f4 q = *(const ig_f4 *)(const void *)&s->q[d][row];
        const ig_f4 k = *(const ig_f4 *)(const void *)&s->u.k[d][at];
        const float qs[4] = { q.x, q.y, q.z, q.w }, ks[4] = { k.x, k.y, k.z, k.w };
        UNROLL for (int i = 0; i < 16; i++) x[i / 4][i % 4] = fmaf(qs[i / 4], ks[i % 4], x[i / 4][i % 4]);
    }
}

/* `first`: the block's position. */
IG_FN void put_scores(const struct ig_args *a, struct tile *s, const struct tile_rows *r, float (*x)[4], int first)
{
    const int row = (int)threadIdx.x / 16 * 4, at = (int)threadIdx.x % 16 * 4, head = (int)blockIdx.x;
    UNROLL for (int j = 0; j < 4; j++)
    {
        float y[4];
        UNROLL for (int i = 0; i < 4; i++) y[i] = score_of(a, head, first + at + j - r->at[row + i], x[i][j]);
        const ig_f4 v = { y[0], y[1], y[2], y[3] };
        *(ig_f4 *)(void *)&s->u.p[at + j][row] = v;
    }
}

/* Softmax of the block's positions [lo, hi) of a row: four threads, four lanes of sum16 each. */
IG_FN void tile_softmax(struct tile *s, struct tile_rows *r, struct soft *f, int first)
{
    enum { EACH = KB / 4 };
    const int row = (int)threadIdx.x / 4, part = (int)threadIdx.x % 4;
    const int lo = r->from[row] - first, hi = r->to[row] - first, in = hi > 0 && lo < KB;
    float x[EACH], most = f->m, sum[4];
    UNROLL for (int i = 0; i < EACH; i++)
    {
        const int j = part + 4 * i;
        x[i] = s->u.p[j][row];
        if (j >= lo && j < hi) most = x[i] > most ? x[i] : most;
    }
    UNROLL for (int mask = 1; mask < 4; mask *= 2)
    {
        const float other = ig_swap(most, mask);
        most = other > most ? other : most;
    }
    most += 0.0f;
    UNROLL for (int i = 0; i < EACH; i++)
    {
        const int j = part + 4 * i;
        x[i] = j >= lo && j < hi ? ig_expf(x[i] - most) : 0.0f;
        s->u.p[j][row] = x[i];
    }
    UNROLL for (int i = 0; i < 4; i++) sum[i] = ((0.0f + x[i] + x[i + 4]) + x[i + 8]) + x[i + 12];
    float all = (sum[0] + sum[2]) + (sum[1] + sum[3]);
    all += ig_swap(all, 2);
    all += ig_swap(all, 1);
    const float c = in ? ig_expf(f->m - most) : 1.0f;
    if (part == 0) r->c[row] = c;
    if (!in) return;
    f->l = fmaf(f->l, c, all);
    f->m = most;
}

/* o of 4 rows and this thread's dimensions; `whole`: every row sees every position. */
IG_FN void tile_values(float (*o)[TILE_DIMS], const struct tile *s, const struct tile_rows *r, int first, int whole)
{
    const int row = (int)threadIdx.x / 16 * 4;
    int lo[4], hi[4];
    UNROLL for (int i = 0; i < 4; i++)
    {
        lo[i] = r->from[row + i] - first;
        hi[i] = r->to[row + i] - first;
        UNROLL for (int u = 0; u < TILE_DIMS; u++) o[i][u] *= r->c[row + i];
    }
    UNROLL_BY(4) for (int j = 0; j < KB; j++)
    {
        const ig_f4 p4 = *(const ig_f4 *)(const void *)&s->u.p[j][row];
        const float p[4] = { p4.x, p4.y, p4.z, p4.w };
        float v[TILE_DIMS];
        UNROLL for (int u = 0; u < TILE_DIMS; u += TILE_WIDE)
        {
            if (TILE_WIDE == 4) {
                const ig_f4 v4 = *(const ig_f4 *)(const void *)&s->v[j][tile_dim(u)];
                v[u] = v4.x;
                v[u + TILE_WIDE / 4] = v4.y;
                v[u + TILE_WIDE / 2] = v4.z;
                v[u + TILE_WIDE * 3 / 4] = v4.w;
            } else {
                v[u] = s->v[j][tile_dim(u)];
            }
        }
        UNROLL for (int i = 0; i < 4; i++)
        {
            if (!whole && (j < lo[i] || j >= hi[i])) continue;
            UNROLL for (int u = 0; u < TILE_DIMS; u++) o[i][u] = fmaf(p[i], v[u], o[i][u]);
        }
    }
}

/* A span is done: its state, where the row saw any of it, joins what was before. */
IG_FN void span_softmax(struct tile_rows *r, struct soft *f, int span)
{
    const int row = (int)threadIdx.x / 4, part = (int)threadIdx.x % 4;
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

IG_FN void span_values(float (*all)[TILE_DIMS], float (*o)[TILE_DIMS], const struct tile_rows *r, int *any)
{
    const int row = (int)threadIdx.x / 16 * 4;
    UNROLL for (int i = 0; i < 4; i++)
    {
        const float ca = r->ca[row + i], cb = r->cb[row + i];
        const int in = !(ca < 0.0f), before = *any >> i & 1;
        UNROLL for (int u = 0; u < TILE_DIMS; u++)
        {
            if (in) all[i][u] = before ? fmaf(o[i][u], cb, all[i][u] * ca) : o[i][u];
            o[i][u] = 0.0f;
        }
        *any |= in << i;
    }
}

IG_FN void tile_block(const struct ig_args *a, struct tile *s, struct tile_rows *r, struct soft *f,
                      float (*o)[TILE_DIMS], int block, int kv_head)
{
    const int first = block * KB, whole = first >= r->all_from && first + KB <= r->all_to;
    const kv_elem *kv = (const kv_elem *)(const void *)kv_block(a, a->row.seq[0], block, kv_head);
    float x[4][4];
    __syncthreads(); /* all have used what the block before left */
    tile_floats(&s->u.k[0][0], kv, HEAD_DIM * KB);
    tile_floats(&s->v[0][0], kv + HEAD_DIM * KB, HEAD_DIM * KB);
    __syncthreads();
    tile_scores(x, s);
    __syncthreads();
    put_scores(a, s, r, x, first);
    __syncthreads();
    tile_softmax(s, r, f, first);
    __syncthreads();
    if (whole)
        tile_values(o, s, r, first, 1);
    else
        tile_values(o, s, r, first, 0);
}

/* The latest rows, which see most, first. */
IG_KERNEL(ig_tile, TILE_THREADS, 2)
{
    IG_SHARED_SPARE(struct tile, tiles);
    IG_SHARED struct tile_rows r;
    struct tile *const s = tiles;
    const int head = (int)blockIdx.x, first = ((int)gridDim.y - 1 - (int)blockIdx.y) * TILE_ROWS;
    struct soft f = { -INFINITY, 0.0f, -INFINITY, 0.0f, 0 };
    float o[4][TILE_DIMS], all[4][TILE_DIMS];
    int any = 0;
    ig_after_previous();
    tile_bounds(&a, &r, first);
    tile_queries(&a, s, first, head);
    UNROLL for (int i = 0; i < 4 * TILE_DIMS; i++) o[i / TILE_DIMS][i % TILE_DIMS] = all[i / TILE_DIMS][i % TILE_DIMS] = 0.0f;
    for (int block = r.least / KB; block * KB < r.most; block++) {
        tile_block(&a, s, &r, &f, o, block, head / GROUP);
        if (block % SPAN_BLOCKS != SPAN_BLOCKS - 1 && (block + 1) * KB < r.most) continue;
        span_softmax(&r, &f, block / SPAN_BLOCKS);
        __syncthreads();
        span_values(all, o, &r, &any);
    }
    const int row = (int)threadIdx.x / 16 * 4;
    UNROLL for (int i = 0; i < 4; i++)
    {
        if (first + row + i >= a.n) continue;
        float *const to = a.ao + (size_t)(first + row + i) * Q_DIM + (size_t)head * HEAD_DIM;
        UNROLL for (int u = 0; u < TILE_DIMS; u++)
            to[tile_dim(u)] = finished(&a, head, r.m[row + i], r.l[row + i], all[i][u]);
    }
}

#endif
