/* linear.cu -- the dense matrices: q k v, attention's output, router, output.
 *
 * A block a panel (or half of a float panel of the router, which has few) and
 * ROWS activation rows.  Weights of this layer are asked for before the kernel
 * waits for the one before it.
 */
#include "args.h"
#include "gemv.h"
#include "route.h"

/* Words of weights a thread may have in flight: what ROWS accumulators leave of its registers. */
enum {
    FLIGHT = ROWS == 1 ? 40 : 20,
    FLIGHT_DEEP = ROWS == 1 ? 80 : 20,    /* few panels: one block a multiprocessor */
    FLIGHT_ROUTER = ROWS == 1 ? 256 : 20, /* fewer still; a half panel takes half of it */
    LINEAR_BLOCKS = ROWS == 1 ? 8 : 4
};

/* Rows of this block, and where row 0 of them is. */
IG_FN int rows_here(int n, int *first)
{
    *first = ROWS == 1 ? 0 : (int)blockIdx.y * ROWS;
    return ROWS == 1 ? 1 : LEAST(ROWS, n - *first);
}

/* Norm weights, asked for early; with more ROWS another kernel has used them. */
IG_FN void norm_weights(ig_f4 *w, const float *norm, int threads)
{
    if (ROWS == 1) load_quads(w, norm, threads);
}

/* The activations that a panel of format `fmt` meets: with ROWS 1 v, this thread's quads of the normed row, is
 * made here, and normed_for() leaves it as the formats in `set` read it: xs, qs. */
IG_FN void normed(const struct ig_args *a, const void **x, ig_f4 *v, int fmt, const ig_f4 *w, const float *bias, float *xs,
                  int first, int threads)
{
#if ROWS == 1
    (void)x;
    (void)fmt;
    (void)first;
    load_quads(v, a->x, threads);
    norm_quads(v, w, bias, xs, threads);
#else
    (void)threads;
    (void)v;
    (void)w;
    (void)bias;
    (void)xs;
    row_pointers(x, fmt, a->xn, a->xq, first, N_EMBD);
#endif
}
IG_FN void normed_for(const void **x, const ig_f4 *v, int fmt, int set, float *xs, struct ig_xq *qs,
                      int threads)
{
#if ROWS == 1
    if (ANY_FLOAT(set)) store_quads(xs, v, threads); /* all have read what it held */
    if (ANY_BLOCK(set)) quantize_quads(qs, v, QUADS(N_EMBD, threads), N_EMBD, threads);
    __syncthreads();
    x[0] = IS_BLOCK(fmt) ? (const void *)qs : (const void *)xs;
#else
    (void)x, (void)v, (void)fmt, (void)set, (void)xs, (void)qs, (void)threads;
#endif
}

/* Row r of a matrix's result, with its bias. */
IG_FN float biased(const struct ig_dmat *m, int r, float y) { return m->bias ? y + m->bias[r] : y; }

_Static_assert(ROWS * PR <= PANEL_THREADS, "a thread a result");

enum { XS = ROWS == 1 ? N_EMBD : 1, QS = ROWS == 1 ? N_EMBD / QB + 1 : 1 };

IG_FN void qkv_body(const struct ig_args *a, int fmt, const struct ig_dmat *m, int p, int real, float *y,
                    int y_stride)
{
    IG_SHARED float xs[XS];
    IG_SHARED struct ig_xq qs[QS];
    IG_SHARED panel_parts parts[QKV_EACH][ROWS];
    const int sub = (int)threadIdx.x / PANEL_THREADS, i = (int)threadIdx.x % PANEL_THREADS;
    const struct panel panel = { m->p + (size_t)p * m->stride, fmt, N_EMBD, -1,
                                 panel_unroll(fmt, N_EMBD, FLIGHT) };
    struct bunch b;
    ig_f4 w[ROW_QUADS], v[ROW_QUADS];
    const void *x[ROWS];
    int first;

    panel_load(&b, &panel, 0);
    norm_weights(w, a->mixer_norm, QKV_THREADS);
    ig_after_previous();
    const int rows = rows_here(a->n, &first);
    normed(a, x, v, fmt, w, a->mixer_norm_bias, xs, first, QKV_THREADS);
    normed_for(x, v, fmt, FMT_QKV, xs, qs, QKV_THREADS);
    stamp_mark(2);
    panel_product(parts[sub], &b, &panel, x, rows);
    if (real && i < rows * PR)
        y[(size_t)(first + i / PR) * (size_t)y_stride + (size_t)(p * PR + i % PR)] =
            biased(m, p * PR + i % PR, panel_get(parts[sub][i / PR], fmt, i % PR));
}

/* Panels of q, then k, then v; of latent attention those that read the normed row.  One text for all three
 * (where their formats are one), since a step's code comes from memory, too. */
