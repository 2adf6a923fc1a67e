/* options.h -- the command line of replay. */
#ifndef IG_REPLAY_OPTIONS_H
#define IG_REPLAY_OPTIONS_H

#include "predictors.h"
#include "sim.h"
#include "stride.h"

enum { OPT_MAX_POOL = 32, OPT_MAX_DOC = 256 };

struct options {
    const char *trace;
    uint32_t n_pool;
    double pool[OPT_MAX_POOL]; /* per cent of all experts */
    const char *policies, *sets;
    uint32_t n_doc, n_train;
    uint32_t doc[OPT_MAX_DOC], train[OPT_MAX_DOC];
    int count_all, count_decode; /* neither: by format */
    int pin;
    int order; /* 1: the heaviest is the oldest of its token, 0: the lightest, -1: by format */
    int batch; /* most prompt rows together; -1: by format */
    struct machine m;
    int predict; /* enum predict_kind, -1: none */
    int prefetch;
    uint32_t distance, width;
    float least;       /* chance below which nothing is predicted */
    uint8_t stride[2]; /* bounds; 0: the distance stays */
    struct ig_stride_rule rule;
    int csv, recall;
    const char *svg;
    const char *predictor, *hidden, *features; /* files */
    uint32_t every; /* rows from one that features are written of to the next */
};

/* 0; -1 after a message on stderr; 1 when help was wanted and printed. */
int ig_options(struct options *o, int argc, char **argv);

#endif
