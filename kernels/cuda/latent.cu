/* latent.cu -- latent attention (runtime/model/mla.c) around ig_attn, which sees one KV head.
 *
 * ig_qkv has made the query's latent (or the queries) and the new key; then
 *   ig_latent     norms of the latents, rotation of the key, both into the cache: a block a row
 *   ig_latent_q   queries from their latent: a block a panel
 *   ig_absorb     each head's query into the latent space, rotation of the rest: a head and panel
 *   ig_values     after ig_attn: each head's result out of the latent space: a head and panel
 */
#include "gemv.h"
#include "kv.h"

#if KV_LORA

enum {
    HEAD = NOPE_DIM + ROPE_DIM, /* of a query before k_b */
    IN_MOST = NOPE_DIM > KV_LORA ? NOPE_DIM : KV_LORA,
    FLIGHT_LATENT = ROWS == 1 ? 40 : 20 /* words of weights in flight, as in linear.cu */
};
_Static_assert(HEAD_DIM == KV_LORA + ROPE_DIM && N_HEAD_KV == 1, "latent and key");
_Static_assert(KV_LORA % PR == 0 && V_DIM % PR == 0, "heads are whole panels");

/* x[i] of a part that turns; cs: cos, sin pairs. */
IG_FN float rotated(const float *x, const float *cs, int i)
{
    const int p = i % (ROPE_DIM / 2);
    const float x0 = x[p], x1 = x[p + ROPE_DIM / 2], c = cs[2 * p], s = cs[2 * p + 1];
    return i < ROPE_DIM / 2 ? fmaf(x0, c, -(x1 * s)) : fmaf(x1, c, x0 * s);
}

IG_KERNEL(ig_latent, PANEL_THREADS, 4)
{
    IG_SHARED float scale[2];
    const int row = (int)blockIdx.x, t = (int)threadIdx.x;
    const float *const k = a.k + (size_t)row * KVA_STRIDE;
    float *const qa = a.q + (size_t)row * QA_STRIDE; /* where the query has a latent */
    ig_after_previous();
    const int pos = a.row.pos[row], seq = a.row.seq[row];
    const float *const cs = a.rope + (size_t)a.row.turn[row] * ROPE_DIM;
    if (t < 32 || (Q_LORA && t < 64)) {
        const float s = t < 32 ? rms_scale_eps(k, KV_LORA, LATENT_EPS) : rms_scale_eps(qa, Q_LORA, LATENT_EPS);
        if (t % 32 == 0) scale[t / 32] = s;
    }
    __syncthreads();
    for (int d = t; d < HEAD_DIM; d += PANEL_THREADS) {
        const float x = d < KV_LORA ? k[d] * scale[0] * a.kv_a_norm[d] : rotated(k + KV_LORA, cs, d - KV_LORA);
        store_pair(&a, seq, pos, 0, d, x, x);
    }
    for (int d = t; d < Q_LORA; d += PANEL_THREADS) {
        const float x = qa[d] * scale[1] * a.q_a_norm[d];
        qa[d] = x;
        if (ANY_BLOCK(FMT_Q_B)) quantize_warp(a.qaq + (size_t)row * (Q_LORA / QB) + xq_place(d / QB, Q_LORA / QB), x);
    }
}

#if Q_LORA
IG_FN void latent_q_body(const struct ig_args *a, int fmt, int p)
{
    IG_SHARED panel_parts parts[ROWS];
    const struct panel panel = { a->mq_b.p + (size_t)p * a->mq_b.stride, fmt, Q_LORA, -1,
                                 panel_unroll(fmt, Q_LORA, FLIGHT_LATENT) };
    struct bunch b;
    const void *x[ROWS];
    int first;

    panel_load(&b, &panel, 0);
    ig_after_previous();
    const int rows = rows_here(a->n, &first);
    row_pointers(x, fmt, a->q, a->qaq, first, QA_STRIDE); /* whole blocks, where it has some */
    panel_product(parts, &b, &panel, x, rows);
    for (int i = (int)threadIdx.x; i < rows * PR; i += PANEL_THREADS)
        a->qh[(size_t)(first + i / PR) * QH_STRIDE + (size_t)(p * PR + i % PR)] =
            panel_get(parts[i / PR], fmt, i % PR);
}

