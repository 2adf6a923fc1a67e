/* miss_hear.c -- what the device says in a decode step: questions, what is to be prefetched, what
 * will be missing; see miss.h.
 */
#include "state.h"
#include "miss_int.h"
#include "device.h"
#include "device_cache.h"
#include "machine.h"
#include "panel.h"

#include <string.h>

#if IG_XC

/* Has the device told this word in the step under way? */
static int is_told(const struct ig_miss *m, const ig_told *from)
{
    return __atomic_load_n(from, __ATOMIC_RELAXED) >> 32 == m->step;
}
/* What it told; where a list's first word is there, the others are on their way. */
static int32_t told(const struct ig_miss *m, const ig_told *from)
{
    uint64_t word;
    while ((word = __atomic_load_n(from, __ATOMIC_RELAXED)) >> 32 != m->step) ig_pause();
    return (int32_t)(uint32_t)word;
}

/* Start what layers want prefetched, as far as they have said it: in the order of their numbers,
 * which the device's tables have, whatever is seen first. */
static void look(struct ig_engine *e)
{
    struct ig_miss *m = &e->miss;
    for (int l = m->looked; l < IG_N_LAYER && m->ask->split[IG_ASK_AHEAD]; l++) {
        const ig_told *guess = m->ask->guess[l];
        if (!is_told(m, guess)) continue;
        if ((uint32_t)told(m, guess + 1 + 2 * IG_GUESS_MOST) != m->fills[1] + 1) return;
        const int n = told(m, guess);
        for (int i = 0; i < n; i++)
            ig_cache_fill(e, ig_cache_ahead(e, l), told(m, guess + 1 + i),
                          told(m, guess + 1 + IG_GUESS_MOST + i), 1);
        m->looked = l + 1;
    }
}
void ig_miss_look(struct ig_engine *e) { look(e); }

enum { COPIER_LEAST = 8 }; /* threads: with fewer, thread 0 starts copies between answers */

void ig_miss_team(struct ig_engine *e)
{
    struct ig_miss *m = &e->miss;
    const int fills = m->cpu && !IG_XC_STATIC && !m->slow && m->ways > IG_N_EXPERT_USED &&
                      (m->ahead || m->behind == 1 || (m->behind < 0 && m->share < 0));
    m->copier = fills && e->team.n >= COPIER_LEAST;
    ig_team_set(&m->team, e->team.n - m->copier, NULL);
}

/* The thread that starts copies. */
static int starter(const struct ig_miss *m) { return m->copier ? m->team.n : 0; }

/* The device has asked for this layer or a later one. */
static int asked_for(const struct ig_miss *m, int layer)
{
    const uint32_t want = m->step * IG_N_LAYER + (uint32_t)layer + 1;
    return (int32_t)(__atomic_load_n(&m->ask->posted.step, __ATOMIC_ACQUIRE) - want) >= 0;
}

/* A panel into this core's second cache, until `layer` is asked for: then 0. */
static int warm_panel(const struct ig_miss *m, int layer, const unsigned char *p, uint32_t bytes)
{
    enum { LINE = 64, AT_ONCE = 1024 };
    for (uint32_t at = 0; at < bytes; at += AT_ONCE) {
        if (asked_for(m, layer)) return 0;
        for (uint32_t i = at; i < bytes && i < at + AT_ONCE; i += LINE)
            __builtin_prefetch(p + i, 0, 2);
    }
    return 1;
}

/* This thread's panels of an expert that layer `of` will lack. */
static int warm_expert(const struct ig_worker *w, int layer, int of, int expert)
{
    const struct ig_miss *m = &w->e->miss;
    const struct ig_layer *l = &ig_layers[of];
    const unsigned char *slab = ig_data(w->e, l->expert_off + (uint64_t)expert * l->expert_stride);
    int lo, hi;
    ig_team_share(&m->team, w->tid, IG_MISS_BLOCKS * IG_MISS_PARTS, &lo, &hi);
    for (int i = lo; i < hi; i++) {
        const struct ig_mat *mat = i % 2 ? &l->up : &l->gate;
        const int p = i / IG_MISS_PARTS * 2 + i % IG_MISS_PARTS / 2;
        if (p < ((int)mat->rows + 15) / 16 &&
            !warm_panel(m, layer, slab + mat->off + (uint64_t)p * mat->stride,
                        (uint32_t)ig_panel_bytes(mat->fmt, (int)mat->cols)))
            return 0;
    }
    ig_team_share(&m->team, w->tid, (IG_N_EMBD + 15) / 16, &lo, &hi);
    for (int p = lo; p < hi; p++)
        if (!warm_panel(m, layer, slab + l->down.off + (uint64_t)p * l->down.stride,
                        (uint32_t)ig_panel_bytes(l->down.fmt, (int)l->down.cols)))
            return 0;
    return 1;
}

