/* flash.h -- a lane's part of attention on the matrix units (flash.cu): queries, masks, the running softmax.
 */
#ifndef IG_FLASH_H
#define IG_FLASH_H

#include "kv.h"
#include "unit.h"

enum {
    FLASH_THREADS = IG_FLASH_THREADS,
    FLASH_HEADS = IG_FLASH_HEADS(N_HEAD / N_HEAD_KV), /* of a block */
    FLASH_ROWS = 2 * 64 / FLASH_HEADS,
    FLASH_LINES = DIV_UP(HEAD_DIM, 64),               /* of a position of V */
    FLASH_K = HEAD_DIM * UNIT_LINE,
    FLASH_V = FLASH_LINES * KB * UNIT_LINE,
    FLASH_STEPS = HEAD_DIM / 16
};
_Static_assert(2 * FLASH_K + 3 * FLASH_V + UNIT_ALIGN == IG_FLASH_BYTES(HEAD_DIM), "what the host asks for");
#define LOG2_E 1.44269504f

/* Positions that rows of the block see: that some row sees, that every row sees. */
struct flash_bounds {
    int least, most, all_from, all_to;
};
/* This lane's two rows: what they see, and their softmax (l: this lane's part of the sum). */
struct flash_row {
    int real, from, to, at;
    float m, l;
};
typedef float flash_out[FLASH_LINES * 8][4];

IG_FN struct flash_row flash_row(const struct ig_args *a, int row)
{
    struct flash_row r = { row < a->n, 0, 1 << 30, 0, -INFINITY, 0.0f };
    if (!r.real) return r; /* sees all, and is not left */
    r.at = a->row.pos[row];
    r.to = seen_to(a, r.at);
    r.from = a->window > 0 && r.at + 1 > a->window ? r.at + 1 - a->window : 0;
    return r;
}

IG_FN void flash_bounds(struct flash_bounds *b, const struct ig_args *a, int first)
{
    if (threadIdx.x < 32) {
        int least = 1 << 30, most = 0, all_from = 0, all_to = 1 << 30;
        for (int i = (int)threadIdx.x; i < FLASH_ROWS; i += 32) {
            const struct flash_row r = flash_row(a, first + i);
            if (!r.real) continue;
            least = LEAST(least, r.from);
            most = r.to > most ? r.to : most;
            all_from = r.from > all_from ? r.from : all_from;
            all_to = LEAST(all_to, r.to);
        }
        UNROLL for (int mask = 1; mask < 32; mask *= 2)
        {
            const int from = ig_swap_int(least, mask), to = ig_swap_int(most, mask);
            const int some_from = ig_swap_int(all_from, mask), some_to = ig_swap_int(all_to, mask);
            least = LEAST(least, from);
            most = to > most ? to : most;
            all_from = some_from > all_from ? some_from : all_from;
            all_to = LEAST(all_to, some_to);
        }
        const struct flash_bounds all = { least, most, all_from, all_to };
        if (threadIdx.x == 0) *b = all;
    }
    __syncthreads();
}

/* Scales of the norms of a warp's 8 heads of queries: the rows' loads, and their sums, overlap. */
IG_FN void flash_norms(const struct ig_args *a, struct turn *t, int first)
{
    float sum[8];
    UNROLL for (int k = 0; k < 8; k++)
    {
        sum[k] = 0.0f;
        UNROLL for (int d = 0; d < HEAD_DIM; d += 32)
        {
            const int at = d + ((int)threadIdx.x & 31);
            const float x = at < HEAD_DIM ? t[k].x[at] : 0.0f;
            sum[k] = fmaf(x, x, sum[k]);
        }
    }
    UNROLL for (int mask = 1; mask < 32; mask *= 2)
    {
        UNROLL for (int k = 0; k < 8; k++) sum[k] += ig_swap(sum[k], mask);
    }
    UNROLL for (int k = 0; k < 8; k++)
        t[k].scale = QK_NORM_FULL ? turn_scale(a->q + (size_t)LEAST(first + k, a->n - 1) * Q_STRIDE, &t[k], Q_DIM)
                                  : 1.0f / sqrtf(sum[k] / (float)HEAD_DIM + NORM_EPS);
}

/* The 64 queries of four warps as F16, scaled, by way of q[64][HEAD_DIM] into the lanes' fragments. */
IG_FN void flash_queries(const struct ig_args *a, unsigned (*f)[4], unsigned short *q, int first, int head)
{
    const int lane = (int)threadIdx.x & 31, warp = (int)threadIdx.x / 32 % 4;
    UNROLL_BY(1) for (int i = warp * 16; i < warp * 16 + 16; i += 8)
    {
        struct turn t[8];
        UNROLL for (int k = 0; k < 8; k++)
        {
            const int row = LEAST(first + i + k, a->n - 1); /* rows behind the last are not left */
            t[k] = q_head(a, row, a->row.turn[row], head);
        }
        if ((QK_NORM_HEAD || QK_NORM_FULL) && a->q_norm) flash_norms(a, t, first + i);
        UNROLL for (int d = 0; d < HEAD_DIM; d += 32)
        {
            const int at = d + lane;
            if (HEAD_DIM % 32 != 0 && at >= HEAD_DIM) break;
            UNROLL for (int k = 0; k < 8; k++) q[(i + k) * HEAD_DIM + at] = ig_to_half(turned(&t[k], at) * (ATTN_SCALE * LOG2_E));
        }
    }
    __syncwarp();
    UNROLL for (int k = 0; k < FLASH_STEPS; k++)
        ig_matrices(f[k], q + (warp * 16 + lane % 16) * HEAD_DIM + k * 16 + lane / 16 * 8);
}

