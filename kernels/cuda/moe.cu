/* moe.cu -- top-k, the chosen experts, their weighted sum in rank order.
 *
 * ROWS 1: ig_gate_up finds the chosen experts from the router's logits in every
 * block, and ig_down takes all of them and adds to the residual stream, so a
 * decode step has two kernels here.  More rows: ig_topk and ig_group make a list
 * of items, each an expert and up to ROWS of its rows; ig_down leaves every
 * expert's output apart and ig_combine adds them in rank order.
 */
#include "args.h"
#include "gemv.h"
#include "row.h"

enum {
    RANKS = ROWS == 1 ? IG_DOWN_RANKS(N_EXPERT_USED) : 1, /* experts at once */
    DOWN_THREADS = RANKS * PANEL_THREADS,
    DOWN_ROUNDS = DIV_UP(N_EXPERT_USED, RANKS),
    FLIGHT_GATE_UP = ROWS == 1 ? 40 : 20, /* words of weights in flight, as in linear.cu */
    FLIGHT_DOWN = ROWS == 1 ? 27 : 20,
    FF_PANELS = DIV_UP(N_FF, PR)
};

/* An item of the route: where its expert's rows are in the list of slots (row * k + rank). */
struct item {
    int expert, first, rows;
};
IG_FN const int32_t *route_slots(const struct ig_args *a)
{
    return a->route + 1 + 3 * (N_ROW * N_EXPERT_USED / ROWS + N_EXPERT + 1);
}
IG_FN struct item item_at(const struct ig_args *a, int i)
{
    const int32_t *p = a->route + 1 + 3 * i;
    const struct item it = { p[0], p[1], p[2] };
    return it;
}

enum { LOGITS = UP_TO(N_EXPERT, 16) };

/* The router's logits of a row, with nothing behind them that could be chosen. */
IG_FN void load_logits(float *logit, const float *rl, int threads)
{
    for (int i = (int)threadIdx.x; i < LOGITS; i += threads)
        logit[i] = i < N_EXPERT ? ig_load_float(rl + i) : -INFINITY;
    __syncthreads();
}

/* ids and logits of the N_EXPERT_USED largest of `logit`, in order, ties to the lower id: an
 * expert's rank is how many stand before it.  Four threads an expert; all threads call this. */
IG_FN void choose(int *id, float *weight, const float *logit, int threads)
{
    const int part = (int)threadIdx.x & 3;
    for (int e = (int)threadIdx.x / 4; e < UP_TO(N_EXPERT, 8); e += threads / 4) {
        const float mine = logit[e];
        int before = 0;
        UNROLL for (int j = 4 * part; j < LOGITS; j += 16)
        {
            const ig_f4 l = *(const ig_f4 *)(const void *)(logit + j);
            before += l.x > mine || (l.x == mine && j < e);
            before += l.y > mine || (l.y == mine && j + 1 < e);
            before += l.z > mine || (l.z == mine && j + 2 < e);
            before += l.w > mine || (l.w == mine && j + 3 < e);
        }
        before += ig_swap_int(before, 1);
        before += ig_swap_int(before, 2);
        if (part == 0 && e < N_EXPERT && before < N_EXPERT_USED) {
            id[before] = e;
            weight[before] = mine;
        }
    }
    __syncthreads();
}

