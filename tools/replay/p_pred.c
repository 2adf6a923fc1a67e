/* p_pred.c -- predictor-aware: decayed frequency plus what the row at hand says of the next ones.
 *
 * From the training rows: how many uses (discounted by 1 - 1/num[2] a row) of expert b follow a
 * row that chose a in the same layer, above b's average.  The value of b is its rate of use
 * (half-life num[0]) plus num[1] times the mean of that over the experts just chosen.
 */
#include <stdlib.h>
#include <string.h>

#include "heat.h"
#include "policies.h"

struct pred {
    struct ig_heat heat;
    double half_life, factor;
    uint32_t n_id, n_expert, k, step;
    double *count; /* [id] */
    float *lift;   /* [id] of the layer's last row */
    uint32_t *row; /* [layer] step that lift belongs to */
    float *table;  /* [layer][a][b] */
    double mem[];
};

static size_t pred_bytes(const struct ig_xgeom *g, const struct ig_policy_arg *arg)
{
    (void)arg;
    const size_t ids = (size_t)g->n_layer * g->n_expert;
    return sizeof(struct pred) + ids * (sizeof(double) + sizeof(float)) +
           ids * g->n_expert * sizeof(float) + g->n_layer * sizeof(uint32_t);
}

/* Backwards over the rows of one layer: `after` is the discounted sum of later uses. */
static void pred_train_layer(float *table, const struct sim_arg *arg, uint32_t layer, double keep)
{
    const struct trace *t = arg->t;
    const size_t e = t->n_expert;
    double *after = ig_zalloc(e, sizeof *after), *mean = ig_zalloc(e, sizeof *mean);
    double *seen = ig_zalloc(e, sizeof *seen), rows = 1;

    for (uint32_t d = t->n_doc; d-- > 0;) {
        const struct trace_doc *doc = &t->doc[d];
        memset(after, 0, e * sizeof *after);
        for (uint32_t row = doc->first + doc->tokens; row-- > doc->first;) {
            const uint16_t *chosen = t->expert + trace_at(t, row, layer);
            if (!arg->train[row]) break;
            for (uint32_t i = 0; i < t->top_k; i++) {
                if (chosen[i] == IG_NO_EXPERT) continue;
                seen[chosen[i]]++;
                for (size_t b = 0; b < e; b++) table[chosen[i] * e + b] += (float)after[b];
            }
            rows++;
            for (size_t b = 0; b < e; b++) mean[b] += after[b], after[b] *= keep;
            for (uint32_t i = 0; i < t->top_k; i++)
                if (chosen[i] != IG_NO_EXPERT) after[chosen[i]] += 1;
        }
    }
    /* Shrunk towards the mean as if 8 average rows had been seen. */
    for (size_t a = 0; a < e; a++)
        for (size_t b = 0; b < e; b++) {
            const double m = mean[b] / rows;
            table[a * e + b] = (float)(((double)table[a * e + b] + 8 * m) / (seen[a] + 8) - m);
        }
    free(after);
    free(mean);
    free(seen);
}

static void pred_init(void *state, const struct ig_xgeom *g, const struct ig_policy_arg *arg)
{
    struct pred *p = state;
    const struct sim_arg *sim = (const void *)arg;
    const double horizon = num_or(arg->num, 2, 8);
    const size_t e = g->n_expert, ids = (size_t)g->n_layer * e;

    p->half_life = num_or(arg->num, 0, 32);
    p->heat = ig_heat_start(p->half_life);
    p->factor = num_or(arg->num, 1, 1) / horizon / sim->t->top_k;
    p->n_id = (uint32_t)ids;
    p->n_expert = g->n_expert;
    p->step = 0;
    p->count = p->mem;
    p->lift = (void *)(p->count + ids);
    p->table = p->lift + ids;
    p->row = (void *)(p->table + ids * e);
    memset(p->mem, 0, pred_bytes(g, arg) - sizeof *p);
    for (uint32_t l = 0; l < g->n_layer; l++)
        pred_train_layer(p->table + l * e * e, sim, l, 1 - 1 / horizon);
}

static void pred_token(void *state, int32_t token)
{
    struct pred *p = state;
    ig_heat_step(&p->heat, p->count, p->n_id);
    (void)token;
    p->step++;
}

static void pred_use(void *state, uint32_t id, float weight, int hit)
{
    struct pred *p = state;
    const size_t e = p->n_expert, layer = id / e;
    float *lift = p->lift + layer * e;
    const float *row = p->table + id * e;
    (void)hit, (void)weight;

    if (p->row[layer] != p->step) memset(lift, 0, e * sizeof *lift);
    p->row[layer] = p->step;
    for (size_t b = 0; b < e; b++) lift[b] += row[b];
    p->count[id] += p->heat.one;
}

static double pred_value(const void *state, uint32_t id)
{
    const struct pred *p = state;
    return p->count[id] / p->heat.one * 0.693147 / p->half_life + p->factor * (double)p->lift[id];
}

const struct ig_policy ig_policy_pred = { .name = "pred",
                                          .bytes = pred_bytes,
                                          .init = pred_init,
                                          .value = pred_value,
                                          .token = pred_token,
                                          .use = pred_use };
