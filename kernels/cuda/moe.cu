/* moe.cu -- the chosen experts, the dense block beside them, their weighted sum in rank order.
 *
 * ROWS 1: ig_gate_up finds the chosen experts from the router's logits in every
 * block, and ig_down takes all of them and adds to the residual stream, so a
 * decode step has two kernels here.  More rows: ig_topk and ig_group make a list
 * of items, each an expert and up to ROWS of its rows; ig_down leaves every
 * expert's output apart and ig_combine adds them in rank order.  The dense block
 * of a layer (alone, or shared beside the experts) comes last in every sum.
 */
#include "args.h"
#include "gemv.h"
#include "place.h"

enum {
    RANKS = ROWS == 1 ? IG_DOWN_RANKS(RANKED) : 1, /* experts at once */
    WITH_ASIDE = N_FF_ASIDE > 0,
    DOWN_THREADS = (ROWS == 1 ? IG_DOWN_RANKS(N_EXPERT_USED) + WITH_ASIDE : 1) * PANEL_THREADS,
    DOWN_ROUNDS = DIV_UP(RANKED, RANKS),
    TURNS_DOWN = LEAST(2, DOWN_ROUNDS), /* rounds between barriers */
    /* A step's items are shared by blocks that have a multiprocessor each (IG_MANY_ITEMS). */
    SHARES = ROWS == 1 && !CACHED && IG_MANY_ITEMS(N_EXPERT_USED * FF_BLOCKS),
    STAGES_FLOATS = SHARES && ANY_FLOAT(FMT_GATE_UP), /* items meet them again and again */
    FLIGHT_GATE_UP = SHARES ? 80 : ROWS == 1 ? 40 : 20, /* words of weights in flight, as in linear.cu */
    FLIGHT_DOWN = ROWS > 1 ? 20 : RANKS <= 2 ? 70 : 27 /* what its threads leave each of the registers */
};

/* Where a slot's hidden values are, in blocks of 32. */
IG_FN size_t hidden_block(int slot)
{
    return slot < ASIDE ? (size_t)slot * FF_BLOCKS
                        : (size_t)ASIDE * FF_BLOCKS + (size_t)(slot - ASIDE) * ASIDE_BLOCKS;
}

/* Gate and up of one expert, or of the dense block: 32 hidden values of some rows. */
struct hidden {
    const struct ig_dmat *gate, *up;
    size_t expert; /* bytes from expert 0's */
    int ff;        /* its width */
    int block;
    int64_t shift; /* as in struct spot */
    int slot;      /* with ROWS 1 */
    int item, items, stride; /* a block of a decode step has each stride-th of the routed items; items 0: this one alone */
};

IG_FN float activated(float g, float u)
{
    if (ACT_RELU) return g < 0.0f ? 0.0f : g; /* there is no up */
    if (!ACT_OAI) return ig_silu(g) * u;
    g = g > ACT_LIMIT ? ACT_LIMIT : g;
    u = u > ACT_LIMIT ? ACT_LIMIT : u;
    u = u < -ACT_LIMIT ? -ACT_LIMIT : u;
    return (u + 1.0f) * (g / (1.0f + ig_expf(-1.702f * g)));
}

/* Element r of an expert's bias; `shift` as in struct spot. */
IG_FN float with_bias(const struct ig_dmat *m, size_t expert, int64_t shift, int r, float y)
{
    if (!m->bias) return y;
    float *b = (float *)((uintptr_t)m->bias + expert) + r;
    if (shift) *b = *(const float *)shifted(b, shift);
    return y + *b;
}

IG_FN struct panel hidden_panel(int fmt, const struct hidden *k)
{
    const int sub = (int)threadIdx.x / PANEL_THREADS, p = 2 * k->block + (sub & 1), real = p < DIV_UP(k->ff, PR);
    const struct ig_dmat *m = sub < 2 ? k->gate : k->up;
    const struct panel panel = { m->p + k->expert + (size_t)(real ? p : 0) * m->stride, fmt, N_EMBD, -1,
                                 panel_unroll(fmt, N_EMBD, FLIGHT_GATE_UP) };
    return panel;
}

