/* gemm.cu -- the matrices of a large batch on the matrix units (mma.h); same results as linear.cu, moe.cu.
 *
 * Block formats; matrices of floats stay with the kernels for ROWS rows (but fast.cu).
 */
#include "args.h"
#include "mma.h"

enum { HIDDEN_BLOCKS = GEMM_HIDDEN / QB, HIDDEN_PANELS = GEMM_MT / GEMM_OF_HIDDEN /* of a warp */ };
_Static_assert(GEMM_MT == 2 && GEMM_HIDDEN % QB == 0, "gate and up, or two of gate, are a warp's two panels");

/* Panels `first` ... of a matrix to this warp; those behind its last are the last. */
IG_FN void take_panels(struct gemm *g, const struct ig_dmat *m, size_t expert, int first, int panels)
{
    UNROLL for (int i = 0; i < GEMM_MT; i++)
    {
        const int p = first + warp_high() * GEMM_MT + i;
        g->panel[i] = m->p + expert + (size_t)(p < panels ? p : panels - 1) * m->stride;
    }
}

/* A dense matrix times rows blockIdx.y * GEMM_TOKENS ... */
struct dense {
    const struct ig_dmat *m;
    const struct ig_xq *x;
    int cols, panels, first; /* first: of this block's panels */
};

IG_FN int dense_sum(gemm_tile y, const struct ig_args *a, int fmt, const struct dense *d, struct gemm_memory *mem,
                    size_t *row)
{
    const int first = (int)blockIdx.y * GEMM_TOKENS, rows = LEAST(GEMM_TOKENS, a->n - first);
    struct gemm g = { { NULL, NULL }, d->cols / QB, rows, d->x, row };
    take_panels(&g, d->m, 0, d->first, d->panels);
    for (int t = (int)threadIdx.x; t < rows; t += GEMM_THREADS) row[t] = (size_t)(first + t) * (size_t)g.blocks;
    __syncthreads();
    gemm_sum(y, fmt, &g, mem);
    return rows;
}

/* Calls of body(token, row of the matrix, value) for all results of a lane that are real. */
#define EACH_RESULT(rows, first_panel, body)                                                            \
    UNROLL for (int m_ = 0; m_ < GEMM_MT; m_++)                                                         \
    {                                                                                                   \
        UNROLL for (int n_ = 0; n_ < GEMM_NT; n_++)                                                     \
        {                                                                                               \
            UNROLL for (int i_ = 0; i_ < 4; i_++)                                                       \
            {                                                                                           \
                const int token = (warp_wide() * GEMM_NT + n_) * 8 + mma_token(i_);                     \
                const int r = ((first_panel) + warp_high() * GEMM_MT + m_) * PR + mma_row(i_);          \
                const float value = y[m_][n_][i_];                                                      \
                if (token < (rows)) body                                                                \
            }                                                                                           \
        }                                                                                               \
    }

/* Rows of `stride` results. */
IG_FN void gemm_rows_body(const struct ig_args *a, int fmt, const struct dense *d, float *to, int stride,
                          struct gemm_memory *mem, size_t *row)
{
    if (!IS_BLOCK(fmt)) return;
    const float *const bias = d->m->bias;
    gemm_tile y;
    const int rows = dense_sum(y, a, fmt, d, mem, row);
    EACH_RESULT(rows, d->first, {
        if (r < stride)
            to[((size_t)blockIdx.y * GEMM_TOKENS + (size_t)token) * (size_t)stride + (size_t)r] =
                bias ? value + bias[r] : value;
    })
}

/* Blocks along q, then k, then v; of latent attention those that read the normed row. */
IG_KERNEL(ig_gemm_qkv, GEMM_THREADS, GEMM_BLOCKS)
{
    IG_SHARED_SPARE(struct gemm_memory, gemm_spare);
    IG_SHARED size_t row[GEMM_TOKENS];
    enum { OF_Q = DIV_UP(IN_Q_STRIDE / PR, IG_GEMM_PANELS), OF_K = DIV_UP(IN_K_STRIDE / PR, IG_GEMM_PANELS) };
    const int b = (int)blockIdx.x + (N_LAYER_ENC > 0 && a.kv_alone ? OF_Q : 0);
    const int is_q = b < OF_Q, is_k = !is_q && b < OF_Q + OF_K;
    const int stride = is_q ? IN_Q_STRIDE : IN_K_STRIDE;
    const struct dense d = { is_q ? &a.mq : is_k ? &a.mk : &a.mv, a.xq, N_EMBD, stride / PR,
                             (is_q ? b : is_k ? b - OF_Q : b - OF_Q - OF_K) * IG_GEMM_PANELS };
    ig_after_previous();
    DISPATCH(&a, FMT_QKV, d.m->fmt, gemm_rows_body, &d, is_q ? a.q : is_k ? a.k : a.v, stride, gemm_spare, row)
}

