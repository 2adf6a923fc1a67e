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
    IG_GROUP_THREADS = 1024,
    /* Kernels on the matrix units: activation rows and panels of a block (gate and up count apart). */
    IG_GEMM_THREADS = 256,
    IG_GEMM_TOKENS = 64,
    IG_GEMM_PANELS = 8,
    IG_GEMM_BYTES = 2 * IG_GEMM_TOKENS * 8 * 40 + 2 * IG_GEMM_TOKENS * IG_GEMM_PANELS * 16 * 4, /* of shared memory */
    IG_ROUTER_THREADS = 128, /* a router of floats */
    IG_ROUTER_TOKENS = 32,
    IG_ROUTER_PANELS = 4,
    IG_TILE_THREADS = 256, /* attention of a tile of */
    IG_TILE_ROWS = 64      /* rows of a batch */
};
/* Is there a tile for such heads (`no`: of latent attention, or with a cache in Q8_0); bytes of shared
 * memory for it: q, its rows `pad` apart from the next ones' banks; K or probabilities; V. */
#define IG_TILED(head_dim, no) (!(no) && (head_dim) % 16 == 0 && (head_dim) <= 128)
#define IG_TILE_BYTES(head_dim, pad) \
    (((head_dim) * (128 + (pad)) + ((head_dim) > 68 ? (head_dim) * 64 : 64 * 68)) * 4)
/* Pieces of an expert's down matrix, four panels each, that blocks of ig_gate_up fill. */
#define IG_FILL_PIECES(n_embd) (((n_embd) + 63) / 64)
/* Panels of a block of ig_qkv in a decode step: more threads have less of a row each to make int8 blocks of (beside
 * an encoder a launch may be of q's panels alone). */
#define IG_QKV_EACH(n_layer_enc) ((n_layer_enc) > 0 ? 1 : 2)
/* Blocks of ig_router that leave the normed row in a decode step, a value a thread. */
#define IG_ROUTER_LEAVES(n_embd) (((n_embd) + IG_PANEL_THREADS - 1) / IG_PANEL_THREADS)
/* 1: ig_gate_up has more items of the chosen experts than blocks can be there at once on most devices. */
#define IG_MANY_ITEMS(items) ((items) > 256)
#define IG_DOWN_RANKS(used) ((used) < 4 ? (used) : 4)

/* A packed matrix in device memory; inside an expert, `p` is that of expert 0. */
struct ig_dmat {
    const unsigned char *p;
    const float *bias; /* NULL: none */
    uint32_t stride; /* bytes from one panel to the next */
    int32_t fmt;
};

/* A batch as the host writes it into mapped memory and ig_embed copies it. */
struct ig_rows {
    int32_t *token, *pos, *seq; /* [R] */
    int32_t *turn;              /* [R] row of the rotary tables */
    int32_t *want;              /* [n_want] rows whose logits are wanted */
};

/* What is counted of a layer: experts; steps with misses; how long the experts' first half took in those
 * steps and in the others, in units of 32 ns; when it began, in ns. */
enum ig_dcount {
    IG_N_HIT, IG_N_LINK, IG_N_CPU, IG_N_LATE, IG_T_LATE, IG_T_HIT, IG_T_BEGAN,
    /* fills behind the work: begun; whose expert was used from its slot; that was given up unused */
    IG_N_BEHIND, IG_N_BEHIND_USED, IG_N_BEHIND_LOST,
    IG_N_AHEAD, IG_N_AHEAD_USED, IG_N_AHEAD_LOST, /* the same of prefetches */
    IG_N_WAITED, /* experts that were on their way and waited for */
    IG_N_DCOUNT
};

/* Words of struct ig_ask's split, behind the k + 1 numbers. */
enum {
    IG_SPLIT_PAGES = 1, IG_SPLIT_BEHIND, IG_SPLIT_AHEAD, IG_SPLIT_WARM, IG_SPLIT_WAIT, IG_SPLIT_EACH,
    IG_SPLIT_FADE, IG_SPLIT_MORE
};

#define IG_FADE_ONE 16777216.0f /* in IG_SPLIT_FADE: a use counts as much in the next step */

/* Numbers of fills count apart: those of what the CPU computed, and prefetches. */
enum { IG_BEHIND, IG_AHEAD, IG_N_FILL };
/* 1: next's layer is another than ahead's and has a guess of its own. */
#define IG_GUESSES_NEXT(xc) ((xc).next.layer >= 0 && (xc).next.layer != (xc).ahead.layer)
/* Prefetches that a layer may ask for. */
enum { IG_AHEAD_EACH = 2 };
/* Fills that may be under way, beside prefetch, for one behind the work that nothing else would bring. */
enum { IG_BEHIND_LEAST = 2 };

/* A guess: a layer further on, whose router on this layer's residual stream says what it will want. */
struct ig_dahead {
    int32_t layer;                       /* -1: none */
    int32_t *way, *fill, *victim;        /* of that layer, as in struct ig_dcache */
    uint32_t *count;
    int32_t ways;
    uint64_t before;
    struct ig_dmat router;
    const float *norm, *norm_bias, *route_bias;
    float *rl;                           /* [experts] its logits */
    const int32_t *recorded;             /* [k] what was recorded in place of them, -1: none */
    /* mapped host memory, told words (ig_tell_host): n, experts, ways to fill, number of the first fill; n, experts
     * that the CPU may have to compute; nothing is told where n is 0 */
    uint64_t *asked, *warm;
};

