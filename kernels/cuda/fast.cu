/* fast.cu -- the matrices of a large batch in BF16 on the matrix units: `--set gemm=fast` (fast.h).
 *
 * Rows of activations are in xb, hidden values in hb, rounded once.  What goes back to the residual stream, to
 * attention and to the router is float.
 */
#include "args.h"
#include "fast.h"
#include "row.h"

#if GEMM_FAST

enum {
    FAST_BLOCKS = 256 / IG_FAST_THREADS, /* on a multiprocessor */
    FAST_HIDDEN_PANELS = ACT_RELU ? FAST_PANELS : FAST_WARPS /* of a block: gate and up make one */
};

IG_FN const unsigned char *fast_weights_of(const struct ig_dmat *m, size_t expert, int panel, int panels)
{
    return m->p + expert + (size_t)(panel < panels ? panel : panels - 1) * m->stride + fast_rows() * 4;
}

/* What to do with (token, v) for all results of a lane that are real: rows fast_rows() ... + 3 of its panel. */
#define FAST_EACH(rows, ...)                                                                              \
    UNROLL for (int n_ = 0; n_ < FAST_TOKENS / 8; n_++)                                                   \
    {                                                                                                     \
        UNROLL for (int j_ = 0; j_ < 2; j_++)                                                             \
        {                                                                                                 \
            const int token = fast_token(n_, j_);                                                         \
            const ig_f4 v = { y[0][n_][j_], y[0][n_][2 + j_], y[1][n_][j_], y[1][n_][2 + j_] };           \
            if (token < (rows)) __VA_ARGS__                                                               \
        }                                                                                                 \
    }

IG_FN ig_f4 fast_biases(const float *bias, int r)
{
    const ig_f4 none = { 0, 0, 0, 0 };
    return bias ? *(const ig_f4 *)(const void *)(bias + r) : none;
}
IG_FN ig_f4 fast_add(ig_f4 x, ig_f4 y, float by)
{
    const ig_f4 sum = { x.x + y.x * by, x.y + y.y * by, x.z + y.z * by, x.w + y.w * by };
    return sum;
}

/* A matrix of `panels` panels, from panel `first` on, times rows blockIdx.y * FAST_TOKENS ... of xb; -> rows. */
IG_FN int fast_dense(fast_tile y, const struct ig_args *a, const struct ig_dmat *m, int first, int panels, int cols,
                     unsigned char *spare)
{
    IG_SHARED unsigned row[FAST_TOKENS];
    const int from = (int)blockIdx.y * FAST_TOKENS, rows = LEAST(FAST_TOKENS, a->n - from);
    for (int t = (int)threadIdx.x; t < rows; t += IG_FAST_THREADS) row[t] = (unsigned)((from + t) * (cols / QB));
    __syncthreads();
    const struct fast g = { fast_weights_of(m, 0, first + fast_panel(), panels), a->xb, row, cols, rows };
    fast_sum(y, &g, fast_lines(spare));
    return rows;
}

/* The same, with biases, into rows of `panels` panels of floats. */
IG_FN void fast_rows_into(const struct ig_args *a, const struct ig_dmat *m, int first, int panels, int cols, float *to,
                          unsigned char *spare)
{
    fast_tile y;
    const int rows = fast_dense(y, a, m, first, panels, cols, spare), p = first + fast_panel();
    if (p >= panels) return;
    const int r = p * PR + fast_rows(), stride = panels * PR;
    const ig_f4 bias = fast_biases(m->bias, r);
    float *const at = to + (size_t)blockIdx.y * FAST_TOKENS * (size_t)stride + r;
    FAST_EACH(rows, { *(ig_f4 *)(void *)(at + (size_t)token * (size_t)stride) = fast_add(v, bias, 1.0f); })
}

/* Blocks along q, then k, then v; of latent attention those that read the normed row. */
IG_KERNEL(ig_fast_qkv, IG_FAST_THREADS, FAST_BLOCKS)
{
    IG_SHARED_SPARE(unsigned char, fast_spare);
    enum { OF_Q = DIV_UP(IN_Q_STRIDE / PR, FAST_PANELS), OF_K = DIV_UP(IN_K_STRIDE / PR, FAST_PANELS) };
    const int b = (int)blockIdx.x + (N_LAYER_ENC > 0 && a.kv_alone ? OF_Q : 0);
    const int is_q = b < OF_Q, is_k = !is_q && b < OF_Q + OF_K;
    const struct ig_dmat *const m = is_q ? &a.mq : is_k ? &a.mk : &a.mv;
    ig_after_previous();
    fast_rows_into(&a, m, (is_q ? b : is_k ? b - OF_Q : b - OF_Q - OF_K) * FAST_PANELS,
                   (is_q ? IN_Q_STRIDE : IN_K_STRIDE) / PR, N_EMBD, is_q ? a.q : is_k ? a.k : a.v, fast_spare);
}