IG_KERNEL(ig_latent_q, PANEL_THREADS, 4)
{
    DISPATCH(&a, FMT_Q_B, a.mq_b.fmt, latent_q_body, (int)blockIdx.x)
}
#endif

/* A matrix with a part a head: its input and output, of row 0 and head 0, and what lies between rows, heads. */
struct by_head {
    const struct ig_dmat *m;
    int rows, cols; /* of a head */
    const float *in;
    float *out;
    int in_row, in_head, out_row, out_head;
};

/* Block x: head, then panel of the head's rows.  Whole blocks of activations are made here, a warp each. */
IG_FN void head_body(const struct ig_args *a, int fmt, const struct by_head *j)
{
    IG_SHARED struct ig_xq qs[ROWS][DIV_UP(IN_MOST, QB)];
    IG_SHARED panel_parts parts[ROWS];
    const int panels = j->rows / PR, head = (int)blockIdx.x / panels, p = (int)blockIdx.x % panels;
    const int blocks = j->cols / QB, lane = (int)threadIdx.x % 32;
    const struct panel panel = { j->m->p + (size_t)blockIdx.x * j->m->stride, fmt, j->cols, -1,
                                 panel_unroll(fmt, j->cols, FLIGHT_LATENT) };
    struct bunch b;
    const void *x[ROWS];
    int first;

    panel_load(&b, &panel, 0);
    ig_after_previous();
    const int rows = rows_here(a->n, &first);
    const float *const in = j->in + (size_t)first * (size_t)j->in_row + (size_t)head * (size_t)j->in_head;
    UNROLL for (int t = 0; t < ROWS; t++)
        x[t] = IS_BLOCK(fmt) ? (const void *)qs[t]
                             : (const void *)(in + (size_t)(t < rows ? t : 0) * (size_t)j->in_row);
    if (IS_BLOCK(fmt)) {
        for (int i = (int)threadIdx.x / 32; i < rows * blocks; i += PANEL_THREADS / 32)
            quantize_warp(&qs[i / blocks][xq_place(i % blocks, blocks)], in[(size_t)(i / blocks) * (size_t)j->in_row +
                                                         (size_t)(i % blocks * QB + lane)]);
        __syncthreads();
    }
    panel_product(parts, &b, &panel, x, rows);
    for (int i = (int)threadIdx.x; i < rows * PR; i += PANEL_THREADS)
        j->out[(size_t)(first + i / PR) * (size_t)j->out_row + (size_t)(head * j->out_head + p * PR + i % PR)] =
            panel_get(parts[i / PR], fmt, i % PR);
}

IG_KERNEL(ig_absorb, PANEL_THREADS, 4)
{
    const struct by_head j = { &a.mk_b, KV_LORA, NOPE_DIM, a.qh, a.ql, QH_STRIDE, HEAD, Q_STRIDE, HEAD_DIM };
    DISPATCH(&a, FMT_K_B, a.mk_b.fmt, head_body, &j)
    if (blockIdx.x % (KV_LORA / PR) != 0) return;
    int first;
    const int rows = rows_here(a.n, &first), head = (int)blockIdx.x / (KV_LORA / PR);
    for (int i = (int)threadIdx.x; i < rows * ROPE_DIM; i += PANEL_THREADS) {
        const int row = first + i / ROPE_DIM;
        const float *from = a.qh + (size_t)row * QH_STRIDE + (size_t)(head * HEAD + NOPE_DIM);
        a.ql[(size_t)row * Q_STRIDE + (size_t)(head * HEAD_DIM + KV_LORA + i % ROPE_DIM)] =
            rotated(from, a.rope + (size_t)a.row.turn[row] * ROPE_DIM, i % ROPE_DIM);
    }
}

IG_KERNEL(ig_values, PANEL_THREADS, 4)
{
    const struct by_head j = { &a.mv_b, V_DIM, KV_LORA, a.al, a.ao, Q_DIM, HEAD_DIM, O_DIM, V_DIM };
    DISPATCH(&a, FMT_V_B, a.mv_b.fmt, head_body, &j)
}

#endif
