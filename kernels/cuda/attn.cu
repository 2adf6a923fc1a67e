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
#include "args.h"
#include "row.h"

enum {
    ATTN_THREADS = SPAN_BLOCKS * 32, /* a warp a KV block */
    SPAN = SPAN_BLOCKS * KB,
    SLICES = HEAD_DIM / ATTN_SLICE,
    HEAD_SETS = N_HEAD / ATTN_HEADS,
    KV_ELEM = KV_FMT == IG_F32 ? 4 : 2,
    KV_BYTES = 2 * KB * HEAD_DIM * KV_ELEM, /* of one block and head */
    PART = 2 + ATTN_SLICE,                  /* m, l, o */
    K_BUNCH = HEAD_DIM % 16 == 0 ? 16 : HEAD_DIM % 8 == 0 ? 8 : 2, /* dimensions of K at once */
    K_DEPTH = KV_FMT == IG_F32 ? 1 : 2 /* bunches in flight */
};

/* An element of the cache, and two neighbours of a dimension of K as they were loaded. */
#if KV_FMT == 0
typedef float kv_elem;
typedef ig_f2 kv_pair;
#else
typedef unsigned short kv_elem;
typedef unsigned kv_pair;
#endif

IG_FN float kv_float(kv_elem e)
{
#if KV_FMT == 0
    return e;
#else
    return ig_half(e);
#endif
}
IG_FN kv_elem kv_round(float x)
{
#if KV_FMT == 0
    return x;
#else
    return ig_to_half(x);
#endif
}

/* K [hd][64] of a position's block; V [64][hd] follows. */
IG_FN unsigned char *kv_block(const struct ig_args *a, int seq, int block, int kv_head)
{
    const size_t i = (size_t)(seq * N_SEQ_BLOCK + block) * N_HEAD_KV + (size_t)kv_head;
    return a->kv + i * KV_BYTES;
}

/* A head of q or k and how it becomes what is scored: norm, clip, rotation. */
struct turn {
    const float *x, *norm, *cs; /* [HEAD_DIM]; norm NULL: none; cos, sin pairs [ROPE_DIM / 2] */
    float scale;                /* of the norm */
};
IG_FN float clipped(float x)
{
    if (QKV_CLIP <= 0.0f) return x;
    x = x > QKV_CLIP ? QKV_CLIP : x;
    return x < -QKV_CLIP ? -QKV_CLIP : x;
}
/* What dimension d of a head is made of, besides its values: two dimensions, their norms' weights, the
 * rotation.  Older than this step. */
struct pair {
    int i, j;
    float wi, wj, c, s;
};
IG_FN struct pair pair_of(const struct turn *t, int d)
{
    struct pair p = { d, d, 1.0f, 1.0f, 1.0f, 0.0f };
    if (d < ROPE_DIM) {
        p.i = d % (ROPE_DIM / 2);
        p.j = p.i + ROPE_DIM / 2;
        p.c = t->cs[2 * p.i];
        p.s = t->cs[2 * p.i + 1];
    }
    if ((QK_NORM_HEAD || QK_NORM_FULL) && t->norm) {
        p.wi = t->norm[p.i];
        p.wj = t->norm[p.j];
    }
    return p;
}
/* Dimension d from the values xi, xj of its pair. */
IG_FN float turn_pair(const struct turn *t, const struct pair *p, int d, float xi, float xj)
{
    if ((QK_NORM_HEAD || QK_NORM_FULL) && t->norm) {
        xi = xi * t->scale * p->wi;
        xj = xj * t->scale * p->wj;
    }
    xi = clipped(xi);
    xj = clipped(xj);
    if (d >= ROPE_DIM) return xi;
    return d < ROPE_DIM / 2 ? fmaf(xi, p->c, -(xj * p->s)) : fmaf(xj, p->c, xi * p->s);
}
IG_FN float turned(const struct turn *t, int d)
{
    const struct pair p = pair_of(t, d);
    return turn_pair(t, &p, d, t->x[p.i], t->x[p.j]);
}

