/* list.h -- which kernels a step and a batch have: X(name, threads, shared memory beyond its own).
 *
 * For the host's files that launch them and for the emulation; the sizes are names that the includer
 * has, where its X uses them.
 */
#ifndef IG_CUDA_LIST_H
#define IG_CUDA_LIST_H

#if IG_KV_LORA && IG_Q_LORA
#define IG_LATENT_Q_KERNEL(X) X(latent_q, IG_PANEL_THREADS, 0)
#define IG_GEMM_LATENT_Q_KERNEL(X) X(gemm_latent_q, IG_GEMM_THREADS, IG_GEMM_BYTES)
#else
#define IG_LATENT_Q_KERNEL(X)
#define IG_GEMM_LATENT_Q_KERNEL(X)
#endif
#if IG_TILES
#define IG_TILE_KERNEL(X) X(tile, IG_TILE_THREADS, IG_TILE_BYTES(IG_HEAD_DIM, IG_TILE_PAD))
#else
#define IG_TILE_KERNEL(X)
#endif
/* 1: a decode step, too, puts K and V into the cache before anyone reads them. */
#define IG_STEP_STORES (!IG_KV_LORA && (IG_KV_Q8 || IG_N_LAYER_ENC))
/* Of gemm=fast. */
#if IG_GEMM_FAST && IG_KV_LORA && IG_Q_LORA
#define IG_FAST_LATENT_Q_KERNEL(X) X(fast_latent_q, IG_FAST_THREADS, IG_FAST_BYTES)
#else
#define IG_FAST_LATENT_Q_KERNEL(X)
#endif
#if IG_GEMM_FAST && IG_FLASHES
#define IG_FLASH_KERNEL(X) X(flash, IG_FLASH_THREADS, IG_FLASH_BYTES(IG_HEAD_DIM))
#else
#define IG_FLASH_KERNEL(X)
#endif
#if IG_GEMM_FAST
#define IG_FAST_KERNELS(X) \
    IG_FLASH_KERNEL(X) \
    IG_FAST_LATENT_Q_KERNEL(X) \
    X(fast_qkv, IG_FAST_THREADS, IG_FAST_BYTES) \
    X(fast_out, IG_FAST_THREADS, IG_FAST_BYTES) \
    X(fast_gate_up, IG_FAST_THREADS, IG_FAST_BYTES) \
    X(fast_down, IG_FAST_THREADS, IG_FAST_BYTES) \
    X(fast_round, IG_ROW_THREADS, 0)
#else
#define IG_FAST_KERNELS(X)
#endif
/* Where a layer has experts. */
#if IG_ROUTED
#define IG_ROUTE_KERNELS(X) \
    X(gemm_router, IG_ROUTER_THREADS, 0) \
    X(router, IG_PANEL_THREADS, 0) \
    X(topk, IG_TOPK_THREADS, 0) \
    X(group, IG_GROUP_THREADS, 0)
#else
#define IG_ROUTE_KERNELS(X)
#endif
/* What a row's attention has beside ig_attn: of latent attention; where K and V are stored before it. */
#if IG_KV_LORA
#define IG_LATENT_KERNELS(X) \
    X(latent, IG_PANEL_THREADS, 0) \
    IG_LATENT_Q_KERNEL(X) \
    X(absorb, IG_PANEL_THREADS, 0) \
    X(values, IG_PANEL_THREADS, 0)
#define IG_STORE_KERNEL(X)
#else
#define IG_LATENT_KERNELS(X)
#define IG_STORE_KERNEL(X) X(store_kv, IG_PANEL_THREADS, 0)
#endif
#if IG_STEP_STORES
#define IG_STEP_STORE_KERNEL(X) IG_STORE_KERNEL(X)
#else
#define IG_STEP_STORE_KERNEL(X)
#endif

/* Of one row. */
#define IG_STEP_KERNELS(X) \
    X(embed, IG_ROW_THREADS, 0) \
    X(qkv, QKV_THREADS, 0) \
    IG_STEP_STORE_KERNEL(X) \
    IG_LATENT_KERNELS(X) \
    X(attn, ATTN_THREADS, ATTN_SHARED) \
    X(attn_out, IG_PANEL_THREADS, 0) \
    X(router, IG_PANEL_THREADS, 0) \
    X(gate_up, IG_GATE_UP_THREADS, 0) \
    X(down, DOWN_THREADS, 0) \
    X(norm, IG_ROW_THREADS, 0) \
    X(output, IG_PANEL_THREADS, 0)

#define IG_BATCH_KERNELS(X) \
    IG_TILE_KERNEL(X) \
    IG_FAST_KERNELS(X) \
    X(gemm_qkv, IG_GEMM_THREADS, IG_GEMM_BYTES) \
    IG_GEMM_LATENT_Q_KERNEL(X) \
    X(gemm_out, IG_GEMM_THREADS, IG_GEMM_BYTES) \
    X(gemm_gate_up, IG_GEMM_THREADS, IG_GEMM_BYTES) \
    X(gemm_down, IG_GEMM_THREADS, IG_GEMM_BYTES) \
    IG_ROUTE_KERNELS(X) \
    X(embed, IG_ROW_THREADS, 0) \
    X(norm, IG_ROW_THREADS, 0) \
    X(qkv, IG_PANEL_THREADS, 0) \
    IG_STORE_KERNEL(X) \
    IG_LATENT_KERNELS(X) \
    X(attn, ATTN_THREADS, ATTN_SHARED) \
    X(quantize, IG_ROW_THREADS, 0) \
    X(attn_out, IG_PANEL_THREADS, 0) \
    X(gate_up, IG_GATE_UP_THREADS, 0) \
    X(down, IG_PANEL_THREADS, 0) \
    X(combine, IG_ROW_THREADS, 0) \
    X(output, IG_PANEL_THREADS, 0)

#endif
