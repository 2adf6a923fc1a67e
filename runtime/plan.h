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
    uint32_t stride; /* bytes from one panel to the next */
    uint32_t rows, cols;
    uint8_t fmt;     /* enum ig_fmt */
};

/* A layer is a token mixer and a feed-forward block; each kind has its own loop in the runtime. */
enum ig_mixer { IG_MIXER_GQA };
enum ig_ffn { IG_FFN_MOE };

struct ig_layer {
    uint8_t mixer, ffn;
    uint32_t window;               /* sliding attention window in positions, 0 = all */
    uint64_t mixer_norm, ffn_norm; /* data offsets of f32[IG_N_EMBD] */
    struct ig_mat q, k, v, o, router;
    struct ig_mat gate, up, down;  /* offsets inside one expert's slab; gate and up panels alternate */
    uint64_t expert_off;           /* data offset of expert 0 */
    uint64_t expert_stride;        /* from one expert to the next, a multiple of 4096 */
};

/* A role a checkpoint tensor can have; templates/tables.c has its names. */
#define IG_ROLES(X) \
    X(TOKEN_EMBD) X(OUTPUT_NORM) X(OUTPUT) \
    X(ATTN_NORM) X(ATTN_Q) X(ATTN_K) X(ATTN_V) X(ATTN_O) \
    X(FFN_NORM) X(ROUTER) X(GATE) X(UP) X(DOWN)

enum ig_role {
#define X(name) IG_ROLE_##name,
    IG_ROLES(X)
#undef X
    IG_N_ROLE
};

/* Names of a role in checkpoints.  %L is the layer, %E the expert; a GGUF name
 * of an expert role without %E is a 3-D tensor whose outermost axis is experts.
 * NULL-terminated alternatives, tried in order. */
struct ig_source {
    const char *hf[3];
    const char *gguf[3];
    uint8_t rope_pairs; /* GGUF stores these rows permuted for interleaved RoPE: undo it */
};

/* A named part of the arena, for `plan`, `info` and the start-up message. */
struct ig_region {
    const char *name;
    uint64_t off, bytes;
};

#endif
