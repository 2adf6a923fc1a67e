/* tier_show.c -- the expert cache's counters for people and programs: one table of names and units.
 */
#include "tier_stats.h"
#include "state.h"

#include <stdio.h>
#include <string.h>

enum { N_COLUMN = 11 };
static const struct {
    const char *name, *unit;
} column[N_COLUMN] = {
    { "hit", "%" },        { "late", "%" },        { "miss", "a step" },   { "stall", "us a step" },
    { "fill", "experts" }, { "evict", "experts" }, { "early", "experts" }, { "used", "experts" },
    { "lost", "experts" }, { "copied", "MB" },     { "stride", "layers" },
};

static void values(const struct ig_expert_stats *s, double v[N_COLUMN])
{
    const double chosen = (double)(s->hit + s->late + s->miss), steps = (double)s->steps;
    const double per_chosen = chosen > 0 ? 100 / chosen : 0, per_step = steps > 0 ? 1 / steps : 0;
    const double all[N_COLUMN] = { (double)s->hit * per_chosen,
                                   (double)s->late * per_chosen,
                                   (double)s->miss * per_step,
                                   1e6 * s->stall_s * per_step,
                                   (double)s->fill,
                                   (double)s->evict,
                                   (double)s->early,
                                   (double)s->early_used,
                                   (double)s->early_lost,
                                   (double)s->bytes / 1e6,
                                   s->stride };
    memcpy(v, all, sizeof all);
}

static void line(char *text, size_t cap, const char *what, const struct ig_expert_stats *s)
{
    double v[N_COLUMN];
    values(s, v);
    size_t n = (size_t)snprintf(text, cap, "%-8s", what);
    for (int i = 0; i < N_COLUMN && n < cap; i++)
        n += (size_t)snprintf(text + n, cap - n, " %*.*f", 9, i < 4 || i >= 9 ? 1 : 0, v[i]);
}

/* Of a run, its mean stride over time, and how often it was asked again. */
static void strides(const struct ig_engine *e, const struct ig_expert_stats *s,
                    void (*show)(const char *text))
{
    char text[512];
    const uint8_t *at;
    uint32_t every, n = ig_expert_strides(e, &every, &at);
    if (n == 0) return;
    size_t len = (size_t)snprintf(text, sizeof text,
                                  "stride   mean over the layers, every %u steps:", every);
    for (uint32_t i = 0; i < n && len < sizeof text; i++) {
        double sum = 0;
        for (int l = 0; l < IG_N_LAYER; l++) sum += at[(size_t)i * IG_N_LAYER + (size_t)l];
        len += (size_t)snprintf(text + len, sizeof text - len, " %.1f", sum / IG_N_LAYER);
    }
    show(text);
    snprintf(
        text, sizeof text,
        "asked    %llu times, %llu of them again when nearer: %llu copies were cancelled for it",
        (unsigned long long)s->asked, (unsigned long long)s->renewed,
        (unsigned long long)s->taken_back);
    show(text);
}

void ig_expert_table(struct ig_engine *e, int decode, void (*show)(const char *text))
{
    char text[256], what[32];
    struct ig_expert_stats s = ig_expert_stats(e, decode, -1);
    size_t n[2] = { 0, 0 };
    char head[2][256];
    if (!s.active) return;
    n[0] = (size_t)snprintf(head[0], sizeof head[0], "%-8s", decode ? "decode" : "prefill");
    n[1] = (size_t)snprintf(head[1], sizeof head[1], "%-8s", "");
    for (int i = 0; i < N_COLUMN; i++) {
        n[0] += (size_t)snprintf(head[0] + n[0], sizeof head[0] - n[0], " %9s", column[i].name);
        n[1] += (size_t)snprintf(head[1] + n[1], sizeof head[1] - n[1], " %9s", column[i].unit);
    }
    show(head[0]);
    show(head[1]);
    for (int l = 0; l < IG_N_LAYER; l++) {
        const struct ig_expert_stats one = ig_expert_stats(e, decode, l);
        snprintf(what, sizeof what, "layer %d", l);
        line(text, sizeof text, what, &one);
        show(text);
    }
    line(text, sizeof text, "all", &s);
    show(text);
    snprintf(text, sizeof text, "copied   %.1f MB at %.2f GB/s while copying, %llu steps",
             (double)s.bytes / 1e6, s.copy_busy_s > 0 ? (double)s.bytes / s.copy_busy_s / 1e9 : 0,
             (unsigned long long)s.steps);
    show(text);
    if (!decode) return;
    show("         fill, evict, early, used, lost and what all copied are of the whole run");
    snprintf(text, sizeof text, "prefetch on in %llu steps; %s", (unsigned long long)s.steps_ahead,
             ig_prefetch_says(e));
    show(text);
    strides(e, &s, show);
}