/* The expert cache (gen/plan_cache.lua): one set a layer; all zero when everything is resident. */
struct ig_dcache {
    /* of this layer, two copies that steps use in turn: [experts] way of an expert (enum in place.h), -1:
     * none; [experts] number of the fill that brings it; [experts] decayed count of uses; [2k] ways to give
     * up, the least used first (-1: of an empty set), then how many are being filled */
    int32_t *way, *fill;
    float *use;
    int32_t *victim;
    int32_t *seen;                       /* of this layer: fills that had arrived, and begun, before its router */
    int32_t *arrived, *begun;            /* [IG_N_FILL] number of the last fill that has, and that was asked for */
    int32_t alone;                       /* 1: no other layer prefetches for this one */
    struct ig_dahead ahead;              /* what is prefetched */
    struct ig_dahead next;               /* what the CPU brings into its caches; ahead's layer: the same guess */
    uint64_t set;                        /* bytes from slot 0 to this layer's first way */
    uint32_t *count;                     /* of this layer: enum ig_dcount */
    uint32_t *step;                      /* steps so far, this one included */
    int32_t *split;                      /* [k + IG_SPLIT_MORE] of struct ig_ask */
    int32_t ways;                        /* in use */
    uint64_t slot_bytes;
    const unsigned char *slots;          /* slot 0; a layer's ways, then the next's */
    const unsigned char *host;           /* this layer's experts, in mapped host memory */
    uint64_t before;                     /* bytes of experts before them; a layer without a set: no end */
    uint32_t link_ns;                    /* of an expert over a slowed link; 0: as fast as it is */
    int32_t *recorded;                   /* [2][layers][k] of all layers' guesses, ahead's and next's */
    /* mapped host memory: the same; what the CPU is asked for and what it answers */
    const int32_t *host_recorded;
    const int32_t *host_split;
    uint64_t *asked; /* of this layer, told words: n, ranks[k], experts[k], ways[k] to fill (-1: none), number of
                      * the last prefetch that a layer before it asked for */
    uint64_t *asked_xq, *asked_xn; /* the same of what they read */
    const float *answer;                 /* [k][N_EMBD], rank by rank */
    uint32_t *posted;                    /* step x layers + the last layer that asked + 1 */
    int32_t last;                        /* 1: no later layer has experts; it asks even when nothing is missing */
    const uint32_t *done;                /* of this layer: the same, when the answer is there */
};

/* A kernel's arguments come from memory in lines of 64 bytes, each when it is first touched: what a decode step's
 * kernels read lies together, theirs first. */
struct ig_args {
    /* buffers, as in docs/ARCHITECTURE.md; what belongs to this layer */
    float *x, *rl;
    struct ig_xq *xq, *hq;
    int32_t *force; /* recorded choices: 1, or 0 when the routers choose */
    uint64_t expert_stride;
    int32_t routed; /* 1: this layer has experts; 0: a dense block alone */
    int32_t aside;  /* width of this layer's dense block; 0: it has none */
    struct ig_dmat down, gate;
    struct ig_xq *aoq;
    struct ig_dmat up, mo;
    const float *ffn_norm, *mixer_norm;
    struct ig_dmat router;
    float *q, *k, *v, *xn, *h;
    struct ig_dmat mq, mk;
    unsigned char *kv; /* of this layer: [block][kv head]{K, V} */
    const float *rope;
    struct ig_dmat mv;
    struct ig_rows row; /* of the batch, in device memory */
    const float *q_norm, *k_norm, *sinks, *route_bias, *shared_gate; /* NULL: none */
    float *part, *ao;
    uint32_t *arrived; /* [R][heads of a block][slices], 0 between kernels */
    int32_t window;    /* of this layer; 0: none */
    int32_t whole;     /* positions that every row sees; 0: those up to its own; -1: *input */
    int32_t layer;
    int32_t n, n_want;
    int32_t kv_alone; /* 1: of q, k and v, k and v alone */
    int32_t group;    /* rows of an item of the route */
    int32_t in;       /* which of their inputs: ig_norm; ig_gate_up, ig_down of a batch */
    int32_t routers;  /* with a cache: ig_router's blocks for this layer's router; those behind are for ahead's, then next's */
    int32_t *expert;  /* [R][k] chosen experts, rank by rank */
    float *weight;    /* [R][k] their weights */
    const float *mixer_norm_bias, *ffn_norm_bias;
    struct ig_dcache xc;
    struct ig_rows host; /* row in mapped host memory */
    float *ln, *logits, *y;
    struct ig_xq *lnq;
    /* of latent attention, where q is the query's latent (or its heads) and k latent and key: heads' queries,
     * queries in the latent space, results there; the query's latent as int8 blocks */
    float *qh, *ql, *al;
    struct ig_xq *qaq;
    const float *q_a_norm, *kv_a_norm;
    struct ig_dmat mq_b, mk_b, mv_b;
    int32_t *input;        /* positions of the encoder's output */
    const float *rel_bias; /* [heads][BIAS_STRIDE] for a key at the query's position; NULL: none */
    int32_t *route;        /* n_item; items {expert, first, rows}; slots grouped by expert */
    float *shared_scale;   /* [R] what a dense block beside experts counts */
    /* recorded choices: experts [R][layers][k]; their weights; in mapped host memory */
    int32_t *force_expert;
    float *force_weight;
    const int32_t *host_force, *host_expert;
    const float *host_weight;
    struct ig_dmat dense_gate, dense_up, dense_down;
    /* the ends of the model */
    struct ig_dmat embd, output;
    const float *output_norm, *output_norm_bias;
};

#endif
