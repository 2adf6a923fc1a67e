/* policy_lru.c -- least recently used.
 *
 * Every value is equal: the cache breaks ties by the older last use, and that is LRU.
 */
#include "policy.h"

static size_t lru_bytes(const struct ig_xgeom *g, const struct ig_policy_arg *arg)
{
    (void)arg;
    return (void)g, 0;
}

static void lru_init(void *state, const struct ig_xgeom *g, const struct ig_policy_arg *arg)
{
    (void)state, (void)g, (void)arg;
}

static double lru_value(const void *state, uint32_t id) { return (void)state, (void)id, 0; }

const struct ig_policy ig_policy_lru = {
    .name = "lru", .bytes = lru_bytes, .init = lru_init, .value = lru_value
};
