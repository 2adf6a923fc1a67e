/* p_tokid.c -- decayed frequency plus a token-id table.
 *
 * The row after the last occurrence of the token at hand says what may come next: experts chosen
 * there gain num[1] / 10 on their rate of use (half-life num[0]), in the first num[2] layers.
 */
#include <string.h>

#include "heat.h"
#include "policies.h"

enum { N_TOKEN = 1 << 16 }; /* ids above share a place; a wrong guess costs only its bonus */

struct tokid {
    struct ig_heat heat;
    double half_life, bonus;
    const struct sim_arg *arg;
    uint32_t n_id, n_layer, n_expert, step, layers;
    int64_t seen[N_TOKEN]; /* step of the last occurrence, -1 */
    double *count;         /* [id] */
    uint32_t *likely;      /* [id] step that its bonus belongs to */
    double mem[];
};

static size_t tokid_bytes(const struct ig_xgeom *g, const struct ig_policy_arg *arg)
{
    (void)arg;
    const size_t ids = (size_t)g->n_layer * g->n_expert;
    return sizeof(struct tokid) + ids * (sizeof(double) + sizeof(uint32_t));
}

static void tokid_init(void *state, const struct ig_xgeom *g, const struct ig_policy_arg *arg)
{
    struct tokid *p = state;
    p->half_life = num_or(arg->num, 0, 32);
    p->heat = ig_heat_start(p->half_life);
    p->bonus = num_or(arg->num, 1, 1) / 10;
    p->arg = (const void *)arg;
    p->n_id = g->n_layer * g->n_expert;
    p->n_layer = g->n_layer;
    p->n_expert = g->n_expert;
    p->layers = arg->num[2] > 0 ? (uint32_t)arg->num[2] : g->n_layer;
    p->step = 0;
    for (int i = 0; i < N_TOKEN; i++) p->seen[i] = -1;
    p->count = p->mem;
    p->likely = (void *)(p->count + p->n_id);
    memset(p->mem, 0, tokid_bytes(g, arg) - sizeof *p);
}

static void tokid_token(void *state, int32_t token)
{
    struct tokid *p = state;
    const struct trace *t = p->arg->t;
    ig_heat_step(&p->heat, p->count, p->n_id);
    p->step++;
    if (token < 0) return;

    int64_t *seen = &p->seen[token % N_TOKEN];
    /* Steps count from 1 here, the replay's rows from 0: `after` is the row index that followed. */
    const int64_t after = *seen;
    *seen = p->step;
    if (after < 0 || after >= (int64_t)p->step - 1) return;
    const uint32_t row = p->arg->rows->row[after];
    for (uint32_t l = 0; l < p->layers && l < p->n_layer; l++)
        for (uint32_t i = 0; i < t->top_k; i++) {
            const uint16_t e = t->expert[trace_at(t, row, l) + i];
            if (e != IG_NO_EXPERT) p->likely[l * p->n_expert + e] = p->step;
        }
}

static void tokid_use(void *state, uint32_t id, float weight, int hit)
{
    struct tokid *p = state;
    (void)weight, (void)hit;
    p->count[id] += p->heat.one;
}

static double tokid_value(const void *state, uint32_t id)
{
    const struct tokid *p = state;
    return p->count[id] / p->heat.one * 0.693147 / p->half_life +
           (p->likely[id] == p->step ? p->bonus : 0);
}

const struct ig_policy ig_policy_tokid = { .name = "tokid",
                                           .bytes = tokid_bytes,
                                           .init = tokid_init,
                                           .value = tokid_value,
                                           .token = tokid_token,
                                           .use = tokid_use };
