/* device_rate.c -- how fast misses are served, measured at start: the link, the CPU, both at once.
 *
 * Every expert is another one, from all over memory: what was read a moment ago lies in the
 * processor's caches and would be read again at a rate that decode never sees.
 */
#include "device_cache.h"
#include "device.h"
#include "machine.h"

#if IG_XC

/* Experts of a measurement: enough to be above its start, few enough to be quick. */
#define TIMED_BYTES (UINT64_C(64) << 20)
enum { TIMED_LEAST = 2, TIMED_MOST = 32, ROUNDS = 3, TOGETHER = 4 };
/* Seconds before the first byte: of reading over the link, and of asking the CPU and fetching its
 * answer. The link's: bench/LOG.tsv, 56 us for one expert and 52 for each more.  The CPU's is an
 * estimate from 1.9 us a flag's round trip, which no bench prints; waking and meeting of threads is
 * measured with its work. */
#define LINK_START 4e-6
#define CPU_START  6e-6

/* Experts that the device can read, in the order of memory. */
static uint32_t in_reach(const struct ig_engine *e)
{
    uint32_t n = 0;
    for (int i = 0; i < IG_N_LAYER; i++) {
        const struct ig_layer *l = &ig_layers[i];
        const uint64_t from = l->expert_off - IG_RESIDENT_BYTES;
        if (l->ffn != IG_FFN_MOE || e->miss.reach <= from) continue;
        const uint64_t fit = (e->miss.reach - from) / l->expert_stride;
        n += fit < l->n_expert ? (uint32_t)fit : l->n_expert;
    }
    return n;
}

/* n copies, of picks `from` and on, queued. */
static void copy_experts(struct ig_engine *e, uint32_t from, int n)
{
    const uint64_t ways = ig_cache_bytes(e) / IG_XC_SLOT_BYTES;
    for (int i = 0; i < n; i++) {
        int32_t expert;
        const struct ig_layer *l =
            &ig_layers[ig_miss_pick(from + (uint32_t)i, in_reach(e), &expert)];
        ig_device_copy(
            e->device,
            ig_device_mem(e->device) + IG_VRAM_SLOTS_OFF + (uint64_t)i % ways * IG_XC_SLOT_BYTES,
            ig_data(e, l->expert_off + (uint64_t)expert * l->expert_stride), l->expert_stride, 0);
    }
}
static double until_copied(struct ig_engine *e, double from, int n)
{
    ig_device_filled(e->device, 0);
    ig_device_wait(e->device);
    return (ig_seconds() - from) / n;
}

/* The least is what decode seldom sees, the mean is anybody's who disturbs. */
static double median(double *s)
{
    for (int i = 1; i < ROUNDS; i++)
        for (int k = i; k > 0 && s[k] < s[k - 1]; k--) {
            const double t = s[k];
            s[k] = s[k - 1];
            s[k - 1] = t;
        }
    return s[ROUNDS / 2];
}

/* Seconds of a question of one expert and of several -> of its start and of each. */
static void start_and_each(struct ig_side *cpu, double one, double several, int of)
{
    double each = of > 1 ? (several - one) / (of - 1) : one;
    const double most = several / of < one ? several / of : one;
    if (each > most) each = most;
    if (each < most / 2) each = most / 2; /* noise: a start is less than half of it */
    cpu->each[0] = each;
    cpu->start = CPU_START + one - each;
}

void ig_rate_measure(struct ig_engine *e)
{
    struct ig_miss *m = &e->miss;
    const int link = in_reach(e) > 0, k = IG_N_EXPERT_USED, of = k < TOGETHER ? k : TOGETHER;
    const uint64_t fit = TIMED_BYTES / IG_XC_SLOT_BYTES;
    const int n = fit < TIMED_LEAST ? TIMED_LEAST : fit > TIMED_MOST ? TIMED_MOST : (int)fit;
    double over[ROUNDS], one[ROUNDS], several[ROUNDS];
    uint32_t at = 0; /* experts used so far */
    m->link = (struct ig_side){ .start = LINK_START };
    m->by_cpu = (struct ig_side){ .start = CPU_START };
    for (int i = 0; i < ROUNDS; i++, at += 3 * (uint32_t)n + 2) {
        const double from = ig_seconds();
        if (link) copy_experts(e, at, n);
        over[i] = link ? until_copied(e, from, n) : 0.0;
        if (!m->cpu) continue;
        one[i] = ig_miss_rehearse(e, at + (uint32_t)n, n, 1);
        several[i] = ig_miss_rehearse(e, at + 2 * (uint32_t)n + 1, (n + of - 1) / of, of);
    }
    m->link.each[0] = m->link.each[1] = median(over);
    if (!m->cpu) return;
    start_and_each(&m->by_cpu, median(one), median(several), of);
    m->by_cpu.each[1] = m->by_cpu.each[0];
    if (!link) return;
    /* As many copies as take as long as the CPU's experts. */
    const int asked = (n + of - 1) / of,
              copies = 1 + (int)(asked * median(several) / m->link.each[0]);
    for (int i = 0; i < ROUNDS; i++, at += (uint32_t)(n + copies) + 1) {
        const double from = ig_seconds();
        copy_experts(e, at + (uint32_t)n, copies);
        several[i] = ig_miss_rehearse(e, at, asked, of);
        over[i] = until_copied(e, from, copies);
    }
    const double beside = (median(several) - (m->by_cpu.start - CPU_START)) / of;
    if (median(over) > m->link.each[0]) m->link.each[1] = median(over);
    if (beside > m->by_cpu.each[0]) m->by_cpu.each[1] = beside;
}

#endif
