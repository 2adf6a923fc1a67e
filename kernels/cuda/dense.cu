/* dense.cu -- a decode step's feed-forward block where every layer is dense: gate and up, then down. */
#include "args.h"
#include "gemv.h"

#if ROWS == 1 && N_EXPERT == 0

/* 32 hidden values a block. */
IG_KERNEL(ig_gate_up, GATE_UP_THREADS, 2)
{
    IG_SHARED struct ig_xq qs[ANY_BLOCK(FMT_GATE_UP) ? N_EMBD / QB : 1];
    const struct hidden k = { &a.dense_gate, &a.dense_up, 0, a.aside, (int)blockIdx.x, 0, ASIDE, 0, 0, 0 };
    ig_after_previous();
    if (ANY_BLOCK(FMT_GATE_UP)) stage_blocks(qs, a.xq, N_EMBD / QB, GATE_UP_THREADS);
    __syncthreads();
    DISPATCH(&a, FMT_GATE_UP, a.dense_gate.fmt, gate_up_body, k, NULL, NULL, 1, qs, a.xn)
}

/* A panel: its weights are asked for before the hidden values are there. */
IG_FN void dense_down_body(const struct ig_args *a, int fmt, int p)
{
    IG_SHARED panel_parts parts[1];
    const struct panel panel = { a->dense_down.p + (size_t)p * a->dense_down.stride, fmt,
                                 a->aside, -1, panel_unroll(fmt, N_FF_ASIDE, FLIGHT_DOWN) };
    const void *x = IS_BLOCK(fmt) ? (const void *)a->hq : (const void *)a->h;
    const int t = (int)threadIdx.x, r = p * PR + t;
    struct bunch b;
    float acc[1][2];
    panel_load(&b, &panel, 0);
    ig_after_previous();
    panel_sum(acc, &b, &panel, &x, 1);
    panel_put(parts, acc, &panel, 1);
    __syncthreads();
    if (t < PR && r < N_EMBD) a->x[r] += fmaf(1.0f, panel_get(parts[0], fmt, t), 0.0f) * RESIDUAL_SCALE;
}

/* x += down, a sum of one part as any layer's. */
IG_KERNEL(ig_down, DOWN_THREADS, 4) { DISPATCH(&a, FMT_DOWN, a.dense_down.fmt, dense_down_body, (int)blockIdx.x) }

#endif
