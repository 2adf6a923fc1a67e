/* state.h -- the engine's one struct and its buffers; private to the forward pass.
 *
 * Every buffer is a place in the arena that the plan fixed.  Shapes stand beside
 * the accessors.  Phases of forward.c write them, the next phase reads them
 * after a barrier; nothing else synchronises them.
 */
#ifndef IG_STATE_H
#define IG_STATE_H

#include "config.h"
#include "tables.h"
#include "engine.h"
#include "team.h"
#include "tier.h"
#include "miss.h"
#include "kernels.h"
#include "panel.h"
#include "sample.h"

enum {
    IG_Q_DIM = IG_N_HEAD * IG_HEAD_DIM,
    IG_KV_DIM = IG_N_HEAD_KV * IG_HEAD_DIM,
    IG_O_DIM = IG_N_HEAD * IG_V_DIM, /* attention's result, the input of o */
    IG_FF_PAD = (IG_N_FF + 31) / 32 * 32,
    IG_ASIDE_PAD = (IG_N_FF_ASIDE + 31) / 32 * 32,
    IG_DENSE = IG_N_EXPERT, /* stands for the dense block among experts */
    IG_N_SLOT = IG_N_ROW * (IG_N_EXPERT_USED + (IG_N_FF_ASIDE > 0)), /* rows of expert work */
    IG_Q_STRIDE = (IG_Q_DIM + 15) / 16 * 16, /* floats from one row to the next */
    IG_KV_STRIDE = (IG_KV_DIM + 15) / 16 * 16,
    IG_RL_STRIDE = (IG_N_EXPERT + 15) / 16 * 16,
    IG_LOGIT_STRIDE = (IG_N_VOCAB + 15) / 16 * 16,
    IG_MAX_DOWNGRADE = 8
};

