/* miss.c -- the CPU's share of a decode step's missing experts: see miss.h.
 *
 * The same kernels in the same order as moe.c, so the bits are the same whoever computes.
 */
#include "state.h"
#include "device.h"
#include "machine.h"

#include <omp.h>
#include <stdatomic.h>
#include <string.h>

#if IG_XC

/* Seconds before the first byte: of reading over the link, and of asking the CPU and fetching its
 * answer. The link's: bench/LOG.tsv, 56 us for one expert and 52 for each more.  The CPU's is an
 * estimate from 1.9 us a flag's round trip, which no bench prints. */
#define LINK_START 4e-6
#define CPU_START  6e-6

/* Of a layer's misses that are shared: `link` experts over the link, `cpu` by the CPU, at the same
 * time. */
static double seconds_of(const struct ig_miss *m, int link, int cpu)
{
    const int both = link > 0 && cpu > 0;
    const double over = link > 0 ? LINK_START + link * m->link_s[both] : 0.0;
    /* What the CPU computes is missing again next time: it has to be clearly sooner. */
    const double by = cpu > 0 ? CPU_START + cpu * m->cpu_s[both] * 1.25 : 0.0;
    return over > by ? over : by;
}

void ig_miss_split(struct ig_miss *m)
{
    for (int n = 0; n <= IG_N_EXPERT_USED; n++) {
        int best = n;
        for (int f = n - 1; f >= 0 && m->share < 0; f--)
            if (seconds_of(m, f, n - f) < seconds_of(m, best, n - best)) best = f;
        m->ask->split[n] = !m->cpu ? n : m->share < 0 ? best : (n * m->share + 50) / 100;
    }
    /* A set that is full soon misses less: simulated with the trace, bench/LOG.tsv. */
    m->ask->split[0] = m->share < 0;
}

/* Until the device has asked for this layer.  A device that has failed would leave us waiting;
 * thread 0, which starts it, sees to that. */
static void await_question(const struct ig_worker *w, int layer)
{
    struct ig_engine *e = w->e;
    const uint32_t *posted = &e->miss.ask->posted[layer].step;
    for (uint32_t spins = 1; __atomic_load_n(posted, __ATOMIC_ACQUIRE) != e->miss.step; spins++) {
        ig_pause();
        if (w->tid == 0 && spins % (1u << 20) == 0 && !ig_device_busy(e->device) &&
            __atomic_load_n(posted, __ATOMIC_ACQUIRE) != e->miss.step)
            ig_die("device: it ended a step without asking for layer %d", layer);
    }
}

struct asked {
    const struct ig_layer *l;
    int layer, n;
    const int32_t *rank, *expert;
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

/* Gate and up of the asked experts, and how many of a hidden block's four panels are there. */
enum { BLOCKS = IG_FF_PAD / IG_QBLOCK, OF_BLOCK = 4 };
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
    const struct ig_ask *ask = w->e->miss.ask;
    const struct ig_mat *m = part % 2 ? &q->l->up : &q->l->gate;
    const unsigned char *slab = expert_at(w->e, q, i);
    const int p = 2 * block + part / 2;
    if (p < ((int)m->rows + 15) / 16) {
        const void *x =
            ig_is_block(m->fmt) ? (const void *)ask->xq[q->layer] : (const void *)ask->xn[q->layer];
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

/* All threads; shares are panels, so that they are even whatever the numbers. */
static void answer(struct ig_worker *w, const struct asked *q)
{
    struct ig_team *team = &w->e->team;
    const int panels = (IG_N_EMBD + 15) / 16;
    int lo, hi;
    ig_team_share(team, w->tid, q->n * BLOCKS * OF_BLOCK, &lo, &hi);
    for (int i = lo; i < hi; i++)
        half_block(w, q, i / OF_BLOCK / BLOCKS, i / OF_BLOCK % BLOCKS, i % OF_BLOCK);
    ig_team_wait(team);
    ig_team_share(team, w->tid, q->n * panels, &lo, &hi);
    for (int i = lo; i < hi; i++) down(w, q, i / panels, i % panels);
    ig_team_wait(team);
}

void ig_miss_answer(struct ig_worker *w, int layer)
{
    struct ig_miss *m = &w->e->miss;
    if (ig_layers[layer].ffn != IG_FFN_MOE) return;
    await_question(w, layer);
    const int32_t *asked = m->ask->asked[layer];
    const struct asked q = { &ig_layers[layer], layer, asked[0], asked + 1,
                             asked + 1 + IG_N_EXPERT_USED };
    if (q.n == 0) return;
    answer(w, &q);
    if (w->tid == 0) __atomic_store_n(&m->ask->done[layer].step, m->step, __ATOMIC_RELEASE);
}

double ig_miss_rehearse(struct ig_engine *e, int layer, int n)
{
    double from = 0.0;
#pragma omp parallel num_threads(e->team.n)
    {
        struct ig_worker w = ig_worker(e, omp_get_thread_num());
        const int32_t rank = 0;
        for (int32_t i = -1; i < n; i++) { /* a first one that is not measured */
            const int32_t expert = i < 0 ? n - 1 : i;
            const struct asked q = { &ig_layers[layer], layer, 1, &rank, &expert };
            if (i == 0 && w.tid == 0) from = ig_seconds();
            answer(&w, &q);
        }
    }
    return (ig_seconds() - from) / n;
}

#endif