/* From the parts of gate and up what down reads: a warp has a row's 32 hidden values. */
IG_FN void leave_hidden(const struct ig_args *a, int fmt, const struct hidden *k, const int *slot, int rows,
                        panel_parts (*parts)[ROWS])
{
    const int row = (int)threadIdx.x / 32, i = (int)threadIdx.x % 32, half = i / 16, r = i % 16;
    if (row >= rows) return;
    float h = 0.0f;
    if (2 * k->block + half < DIV_UP(k->ff, PR)) {
        const int at = k->block * 32 + i;
        const float g = with_bias(k->gate, k->expert, k->shift, at, panel_get(parts[half][row], fmt, r));
        h = activated(g, ACT_RELU ? 0.0f : with_bias(k->up, k->expert, k->shift, at, panel_get(parts[2 + half][row], fmt, r)));
    }
    const size_t to = hidden_block(ROWS == 1 ? k->slot : slot[row]);
    if (ANY_BLOCK(FMT_DOWN)) quantize_warp(a->hq + to + xq_place(k->block, DIV_UP(k->ff, QB)), h);
    if (ANY_FLOAT(FMT_DOWN)) a->h[(to + (size_t)k->block) * QB + (size_t)i] = h;
}

/* The block's next item; 0: there is none. */
IG_FN int next_hidden(const struct ig_args *a, struct hidden *k, const int *id)
{
    if (!SHARES || k->item + k->stride >= k->items) return 0;
    k->item += k->stride;
    k->slot = k->item / FF_BLOCKS;
    k->block = k->item % FF_BLOCKS;
    k->expert = (size_t)id[k->slot] * a->expert_stride;
    return 1;
}

/* Gate and up of two panels.  `q`, `f`: activation rows as blocks and floats. */
IG_FN void gate_up_body(const struct ig_args *a, int fmt, struct hidden k, const int *slot, const int *token_row, int rows,
                        const struct ig_xq *q, const float *f)
{
    IG_SHARED panel_parts parts[4][ROWS];
    const int sub = (int)threadIdx.x / PANEL_THREADS, works = !ACT_RELU || sub < 2;
    const struct panel panel = hidden_panel(fmt, &k);
    struct bunch b;
    const void *x[ROWS];
    float acc[ROWS][2];

    if (k.shift && works) fill_panel(panel.p, k.shift, f_panel(fmt, N_EMBD));
    if (k.shift) __syncthreads();
    stamp_mark(0);
    if (works) panel_load(&b, &panel, 0);
    UNROLL for (int t = 0; t < ROWS; t++)
    {
        const size_t r = (size_t)(ROWS > 1 && t < rows ? token_row[t] : 0);
        x[t] = IS_BLOCK(fmt) ? (const void *)(q + r * (N_EMBD / QB)) : (const void *)(f + r * N_EMBD);
    }
    if (works) {
        panel_sum(acc, &b, &panel, x, rows);
        panel_put(parts[sub], acc, &panel, rows);
    }
    stamp_mark(1);
    __syncthreads();
    stamp_mark(2);
    leave_hidden(a, fmt, &k, slot, rows, parts);
}

/* A block's items one after the other, the next one's weights under way while one is summed up and left.  qs, fs: room
 * for the activations as blocks, as floats. */
