/* plan.h -- the types of the generated tables.
 *
 * out/<id>/tables.c fills them; templates/tables.c is their template.  All
 * sizes are bytes or element counts as named.  "Data offset" means an offset
 * into the weights data, which lies in the arena as it lies in the file.
 */
#ifndef IG_PLAN_H
#define IG_PLAN_H

#include <stdint.h>

/* A packed matrix: ceil(rows / 16) panels, kernels/panel.h. */
struct ig_mat {
    uint64_t off;    /* of panel 0: a data offset, or inside an expert slab (gate, up, down) */
    uint64_t bias;   /* the same of f32[rows], 0: none */
    uint32_t stride; /* bytes from one panel to the next */
    uint32_t rows, cols;
    uint8_t fmt; /* enum ig_fmt */
};

/* A layer is a token mixer and a feed-forward block; each kind has its own loop in the runtime.
 *   GQA    grouped-query attention            attn.c
 *   MLA    latent attention                   mla.c
 *   MOE    router, experts, and what a plan puts beside them   moe.c
 *   DENSE  one block for every row            moe.c
 * A model may have two stacks of layers: an encoder's, then a decoder's (encoder.c, cross.c). */
enum ig_mixer { IG_MIXER_GQA, IG_MIXER_MLA };
enum ig_ffn { IG_FFN_MOE, IG_FFN_DENSE };

/* Choices of a whole model, constants of config.h. */
enum ig_norm { IG_NORM_RMS, IG_NORM_LAYER };
enum ig_qk_norm { IG_QK_NORM_NONE, IG_QK_NORM_HEAD, IG_QK_NORM_FULL };
enum ig_act { IG_ACT_SWIGLU, IG_ACT_SWIGLU_OAI, IG_ACT_RELU /* has no up */ };
enum ig_router { IG_ROUTER_SOFTMAX, IG_ROUTER_SIGMOID, IG_ROUTER_SPARSEMIXER };

/* Vectors are data offsets of f32; 0 (where the embedding is) stands for none. */
struct ig_layer {
    uint8_t mixer, ffn;
    uint32_t window;               /* sliding attention window in positions, 0 = all */
    uint64_t mixer_norm, ffn_norm; /* [IG_N_EMBD] */
    uint64_t mixer_norm_bias, ffn_norm_bias;
    struct ig_mat q, k, v, o;
    uint64_t q_norm, k_norm;           /* [IG_HEAD_DIM], or [rows of q or k] */
    uint64_t sinks;                    /* [IG_N_HEAD] */
    struct ig_mat q_a, kv_a, k_b, v_b; /* latent attention */
    uint64_t q_a_norm, kv_a_norm;      /* [IG_Q_LORA], [IG_KV_LORA] */
    uint64_t rel_bias;   /* [IG_N_REL_BUCKET][IG_N_HEAD], of a stack's first layer for all of it */
    uint64_t cross_norm; /* [IG_N_EMBD] */
    struct ig_mat cross_q, cross_k, cross_v, cross_o; /* a decoder's attention to the encoder */
    struct ig_mat router;
    uint64_t route_bias; /* [IG_N_EXPERT] added to the scores that choose */
    struct ig_mat gate, up,
        down; /* offsets inside one expert's slab; gate and up panels alternate */
    struct ig_mat dense_gate, dense_up, dense_down; /* the dense block; gate and up alternate */
    uint64_t shared_gate;   /* [IG_N_EMBD]: sigmoid(shared_gate . x) scales the dense block */
    uint32_t n_expert;      /* 0 in a dense layer */
    uint64_t expert_off;    /* data offset of expert 0 */
    uint64_t expert_stride; /* from one expert to the next, a multiple of 4096 */
};

/* A role a checkpoint tensor can have; gen/families/ has names.  A matrix's bias follows it. Random
 * weights depend on the number: new roles go to the end. */
