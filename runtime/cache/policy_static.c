/* policy_static.c -- a hot table from a trace: the experts it ranks highest stay.
 *
 * table[id] is how hot an expert was (uses in the trace).  An expert enters only in the
 * place of a colder one, so the cache settles on the hottest and then never changes.
 */
#include "policy.h"

struct fixed {
    const float *table; /* NULL: all are equal, first come first kept */
};

static size_t static_bytes(const struct ig_xgeom *g, const struct ig_policy_arg *arg)
{
    (void)arg;
    return (void)g, sizeof(struct fixed);
}

static void static_init(void *state, const struct ig_xgeom *g, const struct ig_policy_arg *arg)
{
    (void)g;
    ((struct fixed *)state)->table = arg ? arg->table : NULL;
}

static double static_value(const void *state, uint32_t id)
{
    const struct fixed *p = state;
    return p->table ? (double)p->table[id] : 0;
}

static int static_admit(void *state, uint32_t id, uint32_t victim)
{
    return static_value(state, id) > static_value(state, victim);
}

const struct ig_policy ig_policy_static = { .name = "static",
                                            .bytes = static_bytes,
                                            .init = static_init,
                                            .value = static_value,
                                            .admit = static_admit };
