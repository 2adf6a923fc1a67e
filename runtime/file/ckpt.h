/* ckpt.h -- the tensors of a checkpoint, whatever its files look like.
 *
 * safetensors.c and gguf.c fill a struct ig_ckpt and have checked that every
 * tensor lies inside its file and has the size that its type and shape say;
 * pack.c looks tensors up and reads their bytes.  Tensor types that no kernel
 * reads are listed with their name and refused only where one is wanted: a
 * checkpoint may hold other things.
 */
#ifndef IG_CKPT_H
#define IG_CKPT_H

#include <time.h>

#include "base.h"

enum { IG_CKPT_DIMS = 8, IG_FMT_NONE = -1 };

/* How a tensor's bytes are made: read as they are, or from two tensors of the file. */
enum ig_ckpt_pair {
    IG_PAIR_NONE,
    IG_PAIR_FP8,   /* F8_E4M3 times one scale a 128 x 128 block, as F32 */
    IG_PAIR_MXFP4, /* blocks of 16 bytes and one scale each, as GGUF's MXFP4 */
};

struct ig_tensor {
    char *name;
    const char *type; /* as its format spells it: "BF16", "Q4_K" */
    int fmt;          /* enum ig_fmt, or IG_FMT_NONE */
    int n_dim;
    uint64_t dim[IG_CKPT_DIMS]; /* outermost first; GGUF's are turned round */
    uint32_t file;
    uint64_t off, bytes; /* in that file; of a pair, `bytes` are those it is read as */
    enum ig_ckpt_pair pair;
    int scale_fmt; /* of a pair: where its scales are */
    uint32_t scale_file;
    uint64_t scale_off;
};

struct ig_ckpt_file {
    char *path;
    int fd;
    uint64_t bytes;
    uint64_t data_off; /* where tensor data starts */
    struct timespec mtim, ctim; /* at its opening */
};

struct ig_ckpt {
    int gguf; /* names and row order are GGUF's */
    uint32_t n_file;
    struct ig_ckpt_file *file;
    size_t n_tensor;
    struct ig_tensor *tensor; /* sorted by name once ig_ckpt_index has run */
};

/* For the readers: add a file (opened here; path is copied), add a tensor (name
 * is copied), then sort by name and refuse duplicates and overlaps. */
enum ig_err ig_ckpt_add_file(struct ig_ckpt *c, const char *path, uint32_t *file,
                             struct ig_why *why);
enum ig_err ig_ckpt_add(struct ig_ckpt *c, const struct ig_tensor *t, const char *name,
                        size_t name_bytes, struct ig_why *why);
enum ig_err ig_ckpt_index(struct ig_ckpt *c, struct ig_why *why);

/* NULL: no such tensor. */
const struct ig_tensor *ig_ckpt_find(const struct ig_ckpt *c, const char *name);
/* `bytes` of a tensor from its byte `off` on; of a pair, whole elements or blocks. */
enum ig_err ig_ckpt_read(const struct ig_ckpt *c, const struct ig_tensor *t, void *dst,
                         uint64_t off, uint64_t bytes, struct ig_why *why);
/* IG_BAD_FILE when a file is not what it was when it was opened. */
enum ig_err ig_ckpt_unchanged(const struct ig_ckpt *c, struct ig_why *why);
void ig_ckpt_close(struct ig_ckpt *c);

/* For the safetensors reader, after ig_ckpt_index: NAME (F8_E4M3) with NAME_scale_inv, and
 * NAME_blocks with NAME_scales, each become one tensor of the first one's name. */
enum ig_err ig_ckpt_join_pairs(struct ig_ckpt *c, struct ig_why *why);
/* ig_ckpt_read of a pair. */
enum ig_err ig_ckpt_read_pair(const struct ig_ckpt *c, const struct ig_tensor *t, void *dst,
                              uint64_t off, uint64_t bytes, struct ig_why *why);

/* "[2, 3]" into `text`, for messages; returns text. */
const char *ig_shape_text(char *text, size_t bytes, const uint64_t *dim, int n_dim);

#endif
