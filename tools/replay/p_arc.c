/* p_arc.c -- ARC (Megiddo, Modha 2003), one per set.
 *
 * T1: resident, used once since it came; T2: resident, used again; B1, B2: ghosts of each.
 * A miss that finds its ghost in B1 says that T1 should be larger, in B2 that T2 should.  The
 * lists are kept as stamps: list number and time of entry to it; a set has few members.
 */
#include "policies.h"

enum { NOWHERE, T1, T2, B1, B2 };

struct arc {
    uint32_t n_id, n_expert;
    struct ig_xgeom g;
    double clock;
    struct arc_id {
        double stamp; /* last use */
        uint8_t list;
    } * id;
    struct arc_set {
        double target; /* wanted size of T1 */
        uint32_t size[5], ways;
        int prefer_t1; /* the next victim comes from T1 */
    } * set;
    double mem[]; /* id, set */
};

static size_t arc_bytes(const struct ig_xgeom *g, const struct ig_policy_arg *arg)
{
    (void)arg;
    return sizeof(struct arc) + (size_t)g->n_layer * g->n_expert * sizeof(struct arc_id) +
           g->n_set * sizeof(struct arc_set);
}

static void arc_init(void *state, const struct ig_xgeom *g, const struct ig_policy_arg *arg)
{
    struct arc *p = state;
    (void)arg;
    p->n_id = g->n_layer * g->n_expert;
    p->n_expert = g->n_expert;
    p->g = *g;
    p->clock = 0;
    p->id = (void *)p->mem;
    p->set = (void *)(p->id + p->n_id);
    for (uint32_t i = 0; i < p->n_id; i++) p->id[i] = (struct arc_id){ 0 };
    for (uint32_t s = 0; s < g->n_set; s++)
        p->set[s] = (struct arc_set){ .ways = g->first[s + 1] - g->first[s] };
}

static struct arc_set *arc_set_of(struct arc *p, uint32_t id)
{
    return &p->set[p->g.set_of[id / p->n_expert]];
}

static void arc_move(struct arc *p, uint32_t id, uint8_t list)
{
    struct arc_set *s = arc_set_of(p, id);
    s->size[p->id[id].list]--;
    s->size[list]++;
    p->id[id].list = list;
}

static void arc_forget_oldest(struct arc *p, const struct arc_set *s, uint8_t list)
{
    uint32_t oldest = p->n_id;
    for (uint32_t i = 0; i < p->n_id; i++)
        if (p->id[i].list == list && arc_set_of(p, i) == s &&
            (oldest == p->n_id || p->id[i].stamp < p->id[oldest].stamp))
            oldest = i;
    if (oldest < p->n_id) arc_move(p, oldest, NOWHERE);
}

static double at_least_1(uint32_t a, uint32_t b) { return a > b && b ? (double)a / b : 1; }

static void arc_use(void *state, uint32_t id, float weight, int hit)
{
    struct arc *p = state;
    struct arc_set *s = arc_set_of(p, id);
    (void)weight;
    p->id[id].stamp = ++p->clock;
    if (hit) {
        arc_move(p, id, T2);
    } else if (p->id[id].list == B1) {
        s->target += at_least_1(s->size[B2], s->size[B1]);
        if (s->target > s->ways) s->target = s->ways;
    } else if (p->id[id].list == B2) {
        s->target -= at_least_1(s->size[B1], s->size[B2]);
        if (s->target < 0) s->target = 0;
    }
    s->prefer_t1 = s->size[T1] > s->target || (p->id[id].list == B2 && s->size[T1] >= s->target);
}

static void arc_fill(void *state, uint32_t id)
{
    struct arc *p = state;
    struct arc_set *s = arc_set_of(p, id);
    const int again = p->id[id].list == B1 || p->id[id].list == B2;
    arc_move(p, id, again ? T2 : T1);
    while (s->size[T1] + s->size[B1] > s->ways && s->size[B1]) arc_forget_oldest(p, s, B1);
    while (s->size[T2] + s->size[B2] > 2 * s->ways - s->size[T1] - s->size[B1] && s->size[B2])
        arc_forget_oldest(p, s, B2);
}

static void arc_evict(void *state, uint32_t id)
{
    struct arc *p = state;
    arc_move(p, id, p->id[id].list == T1 ? B1 : B2);
}

static double arc_value(const void *state, uint32_t id)
{
    const struct arc *p = state;
    const struct arc_set *s = &p->set[p->g.set_of[id / p->n_expert]];
    const int preferred = (p->id[id].list == T1) == (s->size[T1] > s->target || s->prefer_t1);
    return p->id[id].stamp + (preferred ? 0 : 1e15);
}

const struct ig_policy ig_policy_arc = { .name = "arc",
                                         .bytes = arc_bytes,
                                         .init = arc_init,
                                         .value = arc_value,
                                         .use = arc_use,
                                         .fill = arc_fill,
                                         .evict = arc_evict };
