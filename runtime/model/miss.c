/* miss.c -- the CPU's share of a decode step's missing experts: see miss.h.
 *
 * The same kernels in the same order as moe.c, so the bits are the same whoever computes.
 */
#include "state.h"
#include "device.h"
#include "device_cache.h"
#include "machine.h"
#include "range.h"

#include <omp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#if IG_XC

/* What the trial of the ways counts.  Where what the CPU computes stays missing, a cache's content
 * follows the way, so that blocks are long; else short ones see the same text. */
static const struct ig_trial_rule long_blocks = {
    .warm = 32, .block = 24, .skip = 12, .rounds = 4, .every = 2048, .gain = 0.98
};
static const struct ig_trial_rule short_blocks = {
    .warm = 32, .block = 4, .skip = 1, .rounds = 16, .every = 2048, .gain = 0.98
};
static const struct ig_trial_rule *rule_of(const struct ig_miss *m)
{
    return m->way[0].behind || m->way[0].ahead ? &short_blocks : &long_blocks;
}

/* Per cent of a step's misses that take the link, -1: as measured.  Policy static keeps what is in
 * its slots, so that nothing could come into them. */
static int fixed_share(const struct ig_miss *m) { return IG_XC_STATIC ? 0 : m->share; }

/* A way of the trial: its split; prefetch or not; what the CPU computes is copied behind the work,
 * or stays missing. */
static struct ig_miss_way *add_way(struct ig_miss *m, int *n, const char *name, int ahead,
                                   int behind)
{
    struct ig_miss_way *w = &m->way[(*n)++];
    *w = (struct ig_miss_way){ .name = name };
    w->ahead = ahead ? IG_FILLS_AHEAD : 0;
    w->behind = !behind ? 0 : ahead ? IG_FILLS_BESIDE : IG_FILLS_MOST;
    return w;
}
static void by_link(struct ig_miss_way *w, int per_cent)
{
    for (int n = 0; n <= IG_N_EXPERT_USED; n++) w->split[n] = (n * per_cent + 50) / 100;
}

/* With copies beside the work the link is theirs: what is asked of it meanwhile waits for them, and
 * they for it (bench/LOG.tsv), so that the CPU, where it is no slower by far, answers all. */
static void plan_copies(struct ig_miss *m)
{
    const int ahead = m->ahead > 0;
    const double cpu = ig_split_seconds(&m->link, &m->by_cpu, 0, 1),
                 link = ig_split_seconds(&m->link, &m->by_cpu, 1, 0);
    int n = 0;
    if (cpu < 1.5 * link) {
        by_link(add_way(m, &n, "by the CPU and copies", ahead, 1), 0);
        if (ahead) by_link(add_way(m, &n, "without prefetch", 0, 1), 0);
    }
    /* A link far below the CPU is not worth a trial's steps. */
    if (m->link.each[0] < 3 * m->by_cpu.each[0]) {
        by_link(add_way(m, &n, "with the link alone", 0, 0), 100);
        ig_split(&m->link, &m->by_cpu, IG_N_EXPERT_USED, 1,
                 add_way(m, &n, "by the rates", ahead, 0)->split);
    }
    ig_trial_init(&m->trial, rule_of(m), n);
}

void ig_miss_plan(struct ig_miss *m)
{
    const struct ig_side none = { 0 };
    const int share = fixed_share(m), own = share < 0;
    const int can = m->cpu && !IG_XC_STATIC && m->ways > IG_N_EXPERT_USED && m->link.each[0] > 0.0;
    int n = 0, same = 1;
    if (!can) m->ahead = 0;
    if (own && can && m->behind < 0) {
        plan_copies(m);
        return;
    }
    struct ig_miss_way *w = add_way(m, &n, "by the rates", m->ahead, can && m->behind == 1);
    ig_split(&m->link, m->cpu ? &m->by_cpu : &none, IG_N_EXPERT_USED, !w->behind, w->split);
    if (m->cpu && !own) by_link(w, share);
    for (int i = 0; i <= IG_N_EXPERT_USED; i++) same &= w->split[i] == i;
    if (own && !same && m->link.each[0] < 3 * m->by_cpu.each[0])
        by_link(add_way(m, &n, "with the link alone", m->ahead, 0), 100);
    ig_trial_init(&m->trial, rule_of(m), n);
}

