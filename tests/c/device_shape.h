/* A small model's sizes, for tests that include kernels/cuda/ by hand: what kernels/cuda/shape.h wants. */
#ifndef DEVICE_SHAPE_H
#define DEVICE_SHAPE_H

#define ROWS               8
#define N_EMBD             128
#define N_HEAD             4
#define N_HEAD_KV          2
#define HEAD_DIM           32
#define N_FF               96
#define N_EXPERT           4
#define N_EXPERT_USED      2
#define N_VOCAB            64
#define N_ROW              64
#define N_WAY              0
#define N_UNIT             0
#define N_SEQ_BLOCK        4
#define N_SPAN             1
#define SPAN_BLOCKS        16
#define KV_FMT             1
#define TILE_PAD           4
#define ATTN_HEADS         1
#define ATTN_SLICE         32
#define N_LAYER            2
#define ROPE_DIM           32
#define N_FF_ASIDE         0
#define FMT_EMBD           4
#define FMT_QKV            4
#define FMT_O              4
#define FMT_ROUTER         4
#define FMT_GATE_UP        4
#define FMT_DOWN           4
#define FMT_OUTPUT         4
#define GEMM_FAST          1
#define KV_LORA            0
#define Q_LORA             0
#define NOPE_DIM           0
#define V_DIM              0
#define FMT_Q_B            0
#define FMT_K_B            0
#define FMT_V_B            0
#define N_ROUTE_GROUP      1
#define N_ROUTE_GROUP_USED 1
#define ROUTE_GROUP_TOP    2
#define NORM_LAYER         0
#define QK_NORM_HEAD       0
#define QK_NORM_FULL       0
#define ACT_OAI            0
#define ACT_RELU           0
#define N_LAYER_ENC        0
#define N_REL_BUCKET       0
#define N_CTX              256
#define ROUTE_SIGMOID      0
#define ROUTE_SPARSEMIXER  0
#define ROUTE_NORM         1
#define SHARED_GATE        0
#define NORM_EPS           1e-6f
#define EMBD_SCALE         1.0f
#define RESIDUAL_SCALE     1.0f
#define LOGIT_SCALE        1.0f
#define QKV_CLIP           0.0f
#define ACT_LIMIT          0.0f
#define ROUTE_SCALE        1.0f
#define ROUTER_JITTER      0.0f
#define LATENT_EPS         1e-6f
#define ATTN_SCALE         0.1767767f

#endif
