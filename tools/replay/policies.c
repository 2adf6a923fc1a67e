/* policies.c -- names of policies, and the future for those that may know it. */
#include "policies.h"

#include <stdlib.h>
#include <string.h>

const struct policy_entry ig_policies[] = {
    { &ig_policy_lru, "least recently used" },
    { &ig_policy_lru2, "two-level LRU: recent or predicted (window 1)" },
    { &ig_policy_decay, "decayed frequency (half-life 16)" },
    { &ig_policy_echo, "decayed frequency + what followed this token before (16, factor 0.4)" },
    { &ig_policy_echo_admit, "the same, and may leave out a newcomer of little value" },
    { &ig_policy_static, "hot table from the --train documents" },
    { &ig_policy_belady, "farthest next use: the bound" },
    { &ig_policy_belady_bypass, "the same, and may leave out what was just used" },
    { &ig_policy_arc, "adaptive replacement cache" },
    { &ig_policy_lirs, "low inter-reference recency (share of cold ways 0.5)" },
    { &ig_policy_tinylfu, "LRU, admission by decayed frequency (half-life 32)" },
    { &ig_policy_score, "decayed sum of weight^p (half-life 32, p 0.5)" },
    { &ig_policy_mix, "two decayed frequencies (half-lives 6, 64, share of the fast 0.5)" },
    { &ig_policy_pred, "decayed frequency + co-occurrence over rows (half-life 32, factor 1)" },
    { &ig_policy_tokid, "decayed frequency + what followed this token id (half-life 32, "
                        "factor 1, first layers: all)" },
    { NULL, NULL },
};

const struct ig_policy *ig_policy_parse(const char *spec, size_t len, struct ig_policy_arg *arg)
{
    const char *colon = memchr(spec, ':', len);
    const size_t name = colon ? (size_t)(colon - spec) : len;
    memset(arg->num, 0, sizeof arg->num);
    for (int i = 0; colon && i < 3; i++) {
        char *end;
        arg->num[i] = strtod(colon + 1, &end);
        if (end == colon + 1 || end > spec + len) return NULL;
        if (end == spec + len)
            colon = NULL;
        else if (*end == ':' && i < 2)
            colon = end;
        else
            return NULL;
    }
    for (const struct policy_entry *e = ig_policies; e->policy; e++)
        if (strlen(e->policy->name) == name && !memcmp(e->policy->name, spec, name))
            return e->policy;
    return NULL;
}

void ig_future(const struct trace *t, const struct run_rows *rows, uint32_t **first,
               uint32_t **when)
{
    const uint32_t ids = t->n_layer * t->n_expert, per_row = t->n_layer * t->top_k;
    uint32_t *f = ig_zalloc((size_t)ids + 1, sizeof *f);
    uint32_t *fill = ig_zalloc(ids, sizeof *fill);
    uint32_t *w = ig_zalloc((size_t)rows->n * per_row, sizeof *w);

    for (int pass = 0; pass < 2; pass++) {
        uint32_t at = 0; /* first row of the batch */
        for (uint32_t i = 0; i < rows->n; i++) {
            if (i == at + rows->batch[at]) at = i;
            for (uint32_t j = 0; j < per_row; j++) {
                const uint32_t layer = j / t->top_k;
                const uint16_t e = t->expert[(size_t)rows->row[i] * per_row + j];
                const uint32_t id = layer * t->n_expert + e;
                if (e == IG_NO_EXPERT) continue;
                if (pass == 0)
                    f[id + 1]++;
                else
                    w[f[id] + fill[id]++] = at * t->n_layer + layer * rows->batch[at] + i - at;
            }
        }
        for (uint32_t id = 0; pass == 0 && id < ids; id++) f[id + 1] += f[id];
    }
    free(fill);
    *first = f;
    *when = w;
}
