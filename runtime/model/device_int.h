/* device_int.h -- what the files of a step on a device share: device_args.c fills what a kernel is
 * handed, device_step.c and device_batch.c launch kernels on one row and on more, device_open.c
 * starts and ends it all.
 */
#ifndef IG_DEVICE_INT_H
#define IG_DEVICE_INT_H

#include "device.h"
#include "device_cache.h"
#include "device_step.h"
#include "cuda/list.h"

enum {
    EMBD_PANELS = (IG_N_EMBD + 15) / 16,
    HEAD_SLICES = (IG_KV_LORA ? IG_KV_LORA : IG_HEAD_DIM) / IG_ATTN_SLICE,
    ATTN_THREADS = IG_SPAN_BLOCKS * 32,
    /* Bytes in shared memory: V of Q8_0 is not there. */
    KV_ELEM = (int)IG_KV_FMT == (int)IG_F32 ? 4
              : IG_KV_Q8                    ? 0
                                            : 2,
    ATTN_SHARED = IG_SPAN_BLOCKS * IG_KV_BLOCK * IG_ATTN_SLICE * KV_ELEM,
    PICKED = IG_N_ROW * (IG_ROUTED ? IG_N_EXPERT_USED : 1), /* arrays have at least one */
    FORCED = PICKED * IG_N_LAYER,
    FF_BLOCKS = IG_FF_PAD / IG_QBLOCK,
#if IG_KV_LORA
    QH_PANELS = (IG_N_HEAD * (IG_NOPE_DIM + IG_ROPE_DIM) + 15) / 16,
    Q_PANELS = IG_Q_LORA ? (IG_Q_LORA + 15) / 16 : QH_PANELS,
    K_PANELS = (IG_HEAD_DIM + 15) / 16,
    V_PANELS = 0,
    ABSORB_BLOCKS = IG_N_HEAD * IG_KV_LORA / 16,
    VALUE_BLOCKS = IG_N_HEAD * IG_V_DIM / 16,
#else
    Q_PANELS = IG_Q_STRIDE / 16,
    K_PANELS = IG_KV_STRIDE / 16,
    V_PANELS = K_PANELS,
#endif
    QKV_PANELS = Q_PANELS + K_PANELS + V_PANELS, /* of what reads the normed row */
    ATTN_BLOCKS = IG_N_HEAD / IG_ATTN_HEADS * HEAD_SLICES
};

/* What the host and the device share, in pinned memory: the batch, the logits, and
 * what a tap is shown. */
struct ig_step_shared {
    int32_t token[IG_N_ROW], pos[IG_N_ROW], seq[IG_N_ROW], turn[IG_N_ROW], want[IG_N_LOGIT_ROW];
    int32_t force, force_expert[FORCED]; /* recorded choices */
    float force_weight[FORCED];
    int32_t expert[PICKED];
    float weight[PICKED];
    float hidden[IG_N_ROW * IG_N_EMBD];
    /* with a cache, a row by itself is the last */
    float logits[(IG_N_LOGIT_ROW + IG_XC) * IG_LOGIT_STRIDE];
    struct ig_candidate sample[IG_N_VOCAB]; /* the host's alone */
};

extern struct ig_step {
    struct ig_args args;                  /* what the next kernel is handed */
    struct ig_step_shared *shared, *seen; /* the host's address of it, the device's */
    const unsigned char *weights;         /* where the device reads them */
    int shown_row;                        /* of the batch: what row 0 on the device is */
} ig_step;

/* A kernel of a list in cuda/list.h. */
struct ig_step_kernel {
    const char *name;
    struct ig_kernel k;
};
#define IG_STEP_KERNEL(id, t, s) { "ig_" #id, { .threads = (t), .shared = (s) } },
/* All of a list, from an image (enum in device.h); those of one row; those of more. */
enum ig_err ig_step_find(struct ig_engine *e, struct ig_step_kernel *list, int n, int image,
                         struct ig_why *why);
enum ig_err ig_step_kernels(struct ig_engine *e, struct ig_why *why);
enum ig_err ig_batch_kernels(struct ig_engine *e, struct ig_why *why);

/* Everything that is the same in all layers and batches; what differs by layer; the layer's experts
 * are at `place` of the device's memory, one after the other or in slots. */
void ig_step_fill(unsigned char *mem);
void ig_step_layer(const struct ig_engine *e, int layer);
void ig_step_experts(const struct ig_layer *l, const unsigned char *place);
/* After it: the decoder's attention to the encoder's output, which reads normed rows; the encoder's
 * last norm. */
void ig_step_enc_norm(void);
void ig_step_cross(const struct ig_engine *e, int layer);
/* Half panels for a float router (kernels/cuda/linear.cu); 32 hidden values each of the layer's
 * dense block. */
int ig_router_blocks(const struct ig_mat *m);
int ig_aside_blocks(void);

/* One row, more rows, kernel by kernel. */
void ig_step_all(struct ig_engine *e);
void ig_batch_all(struct ig_engine *e);
/* Parts of a batch's layer: a kernel of the embedding; a norm (`in` as in ig_norm), whose rows q, k
 * and v read (IG_OF_Q: q alone; IG_OF_KV: k and v alone); K and V into the cache; attention and o
 * onto the residual stream; the feed-forward block. */
enum ig_of { IG_OF_ALL, IG_OF_Q, IG_OF_KV };
void ig_batch_embed(struct ig_engine *e);
void ig_batch_norm(struct ig_engine *e, int in);
void ig_batch_project(struct ig_engine *e, enum ig_of of);
void ig_batch_store(struct ig_engine *e);
void ig_batch_attend(struct ig_engine *e);
void ig_batch_ffn(struct ig_engine *e, const struct ig_layer *l);
/* Rows [row, row + n) of the batch into memory that the device sees. */
void ig_step_hand_over(const struct ig_engine *e, int row, int n);
/* To a tap: rows of the residual stream and what the router chose, as they are now; the last norm.
 */
void ig_step_show(struct ig_engine *e, int layer);
void ig_step_show_output(struct ig_engine *e);

#endif
