/* device_says.c -- what `info` tells of a cache of experts on a device. */
#include "device_cache.h"

#include <stdio.h>

#if IG_XC

const char *ig_prefill_says(const struct ig_engine *e)
{
    static char text[320];
    const struct ig_pick *p = &ig_prefill.cost;
    int n = snprintf(text, sizeof text, "two layers do not fit the slots");
    if (p->link > 0.0)
        n = snprintf(text, sizeof text, "a layer's experts take %.2f ms over the link",
                     1e3 * p->link);
    if (p->each > 0.0)
        n += snprintf(
            text + n, sizeof text - (size_t)n,
            ", by the CPU %.2f ms for all and %.1f us a row; it takes layers of up to %d rows",
            1e3 * (p->start + p->n_expert * p->each), 1e6 * p->n_used * p->row,
            ig_prefill.cpu_rows);
    snprintf(text + n, sizeof text - (size_t)n,
             e->miss.share >= 0 ? "; --link decides instead"
                                : "; a first prompt goes row by row up to %d rows",
             ig_prefill.rows);
    return text;
}

#endif
