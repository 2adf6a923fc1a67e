/* predict_sense.c -- the last rows, and what they say of the newest; see predict_parts.h. */
#include "predict_parts.h"

/* Rows: bench/LOG.tsv has what other sizes give. */
enum { ROWS = 4096, HASH = 4096, WALK = 64, NONE = -1 };
static const double half_life = 16;
static const float same = 4; /* a match's weight for each earlier token that agrees */

size_t ig_sense_bytes(const struct ig_pshape *s)
{
    const size_t words = (s->n_expert + 63) / 64, ids = (size_t)s->n_layer * s->n_expert;
    return ids * sizeof(double) + ROWS * s->n_layer * words * 8 + (HASH + 2 * ROWS) * 4 +
           ((size_t)s->n_expert + 1) / 2 * 8;
}

void *ig_sense_init(struct ig_sense *p, const struct ig_pshape *s, void *mem)
{
    const size_t ids = (size_t)s->n_layer * s->n_expert;
    *p = (struct ig_sense){ .s = *s, .words = (s->n_expert + 63) / 64 };
    p->heat = ig_heat_start(half_life);
    p->rate = 0.6931 / half_life;
    p->count = mem;
    p->chose = (uint64_t *)(void *)(p->count + ids);
    p->head = (uint32_t *)(void *)(p->chose + (size_t)ROWS * s->n_layer * p->words);
    p->prev = p->head + HASH;
    p->token = (int32_t *)(void *)(p->prev + ROWS);
    p->vote = (float *)(void *)(p->token + ROWS);
    for (size_t i = 0; i < ids; i++) p->count[i] = 0;
    for (uint32_t i = 0; i < ROWS; i++) p->token[i] = NONE, p->prev[i] = UINT32_MAX;
    for (uint32_t i = 0; i < HASH; i++) p->head[i] = UINT32_MAX;
    return (unsigned char *)mem + ig_sense_bytes(s);
}

static uint64_t *chose(const struct ig_sense *p, uint32_t row, uint32_t layer)
{
    return p->chose + ((size_t)(row % ROWS) * p->s.n_layer + layer) * p->words;
}

void ig_sense_token(struct ig_sense *p, int32_t token)
{
    const uint32_t row = p->row++;
    uint64_t *bits = chose(p, row, 0);
    for (size_t i = 0; i < (size_t)p->s.n_layer * p->words; i++) bits[i] = 0;
    ig_heat_step(&p->heat, p->count, p->s.n_layer * p->s.n_expert);
    p->stale = 1;
    p->token[row % ROWS] = token;
    p->prev[row % ROWS] = UINT32_MAX;
    if (token < 0) return;
    uint32_t *head = &p->head[(uint32_t)token % HASH];
    p->prev[row % ROWS] = *head;
    *head = row;
}

void ig_sense_use(struct ig_sense *p, uint32_t back, uint32_t layer, const int32_t *id)
{
    if (back >= p->row || back >= ROWS) return;
    uint64_t *bits = chose(p, p->row - 1 - back, layer);
    for (uint32_t k = 0; k < p->s.top_k; k++) {
        if (id[k] < 0) continue;
        bits[id[k] / 64] |= UINT64_C(1) << id[k] % 64;
        p->count[layer * p->s.n_expert + (uint32_t)id[k]] += p->heat.one;
    }
}

/* How many tokens before two rows agree. */
static uint32_t agree(const struct ig_sense *p, uint32_t a, uint32_t b)
{
    uint32_t n = 0;
    while (n + 1 < IG_SENSE_CONTEXT && n < a &&
           p->token[(a - n - 1) % ROWS] == p->token[(b - n - 1) % ROWS])
        n++;
    return n;
}

static void find_matches(struct ig_sense *p)
{
    const uint32_t now = p->row - 1;
    const int32_t token = p->token[now % ROWS];
    uint32_t old = now;
    float total = 0;
    p->stale = 0;
    p->n_match = p->context = 0;
    for (int i = 0; token >= 0 && i < WALK && p->n_match < IG_SENSE_MATCHES; i++) {
        const uint32_t row = p->prev[old % ROWS];
        /* Links into rows that were written over point forward or too far back: the chain ends. */
        if (row >= old || now - row + IG_SENSE_CONTEXT >= ROWS) break;
        old = row;
        if (p->token[row % ROWS] != token) continue;
        const uint32_t n = agree(p, row, now);
        float w = 1;
        for (uint32_t c = 0; c < n; c++) w *= same;
        if (n > p->context) p->context = n;
        p->match[p->n_match] = row;
        p->weight[p->n_match++] = w;
        total += w;
    }
    for (uint32_t m = 0; m < p->n_match; m++) p->weight[m] /= total;
}