/* A KV block's K on its way; its V, whose positions from `most` on are zeros: nobody wrote them. */
IG_FN void flash_fetch_k(unsigned char *k, const unsigned char *from)
{
    enum { CHUNKS = HEAD_DIM * 8 };
    UNROLL for (int i = 0; i < DIV_UP(CHUNKS, FLASH_THREADS); i++)
    {
        const int c = (int)threadIdx.x + i * FLASH_THREADS;
        if (c < CHUNKS) ig_fetch16(k + unit_chunk(c / 8, c % 8), from + c * UNIT_CHUNK);
    }
}
IG_FN void flash_fetch_v(unsigned char *v, const unsigned char *from, int first, int most)
{
    enum { EACH = HEAD_DIM / 8, CHUNKS = KB * EACH };
    UNROLL for (int i = 0; i < DIV_UP(CHUNKS, FLASH_THREADS); i++)
    {
        const int c = (int)threadIdx.x + i * FLASH_THREADS, at = c / EACH, d = c % EACH;
        if (c < CHUNKS)
            ig_fetch16_of(v + d / 8 * (KB * UNIT_LINE) + unit_chunk(at, d % 8), from + c * UNIT_CHUNK,
                          first + at < most ? UNIT_CHUNK : 0);
    }
}

/* Scores of positions that a row does not see. */
IG_FN void flash_mask(float (*s)[4], const struct flash_row *r, int first)
{
    UNROLL for (int i = 0; i < 32; i++)
    {
        const struct flash_row *const row = &r[i % 4 / 2];
        const int at = first + i / 4 * 8 + 2 * ((int)threadIdx.x & 3) + i % 2;
        if (at < row->from || at >= row->to) s[i / 4][i % 4] = -INFINITY;
    }
}

IG_FN void flash_biases(const struct ig_args *a, float (*s)[4], const struct flash_row *r, int head, int first)
{
#if N_REL_BUCKET
    if (!a->rel_bias) return;
    UNROLL for (int i = 0; i < 32; i++)
    {
        const struct flash_row *const row = &r[i % 4 / 2];
        const int at = first + i / 4 * 8 + 2 * ((int)threadIdx.x & 3) + i % 2;
        if (at < row->from || at >= row->to || !row->real) continue;
        s[i / 4][i % 4] = fmaf(a->rel_bias[(int64_t)head * BIAS_STRIDE + at - row->at], LOG2_E, s[i / 4][i % 4]);
    }
#else
    (void)a, (void)s, (void)r, (void)head, (void)first;
#endif
}

/* Exponentials e of the scores; c: what scales what was before to the new largest score. */
IG_FN void flash_soften(float (*e)[4], float *c, float (*s)[4], struct flash_row *r)
{
    UNROLL for (int h = 0; h < 2; h++)
    {
        float most = r[h].m, sum = 0.0f;
        UNROLL for (int i = 0; i < 16; i++) most = fmaxf(most, s[i / 2][2 * h + i % 2]);
        UNROLL for (int mask = 1; mask < 4; mask *= 2) most = fmaxf(most, ig_swap(most, mask));
        const float from = most == -INFINITY ? 0.0f : most;
        c[h] = ig_exp2(r[h].m - from);
        UNROLL for (int i = 0; i < 16; i++)
        {
            const float x = ig_exp2(s[i / 2][2 * h + i % 2] - from);
            e[i / 2][2 * h + i % 2] = x;
            sum += x;
        }
        r[h].l = fmaf(r[h].l, c[h], sum);
        r[h].m = most;
    }
}

/* The values before are there, and become less by c; the left factor of the next ones. */
IG_FN void flash_turn(flash_out o, unsigned (*p)[4], float (*e)[4], const float *c)
{
    unit_done_but(0);
    if (ig_ballot(c[0] != 1.0f || c[1] != 1.0f)) { /* a new largest score: with time there are few */
        UNROLL for (int i = 0; i < FLASH_LINES * 32; i++) o[i / 4][i % 4] *= c[i % 4 / 2];
    }
    UNROLL for (int i = 0; i < 16; i++) p[i / 4][i % 4] = ig_to_halves(e[i / 2][i % 2 * 2], e[i / 2][i % 2 * 2 + 1]);
}

#endif
