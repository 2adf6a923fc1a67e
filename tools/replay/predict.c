/* predict.c -- predictors of the study; see predict.h. */
#include "predict.h"

#include <stdlib.h>
#include <string.h>

#include "sim.h"

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
    p->token_layers = 3;
    p->previous = -1;
    p->score = ig_zalloc(t->n_expert, sizeof *p->score);
    for (uint32_t i = 0; t->token && i < t->n_row; i++)
        if ((uint32_t)t->token[i] >= p->n_token) p->n_token = (uint32_t)t->token[i] + 1;
    p->seen = ig_zalloc(p->n_token + 1, sizeof *p->seen);
    for (uint32_t i = 0; i < p->n_token; i++) p->seen[i] = -1;
    for (uint32_t d = 1; kind == PREDICT_HISTORY && d <= max_dist && d <= IG_MAX_DIST; d++) {
        p->joint[d - 1] = ig_zalloc((size_t)t->n_layer * t->n_expert * t->n_expert, sizeof(float));
        count_joint(t, train, d, p->joint[d - 1]);
    }
}

void ig_predict_free(struct predictor *p)
{
    for (int d = 0; d < IG_MAX_DIST; d++) free(p->joint[d]);
    free(p->seen);
    free(p->score);
}

static uint32_t take(uint16_t *out, const uint16_t *from, uint32_t k)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < k; i++)
        if (from[i] != IG_NO_EXPERT) out[n++] = from[i];
    return n;
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
    for (uint32_t n = 0; n < t->top_k; n++) {
        size_t best = 0;
        for (size_t b = 1; b < e; b++)
            if (p->score[b] > p->score[best]) best = b;
        out[n] = (uint16_t)best;
        p->score[best] = -1;
    }
    return t->top_k;
}

static uint32_t by_token(struct predictor *p, uint32_t row, uint32_t layer, uint16_t *out)
{
    const struct trace *t = p->t;
    if (!t->token || p->seen[t->token[row]] < 0) return 0;
    return take(out, t->expert + trace_at(t, (uint32_t)p->seen[t->token[row]], layer), t->top_k);
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
        return layer < p->token_layers ? by_token(p, row, layer, out) : 0;
    case PREDICT_HYBRID:
        n = layer < p->token_layers || dist > layer ? by_token(p, row, layer, out) : 0;
        return n || dist > layer ? n : next(p, row, layer, dist, out);
    case PREDICT_PERFECT:
    case N_PREDICT:
        break;
    }
    return take(out, t->expert + trace_at(t, row, layer), t->top_k);
}

void ig_predict_row(struct predictor *p, uint32_t row)
{
    p->previous = row;
    if (p->t->token) p->seen[p->t->token[row]] = row;
}