void ig_miss_begin(struct ig_miss *m, int pinning)
{
    const struct ig_miss_way *w = &m->way[m->trial.now];
    int32_t *split = m->ask->split;
    m->step++;
    m->looked = 0;
    memcpy(split, w->split, sizeof w->split);
    split[IG_ASK_PAGES] = (int32_t)(m->reach / 4096);
    split[IG_ASK_BEHIND] = pinning ? 0 : w->behind;
    split[IG_ASK_AHEAD] = pinning ? 0 : w->ahead;
    split[IG_ASK_WAIT] = m->link.each[0] < 2 * (m->by_cpu.start + m->by_cpu.each[0]);
    /* A set that is full soon misses less: simulated with the trace, bench/LOG.tsv. */
    split[0] = fixed_share(m) < 0 && w->behind == 0 && w->ahead == 0;
    m->began = ig_seconds();
}

void ig_miss_end(struct ig_miss *m, int judged)
{
    ig_trial_step(&m->trial, rule_of(m), judged ? ig_seconds() - m->began : -1.0);
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
        at = say(text, sizeof text, at, " %d", (int)m->way[t->best].split[n]);
    if (m->way[t->best].behind)
        at = say(text, sizeof text, at, ", which copies the CPU's into slots behind the work");
    if (fixed_share(m) >= 0)
        say(text, sizeof text, at,
            IG_XC_STATIC ? ": the slots keep what they have" : ", as --link says");
    else if (t->trials > 0) {
        for (int w = 0; w < t->n_way; w++)
            at = say(text, sizeof text, at, "%s %.3f%s %s", w ? "," : ": steps took",
                     1e3 * t->mean[w], w ? "" : " ms", m->way[w].name);
        say(text, sizeof text, at, " (trial %u)", t->trials);
    } else
        say(text, sizeof text, at, ", by these rates%s",
            t->n_way > 1 ? "; no trial has ended yet" : "");
    return text;
}

/* Seconds of the soonest way with prefetch, or without. */
static double best_of(const struct ig_miss *m, int ahead)
{
    double best = 0.0;
    for (int w = 0; w < m->trial.n_way; w++)
        if (!m->way[w].ahead == !ahead && (best <= 0.0 || m->trial.mean[w] < best))
            best = m->trial.mean[w];
    return best;
}

const char *ig_miss_ahead_says(const struct ig_miss *m)
{
    static char text[256];
    const struct ig_trial *t = &m->trial;
    if (!m->ahead)
        return m->cpu
                   ? "off, because nothing was asked of it (--ahead) or a set has no way to spare"
                   : "off, because the link takes what is missing when it is asked for";
    size_t at = say(text, sizeof text, 0, "next-router, %d layers ahead: ", m->ahead);
    if (t->n_way < 2)
        say(text, sizeof text, at, "on, because --ahead says so");
    else if (t->trials == 0)
        say(text, sizeof text, at, "on, because no trial has ended yet");
    else
        say(text, sizeof text, at,
            "%s, because steps took %.3f ms with it, %.3f without (trial %u)",
            m->way[t->best].ahead ? "on" : "off", 1e3 * best_of(m, 1), 1e3 * best_of(m, 0),
            t->trials);
    return text;
}

/* Start what layers before `end` want prefetched, as far as they have said it; must 1: they have.
 * Thread 0. */
static void look(struct ig_engine *e, int end, int must)
{
    struct ig_miss *m = &e->miss;
    for (; m->looked < end; m->looked++) {
        const int to = m->ask->split[IG_ASK_AHEAD] ? ig_cache_ahead(e, m->looked) : -1;
        const uint32_t *guessed = &m->ask->guessed[m->looked].step;
        const int32_t *guess = m->ask->guess[m->looked];
        if (to < 0) continue;
        while (__atomic_load_n(guessed, __ATOMIC_ACQUIRE) != m->step)
            if (!must) return;
        for (int i = 0; i < guess[0]; i++)
            ig_cache_fill(e, to, guess[1 + i], guess[1 + IG_GUESS_MOST + i], 1);
    }
}
void ig_miss_look(struct ig_engine *e) { look(e, IG_N_LAYER, 1); }