#define IG_ROLES(X)                                                                                \
    X(TOKEN_EMBD)                                                                                  \
    X(OUTPUT_NORM)                                                                                 \
    X(OUTPUT_NORM_BIAS) X(OUTPUT) X(OUTPUT_BIAS) X(ATTN_NORM) X(ATTN_NORM_BIAS) X(ATTN_Q)          \
        X(ATTN_Q_BIAS) X(ATTN_K) X(ATTN_K_BIAS) X(ATTN_V) X(ATTN_V_BIAS) X(ATTN_O) X(ATTN_O_BIAS)  \
            X(ATTN_Q_NORM) X(ATTN_K_NORM) X(ATTN_SINKS) X(ATTN_Q_A) X(ATTN_Q_A_NORM) X(ATTN_Q_B)   \
                X(ATTN_KV_A) X(ATTN_KV_A_NORM) X(ATTN_K_B) X(ATTN_V_B) X(FFN_NORM)                 \
                    X(FFN_NORM_BIAS) X(DENSE_GATE) X(DENSE_UP) X(DENSE_DOWN) X(ROUTER)             \
                        X(ROUTER_BIAS) X(ROUTE_BIAS) X(SHARED_SCALE) X(SHARED_GATE) X(SHARED_UP)   \
                            X(SHARED_DOWN) X(GATE) X(GATE_BIAS) X(UP) X(UP_BIAS) X(DOWN)           \
                                X(DOWN_BIAS) X(ENC_NORM) X(REL_BIAS) X(CROSS_NORM) X(CROSS_Q)      \
                                    X(CROSS_K) X(CROSS_V) X(CROSS_O)

enum ig_role {
#define X(name) IG_ROLE_##name,
    IG_ROLES(X)
#undef X
        IG_N_ROLE
};

enum ig_stack { IG_STACK_ANY, IG_STACK_ENC, IG_STACK_DEC };

/* One name of a role in checkpoints, and which part of that tensor the role is.  %L is
 * the layer in its stack, %E the expert; an expert role's name without %E is one tensor with all
 * experts.
 *
 * count 0: the tensor's rows as they are.  Else its rows come in groups of `group` (one
 * an expert, or several in one matrix), and the matrix has rows from, from + step, ... of
 * each, `count` of them.  cols not 0: the same of the group's columns, of which the tensor has
 * `cols`; the group's first rows are the matrix's columns.
 *
 * pair_period not 0: rows of each period from pair_from on are stored for interleaved
 * rotation, 2i beside 2i + 1; the matrix has i and i + half.  A vector is a matrix of one column.
 */
struct ig_name {
    const char *name;
    uint32_t group, from, count, step, cols;
    uint32_t pair_period, pair_from;
    uint8_t stack; /* enum ig_stack: of whose layers this is the name */
};

/* Alternatives are tried in order; the list ends with a NULL name or is full. */
enum { IG_N_NAME = 3 };
struct ig_source {
    struct ig_name hf[IG_N_NAME], gguf[IG_N_NAME];
};

/* Facts of the model and the keys that state them, the first that is there: a path in config.json
 * ("a.b" is b of the object a), a GGUF key.  Compared by pack, where the checkpoint states one. */
enum { IG_N_FACT_KEY = 4 };
struct ig_fact {
    const char *hf[IG_N_FACT_KEY], *gguf[2];
    const char *less; /* a GGUF key whose number is taken from the fact's */
    float value;
    uint8_t none; /* the model has no such fact: a checkpoint that states one is another's */
};

struct ig_word {
    const char *hf[IG_N_FACT_KEY], *gguf;
    const char *want[IG_N_FACT_KEY]; /* any of these */
    const char *absent; /* what is meant by none of the keys; NULL: nothing is compared */
};

/* A list of numbers: an array in config.json, a vector in GGUF. */
struct ig_list {
    const char *hf[IG_N_FACT_KEY], *gguf;
    const float *value;
    uint32_t n; /* 0: a checkpoint that has one is another model's */
};

/* A key that a checkpoint may leave out or state with one of these values, spelled as messages show
 * them: another is arithmetic that no plan of the family has.  No value: it must be absent. */
struct ig_only {
    const char *hf[1], *gguf;
    const char *want[IG_N_FACT_KEY];
};

/* A named part of the arena, for `plan`, `info` and the start-up message. */
struct ig_region {
    const char *name;
    uint64_t off, bytes;
};

#endif
