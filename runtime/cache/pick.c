/* pick.c -- see pick.h. */
#include "pick.h"

#include <math.h>

/* A time of both sides that is better than either alone in spite of what the reckoning misses. */
#define CLEARLY 0.85

double ig_pick_experts(const struct ig_pick *p, int n)
{
    if (n < 1) return 0.0;
    return p->n_expert * (1.0 - pow(1.0 - (double)p->n_used / p->n_expert, pow(n, 0.7)));
}

static double reckoned(const struct ig_pick *p, int n)
{
    return p->start + ig_pick_experts(p, n) * p->each + (double)n * p->n_used * p->row;
}

static int size_of(int n)
{
    int size = 0;
    for (; n > 1 && size < IG_PICK_SIZES - 1; n /= 2) size++;
    return size;
}

static double or_else(double factor, double otherwise) { return factor > 0.0 ? factor : otherwise; }

double ig_pick_cpu(const struct ig_pick *p, int n, int both)
{
    const int size = size_of(n);
    const double alone = or_else(p->seen[0][size], 1.0),
                 beside = or_else(p->seen[1][size], alone * or_else(p->cpu_beside, 1.0));
    return reckoned(p, n) * (both ? beside : alone);
}

void ig_pick_saw(struct ig_pick *p, int n, int both, double took)
{
    double *seen = &p->seen[both][size_of(n)];
    const double now = took / reckoned(p, n);
    *seen = *seen > 0.0 ? (*seen + now) / 2 : now;
}

static double max(double a, double b) { return a > b ? a : b; }

/* Seconds of a batch with these layers on the processor, whose time for one is `cpu`: by itself,
 * beside the link. */
static double takes(const struct ig_pick *p, int n_layer, const double *cpu, const uint8_t *by_cpu)
{
    double now = 0.0, link = 0.0, buffer[2] = { 0.0, 0.0 }; /* when each is free again */
    int turn = 0, of_cpu = 0;
    for (int i = 0; i < n_layer; i++) of_cpu += by_cpu[i];
    const int both = of_cpu > 0 && of_cpu < n_layer;
    const double bring = p->link * (both ? or_else(p->link_beside, 1.0) : 1.0);
    for (int i = 0; i < n_layer; i++) {
        if (by_cpu[i]) {
            now += cpu[both];
            continue;
        }
        link = max(link, buffer[turn]) + bring;
        buffer[turn] = now = max(now, link);
        turn = !turn;
    }
    return now;
}

/* n of the layers, evenly: the first of them first, or the last of them last. */
static void spread(uint8_t *by_cpu, int n_layer, int n, int first)
{
    for (int i = 0; i < n_layer; i++) {
        const int at = first ? n_layer - 1 - i : i;
        by_cpu[at] = (i + 1) * n / n_layer != i * n / n_layer;
    }
}

double ig_pick_layers(const struct ig_pick *p, int n_layer, int n, uint8_t *by_cpu)
{
    const double cpu[2] = { ig_pick_cpu(p, n, 0), ig_pick_cpu(p, n, 1) };
    const int least = p->link > 0.0 ? 0 : n_layer, most = p->each > 0.0 ? n_layer : 0;
    double best = -1.0;
    int of = 0, first = 0, mixed = 0;
    for (int both = 0; both < 2; both++)
        for (int k = least; k <= most; k++)
            for (int f = 0; f < 2; f++) {
                if ((k > 0 && k < n_layer) != both) continue;
                spread(by_cpu, n_layer, k, f);
                const double s = takes(p, n_layer, cpu, by_cpu);
                if (best >= 0.0 && s >= (both && !mixed ? CLEARLY * best : best)) continue;
                mixed = both;
                best = s;
                of = k;
                first = f;
            }
    spread(by_cpu, n_layer, of, first);
    return best;
}

int ig_pick_most(const struct ig_pick *p, int n_layer, int most, uint8_t *by_cpu)
{
    int lo = 0, hi = most + 1; /* it takes some of lo rows, none of hi */
    if (p->each <= 0.0) return 0;
    while (hi - lo > 1) {
        const int n = lo + (hi - lo) / 2;
        int any = 0;
        ig_pick_layers(p, n_layer, n, by_cpu);
        for (int i = 0; i < n_layer; i++) any |= by_cpu[i];
        if (any)
            lo = n;
        else
            hi = n;
    }
    return lo;
}
