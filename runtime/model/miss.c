/* miss.c -- the CPU's share of a decode step's missing experts: see miss.h.
 *
 * The same kernels in the same order as moe.c, so the bits are the same whoever computes.  Copies
 * beside the work start here, too: the device says what and whereto.
 */
#include "state.h"
#include "miss_int.h"
#include "device_cache.h"
#include "machine.h"
#include "range.h"

#include <omp.h>
#include <stdatomic.h>
#include <string.h>

#if IG_XC

static const unsigned char *expert_at(const struct ig_engine *e, const struct ig_asked *q, int i)
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
static atomic_int there[IG_N_EXPERT_USED][IG_MISS_BLOCKS];

/* 32 hidden values of the i-th expert: act(gate) * up, as down reads them. */
static void hidden(struct ig_worker *w, const struct ig_asked *q, int i, int block)
{
    struct ig_engine *e = w->e;
    const int panels = ((int)q->l->gate.rows + 15) / 16, slot = q->rank[i];
    _Alignas(64) float h[IG_QBLOCK] = { 0 };
    for (int p = 2 * block; p < 2 * block + 2 && p < panels; p++)
        ig_activate(h + 16 * (p % 2), half[i][0] + 16 * p, half[i][1] + 16 * p);
    if (ig_is_block(q->l->down.fmt))
        ig_kern.quantize(IG_BUF(e, HQ, struct ig_xq) + (size_t)slot * IG_MISS_BLOCKS +
                             (size_t)block,
                         h, IG_QBLOCK);
    else
        memcpy(IG_BUF(e, H, float) + (size_t)slot * IG_FF_PAD + (size_t)block * IG_QBLOCK, h,
               sizeof h);
}

/* A panel of gate (part 0, 2) or up (1, 3) of the i-th expert's block; who makes the last of four
 * goes on to the hidden values. */
static void half_block(struct ig_worker *w, const struct ig_asked *q, int i, int block, int part)
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
    if (atomic_fetch_add_explicit(&there[i][block], 1, memory_order_acq_rel) != IG_MISS_PARTS - 1)
        return;
    atomic_store_explicit(&there[i][block], 0, memory_order_relaxed);
    hidden(w, q, i, block);
}

/* 16 rows of the i-th expert's output, to where the device reads it. */
static void down(struct ig_worker *w, const struct ig_asked *q, int i, int p)
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
static void answer(struct ig_worker *w, const struct ig_asked *q)
{
    struct ig_team *team = &w->e->miss.team;
    const int n = q->n, panels = (IG_N_EMBD + 15) / 16;
    int lo, hi;
    while (ig_team_take(team, w->tid, n * IG_MISS_BLOCKS * IG_MISS_PARTS, &lo, &hi))
        for (int i = lo; i < hi; i++)
            half_block(w, q, i % n, i / n / IG_MISS_PARTS, i / n % IG_MISS_PARTS);
    ig_team_wait(team);
    while (ig_team_take(team, w->tid, n * panels, &lo, &hi))
        for (int i = lo; i < hi; i++) down(w, q, i % n, i / n);
    ig_team_wait(team);
}

/* The device has its answer: what was asked may be copied. */
static void fill_behind(struct ig_engine *e, const struct ig_asked *q)
{
    for (int i = 0; i < q->n; i++)
        if (q->way[i] >= 0) ig_cache_fill(e, q->layer, q->expert[i], q->way[i], 0);
}

void ig_miss_answer(struct ig_worker *w, int layer)
{
    struct ig_miss *m = &w->e->miss;
    if (ig_layers[layer].ffn != IG_FFN_MOE) return;
    struct ig_asked q;
    if (!ig_miss_hear(w, layer, &q)) return;
    if (w->tid == m->team.n) { /* the copier */
        while (__atomic_load_n(&m->ask->done[layer].step, __ATOMIC_ACQUIRE) != m->step) {
            ig_pause();
            ig_miss_look(w->e);
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
            struct ig_asked q = { .l = &ig_layers[layer], .layer = layer, .n = of };
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