IG_KERNEL(ig_qkv, QKV_THREADS, ROWS > 1 || QKV_EACH == 1 ? 4 : N_EMBD <= 2048 ? 3 : 2)
{
    enum { ALL = (IN_Q_STRIDE + IN_K_STRIDE * (KV_LORA ? 1 : 2)) / PR };
    const int at = ((int)blockIdx.x + (N_LAYER_ENC > 0 && a.kv_alone ? IN_Q_STRIDE / PR : 0)) * QKV_EACH +
                   (int)threadIdx.x / PANEL_THREADS;
    const int real = QKV_EACH == 1 || at < ALL, p = real ? at : 0, of_k = p - IN_Q_STRIDE / PR;
    const int is_q = of_k < 0, is_v = of_k >= IN_K_STRIDE / PR;
    const struct ig_dmat m = { is_q ? a.mq.p : is_v ? a.mv.p : a.mk.p, is_q ? a.mq.bias : is_v ? a.mv.bias : a.mk.bias,
                               is_q ? a.mq.stride : is_v ? a.mv.stride : a.mk.stride,
                               is_q ? a.mq.fmt : is_v ? a.mv.fmt : a.mk.fmt };
    DISPATCH(&a, FMT_QKV, m.fmt, qkv_body, &m, is_q ? p : is_v ? of_k - IN_K_STRIDE / PR : of_k, real,
             is_q ? a.q : is_v ? a.v : a.k, is_q ? IN_Q_STRIDE : IN_K_STRIDE)
}

enum { AOQ = ROWS == 1 && ANY_BLOCK(FMT_O) ? O_DIM / QB : 1 };

IG_FN void attn_out_body(const struct ig_args *a, int fmt, int p)
{
    IG_SHARED struct ig_xq qs[AOQ];
    IG_SHARED panel_parts parts[ROWS];
    const struct panel panel = { a->mo.p + (size_t)p * a->mo.stride, fmt, O_DIM, -1,
                                 panel_unroll(fmt, O_DIM, FLIGHT_DEEP) };
    struct bunch b;
    const void *x[ROWS];
    int first;

    panel_load(&b, &panel, 0);
    ig_after_previous();
    const int rows = rows_here(a->n, &first), r = p * PR + (int)threadIdx.x % PR;
    row_pointers(x, fmt, a->ao, a->aoq, first, O_DIM);
    /* A thread's place in the residual stream, read while the sums are made. */
    const int t = (int)threadIdx.x / PR, mine = t < rows && r < N_EMBD;
    float *const to = a->x + (size_t)(first + (mine ? t : 0)) * N_EMBD + (size_t)(mine ? r : 0);
    const float before = *to;
    if (ROWS == 1 && IS_BLOCK(fmt)) {
        if (OUT_BLOCKS)
            stage_blocks(qs, a->aoq, O_DIM / QB, PANEL_THREADS);
        else
            quantize_output(qs, a->ao, PANEL_THREADS);
        __syncthreads();
        x[0] = qs;
        stamp_mark(0);
    }
    panel_product(parts, &b, &panel, x, rows);
    if (mine) *to = before + biased(&a->mo, r, panel_get(parts[t], fmt, r % PR)) * RESIDUAL_SCALE;
}

/* For all blocks of this layer's experts to agree on: which fills have arrived by now. */
IG_FN void see_fills(const struct ig_args *a)
{
    const int i = (int)threadIdx.x / 32;
    if (threadIdx.x % 32 > 0) return;
    if (i < IG_N_FILL) a->xc.seen[i] = ig_load_arrived(a->xc.arrived + i);
    else if (i < 2 * IG_N_FILL) a->xc.seen[i] = ig_load_fresh(a->xc.begun + i - IG_N_FILL);
}

/* x += o times attention's output. */
IG_KERNEL(ig_attn_out, PANEL_THREADS, ROWS == 1 ? 4 : LINEAR_BLOCKS)
{
    if (CACHED && a.routed && blockIdx.x == 0) see_fills(&a); /* before the wait: what it reads is older */
    DISPATCH(&a, FMT_O, a.mo.fmt, attn_out_body, (int)blockIdx.x)
}
_Static_assert(PANEL_THREADS >= 64 * IG_N_FILL, "a warp a word");

/* Value i of the normed row, raw in xs, where the experts read it. */
IG_FN void leave_normed(const struct ig_args *a, int i, float w, const float *xs, float mean, float scale)
{
    if (i >= N_EMBD) return; /* int8 blocks are of whole warps */
    const float v = normed_value(xs[i], mean, scale, w, a->ffn_norm_bias, i);
    if (ANY_FLOAT(FMT_GATE_UP)) a->xn[i] = v;
    if (ANY_BLOCK(FMT_GATE_UP)) quantize_warp(a->xq + i / QB, v);
}

/* With ROWS 1 the first blocks leave the normed row, a value a thread, and the first of them says what the dense
 * block beside the experts counts; those from a->routers on make the logits of layers further on. */
