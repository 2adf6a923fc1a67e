/* device_says.c -- what `info` tells of a cache of experts on a device. */
#include "device_cache.h"

#include <stdarg.h>
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
    if (ig_miss_share(m) >= 0)
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
    if (!m->ahead && m->slow && m->behind < 0)
        return "off, because the link is slow: what it brings comes after its layer";
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

#endif