/* A row's head of q or of k; the scale of its norm is not there yet. */
IG_FN struct turn q_head(const struct ig_args *a, int row, int turn, int head)
{
    const size_t at = QK_NORM_FULL ? (size_t)head * HEAD_DIM : 0;
    const struct turn t = { a->q + (size_t)row * Q_STRIDE + (size_t)head * HEAD_DIM,
                            a->q_norm ? a->q_norm + at : NULL, a->rope + (size_t)turn * ROPE_DIM, 1.0f };
    return t;
}
IG_FN struct turn k_head(const struct ig_args *a, int row, int turn, int kv_head)
{
    const size_t at = QK_NORM_FULL ? (size_t)kv_head * HEAD_DIM : 0;
    const struct turn t = { a->k + (size_t)row * KV_STRIDE + (size_t)kv_head * HEAD_DIM,
                            a->k_norm ? a->k_norm + at : NULL, a->rope + (size_t)turn * ROPE_DIM, 1.0f };
    return t;
}
/* The norm's scale over a head, or over the row's `n` values: one warp. */
IG_FN float turn_scale(const float *row, const struct turn *t, int n)
{
    return QK_NORM_FULL ? rms_scale(row, n) : rms_scale(t->x, HEAD_DIM);
}

/* Dimension d of a row's new V, rounded as the cache holds it. */
IG_FN kv_elem new_v(const struct ig_args *a, int row, int kv_head, int d)
{
    return kv_round(clipped(a->v[(size_t)row * KV_STRIDE + (size_t)(kv_head * HEAD_DIM + d)]));
}
IG_FN void store_k(const struct ig_args *a, int seq, int pos, int kv_head, int d, kv_elem e)
{
    ((kv_elem *)(void *)kv_block(a, seq, pos / KB, kv_head))[d * KB + pos % KB] = e;
}
IG_FN void store_v(const struct ig_args *a, int seq, int pos, int kv_head, int d, kv_elem e)
{
    ((kv_elem *)(void *)kv_block(a, seq, pos / KB, kv_head))[(KB + pos % KB) * HEAD_DIM + d] = e;
}

#if ROWS > 1
/* A batch's rows see each other: all K and V are stored before anyone reads. */
IG_KERNEL(ig_store_kv, PANEL_THREADS, 4)
{
    ig_after_previous();
    const int row = (int)blockIdx.x, kv_head = (int)blockIdx.y;
    const int pos = a.row.pos[row], seq = a.row.seq[row];
    struct turn k = k_head(&a, row, a.row.turn[row], kv_head);
    if ((QK_NORM_HEAD || QK_NORM_FULL) && k.norm)
        k.scale = turn_scale(a.k + (size_t)row * KV_STRIDE, &k, KV_DIM); /* every warp for itself */
    for (int d = (int)threadIdx.x; d < HEAD_DIM; d += PANEL_THREADS) {
        store_k(&a, seq, pos, kv_head, d, kv_round(turned(&k, d)));
        store_v(&a, seq, pos, kv_head, d, new_v(&a, row, kv_head, d));
    }
}
#endif

/* What a block works on. */
struct work {
    int row, pos, seq, turn, head, kv_head, d0;
    int span, first_span, last_span;
    int from, to; /* positions that the row attends to, [from, to) */
};

IG_FN struct work work_here(const struct ig_args *a)
{
    struct work w;
    w.row = (int)blockIdx.z;
    w.pos = ig_load_fresh(&a->row.pos[w.row]);
    w.seq = ig_load_fresh(&a->row.seq[w.row]);
    w.turn = ig_load_fresh(&a->row.turn[w.row]);
    w.head = (int)blockIdx.x / SLICES * ATTN_HEADS;
    w.kv_head = w.head / GROUP;
    w.d0 = (int)blockIdx.x % SLICES * ATTN_SLICE;
    w.to = w.pos + 1;
    w.from = a->window > 0 && w.to > a->window ? w.to - a->window : 0;
    w.span = (int)blockIdx.y;
    w.first_span = w.from / SPAN;
    w.last_span = w.pos / SPAN;
    return w;
}

/* The slice of V of the span's positions below `stop`, into vs[SPAN][ATTN_SLICE]. */
IG_FN void fetch_v(const struct ig_args *a, const struct work *w, kv_elem *vs, int stop)
{
    enum { UNIT = ATTN_SLICE * KV_ELEM % 16 == 0 && HEAD_DIM * KV_ELEM % 16 == 0 ? 16 : 4,
           UNITS = ATTN_SLICE * KV_ELEM / UNIT };
    const int first = w->span * SPAN, n = LEAST(SPAN, stop - first);
    const int skip = w->from > first ? w->from - first : 0;
    for (int i = skip * UNITS + (int)threadIdx.x; i < n * UNITS; i += ATTN_THREADS) {
        const int j = i / UNITS, at = i % UNITS * UNIT;
        const unsigned char *src = kv_block(a, w->seq, w->span * SPAN_BLOCKS + j / KB, w->kv_head) +
                                   (size_t)((KB + j % KB) * HEAD_DIM + w->d0) * KV_ELEM + at;
        unsigned char *dst = (unsigned char *)(void *)(vs + j * ATTN_SLICE) + at;
        if (UNIT == 16)
            ig_fetch16(dst, src);
        else
            ig_fetch4(dst, src);
    }
}