IG_FN void gate_up_items(const struct ig_args *a, int fmt, struct hidden k, const int *id, struct ig_xq *qs, float *fs)
{
    IG_SHARED panel_parts parts[4][ROWS];
    const int sub = (int)threadIdx.x / PANEL_THREADS, works = !ACT_RELU || sub < 2, steps = panel_steps(fmt, N_EMBD);
    struct panel panel = hidden_panel(fmt, &k);
    struct bunch b;
    float acc[ROWS][2] = { { 0.0f, 0.0f } };
    const void *const x = IS_BLOCK(fmt) ? (const void *)qs : (const void *)fs;
    int step = 0;
    stamp_mark(0);
    if (works) panel_load(&b, &panel, 0);
    if (IS_BLOCK(fmt)) stage_blocks(qs, a->xq, N_EMBD / QB, GATE_UP_THREADS);
    for (int i = 4 * (int)threadIdx.x; !IS_BLOCK(fmt) && i < N_EMBD; i += 4 * GATE_UP_THREADS)
        *(ig_f4 *)(void *)(fs + i) = *(const ig_f4 *)(const void *)(a->xn + i);
    __syncthreads();
    UNROLL_BY(1) for (;;)
    {
        const int last = step + panel.unroll >= steps, from = last ? 0 : step + panel.unroll;
        struct hidden now = k;
        struct panel then = panel;
        if (last) {
            if (next_hidden(a, &k, id)) then.p = hidden_panel(fmt, &k).p;
            else then.p = NULL;
        }
        if (works) panel_flow(acc, &b, &panel, &then, from, &x, 1, step);
        step = from;
        if (!last) continue;
        if (works) panel_put(parts[sub], acc, &panel, 1);
        acc[0][0] = acc[0][1] = 0.0f;
        stamp_mark(1);
        __syncthreads();
        stamp_mark(2);
        leave_hidden(a, fmt, &now, NULL, 1, parts);
        if (!then.p) break;
        panel.p = then.p;
        __syncthreads();
    }
}

#if ROWS == 1 && N_EXPERT > 0

/* A block's part, one of `of`, of the down matrices of experts that come over the link, while ig_gate_up's
 * other blocks work. */
IG_FN void fill_down(const struct ig_args *a, const struct chosen *c, int block, int of)
{
    enum { PANELS = DIV_UP(N_EMBD, PR), EACH = IG_FILL_PIECES(N_EMBD) };
    int at = 0; /* pieces of the experts before rank k */
    for (int k = 0; k < N_EXPERT_USED; k++) {
        const struct spot s = spot_of(a, c, k);
        if (s.shift == 0) continue;
        for (int piece = (block + of - at % of) % of; piece < EACH; piece += of) {
            const int panel = piece * 4 + (int)threadIdx.x / PANEL_THREADS;
            if (panel < PANELS)
                fill_panel(a->down.p + s.expert + (size_t)panel * a->down.stride, s.shift,
                           f_panel(FMT_OF(FMT_DOWN, a->down.fmt), N_FF));
        }
        at += EACH;
    }
}

/* An item is 32 hidden values of a chosen expert, rank by rank; of many, so many blocks as the device has room for
 * share them.  Behind them a block each 32 of the dense block.  With a cache a block has one item; one more that
 * speaks with the CPU stands before them, those that guess, and behind them those that fill slots and the one that
 * keeps the tables. */
