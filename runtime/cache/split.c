/* split.c -- see split.h. */
#include "split.h"

#define MISSING_AGAIN 1.25 /* clearly sooner */

static double side(const struct ig_side *s, int n, int both)
{
    return n > 0 ? s->start + n * s->each[both] : 0.0;
}

double ig_split_seconds(const struct ig_side *link, const struct ig_side *cpu, int n_link,
                        int n_cpu)
{
    const int both = n_link > 0 && n_cpu > 0;
    const double over = side(link, n_link, both), by = side(cpu, n_cpu, both);
    return over > by ? over : by;
}

void ig_split(const struct ig_side *link, const struct ig_side *cpu, int most, int again,
              int32_t *split)
{
    const double times = again ? MISSING_AGAIN : 1.0;
    struct ig_side by = *cpu;
    by.start *= times;
    for (int i = 0; i < 2; i++) by.each[i] *= times;
    for (int m = 0; m <= most; m++) {
        split[m] = m;
        if (cpu->each[0] <= 0.0) continue;
        if (link->each[0] <= 0.0) split[m] = 0;
        for (int f = m - 1; f >= 0 && link->each[0] > 0.0; f--)
            if (ig_split_seconds(link, &by, f, m - f) <
                ig_split_seconds(link, &by, split[m], m - split[m]))
                split[m] = f;
    }
}