/* Gate and up of two panels.  `q`, `f`: activation rows as blocks and floats. */
IG_FN void gate_up_body(const struct ig_args *a, int fmt, int expert, const int *slot,
                        const int *token_row, int rows, const struct ig_xq *q, const float *f)
{
    IG_SHARED panel_parts parts[4][ROWS];
    const int sub = (int)threadIdx.x / PANEL_THREADS, block = (int)blockIdx.x;
    const int p = 2 * block + (sub & 1), real = p < FF_PANELS;
    const struct ig_dmat *m = sub < 2 ? &a->gate : &a->up;
    const struct panel panel = { m->p + (size_t)expert * a->expert_stride +
                                     (size_t)(real ? p : 0) * m->stride,
                                 fmt, N_EMBD, -1, panel_unroll(fmt, N_EMBD, FLIGHT_GATE_UP) };
    struct bunch b;
    const void *x[ROWS];
    float acc[ROWS][2];

    panel_load(&b, &panel, 0);
    UNROLL for (int t = 0; t < ROWS; t++)
    {
        const size_t r = (size_t)(t < rows ? token_row[t] : 0);
        x[t] = IS_BLOCK(fmt) ? (const void *)(q + r * (N_EMBD / QB)) : (const void *)(f + r * N_EMBD);
    }
    panel_sum(acc, &b, &panel, x, rows);
    panel_put(parts[sub], acc, &panel, rows);
    __syncthreads();
    /* A warp has a row's 32 hidden values: silu(gate) * up, as down reads them. */
    const int row = (int)threadIdx.x / 32, i = (int)threadIdx.x % 32, half = i / 16, r = i % 16;
    if (row >= rows) return;
    const float g = panel_get(parts[half][row], fmt, r), u = panel_get(parts[2 + half][row], fmt, r);
    const float h = 2 * block + half < FF_PANELS ? ig_silu(g) * u : 0.0f;
    if (ANY_BLOCK(FMT_DOWN))
        quantize_warp(a->hq + (size_t)slot[row] * (FF_PAD / QB) + block, h);
    if (ANY_FLOAT(FMT_DOWN)) a->h[(size_t)slot[row] * FF_PAD + (size_t)(block * 32 + i)] = h;
}

#if ROWS == 1

/* blockIdx.y is the rank. */
IG_KERNEL(ig_gate_up, GATE_UP_THREADS, 2)
{
    IG_SHARED float logit[LOGITS], weight[N_EXPERT_USED];
    IG_SHARED struct ig_xq qs[ANY_BLOCK(FMT_GATE_UP) ? N_EMBD / QB : 1];
    IG_SHARED int id[N_EXPERT_USED], slot, token_row;
    const int rank = (int)blockIdx.y, t = (int)threadIdx.x;
    if (t == 0) {
        slot = rank;
        token_row = 0;
    }
    if (t < N_EXPERT_USED) id[t] = 0; /* not-a-number has no rank */
    ig_after_previous();
    if (ANY_BLOCK(FMT_GATE_UP)) stage_blocks(qs, a.xq, N_EMBD / QB, GATE_UP_THREADS);
    load_logits(logit, a.rl, GATE_UP_THREADS);
    choose(id, weight, logit, GATE_UP_THREADS);
    DISPATCH(FMT_GATE_UP, a.gate.fmt, gate_up_body, id[rank], &slot, &token_row, 1, qs, a.xn)
}

enum {
    HQ_BLOCKS = ANY_BLOCK(FMT_DOWN) ? N_EXPERT_USED * (FF_PAD / QB) : 1,
    STAGED = HQ_BLOCKS <= 512 /* 20 KiB */
};

IG_FN struct panel down_panel(const struct ig_args *a, int fmt, int expert)
{
    const struct panel p = { a->down.p + (size_t)expert * a->expert_stride +
                                 (size_t)blockIdx.x * a->down.stride,
                             fmt, N_FF, -1, panel_unroll(fmt, N_FF, FLIGHT_DOWN) };
    return p;
}

/* y[rank][row] of the chosen experts.  128 threads take the experts of ranks sub, sub + RANKS, ...;
 * the first two's weights are asked for before their activations are there. */
