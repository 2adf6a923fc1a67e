/* attn.cu -- RoPE, the KV cache, attention over KV blocks of 64 positions.
 *
 * A block of ig_attn takes ATTN_HEADS query heads of one KV head, one span of KV
 * blocks and ATTN_SLICE of the head's dimensions, for one row.  A warp is one KV
 * block: it scores two positions a lane.  The running maximum over KV blocks is
 * a prefix of their maxima, so all blocks' exponentials are made at once, and
 * what is left of the order of kernels.h is the sum over V: one chain a
 * dimension, over V in shared memory.  The last block of a row's slice merges
 * the spans in ascending order.
 */
#include "fold.h"

#if KV_STORED && !KV_LORA
/* A batch's rows see each other: all K and V are stored before anyone reads.  In Q8_0, and beside an encoder, a
 * decode step's, too. */
IG_KERNEL(ig_store_kv, PANEL_THREADS, 4)
{
    ig_after_previous();
    const int row = (int)blockIdx.x, kv_head = (int)blockIdx.y;
    const int pos = a.row.pos[row], seq = a.row.seq[row];
    struct turn k = k_head(&a, row, a.row.turn[row], kv_head);
    if ((QK_NORM_HEAD || QK_NORM_FULL) && k.norm)
        k.scale = turn_scale(a.k + (size_t)row * KV_STRIDE, &k, KV_DIM); /* every warp for itself */
    for (int d = (int)threadIdx.x; d < HEAD_DIM; d += PANEL_THREADS) {
        const float v = clipped(a.v[(size_t)row * KV_STRIDE + (size_t)(kv_head * HEAD_DIM + d)]);
        store_pair(&a, seq, pos, kv_head, d, turned(&k, d), v);
    }
}
#endif

/* q of the block's heads, turned; with `fresh` also the row's own K and V, into shared memory
 * and, by one block a slice, the cache.  Each has threads of its own, so that they overlap. */
enum {
    Q_ITEMS = ATTN_HEADS * HEAD_DIM,
    ROW_ITEMS = Q_ITEMS + HEAD_DIM + ATTN_SLICE,
    ROW_ROUNDS = DIV_UP(ROW_ITEMS, ATTN_THREADS),
    ALIKE = HEAD_DIM % 32 == 0 && !QK_NORM_FULL /* a warp's items are of one head: it finds its scale itself */
};
IG_FN struct turn item_turn(const struct ig_args *a, const struct work *w, int i, int *d)
{
    *d = i < Q_ITEMS ? i % HEAD_DIM : i - Q_ITEMS;
    return i < Q_ITEMS ? q_head(a, w->row, w->turn, w->head + i / HEAD_DIM) : k_head(a, w->row, w->turn, w->kv_head);
}
/* What is known before this step's q and k are. */
IG_FN void early_pairs(const struct ig_args *a, const struct work *w, struct pair *p)
{
    UNROLL for (int u = 0; u < ROW_ROUNDS; u++)
    {
        int d;
        const int i = (int)threadIdx.x + u * ATTN_THREADS;
        const struct turn t = item_turn(a, w, i < Q_ITEMS + HEAD_DIM ? i : 0, &d);
        p[u] = pair_of(&t, d);
    }
}

/* Scales of the norms of the block's heads of q, then of k: a warp each. */
IG_FN void norm_scales(const struct ig_args *a, const struct work *w, float *scale)
{
    const int i = (int)threadIdx.x / 32;
    if (i <= ATTN_HEADS) {
        const struct turn t = i < ATTN_HEADS ? q_head(a, w->row, w->turn, w->head + i)
                                             : k_head(a, w->row, w->turn, w->kv_head);
        const float s = i < ATTN_HEADS ? turn_scale(a->q + (size_t)w->row * Q_STRIDE, &t, Q_DIM)
                                       : turn_scale(a->k + (size_t)w->row * KV_STRIDE, &t, KV_DIM);
        if (threadIdx.x % 32 == 0) scale[i] = s;
    }
    __syncthreads();
}

