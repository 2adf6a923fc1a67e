/* policy_lru2.c -- two-level LRU (ExpertFlow): victims come from the low level first.
 *
 * High: used in one of the last num[0] steps, or predicted in this step or the last.
 * Low: the rest.  Within a level the least recently used goes.  A prediction lifts an
 * expert without counting as a use, so a wrong one costs its place only for two steps.
 * Without a predictor this is LRU, because recency alone orders both levels.
 */
#include "policy.h"

struct lru2 {
    uint32_t n_id, now, window;
    uint32_t stamp[]; /* [n_id][2]: step of the last use, of the last prediction; 0: never */
};

static size_t lru2_bytes(const struct ig_xgeom *g, const struct ig_policy_arg *arg)
{
    (void)arg;
    return sizeof(struct lru2) + (size_t)g->n_layer * g->n_expert * 2 * sizeof(uint32_t);
}

static void lru2_init(void *state, const struct ig_xgeom *g, const struct ig_policy_arg *arg)
{
    struct lru2 *p = state;
    p->n_id = g->n_layer * g->n_expert;
    p->now = 2; /* stamp 0 is out of every window of the first steps */
    p->window = arg && arg->num[0] > 0 ? (uint32_t)arg->num[0] : 1;
    for (uint32_t i = 0; i < 2 * p->n_id; i++) p->stamp[i] = 0;
}

static void lru2_token(void *state, int32_t token)
{
    (void)token;
    ((struct lru2 *)state)->now++;
}

static void lru2_use(void *state, uint32_t id, float weight, int hit)
{
    struct lru2 *p = state;
    (void)weight, (void)hit;
    p->stamp[2 * id] = p->now;
}

static void lru2_predict(void *state, uint32_t id)
{
    struct lru2 *p = state;
    p->stamp[2 * id + 1] = p->now;
}

static double lru2_value(const void *state, uint32_t id)
{
    const struct lru2 *p = state;
    const uint32_t *s = &p->stamp[2 * (size_t)id];
    return (s[0] && p->now - s[0] <= p->window) || (s[1] && p->now - s[1] <= 1);
}

const struct ig_policy ig_policy_lru2 = { .name = "lru2",
                                          .bytes = lru2_bytes,
                                          .init = lru2_init,
                                          .value = lru2_value,
                                          .token = lru2_token,
                                          .use = lru2_use,
                                          .predict = lru2_predict };