IG_KERNEL(ig_gate_up, GATE_UP_THREADS, SHARES ? 1 : 2)
{
    IG_SHARED struct chosen c;
    IG_SHARED struct ig_xq qs[ANY_BLOCK(FMT_GATE_UP) ? N_EMBD / QB : 1];
    IG_SHARED float fs[STAGES_FLOATS ? N_EMBD : 1];
    const int asks = CACHED && a.routed && a.xc.posted != NULL, ahead = asks ? (a.xc.ahead.layer >= 0) + IG_GUESSES_NEXT(a.xc) : 0;
    const int items = a.routed ? N_EXPERT_USED * FF_BLOCKS : 0;
    const int dense = DIV_UP(a.aside, QB), routed = CACHED ? items : (int)gridDim.x - dense;
    const int block = (int)blockIdx.x - asks - ahead, rank = block / FF_BLOCKS, fill = block - routed - dense;
    const int aside = WITH_ASIDE && block >= routed && fill < 0;
    const int force = ig_load_fresh(a.force);
#if N_WAY > 0
    if (block < 0 && blockIdx.x > 0) {
        const int fetches = blockIdx.x == 1 && a.xc.ahead.layer >= 0;
        load_ahead(&a, &c, fetches ? &a.xc.ahead : &a.xc.next, GATE_UP_THREADS);
        ig_after_previous();
        look_ahead(&a, &c, GATE_UP_THREADS, force, fetches, !fetches || a.xc.next.layer == a.xc.ahead.layer);
        return;
    }
#endif
    if (CACHED && a.routed && !aside) load_set(&a, &c, GATE_UP_THREADS);
    ig_after_previous();
    const unsigned began = CACHED ? ig_clock() : 0;
    if (CACHED && blockIdx.x == 0 && threadIdx.x == 0) a.xc.count[IG_T_BEGAN] = ig_clock();
    /* Where items are shared a block first asks for its first weights. */
    if (ANY_BLOCK(FMT_GATE_UP) && (!SHARES || aside)) stage_blocks(qs, a.xq, N_EMBD / QB, GATE_UP_THREADS);
    if (aside) {
        const struct hidden k = { &a.dense_gate, &a.dense_up, 0, a.aside, block - routed, 0, ASIDE, 0, 0, 0 };
        __syncthreads();
        DISPATCH(&a, FMT_GATE_UP, a.dense_gate.fmt, gate_up_body, k, NULL, NULL, 1, qs, a.xn)
        return;
    }
    choose_places(&a, &c, GATE_UP_THREADS, CACHED || routed < items ? N_EXPERT_USED : rank + 1, 0, force);
#if N_WAY > 0
    if (block < 0) {
        ask_cpu(&a, &c, GATE_UP_THREADS);
        return;
    }
    if (fill >= 0 && blockIdx.x + 1 == gridDim.x) { /* it takes as long as the experts' first half */
        keep_set(&a, &c, GATE_UP_THREADS);
        return;
    }
    if (fill >= 0) {
        fill_down(&a, &c, fill, (int)gridDim.x - 1 - (int)blockIdx.x + fill);
        return;
    }
#endif
    const struct spot s = spot_of(&a, &c, rank);
    if (s.rank < 0) return;
    if (CACHED && c.wait[rank]) { /* it is on its way */
        if (threadIdx.x == 0) ig_await_arrived(a.xc.arrived + c.by[rank], c.number[rank]);
        __syncthreads();
    }
    const struct hidden k = { &a.gate, &a.up, s.expert, N_FF, block % FF_BLOCKS, s.shift, rank, block, items, routed };
    if (SHARES) {
        DISPATCH(&a, FMT_GATE_UP, a.gate.fmt, gate_up_items, k, c.r.id, qs, fs)
    } else {
        DISPATCH(&a, FMT_GATE_UP, a.gate.fmt, gate_up_body, k, NULL, NULL, 1, qs, a.xn)
    }
    if (CACHED && s.wait) ig_await_clock(began, s.wait);
}

enum {
    HQ_BLOCKS = ANY_BLOCK(FMT_DOWN) ? N_EXPERT_USED * FF_BLOCKS : 1,
    STAGED = HQ_BLOCKS <= 512 /* 20 KiB */
};

IG_FN struct panel down_panel(const struct ig_args *a, int fmt, size_t expert)
{
    const struct panel p = { a->down.p + expert + (size_t)blockIdx.x * a->down.stride,
                             fmt, N_FF, -1, panel_unroll(fmt, N_FF, FLIGHT_DOWN) };
    return p;
}

