/* args.h -- what the host hands to every kernel of a step: one struct by value.
 *
 * All pointers are device pointers.  Shapes stand beside them; R is the batch's
 * rows, and sizes are the macros that the kernels are compiled with.
 */
#ifndef IG_CUDA_ARGS_H
#define IG_CUDA_ARGS_H

#include "../kernels.h"

/* Threads of a block.  One panel feeds 128; ig_gate_up takes gate and up of two panels, 32
 * hidden values; ig_down of a decode step up to 4 experts at once; ig_attn a warp a KV block. */
enum {
    IG_PANEL_THREADS = 128,
    IG_ROW_THREADS = 256,
    IG_GATE_UP_THREADS = 4 * IG_PANEL_THREADS,
    IG_TOPK_THREADS = 128,
    IG_GROUP_THREADS = 1024
};
#define IG_DOWN_RANKS(used) ((used) < 4 ? (used) : 4)

/* A packed matrix in device memory; inside an expert, `p` is that of expert 0. */
struct ig_dmat {
    const unsigned char *p;
    uint32_t stride; /* bytes from one panel to the next */
    int32_t fmt;
};

/* A batch as the host writes it into mapped memory and ig_embed copies it. */
struct ig_rows {
    int32_t *token, *pos, *seq; /* [R] */
    int32_t *want;              /* [n_want] rows whose logits are wanted */
};

struct ig_args {
    struct ig_rows host, row; /* mapped host memory; its copy in device memory */
    int32_t n, n_want;
    int32_t window;           /* of this layer; 0: none */
    int32_t in;               /* ig_norm, ig_quantize: which of their inputs */
    /* buffers, as in docs/ARCHITECTURE.md */
    float *x, *xn, *q, *k, *v, *ao, *rl, *h, *ln, *logits, *part, *y;
    struct ig_xq *xq, *aoq, *hq, *lnq;
    const float *rope;
    unsigned char *kv;        /* of this layer: [block][kv head]{K, V} */
    int32_t *expert;          /* [R][k] chosen experts, rank by rank */
    float *weight;            /* [R][k] their weights */
    int32_t *route;           /* n_item; items {expert, first, rows}; slots grouped by expert */
    uint32_t *arrived;        /* [R][heads of a block][slices], 0 between kernels */
    /* this layer */
    const float *mixer_norm, *ffn_norm;
    struct ig_dmat mq, mk, mv, mo, router, gate, up, down;
    uint64_t expert_stride;
    /* the ends of the model */
    struct ig_dmat embd, output;
    const float *output_norm;
};

#endif
