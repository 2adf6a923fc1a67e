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
#include "kernels.h"
#include "panel.h"

enum {
    IG_Q_DIM = IG_N_HEAD * IG_HEAD_DIM,
    IG_KV_DIM = IG_N_HEAD_KV * IG_HEAD_DIM,
    IG_GROUP = IG_N_HEAD / IG_N_HEAD_KV,       /* query heads that share a KV head */
    IG_FF_PAD = (IG_N_FF + 31) / 32 * 32,
    IG_Q_STRIDE = (IG_Q_DIM + 15) / 16 * 16,   /* floats from one row to the next */
    IG_KV_STRIDE = (IG_KV_DIM + 15) / 16 * 16,
    IG_RL_STRIDE = (IG_N_EXPERT + 15) / 16 * 16,
    IG_LOGIT_STRIDE = (IG_N_VOCAB + 15) / 16 * 16,
    IG_KV_ELEM = (int)IG_KV_FMT == (int)IG_F32 ? 4 : 2, /* bytes */
    IG_MAX_DOWNGRADE = 8
};

struct ig_engine {
    unsigned char *mem;       /* the arena, IG_MEM_BYTES; NULL while a device does the work */
    struct ig_device *device; /* NULL: the CPU */
    struct ig_team team;
    struct ig_wfile file;
    int n_ctx;
    struct ig_tap tap;
    int n_downgrade;
    char downgrade[IG_MAX_DOWNGRADE][160];

    /* One batch; written by thread 0 before the phases that read them. */
    const struct ig_batch *batch;
    int n_want;
    int32_t want_row[IG_N_LOGIT_ROW];
    int n_active;                              /* experts that some row of the batch chose */
    int32_t active[IG_N_EXPERT];
    const unsigned char *slab[IG_N_EXPERT];    /* of active experts: where their weights are now */

    uint32_t kv_table[IG_N_SEQ][IG_N_KV_BLOCK / IG_N_SEQ]; /* position / 64 -> KV block */
};

/* One thread's share of a batch. */
struct ig_worker {
    struct ig_engine *e;
    int tid;
    const void **ptr;   /* [IG_N_ROW * IG_N_EXPERT_USED] activation rows of one kernel call */
    float (*ya)[IG_PANEL_ROWS]; /* [IG_N_ROW * IG_N_EXPERT_USED] results of one kernel call */
    float (*yb)[IG_PANEL_ROWS]; /* the same */
    float *attn;        /* 2 x [IG_GROUP][IG_HEAD_DIM + 2] */
    float *spare;       /* 64 KiB */
};

#define IG_BUF(e, NAME, type) ((type *)(void *)((e)->mem + IG_MEM_##NAME##_OFF))

static inline const unsigned char *ig_data(const struct ig_engine *e, uint64_t off)
{
    return e->mem + IG_MEM_DATA_OFF + off;
}
static inline int ig_is_block(int fmt) { return fmt >= IG_Q8_0; }

static inline float *ig_x(struct ig_engine *e, int row)
{
    return IG_BUF(e, X, float) + (size_t)row * IG_N_EMBD;
}
static inline float *ig_xn(struct ig_engine *e, int row)
{
    return IG_BUF(e, XN, float) + (size_t)row * IG_N_EMBD;
}
static inline struct ig_xq *ig_xnq(struct ig_engine *e, int row)
{
    return IG_BUF(e, XQ, struct ig_xq) + (size_t)row * (IG_N_EMBD / IG_QBLOCK);
}
/* The normed row as a matrix of format `fmt` reads it. */
static inline const void *ig_act(struct ig_engine *e, int row, int fmt)
{
    return ig_is_block(fmt) ? (const void *)ig_xnq(e, row) : (const void *)ig_xn(e, row);
}
/* K of a block, [head_dim][64]; its V, [64][head_dim], follows at once. */
static inline unsigned char *ig_kv(struct ig_engine *e, int layer, int seq, int blk, int head)
{
    const size_t block = ((size_t)layer * IG_N_KV_BLOCK + e->kv_table[seq][blk]) * IG_N_HEAD_KV;
    return e->mem + IG_MEM_KV_OFF + (block + (size_t)head) * 2 * IG_KV_BLOCK * IG_HEAD_DIM * IG_KV_ELEM;
}
static inline int32_t *ig_topk_id(struct ig_engine *e, int row)
{
    return IG_BUF(e, TOPK, int32_t) + (size_t)row * IG_N_EXPERT_USED;
}
static inline float *ig_topk_w(struct ig_engine *e, int row)
{
    return IG_BUF(e, TOPK, float) + ((size_t)IG_N_ROW + (size_t)row) * IG_N_EXPERT_USED;
}

/* The weights file into the arena or the device's memory. */
enum ig_err ig_load_weights(struct ig_engine *e, const struct ig_open *o, struct ig_why *why);

/* The phases, one file each.  All threads call them; each ends before its last barrier. */
void ig_linear(struct ig_worker *w, const struct ig_mat *m, int lo, int hi, const void *const *x,
               int n, float *y, size_t y_stride);
void ig_attention(struct ig_worker *w, int layer);
void ig_moe(struct ig_worker *w, int layer);

#endif
