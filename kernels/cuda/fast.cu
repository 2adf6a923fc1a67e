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
    FAST_HIDDEN_PANELS = ACT_RELU ? FAST_PANELS : FAST_WARPS /* of a tile: gate and up make one */
};

/* This lane's part of panel `m` of the warp: panels p, p + each, ... of a matrix that has `panels`. */
IG_FN void fast_take(struct fast *g, int m, const struct ig_dmat *of, size_t expert, int p, int each, int panels)
{
    g->w[m] = of->p + expert + (size_t)LEAST(p, panels - 1) * of->stride + fast_row() * 4;
    g->last[m] = p < panels ? (panels - 1 - p) / each : 0;
}

/* Rows of activations: where they lie, how many columns they have. */
struct fast_rows {
    const unsigned short *x;
    const unsigned *row;
    int cols, rows;
};

/* A block's tiles of one matrix of `panels` panels: tile `first`, `tiles` of them where there are so many. */
IG_FN struct fast fast_of(const struct ig_dmat *m, size_t expert, const struct fast_rows *x, int first, int tiles, int panels)
{
    struct fast g = { { NULL, NULL }, { 0, 0 }, (size_t)FAST_PANELS * m->stride, x->x, x->row, x->cols, x->rows,
                      LEAST(DIV_UP(panels, FAST_PANELS) - first, tiles) };
    UNROLL for (int i = 0; i < 2; i++) fast_take(&g, i, m, expert, first * FAST_PANELS + fast_panel() + i, FAST_PANELS, panels);
    return g;
}

/* What to do with (token, r, v), results of rows r and r + 1 of the matrix for all real tokens of the tile, whose
 * first panel is `first`; panels behind the matrix's last are left out. */
#define FAST_EACH(rows, first, panels, ...)                                                       \
    UNROLL for (int i_ = 0; i_ < FAST_TOKENS / 2; i_++)                                           \
    {                                                                                             \
        const int m_ = i_ / 32, n_ = i_ / 2 % 16, j_ = i_ % 2, token = fast_token(n_, j_);        \
        const int panel_ = (first) + fast_panel() + m_, r = panel_ * PR + fast_row();             \
        const ig_f2 v = { y[m_][n_][j_], y[m_][n_][2 + j_] };                                     \
        if (token < (rows) && panel_ < (panels)) __VA_ARGS__                                      \
    }

IG_FN ig_f2 fast_biased(const float *bias, int r, ig_f2 v)
{
    const ig_f2 sum = { bias ? v.x + bias[r] : v.x, bias ? v.y + bias[r + 1] : v.y };
    return sum;
}

/* Rows blockIdx.y * FAST_TOKENS ... of xb, `cols` wide. */
IG_FN struct fast_rows fast_dense(const struct ig_args *a, unsigned *row, int cols)
{
    const int from = (int)blockIdx.y * FAST_TOKENS;
    const struct fast_rows x = { a->xb, row, cols, LEAST(FAST_TOKENS, a->n - from) };
    for (int t = (int)threadIdx.x; t < x.rows; t += IG_FAST_THREADS) row[t] = (unsigned)((from + t) * (cols / QB));
    __syncthreads();
    return x;
}

/* A matrix of `panels` panels, from tile `first` on, times rows of xb, with biases, into rows of floats. */
IG_FN void fast_rows_into(const struct ig_args *a, const struct ig_dmat *m, int first, int panels, int cols, float *to,
                          unsigned char *spare)
{
    IG_SHARED unsigned row[FAST_TOKENS];
    const struct fast_rows x = fast_dense(a, row, cols);
    const struct fast g = fast_of(m, 0, &x, first, a->tiles, panels);
    const size_t stride = (size_t)panels * PR;
    fast_tile y;
    fast_weights w;
    struct fast_at at;
    fast_begin(w, &g, fast_lines(spare), &at);
    for (int tile = 0; tile < g.tiles; tile++) {
        fast_sum(y, w, &g, fast_lines(spare), &at);
        FAST_EACH(x.rows, (first + tile) * FAST_PANELS, panels, {
            float *const p = to + ((size_t)blockIdx.y * FAST_TOKENS + (size_t)token) * stride + r;
            *(ig_f2 *)(void *)p = fast_biased(m->bias, r, v);
        })
    }
}

