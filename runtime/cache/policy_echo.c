/* policy_echo.c -- decayed frequency plus what followed this token before.
 *
 * Routing follows the text.  Where the token at hand occurred before, the experts of the rows
 * after it are likely to be wanted next, the more so the longer the text before both is the same.
 * This is an LZ77 match finder over the last rows: chains of equal token ids, a match's weight
 * grows by `same` for each earlier token that agrees too.
 *
 *   value(expert) = rate of use + factor * mean over matches of sum over rows h = 1..ahead
 *                   after the match of keep^(h-1) [row chose the expert]
 *
 * num[0]: half-life of the rate in steps; num[1]: factor; num[2]: rows remembered, a power of two.
 * Without token ids it is policy_decay.c.  echo-admit also leaves a newcomer out of the cache when
 * its value is below 0.8 times the victim's: for plans that compute a miss without storing it.
 * Constants: tuned on documents 0-3 and 8 of fine-moe, docs/POLICIES.md.
 */
#include "heat.h"
#include "policy.h"

enum {
    ECHO_ROWS = 1024,  /* rows remembered by default */
    ECHO_HASH = 4096,  /* chains; a power of two */
    ECHO_MATCHES = 16, /* looked at, newest first */
    ECHO_WALK = 64,    /* links of a chain followed for them */
    ECHO_CONTEXT = 4,  /* most tokens compared */
    ECHO_AHEAD = 4,    /* rows after a match */
    ECHO_NONE = UINT32_MAX,
};
static const double echo_half_life = 16, echo_factor = 0.4, echo_keep = 0.7, echo_same = 4,
                    echo_least = 0.8;

struct echo {
    struct ig_heat heat;
    double rate, factor;
    uint32_t n_layer, n_expert, n_id, words, rows;
    uint32_t row, back; /* rows begun; uses belong to row - 1 - back */
    int stale;          /* bonus is not of the newest row */
    uint32_t head[ECHO_HASH];
    double *count;   /* [n_id] */
    uint64_t *chose; /* [rows][n_layer][words] bit sets of experts */
    float *bonus;    /* [n_id] */
    int32_t *token;  /* [rows] */
    uint32_t *prev;  /* [rows] the row before in its chain */
    double mem[];
};

static uint32_t echo_rows(const struct ig_policy_arg *arg)
{
    const double n = arg ? arg->num[2] : 0;
    uint32_t rows = 2 * ECHO_AHEAD;
    if (n < 1) return ECHO_ROWS;
    while (rows < n && rows < 1u << 20) rows *= 2;
    return rows;
}

static size_t echo_bytes(const struct ig_xgeom *g, const struct ig_policy_arg *arg)
{
    const size_t ids = (size_t)g->n_layer * g->n_expert, rows = echo_rows(arg);
    return sizeof(struct echo) + ids * sizeof(double) +
           rows * g->n_layer * ((g->n_expert + 63) / 64) * sizeof(uint64_t) + ids * sizeof(float) +
           rows * (sizeof(int32_t) + sizeof(uint32_t));
}

static void echo_init(void *state, const struct ig_xgeom *g, const struct ig_policy_arg *arg)
{
    struct echo *p = state;
    const double half_life = arg && arg->num[0] >= 1 ? arg->num[0] : echo_half_life;
    *p = (struct echo){ .heat = ig_heat_start(half_life), .rate = 0.6931 / half_life };
    p->factor = arg && arg->num[1] > 0 ? arg->num[1] : echo_factor;
    p->n_layer = g->n_layer;
    p->n_expert = g->n_expert;
    p->n_id = g->n_layer * g->n_expert;
    p->words = (g->n_expert + 63) / 64;
    p->rows = echo_rows(arg);
    p->count = p->mem;
    p->chose = (uint64_t *)(p->count + p->n_id);
    p->bonus = (float *)(p->chose + (size_t)p->rows * p->n_layer * p->words);
    p->token = (int32_t *)(p->bonus + p->n_id);
    p->prev = (uint32_t *)(p->token + p->rows);
    for (uint32_t i = 0; i < p->n_id; i++) p->count[i] = 0, p->bonus[i] = 0;
    for (uint32_t i = 0; i < p->rows; i++) p->token[i] = -1, p->prev[i] = ECHO_NONE;
    for (uint32_t i = 0; i < ECHO_HASH; i++) p->head[i] = ECHO_NONE;
}

