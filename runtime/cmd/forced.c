/* forced.c -- a trace as a source of expert choices. */
#include "forced.h"

#include "config.h"

#include <stdlib.h>

enum { PREDICTED = (IG_MAX_DIST + 1) * IG_N_LAYER * IG_N_EXPERT_USED };

enum ig_err ig_forced_open(struct ig_forced *r, const char *path, struct ig_why *why)
{
    *r = (struct ig_forced){ .row = 0 };
    if (ig_trace_read(&r->t, path) != 0) return ig_fail(why, IG_BAD_FILE, "%s: %s", path, r->t.why);
    if (r->t.n_expert != IG_N_EXPERT || r->t.top_k != IG_N_EXPERT_USED) {
        const uint32_t n = r->t.n_expert, k = r->t.top_k;
        ig_forced_close(r);
        return ig_fail(why, IG_MISMATCH,
                       "%s: want a trace of %d experts, %d used, as the model's, got %u, %u used",
                       path, IG_N_EXPERT, IG_N_EXPERT_USED, n, k);
    }
    r->expert = malloc(sizeof *r->expert * IG_N_LAYER * IG_N_EXPERT_USED);
    r->weight = malloc(sizeof *r->weight * IG_N_LAYER * IG_N_EXPERT_USED);
    if (r->t.predicted) r->predicted = malloc(sizeof *r->predicted * PREDICTED);
    if (r->expert && r->weight && !r->t.predicted == !r->predicted) return IG_OK;
    ig_forced_close(r);
    return ig_fail(why, IG_NO_MEM, "%s: no memory for a row", path);
}

void ig_forced_close(struct ig_forced *r)
{
    ig_trace_free(&r->t);
    free(r->expert);
    free(r->weight);
    free(r->predicted);
    *r = (struct ig_forced){ .row = 0 };
}

/* Each distance takes the nearest stored one that is not shorter, else the longest. */
static void predicted(struct ig_forced *r)
{
    const size_t cells = (size_t)r->t.n_row * r->t.n_layer * r->t.top_k;
    for (uint32_t d = 0; d <= IG_MAX_DIST; d++) {
        uint32_t i = 0;
        while (i + 1 < r->t.n_dist && r->t.dist[i] < d) i++;
        for (uint32_t l = 0; l < IG_N_LAYER; l++)
            for (int k = 0; k < IG_N_EXPERT_USED; k++) {
                const uint16_t x =
                    r->t.predicted[i * cells + trace_at(&r->t, r->row, l % r->t.n_layer) +
                                   (size_t)k];
                r->predicted[(d * IG_N_LAYER + l) * IG_N_EXPERT_USED + (uint32_t)k] =
                    x == IG_NO_EXPERT ? -1 : x;
            }
    }
}

int32_t ig_forced_token(const struct ig_forced *r, int32_t other)
{
    return r->t.token ? r->t.token[r->row] % IG_N_VOCAB : other;
}

static int has(const int32_t *row, int32_t expert)
{
    int found = 0;
    for (int k = 0; k < IG_N_EXPERT_USED; k++) found |= row[k] == expert;
    return found;
}

/* Where a row did not route: any experts do, but the same ones each time, and none twice. */
static void fill_in(int32_t *row)
{
    int32_t next = 0;
    for (int k = 0; k < IG_N_EXPERT_USED; k++) {
        if (row[k] >= 0) continue;
        while (has(row, next)) next++;
        row[k] = next;
    }
}

void ig_forced_next(struct ig_forced *r, struct ig_engine *e)
{
    for (uint32_t l = 0; l < IG_N_LAYER; l++) {
        const size_t from = trace_at(&r->t, r->row, l % r->t.n_layer);
        int32_t *const row = r->expert + (size_t)l * IG_N_EXPERT_USED;
        for (int k = 0; k < IG_N_EXPERT_USED; k++) {
            const uint16_t x = r->t.expert[from + (size_t)k];
            row[k] = x == IG_NO_EXPERT ? -1 : x;
            r->weight[l * IG_N_EXPERT_USED + (uint32_t)k] = r->t.weight[from + (size_t)k];
        }
        fill_in(row);
    }
    if (r->predicted) predicted(r);
    r->row = (r->row + 1) % r->t.n_row;
    ig_set_choices(e, r->expert, r->weight, r->predicted);
}
