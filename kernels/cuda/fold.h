/* fold.h -- one span of attention inside a block: scores, exponentials, the sum over V; and spans merged.
 *
 * The order is that of kernels.h, kept by a prefix of the blocks' maxima.
 */
#ifndef IG_CUDA_FOLD_H
#define IG_CUDA_FOLD_H

#include "kv.h"

enum {
    ATTN_THREADS = SPAN_BLOCKS * 32, /* a warp a KV block */
    SPAN = SPAN_BLOCKS * KB,
    SLICES = (KV_LORA ? KV_LORA : HEAD_DIM) / ATTN_SLICE, /* the turned key has no value */
    HEAD_SETS = N_HEAD / ATTN_HEADS,
    PART = 2 + ATTN_SLICE /* m, l, o */
};

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
    w.to = seen_to(a, w.pos);
    w.from = a->window > 0 && w.to > a->window ? w.to - a->window : 0;
    w.span = (int)blockIdx.y;
    w.first_span = w.from / SPAN;
    w.last_span = (w.to - 1) / SPAN;
    return w;
}

/* The slice of V of the span's positions below `stop`, into vs[SPAN][ATTN_SLICE]; of Q8_0 it is read where it is. */
IG_FN void fetch_v(const struct ig_args *a, const struct work *w, kv_elem *vs, int stop)
{
    if (KV_Q8) return;
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

/* s[h][i] = q[h] . K of the lane's two positions, one chain over d each; K_DEPTH bunches of K
 * are in flight, the first ones in k already.  Where one of the warp's positions is new (`fresh`), its
 * K is kn, and `own` says whether it is this lane's element 0 or 1 (else -1). */
IG_FN void score(float (*s)[2], kv_pair (*k)[K_BUNCH], const kv_elem *base,
                 float (*qs)[ATTN_HEADS], const kv_pair *kn, int fresh, int own)
{
    enum { DEEP = K_DEPTH * K_BUNCH };
    UNROLL for (int h = 0; h < ATTN_HEADS; h++) s[h][0] = s[h][1] = 0.0f;
    UNROLL_BY(1) for (int from = 0; from < HEAD_DIM; from += DEEP) /* short code is sooner there */
    {
        UNROLL for (int i = 0; i < K_DEPTH; i++)
        {
            const int d0 = from + i * K_BUNCH;
            if (HEAD_DIM % DEEP != 0 && d0 >= HEAD_DIM) break;
            kv_pair *const now = k[i];
            if (fresh) {
                UNROLL for (int u = 0; u < K_BUNCH; u++) now[u] = k_replace(now[u], kn[d0 + u], own);
            }
            UNROLL for (int u = 0; u < K_BUNCH; u++)
            {
                UNROLL for (int h = 0; h < ATTN_HEADS; h++)
                {
                    UNROLL for (int j = 0; j < 2; j++)
                        s[h][j] = fmaf(qs[d0 + u][h], k_float(now[u], j), s[h][j]);
                }
            }
            if (d0 + DEEP < HEAD_DIM) load_bunch(now, base, d0 + DEEP);
        }
    }
}

#if KV_Q8
/* The same of int8 blocks, in the order of a panel's sums. */
IG_FN void score_q8(float (*s)[2], const unsigned char *k, struct ig_xq (*qx)[HEAD_BLOCKS])
{
    const int lane = (int)threadIdx.x & 31, row = 2 * (lane % 8);
    UNROLL for (int h = 0; h < ATTN_HEADS; h++)
    {
        float part[2][8] = { { 0.0f }, { 0.0f } };
        UNROLL for (int b = 0; b < HEAD_BLOCKS; b++)
        {
            const unsigned char *t = k + (size_t)(lane / 8 * HEAD_BLOCKS + b) * IG_KV_TILE;
            const unsigned d = ig_load4(t + 2 * row);
            int sum[2] = { 0, 0 };
            UNROLL for (int i = 0; i < QB / 4; i++)
            {
                unsigned w0, w1;
                const int x = *(const int *)(const void *)(qx[h][b].q + 4 * i);
                ig_load8(&w0, &w1, t + QB + 64 * i + 4 * row);
                sum[0] = ig_dot4(w0, x, sum[0]);
                sum[1] = ig_dot4(w1, x, sum[1]);
            }
            UNROLL for (int i = 0; i < 2; i++)
                part[i][b % 8] = fmaf(ig_half(i ? d >> 16 : d & 0xffffu) * qx[h][b].d,
                                      (float)(sum[i] - 128 * qx[h][b].sum), part[i][b % 8]);
        }
        UNROLL for (int i = 0; i < 2; i++) s[h][i] = ig_tree8(part[i]);
    }
}
#endif

struct fold { /* of one span, in shared memory */
    float max[ATTN_HEADS][SPAN_BLOCKS];   /* of a KV block, then running */
    float scale[ATTN_HEADS][SPAN_BLOCKS]; /* c of a block */
    float sum[ATTN_HEADS][SPAN_BLOCKS];   /* sum16(p) of a block */
#if KV_Q8
    float peak[ATTN_HEADS][SPAN_BLOCKS];           /* P of kernels.h */
    float v_most[SPAN_BLOCKS][ATTN_SLICE / QB];    /* D, NaN if a scale is not finite */
#endif
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
#if KV_Q8
            f->peak[h][block] = ig_kv_peak(fmaf(sum, 0.0f, ig_expf(f->max[h][block] - m)));
#endif
        }
    }
}

