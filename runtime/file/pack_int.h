/* pack_int.h -- what the files of pack share; nobody else includes it.
 *
 *   pack.c        the walk over the plan, the output
 *   pack_facts.c  what the checkpoint says of its model, against the plan
 *   pack_only.c   what it may not say otherwise, whatever the plan
 *   pack_src.c    a checkpoint's tensors as rows of the plan's matrices
 *   pack_synth.c  random panels
 *   pack_tok.c    the tokenizer section
 */
#ifndef IG_PACK_INT_H
#define IG_PACK_INT_H

#include "gguf.h"
#include "pack.h"
#include "plan.h"
#include "wfile.h"

/* Behind what a checkpoint of another model lacks or says; takes its path. */
#define OTHER_MODEL "; this binary is for " IG_MODEL_ID "; make MODEL=%s builds one for it"

struct json_t;

enum ig_pack_kind { IG_PACK_SYNTH, IG_PACK_HF, IG_PACK_GGUF, IG_PACK_WFILE };

struct ig_pack_src {
    enum ig_pack_kind kind;
    const char *path;
    uint64_t seed;       /* IG_PACK_SYNTH */
    struct ig_gguf g;    /* IG_PACK_GGUF; its ckpt is every checkpoint's */
    struct ig_wfile w;   /* IG_PACK_WFILE */
    unsigned char *used; /* [g.ckpt.n_tensor] 1: the plan asked for it */
};

/* One matrix or vector of the plan, and where its values come from. */
struct ig_pack_item {
    enum ig_role role;
    int vector;        /* f32[mat.rows] at mat.off; mat.cols is 1 */
    int layer, expert; /* -1: none */
    struct ig_mat mat;
    const struct ig_tensor *t; /* NULL for random weights */
    const struct ig_name *name;
    uint64_t row0; /* the tensor's row where the item's groups start */
    float *whole;  /* [rows of the groups][tensor's columns], once loaded; else NULL */
};

/* Buffers of one thread for one item. */
struct ig_pack_scratch {
    unsigned char *raw, *row; /* 16 rows as they come; 16 rows as they go */
    float *f32;               /* one row */
};

enum ig_err ig_pack_src_open(struct ig_pack_src *s, const struct ig_pack_job *job,
                             struct ig_why *why);
/* Only what the tokenizer is made of: a folder needs no weights. */
enum ig_err ig_pack_src_open_tokenizer(struct ig_pack_src *s, const char *path, struct ig_why *why);
void ig_pack_src_close(struct ig_pack_src *s);
/* The folder of the checkpoint's JSON files: itself, or the one that the file is in; malloc'ed. */
char *ig_pack_folder(const struct ig_pack_src *s);
/* Fill it->t and what follows from it; checks shape and type. */
enum ig_err ig_pack_find(struct ig_pack_src *s, struct ig_pack_item *it, struct ig_why *why);
/* IG_MISMATCH when the checkpoint states another fact than the plan. */
enum ig_err ig_pack_check_facts(const struct ig_pack_src *s, struct ig_why *why);
/* Keys that must be absent or harmless; config: of config.json, NULL with GGUF. */
enum ig_err ig_pack_check_only(const struct ig_pack_src *s, const char *file,
                               const struct json_t *config, struct ig_why *why);
/* The value at a path of keys: "a.b" is b of the object a, "a.1" the first of the list a; NULL:
 * none. */
const struct json_t *ig_config_at(const struct json_t *config, const char *path);
/* Say which tensors the plan did not ask for. */
void ig_pack_warn_unused(const struct ig_pack_src *s, void (*warn)(const char *line));

enum ig_err ig_pack_scratch_make(struct ig_pack_scratch *b, const struct ig_pack_item *it,
                                 struct ig_why *why);
void ig_pack_scratch_free(struct ig_pack_scratch *b);
/* Panel p of the item, into ig_panel_bytes() at dst. */
enum ig_err ig_pack_panel(const struct ig_pack_src *s, const struct ig_pack_item *it, uint32_t p,
                          void *dst, struct ig_pack_scratch *b, struct ig_why *why);
/* Values whose order in the tensor is not rows' are read all at once; to be freed by the caller. */
enum ig_err ig_pack_load(const struct ig_pack_src *s, struct ig_pack_item *it, struct ig_why *why);
/* The values of a vector. */
enum ig_err ig_pack_vector(const struct ig_pack_src *s, const struct ig_pack_item *it, float *dst,
                           struct ig_why *why);

/* Element r of a vector without a checkpoint: a norm that leaves sizes as they are, no bias;
 * relative positions' differ, as learned ones do. */
float ig_pack_synth_value(enum ig_role role, uint32_t r);
void ig_pack_synth_panel(uint64_t seed, const struct ig_pack_item *it, uint32_t p, void *dst);

/* malloc'ed; an empty blob when the checkpoint has no tokenizer (and a warning). */
enum ig_err ig_pack_tokenizer(struct ig_pack_src *s, const struct ig_pack_job *job, void **blob,
                              size_t *bytes, struct ig_why *why);

#endif
