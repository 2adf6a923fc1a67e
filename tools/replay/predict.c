/* predict.c -- predictors of the study; see predict.h. */
#include "predict.h"

#include <stdlib.h>
#include <string.h>

#include "sim.h"

enum { MATCHES = 16, CONTEXT = 4, SAME = 4 };

const char *const ig_predict_name[N_PREDICT] = { "last",  "history", "next",
                                                 "token", "hybrid",  "perfect" };

/* joint[l][a][b] += w: layer l chose a while layer l + dist chose b, on the training rows. */
static void count_joint(const struct trace *t, const uint8_t *train, uint32_t dist, float *joint)
{
    const size_t e = t->n_expert;
    for (uint32_t row = 0; row < t->n_row; row++) {
        if (!train[row]) continue;
        for (uint32_t l = 0; l + dist < t->n_layer; l++) {
            const uint16_t *a = t->expert + trace_at(t, row, l);
            const uint16_t *b = t->expert + trace_at(t, row, l + dist);
            for (uint32_t i = 0; i < t->top_k; i++)
                for (uint32_t j = 0; j < t->top_k; j++)
                    if (a[i] != IG_NO_EXPERT && b[j] != IG_NO_EXPERT)
                        joint[(l * e + a[i]) * e + b[j]] += 1;
        }
    }
    /* Rows become P(b | a); the 2 stands for "never seen" and keeps rare rows quiet. */
    for (size_t r = 0; r < t->n_layer * e; r++) {
        float sum = 2;
        for (size_t b = 0; b < e; b++) sum += joint[r * e + b];
        for (size_t b = 0; b < e; b++) joint[r * e + b] /= sum;
    }
}

void ig_predict_init(struct predictor *p, enum predict_kind kind, const struct trace *t,
                     const uint8_t *train, uint32_t max_dist)
{
    memset(p, 0, sizeof *p);
    p->kind = kind;
    p->t = t;
    p->previous = -1;
    p->score = ig_zalloc(t->n_expert, sizeof *p->score);
    for (uint32_t i = 0; t->token && i < t->n_row; i++)
        if ((uint32_t)t->token[i] >= p->n_token) p->n_token = (uint32_t)t->token[i] + 1;
    p->seen = ig_zalloc(p->n_token + 1, sizeof *p->seen);
    p->chain = ig_zalloc(t->n_row, sizeof *p->chain);
    p->before = ig_zalloc(t->n_row, sizeof *p->before);
    for (uint32_t i = 0; i < p->n_token; i++) p->seen[i] = -1;
    if (kind == PREDICT_HYBRID) {
        const size_t per = (size_t)(t->top_k + 1) * VOTE_LEVELS;
        p->cell = ig_zalloc(t->n_layer * (IG_MAX_DIST + 1) * per, sizeof *p->cell);
        p->asked = ig_zalloc(t->n_layer * (IG_MAX_DIST + 1), 1);
        p->feature =
            ig_zalloc((size_t)t->n_layer * (IG_MAX_DIST + 1) * t->n_expert, sizeof *p->feature);
    }
    for (uint32_t d = 1; kind == PREDICT_HISTORY && d <= max_dist && d <= IG_MAX_DIST; d++) {
        p->joint[d - 1] = ig_zalloc((size_t)t->n_layer * t->n_expert * t->n_expert, sizeof(float));
        count_joint(t, train, d, p->joint[d - 1]);
    }
}

void ig_predict_free(struct predictor *p)
{
    for (int d = 0; d < IG_MAX_DIST; d++) free(p->joint[d]);
    free(p->seen);
    free(p->chain);
    free(p->before);
    free(p->cell);
    free(p->asked);
    free(p->feature);
    free(p->score);
}

static uint32_t take(uint16_t *out, const uint16_t *from, uint32_t k)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < k; i++)
        if (from[i] != IG_NO_EXPERT) out[n++] = from[i];
    return n;
}

/* The top_k experts of the highest positive score. */
static uint32_t best_of(struct predictor *p, uint16_t *out)
{
    for (uint32_t n = 0; n < p->t->top_k; n++) {
        uint32_t best = 0;
        for (uint32_t e = 1; e < p->t->n_expert; e++)
            if (p->score[e] > p->score[best]) best = e;
        if (p->score[best] <= 0) return n;
        out[n] = (uint16_t)best;
        p->score[best] = -1;
    }
    return p->t->top_k;
}