IG_FN kv_pair load_k(const kv_elem *k)
{
#if KV_FMT == 0
    unsigned x, y;
    kv_pair p;
    ig_load8(&x, &y, k);
    p.x = ig_bits(x);
    p.y = ig_bits(y);
    return p;
#else
    return ig_load4(k);
#endif
}
IG_FN float k_float(kv_pair p, int i)
{
#if KV_FMT == 0
    return i ? p.y : p.x;
#else
    return ig_half(i ? p >> 16 : p & 0xffffu);
#endif
}

/* The same element twice. */
IG_FN kv_pair k_twice(kv_elem e)
{
#if KV_FMT == 0
    const kv_pair p = { e, e };
    return p;
#else
    return e | (unsigned)e << 16;
#endif
}
/* p with element i of it from `other`; i < 0: p. */
IG_FN kv_pair k_replace(kv_pair p, kv_pair other, int i)
{
#if KV_FMT == 0
    if (i == 0) p.x = other.x;
    if (i == 1) p.y = other.y;
    return p;
#else
    const unsigned mask = i == 0 ? 0xffffu : i == 1 ? 0xffff0000u : 0;
    return (p & ~mask) | (other & mask);
#endif
}

IG_FN void load_bunch(kv_pair *k, const kv_elem *base, int d0)
{
    UNROLL for (int u = 0; u < K_BUNCH; u++) k[u] = load_k(base + (d0 + u) * KB);
}

/* s[h][i] = q[h] . K of the lane's two positions, one chain over d each; K_DEPTH bunches of K
 * are in flight, the first ones in k already.  Where one of the warp's positions is new (`fresh`), its
 * K is kn, and `own` says whether it is this lane's element 0 or 1 (else -1). */
IG_FN void score(float (*s)[2], kv_pair (*k)[K_BUNCH], const kv_elem *base,
                 float (*qs)[ATTN_HEADS], const kv_pair *kn, int fresh, int own)
{
    UNROLL for (int h = 0; h < ATTN_HEADS; h++) s[h][0] = s[h][1] = 0.0f;
    UNROLL for (int d0 = 0; d0 < HEAD_DIM; d0 += K_BUNCH)
    {
        kv_pair *const now = k[d0 / K_BUNCH % K_DEPTH];
        if (fresh) {
            UNROLL for (int u = 0; u < K_BUNCH; u++) now[u] = k_replace(now[u], kn[d0 + u], own);
        }
        UNROLL for (int u = 0; u < K_BUNCH; u++)
        {
            UNROLL for (int h = 0; h < ATTN_HEADS; h++)
            {
                UNROLL for (int i = 0; i < 2; i++)
                    s[h][i] = fmaf(qs[d0 + u][h], k_float(now[u], i), s[h][i]);
            }
        }
        if (d0 + K_DEPTH * K_BUNCH < HEAD_DIM) load_bunch(now, base, d0 + K_DEPTH * K_BUNCH);
    }
}

struct fold { /* of one span, in shared memory */
    float max[ATTN_HEADS][SPAN_BLOCKS];   /* of a KV block, then running */
    float scale[ATTN_HEADS][SPAN_BLOCKS]; /* c of a block */
    float sum[ATTN_HEADS][SPAN_BLOCKS];   /* sum16(p) of a block */
    float m[ATTN_HEADS], l[ATTN_HEADS];
};

/* The running maximum of blocks [lo_block, block], +0 for a zero; -INFINITY of none. */
IG_FN float running_max(const float *max, int lo_block, int block)
{
    const int lane = (int)threadIdx.x & 31;
    float m = lane >= lo_block && lane <= block ? max[lane] : -INFINITY;
    UNROLL for (int mask = 1; mask < 32; mask *= 2)
    {
        const float other = ig_swap(m, mask);
        m = other > m ? other : m;
    }
    return m + 0.0f;
}

/* p of the lane's two positions, the block's c and sum16(p); lo and hi bound the block. */
IG_FN void exponentials(struct fold *f, float (*ps)[SPAN], float (*s)[2], int lo_block, int block,
                        int lo, int hi)
{
    const int lane = (int)threadIdx.x & 31;
    UNROLL for (int h = 0; h < ATTN_HEADS; h++)
    {
        const float m = running_max(f->max[h], lo_block, block);
        const float before = running_max(f->max[h], lo_block, block - 1);
        UNROLL for (int i = 0; i < 2; i++)
        {
            const int j = 2 * lane + i;
            ps[h][block * KB + j] = j >= lo && j < hi ? ig_expf(s[h][i] - m) : 0.0f;
        }
        __syncwarp();
        float sum = 0.0f; /* adding the zeros of positions outside changes no bit */
        UNROLL for (int j = 0; j < KB; j += 16) sum += ps[h][block * KB + j + (lane & 15)];
        sum = tree_of_lanes(sum);
        if (lane == 0) {
            f->scale[h][block] = ig_expf(before - m);
            f->sum[h][block] = sum;
        }
    }
}

