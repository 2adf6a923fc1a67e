/* miss.c -- the CPU's share of a decode step's missing experts: see miss.h.
 *
 * The same kernels in the same order as moe.c, so the bits are the same whoever computes.
 */
#include "state.h"
#include "device.h"
#include "machine.h"

#include <string.h>

#if IG_XC

/* F of m over the link, the rest by the CPU, so that both end together: the least of
 * max(F * link, (m - F) * cpu). */
void ig_miss_split(struct ig_miss *m)
{
    for (int n = 0; n <= IG_N_EXPERT_USED; n++) {
        int best = n;
        double least = -1.0;
        for (int f = 0; f <= n && m->share < 0; f++) {
            /* What the CPU computes is missing again next time: it has to be clearly sooner. */
            const double link = f * m->link_s, cpu = (n - f) * m->cpu_s * 1.25, t = link > cpu ? link : cpu;
            if (least >= 0.0 && t > least) continue;
            least = t;
            best = f;
        }
        m->ask->split[n] = !m->cpu ? n : m->share < 0 ? best : (n * m->share + 50) / 100;
    }
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
    if (m->bias) ig_kern.add(y, (const float *)(const void *)(slab + m->bias) + p * IG_PANEL_ROWS, IG_PANEL_ROWS);
}

/* 32 hidden values of the i-th expert: act(gate) * up, as down reads them. */
static void hidden(struct ig_worker *w, const struct asked *q, int i, int block)
{
    struct ig_engine *e = w->e;
    const struct ig_mat *gate = &q->l->gate, *up = &q->l->up;
    const unsigned char *slab = expert_at(e, q, i);
    const int panels = ((int)gate->rows + 15) / 16, slot = q->rank[i];
    const void *x = ig_is_block(gate->fmt) ? (const void *)e->miss.ask->xq[q->layer]
                                           : (const void *)e->miss.ask->xn[q->layer];
    const void *xu = ig_is_block(up->fmt) ? (const void *)e->miss.ask->xq[q->layer]
                                          : (const void *)e->miss.ask->xn[q->layer];
    _Alignas(64) float h[IG_QBLOCK] = { 0 };
    for (int half = 0; half < 2; half++) {
        const int p = 2 * block + half;
        if (p >= panels) break;
        ig_kern.panel[gate->fmt](w->ya, slab + gate->off + (uint64_t)p * gate->stride, &x, IG_N_EMBD, 1);
        ig_kern.panel[up->fmt](w->yb, slab + up->off + (uint64_t)p * up->stride, &xu, IG_N_EMBD, 1);
        bias(w->ya[0], slab, gate, p);
        bias(w->yb[0], slab, up, p);
        ig_activate(h + 16 * half, w->ya[0], w->yb[0]);
    }
    if (ig_is_block(q->l->down.fmt))
        ig_kern.quantize(IG_BUF(e, HQ, struct ig_xq) + (size_t)slot * (IG_FF_PAD / IG_QBLOCK) + (size_t)block, h,
                         IG_QBLOCK);
    else
        memcpy(IG_BUF(e, H, float) + (size_t)slot * IG_FF_PAD + (size_t)block * IG_QBLOCK, h, sizeof h);
}

/* 16 rows of the i-th expert's output, to where the device reads it. */
static void down(struct ig_worker *w, const struct asked *q, int i, int p)
{
    struct ig_engine *e = w->e;
    const struct ig_mat *m = &q->l->down;
    const unsigned char *slab = expert_at(e, q, i);
    const size_t slot = (size_t)q->rank[i];
    const void *x = ig_is_block(m->fmt)
                        ? (const void *)(IG_BUF(e, HQ, struct ig_xq) + slot * (IG_FF_PAD / IG_QBLOCK))
                        : (const void *)(IG_BUF(e, H, float) + slot * IG_FF_PAD);
    const int rows = IG_N_EMBD - p * 16 < 16 ? IG_N_EMBD - p * 16 : 16;
    ig_kern.panel[m->fmt](w->ya, slab + m->off + (uint64_t)p * m->stride, &x, (int)m->cols, 1);
    bias(w->ya[0], slab, m, p);
    memcpy(e->miss.ask->answer + slot * IG_N_EMBD + (size_t)p * 16, w->ya[0], sizeof(float) * (size_t)rows);
}

void ig_miss_answer(struct ig_worker *w, int layer)
{
    struct ig_engine *e = w->e;
    struct ig_miss *m = &e->miss;
    int lo, hi;
    if (ig_layers[layer].ffn != IG_FFN_MOE) return;
    await_question(w, layer);
    const int32_t *asked = m->ask->asked[layer];
    const struct asked q = { &ig_layers[layer], layer, asked[0], asked + 1, asked + 1 + IG_N_EXPERT_USED };
    if (q.n == 0) return;
    const double from = w->tid == 0 ? ig_seconds() : 0.0;
    const int blocks = IG_FF_PAD / IG_QBLOCK, panels = (IG_N_EMBD + 15) / 16;
    ig_team_share(&e->team, w->tid, q.n * blocks, &lo, &hi);
    for (int i = lo; i < hi; i++) hidden(w, &q, i / blocks, i % blocks);
    ig_team_wait(&e->team);
    ig_team_share(&e->team, w->tid, q.n * panels, &lo, &hi);
    for (int i = lo; i < hi; i++) down(w, &q, i / panels, i % panels);
    ig_team_wait(&e->team);
    if (w->tid != 0) return;
    __atomic_store_n(&m->ask->done[layer].step, m->step, __ATOMIC_RELEASE);
    const double each = (ig_seconds() - from) / q.n;
    m->cpu_s = m->cpu_s > 0.0 ? 0.98 * m->cpu_s + 0.02 * each : each;
    m->asked += (uint64_t)q.n;
}

#endif