/* The dense block's panel; the last 128 threads. */
IG_FN void aside_body(const struct ig_args *a, int fmt, panel_parts *parts)
{
    const struct panel panel = { a->dense_down.p + (size_t)blockIdx.x * a->dense_down.stride, fmt,
                                 a->aside, -1, panel_unroll(fmt, N_FF_ASIDE, FLIGHT_DOWN) };
    const void *x = IS_BLOCK(fmt) ? (const void *)(a->hq + hidden_block(ASIDE))
                                  : (const void *)(a->h + hidden_block(ASIDE) * QB);
    struct bunch b;
    float acc[ROWS][2];
    panel_load(&b, &panel, 0);
    panel_sum(acc, &b, &panel, &x, 1);
    panel_put(parts, acc, &panel, 1);
}

IG_FN void take_aside(const struct ig_args *a, panel_parts *parts)
{
    DISPATCH(a, FMT_DOWN, a->dense_down.fmt, aside_body, parts)
}

/* Where a rank's expert is: with a cache a block has found that out once. */
IG_FN struct spot down_spot(const struct ig_args *a, const struct spot *spots, const struct chosen *c, int rank)
{
    return CACHED ? spots[rank] : spot_of(a, c, rank);
}

/* Ask for the first weights of round `round`, where `late` says whether they are to be there only
 * when ig_gate_up has ended. */
IG_FN void down_ask(const struct ig_args *a, int fmt, const struct spot *spots, const struct chosen *c, struct bunch *b,
                    int round, int late)
{
    const int sub = (int)threadIdx.x / PANEL_THREADS, rank = LEAST(round * RANKS + sub, N_EXPERT_USED - 1);
    const struct spot s = down_spot(a, spots, c, rank);
    const struct panel panel = down_panel(a, fmt, s.expert);
    if (sub < RANKS && a->routed && s.rank >= 0 && s.late == late) panel_load(b, &panel, 0);
}

/* y[rank][row] of the chosen experts.  128 threads take the experts of ranks sub, sub + RANKS, ...;
 * the first two's weights are asked for before their activations are there.  128 more have the
 * dense block, beside the first round: y[N_EXPERT_USED]. */
IG_FN void down_body(const struct ig_args *a, int fmt, const struct spot *spots, struct chosen *c, int force, float (*y)[PR])
{
    IG_SHARED panel_parts parts[TURNS_DOWN * RANKS + WITH_ASIDE];
    IG_SHARED struct ig_xq qs[STAGED ? HQ_BLOCKS : 1];
    const int sub = (int)threadIdx.x / PANEL_THREADS, mine = sub < RANKS && a->routed;
    struct bunch b[2];
    UNROLL for (int round = 0; round < LEAST(2, DOWN_ROUNDS); round++)
        down_ask(a, fmt, spots, c, &b[round], round, 0);
    /* What the experts count, while their weights are on their way. */
    if (a->routed && !force && (int)threadIdx.x >= DOWN_THREADS - 32) weigh(&c->r);
    ig_after_previous();
    UNROLL for (int round = 0; round < LEAST(2, DOWN_ROUNDS) && CACHED; round++)
        down_ask(a, fmt, spots, c, &b[round], round, 1);
    if (STAGED && IS_BLOCK(fmt)) {
        stage_blocks(qs, a->hq, HQ_BLOCKS, DOWN_THREADS);
        __syncthreads();
        stamp_mark(0);
    }
    UNROLL for (int first = 0; first < DOWN_ROUNDS; first += TURNS_DOWN)
    {
        UNROLL for (int turn = 0; turn < TURNS_DOWN; turn++)
        {
            const int round = first + turn, rank = LEAST(round * RANKS + sub, N_EXPERT_USED - 1);
            const struct spot s = down_spot(a, spots, c, rank);
            const struct panel panel = down_panel(a, fmt, s.expert);
            const struct ig_xq *q = STAGED ? qs : a->hq;
            const void *x = IS_BLOCK(fmt) ? (const void *)(q + rank * FF_BLOCKS)
                                          : (const void *)(a->h + rank * FF_BLOCKS * QB);
            float acc[ROWS][2];
            if (round >= DOWN_ROUNDS || !mine || (CACHED && s.rank < 0)) continue;
            if (round >= 2) panel_load(&b[round % 2], &panel, 0);
            panel_sum(acc, &b[round % 2], &panel, &x, 1);
            panel_put(&parts[turn * RANKS + sub], acc, &panel, 1);
        }
        if (WITH_ASIDE && first == 0 && sub == RANKS && a->aside) take_aside(a, &parts[TURNS_DOWN * RANKS]);
        __syncthreads();
        stamp_mark(1);
        for (int i = (int)threadIdx.x; i < TURNS_DOWN * RANKS * PR && a->routed; i += DOWN_THREADS) {
            const int of = first * RANKS + i / PR, r = (int)blockIdx.x * PR + i % PR;
            if (of >= N_EXPERT_USED) continue;
            const struct spot s = down_spot(a, spots, c, of);
            if (!CACHED || s.rank >= 0)
                y[of][i % PR] = with_bias(&a->down, s.expert, s.shift, r,
                                          panel_get(parts[i / PR], fmt, i % PR));
            else if (r < N_EMBD) /* the CPU's answer */
                y[of][i % PR] = ig_load_float(a->y + (size_t)of * N_EMBD + (size_t)r);
        }
        if (WITH_ASIDE && first == 0 && a->aside && (int)threadIdx.x < PR)
            y[N_EXPERT_USED][threadIdx.x] =
                panel_get(parts[TURNS_DOWN * RANKS], FMT_OF(FMT_DOWN, a->dense_down.fmt), (int)threadIdx.x);
        __syncthreads();
        stamp_mark(2);
    }
}