IG_FN void down_body(const struct ig_args *a, int fmt, const int *id, float (*y)[PR])
{
    IG_SHARED panel_parts parts[RANKS];
    IG_SHARED struct ig_xq qs[STAGED ? HQ_BLOCKS : 1];
    const int sub = (int)threadIdx.x / PANEL_THREADS;
    struct bunch b[2];
    UNROLL for (int round = 0; round < LEAST(2, DOWN_ROUNDS); round++)
    {
        const int rank = LEAST(round * RANKS + sub, N_EXPERT_USED - 1);
        const struct panel panel = down_panel(a, fmt, id[rank]);
        panel_load(&b[round], &panel, 0);
    }
    ig_after_previous();
    if (STAGED && IS_BLOCK(fmt)) {
        stage_blocks(qs, a->hq, HQ_BLOCKS, DOWN_THREADS);
        __syncthreads();
    }
    UNROLL for (int round = 0; round < DOWN_ROUNDS; round++)
    {
        const int rank = LEAST(round * RANKS + sub, N_EXPERT_USED - 1);
        const struct panel panel = down_panel(a, fmt, id[rank]);
        const struct ig_xq *q = STAGED ? qs : a->hq;
        const void *x = IS_BLOCK(fmt) ? (const void *)(q + rank * (FF_PAD / QB))
                                      : (const void *)(a->h + rank * FF_PAD);
        float acc[ROWS][2];
        if (round >= 2) panel_load(&b[round % 2], &panel, 0);
        panel_sum(acc, &b[round % 2], &panel, &x, 1);
        panel_put(&parts[sub], acc, &panel, 1);
        __syncthreads();
        for (int i = (int)threadIdx.x; i < RANKS * PR; i += DOWN_THREADS)
            if (round * RANKS + i / PR < N_EXPERT_USED)
                y[round * RANKS + i / PR][i % PR] = panel_get(parts[i / PR], fmt, i % PR);
        __syncthreads();
    }
}

/* The router is two kernels back: the experts are known, and their weights on the way, before
 * ig_gate_up has ended. */
IG_KERNEL(ig_down, DOWN_THREADS, 2)
{
    IG_SHARED float logit[LOGITS], weight[N_EXPERT_USED], y[N_EXPERT_USED][PR];
    IG_SHARED int id[N_EXPERT_USED];
    const int t = (int)threadIdx.x, r = (int)blockIdx.x * PR + t, mine = t < PR && r < N_EMBD;
    if (t < N_EXPERT_USED) id[t] = 0;
    load_logits(logit, a.rl, DOWN_THREADS);
    choose(id, weight, logit, DOWN_THREADS);
    if (t < 32) softmax_chosen(weight);
    const float x = mine ? ig_load_float(a.x + r) : 0.0f; /* of ig_attn_out, further back */
    DISPATCH(FMT_DOWN, a.down.fmt, down_body, id, y)
    if (mine) {
        float sum = 0.0f;
        for (int k = 0; k < N_EXPERT_USED; k++) sum = fmaf(weight[k], y[k][t], sum);
        a.x[r] = x + sum;
    }
    if (blockIdx.x == 0 && t < N_EXPERT_USED) { /* for who looks on */
        a.expert[t] = id[t];
        a.weight[t] = weight[t];
    }
}

#else

IG_KERNEL(ig_topk, TOPK_THREADS, 4)
{
    IG_SHARED float logit[LOGITS], weight[N_EXPERT_USED];
    IG_SHARED int id[N_EXPERT_USED];
    const int t = (int)threadIdx.x;
    const size_t row = blockIdx.x;
    if (t < N_EXPERT_USED) id[t] = 0;
    ig_after_previous();
    load_logits(logit, a.rl + row * RL_STRIDE, TOPK_THREADS);
    choose(id, weight, logit, TOPK_THREADS);
    if (t < 32) softmax_chosen(weight);
    __syncthreads();
    if (t < N_EXPERT_USED) {
        a.expert[row * N_EXPERT_USED + (size_t)t] = id[t];
        a.weight[row * N_EXPERT_USED + (size_t)t] = weight[t];
    }
}

/* One block: slots sorted by expert, rows ascending, and cut into items.  A thread owns experts,
 * so nothing depends on who comes first. */
IG_KERNEL(ig_group, GROUP_THREADS, 1)
{
    IG_SHARED int count[N_EXPERT], start[N_EXPERT + 1], item[N_EXPERT + 1];
    const int t = (int)threadIdx.x, slots = a.n * N_EXPERT_USED;
    int32_t *list = (int32_t *)(void *)(uintptr_t)route_slots(&a);
    ig_after_previous();
    for (int e = t; e < N_EXPERT; e += GROUP_THREADS) count[e] = 0;
    __syncthreads();
    for (int i = t; i < slots; i += GROUP_THREADS) atomicAdd(&count[a.expert[i]], 1);
    __syncthreads();
    if (t == 0) {
        start[0] = item[0] = 0;
        for (int e = 0; e < N_EXPERT; e++) {
            start[e + 1] = start[e] + count[e];
            item[e + 1] = item[e] + DIV_UP(count[e], ROWS);
        }
        a.route[0] = item[N_EXPERT];
    }
    __syncthreads();
    for (int e = t; e < N_EXPERT; e += GROUP_THREADS) {
        int at = start[e];
        for (int i = 0; i < slots && at < start[e + 1]; i++)
            if (a.expert[i] == e) list[at++] = i;
        for (int i = 0; i < item[e + 1] - item[e]; i++) {
            int32_t *p = a.route + 1 + 3 * (item[e] + i);
            p[0] = e;
            p[1] = start[e] + i * ROWS;
            p[2] = LEAST(ROWS, start[e + 1] - p[1]);
        }
    }
}

