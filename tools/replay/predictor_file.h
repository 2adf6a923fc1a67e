/* predictor_file.h -- the two files that predictors are trained from and into (docs/FORMAT.md):
 * hidden states that `trace --hidden` recorded, and what tools/train_predictor.py made.
 */
#ifndef IG_REPLAY_PREDICTOR_FILE_H
#define IG_REPLAY_PREDICTOR_FILE_H

#include "predict.h"
#include "trace.h"

struct predictor_file {
    struct ig_ptables t;
    struct ig_pshape shape;
    struct ig_pforest *forest;
    struct ig_pmlp *mlp;
    struct ig_plinear *linear;
    char why[200];
};

struct hidden {
    uint32_t n_row, n_layer, n_embd;
    char *data; /* the whole file */
    char why[200];
};

char *ig_slurp(const char *path, size_t *size); /* a file's bytes, malloc'ed; NULL: not readable */

/* 0, or -1 with `why` set (and nothing to free): hostile input is an error, never a crash. */
int ig_predictor_file_parse(struct predictor_file *f, const char *text, size_t size);
int ig_predictor_file_read(struct predictor_file *f, const char *path, const struct trace *t);
void ig_predictor_file_free(struct predictor_file *f);

int ig_hidden_read(struct hidden *h, const char *path, const struct trace *t);
void ig_hidden_row(const struct hidden *h, uint32_t row, uint32_t layer, float *x); /* [n_embd] */
void ig_hidden_free(struct hidden *h);

#endif
