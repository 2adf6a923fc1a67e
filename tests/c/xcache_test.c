/* xcache against the obvious model under random operations, for every runtime policy. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "xcache.h"

enum { LAYERS = 5, EXPERTS = 9, IDS = LAYERS * EXPERTS, SETS = 3, SLOTS = 11 };

/* Uneven on purpose: sets of 2, 3 and 6 ways, shared by 2, 1 and 2 layers. */
static const uint16_t set_of[LAYERS] = { 0, 0, 1, 2, 2 };
static const uint32_t first[SETS + 1] = { 0, 2, 5, 11 };
static const struct ig_xgeom geom = { LAYERS, EXPERTS, SETS, SLOTS, set_of, first };

static uint64_t seed = 1;
static uint32_t rnd(uint32_t n)
{
    seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
    return (uint32_t)(seed >> 33) % n;
}

/* The model: per expert where it is and what is done to it. */
struct model {
    int state;       /* enum ig_xstate */
    int pins, early; /* enum ig_xearly */
    uint64_t used;
};

static void *start(struct ig_xcache *c, const struct ig_policy *policy)
{
    const size_t bytes = ig_xcache_bytes(&geom, policy, NULL);
    assert_true(bytes > 0 && bytes % 64 == 0);
    void *mem = aligned_alloc(64, bytes);
    assert_non_null(mem);
    memset(mem, 0xa5, bytes); /* nothing may rely on zeroed memory */
    ig_xcache_init(c, &geom, policy, NULL, mem);
    return mem;
}

static int in_set(const struct model *m, uint32_t set)
{
    int n = 0;
    for (uint32_t id = 0; id < IDS; id++)
        n += set_of[id / EXPERTS] == set && m[id].state != IG_XC_EMPTY;
    return n;
}

/* A victim, if need be; `awaited`: as the last resort. */
static int is_free(const struct model *m, int awaited)
{
    return m->state == IG_XC_READY && !m->pins && (m->early == IG_XC_AWAITED) == awaited;
}
static int free_in_set(const struct model *m, uint32_t set, int awaited)
{
    int n = 0;
    for (uint32_t id = 0; id < IDS; id++)
        n += set_of[id / EXPERTS] == set && is_free(&m[id], awaited);
    return n;
}

static void claim(struct ig_xcache *c, struct model *m, uint32_t id, int lru)
{
    const uint32_t set = set_of[id / EXPERTS], ways = first[set + 1] - first[set];
    const int full = (uint32_t)in_set(m, set) == ways, early = (int)rnd(2);
    const int awaited = !early && free_in_set(m, set, 0) == 0;
    const int can = free_in_set(m, set, awaited);
    const int slot = ig_xcache_claim(c, id / EXPERTS, id % EXPERTS, early);

    if (full && !can) {
        assert_int_equal(slot, IG_XC_MISS);
        return;
    }
    if (slot == IG_XC_REFUSED) {
        assert_true(full && c->policy->admit && !early);
        return;
    }
    assert_in_range(slot, first[set], first[set + 1] - 1);
    int lost = -1, n_lost = 0;
    for (int v = 0; v < IDS; v++)
        if (m[v].state != IG_XC_EMPTY &&
            ig_xcache_find(c, (uint32_t)v / EXPERTS, (uint32_t)v % EXPERTS) < 0)
            lost = v, n_lost++;
    assert_int_equal(n_lost, full);
    if (full) {
        assert_true(is_free(&m[lost], awaited));
        assert_int_equal(set_of[lost / EXPERTS], set);
        for (uint32_t v = 0; lru && v < IDS; v++)
            if (set_of[v / EXPERTS] == set && is_free(&m[v], awaited))
                assert_true(m[v].used >= m[lost].used);
        m[lost].state = IG_XC_EMPTY;
        m[lost].early = 0;
    }
    m[id].state = IG_XC_FILLING;
    m[id].early = early ? IG_XC_AWAITED : IG_XC_DEMANDED;
    m[id].pins = 0;
}

static void passed(struct ig_xcache *c, struct model *m, uint32_t layer)
{
    uint32_t n = 0;
    for (uint32_t id = layer * EXPERTS; id < (layer + 1) * EXPERTS; id++)
        if (m[id].early == IG_XC_AWAITED) m[id].early = IG_XC_PASSED, n++;
    assert_int_equal(ig_xcache_passed(c, layer), n);
}

static void compare(const struct ig_xcache *c, const struct model *m)
{
    uint8_t taken[SLOTS] = { 0 };
    for (uint32_t id = 0; id < IDS; id++) {
        const int slot = ig_xcache_find(c, id / EXPERTS, id % EXPERTS);
        assert_int_equal(slot >= 0, m[id].state != IG_XC_EMPTY);
        if (slot < 0) continue;
        assert_int_equal(taken[slot]++, 0);
        assert_int_equal(c->slot[slot].id, id);
        assert_int_equal(c->slot[slot].state, m[id].state);
        assert_int_equal(c->slot[slot].pins, m[id].pins);
        assert_int_equal(c->slot[slot].early, m[id].early);
    }
}