static uint32_t history(struct predictor *p, uint32_t row, uint32_t layer, uint32_t dist,
                        uint16_t *out)
{
    const struct trace *t = p->t;
    const size_t e = t->n_expert, at = trace_at(t, row, layer - dist);
    if (dist > IG_MAX_DIST || !p->joint[dist - 1]) return 0;

    memset(p->score, 0, e * sizeof *p->score);
    for (uint32_t i = 0; i < t->top_k; i++) {
        if (t->expert[at + i] == IG_NO_EXPERT) continue;
        const float *r = p->joint[dist - 1] + ((layer - dist) * e + t->expert[at + i]) * e;
        /* A heavy expert says more; the floor keeps the light ones' voice (tuned, see POLICIES). */
        const float w = 0.25f + t->weight[at + i];
        for (size_t b = 0; b < e; b++) p->score[b] += w * r[b];
    }
    return best_of(p, out);
}

/* Adds the votes of earlier occurrences to score; they sum to top_k. */
static void vote(struct predictor *p, uint32_t row, uint32_t layer)
{
    const struct trace *t = p->t;
    int32_t match[MATCHES];
    float weight[MATCHES], total = 0;
    uint32_t n = 0;

    if (!t->token) return;
    for (int32_t m = p->seen[t->token[row]]; m >= 0 && n < MATCHES; m = p->chain[m]) {
        int32_t a = m, b = p->previous;
        weight[n] = 1;
        for (int i = 1; i < CONTEXT && b >= 0; i++, b = p->before[b]) {
            a = p->before[a];
            if (a < 0 || t->token[a] != t->token[b]) break;
            weight[n] *= SAME;
        }
        total += weight[n];
        match[n++] = m;
    }
    for (uint32_t i = 0; i < n; i++) {
        const uint16_t *e = t->expert + trace_at(t, (uint32_t)match[i], layer);
        for (uint32_t k = 0; k < t->top_k; k++)
            if (e[k] != IG_NO_EXPERT) p->score[e[k]] += weight[i] / total;
    }
}

static uint32_t next(struct predictor *p, uint32_t row, uint32_t layer, uint32_t dist,
                     uint16_t *out)
{
    const struct trace *t = p->t;
    uint32_t d = t->n_dist; /* the nearest stored distance that is not beyond what is known */
    for (uint32_t i = 0; i < t->n_dist; i++)
        if (t->dist[i] >= dist && d == t->n_dist) d = i;
    if (d == t->n_dist || t->dist[d] > layer) return 0;
    return take(
        out, t->predicted + (size_t)d * t->n_row * t->n_layer * t->top_k + trace_at(t, row, layer),
        t->top_k);
}

static struct cell *cells_of(const struct predictor *p, uint32_t layer, uint32_t dist)
{
    const size_t per = (size_t)(p->t->top_k + 1) * VOTE_LEVELS;
    return p->cell + ((size_t)layer * (IG_MAX_DIST + 1) + dist) * per;
}

static uint16_t *feature_of(const struct predictor *p, uint32_t layer, uint32_t dist)
{
    return p->feature + ((size_t)layer * (IG_MAX_DIST + 1) + dist) * p->t->n_expert;
}

/* Turns votes (in score) and next's experts into probabilities (in score). */
static void weigh(struct predictor *p, uint32_t layer, uint32_t dist, const uint16_t *next_says,
                  uint32_t n)
{
    const uint32_t experts = p->t->n_expert, k = p->t->top_k;
    uint16_t *feature = feature_of(p, layer, dist);
    const struct cell *cell = cells_of(p, layer, dist);

    for (uint32_t e = 0; e < experts; e++) {
        const float v = p->score[e] * (VOTE_LEVELS - 1) + 0.999f; /* level 0: no vote at all */
        feature[e] =
            (uint16_t)(k * VOTE_LEVELS + (v >= VOTE_LEVELS ? VOTE_LEVELS - 1 : (uint32_t)v));
    }
    for (uint32_t i = 0; i < n; i++)
        feature[next_says[i]] = (uint16_t)(feature[next_says[i]] % VOTE_LEVELS + i * VOTE_LEVELS);
    for (uint32_t e = 0; e < experts; e++) {
        const struct cell *c = &cell[feature[e]];
        /* Before anything was counted: ranks and votes are taken at their word, 4 times seen. */
        const uint32_t rank = feature[e] / VOTE_LEVELS;
        const float from_next = rank < k ? 0.9f - 0.5f * (float)rank / (float)k : 0;
        const float prior = from_next > p->score[e] ? from_next : p->score[e];
        p->score[e] = (c->chosen + 4 * prior) / (c->all + 4);
        if (p->score[e] < p->least) p->score[e] = 0;
    }
    p->asked[layer * (IG_MAX_DIST + 1) + dist] = 1;
}