#ifndef MOVER_LEAST
#define MOVER_LEAST 8 /* threads */
#endif

void ig_miss_team(struct ig_engine *e, int fills)
{
    struct ig_miss *m = &e->miss;
    m->mover = fills && e->team.n >= MOVER_LEAST;
    ig_team_set(&m->team, e->team.n - m->mover, NULL);
}

/* The thread that starts copies. */
static int starter(const struct ig_miss *m) { return m->mover ? m->team.n : 0; }

/* Until the device has asked for this layer.  A device that has failed would leave us waiting;
 * thread 0, which starts it, sees to that. */
static void await_question(const struct ig_worker *w, int layer)
{
    struct ig_engine *e = w->e;
    const uint32_t *posted = &e->miss.ask->posted[layer].step;
    for (uint32_t spins = 1; __atomic_load_n(posted, __ATOMIC_ACQUIRE) != e->miss.step; spins++) {
        ig_pause();
        if (w->tid == starter(&e->miss)) look(e, layer, 0);
        if (w->tid == 0 && spins % (1u << 20) == 0 && !ig_device_busy(e->device) &&
            __atomic_load_n(posted, __ATOMIC_ACQUIRE) != e->miss.step)
            ig_die("device: it ended a step without asking for layer %d", layer);
    }
    if (w->tid == starter(&e->miss)) look(e, layer, 1);
}

struct asked {
    const struct ig_layer *l;
    int layer, n;
    const int32_t *rank, *expert, *way;
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
    struct ig_team *team = &w->e->miss.team;
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

/* The device has its answer: what was asked may be copied. */
static void fill_behind(struct ig_engine *e, const struct asked *q)
{
    for (int i = 0; i < q->n; i++)
        if (q->way[i] >= 0) ig_cache_fill(e, q->layer, q->expert[i], q->way[i], 0);
}

void ig_miss_answer(struct ig_worker *w, int layer)
{
    struct ig_miss *m = &w->e->miss;
    if (ig_layers[layer].ffn != IG_FFN_MOE) return;
    await_question(w, layer);
    const int32_t *asked = m->ask->asked[layer];
    const struct asked q = { &ig_layers[layer],
                             layer,
                             asked[0],
                             asked + 1,
                             asked + 1 + IG_N_EXPERT_USED,
                             asked + 1 + 2 * IG_N_EXPERT_USED };
    if (q.n == 0) return;
    if (w->tid == m->team.n) { /* the mover */
        while (__atomic_load_n(&m->ask->done[layer].step, __ATOMIC_ACQUIRE) != m->step) {
            ig_pause();
            look(w->e, layer + 1, 0);
        }
        fill_behind(w->e, &q);
        return;
    }
    if (w->tid == 0) ig_range_begin("misses by the CPU", layer);
    answer(w, &q);
    if (w->tid != 0) return;
    ig_range_end();
    __atomic_store_n(&m->ask->done[layer].step, m->step, __ATOMIC_RELEASE);
    if (!m->mover) fill_behind(w->e, &q);
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
#pragma omp parallel num_threads(e->miss.team.n)
    {
        struct ig_worker w = ig_worker(e, omp_get_thread_num());
        int32_t rank[IG_N_EXPERT_USED], expert[IG_N_EXPERT_USED];
        for (int i = -1; i < n; i++) { /* a first one that is not measured */
            const int layer = ig_miss_pick(from + (uint32_t)(i + 1), all_experts(), expert);
            for (int k = 0; k < of; k++) {
                rank[k] = k;
                expert[k] = (expert[0] + k) % (int32_t)ig_layers[layer].n_expert;
            }
            const struct asked q = { &ig_layers[layer], layer, of, rank, expert, NULL };
            if (i == 0 && w.tid == 0) began = ig_seconds();
            answer(&w, &q);
        }
    }
    return (ig_seconds() - began) / n;
}

#endif