/* The router is two kernels back: the experts are known, and their weights on the way, before
 * ig_gate_up has ended.  With a cache one more block counts. */
IG_KERNEL(ig_down, DOWN_THREADS, WITH_ASIDE ? 1 : 2)
{
    IG_SHARED struct chosen c;
    IG_SHARED struct spot spots[CACHED ? N_EXPERT_USED : 1];
    IG_SHARED float y[N_EXPERT_USED + 1][PR];
    const int t = (int)threadIdx.x, r = (int)blockIdx.x * PR + t, mine = t < PR && r < N_EMBD;
    const int force = a.routed ? ig_load_fresh(a.force) : 0;
    if (a.routed) {
        if (CACHED) load_set(&a, &c, DOWN_THREADS);
        choose_places(&a, &c, DOWN_THREADS, N_EXPERT_USED, 1, force);
        if (CACHED && t < N_EXPERT_USED) spots[t] = spot_of(&a, &c, t);
    }
#if N_WAY > 0
    if ((int)blockIdx.x >= DIV_UP(N_EMBD, PR)) {
        ig_after_previous();
        if (t == 0) count_step(&a, &c);
        return;
    }
#endif
    if (CACHED) __syncthreads();
    const float x = mine ? ig_load_float(a.x + r) : 0.0f; /* of ig_attn_out, further back */
    /* A layer without experts has no format of theirs: the dense block's does for the frame. */
    DISPATCH(&a, FMT_DOWN, a.routed ? a.down.fmt : a.dense_down.fmt, down_body, spots, &c, force, y)
    if (mine) {
        float sum = 0.0f;
        for (int i = 0; i < N_EXPERT_USED && a.routed; i++) sum = fmaf(c.r.weight[i], y[i][t], sum);
        if (WITH_ASIDE && a.aside)
            sum = fmaf(SHARED_GATE && a.shared_gate ? ig_load_float(a.shared_scale) : 1.0f,
                       y[N_EXPERT_USED][t], sum);
        a.x[r] = x + sum * RESIDUAL_SCALE;
    }
    if (blockIdx.x == 0 && t < N_EXPERT_USED && a.routed) { /* for who looks on */
        a.expert[t] = c.r.id[t];
        a.weight[t] = c.r.weight[t];
    }
}