/* What became of the row's questions. */
static void learn(struct predictor *p, uint32_t row)
{
    const struct trace *t = p->t;
    for (uint32_t i = 0; i < t->n_layer * (IG_MAX_DIST + 1); i++) {
        const uint32_t layer = i / (IG_MAX_DIST + 1), dist = i % (IG_MAX_DIST + 1);
        const uint16_t *chosen = t->expert + trace_at(t, row, layer);
        const uint16_t *feature = feature_of(p, layer, dist);
        struct cell *cell = cells_of(p, layer, dist);
        if (!p->asked[i]) continue;
        p->asked[i] = 0;
        for (uint32_t e = 0; e < t->n_expert; e++) cell[feature[e]].all += 1;
        for (uint32_t k = 0; k < t->top_k; k++)
            if (chosen[k] != IG_NO_EXPERT) cell[feature[chosen[k]]].chosen += 1;
    }
}

uint32_t ig_predict(struct predictor *p, uint32_t row, uint32_t layer, uint32_t dist, uint16_t *out)
{
    const struct trace *t = p->t;
    uint32_t n;
    switch (p->kind) {
    case PREDICT_LAST:
        if (p->previous < 0) return 0;
        return take(out, t->expert + trace_at(t, (uint32_t)p->previous, layer), t->top_k);
    case PREDICT_HISTORY:
        return dist > layer ? 0 : history(p, row, layer, dist, out);
    case PREDICT_NEXT:
        return dist > layer ? 0 : next(p, row, layer, dist, out);
    case PREDICT_TOKEN:
        memset(p->score, 0, t->n_expert * sizeof *p->score);
        vote(p, row, layer);
        return best_of(p, out);
    case PREDICT_HYBRID:
        memset(p->score, 0, t->n_expert * sizeof *p->score);
        vote(p, row, layer);
        n = dist > layer ? 0 : next(p, row, layer, dist, out);
        weigh(p, layer, dist > layer ? 0 : dist, out, n);
        return best_of(p, out);
    case PREDICT_PERFECT:
    case N_PREDICT:
        break;
    }
    return take(out, t->expert + trace_at(t, row, layer), t->top_k);
}

void ig_predict_row(struct predictor *p, uint32_t row)
{
    if (p->kind == PREDICT_HYBRID) learn(p, row);
    p->before[row] = p->previous;
    p->previous = (int32_t)row;
    if (!p->t->token) return;
    p->chain[row] = p->seen[p->t->token[row]];
    p->seen[p->t->token[row]] = (int32_t)row;
}

double ig_predict_recall(const struct trace *t, const struct run_rows *rows, enum predict_kind kind,
                         const uint8_t *train, uint32_t dist, double *weighted, double *asked)
{
    struct predictor p;
    double right = 0, all = 0, right_w = 0, all_w = 0;
    uint16_t got[256];
    ig_predict_init(&p, kind, t, train, dist);
    for (uint32_t i = 0; i < rows->n; i++) {
        const uint32_t row = rows->row[i];
        for (uint32_t l = dist; rows->counted[i] && l < t->n_layer; l++) {
            const size_t at = trace_at(t, row, l);
            const uint32_t n = ig_predict(&p, row, l, dist, got);
            for (uint32_t k = 0; k < t->top_k; k++) {
                if (t->expert[at + k] == IG_NO_EXPERT) continue;
                const double w = (double)t->weight[at + k];
                int in = 0;
                for (uint32_t g = 0; g < n; g++) in |= got[g] == t->expert[at + k];
                right += in, all += 1, right_w += in * w, all_w += w;
            }
        }
        ig_predict_row(&p, row);
    }
    ig_predict_free(&p);
    if (weighted) *weighted = all_w > 0 ? right_w / all_w : 0;
    if (asked) *asked = all;
    return all > 0 ? right / all : 0;
}