/* What is said at the end of a run. */
void ig_expert_lines(struct ig_engine *e, void (*show)(const char *text))
{
    static const char *const name[] = { "prefill", "decode" };
    char text[640];
    int any = 0;
    for (int decode = 0; decode < 2; decode++) {
        const struct ig_expert_stats s = ig_expert_stats(e, decode, -1);
        double v[N_COLUMN];
        if (!s.active || s.steps == 0) continue;
        values(&s, v);
        snprintf(
            text, sizeof text,
            "experts: %s: %.1f %% hits, %.1f %% late, %.1f misses and %.1f us of stalls a step",
            name[decode], v[0], v[1], v[2], v[3]);
        show(text);
        any = 1;
    }
    if (!any) return;
    const struct ig_expert_stats s = ig_expert_stats(e, 1, -1);
    snprintf(text, sizeof text,
             "experts: %llu fills, %llu evictions, %llu prefetched (%llu used, %llu wasted), %.1f "
             "MB copied, stride %.1f",
             (unsigned long long)s.fill, (unsigned long long)s.evict, (unsigned long long)s.early,
             (unsigned long long)s.early_used, (unsigned long long)s.early_lost,
             (double)s.bytes / 1e6, s.stride);
    show(text);
    snprintf(text, sizeof text, "prefetch: %s", ig_prefetch_says(e));
    show(text);
    if (s.link_bw + s.cpu_bw <= 0.0) return;
    snprintf(text, sizeof text, "misses: %s", ig_misses_say(e));
    show(text);
}

static json_t *one_json(const struct ig_expert_stats *s)
{
    double v[N_COLUMN];
    json_t *j = json_object();
    values(s, v);
    for (int i = 0; i < N_COLUMN; i++) json_object_set_new(j, column[i].name, json_real(v[i]));
    return j;
}

json_t *ig_expert_json(struct ig_engine *e, int decode)
{
    const struct ig_expert_stats s = ig_expert_stats(e, decode, -1);
    const uint8_t *at;
    uint32_t every, n = ig_expert_strides(e, &every, &at);
    json_t *units = json_object(), *layers = json_array();
    if (!s.active) return json_null();
    for (int i = 0; i < N_COLUMN; i++)
        json_object_set_new(units, column[i].name, json_string(column[i].unit));
    for (int l = 0; l < IG_N_LAYER; l++) {
        const struct ig_expert_stats one = ig_expert_stats(e, decode, l);
        json_t *j = one_json(&one), *past = json_array();
        for (uint32_t i = 0; i < n; i++)
            json_array_append_new(past, json_integer(at[(size_t)i * IG_N_LAYER + (size_t)l]));
        json_object_set_new(j, "stride_over_time", past);
        json_array_append_new(layers, j);
    }
    return json_pack(
        "{s:o, s:o, s:o, s:I, s:f, s:I, s:I, s:f, s:s, s:I, s:I, s:I, s:I, s:I, s:f, s:f}", "units",
        units, "all", one_json(&s), "layers", layers, "copied_bytes", (json_int_t)s.bytes,
        "copy_busy_s", s.copy_busy_s, "steps", (json_int_t)s.steps, "steps_with_prefetch",
        (json_int_t)s.steps_ahead, "prefetch_gain", s.ahead_gain, "prefetch", ig_prefetch_says(e),
        "stride_every_steps", (json_int_t)every, "asked", (json_int_t)s.asked, "asked_again",
        (json_int_t)s.renewed, "taken_back", (json_int_t)s.taken_back, "computed_by_cpu",
        (json_int_t)s.by_cpu, "link_gb_per_s", s.link_bw / 1e9, "cpu_gb_per_s", s.cpu_bw / 1e9);
}