/* Blocks along q, then k, then v; of latent attention those that read the normed row. */
IG_KERNEL(ig_fast_qkv, IG_FAST_THREADS, FAST_BLOCKS)
{
    IG_SHARED_SPARE(unsigned char, fast_spare);
    const int each = a.tiles * FAST_PANELS, of_q = DIV_UP(IN_Q_STRIDE / PR, each), of_k = DIV_UP(IN_K_STRIDE / PR, each);
    const int b = (int)blockIdx.x + (N_LAYER_ENC > 0 && a.kv_alone ? of_q : 0);
    const int is_q = b < of_q, is_k = !is_q && b < of_q + of_k;
    const struct ig_dmat *const m = is_q ? &a.mq : is_k ? &a.mk : &a.mv;
    ig_after_previous();
    fast_rows_into(&a, m, (is_q ? b : is_k ? b - of_q : b - of_q - of_k) * a.tiles,
                   (is_q ? IN_Q_STRIDE : IN_K_STRIDE) / PR, N_EMBD, is_q ? a.q : is_k ? a.k : a.v, fast_spare);
}

#if KV_LORA && Q_LORA
/* Queries of latent attention from their latent. */
IG_KERNEL(ig_fast_latent_q, IG_FAST_THREADS, FAST_BLOCKS)
{
    IG_SHARED_SPARE(unsigned char, fast_spare);
    ig_after_previous();
    fast_rows_into(&a, &a.mq_b, (int)blockIdx.x * a.tiles, QH_STRIDE / PR, Q_LORA, a.qh, fast_spare);
}
#endif

