/* device_prefill.c -- batches whose experts lie in RAM: which layers' experts come over the link,
 * which the CPU computes where they are, and which batches go row by row.
 *
 * The CPU takes a layer's whole feed-forward block: the residual stream comes to it and goes back,
 * with the same bits as on the device.  cache/pick.h reckons, with what was measured at start.
 */
#include "device_cache.h"
#include "device_int.h"
#include "machine.h"
#include "range.h"

#include <omp.h>

#if IG_XC

/* Batches whose time is taken at start: nearly all experts are chosen in both, so that what the
 * many take longer is their rows'. */
enum { FEW_ROWS = 32, MANY_ROWS = 256 };

struct ig_prefill ig_prefill;

static int routed(void)
{
    int n = 0;
    for (int i = IG_N_LAYER_ENC; i < IG_N_LAYER; i++) n += ig_layers[i].ffn == IG_FFN_MOE;
    return n;
}

/* The feed-forward block of a layer on the team: e->x in, e->x out. */
static void on_cpu(struct ig_engine *e, int layer)
{
    const struct ig_layer *l = &ig_layers[layer];
#pragma omp parallel num_threads(e->team.n)
    {
        struct ig_worker w = ig_worker(e, omp_get_thread_num());
        ig_norm_rows(&w, l->ffn_norm, l->ffn_norm_bias);
        ig_moe(&w, layer);
        ig_team_wait(&e->team);
    }
}

void ig_prefill_layer(struct ig_engine *e, int layer)
{
    const struct ig_args *a = &ig_step.args;
    const size_t n = (size_t)e->batch->n,
                 x = (size_t)((const unsigned char *)a->x - ig_device_mem(e->device));
    struct ig_why why;
    int streamed = 0;
    for (int i = 0; i < routed(); i++) streamed |= !ig_prefill.by_cpu[i];
    ig_range_begin("experts by the CPU", layer);
    ig_device_get(e->device, e->x, a->x, n * IG_N_EMBD * sizeof *e->x);
    ig_device_wait(e->device);
    const double from = ig_seconds();
    on_cpu(e, layer);
    ig_pick_saw(&ig_prefill.cost, e->batch->n, streamed, ig_seconds() - from);
    enum ig_err err = ig_device_put(e->device, x, e->x, n * IG_N_EMBD * sizeof *e->x, &why);
    if (err == IG_OK && e->tap.routed) /* what ig_step_show reads */
        err = ig_device_put(e->device, IG_VRAM_TOPK_OFF, IG_BUF(e, TOPK, void), IG_VRAM_TOPK_BYTES,
                            &why);
    if (err != IG_OK) ig_die("%s", why.text);
    ig_range_end();
}

/* Rows that differ, so that they choose different experts. */
static void noise(float *x, size_t n)
{
    uint32_t s = 1;
    for (size_t i = 0; i < n; i++) {
        s = s * 1664525u + 1013904223u;
        x[i] = (float)(s >> 8) / (float)(1 << 23) - 1.0f;
    }
}

/* Seconds of a layer with so many rows, the sooner of two, and how many experts those chose. */
static double layer_seconds(struct ig_engine *e, int rows, int *chosen)
{
    static const uint8_t want[MANY_ROWS];
    static const int32_t zero[MANY_ROWS];
    const struct ig_batch b = { .n = rows, .token = zero, .pos = zero, .seq = zero, .want = want };
    double least = -1.0;
    e->batch = &b;
    e->x = IG_BUF(e, X, float);
    for (int layer = IG_N_LAYER_ENC, seen = 0; layer < IG_N_LAYER && seen < 2; layer++) {
        if (ig_layers[layer].ffn != IG_FFN_MOE) continue;
        noise(e->x, (size_t)b.n * IG_N_EMBD);
        const double from = ig_seconds();
        on_cpu(e, layer);
        const double took = ig_seconds() - from;
        seen++;
        if (least >= 0.0 && took >= least) continue;
        least = took;
        *chosen = e->n_active;
    }
    e->batch = NULL;
    return least;
}

/* What a row and an expert of a batch cost (p->each is that of a question of few experts, whose
 * start and end weigh more).  Where one size is all that there is, its time is the experts'. */
static void time_batches(struct ig_engine *e, struct ig_pick *p)
{
    const int most = IG_N_ROW, few = most < FEW_ROWS ? most : FEW_ROWS,
              many = most < MANY_ROWS ? most : MANY_ROWS;
    int of_few = 1, of_many = 1;
    const double short_s = layer_seconds(e, few, &of_few);
    if (many > few) {
        const double long_s = layer_seconds(e, many, &of_many),
                     more = long_s - short_s - (of_many - of_few) * p->each;
        p->row = more > 0.0 ? more / ((many - few) * IG_N_EXPERT_USED) : 0.0;
    }
    const double each = (short_s - p->start - few * IG_N_EXPERT_USED * p->row) / of_few;
    if (each > 0.0) p->each = each;
}

