/* miss.c -- the CPU's share of a decode step's missing experts: see miss.h.
 *
 * The same kernels in the same order as moe.c, so the bits are the same whoever computes.  Copies
 * beside the work start here, too: the device says what and whereto.
 */
#include "state.h"
#include "device.h"
#include "device_cache.h"
#include "machine.h"
#include "panel.h"
#include "range.h"

#include <omp.h>
#include <stdatomic.h>
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

void ig_miss_team(struct ig_engine *e, int fills)
{
    struct ig_miss *m = &e->miss;
    m->copier = fills && e->team.n >= COPIER_LEAST;
    ig_team_set(&m->team, e->team.n - m->copier, NULL);
}

/* The thread that starts copies. */
static int starter(const struct ig_miss *m) { return m->copier ? m->team.n : 0; }

/* An expert's hidden blocks, and gate's and up's panels of one. */
enum { BLOCKS = IG_FF_PAD / IG_QBLOCK, OF_BLOCK = 4 };

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
    ig_team_share(&m->team, w->tid, BLOCKS * OF_BLOCK, &lo, &hi);
    for (int i = lo; i < hi; i++) {
        const struct ig_mat *mat = i % 2 ? &l->up : &l->gate;
        const int p = i / OF_BLOCK * 2 + i % OF_BLOCK / 2;
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

struct asked {
    const struct ig_layer *l;
    int layer, n;
    int32_t rank[IG_N_EXPERT_USED], expert[IG_N_EXPERT_USED], way[IG_N_EXPERT_USED];
};

static const unsigned char *expert_at(const struct ig_engine *e, const struct asked *q, int i)
{
    return ig_data(e, q->l->expert_off + (uint64_t)q->expert[i] * q->l->expert_stride);
}

static void bias(float *y, const unsigned char *slab, const struct ig_mat *m, int p)
{
    if (m->bias)
        ig_kern.add(y, (const float *)(const void *)(slab + m->bias) + p * IG_PANEL_ROWS,
                    IG_PANEL_ROWS);
}

/* Gate and up of the asked experts, and how many of a hidden block's panels are there. */
static _Alignas(64) float half[IG_N_EXPERT_USED][2][IG_FF_PAD];
static atomic_int there[IG_N_EXPERT_USED][BLOCKS];

/* 32 hidden values of the i-th expert: act(gate) * up, as down reads them. */
static void hidden(struct ig_worker *w, const struct asked *q, int i, int block)
{
    struct ig_engine *e = w->e;
    const int panels = ((int)q->l->gate.rows + 15) / 16, slot = q->rank[i];
    _Alignas(64) float h[IG_QBLOCK] = { 0 };
    for (int p = 2 * block; p < 2 * block + 2 && p < panels; p++)
        ig_activate(h + 16 * (p % 2), half[i][0] + 16 * p, half[i][1] + 16 * p);
    if (ig_is_block(q->l->down.fmt))
        ig_kern.quantize(IG_BUF(e, HQ, struct ig_xq) + (size_t)slot * BLOCKS + (size_t)block, h,
                         IG_QBLOCK);
    else
        memcpy(IG_BUF(e, H, float) + (size_t)slot * IG_FF_PAD + (size_t)block * IG_QBLOCK, h,
               sizeof h);
}

/* A panel of gate (part 0, 2) or up (1, 3) of the i-th expert's block; who makes the last of four
 * goes on to the hidden values. */
static void half_block(struct ig_worker *w, const struct asked *q, int i, int block, int part)
{
    const struct ig_mat *m = part % 2 ? &q->l->up : &q->l->gate;
    const unsigned char *slab = expert_at(w->e, q, i);
    const int p = 2 * block + part / 2;
    if (p < ((int)m->rows + 15) / 16) {
        const void *x = ig_is_block(m->fmt) ? (const void *)w->xnq : (const void *)w->xn;
        ig_kern.panel[m->fmt](w->ya, slab + m->off + (uint64_t)p * m->stride, &x, IG_N_EMBD, 1);
        bias(w->ya[0], slab, m, p);
        memcpy(half[i][part % 2] + 16 * p, w->ya[0], sizeof w->ya[0]);
    }
    if (atomic_fetch_add_explicit(&there[i][block], 1, memory_order_acq_rel) != OF_BLOCK - 1)
        return;
    atomic_store_explicit(&there[i][block], 0, memory_order_relaxed);
    hidden(w, q, i, block);
}

/* 16 rows of the i-th expert's output, to where the device reads it. */
static void down(struct ig_worker *w, const struct asked *q, int i, int p)
{
    struct ig_engine *e = w->e;
    const struct ig_mat *m = &q->l->down;
    const unsigned char *slab = expert_at(e, q, i);
    const size_t slot = (size_t)q->rank[i];
    const void *x =
        ig_is_block(m->fmt)
            ? (const void *)(IG_BUF(e, HQ, struct ig_xq) + slot * (IG_FF_PAD / IG_QBLOCK))
            : (const void *)(IG_BUF(e, H, float) + slot * IG_FF_PAD);
    const int rows = IG_N_EMBD - p * 16 < 16 ? IG_N_EMBD - p * 16 : 16;
    ig_kern.panel[m->fmt](w->ya, slab + m->off + (uint64_t)p * m->stride, &x, (int)m->cols, 1);
    bias(w->ya[0], slab, m, p);
    memcpy(e->miss.ask->answer + slot * IG_N_EMBD + (size_t)p * 16, w->ya[0],
           sizeof(float) * (size_t)rows);
}

/* All threads.  Items are panels, of all experts in turn, so that a thread's part of an expert does
 * not depend on how many there are (warm_expert); who is through helps the others. */
static void answer(struct ig_worker *w, const struct asked *q)
{
    struct ig_team *team = &w->e->miss.team;
    const int n = q->n, panels = (IG_N_EMBD + 15) / 16;
    int lo, hi;
    while (ig_team_take(team, w->tid, n * BLOCKS * OF_BLOCK, &lo, &hi))
        for (int i = lo; i < hi; i++) half_block(w, q, i % n, i / n / OF_BLOCK, i / n % OF_BLOCK);
    ig_team_wait(team);
    while (ig_team_take(team, w->tid, n * panels, &lo, &hi))
        for (int i = lo; i < hi; i++) down(w, q, i % n, i / n);
    ig_team_wait(team);
}

/* The device has its answer: what was asked may be copied. */
static void fill_behind(struct ig_engine *e, const struct asked *q)
{
    for (int i = 0; i < q->n; i++)
        if (q->way[i] >= 0) ig_cache_fill(e, q->layer, q->expert[i], q->way[i], 0);
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
static int take_question(struct ig_worker *w, int layer, struct asked *q)
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

void ig_miss_answer(struct ig_worker *w, int layer)
{
    struct ig_miss *m = &w->e->miss;
    if (ig_layers[layer].ffn != IG_FFN_MOE) return;
    await_question(w, layer);
    struct asked q;
    if (!take_question(w, layer, &q)) return;
    if (w->tid == m->team.n) { /* the copier */
        while (__atomic_load_n(&m->ask->done[layer].step, __ATOMIC_ACQUIRE) != m->step) {
            ig_pause();
            look(w->e);
        }
        fill_behind(w->e, &q);
        return;
    }
    if (w->tid == 0) ig_range_begin("misses by the CPU", layer);
    answer(w, &q);
    if (w->tid != 0) return;
    ig_range_end();
    __atomic_store_n(&m->ask->done[layer].step, m->step, __ATOMIC_RELEASE);
    if (!m->copier) fill_behind(w->e, &q);
}

static uint32_t gcd(uint32_t a, uint32_t b) { return b ? gcd(b, a % b) : a; }

int ig_miss_pick(uint32_t i, uint32_t most, int32_t *expert)
{
    uint32_t stride = (uint32_t)(most * UINT64_C(618) / 1000) + 1; /* the golden section */
    while (gcd(stride, most) != 1) stride++;
    uint32_t at = (uint32_t)((uint64_t)i * stride % most);
    int layer = 0;
    for (; ig_layers[layer].ffn != IG_FFN_MOE || at >= ig_layers[layer].n_expert; layer++)
        if (ig_layers[layer].ffn == IG_FFN_MOE) at -= ig_layers[layer].n_expert;
    *expert = (int32_t)at;
    return layer;
}

static uint32_t all_experts(void)
{
    uint32_t n = 0;
    for (int i = 0; i < IG_N_LAYER; i++)
        if (ig_layers[i].ffn == IG_FFN_MOE) n += ig_layers[i].n_expert;
    return n;
}

double ig_miss_rehearse(struct ig_engine *e, uint32_t from, int n, int of)
{
    double began = 0.0;
#pragma omp parallel num_threads(e->miss.team.n)
    {
        struct ig_worker w = ig_worker(e, omp_get_thread_num());
        int32_t expert;
        for (int i = -1; i < n; i++) { /* a first one that is not measured */
            const int layer = ig_miss_pick(from + (uint32_t)(i + 1), all_experts(), &expert);
            struct asked q = { .l = &ig_layers[layer], .layer = layer, .n = of };
            for (int k = 0; k < of; k++) {
                q.rank[k] = k;
                q.expert[k] = (expert + k) % (int32_t)ig_layers[layer].n_expert;
            }
            if (i == 0 && w.tid == 0) began = ig_seconds();
            answer(&w, &q);
        }
    }
    return (ig_seconds() - began) / n;
}

#endif