void ig_sense_vote(struct ig_sense *p, uint32_t layer, float *share)
{
    if (p->stale) find_matches(p);
    for (uint32_t e = 0; e < p->s.n_expert; e++) share[e] = 0;
    for (uint32_t m = 0; p->row && m < p->n_match; m++) {
        const uint64_t *bits = chose(p, p->match[m], layer);
        for (uint32_t w = 0; w < p->words; w++)
            for (uint64_t b = bits[w]; b; b &= b - 1)
                share[64 * w + (uint32_t)__builtin_ctzll(b)] += p->weight[m];
    }
}

static uint8_t to255(double x) { return (uint8_t)(x >= 1 ? 255 : x > 0 ? 255 * x + 0.5 : 0); }

/* e^x for x <= 0 by its series on x / 1024: without libm, the same bits everywhere. */
static double exp_down(double x)
{
    if (x < -40) return 0;
    const double y = x / 1024;
    double sum = 1, term = 1;
    for (int i = 1; i < 8; i++) sum += term *= y / i;
    for (int i = 0; i < 10; i++) sum *= sum;
    return sum;
}

float ig_sigmoid1(float x)
{
    const double e = exp_down(x < 0 ? (double)x : -(double)x);
    return (float)(x < 0 ? e / (1 + e) : 1 / (1 + e));
}

static void learned(const struct ig_pshape *s, const struct ig_plinear *l, const float *h,
                    uint8_t (*f)[IG_N_PFEATURE])
{
    float z[IG_PLINEAR_RANK];
    for (uint32_t r = 0; r < l->rank; r++) {
        float sum[8] = { 0 };
        const int8_t *v = l->v + (size_t)r * s->n_embd;
        for (uint32_t i = 0; i < s->n_embd; i++) sum[i % 8] += (float)v[i] * h[i];
        z[r] = 0;
        for (int i = 0; i < 8; i++) z[r] += sum[i];
        z[r] *= l->v_scale;
    }
    for (uint32_t e = 0; e < s->n_expert; e++) {
        float x = 0;
        for (uint32_t r = 0; r < l->rank; r++) x += (float)l->u[e * l->rank + r] * z[r];
        f[e][IG_PF_LEARNED] = to255((double)ig_sigmoid1(x * l->u_scale + l->bias[e]));
    }
}

void ig_sense_features(struct ig_sense *p, const struct ig_pask *a, const struct ig_ptables *t,
                       uint8_t (*f)[IG_N_PFEATURE])
{
    const uint32_t k = p->s.top_k;
    const uint64_t *last = p->row > 1 ? chose(p, p->row - 2, a->layer) : NULL;
    ig_sense_vote(p, a->layer, p->vote);
    for (uint32_t e = 0; e < p->s.n_expert; e++) {
        const double count = p->count[a->layer * p->s.n_expert + e];
        f[e][IG_PF_NEXT] = 0;
        f[e][IG_PF_VOTE] = to255((double)p->vote[e]);
        f[e][IG_PF_HEAT] = to255(count / p->heat.one * p->rate);
        f[e][IG_PF_LAST] = last && last[e / 64] >> e % 64 & 1 ? 255 : 0;
        f[e][IG_PF_CONTEXT] = (uint8_t)(p->context * 85);
        f[e][IG_PF_MATCHES] = to255((double)p->n_match / IG_SENSE_MATCHES);
        f[e][IG_PF_DIST] = to255((double)a->dist / IG_PREDICT_DIST);
        f[e][IG_PF_LAYER] = to255((double)a->layer / p->s.n_layer);
        f[e][IG_PF_LEARNED] = 0;
    }
    for (uint32_t i = 0; a->next && i < k; i++)
        if (a->next[i] >= 0) f[a->next[i]][IG_PF_NEXT] = to255((double)(k - i) / k);
    for (uint32_t i = 0; a->hidden && i < t->n_linear; i++)
        if (t->linear[i].layer == a->layer && t->linear[i].dist == a->dist)
            learned(&p->s, &t->linear[i], a->hidden, f);
}