#if KV_LORA && Q_LORA
/* Queries of latent attention from their latent. */
IG_KERNEL(ig_fast_latent_q, IG_FAST_THREADS, FAST_BLOCKS)
{
    IG_SHARED_SPARE(unsigned char, fast_spare);
    ig_after_previous();
    fast_rows_into(&a, &a.mq_b, (int)blockIdx.x * FAST_PANELS, QH_STRIDE / PR, Q_LORA, a.qh, fast_spare);
}
#endif

/* x += o times attention's output. */
IG_KERNEL(ig_fast_out, IG_FAST_THREADS, FAST_BLOCKS)
{
    IG_SHARED_SPARE(unsigned char, fast_spare);
    fast_tile y;
    ig_after_previous();
    const int first = (int)blockIdx.x * FAST_PANELS, r = (first + fast_panel()) * PR + fast_rows();
    const int rows = fast_dense(y, &a, &a.mo, first, N_EMBD / PR, O_DIM, fast_spare);
    if (r >= N_EMBD) return;
    const ig_f4 bias = fast_biases(a.mo.bias, r);
    FAST_EACH(rows, {
        ig_f4 *const x = (ig_f4 *)(void *)(a.x + ((size_t)blockIdx.y * FAST_TOKENS + (size_t)token) * N_EMBD + r);
        *x = fast_add(*x, fast_add(v, bias, 1.0f), RESIDUAL_SCALE);
    })
}

/* An item's slots, and where the rows are that they read, in blocks of 32. */
IG_FN struct item fast_item(const struct ig_args *a, int *slot, unsigned *row, int hidden)
{
    const int i = (int)blockIdx.y;
    const int32_t *p = a->route + 1 + 3 * i;
    struct item it = { -1, i * FAST_TOKENS, LEAST(FAST_TOKENS, a->n - i * FAST_TOKENS) };
    if (!a->in) {
        it.rows = 0;
        if (i < a->route[0]) {
            it.expert = p[0];
            it.first = p[1];
            it.rows = p[2];
        }
    }
    for (int t = (int)threadIdx.x; t < it.rows; t += IG_FAST_THREADS) {
        slot[t] = a->in ? ASIDE + it.first + t : route_slots(a)[it.first + t];
        row[t] = hidden ? (unsigned)hidden_block(slot[t]) : (unsigned)((a->in ? it.first + t : slot[t] / RANKED) * (N_EMBD / QB));
    }
    __syncthreads();
    return it;
}

/* Hidden values of the lane's panel from gate's and up's results: lanes below 16 have gate's rows and take the first
 * two of four, the lanes 16 further up's and the others. */
IG_FN void fast_hidden(const struct ig_args *a, fast_tile y, const struct item *it, const int *slot, int panel, int panels)
{
    const struct ig_dmat *gate = a->in ? &a->dense_gate : &a->gate, *up = a->in ? &a->dense_up : &a->up;
    const size_t expert = a->in ? 0 : (size_t)it->expert * a->expert_stride;
    const int second = (int)threadIdx.x / 16 % 2, r = panel * PR + fast_rows() + 2 * second;
    UNROLL for (int n = 0; n < FAST_TOKENS / 8; n++)
    {
        UNROLL for (int j = 0; j < 2; j++)
        {
            float h[2];
            UNROLL for (int i = 0; i < 2; i++)
            {
                const float y0 = y[0][n][2 * i + j], y1 = y[1][n][2 * i + j];
                const float mine = second ? y1 : y0, other = ig_swap(second ? y0 : y1, 16);
                const float g = second ? other : mine, u = second ? mine : other;
                h[i] = panel < panels ? activated(with_bias(gate, expert, 0, r + i, g), with_bias(up, expert, 0, r + i, u)) : 0.0f;
            }
            const int token = fast_token(n, j);
            if (token < it->rows && panel < panels)
                *(unsigned *)(void *)(a->hb + hidden_block(slot[token]) * QB + r) = ig_to_bf16(h[0], h[1]);
        }
    }
}
/* Without up. */
IG_FN void fast_relu(const struct ig_args *a, fast_tile y, const struct item *it, const int *slot, int panel, int panels)
{
    const struct ig_dmat *gate = a->in ? &a->dense_gate : &a->gate;
    const size_t expert = a->in ? 0 : (size_t)it->expert * a->expert_stride;
    const int r = panel * PR + fast_rows();
    if (panel >= panels) return;
    FAST_EACH(it->rows, {
        const float g[4] = { v.x, v.y, v.z, v.w };
        float h[4];
        UNROLL for (int i = 0; i < 4; i++) h[i] = activated(with_bias(gate, expert, 0, r + i, g[i]), 0.0f);
        const ig_u2 w = { ig_to_bf16(h[0], h[1]), ig_to_bf16(h[2], h[3]) };
        *(ig_u2 *)(void *)(a->hb + hidden_block(slot[token]) * QB + r) = w;
    })
}