/* o of one head and dimension: blocks [lo_block, hi_block) of the span, positions [from, to). */
IG_FN float sum_v(const struct fold *f, const float *ps, const kv_elem *v, int h, int lo_block,
                  int hi_block, int from, int to)
{
    float o = 0.0f;
    for (int b = lo_block; b < hi_block; b++) {
        const float *p = ps + b * KB;
        const kv_elem *vb = v + b * KB * ATTN_SLICE;
        const int lo = from > b * KB ? from - b * KB : 0, hi = LEAST(to - b * KB, KB);
        int j = lo;
        o *= f->scale[h][b];
        if (lo == 0 && hi == KB) {
            UNROLL for (j = 0; j < KB; j++) o = fmaf(p[j], kv_float(vb[j * ATTN_SLICE]), o);
        }
        for (; j + 8 <= hi; j += 8) {
            UNROLL for (int u = 0; u < 8; u++)
                o = fmaf(p[j + u], kv_float(vb[(j + u) * ATTN_SLICE]), o);
        }
        for (; j < hi; j++) o = fmaf(p[j], kv_float(vb[j * ATTN_SLICE]), o);
    }
    return o;
}

IG_FN float *part_at(const struct ig_args *a, const struct work *w, int h, int span)
{
    const size_t head = ((size_t)w->row * N_HEAD + (size_t)(w->head + h)) * SLICES +
                        (size_t)(w->d0 / ATTN_SLICE);
    return a->part + (head * N_SPAN + (size_t)span) * PART;
}

/* The finished output of a head's dimension: one more score without a value, where the layer has
 * sinks, and the division. */
IG_FN float finished(const struct ig_args *a, int head, float m, float l, float o)
{
    if (a->sinks) {
        const float sink = a->sinks[head], top = m > sink ? m : sink, c = ig_expf(m - top);
        l = fmaf(l, c, ig_expf(sink - top));
        o *= c;
    }
    return o * (1.0f / l);
}

/* Spans first..last of one head and dimension, merged in order: the finished output. */
IG_FN float merge_spans(const struct ig_args *a, const struct work *w, int h, int d)
{
    const float *p = part_at(a, w, h, w->first_span);
    float m = ig_load_float(p), l = ig_load_float(p + 1), o = ig_load_float(p + 2 + d);
    for (int span = w->first_span + 1; span <= w->last_span; span++) {
        const float *q = part_at(a, w, h, span);
        const float mb = ig_load_float(q), top = m > mb ? m : mb;
        const float ca = ig_expf(m - top), cb = ig_expf(mb - top);
        m = top;
        l = fmaf(ig_load_float(q + 1), cb, l * ca);
        o = fmaf(ig_load_float(q + 2 + d), cb, o * ca);
    }
    return finished(a, w->head + h, m, l, o);
}

/* 1 in all threads of the block that comes last of this row's slice. */
IG_FN int last_here(const struct ig_args *a, const struct work *w)
{
    IG_SHARED int last;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
        uint32_t *n = a->arrived + (size_t)w->row * HEAD_SETS * SLICES + blockIdx.x;
        last = (int)atomicAdd(n, 1u) == w->last_span - w->first_span;
        if (last) *n = 0;
    }
    __syncthreads();
    if (last) __threadfence();
    return last;
}

/* One dimension of the finished output, as floats or, where slices are whole blocks and a warp
 * has one, as int8: which the matrix o reads. */
IG_FN void put_output(const struct ig_args *a, const struct work *w, int h, int d, float o)
{
    const int at = (w->head + h) * HEAD_DIM + w->d0 + d;
    if (ATTN_SLICE % QB == 0 && ANY_BLOCK(FMT_O))
        quantize_warp(a->aoq + (size_t)w->row * (Q_DIM / QB) + at / QB, o);
    if (ATTN_SLICE % QB != 0 || ANY_FLOAT(FMT_O)) a->ao[(size_t)w->row * Q_DIM + (size_t)at] = o;
}

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