#elif ROWS > 1

/* An item of the route: where its expert's rows are in the list of slots. */
struct item {
    int expert, first, rows; /* expert -1: the dense block, rows first ... */
};
IG_FN const int32_t *route_slots(const struct ig_args *a)
{
    return a->route + 1 + 3 * (N_ROW * N_EXPERT_USED / ROWS + N_EXPERT + 1);
}

#if N_EXPERT > 0
IG_KERNEL(ig_topk, TOPK_THREADS, 4)
{
    IG_SHARED struct routing r;
    const int t = (int)threadIdx.x, row = (int)blockIdx.x;
    ig_after_previous();
    const int force = ig_load_fresh(a.force);
    route(&a, &r, row, TOPK_THREADS, N_EXPERT_USED, 1, force);
    if (!force && t < 32) weigh(&r);
    __syncthreads();
    if (t < N_EXPERT_USED) {
        a.expert[row * N_EXPERT_USED + t] = r.id[t];
        a.weight[row * N_EXPERT_USED + t] = r.weight[t];
    }
    if (SHARED_GATE && a.shared_gate && t < 32) weigh_shared(&a, a.xn + (size_t)row * N_EMBD, row);
}

/* The slots that chose expert e, ascending: one warp, which asks for the next ones' choices before it looks at some. */
enum { LIST_BUNCH = 8 };
IG_FN void list_ask(int *id, const struct ig_args *a, int i, int slots)
{
    UNROLL for (int u = 0; u < LIST_BUNCH; u++)
    {
        const int at = i + 32 * u + ((int)threadIdx.x & 31);
        id[u] = at < slots ? a->expert[at] : -1;
    }
}
IG_FN void list_rows(const struct ig_args *a, int32_t *to, int e, int slots)
{
    const int lane = (int)threadIdx.x & 31;
    int next[LIST_BUNCH];
    list_ask(next, a, 0, slots);
    for (int i = 0; i < slots; i += 32 * LIST_BUNCH) {
        int id[LIST_BUNCH];
        UNROLL for (int u = 0; u < LIST_BUNCH; u++) id[u] = next[u];
        list_ask(next, a, i + 32 * LIST_BUNCH, slots);
        UNROLL for (int u = 0; u < LIST_BUNCH; u++)
        {
            const unsigned chose = ig_ballot(id[u] == e);
            if (id[u] == e) to[ig_count(chose & ((1u << lane) - 1))] = i + 32 * u + lane;
            to += ig_count(chose);
        }
    }
}

/* Slots sorted by expert, rows ascending, a warp an expert, and cut into items of a.group rows. */
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
            item[e + 1] = item[e] + DIV_UP(count[e], a.group);
        }
        if (blockIdx.x == 0) a.route[0] = item[N_EXPERT];
    }
    __syncthreads();
    const int e0 = (int)blockIdx.x * (GROUP_THREADS / 32) + t / 32;
    if (e0 < N_EXPERT) list_rows(&a, list + start[e0], e0, slots);
    for (int e = t; e < N_EXPERT && blockIdx.x == 0; e += GROUP_THREADS) {
        for (int i = 0; i < item[e + 1] - item[e]; i++) {
            int32_t *p = a.route + 1 + 3 * (item[e] + i);
            p[0] = e;
            p[1] = start[e] + i * a.group;
            p[2] = LEAST(a.group, start[e + 1] - p[1]);
        }
    }
}

#endif

/* blockIdx.y is the item; threads t < ROWS read its slots and the rows they belong to.  rows 0:
 * there is no such item. */
IG_FN struct item take_item(const struct ig_args *a, int *slot, int *token_row)
{
    const int i = (int)blockIdx.y, t = (int)threadIdx.x;
    const int32_t *p = a->route + 1 + 3 * i;
    struct item it = { -1, i * ROWS, LEAST(ROWS, a->n - i * ROWS) };
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
        token_row[t] = a->in ? it.first + t : slot[t] / RANKED;
    }
    __syncthreads();
    return it;
}