#if KV_LORA && Q_LORA
/* Queries of latent attention from their latent. */
IG_KERNEL(ig_gemm_latent_q, GEMM_THREADS, GEMM_BLOCKS)
{
    IG_SHARED_SPARE(struct gemm_memory, gemm_spare);
    IG_SHARED size_t row[GEMM_TOKENS];
    const struct dense d = { &a.mq_b, a.qaq, Q_LORA, QH_STRIDE / PR, (int)blockIdx.x * IG_GEMM_PANELS };
    ig_after_previous();
    DISPATCH(&a, FMT_Q_B, d.m->fmt, gemm_rows_body, &d, a.qh, QH_STRIDE, gemm_spare, row)
}
#endif

IG_FN void gemm_out_body(const struct ig_args *a, int fmt, int first, struct gemm_memory *mem, size_t *row)
{
    if (!IS_BLOCK(fmt)) return;
    const struct dense d = { &a->mo, a->aoq, O_DIM, DIV_UP(N_EMBD, PR), first };
    gemm_tile y;
    const int rows = dense_sum(y, a, fmt, &d, mem, row);
    EACH_RESULT(rows, first, {
        float *const x = a->x + ((size_t)blockIdx.y * GEMM_TOKENS + (size_t)token) * N_EMBD;
        if (r < N_EMBD) x[r] += (a->mo.bias ? value + a->mo.bias[r] : value) * RESIDUAL_SCALE;
    })
}

IG_KERNEL(ig_gemm_out, GEMM_THREADS, GEMM_BLOCKS)
{
    IG_SHARED_SPARE(struct gemm_memory, gemm_spare);
    IG_SHARED size_t row[GEMM_TOKENS];
    ig_after_previous();
    DISPATCH(&a, FMT_O, a.mo.fmt, gemm_out_body, (int)blockIdx.x * IG_GEMM_PANELS, gemm_spare, row)
}

/* An item's slots, and the rows of activations they read: `blocks` each. */
IG_FN struct item gemm_item(const struct ig_args *a, int *slot, size_t *row, int hidden)
{
    const int i = (int)blockIdx.y, t = (int)threadIdx.x;
    const int32_t *p = a->route + 1 + 3 * i;
    struct item it = { -1, i * GEMM_TOKENS, LEAST(GEMM_TOKENS, a->n - i * GEMM_TOKENS) };
    if (!a->in) {
        it.rows = 0;
        if (i < a->route[0]) {
            it.expert = p[0];
            it.first = p[1];
            it.rows = p[2];
        }
    }
    if (t < it.rows) {
        slot[t] = a->in ? ASIDE + it.first + t : route_slots(a)[it.first + t];
        row[t] = hidden ? hidden_block(slot[t])
                        : (size_t)(a->in ? it.first + t : slot[t] / RANKED) * (N_EMBD / QB);
    }
    __syncthreads();
    return it;
}