static uint64_t *echo_chose(const struct echo *p, uint32_t row, uint32_t layer)
{
    return p->chose + ((size_t)(row & (p->rows - 1)) * p->n_layer + layer) * p->words;
}

static int32_t echo_token_of(const struct echo *p, uint32_t row)
{
    return p->token[row & (p->rows - 1)];
}

static void echo_token(void *state, int32_t token)
{
    struct echo *p = state;
    const uint32_t row = p->row++, at = row & (p->rows - 1);
    ig_heat_step(&p->heat, p->count, p->n_id);
    uint64_t *bits = echo_chose(p, row, 0);
    for (size_t i = 0; i < (size_t)p->n_layer * p->words; i++) bits[i] = 0;
    p->back = 0;
    p->stale = 1;
    p->token[at] = token;
    p->prev[at] = ECHO_NONE;
    if (token < 0) return;
    uint32_t *head = &p->head[(uint32_t)token & (ECHO_HASH - 1)];
    p->prev[at] = *head;
    *head = row;
}

static void echo_row(void *state, uint32_t back) { ((struct echo *)state)->back = back; }

static void echo_add(struct echo *p, uint32_t row, float worth)
{
    for (uint32_t l = 0; l < p->n_layer; l++) {
        const uint64_t *bits = echo_chose(p, row, l);
        float *bonus = p->bonus + (size_t)l * p->n_expert;
        for (uint32_t w = 0; w < p->words; w++)
            for (uint64_t b = bits[w]; b; b &= b - 1)
                bonus[64 * w + (uint32_t)__builtin_ctzll(b)] += worth;
    }
}

/* The matches of the newest row, and from them the bonus of every expert. */
static void echo_listen(struct echo *p)
{
    const uint32_t now = p->row - 1;
    const int32_t token = echo_token_of(p, now);
    uint32_t match[ECHO_MATCHES], n = 0, old = now;
    double weight[ECHO_MATCHES], total = 0;

    for (uint32_t i = 0; i < p->n_id; i++) p->bonus[i] = 0;
    if (token < 0) return;
    for (int step = 0; step < ECHO_WALK && n < ECHO_MATCHES; step++) {
        const uint32_t row = p->prev[old & (p->rows - 1)];
        /* Links into rows that were written over point forward or too far back: the chain ends. */
        if (row == ECHO_NONE || row >= old || now - row + ECHO_CONTEXT >= p->rows) break;
        old = row;
        if (echo_token_of(p, row) != token) continue;
        double w = 1;
        for (uint32_t i = 1; i < ECHO_CONTEXT && i <= row; i++, w *= echo_same)
            if (echo_token_of(p, row - i) != echo_token_of(p, now - i)) break;
        match[n] = row;
        weight[n++] = w;
        total += w;
    }
    for (uint32_t m = 0; m < n; m++) {
        double worth = p->factor * weight[m] / total;
        for (uint32_t h = 1; h <= ECHO_AHEAD && match[m] + h < now; h++, worth *= echo_keep)
            echo_add(p, match[m] + h, (float)worth);
    }
}

static void echo_use(void *state, uint32_t id, float weight, int hit)
{
    struct echo *p = state;
    const uint32_t layer = id / p->n_expert, expert = id % p->n_expert;
    (void)weight, (void)hit;
    if (p->stale) {
        echo_listen(p);
        p->stale = 0;
    }
    p->count[id] += p->heat.one;
    echo_chose(p, p->row - 1 - p->back, layer)[expert / 64] |= UINT64_C(1) << expert % 64;
}

static double echo_value(const void *state, uint32_t id)
{
    const struct echo *p = state;
    return p->count[id] / p->heat.one * p->rate + (double)p->bonus[id];
}

static int echo_admit(void *state, uint32_t id, uint32_t victim)
{
    return echo_value(state, id) >= echo_least * echo_value(state, victim);
}

const struct ig_policy ig_policy_echo = { .name = "echo",
                                          .bytes = echo_bytes,
                                          .init = echo_init,
                                          .value = echo_value,
                                          .token = echo_token,
                                          .row = echo_row,
                                          .use = echo_use };

const struct ig_policy ig_policy_echo_admit = { .name = "echo-admit",
                                                .bytes = echo_bytes,
                                                .init = echo_init,
                                                .value = echo_value,
                                                .token = echo_token,
                                                .row = echo_row,
                                                .use = echo_use,
                                                .admit = echo_admit };