/* Until `layer` is asked for: what the last guess says will be missing, into the threads' caches.
 */
static void warm_guessed(struct ig_worker *w, int layer)
{
    const struct ig_miss *m = &w->e->miss;
    int said = m->ask->split[IG_ASK_WARM] ? IG_N_LAYER : w->warmed;
    while (said > w->warmed && !is_told(m, m->ask->warm[said - 1])) said--;
    if (said == w->warmed) return;
    w->warmed = said;
    const int of = ig_cache_next(w->e, said - 1);
    const ig_told *list = m->ask->warm[said - 1];
    const int n = told(m, list);
    for (int i = 0; i < n && of >= layer; i++)
        if (!warm_expert(w, layer, of, told(m, list + 1 + i))) return;
}

/* The device has asked for exactly this layer. */
static int asks(const struct ig_miss *m, int layer)
{
    const uint32_t posted = __atomic_load_n(&m->ask->posted.step, __ATOMIC_ACQUIRE);
    return posted == m->step * IG_N_LAYER + (uint32_t)layer + 1 || is_told(m, m->ask->asked[layer]);
}

/* Until the device has asked for this layer or a later one; then all that was to be prefetched
 * before has been started, since what the device does next may wait for it.  A device that has
 * failed would leave us waiting; thread 0, which starts it, sees to that. */
static void await_question(struct ig_worker *w, int layer)
{
    struct ig_engine *e = w->e;
    struct ig_miss *m = &e->miss;
    for (uint32_t spins = 1; !asked_for(m, layer); spins++) {
        ig_pause();
        /* Layers that lack nothing do not ask, but the next may wait for what they want. */
        if (w->tid == starter(m)) look(e);
        if (w->tid < m->team.n) warm_guessed(w, layer);
        if (w->tid == 0 && spins % (1u << 20) == 0 && !ig_device_busy(e->device) &&
            !asked_for(m, layer))
            ig_die("device: it ended a step without asking for layer %d", layer);
    }
    if (w->tid != starter(m) || !asks(m, layer)) return;
    const uint32_t until = (uint32_t)told(m, m->ask->asked[layer] + 1 + 3 * IG_N_EXPERT_USED);
    while ((int32_t)(m->fills[1] - until) < 0) look(e);
}

/* The row that the experts read, into the thread's own. */
static void take_row(struct ig_worker *w, const struct ig_layer *l, int layer)
{
    const struct ig_miss *m = &w->e->miss;
    if (ig_is_block(l->gate.fmt) || ig_is_block(l->up.fmt)) {
        int32_t *const to = (int32_t *)(void *)w->xnq;
        for (int i = 0; i < IG_XQ_WORDS; i++) to[i] = told(m, m->ask->xq[layer] + i);
    }
    if (ig_is_block(l->gate.fmt) && (l->up.rows == 0 || ig_is_block(l->up.fmt))) return;
    for (int i = 0; i < IG_N_EMBD; i++) {
        const int32_t word = told(m, m->ask->xn[layer] + i);
        memcpy(w->xn + i, &word, sizeof word);
    }
}

/* 0: nothing was missing.  (Where something was, the device waits for those who see its post; the
 * copier may come later and sees the words.) */
static int take_question(struct ig_worker *w, int layer, struct ig_asked *q)
{
    const struct ig_miss *m = &w->e->miss;
    const ig_told *asked = m->ask->asked[layer];
    if (!asks(m, layer)) return 0;
    q->l = &ig_layers[layer];
    q->layer = layer;
    q->n = told(m, asked);
    for (int i = 0; i < q->n; i++) {
        q->rank[i] = told(m, asked + 1 + i);
        q->expert[i] = told(m, asked + 1 + IG_N_EXPERT_USED + i);
        q->way[i] = told(m, asked + 1 + 2 * IG_N_EXPERT_USED + i);
    }
    if (q->n > 0 && w->tid < m->team.n) take_row(w, q->l, layer);
    return q->n > 0;
}

int ig_miss_hear(struct ig_worker *w, int layer, struct ig_asked *q)
{
    await_question(w, layer);
    return take_question(w, layer, q);
}

#endif