static void step(struct ig_xcache *c, struct model *m, int lru, uint64_t *clock)
{
    const uint32_t id = rnd(IDS), layer = id / EXPERTS, expert = id % EXPERTS;
    const int slot = ig_xcache_find(c, layer, expert);
    switch (rnd(8)) {
    case 0:
        ig_xcache_token(c, (int32_t)rnd(6) - 1);
        passed(c, m, layer);
        break;
    case 1:
    case 2:
        assert_int_equal(ig_xcache_use(c, layer, expert, 0.5f), slot);
        m[id].used = ++*clock;
        m[id].early = 0;
        break;
    case 3:
    case 4:
        if (slot < 0) claim(c, m, id, lru);
        break;
    case 5:
        if (slot >= 0 && m[id].pins < 3) {
            ig_xcache_pin(c, slot);
            m[id].pins++;
        }
        ig_xcache_predict(c, layer, expert);
        break;
    case 6:
        if (slot >= 0 && m[id].pins > 0) {
            ig_xcache_unpin(c, slot);
            m[id].pins--;
        }
        break;
    default:
        if (slot < 0 || m[id].state != IG_XC_FILLING) break;
        if (m[id].pins || rnd(4)) {
            ig_xcache_ready(c, slot);
            m[id].state = IG_XC_READY;
        } else {
            ig_xcache_drop(c, slot);
            m[id].state = IG_XC_EMPTY;
            m[id].early = 0;
        }
    }
}

static void random_operations(void **state)
{
    const struct ig_policy *policy = *state;
    struct ig_xcache c;
    struct model m[IDS] = { { 0 } };
    void *mem = start(&c, policy);
    uint64_t clock = 0, uses = 0;

    ig_xcache_token(&c, 0);
    for (int i = 0; i < 100000; i++) {
        step(&c, m, policy == &ig_policy_lru, &clock);
        if (i % 7 == 0) compare(&c, m);
    }
    for (int l = 0; l < LAYERS; l++) {
        const struct ig_xcount *n = &c.count[l];
        uses += n->hit + n->late + n->miss;
        assert_true(n->early_used + n->early_lost <= n->early);
    }
    assert_true(uses == clock);
    free(mem);
}

static void full_of_work(void **state)
{
    (void)state;
    struct ig_xcache c;
    void *mem = start(&c, &ig_policy_lru);
    ig_xcache_token(&c, -1);
    const int a = ig_xcache_claim(&c, 0, 1, 0), b = ig_xcache_claim(&c, 1, 1, 0);
    assert_int_not_equal(a, b);
    assert_int_equal(ig_xcache_claim(&c, 0, 2, 0), IG_XC_MISS); /* both filling */
    ig_xcache_ready(&c, a);
    ig_xcache_pin(&c, a);
    assert_int_equal(ig_xcache_claim(&c, 0, 2, 0), IG_XC_MISS); /* pinned, filling */
    ig_xcache_unpin(&c, a);
    assert_int_equal(ig_xcache_claim(&c, 0, 2, 0), a);
    assert_int_equal(ig_xcache_find(&c, 1, 1), b); /* same expert number, other layer: own tag */
    assert_int_equal(ig_xcache_find(&c, 0, 1), IG_XC_MISS);
    assert_int_equal(c.count[0].refused, 2);
    assert_int_equal(c.count[0].evict, 1);
    free(mem);
}

static void bad_geometry(void **state)
{
    (void)state;
    const uint32_t falling[] = { 0, 3, 2, 11 }, hole[] = { 0, 0, 5, 11 };
    const uint16_t stray[LAYERS] = { 0, 0, 1, 2, 3 };
    struct ig_xgeom g = geom;
    g.first = falling;
    assert_int_equal(ig_xcache_bytes(&g, &ig_policy_lru, NULL), 0);
    g.first = hole;
    assert_int_equal(ig_xcache_bytes(&g, &ig_policy_lru, NULL), 0);
    g = geom;
    g.set_of = stray;
    assert_int_equal(ig_xcache_bytes(&g, &ig_policy_lru, NULL), 0);
    g = geom;
    g.n_slot = 12;
    assert_int_equal(ig_xcache_bytes(&g, &ig_policy_lru, NULL), 0);
}

int main(void)
{
#define RANDOM(p)                                                                                  \
    {                                                                                              \
        "random operations, " #p, random_operations, NULL, NULL, (void *)(uintptr_t)&ig_policy_##p \
    }
    const struct CMUnitTest tests[] = {
        RANDOM(lru),
        RANDOM(lru2),
        RANDOM(decay),
        RANDOM(echo),
        RANDOM(echo_admit),
        RANDOM(static),
        cmocka_unit_test(full_of_work),
        cmocka_unit_test(bad_geometry),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests_name("xcache", tests, NULL, NULL);
}
