/* sample.h -- from logits to one token: repetition penalty, top-k, top-p, min-p, temperature. */
#ifndef IG_SAMPLE_H
#define IG_SAMPLE_H

#include <stdint.h>

enum { IG_LAST_N = 64 }; /* tokens the repetition penalty looks back on at most */

struct ig_sampler {
    float temp;           /* <= 0: greedy */
    int top_k;            /* 0: all */
    float top_p, min_p;   /* 1, 0: off */
    float repeat_penalty; /* 1: off */
    int repeat_last_n;    /* <= IG_LAST_N */
    uint64_t state;       /* random state, from the seed */
    int32_t last[IG_LAST_N];
    int n_last;
};

void ig_sampler_init(struct ig_sampler *s, uint64_t seed);
void ig_sampler_accept(struct ig_sampler *s, int32_t token);
/* logits: [n_vocab], not changed; work: [n_vocab] pairs of (float, int32) that the caller owns. */
struct ig_candidate { float p; int32_t id; };
int32_t ig_sample(struct ig_sampler *s, const float *logits, int n_vocab,
                  struct ig_candidate *work);

#endif