/* Row by row: a batch of n rows. */
static double by_rows(int n) { return n * ig_prefill.step_s; }

static double in_batch(int n, uint8_t *by_cpu)
{
    const double s = ig_pick_layers(&ig_prefill.cost, routed(), n, by_cpu);
    int streamed = 0;
    for (int i = 0; i < routed(); i++) streamed |= !by_cpu[i];
    return s + (streamed ? ig_prefill.refill_s : 0.0);
}

/* The most rows that go one by one: by now their experts are there more often than not. */
static int most_rows(uint8_t *by_cpu)
{
    int n = 1;
    while (n < IG_N_ROW && in_batch(n + 1, by_cpu) > by_rows(n + 1)) n++;
    return n;
}

/* Of a first row's experts in a layer, none of which is there, how many come over the link: by the
 * rates, whatever way decode's trial begins with. */
static int first_link(const struct ig_miss *m)
{
    int32_t split[IG_N_EXPERT_USED + 1];
    if (ig_miss_share(m) >= 0 || !m->cpu) return m->way[0].split[IG_N_EXPERT_USED];
    ig_split(&m->link, &m->by_cpu, IG_N_EXPERT_USED, 1, split);
    return split[IG_N_EXPERT_USED];
}

void ig_prefill_open(struct ig_engine *e)
{
    const struct ig_miss *m = &e->miss;
    uint8_t by_cpu[IG_N_LAYER];
    struct ig_pick *p = &ig_prefill.cost;
    const int k = IG_N_EXPERT_USED, link = first_link(m);
    *p = (struct ig_pick){ .n_expert = IG_N_EXPERT, .n_used = IG_N_EXPERT_USED };
    if (ig_stream_fits(e)) p->link = m->link.start + m->link.each[0] * IG_N_EXPERT;
    if (m->link.each[0] > 0.0) p->link_beside = m->link.each[1] / m->link.each[0];
    if (m->by_cpu.each[0] > 0.0) p->cpu_beside = m->by_cpu.each[1] / m->by_cpu.each[0];
    p->start = m->by_cpu.start;
    p->each = m->by_cpu.each[0];
    if (p->each > 0.0) time_batches(e, p);
    /* The first prompt finds no expert there. */
    ig_prefill.step_s = routed() * ig_split_seconds(&m->link, &m->by_cpu, link, k - link);
    ig_prefill.refill_s = 0.0;
    ig_prefill.cpu_rows = ig_pick_most(p, routed(), IG_N_ROW, by_cpu);
    ig_prefill.rows = most_rows(by_cpu);
}

static double full_s(const struct ig_miss *m) { return m->link.each[0] * m->sets * m->ways; }

void ig_prefill_row(struct ig_engine *e, double took)
{
    const struct ig_miss *m = &e->miss;
    ig_prefill.step_s += (took - ig_prefill.step_s) / 8;
    /* What a row brought would have to come again. */
    const double full = full_s(m), more = m->link.each[0] * m->sets;
    if (ig_prefill.refill_s < full) ig_prefill.refill_s += more < full ? more : full;
}

int ig_prefill_batch(struct ig_engine *e)
{
    const int n = e->batch->n, share = e->miss.share;
    if (n == 1 || (ig_prefill.cost.link <= 0.0 && ig_prefill.cost.each <= 0.0)) return 0;
    if (share < 0) return in_batch(n, ig_prefill.by_cpu) < by_rows(n);
    /* --link: so many of the layers; where they do not pass through the slots, none. */
    if (ig_prefill.cost.link <= 0.0 && share > 0) return 0;
    for (int i = 0; i < routed(); i++)
        ig_prefill.by_cpu[i] = (uint8_t)((i + 1) * share / 100 == i * share / 100);
    return 1;
}

int ig_prefill_by_cpu(int layer)
{
    int i = 0;
    for (int l = IG_N_LAYER_ENC; l < layer; l++) i += ig_layers[l].ffn == IG_FFN_MOE;
    return ig_layers[layer].ffn == IG_FFN_MOE && ig_prefill.by_cpu[i];
}

void ig_prefill_streamed(void) { ig_prefill.refill_s = 0.0; }
void ig_prefill_filled(const struct ig_engine *e) { ig_prefill.refill_s = full_s(&e->miss); }

#endif
