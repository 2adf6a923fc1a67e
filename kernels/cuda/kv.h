/* kv.h -- the KV cache on a device, and how a head of q, k or v becomes what it holds and meets.
 *
 * A block of 64 positions and one KV head: K [hd][64], then V [64][hd]; of Q8_0, kernels.h says what.
 */
#ifndef IG_CUDA_KV_H
#define IG_CUDA_KV_H

#include "args.h"
#include "row.h"

enum {
    KV_ELEM = KV_Q8 ? 1 : KV_FMT == IG_F32 ? 4 : 2,
    HEAD_BLOCKS = DIV_UP(HEAD_DIM, QB),
    V_CODES = 2 * KB, V_BLOCK = V_CODES + KB * QB, /* bytes of struct ig_kv_values: scales, all */
    KV_PART = KV_Q8 ? HEAD_BLOCKS * V_BLOCK : KB * HEAD_DIM * KV_ELEM, /* K, or V */
    KV_BYTES = 2 * KV_PART,                 /* of one block and head */
    K_BUNCH = HEAD_DIM % 16 == 0 ? 16 : HEAD_DIM % 8 == 0 ? 8 : 2, /* dimensions of K at once */
    K_DEPTH = KV_FMT == IG_F32 ? 1 : ROWS == 1 ? 4 : 2 /* bunches in flight */
};

/* An element of the cache, and two neighbours of a dimension of K as they were loaded. */
#if KV_Q8
typedef unsigned char kv_elem;
typedef unsigned kv_pair;
#elif KV_FMT == 0
typedef float kv_elem;
typedef ig_f2 kv_pair;
#else
typedef unsigned short kv_elem;
typedef unsigned kv_pair;
#endif

#if KV_Q8
/* A lane's code of 32 values, and their d as f16: kernels.h. */
IG_FN int kv_code(float x, unsigned *half)
{
    unsigned most = size_bits(x);
    UNROLL for (int mask = 1; mask < 32; mask *= 2)
        most = larger(most, (unsigned)ig_swap_int((int)most, mask));
    *half = ig_to_half(ig_bits_f32(most) / 127.0f);
    const float d = ig_half(*half), inv = d > 0.0f ? 1.0f / d : 0.0f;
    if (most >= 0x7f800000u || !(d <= 65504.0f)) {
        *half = 0x7e00;
        return 0;
    }
    float y = x * inv;
    y = y > 127.0f ? 127.0f : y;
    y = y < -127.0f ? -127.0f : y;
    return (int)(signed char)(ig_f32_bits(y + IG_ROUND) & 255u);
}
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
    return (kv_elem)ig_to_half(x); /* of Q8_0 never asked for */
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
enum { TURNS = KV_LORA || N_REL_BUCKET ? 0 : ROPE_DIM }; /* of latent attention it is turned */
IG_FN struct pair pair_of(const struct turn *t, int d)
{
    struct pair p = { d, d, 1.0f, 1.0f, 1.0f, 0.0f };
    if (d < TURNS) {
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
    if (d >= TURNS) return xi;
    return d < ROPE_DIM / 2 ? fmaf(xi, p->c, -(xj * p->s)) : fmaf(xj, p->c, xi * p->s);
}
IG_FN float turned(const struct turn *t, int d)
{
    const struct pair p = pair_of(t, d);
    return turn_pair(t, &p, d, t->x[p.i], t->x[p.j]);
}

/* Where the positions end that a row at `pos` sees. */
IG_FN int seen_to(const struct ig_args *a, int pos)
{
    if (N_LAYER_ENC == 0 || a->whole == 0) return pos + 1;
    return a->whole > 0 ? a->whole : ig_load_fresh(a->input);
}
/* q . k of a head becomes a score; `at`: the key's position less the query's. */
IG_FN float score_of(const struct ig_args *a, int head, int at, float raw)
{
    if (N_REL_BUCKET == 0 || !a->rel_bias) return raw * ATTN_SCALE;
    return fmaf(raw, ATTN_SCALE, a->rel_bias[(int64_t)head * BIAS_STRIDE + at]);
}

/* A row's head of q or of k; the scale of its norm is not there yet. */
IG_FN struct turn q_head(const struct ig_args *a, int row, int turn, int head)
{
    const size_t at = QK_NORM_FULL ? (size_t)head * HEAD_DIM : 0;
    const struct turn t = { (KV_LORA ? a->ql : a->q) + (size_t)row * Q_STRIDE + (size_t)head * HEAD_DIM,
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

/* A position's place in the cache: dimension d of its K, or of its V.  Of Q8_0 a warp has 32 neighbours. */
IG_FN void store_pair(const struct ig_args *a, int seq, int pos, int kv_head, int d, float k, float v)
{
    unsigned char *const base = kv_block(a, seq, pos / KB, kv_head);
#if KV_Q8
    unsigned kd, vd;
    const int kq = kv_code(k, &kd), vq = kv_code(v, &vd), row = pos % PR, i = d % QB;
    unsigned char *tile = base + (size_t)(pos % KB / PR * HEAD_BLOCKS + d / QB) * IG_KV_TILE;
    unsigned char *const vs = base + KV_PART + d / QB * V_BLOCK;
    if (i == 0) {
        *(unsigned short *)(void *)(tile + 2 * row) = (unsigned short)kd;
        *(unsigned short *)(void *)(vs + 2 * (pos % KB)) = (unsigned short)vd;
    }
    tile[QB + i / 4 * 64 + 4 * row + i % 4] = (unsigned char)(kq + 128);
    vs[V_CODES + 4 * (pos % KB / 4 * QB + i) + pos % 4] = (unsigned char)vq;
#else
    ((kv_elem *)(void *)base)[d * KB + pos % KB] = kv_round(k);
    ((kv_elem *)(void *)base)[(KB + pos % KB) * HEAD_DIM + d] = kv_round(v);
#endif
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

#endif
