/* shape.h -- the sizes that a build is compiled with, and what follows from them.
 *
 * From the command line (gen/plan_device.lua): N_EMBD N_HEAD N_HEAD_KV HEAD_DIM
 * N_FF N_EXPERT N_EXPERT_USED N_VOCAB N_ROW N_SEQ_BLOCK N_SPAN SPAN_BLOCKS KV_FMT
 * NORM_EPS ATTN_SCALE ATTN_HEADS ATTN_SLICE TILE_PAD ROPE_DIM N_FF_ASIDE N_LAYER; the model's
 * arithmetic, as in templates/config.h: EMBD_SCALE RESIDUAL_SCALE LOGIT_SCALE QKV_CLIP
 * ACT_LIMIT ROUTE_SCALE ROUTER_JITTER, and switches NORM_LAYER QK_NORM_HEAD QK_NORM_FULL
 * ACT_OAI ACT_RELU ROUTE_SIGMOID ROUTE_SPARSEMIXER ROUTE_NORM SHARED_GATE; for each matrix the set of its
 * formats as bits of enum ig_fmt: FMT_EMBD FMT_QKV FMT_O FMT_ROUTER FMT_GATE_UP
 * FMT_DOWN FMT_OUTPUT; of latent attention KV_LORA (0: none) Q_LORA NOPE_DIM V_DIM LATENT_EPS FMT_Q_B
 * FMT_K_B FMT_V_B; of an encoder-decoder N_LAYER_ENC (0: none), N_REL_BUCKET (0: none, positions turn) and N_CTX;
 * N_ROUTE_GROUP N_ROUTE_GROUP_USED ROUTE_GROUP_TOP; GEMM_FAST, 1 when BF16 matrices of a batch may have
 * sums of their own; N_WAY, slots of a layer's set in the expert cache, 0 when
 * everything is resident; N_UNIT, multiprocessors, 0: not known; and ROWS, activation rows that a block takes at once.
 *
 * ROWS 1 is the build for one row, a decode step: a block normalises and
 * quantises its input itself, which costs less than another kernel.  With more
 * rows these are kernels of their own, and experts get their rows in groups.
 */
#ifndef IG_SHAPE_H
#define IG_SHAPE_H

#include "args.h"

#define DIV_UP(a, b) (((a) + (b)-1) / (b))
#define UP_TO(a, b)  (DIV_UP(a, b) * (b))
#define LEAST(a, b)  ((a) < (b) ? (a) : (b))
#define KV_Q8 (KV_FMT == 3) /* IG_Q8_0 */
/* K and V are in the cache before ig_attn starts; else a decode step's blocks make the row's own. */
#define KV_STORED (ROWS > 1 || KV_Q8 || KV_LORA > 0 || N_LAYER_ENC > 0)
_Static_assert(IG_Q8_0 == 3, "KV_Q8");

enum {
    PR = IG_PANEL_ROWS,
    QB = IG_QBLOCK,
    KB = IG_KV_BLOCK,
    Q_DIM = N_HEAD * HEAD_DIM,
    KV_DIM = N_HEAD_KV * HEAD_DIM,
    GROUP = N_HEAD / N_HEAD_KV,
    FF_BLOCKS = DIV_UP(N_FF, 32), /* of 32 hidden values; the dense block's */
    ASIDE_BLOCKS = DIV_UP(N_FF_ASIDE, 32),
    ASIDE = N_ROW * N_EXPERT_USED, /* slots: row * k + rank; the dense block's, ASIDE + row */
    RANKED = N_EXPERT_USED > 0 ? N_EXPERT_USED : 1, /* slots of a row, to divide by */
    BIAS_STRIDE = 2 * N_CTX + KB, /* floats of a head: from the farthest key before a query to the farthest behind */
    O_DIM = KV_LORA ? N_HEAD * V_DIM : Q_DIM, /* what o reads */
    Q_STRIDE = UP_TO(Q_DIM, 16), /* floats from one row to the next */
    KV_STRIDE = UP_TO(KV_DIM, 16),
    /* of latent attention: the query's latent, its heads, the new key */
    QA_STRIDE = UP_TO(Q_LORA, 16),
    QH_STRIDE = UP_TO(N_HEAD * (NOPE_DIM + ROPE_DIM), 16),
    KVA_STRIDE = UP_TO(HEAD_DIM, 16),
    /* what ig_qkv makes: q, or the first of its two matrices; k, or the new key */
    IN_Q_STRIDE = !KV_LORA ? Q_STRIDE : Q_LORA ? QA_STRIDE : QH_STRIDE,
    IN_K_STRIDE = KV_LORA ? KVA_STRIDE : KV_STRIDE,
    /* 1: ig_attn leaves int8 blocks of what o reads */
    OUT_BLOCKS = !KV_LORA && ATTN_SLICE % QB == 0,
    RL_STRIDE = UP_TO(N_EXPERT, 16),
    LOGIT_STRIDE = UP_TO(N_VOCAB, 16),
    PANEL_THREADS = IG_PANEL_THREADS,
    QKV_PANELS = (IN_Q_STRIDE + IN_K_STRIDE * (KV_LORA ? 1 : 2)) / PR,
    QKV_EACH = ROWS == 1 ? IG_QKV_EACH(N_LAYER_ENC, QKV_PANELS, N_UNIT) : 1, /* panels of a block */
    QKV_THREADS = QKV_EACH * IG_PANEL_THREADS,
    ROW_THREADS = IG_ROW_THREADS,
    GATE_UP_THREADS = IG_GATE_UP_THREADS,
    TOPK_THREADS = IG_TOPK_THREADS,
    GROUP_THREADS = IG_GROUP_THREADS,
    CACHED = ROWS == 1 && N_WAY > 0 /* a batch finds its layer's experts in one place */
};

/* A set of formats: is there a block format, a float format, which is the only one (or -1)? */
#define ANY_BLOCK(set) ((set) >> IG_Q8_0 != 0)
#define ANY_FLOAT(set) (((set) & ((1 << IG_Q8_0) - 1)) != 0)
#define ONLY(set)                                                                              \
    (((set) & ((set)-1)) != 0 ? -1                                                             \
     : (set) < 1 << IG_Q5_K                                                                    \
         ? ((set) < 1 << IG_Q8_0 ? ((set) == 1 ? 0 : (set) == 2 ? 1 : 2)                       \
                                 : ((set) == 8 ? 3 : (set) == 16 ? 4 : (set) == 32 ? 5 : 6))   \
         : (set) < 1 << IG_IQ4_NL                                                              \
             ? ((set) == 128 ? 7 : (set) == 256 ? 8 : (set) == 512 ? 9 : (set) == 1024 ? 10 : 11) \
             : ((set) == 4096 ? 12 : (set) == 8192 ? 13 : (set) == 16384 ? 14 : 15))
/* The format `f` of a matrix whose formats are `set`: a constant when there is only one. */
#define FMT_OF(set, f) (ONLY(set) >= 0 ? ONLY(set) : (int)(f))
#define IS_BLOCK(f)    ((f) >= IG_Q8_0)

#endif
