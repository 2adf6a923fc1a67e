/* gguf.h -- GGUF checkpoints, versions 2 and 3, little-endian; one file, or the first
 * of NAME-00001-of-0000N.gguf.
 *
 * Keeps the metadata bytes in memory and an index over them; tensors go into a
 * struct ig_ckpt.  Nothing here knows a model: what a key means is its reader's
 * business, and only the tokenizer's keys have one here.
 */
#ifndef IG_GGUF_H
#define IG_GGUF_H

#include "ckpt.h"
#include "tokenizer.h"

struct ig_gguf_kv {
    const char *key; /* into ig_gguf.meta, not NUL-terminated */
    uint64_t key_bytes;
    uint32_t type, elem;       /* GGUF value type; of the elements, for an array */
    uint64_t n;                /* elements of an array, bytes of a string */
    const unsigned char *data; /* into ig_gguf.meta: string bytes, first element, value */
};

struct ig_gguf {
    struct ig_ckpt ckpt;
    char *meta;
    uint32_t n_kv;
    struct ig_gguf_kv *kv; /* sorted by key */
    void *owned[9];        /* what the tokenizer's view points to */
    int n_owned;
};

/* `path` of a split file is its first part's.  On error nothing stays open. */
enum ig_err ig_gguf_open(struct ig_gguf *g, const char *path, struct ig_why *why);
/* NULL: no such key. */
const struct ig_gguf_kv *ig_gguf_find(const struct ig_gguf *g, const char *key);
/* A number or a bool as a double; 0: it is neither. */
int ig_gguf_number(const struct ig_gguf_kv *kv, double *v);
/* Fill the tokenizer's view; it lives as long as g.  No tokenizer in the file:
 * view->model is NULL and n_vocab 0. */
enum ig_err ig_gguf_tokenizer(struct ig_gguf *g, struct ig_tok_gguf *view, struct ig_why *why);
void ig_gguf_close(struct ig_gguf *g);

/* The tensor types that a matrix may have, for messages. */
#define IG_GGUF_TYPES \
    "F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q2_K to Q6_K, IQ4_NL, IQ4_XS or MXFP4"

/* "uint32", for messages. */
const char *ig_gguf_type_name(uint32_t type);

/* Value types. */
enum {
    IG_GGUF_U8,
    IG_GGUF_I8,
    IG_GGUF_U16,
    IG_GGUF_I16,
    IG_GGUF_U32,
    IG_GGUF_I32,
    IG_GGUF_F32,
    IG_GGUF_BOOL,
    IG_GGUF_STRING,
    IG_GGUF_ARRAY,
    IG_GGUF_U64,
    IG_GGUF_I64,
    IG_GGUF_F64,
    IG_GGUF_N_TYPE
};

#endif