/* Threads t < ROWS read the item's slots and the rows they belong to. */
IG_FN struct item take_item(const struct ig_args *a, int *slot, int *token_row)
{
    const struct item it = item_at(a, (int)blockIdx.y);
    const int t = (int)threadIdx.x;
    if (t < it.rows) {
        slot[t] = route_slots(a)[it.first + t];
        token_row[t] = slot[t] / N_EXPERT_USED;
    }
    __syncthreads();
    return it;
}

/* blockIdx.y is the item. */
IG_KERNEL(ig_gate_up, GATE_UP_THREADS, 1)
{
    IG_SHARED int slot[ROWS], token_row[ROWS];
    ig_after_previous();
    if ((int)blockIdx.y >= a.route[0]) return;
    const struct item it = take_item(&a, slot, token_row);
    DISPATCH(FMT_GATE_UP, a.gate.fmt, gate_up_body, it.expert, slot, token_row, it.rows,
             a.xq, a.xn)
}

IG_FN void down_body(const struct ig_args *a, int fmt, const int *slot, const struct item *it)
{
    IG_SHARED panel_parts parts[ROWS];
    const struct panel panel = { a->down.p + (size_t)it->expert * a->expert_stride +
                                     (size_t)blockIdx.x * a->down.stride,
                                 fmt, N_FF, -1, panel_unroll(fmt, N_FF, FLIGHT_DOWN) };
    struct bunch b;
    const void *x[ROWS];
    float acc[ROWS][2];
    panel_load(&b, &panel, 0);
    UNROLL for (int t = 0; t < ROWS; t++)
    {
        const size_t s = (size_t)(t < it->rows ? slot[t] : 0);
        x[t] = IS_BLOCK(fmt) ? (const void *)(a->hq + s * (FF_PAD / QB))
                             : (const void *)(a->h + s * FF_PAD);
    }
    panel_sum(acc, &b, &panel, x, it->rows);
    panel_put(parts, acc, &panel, it->rows);
    __syncthreads();
    for (int i = (int)threadIdx.x; i < it->rows * PR; i += PANEL_THREADS) {
        const int r = (int)blockIdx.x * PR + i % PR;
        if (r < N_EMBD)
            a->y[(size_t)slot[i / PR] * N_EMBD + (size_t)r] = panel_get(parts[i / PR], fmt, i % PR);
    }
}

IG_KERNEL(ig_down, DOWN_THREADS, 4)
{
    IG_SHARED int slot[ROWS], token_row[ROWS];
    ig_after_previous();
    if ((int)blockIdx.y >= a.route[0]) return;
    const struct item it = take_item(&a, slot, token_row);
    DISPATCH(FMT_DOWN, a.down.fmt, down_body, slot, &it)
}

/* x += the experts' outputs in rank order. */
IG_KERNEL(ig_combine, ROW_THREADS, 4)
{
    ig_after_previous();
    const size_t row = blockIdx.x;
    const float *weight = a.weight + row * N_EXPERT_USED, *y = a.y + row * N_EXPERT_USED * N_EMBD;
    for (int r = (int)threadIdx.x; r < N_EMBD; r += ROW_THREADS) {
        float sum = 0.0f;
        for (int k = 0; k < N_EXPERT_USED; k++)
            sum = fmaf(weight[k], y[(size_t)k * N_EMBD + (size_t)r], sum);
        a.x[row * N_EMBD + (size_t)r] += sum;
    }
}

#endif