IG_FN void take_row(const struct ig_args *a, const struct work *w, const struct pair *pairs,
                    float (*qs)[ATTN_HEADS], kv_pair *kn, kv_elem *vs, int fresh)
{
    IG_SHARED float scale[ATTN_HEADS + 1];
    const int keeps = w->head % GROUP == 0, items = fresh ? ROW_ITEMS : Q_ITEMS;
    const int normed = (QK_NORM_HEAD || QK_NORM_FULL) && a->q_norm;
    if (normed && !ALIKE) norm_scales(a, w, scale);
    UNROLL for (int u = 0; u < ROW_ROUNDS; u++)
    {
        const int i = (int)threadIdx.x + u * ATTN_THREADS;
        if (i >= items) continue;
        if (i < Q_ITEMS + HEAD_DIM) {
            int d;
            struct turn t = item_turn(a, w, i, &d);
            const float xi = t.x[pairs[u].i], xj = t.x[pairs[u].j];
            if (normed) t.scale = ALIKE ? rms_scale(t.x, HEAD_DIM) : scale[i / HEAD_DIM];
            const float x = turn_pair(&t, &pairs[u], d, xi, xj);
            if (i < Q_ITEMS) {
                qs[d][i / HEAD_DIM] = x;
                continue;
            }
            kn[d] = k_twice(kv_round(x));
            if (keeps && w->d0 == 0) store_k(a, w->seq, w->pos, w->kv_head, d, kv_round(x));
        } else {
            const int d = i - Q_ITEMS - HEAD_DIM;
            const kv_elem e = new_v(a, w->row, w->kv_head, w->d0 + d);
            vs[w->pos % SPAN * ATTN_SLICE + d] = e;
            if (keeps) store_v(a, w->seq, w->pos, w->kv_head, w->d0 + d, e);
        }
    }
}

_Static_assert(ATTN_HEADS < SPAN_BLOCKS, "a warp a head of q, and one for k");
_Static_assert(SPAN_BLOCKS <= 32 && ATTN_HEADS * ATTN_SLICE <= ATTN_THREADS - 32,
               "a lane a block; a thread a dimension, and a warp to spare");

/* The scores as they are weighed, and the largest of this warp's block by head.  at: of its first position, from
 * the row's on; positions lo to hi of it count. */
IG_FN void weigh_scores(const struct ig_args *a, const struct work *w, struct fold *f, float (*s)[2], int at, int lo,
                        int hi)
{
    const int block = (int)threadIdx.x / 32, lane = (int)threadIdx.x & 31;
    UNROLL for (int h = 0; h < ATTN_HEADS; h++)
    {
        float most = -INFINITY;
        UNROLL for (int i = 0; i < 2; i++)
        {
            const int j = 2 * lane + i;
            s[h][i] = score_of(a, w->head + h, at + j, s[h][i]);
            if (j >= lo && j < hi) most = s[h][i] > most ? s[h][i] : most;
        }
        UNROLL for (int mask = 1; mask < 32; mask *= 2)
        {
            const float other = ig_swap(most, mask);
            most = other > most ? other : most;
        }
        if (lane == 0) f->max[h][block] = most;
    }
}

/* m and l of the span, by one warp; of several spans also for who merges them. */
IG_FN void fold_sums(const struct ig_args *a, const struct work *w, struct fold *f, int lo_block, int hi_block,
                     int alone)
{
    UNROLL for (int h = 0; h < ATTN_HEADS; h++)
    {
        float l = 0.0f;
        for (int b = lo_block; b < hi_block; b++) l = fmaf(l, f->scale[h][b], f->sum[h][b]);
        const float m = running_max(f->max[h], lo_block, hi_block - 1);
        if ((threadIdx.x & 31) == 0) {
            f->m[h] = m;
            f->l[h] = l;
            if (!alone) {
                part_at(a, w, h, w->span)[0] = m;
                part_at(a, w, h, w->span)[1] = l;
            }
        }
    }
}

