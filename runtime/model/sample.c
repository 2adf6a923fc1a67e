/* sample.c -- repetition penalty, top-k, top-p, min-p, temperature, in that order.
 *
 * The order is the one llama.cpp's users know: the filters see probabilities at
 * temperature 1, the temperature then shapes what is left.  A heap gives the
 * candidates in descending order one at a time, so a full sort is never made
 * and nothing is allocated.
 */
#include "sample.h"

#include "math.h"
#include "random.h"

static double next_unit(uint64_t *state) /* [0, 1), 53 bits */
{
    return (double)(ig_random(state) >> 11) * 0x1p-53;
}

void ig_sampler_init(struct ig_sampler *s, uint64_t seed)
{
    s->state = seed;
    s->n_last = 0;
}

void ig_sampler_accept(struct ig_sampler *s, int32_t token)
{
    const int keep = s->repeat_last_n < IG_LAST_N ? s->repeat_last_n : IG_LAST_N;
    if (keep <= 0) return;
    if (s->n_last >= keep) {
        for (int i = 1; i < s->n_last; i++) s->last[i - 1] = s->last[i];
        s->n_last--;
    }
    s->last[s->n_last++] = token;
}

/* a before b: larger logit, then lower id, so that ties have one answer. */
static int before(const struct ig_candidate *a, const struct ig_candidate *b)
{
    return a->p > b->p || (a->p == b->p && a->id < b->id);
}

static void sift_down(struct ig_candidate *h, int n, int i)
{
    for (;;) {
        int best = i;
        for (int c = 2 * i + 1; c <= 2 * i + 2 && c < n; c++)
            if (before(&h[c], &h[best])) best = c;
        if (best == i) return;
        const struct ig_candidate t = h[i];
        h[i] = h[best];
        h[best] = t;
        i = best;
    }
}

/* Divide a positive logit, multiply a negative one: Keskar et al. 2019, section 4.1. */
static void penalise(const struct ig_sampler *s, struct ig_candidate *c)
{
    if (s->repeat_penalty == 1.0f) return;
    for (int i = 0; i < s->n_last; i++) {
        int seen = 0;
        for (int j = 0; j < i && !seen; j++) seen = s->last[j] == s->last[i];
        float *const p = &c[s->last[i]].p;
        if (!seen) *p = *p > 0.0f ? *p / s->repeat_penalty : *p * s->repeat_penalty;
    }
}

/* Move the best of the heap c[0, n - out) to c[n - 1 - out]: the tail grows in descending order. */
static void pop(struct ig_candidate *c, int n, int out)
{
    const struct ig_candidate best = c[0];
    c[0] = c[n - 1 - out];
    c[n - 1 - out] = best;
    sift_down(c, n - 1 - out, 0);
}

/* Leave what the filters keep at the tail of c, the best one last; returns how many.
 * Top-p measures the mass of what top-k left; only as many are taken off the heap as needed. */
static int keep_best(const struct ig_sampler *s, struct ig_candidate *c, int n)
{
    for (int i = n / 2 - 1; i >= 0; i--) sift_down(c, n, i);
    const float max = c[0].p;
    const int k = s->top_k > 0 && s->top_k < n ? s->top_k : n;
    double total = 0.0, mass = 0.0;
    if (k < n)
        for (int i = 0; i < k; i++) pop(c, n, i);
    for (int i = 0; i < k; i++) total += (double)ig_expf(c[k < n ? n - 1 - i : i].p - max);

    int kept = 0;
    while (kept < k) {
        if (k == n) pop(c, n, kept);
        const double p = (double)ig_expf(c[n - 1 - kept].p - max);
        if (kept > 0 && (p < (double)s->min_p || mass >= (double)s->top_p * total)) break;
        mass += p;
        kept++;
    }
    return kept;
}

static int32_t draw(struct ig_sampler *s, const struct ig_candidate *c, int n, int kept)
{
    const float max = c[n - 1].p, inv = 1.0f / s->temp;
    double total = 0.0;
    for (int i = 0; i < kept; i++) total += (double)ig_expf((c[n - 1 - i].p - max) * inv);
    double u = next_unit(&s->state) * total;
    for (int i = 0; i < kept; i++) {
        u -= (double)ig_expf((c[n - 1 - i].p - max) * inv);
        if (u < 0.0) return c[n - 1 - i].id;
    }
    return c[n - kept].id;
}

int32_t ig_sample(struct ig_sampler *s, const float *logits, int n_vocab,
                  struct ig_candidate *work)
{
    for (int i = 0; i < n_vocab; i++) work[i] = (struct ig_candidate){ logits[i], i };
    penalise(s, work);
    if (s->temp <= 0.0f) {
        int best = 0;
        for (int i = 1; i < n_vocab; i++)
            if (work[i].p > work[best].p) best = i;
        return best;
    }
    return draw(s, work, n_vocab, keep_best(s, work, n_vocab));
}
