/* list.h -- which kernels a step and a batch have: X(name, threads, shared memory beyond its own).
 *
 * For the host's files that launch them and for the emulation; the sizes are names that the includer
 * has, where its X uses them.
 */
#ifndef IG_CUDA_LIST_H
#define IG_CUDA_LIST_H

#if IG_XC
#define IG_PLACE_KERNEL(X) X(place, IG_PLACE_THREADS, 0)
#else
#define IG_PLACE_KERNEL(X)
#endif

/* Of one row. */
#define IG_STEP_KERNELS(X) \
    IG_PLACE_KERNEL(X) \
    X(embed, IG_ROW_THREADS, 0) \
    X(qkv, IG_PANEL_THREADS, 0) \
    X(attn, ATTN_THREADS, ATTN_SHARED) \
    X(attn_out, IG_PANEL_THREADS, 0) \
    X(router, IG_PANEL_THREADS, 0) \
    X(gate_up, IG_GATE_UP_THREADS, 0) \
    X(down, DOWN_THREADS, 0) \
    X(norm, IG_ROW_THREADS, 0) \
    X(output, IG_PANEL_THREADS, 0)

#define IG_BATCH_KERNELS(X) \
    X(embed, IG_ROW_THREADS, 0) \
    X(norm, IG_ROW_THREADS, 0) \
    X(qkv, IG_PANEL_THREADS, 0) \
    X(store_kv, IG_PANEL_THREADS, 0) \
    X(attn, ATTN_THREADS, ATTN_SHARED) \
    X(quantize, IG_ROW_THREADS, 0) \
    X(attn_out, IG_PANEL_THREADS, 0) \
    X(router, IG_PANEL_THREADS, 0) \
    X(topk, IG_TOPK_THREADS, 0) \
    X(group, IG_GROUP_THREADS, 0) \
    X(gate_up, IG_GATE_UP_THREADS, 0) \
    X(down, IG_PANEL_THREADS, 0) \
    X(combine, IG_ROW_THREADS, 0) \
    X(output, IG_PANEL_THREADS, 0)

#endif