/* Gate and up of some hidden values of an item's rows. */
IG_KERNEL(ig_fast_gate_up, IG_FAST_THREADS, FAST_BLOCKS)
{
    IG_SHARED_SPARE(unsigned char, fast_spare);
    IG_SHARED unsigned row[FAST_TOKENS];
    IG_SHARED int slot[FAST_TOKENS];
    fast_tile y;
    ig_after_previous();
    const struct item it = fast_item(&a, slot, row, 0);
    if (it.rows == 0) return;
    const size_t expert = a.in ? 0 : (size_t)it.expert * a.expert_stride;
    const int of_up = !ACT_RELU && threadIdx.x / 16 % 2, panels = (a.in ? a.aside : N_FF) / PR;
    const int panel = (int)blockIdx.x * FAST_HIDDEN_PANELS + (ACT_RELU ? fast_panel() : (int)threadIdx.x / 32);
    const struct ig_dmat *const m = of_up ? a.in ? &a.dense_up : &a.up : a.in ? &a.dense_gate : &a.gate;
    const struct fast g = { fast_weights_of(m, expert, panel, panels), a.xb, row, N_EMBD, it.rows };
    fast_sum(y, &g, fast_lines(fast_spare));
    if (ACT_RELU)
        fast_relu(&a, y, &it, slot, panel, panels);
    else
        fast_hidden(&a, y, &it, slot, panel, panels);
}

IG_KERNEL(ig_fast_down, IG_FAST_THREADS, FAST_BLOCKS)
{
    IG_SHARED_SPARE(unsigned char, fast_spare);
    IG_SHARED unsigned row[FAST_TOKENS];
    IG_SHARED int slot[FAST_TOKENS];
    fast_tile y;
    ig_after_previous();
    const struct item it = fast_item(&a, slot, row, 1);
    if (it.rows == 0) return;
    const struct ig_dmat *const down = a.in ? &a.dense_down : &a.down;
    const size_t expert = a.in ? 0 : (size_t)it.expert * a.expert_stride;
    const int panel = (int)blockIdx.x * FAST_PANELS + fast_panel(), r = panel * PR + fast_rows();
    const struct fast g = { fast_weights_of(down, expert, panel, N_EMBD / PR), a.hb, row, WITH_ASIDE && a.in ? a.aside : N_FF,
                            it.rows };
    fast_sum(y, &g, fast_lines(fast_spare));
    if (r >= N_EMBD) return;
    const float *const biases = down->bias ? (const float *)((uintptr_t)down->bias + expert) : NULL;
    const ig_f4 bias = fast_biases(biases, r);
    FAST_EACH(it.rows, {
        *(ig_f4 *)(void *)(a.y + (size_t)slot[token] * N_EMBD + (size_t)r) = fast_add(v, bias, 1.0f);
    })
}

/* Floats that a matrix in BF16 reads: attention's output (in 0), the query's latent. */
IG_KERNEL(ig_fast_round, ROW_THREADS, 4)
{
    const int latent = Q_LORA > 0 && a.in, n = latent ? Q_LORA : O_DIM;
    const float *const from = latent ? a.q + (size_t)blockIdx.x * QA_STRIDE : a.ao + (size_t)blockIdx.x * O_DIM;
    unsigned *const to = (unsigned *)(void *)(a.xb + (size_t)blockIdx.x * (size_t)n);
    ig_after_previous();
    for (int i = (int)threadIdx.x; i < n / 2; i += ROW_THREADS) to[i] = ig_to_bf16(from[2 * i], from[2 * i + 1]);
}

#endif
