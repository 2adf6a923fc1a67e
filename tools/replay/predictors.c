/* predictors.c -- feeds a trace to the engine's predictors; see predictors.h. */
#include "predictors.h"

#include <stdlib.h>
#include <string.h>

#include "sim.h"

const char *const ig_predict_name[N_PREDICT] = { "last",    "token",  "perfect", "next-router",
                                                 "history", "hybrid", "forest",  "mlp" };

static const struct ig_predictor *const engine_of[N_PREDICT] = {
    [PREDICT_NEXT] = &ig_predictor_next_router, [PREDICT_HISTORY] = &ig_predictor_history,
    [PREDICT_HYBRID] = &ig_predictor_hybrid,    [PREDICT_FOREST] = &ig_predictor_forest,
    [PREDICT_MLP] = &ig_predictor_mlp,
};

/* joint[dist - 1][l][a][b]: chance in 1/255 that layer l + dist chose b when l chose a, on the
 * training rows.  gen/history.lua counts the same. */
static void count_joint(const struct trace *t, const uint8_t *train, uint32_t dist, uint8_t *joint)
{
    const size_t e = t->n_expert, rows = t->n_layer * e;
    uint32_t *n = ig_zalloc(rows * e, sizeof *n), *all = ig_zalloc(rows, sizeof *all);
    for (uint32_t row = 0; row < t->n_row; row++) {
        for (uint32_t l = 0; train[row] && l + dist < t->n_layer; l++) {
            const uint16_t *a = t->expert + trace_at(t, row, l);
            const uint16_t *b = t->expert + trace_at(t, row, l + dist);
            for (uint32_t i = 0; i < t->top_k; i++) {
                if (a[i] == IG_NO_EXPERT) continue;
                all[l * e + a[i]]++;
                for (uint32_t j = 0; j < t->top_k; j++)
                    if (b[j] != IG_NO_EXPERT) n[(l * e + a[i]) * e + b[j]]++;
            }
        }
    }
    /* The 2 stands for "never seen" and keeps rare rows quiet. */
    for (size_t r = 0; r < rows; r++)
        for (size_t b = 0; b < e; b++)
            joint[r * e + b] = (uint8_t)((255 * n[r * e + b] + (all[r] + 2) / 2) / (all[r] + 2));
    free(n);
    free(all);
}

void ig_predict_init(struct predictor *p, enum predict_kind kind, const struct trace *t,
                     const struct learned *from, uint32_t max_dist)
{
    const uint32_t n_embd = from && from->hidden ? from->hidden->n_embd : 0;
    const struct ig_pshape s = { t->n_layer, t->n_expert, t->top_k, n_embd };
    *p = (struct predictor){ .kind = kind, .t = t, .engine = engine_of[kind], .row = -1 };
    if (from) p->from = *from;
    p->previous = -1;
    p->chance = ig_zalloc(t->n_expert, sizeof *p->chance);
    p->hidden = ig_zalloc(n_embd, sizeof *p->hidden);
    if (p->from.file) p->tables = p->from.file->t;
    if (kind == PREDICT_HISTORY && p->from.train) {
        const size_t each = (size_t)t->n_layer * t->n_expert * t->n_expert;
        p->tables.n_joint = max_dist < IG_PREDICT_DIST ? max_dist : IG_PREDICT_DIST;
        p->tables.joint = p->joint = ig_zalloc(each, p->tables.n_joint);
        for (uint32_t d = 1; d <= p->tables.n_joint; d++)
            count_joint(t, p->from.train, d, p->joint + (d - 1) * each);
    }
    if (p->engine) {
        p->state = ig_zalloc(p->engine->bytes(&s, &p->tables), 1);
        p->engine->init(p->state, &s, &p->tables);
    } else {
        p->sense_mem = ig_zalloc(ig_sense_bytes(&s), 1);
        ig_sense_init(&p->sense, &s, p->sense_mem);
    }
}

void ig_predict_free(struct predictor *p)
{
    free(p->state);
    free(p->sense_mem);
    free(p->joint);
    free(p->chance);
    free(p->hidden);
}

static void ids(const struct trace *t, uint32_t row, uint32_t layer, int32_t *id)
{
    const uint16_t *e = t->expert + trace_at(t, row, layer);
    for (uint32_t k = 0; k < t->top_k; k++) id[k] = e[k] == IG_NO_EXPERT ? -1 : e[k];
}

