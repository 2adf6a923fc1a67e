/* miss.c -- the CPU's share of a decode step's missing experts: see miss.h.
 *
 * The same kernels in the same order as moe.c, so the bits are the same whoever computes.
 */
#include "state.h"
#include "device.h"
#include "machine.h"
#include "range.h"

#include <omp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#if IG_XC

/* What the trial of the two ways counts: a cache's content follows the way, so that blocks are
 * long. */
static const struct ig_trial_rule rule = {
    .warm = 32, .block = 24, .skip = 12, .rounds = 4, .every = 2048, .gain = 0.98
};

/* Per cent of a step's misses that take the link, -1: as measured.  Policy static keeps what is in
 * its slots, so that nothing could come into them. */
static int fixed_share(const struct ig_miss *m) { return IG_XC_STATIC ? 0 : m->share; }

void ig_miss_plan(struct ig_miss *m)
{
    const int share = fixed_share(m);
    const struct ig_side none = { 0 };
    int same = 1;
    ig_split(&m->link, m->cpu ? &m->by_cpu : &none, IG_N_EXPERT_USED, m->split[0]);
    for (int n = 0; n <= IG_N_EXPERT_USED; n++) {
        if (m->cpu && share >= 0) m->split[0][n] = (n * share + 50) / 100;
        m->split[1][n] = n;
        same &= m->split[0][n] == n;
    }
    /* A link far below the CPU is not worth a trial's steps. */
    const int tried = share < 0 && !same && m->link.each[0] < 3 * m->by_cpu.each[0];
    ig_trial_init(&m->trial, &rule, tried ? 2 : 1);
}

void ig_miss_begin(struct ig_miss *m)
{
    m->step++;
    memcpy(m->ask->split, m->split[m->trial.now], sizeof m->split[0]);
    m->ask->split[IG_N_EXPERT_USED + 1] = (int32_t)(m->reach / 4096);
    /* A set that is full soon misses less: simulated with the trace, bench/LOG.tsv. */
    m->ask->split[0] = fixed_share(m) < 0;
    m->began = ig_seconds();
}

void ig_miss_end(struct ig_miss *m, int judged)
{
    ig_trial_step(&m->trial, &rule, judged ? ig_seconds() - m->began : -1.0);
}

static size_t say(char *text, size_t cap, size_t at, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
static size_t say(char *text, size_t cap, size_t at, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    const int n = vsnprintf(text + at, cap - at, fmt, ap);
    va_end(ap);
    return n > 0 && (size_t)n < cap - at ? at + (size_t)n : at;
}

const char *ig_miss_says(const struct ig_miss *m)
{
    static char text[512];
    const struct ig_trial *t = &m->trial;
    size_t at =
        say(text, sizeof text, 0, "an expert takes %.1f us over the link", 1e6 * m->link.each[0]);
    if (!m->cpu) {
        say(text, sizeof text, at, ", which takes all");
        return text;
    }
    at = say(text, sizeof text, at,
             " (%.1f beside the CPU), %.1f by the CPU (%.1f beside the link) "
             "and %.1f a layer; of 1 to %d misses the link takes",
             1e6 * m->link.each[1], 1e6 * m->by_cpu.each[0], 1e6 * m->by_cpu.each[1],
             1e6 * m->by_cpu.start, (int)IG_N_EXPERT_USED);
    for (int n = 1; n <= IG_N_EXPERT_USED; n++)
        at = say(text, sizeof text, at, " %d", (int)m->split[t->best][n]);
    if (fixed_share(m) >= 0)
        say(text, sizeof text, at,
            IG_XC_STATIC ? ": the slots keep what they have" : ", as --link says");
    else if (t->trials > 0)
        say(text, sizeof text, at,
            ": steps took %.3f ms by the rates, %.3f with the link alone (trial %u)",
            1e3 * t->mean[0], 1e3 * t->mean[1], t->trials);
    else
        say(text, sizeof text, at, ", by these rates%s",
            t->n_way > 1 ? "; no trial has ended yet" : "");
    return text;
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
    if (w->tid == 0) ig_range_begin("misses by the CPU", layer);
    answer(w, &q);
    if (w->tid == 0) ig_range_end();
    if (w->tid == 0) __atomic_store_n(&m->ask->done[layer].step, m->step, __ATOMIC_RELEASE);
}

static uint32_t common(uint32_t a, uint32_t b) { return b ? common(b, a % b) : a; }

int ig_miss_pick(uint32_t i, uint32_t most, int32_t *expert)
{
    uint32_t stride = (uint32_t)(most * UINT64_C(618) / 1000) + 1; /* the golden section */
    while (common(stride, most) != 1) stride++;
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
#pragma omp parallel num_threads(e->team.n)
    {
        struct ig_worker w = ig_worker(e, omp_get_thread_num());
        int32_t rank[IG_N_EXPERT_USED], expert[IG_N_EXPERT_USED];
        for (int i = -1; i < n; i++) { /* a first one that is not measured */
            const int layer = ig_miss_pick(from + (uint32_t)(i + 1), all_experts(), expert);
            for (int k = 0; k < of; k++) {
                rank[k] = k;
                expert[k] = (expert[0] + k) % (int32_t)ig_layers[layer].n_expert;
            }
            const struct asked q = { &ig_layers[layer], layer, of, rank, expert };
            if (i == 0 && w.tid == 0) began = ig_seconds();
            answer(&w, &q);
        }
    }
    return (ig_seconds() - began) / n;
}

#endif