/* The buffers hold what the phases put into them: the plan's sums, done once more. */
#define IG_HOLDS(NAME, n, type) \
    _Static_assert(IG_MEM_##NAME##_BYTES == (uint64_t)(n) * sizeof(type), #NAME)
IG_HOLDS(X, IG_N_ROW * IG_N_EMBD, float);
IG_HOLDS(XN, IG_N_ROW * IG_N_EMBD, float);
IG_HOLDS(Q, IG_N_ROW * IG_Q_STRIDE, float);
IG_HOLDS(K, IG_N_ROW * IG_KV_STRIDE, float);
IG_HOLDS(V, IG_N_ROW * IG_KV_STRIDE, float);
IG_HOLDS(RL, IG_N_ROW * IG_RL_STRIDE, float);
IG_HOLDS(TOPK, IG_N_ROW * IG_N_EXPERT_USED, int32_t[2]);
IG_HOLDS(LN, IG_N_LOGIT_ROW * IG_N_EMBD, float);
IG_HOLDS(LOGITS, (uint64_t)IG_N_LOGIT_ROW * IG_LOGIT_STRIDE, float);
IG_HOLDS(SAMPLE, IG_N_VOCAB, struct ig_candidate);
#undef IG_HOLDS
_Static_assert(IG_MEM_XQ_BYTES == 0 ||
                   IG_MEM_XQ_BYTES == (uint64_t)IG_N_ROW * (IG_N_EMBD / 32) * sizeof(struct ig_xq),
               "XQ");
_Static_assert(IG_OWN_BYTES >=
                       IG_N_EMBD * sizeof(float) + (IG_N_EMBD + 31) / 32 * sizeof(struct ig_xq) &&
                   IG_OWN_BYTES % 64 == 0,
               "a row of a thread's own");
_Static_assert(IG_OWN_BYTES +
                       (uint64_t)IG_N_SLOT * (2 * IG_PANEL_ROWS * sizeof(float) + sizeof(void *)) +
                       2 * IG_GROUP * (IG_HEAD_DIM + 2) * sizeof(float) + IG_SPARE_BYTES <=
                   IG_THREAD_BYTES,
               "a thread's scratch holds struct ig_worker's arrays");

struct ig_engine {
    unsigned char *mem;       /* the arena, IG_MEM_BYTES; NULL while a device does all the work */
    struct ig_device *device; /* NULL: the CPU */
    uint64_t vram;            /* bytes of its memory that are taken */
    unsigned char *mapped;    /* IG_UNIFIED: the weights, which CPU and device both read */
    struct ig_team team;
    struct ig_wfile file;
    int n_ctx;
    int rope; /* which rotary table */
    struct ig_tap tap;
    char loaded[160]; /* how the weights came into memory, in words */
    int n_downgrade;
    char downgrade[IG_MAX_DOWNGRADE][160];

    /* One batch; written by thread 0 before the phases that read them. */
    const struct ig_batch *batch;
    float *x;  /* [batch->n][IG_N_EMBD], the residual stream */
    int n_enc; /* positions of the encoder's output */
    int n_want;
    int32_t want_row[IG_N_LOGIT_ROW];
    int n_active;                               /* experts that some row of the batch chose */
    int32_t active[IG_N_EXPERT + 1];            /* their ids, then perhaps IG_DENSE */
    const unsigned char *slab[IG_N_EXPERT + 1]; /* of active experts: where their weights are now */

    struct ig_tier tier;
#if IG_XC
    struct ig_miss miss;
#endif
    const int32_t *force_expert; /* ig_set_choices */
    const float *force_weight;
    const int32_t *force_predicted;

    uint32_t kv_table[IG_N_SEQ][IG_N_KV_BLOCK / IG_N_SEQ]; /* position / 64 -> KV block */
};

/* One thread's share of a batch. */
struct ig_worker {
    struct ig_engine *e;
    int tid;
    int warmed;                 /* layers whose guesses it has seen in this step (miss_hear.c) */
    const void **ptr;           /* [IG_N_SLOT] activation rows of one kernel call */
    float (*ya)[IG_PANEL_ROWS]; /* [IG_N_SLOT] results of one kernel call */
    float (*yb)[IG_PANEL_ROWS]; /* the same */
    float *attn;                /* 2 x [IG_GROUP][IG_HEAD_DIM + 2] */
    float *spare;               /* IG_SPARE_BYTES */

    /* A batch of one row: what is little work and the same for all, each thread does by itself,
     * since handing it over costs a barrier.  Thread 0 has its copy where batches have theirs. */
    float *xn;                          /* [IG_N_EMBD] the normed row */
    struct ig_xq *xnq;                  /* the same as int8 blocks */
    int32_t id[IG_N_EXPERT_USED + 1];   /* its experts by rank, then perhaps IG_DENSE */
    float weight[IG_N_EXPERT_USED + 1]; /* what their outputs count */
    const unsigned char *place[IG_N_EXPERT_USED + 1];

    /* The layer's active experts: the engine's, or of one row its own. */
    int n_active;
    const int32_t *active;
    const unsigned char *const *slab;
};

#define IG_BUF(e, NAME, type) ((type *)(void *)((e)->mem + IG_MEM_##NAME##_OFF))

static inline const unsigned char *ig_data(const struct ig_engine *e, uint64_t off)
{
    return e->mem + IG_MEM_DATA_OFF + off;
}
/* Where an expert is that is always at its place. */
static inline const unsigned char *ig_expert(const struct ig_engine *e, uint64_t off)
{
#if !IG_MEM_SLOTS_BYTES
    if (IG_TIER == IG_TIER_MMAP) return e->tier.map + off;
#endif
    return ig_data(e, off);
}
/* Active expert a is about to be read. */
static inline void ig_tier_need(struct ig_engine *e, int a)
{
#if IG_MEM_SLOTS_BYTES
    if (e->active[a] == IG_DENSE) return;
    if (!ig_move_usable(&e->tier.move[e->tier.slot[a]])) ig_tier_wait(e, a);
#else
    (void)e, (void)a;
#endif
}
/* Between phases: what may be read next is started, so that the disk does not wait for a layer. */
static inline void ig_tier_turn(struct ig_worker *w)
{
#if IG_MEM_SLOTS_BYTES
    if (w->tid == 0) ig_mover_turn(&w->e->tier.mover);
#else
    (void)w;
#endif
}
static inline const float *ig_vec(const struct ig_engine *e, uint64_t off)
{
    return (const float *)(const void *)ig_data(e, off);
}
/* cos, sin pairs of a position. */
static inline const float *ig_rope(const struct ig_engine *e, int pos)
{
    return IG_BUF(e, ROPE, float) + ((size_t)e->rope * IG_N_CTX + (size_t)pos) * IG_ROPE_DIM;
}
enum { IG_BIAS_STRIDE = 2 * IG_N_CTX + IG_KV_BLOCK }; /* floats from one head to the next */
/* Relative bias of a stack (0: the encoder), for a key at the query's position; head 0: in what
 * ig_fill_bias filled, in the arena. */
static inline const float *ig_rel_bias_in(const float *bias, int stack)
{
    return bias + (size_t)stack * IG_N_HEAD * IG_BIAS_STRIDE + IG_N_CTX;
}
static inline const float *ig_rel_bias(const struct ig_engine *e, int stack)
{
#if IG_N_REL_BUCKET
    return ig_rel_bias_in(IG_BUF(e, BIAS, float), stack);
#else
    (void)e, (void)stack;
    return NULL;
#endif
}
/* The model's norm over the residual stream; vectors as in struct ig_layer. */
static inline void ig_norm(const struct ig_engine *e, float *y, const float *x, uint64_t weight,
                           uint64_t bias)
{
    if (IG_NORM == IG_NORM_LAYER)
        ig_kern.layernorm(y, x, ig_vec(e, weight), bias ? ig_vec(e, bias) : NULL, IG_N_EMBD,
                          IG_NORM_EPS);
    else
        ig_kern.rmsnorm(y, x, ig_vec(e, weight), IG_N_EMBD, IG_NORM_EPS);
}
static inline int ig_is_block(int fmt) { return fmt >= IG_Q8_0; }

static inline float *ig_x(struct ig_engine *e, int row) { return e->x + (size_t)row * IG_N_EMBD; }
static inline float *ig_xn(struct ig_engine *e, int row)
{
    return IG_BUF(e, XN, float) + (size_t)row * IG_N_EMBD;
}
static inline struct ig_xq *ig_xnq(struct ig_engine *e, int row)
{
    return IG_BUF(e, XQ, struct ig_xq) + (size_t)row * (IG_N_EMBD / IG_QBLOCK);
}
/* The normed row as a matrix of format `fmt` reads it. */
static inline const void *ig_act(const struct ig_worker *w, int row, int fmt)
{
    if (w->e->batch->n == 1) return ig_is_block(fmt) ? (const void *)w->xnq : (const void *)w->xn;
    return ig_is_block(fmt) ? (const void *)ig_xnq(w->e, row) : (const void *)ig_xn(w->e, row);
}
/* Where the KV cache holds a layer: its place among those that have one.  The encoder's layers run
 * one after the other and share the first place; what decoders see of the encoder follows. */
static inline int ig_kv_self(int layer)
{
    return layer < IG_N_LAYER_ENC ? 0 : layer - IG_N_LAYER_ENC + (IG_N_LAYER_ENC > 0);
}
static inline int ig_kv_cross(int layer) { return IG_N_LAYER - IG_N_LAYER_ENC + ig_kv_self(layer); }
/* K of a block (kernels.h); its V follows at once, IG_KV_PART_BYTES further. */
static inline unsigned char *ig_kv(struct ig_engine *e, int place, int seq, int blk, int head)
{
    const size_t block = ((size_t)place * IG_N_KV_BLOCK + e->kv_table[seq][blk]) * IG_N_HEAD_KV;
    return e->mem + IG_MEM_KV_OFF + (block + (size_t)head) * 2 * IG_KV_PART_BYTES;
}
static inline int32_t *ig_topk_id(struct ig_engine *e, int row)
{
    return IG_BUF(e, TOPK, int32_t) + (size_t)row * IG_N_EXPERT_USED;
}
static inline float *ig_topk_w(struct ig_engine *e, int row)
{
    return IG_BUF(e, TOPK, float) + ((size_t)IG_N_ROW + (size_t)row) * IG_N_EXPERT_USED;
}

/* Start-up: one line that says in what way this run is less than planned. */
void ig_downgrade_add(struct ig_engine *e, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* Several memory nodes: pages of the weights to the threads that will read them (place.c). */
void ig_place(struct ig_engine *e);
/* Bytes past a huge page at which the arena should start, so that a mapped file keeps its own. */
uint64_t ig_load_skew(const struct ig_engine *e);
/* The weights file into the arena or the device's memory (load.c), each block against its checksum
 * if o->verify: else IG_BAD_FILE or IG_IO, with the place.  e->loaded says whether it is mapped. */
enum ig_err ig_load_weights(struct ig_engine *e, const struct ig_open *o, struct ig_why *why);

/* The phases, one file each.  All threads call them; each ends before its last barrier. */
void ig_linear(struct ig_worker *w, const struct ig_mat *m, int lo, int hi, const void *const *x,
               int n, float *y, size_t y_stride);
void ig_embed(struct ig_worker *w);
void ig_norm_rows(struct ig_worker *w, uint64_t weight, uint64_t bias);
void ig_show(struct ig_worker *w, int layer);
void ig_tier_ahead(struct ig_worker *w, int layer); /* tier_ahead.c; one row only */

void ig_attention(struct ig_worker *w, int layer); /* IG_MIXER_GQA */
void ig_cross(struct ig_worker *w, int layer);     /* after it, when there is an encoder */
void ig_latent(struct ig_worker *w, int layer);    /* IG_MIXER_MLA */
void ig_moe(struct ig_worker *w, int layer);       /* every enum ig_ffn */
/* What attention reads of the KV cache. */
struct ig_reach {
    int place;         /* in the KV cache */
    int window;        /* positions a row sees, 0: all before it */
    int whole;         /* not 0: every row sees positions [0, whole) */
    uint64_t sinks;    /* as in struct ig_layer */
    const float *bias; /* added to scores, ig_rel_bias's of head 0; NULL: none */
    float *out;        /* the heads' results, rows of n heads x IG_HEAD_DIM */
    int to_blocks;     /* out is AO: make o's int8 blocks of each head as soon as it is there */
};
/* Parts of all mixers.  Matrices that read the same normed rows; the new K and V (and Q's turn,
 * where Q is new too) into the cache; Q and the cache -> attention's rows; AO, or its int8 blocks
 * where o reads them, times o, added to the residual stream. */
void ig_project(struct ig_worker *w, const struct ig_mat *q, const struct ig_mat *k,
                const struct ig_mat *v);
void ig_store(struct ig_worker *w, const struct ig_layer *l, int place);
void ig_attend(struct ig_worker *w, const struct ig_reach *r);
/* AO -> int8 blocks: heads [head, head + n) of a row.  A head is whole blocks, or the whole row
 * goes at once, before o. */
enum { IG_HEADS_TO_BLOCKS = IG_V_DIM % IG_QBLOCK == 0 };
void ig_output_heads(struct ig_engine *e, int row, int head, int n);
void ig_attn_output(struct ig_worker *w, const struct ig_mat *o);
struct ig_worker ig_worker(struct ig_engine *e, int tid);
/* Once: each stack's bias by distance from its table in the weights, [IG_N_REL_BUCKET][IG_N_HEAD]. */
void ig_fill_bias(float *to, const float *const *table);
/* An encoder's input, which is worked on in batches of rows; rows [at, at + batch) of it are e->batch
 * from now on. */
struct ig_enc_input {
    const int32_t *ids;
    int n, batch;
};
void ig_enc_rows(struct ig_engine *e, const struct ig_enc_input *in, int at);
/* 16 hidden values: the model's activation of gate, times up (moe.c). */
void ig_activate(float *h, const float *gate, const float *up);
/* Router logits of a row -> its experts and their weights (route.c). */
void ig_choose(struct ig_engine *e, const struct ig_layer *l, int row, int32_t *id, float *weight);

#endif