#if KV_Q8
/* The largest scale of V of each 32 dimensions from v on, of the warp's KV block; lo and hi bound it. */
IG_FN void v_most(float *most, const unsigned char *v, int lo, int hi)
{
    const int lane = (int)threadIdx.x & 31;
    for (int b = 0; b < ATTN_SLICE / QB; b++) {
        const unsigned two = ig_load4(v + b * V_BLOCK + 2 * (2 * lane));
        float top = 0.0f, bad = 0.0f;
        UNROLL for (int i = 0; i < 2; i++)
        {
            const int j = 2 * lane + i;
            const float d = j >= lo && j < hi ? ig_half(i ? two >> 16 : two & 0xffffu) : 0.0f;
            top = d > top ? d : top;
            bad = fmaf(d, 0.0f, bad);
        }
        UNROLL for (int mask = 1; mask < 32; mask *= 2)
        {
            const float other = ig_swap(top, mask);
            top = other > top ? other : top;
            bad += ig_swap(bad, mask);
        }
        if (lane == 0) most[b] = top + bad;
    }
}
#endif

#if KV_Q8
_Static_assert(ATTN_SLICE % QB == 0, "a slice has whole scales");
/* o of one head and dimension: blocks [lo_block, hi_block) of the span, positions [from, to); the span's
 * first V, and the dimension's place in slice and head. */
IG_FN float sum_v(const struct fold *f, const float *ps, const unsigned char *v, int in_slice, int d, int h,
                  int lo_block, int hi_block, int from, int to)
{
    float o = 0.0f;
    for (int b = lo_block; b < hi_block; b++) {
        const unsigned char *const scales = v + (size_t)b * N_HEAD_KV * KV_BYTES + d / QB * V_BLOCK;
        const unsigned char *const codes = scales + V_CODES + 4 * (d % QB);
        const float peak = f->peak[h][b], most = f->v_most[b][in_slice / QB];
        const float u = peak > 0.0f ? IG_KV_WEIGHT / peak : 0.0f, r = most > 0.0f ? 1.0f / most : 0.0f;
        const int lo = from > b * KB ? from - b * KB : 0, hi = LEAST(to - b * KB, KB);
        int sum = 0;
        UNROLL_BY(4) for (int j = lo / 4 * 4; j < hi; j += 4)
        {
            const unsigned q = ig_load4(codes + j * QB);
            UNROLL for (int i = 0; i < 4; i++)
            {
                const float p = ps[b * KB + j + i], s = ig_half(ig_load2(scales + 2 * (j + i)));
                const int w = ig_kv_weight(p * u, s * r);
                if (j + i >= lo && j + i < hi) sum += w * (int)(signed char)(q >> 8 * i & 255u);
            }
        }
        o = fmaf((float)sum, peak * (1.0f / IG_KV_WEIGHT) * most, o * f->scale[h][b]);
    }
    return o;
}
#else
/* o of one head and dimension: blocks [lo_block, hi_block) of the span, positions [from, to); v is the
 * dimension's column of a slice in shared memory. */
IG_FN float sum_v(const struct fold *f, const float *ps, const kv_elem *v, int h, int lo_block, int hi_block,
                  int from, int to)
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
        UNROLL_BY(1) for (; j + 8 <= hi; j += 8) {
            UNROLL for (int u = 0; u < 8; u++)
                o = fmaf(p[j + u], kv_float(vb[(j + u) * ATTN_SLICE]), o);
        }
        UNROLL_BY(1) for (; j < hi; j++) o = fmaf(p[j], kv_float(vb[j * ATTN_SLICE]), o);
    }
    return o;
}
#endif

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
    if (KV_LORA) {
        a->al[(size_t)w->row * Q_DIM + (size_t)at] = o;
        return;
    }
    if (OUT_BLOCKS && ANY_BLOCK(FMT_O))
        quantize_warp(a->aoq + (size_t)w->row * (Q_DIM / QB) + xq_place(at / QB, Q_DIM / QB), o);
    if (!OUT_BLOCKS || ANY_FLOAT(FMT_O)) a->ao[(size_t)w->row * Q_DIM + (size_t)at] = o;
}

#endif
