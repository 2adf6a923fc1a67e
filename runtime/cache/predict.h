/* predict.h -- which experts a later layer will want: one struct of functions a predictor.
 *
 * A predictor says, for each expert of a layer, how likely it is to be chosen.  Who asks decides
 * what to fetch (ig_predict_best).  It hears of every choice and so counts as it runs.  State lies
 * in memory that the caller gives (bytes() says how much); nothing here allocates, and nothing it
 * says can change a result: a wrong prediction costs time only.
 *
 *   next-router  rank in the list of a later layer's router on the present hidden state
 *   history      co-occurrence with the experts of the layer at hand, counted in a trace
 *   hybrid       next-router, and votes of the rows where this token occurred before
 *   forest       trees over the features below, one forest a group of layers, trained offline
 *   mlp          a small network over the same features
 */
#ifndef IG_PREDICT_H
#define IG_PREDICT_H

#include <stddef.h>
#include <stdint.h>

enum { IG_PREDICT_DIST = 8 }; /* most layers ahead */

struct ig_pshape {
    uint32_t n_layer, n_expert, top_k, n_embd;
};

/* What forest and mlp look at, of one expert of the layer asked for: each in 1/255. */
enum ig_pfeature {
    IG_PF_NEXT,    /* next-router's rank: first 255, not in its list 0 */
    IG_PF_VOTE,    /* share of the votes of earlier rows with this token */
    IG_PF_HEAT,    /* decayed rate of use, half-life 16 steps */
    IG_PF_LAST,    /* chosen for the token before */
    IG_PF_CONTEXT, /* tokens before the best of those rows that agree too */
    IG_PF_MATCHES, /* how many such rows there are */
    IG_PF_DIST,    /* layers ahead */
    IG_PF_LAYER,
    IG_PF_LEARNED, /* a linear map of the hidden state, trained for this layer and distance */
    IG_N_PFEATURE
};

/* Complete trees: node i's children are 2i + 1 and 2i + 2; right when feature > threshold. */
struct ig_pforest {
    uint32_t first, last; /* layers */
    uint32_t n_tree, depth;
    const uint8_t *node; /* [n_tree][2^depth - 1][2] feature, threshold */
    const uint8_t *leaf; /* [n_tree][2^depth] chance in 1/255 */
};

/* Layers of `width` rectified sums, then one sum, whose sigmoid is the chance. */
struct ig_pmlp {
    uint32_t first, last;
    uint32_t n_hidden, width;
    const int8_t *weight; /* [width][features], (n_hidden - 1) x [width][width], [width] */
    const float *scale;   /* [n_hidden + 1] of a layer's weights */
    const float *bias;    /* [n_hidden * width + 1] */
};

/* chance = sigmoid(u (v h) + bias): h the normed input of the router of layer - dist. */
struct ig_plinear {
    uint32_t layer, dist, rank;
    const int8_t *v, *u; /* [rank][n_embd], [n_expert][rank] */
    float v_scale, u_scale;
    const float *bias; /* [n_expert] */
};
enum { IG_PLINEAR_RANK = 64, IG_PMLP_WIDTH = 64 }; /* most */

/* What was trained; generated, or read by tools/replay. */
struct ig_ptables {
    const uint8_t *joint; /* history: [dist 1..][layer, dist layers before][expert][expert] */
    uint32_t n_joint;     /* distances of it */
    uint32_t n_forest, n_mlp, n_linear;
    const struct ig_pforest *forest;
    const struct ig_pmlp *mlp;
    const struct ig_plinear *linear; /* by layer, then distance */
};

/* A question about `layer`, asked when layer - dist has routed.  dist 0: when the token is known
 * and nothing of it has been computed. */
struct ig_pask {
    uint32_t layer, dist;
    const int32_t *next; /* [top_k] next-router's experts, best first, -1: none; NULL: not asked */
    const float *hidden; /* [n_embd], for IG_PF_LEARNED; NULL: not there */
};

struct ig_predictor {
    const char *name;
    size_t (*bytes)(const struct ig_pshape *s, const struct ig_ptables *t);
    void (*init)(void *state, const struct ig_pshape *s, const struct ig_ptables *t);
    void (*ask)(void *state, const struct ig_pask *a, float *chance); /* [n_expert] */
    void (*token)(void *state, int32_t token);                        /* a row begins */
    /* The choice of one layer for the row `back` before the newest. */
    void (*use)(void *state, uint32_t back, uint32_t layer, const int32_t *id, const float *weight);
};

extern const struct ig_predictor ig_predictor_next_router, ig_predictor_history,
    ig_predictor_hybrid, ig_predictor_forest, ig_predictor_mlp;

/* At most k experts of a chance of `least` and above 0, best first, ties to the lower id; takes
 * their chance away. */
int ig_predict_best(float *chance, uint32_t n_expert, uint32_t k, float least, int32_t *id);

#endif