/* The predictor learns that `row` has begun and what its first layers chose. */
static void feed(struct predictor *p, uint32_t row, uint32_t layers)
{
    const struct trace *t = p->t;
    const int32_t token = t->token ? t->token[row] : -1;
    int32_t id[256];
    if (p->row != row) {
        if (p->engine)
            p->engine->token(p->state, token);
        else
            ig_sense_token(&p->sense, token);
        p->row = row;
        p->fed = 0;
    }
    for (; p->fed < layers; p->fed++) {
        ids(t, row, p->fed, id);
        if (p->engine)
            p->engine->use(p->state, 0, p->fed, id, t->weight + trace_at(t, row, p->fed));
        else
            ig_sense_use(&p->sense, 0, p->fed, id);
    }
}

static uint32_t take(uint16_t *out, const uint16_t *from, uint32_t k)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < k; i++)
        if (from[i] != IG_NO_EXPERT) out[n++] = from[i];
    return n;
}

/* Next-router's stored list: of the nearest stored distance that is not beyond what is known. */
static const int32_t *stored(const struct trace *t, uint32_t row, uint32_t layer, uint32_t dist,
                             int32_t *id)
{
    uint32_t d = 0;
    while (d < t->n_dist && t->dist[d] < dist) d++;
    if (dist == 0 || d == t->n_dist || t->dist[d] > layer) return NULL;
    const uint16_t *from =
        t->predicted + (size_t)d * t->n_row * t->n_layer * t->top_k + trace_at(t, row, layer);
    for (uint32_t k = 0; k < t->top_k; k++) id[k] = from[k] == IG_NO_EXPERT ? -1 : from[k];
    return id;
}

static struct ig_pask question(struct predictor *p, uint32_t row, uint32_t layer, uint32_t dist,
                               int32_t *next)
{
    struct ig_pask a = { .layer = layer, .dist = dist };
    a.next = stored(p->t, row, layer, dist, next);
    if (p->from.hidden && dist) {
        ig_hidden_row(p->from.hidden, row, layer - dist, p->hidden);
        a.hidden = p->hidden;
    }
    return a;
}

uint32_t ig_predict(struct predictor *p, uint32_t row, uint32_t layer, uint32_t dist, uint16_t *out)
{
    const struct trace *t = p->t;
    int32_t next[256], best[256];
    if (dist > layer) dist = 0;
    if (p->kind == PREDICT_PERFECT) return take(out, t->expert + trace_at(t, row, layer), t->top_k);
    if (p->kind == PREDICT_LAST)
        return p->previous < 0
                   ? 0
                   : take(out, t->expert + trace_at(t, (uint32_t)p->previous, layer), t->top_k);
    feed(p, row, dist ? layer - dist + 1 : 0);
    if (p->engine) {
        const struct ig_pask a = question(p, row, layer, dist, next);
        p->engine->ask(p->state, &a, p->chance);
    } else {
        ig_sense_vote(&p->sense, layer, p->chance);
    }
    const int n = ig_predict_best(p->chance, t->n_expert, t->top_k, p->least, best);
    for (int i = 0; i < n; i++) out[i] = (uint16_t)best[i];
    return (uint32_t)n;
}

void ig_predict_features(struct predictor *p, uint32_t row, uint32_t layer, uint32_t dist,
                         uint8_t (*f)[IG_N_PFEATURE])
{
    int32_t next[256];
    if (dist > layer) dist = 0;
    feed(p, row, dist ? layer - dist + 1 : 0);
    const struct ig_pask a = question(p, row, layer, dist, next);
    ig_sense_features(&p->sense, &a, &p->tables, f);
}

void ig_predict_row(struct predictor *p, uint32_t row)
{
    feed(p, row, p->t->n_layer);
    p->previous = (int32_t)row;
    p->row = -1;
}

double ig_predict_recall(const struct trace *t, const struct run_rows *rows, enum predict_kind kind,
                         const struct learned *from, uint32_t dist, double *weighted, double *asked)
{
    struct predictor p;
    double right = 0, all = 0, right_w = 0, all_w = 0;
    uint16_t got[256];
    ig_predict_init(&p, kind, t, from, dist);
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