/* Gate and up of GEMM_HIDDEN hidden values of an item's rows. */
IG_FN void gemm_gate_up_body(const struct ig_args *a, int fmt, const struct item *it, const int *slot,
                             const size_t *row, struct gemm_memory *mem)
{
    if (!IS_BLOCK(fmt)) return;
    const struct ig_dmat *gate = a->in ? &a->dense_gate : &a->gate,
                         *up = a->in ? &a->dense_up : &a->up;
    const size_t expert = a->in ? 0 : (size_t)it->expert * a->expert_stride;
    const int ff = a->in ? a->aside : N_FF, panels = DIV_UP(ff, PR), blocks = DIV_UP(ff, QB);
    const int warp = warp_high() * HIDDEN_PANELS, first = (int)blockIdx.x * (GEMM_HIDDEN / PR) + warp;
    struct gemm g = { { NULL, NULL }, N_EMBD / QB, it->rows, a->xq, row };
    UNROLL for (int m = 0; m < GEMM_MT; m++)
    {
        const struct ig_dmat *of = m < HIDDEN_PANELS ? gate : up;
        const int p = first + m % HIDDEN_PANELS;
        g.panel[m] = of->p + expert + (size_t)(p < panels ? p : panels - 1) * of->stride;
    }
    gemm_tile y;
    gemm_sum(y, fmt, &g, mem);
    UNROLL for (int m = 0; m < HIDDEN_PANELS; m++)
    {
        UNROLL for (int n = 0; n < GEMM_NT; n++)
        {
            UNROLL for (int i = 0; i < 4; i++)
            {
                const int token = (warp_wide() * GEMM_NT + n) * 8 + mma_token(i), r = (first + m) * PR + mma_row(i);
                const float second = ACT_RELU ? 0.0f : with_bias(up, expert, 0, r, y[GEMM_MT - 1][n][i]);
                if (token < it->rows && first + m < panels)
                    mem->u.hidden[token][(warp + m) * PR + mma_row(i)] =
                        activated(with_bias(gate, expert, 0, r, y[m][n][i]), second);
            }
        }
    }
    __syncthreads();
    const int lane = (int)threadIdx.x & 31;
    for (int i = (int)threadIdx.x / 32; i < it->rows * HIDDEN_BLOCKS; i += GEMM_THREADS / 32) {
        const int token = i / HIDDEN_BLOCKS, b = (int)blockIdx.x * HIDDEN_BLOCKS + i % HIDDEN_BLOCKS;
        if (b >= blocks) continue;
        const float h = b * QB + lane < panels * PR ? mem->u.hidden[token][i % HIDDEN_BLOCKS * QB + lane] : 0.0f;
        if (ANY_BLOCK(FMT_DOWN)) quantize_warp(a->hq + hidden_block(slot[token]) + xq_place(b, blocks), h);
    }
}

IG_KERNEL(ig_gemm_gate_up, GEMM_THREADS, GEMM_BLOCKS)
{
    IG_SHARED_SPARE(struct gemm_memory, gemm_spare);
    IG_SHARED size_t row[GEMM_TOKENS];
    IG_SHARED int slot[GEMM_TOKENS];
    ig_after_previous();
    const struct item it = gemm_item(&a, slot, row, 0);
    if (it.rows == 0) return;
    DISPATCH(&a, FMT_GATE_UP, a.in ? a.dense_gate.fmt : a.gate.fmt, gemm_gate_up_body, &it, slot, row, gemm_spare)
}

IG_FN void gemm_down_body(const struct ig_args *a, int fmt, const struct item *it, const int *slot,
                          const size_t *row, struct gemm_memory *mem)
{
    if (!IS_BLOCK(fmt)) return;
    const struct ig_dmat *down = a->in ? &a->dense_down : &a->down;
    const size_t expert = a->in ? 0 : (size_t)it->expert * a->expert_stride;
    const int first = (int)blockIdx.x * IG_GEMM_PANELS, ff = WITH_ASIDE && a->in ? a->aside : N_FF;
    struct gemm g = { { NULL, NULL }, ff / QB, it->rows, a->hq, row };
    gemm_tile y;
    take_panels(&g, down, expert, first, DIV_UP(N_EMBD, PR));
    gemm_sum(y, fmt, &g, mem);
    EACH_RESULT(it->rows, first, {
        if (r < N_EMBD) a->y[(size_t)slot[token] * N_EMBD + (size_t)r] = with_bias(down, expert, 0, r, value);
    })
}

IG_KERNEL(ig_gemm_down, GEMM_THREADS, GEMM_BLOCKS)
{
    IG_SHARED_SPARE(struct gemm_memory, gemm_spare);
    IG_SHARED size_t row[GEMM_TOKENS];
    IG_SHARED int slot[GEMM_TOKENS];
    ig_after_previous();
    const struct item it = gemm_item(&a, slot, row, 1);
    if (it.rows == 0) return;
    DISPATCH(&a, FMT_DOWN, a.in ? a.dense_down.fmt : a.down.fmt, gemm_down_body, &it, slot, row, gemm_spare)
}