/* in 1: the dense block. */
IG_KERNEL(ig_gate_up, GATE_UP_THREADS, 1)
{
    IG_SHARED int slot[ROWS], token_row[ROWS];
    ig_after_previous();
    const struct item it = take_item(&a, slot, token_row);
    if (it.rows == 0) return;
    const struct ig_dmat *gate = a.in ? &a.dense_gate : &a.gate;
    const struct hidden k = { gate, a.in ? &a.dense_up : &a.up,
                              a.in ? 0 : (size_t)it.expert * a.expert_stride, a.in ? a.aside : N_FF,
                              (int)blockIdx.x, 0, 0, 0, 0, 0 };
    DISPATCH(&a, FMT_GATE_UP, gate->fmt, gate_up_body, k, slot, token_row, it.rows, a.xq, a.xn)
}

IG_FN void down_body(const struct ig_args *a, int fmt, const int *slot, const struct item *it)
{
    IG_SHARED panel_parts parts[ROWS];
    const struct ig_dmat *m = a->in ? &a->dense_down : &a->down;
    const size_t expert = a->in ? 0 : (size_t)it->expert * a->expert_stride;
    const struct panel panel = { m->p + expert + (size_t)blockIdx.x * m->stride, fmt,
                                 WITH_ASIDE && a->in ? a->aside : N_FF, -1,
                                 panel_unroll(fmt, N_FF, FLIGHT_DOWN) };
    struct bunch b;
    const void *x[ROWS];
    panel_load(&b, &panel, 0);
    UNROLL for (int t = 0; t < ROWS; t++)
    {
        const size_t s = hidden_block(slot[t < it->rows ? t : 0]);
        x[t] = IS_BLOCK(fmt) ? (const void *)(a->hq + s) : (const void *)(a->h + s * QB);
    }
    panel_product(parts, &b, &panel, x, it->rows);
    for (int i = (int)threadIdx.x; i < it->rows * PR; i += PANEL_THREADS) {
        const int r = (int)blockIdx.x * PR + i % PR;
        if (r < N_EMBD)
            a->y[(size_t)slot[i / PR] * N_EMBD + (size_t)r] =
                with_bias(m, expert, 0, r, panel_get(parts[i / PR], fmt, i % PR));
    }
}

IG_KERNEL(ig_down, DOWN_THREADS, 4)
{
    IG_SHARED int slot[ROWS], token_row[ROWS];
    ig_after_previous();
    const struct item it = take_item(&a, slot, token_row);
    if (it.rows == 0) return;
    DISPATCH(&a, FMT_DOWN, a.in ? a.dense_down.fmt : a.down.fmt, down_body, slot, &it)
}

/* x += the experts' outputs in rank order, then the dense block's. */
IG_KERNEL(ig_combine, ROW_THREADS, 4)
{
    ig_after_previous();
    const size_t row = blockIdx.x;
    const float *weight = a.weight + row * N_EXPERT_USED, *y = a.y + row * N_EXPERT_USED * N_EMBD;
    const float *aside = a.y + (ASIDE + row) * N_EMBD;
    const float scale = SHARED_GATE && a.shared_gate ? a.shared_scale[row] : 1.0f;
    for (int r = (int)threadIdx.x; r < N_EMBD; r += ROW_THREADS) {
        float sum = 0.0f;
        for (int k = 0; k < N_EXPERT_USED && a.routed; k++)
            sum = fmaf(weight[k], y[(size_t)k * N_EMBD + (size_t)r], sum);
        if (WITH_ASIDE && a.aside) sum = fmaf(scale, aside[r], sum);
        a.x[row * N_EMBD + (size_t)r] += sum * RESIDUAL_SCALE;
    }
}

#endif