IG_FN void router_body(const struct ig_args *a, int fmt, int at)
{
    const int ahead = CACHED && at >= a->routers, block = ahead ? at % a->routers : at;
    const struct ig_dahead *h = at >= 2 * a->routers || a->xc.ahead.layer < 0 ? &a->xc.next : &a->xc.ahead;
    const struct ig_dmat *router = ahead ? &h->router : &a->router;
    const float *bias = ahead ? h->norm_bias : a->ffn_norm_bias;
    float *const rl = ahead ? h->rl : a->rl;
    IG_SHARED panel_parts parts[ROWS];
    const int halves = IS_BLOCK(fmt) ? 1 : 2, leaves = ROWS == 1 && block < 0, i = (int)threadIdx.x;
    const int p = leaves ? 0 : block / halves, wide = PR / halves, mine = (int)blockIdx.x * PANEL_THREADS + i;
    const struct panel panel = { router->p + (size_t)p * router->stride, fmt, N_EMBD,
                                 IS_BLOCK(fmt) ? -1 : block & 1,
                                 panel_unroll(fmt, N_EMBD, FLIGHT_ROUTER) };
    struct bunch b;
    ig_f4 w[ROW_QUADS];
    const void *x[ROWS];
    int first;

    if (!leaves) panel_load(&b, &panel, 0);
#if ROWS == 1
    const float mine_w = leaves ? a->ffn_norm[mine < N_EMBD ? mine : 0] : 0.0f;
#endif
    norm_weights(w, ahead ? h->norm : a->ffn_norm, PANEL_THREADS);
    ig_after_previous();
    const int rows = rows_here(a->n, &first);
#if ROWS == 1
    IG_SHARED float xs[XS];
    IG_SHARED struct ig_xq qs[QS];
    ig_f4 v[ROW_QUADS];
    float mean;
    load_quads(v, a->x, PANEL_THREADS);
    const float scale = norm_scale_of(v, xs, &mean, PANEL_THREADS);
    if (leaves) {
        leave_normed(a, mine, mine_w, xs, mean, scale);
        if (!SHARED_GATE || !a->shared_gate || blockIdx.x > 0) return;
    }
    apply_norm(v, w, bias, mean, scale, PANEL_THREADS);
    if (SHARED_GATE) __syncthreads(); /* block 0 has read what xs held */
    normed_for(x, v, fmt, FMT_ROUTER, xs, qs, PANEL_THREADS);
    if (SHARED_GATE && leaves) {
        if (!ANY_FLOAT(FMT_ROUTER)) store_quads(xs, v, PANEL_THREADS);
        __syncthreads();
        if (i < 32) weigh_shared(a, xs, 0);
        return;
    }
#else
    (void)mine;
    normed(a, x, NULL, fmt, w, bias, NULL, first, PANEL_THREADS);
#endif
    stamp_mark(2);
    panel_product(parts, &b, &panel, x, rows);
    if (i < rows * wide) {
        const int r = block % halves * wide + i % wide;
        rl[(size_t)(first + i / wide) * RL_STRIDE + (size_t)(p * PR + r)] =
            biased(router, p * PR + r, panel_get(parts[i / wide], fmt, r));
    }
}

/* Blocks that leave the normed row read no router, and layers without experts have none: any of its formats, or
 * one, does for them. */
enum { ROUTERS = FMT_ROUTER ? FMT_ROUTER : 1 << IG_F32, A_ROUTER = ONLY(ROUTERS & -ROUTERS) };
IG_KERNEL(ig_router, PANEL_THREADS, ROWS == 1 ? 2 : LINEAR_BLOCKS)
{
    const int block = (int)blockIdx.x - (ROWS == 1 ? IG_ROUTER_LEAVES(N_EMBD) : 0);
    DISPATCH(&a, ROUTERS, block < 0 ? A_ROUTER : a.router.fmt, router_body, block)
}

IG_FN void output_body(const struct ig_args *a, int fmt, int p)
{
    IG_SHARED panel_parts parts[ROWS];
    const struct panel panel = { a->output.p + (size_t)p * a->output.stride, fmt, N_EMBD, -1,
                                 panel_unroll(fmt, N_EMBD, FLIGHT) };
    struct bunch b;
    const void *x[ROWS];
    int first;

    panel_load(&b, &panel, 0);
    ig_after_previous();
    const int rows = LEAST(rows_here(a->n_want, &first), a->n_want);
    row_pointers(x, fmt, a->ln, a->lnq, first, N_EMBD);
    panel_product(parts, &b, &panel, x, rows);
    const int i = (int)threadIdx.x;
    if (i < rows * PR) {
        const float y = biased(&a->output, p * PR + i % PR, panel_get(parts[i / PR], fmt, i % PR));
        a->logits[(size_t)(first + i / PR) * LOGIT_STRIDE + (size_t)(p * PR + i % PR)] =
            LOGIT_SCALE == 1.0f ? y : y / LOGIT_SCALE;
    }
}

IG_KERNEL(ig_output, PANEL_THREADS, LINEAR_BLOCKS)
{
    DISPATCH(&a, FMT_OUTPUT, a.output.fmt, output_body, (int)blockIdx.x)
}