/* Registers for two: the next kernel's first blocks are put beside this one's. */
IG_KERNEL(ig_attn, ATTN_THREADS, 2)
{
    IG_SHARED_SPARE(kv_elem, vs); /* [SPAN][ATTN_SLICE] */
    IG_SHARED float qs[HEAD_DIM][ATTN_HEADS], ps[ATTN_HEADS][SPAN];
    IG_SHARED kv_pair kn[HEAD_DIM];
    IG_SHARED struct fold f;
    const int block = (int)threadIdx.x / 32, lane = (int)threadIdx.x & 31;
    kv_pair k[K_DEPTH][K_BUNCH];

#if ROWS > 1
    ig_after_previous();
#endif
    const struct work w = work_here(&a);
    const int first = w.span * SPAN, in = w.span >= w.first_span && w.span <= w.last_span;
    /* This warp's positions of its KV block, and the span's blocks that have any. */
    const int lo = w.from - first - block * KB, hi = w.to - first - block * KB;
    const int active = in && hi > 0 && lo < KB;
    const int lo_block = w.from > first ? (w.from - first) / KB : 0;
    const int hi_block = LEAST(SPAN_BLOCKS, DIV_UP(w.to - first, KB));
    const kv_elem *base =
        (const kv_elem *)(const void *)kv_block(&a, w.seq, w.span * SPAN_BLOCKS + block, w.kv_head) +
        2 * lane;

    /* What the cache holds since earlier steps is asked for before this step's q, k and v are
     * there: two kernels back everything is finished. */
    if (in) fetch_v(&a, &w, vs, ROWS == 1 ? w.pos : w.to);
    UNROLL for (int i = 0; i < K_DEPTH; i++)
        if (active && i * K_BUNCH < HEAD_DIM) load_bunch(k[i], base, i * K_BUNCH);
    struct pair pairs[ROW_ROUNDS];
    early_pairs(&a, &w, pairs);
#if ROWS == 1
    /* The rest of K comes nearer meanwhile: a line of a dimension's 64 positions for each lane. */
    for (int d = K_DEPTH * K_BUNCH + lane; d < HEAD_DIM && active; d += 32) ig_prefetch(base - 2 * lane + d * KB);
    ig_after_previous();
#endif
    if (!in) return;

    const int fresh = ROWS == 1 && w.span == w.last_span;
    take_row(&a, &w, pairs, qs, kn, vs, fresh);
    __syncthreads();

    float s[ATTN_HEADS][2];
    if (active) {
        const int new_here = fresh && (w.pos - first) / KB == block;
        score(s, k, base, qs, kn, new_here, w.pos % KB / 2 == lane ? w.pos % 2 : -1);
        UNROLL for (int h = 0; h < ATTN_HEADS; h++)
        {
            float most = -INFINITY;
            UNROLL for (int i = 0; i < 2; i++)
            {
                s[h][i] *= ATTN_SCALE;
                const int j = 2 * lane + i;
                if (j >= lo && j < hi) most = s[h][i] > most ? s[h][i] : most;
            }
            UNROLL for (int mask = 1; mask < 32; mask *= 2)
            {
                const float other = ig_swap(most, mask);
                most = other > most ? other : most;
            }
            if (lane == 0) f.max[h][block] = most;
        }
    }
    __syncthreads();
    if (active) exponentials(&f, ps, s, lo_block, block, lo, hi);
    ig_fetched();
    __syncthreads();

    /* One warp sums V, another l. */
    const int alone = w.first_span == w.last_span, t = (int)threadIdx.x;
    if (block == SPAN_BLOCKS - 1) {
        UNROLL for (int h = 0; h < ATTN_HEADS; h++)
        {
            float l = 0.0f;
            for (int b = lo_block; b < hi_block; b++) l = fmaf(l, f.scale[h][b], f.sum[h][b]);
            const float m = running_max(f.max[h], lo_block, hi_block - 1);
            if (lane == 0) {
                f.m[h] = m;
                f.l[h] = l;
                if (!alone) {
                    part_at(&a, &w, h, w.span)[0] = m;
                    part_at(&a, &w, h, w.span)[1] = l;
                }
            }
        }
    }
    float o = 0.0f;
    const int h = t / ATTN_SLICE, d = t % ATTN_SLICE, sums = h < ATTN_HEADS;
    if (sums) o = sum_v(&f, ps[h], vs + d, h, lo_block, hi_block, w.from - first, w.to - first);
    __syncthreads();
    if (sums && alone) put_output(&a, &w, h, d, finished(&a, w.head + h, f.m[h], f.l[h], o));
    if (sums && !alone) part_at(&a, &w, h, w.span)[2 + d] = o;
    if (alone || !last_here(&a, &w)) return;
    if (sums) put_output(&a, &w, h, d, merge_spans(&a, &w, h, d));
}