/* A decode step's block has the registers for itself, and so half of a head's K under way before it waits. */
IG_KERNEL(ig_attn, ATTN_THREADS, K_DEPTH > 2 ? 1 : 2)
{
    IG_SHARED_SPARE(kv_elem, vs); /* [SPAN][ATTN_SLICE] */
    IG_SHARED float qs[HEAD_DIM][ATTN_HEADS], ps[ATTN_HEADS][SPAN];
    IG_SHARED kv_pair kn[HEAD_DIM];
    IG_SHARED struct fold f;
    const int block = (int)threadIdx.x / 32, lane = (int)threadIdx.x & 31;
    kv_pair k[K_DEPTH][K_BUNCH];

#if KV_STORED
    ig_after_previous();
#endif
    const struct work w = work_here(&a);
    const int first = w.span * SPAN, in = w.span >= w.first_span && w.span <= w.last_span;
    /* This warp's positions of its KV block, and the span's blocks that have any. */
    const int lo = w.from - first - block * KB, hi = w.to - first - block * KB;
    const int active = in && hi > 0 && lo < KB;
    const int lo_block = w.from > first ? (w.from - first) / KB : 0;
    const int hi_block = LEAST(SPAN_BLOCKS, DIV_UP(w.to - first, KB));
    const unsigned char *const keys = kv_block(&a, w.seq, w.span * SPAN_BLOCKS + block, w.kv_head);
    const kv_elem *const base = (const kv_elem *)(const void *)keys + 2 * lane;

    /* What the cache holds since earlier steps is asked for before this step's q, k and v are
     * there: two kernels back everything is finished. */
    if (in) fetch_v(&a, &w, vs, KV_STORED ? w.to : w.pos);
    UNROLL for (int i = 0; i < K_DEPTH; i++)
        if (!KV_Q8 && active && i * K_BUNCH < HEAD_DIM) load_bunch(k[i], base, i * K_BUNCH);
    struct pair pairs[ROW_ROUNDS];
    early_pairs(&a, &w, pairs);
#if !KV_STORED
    /* The rest of K comes nearer meanwhile: a line of a dimension's 64 positions for each lane. */
    for (int d = K_DEPTH * K_BUNCH + lane; d < HEAD_DIM && active; d += 32) ig_prefetch(base - 2 * lane + d * KB);
    ig_after_previous();
#endif
    if (!in) return;

    const int fresh = !KV_STORED && w.span == w.last_span;
    take_row(&a, &w, pairs, qs, kn, vs, fresh);
    __syncthreads();
    stamp_mark(0);
#if KV_Q8
    IG_SHARED struct ig_xq qx[ATTN_HEADS][HEAD_BLOCKS];
    for (int i = block; i < ATTN_HEADS * HEAD_BLOCKS; i += SPAN_BLOCKS)
        quantize_warp(&qx[i / HEAD_BLOCKS][i % HEAD_BLOCKS], qs[i % HEAD_BLOCKS * QB + lane][i / HEAD_BLOCKS]);
    __syncthreads();
#endif

    float s[ATTN_HEADS][2];
    if (active) {
        const int new_here = fresh && (w.pos - first) / KB == block;
#if KV_Q8
        (void)new_here;
        (void)base;
        score_q8(s, keys, qx);
#else
        score(s, k, base, qs, kn, new_here, w.pos % KB / 2 == lane ? w.pos % 2 : -1);
#endif
        weigh_scores(&a, &w, &f, s, first + block * KB - w.pos, lo, hi);
    }
    __syncthreads();
    stamp_mark(1);
    if (active) exponentials(&f, ps, s, lo_block, block, lo, hi);
#if KV_Q8
    if (active) v_most(f.v_most[block], keys + KV_PART + w.d0 / QB * V_BLOCK, lo, hi);
#endif
    ig_fetched();
    __syncthreads();
    stamp_mark(2);

    /* One warp sums V, another l. */
    const int alone = w.first_span == w.last_span, t = (int)threadIdx.x;
    if (block == SPAN_BLOCKS - 1) fold_sums(&a, &w, &f, lo_block, hi_block, alone);
    float o = 0.0f;
    const int h = t / ATTN_SLICE, d = t % ATTN_SLICE, sums = h < ATTN_HEADS;
    if (sums) {
        const int from = w.from - first, to = w.to - first;
#if KV_Q8
        const unsigned char *const v = kv_block(&a, w.seq, w.span * SPAN_BLOCKS, w.kv_head) + KV_PART;
        o = sum_v(&f, ps[h], v, d, w.d0 + d, h, lo_block, hi_block, from, to);
#else
        o = sum_v(&f, ps[h], vs + d, h, lo_block, hi_block, from, to);
#endif
    }
    __syncthreads();
    stamp_mark(3);
    if (sums && alone) put_output(&a, &w, h, d, finished(&a, w.head + h, f.m[h], f.l[h], o));
    if (sums && !alone) part_at(&a, &w, h, w.span)[2 + d] = o;
    if (alone || !last_here(&a, &w)) return;
    if (sums) put_output(&a, &w, h, d, merge_spans(&a, &w, h, d));
}