/* x += o times attention's output. */
IG_KERNEL(ig_fast_out, IG_FAST_THREADS, FAST_BLOCKS)
{
    IG_SHARED_SPARE(unsigned char, fast_spare);
    IG_SHARED unsigned row[FAST_TOKENS];
    const int first = (int)blockIdx.x * a.tiles;
    fast_tile y;
    fast_weights w;
    struct fast_at at;
    ig_after_previous();
    const struct fast_rows x = fast_dense(&a, row, O_DIM);
    const struct fast g = fast_of(&a.mo, 0, &x, first, a.tiles, N_EMBD / PR);
    fast_begin(w, &g, fast_lines(fast_spare), &at);
    for (int tile = 0; tile < g.tiles; tile++) {
        fast_sum(y, w, &g, fast_lines(fast_spare), &at);
        FAST_EACH(x.rows, (first + tile) * FAST_PANELS, N_EMBD / PR, {
            ig_f2 *const p = (ig_f2 *)(void *)(a.x + ((size_t)blockIdx.y * FAST_TOKENS + (size_t)token) * N_EMBD + r);
            const ig_f2 more = fast_biased(a.mo.bias, r, v), sum = { p->x + more.x * RESIDUAL_SCALE, p->y + more.y * RESIDUAL_SCALE };
            *p = sum;
        })
    }
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

/* Hidden values of a tile: a lane has gate's and up's results of the same rows, or, without up, gate's of two panels. */
IG_FN void fast_hidden(const struct ig_args *a, fast_tile y, const struct item *it, const int *slot, int tile, int panels)
{
    const struct ig_dmat *gate = a->in ? &a->dense_gate : &a->gate, *up = a->in ? &a->dense_up : &a->up;
    const size_t expert = a->in ? 0 : (size_t)it->expert * a->expert_stride;
    UNROLL for (int i = 0; i < (ACT_RELU ? FAST_TOKENS : FAST_TOKENS / 2) / 2; i++)
    {
        const int m = i / 32, n = i / 2 % 16, j = i % 2, token = fast_token(n, j);
        const int panel = tile * FAST_HIDDEN_PANELS + (ACT_RELU ? fast_panel() + m : fast_panel() / 2);
        if (token >= it->rows || panel >= panels) continue;
        const int r = panel * PR + fast_row();
        float h[2];
        UNROLL for (int k = 0; k < 2; k++)
            h[k] = activated(with_bias(gate, expert, 0, r + k, y[m][n][2 * k + j]),
                             ACT_RELU ? 0.0f : with_bias(up, expert, 0, r + k, y[1][n][2 * k + j]));
        *(unsigned *)(void *)(a->hb + hidden_block(slot[token]) * QB + r) = ig_to_bf16(h[0], h[1]);
    }
}

/* Gate and up of some hidden values of an item's rows. */
IG_KERNEL(ig_fast_gate_up, IG_FAST_THREADS, FAST_BLOCKS)
{
    IG_SHARED_SPARE(unsigned char, fast_spare);
    IG_SHARED unsigned row[FAST_TOKENS];
    IG_SHARED int slot[FAST_TOKENS];
    const int first = (int)blockIdx.x * a.tiles, panels = (a.in ? a.aside : N_FF) / PR;
    const struct ig_dmat *const gate = a.in ? &a.dense_gate : &a.gate, *const up = a.in ? &a.dense_up : &a.up;
    fast_tile y;
    fast_weights w;
    struct fast_at at;
    ig_after_previous();
    const struct item it = fast_item(&a, slot, row, 0);
    if (it.rows == 0) return;
    const size_t expert = a.in ? 0 : (size_t)it.expert * a.expert_stride;
    const int p = first * FAST_HIDDEN_PANELS + (ACT_RELU ? fast_panel() : fast_panel() / 2);
    struct fast g = { { NULL, NULL }, { 0, 0 }, (size_t)FAST_HIDDEN_PANELS * gate->stride, a.xb, row, N_EMBD, it.rows,
                      LEAST(DIV_UP(panels, FAST_HIDDEN_PANELS) - first, a.tiles) };
    fast_take(&g, 0, gate, expert, p, FAST_HIDDEN_PANELS, panels);
    fast_take(&g, 1, ACT_RELU ? gate : up, expert, p + ACT_RELU, FAST_HIDDEN_PANELS, panels);
    fast_begin(w, &g, fast_lines(fast_spare), &at);
    for (int tile = 0; tile < g.tiles; tile++) {
        fast_sum(y, w, &g, fast_lines(fast_spare), &at);
        fast_hidden(&a, y, &it, slot, first + tile, panels);
    }
}

IG_KERNEL(ig_fast_down, IG_FAST_THREADS, FAST_BLOCKS)
{
    IG_SHARED_SPARE(unsigned char, fast_spare);
    IG_SHARED unsigned row[FAST_TOKENS];
    IG_SHARED int slot[FAST_TOKENS];
    const struct ig_dmat *const down = a.in ? &a.dense_down : &a.down;
    const int first = (int)blockIdx.x * a.tiles;
    fast_tile y;
    fast_weights w;
    struct fast_at at;
    ig_after_previous();
    const struct item it = fast_item(&a, slot, row, 1);
    if (it.rows == 0) return;
    const size_t expert = a.in ? 0 : (size_t)it.expert * a.expert_stride;
    const struct fast_rows x = { a.hb, row, WITH_ASIDE && a.in ? a.aside : N_FF, it.rows };
    const struct fast g = fast_of(down, expert, &x, first, a.tiles, N_EMBD / PR);
    const float *const bias = down->bias ? (const float *)((uintptr_t)down->bias + expert) : NULL;
    fast_begin(w, &g, fast_lines(fast_spare), &at);
    for (int tile = 0; tile < g.tiles; tile++) {
        fast_sum(y, w, &g, fast_lines(fast_spare), &at);
        FAST_EACH(it.rows, (first + tile) * FAST_PANELS, N_EMBD / PR, {
            *(ig_f2 *)(void *)(a.y + (size_t)slot[token] * N_EMBD + (size_t)r) = fast_biased(bias, r, v);
        })
    }
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
