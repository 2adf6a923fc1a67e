/* replay -- runs cache policies and predictors over a routing trace at simulated bandwidths.
 * Made by `make replay`.
 *
 * The cache table, the runtime's policies and the stride controller are the engine's own files;
 * this tool adds policies that only a simulator can have, a clock and the tables.
 * What the numbers mean is in sim.h; what they said is in docs/POLICIES.md.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "options.h"
#include "plot.h"
#include "policies.h"
#include "say.h"
#include "study.h"
#include "xcache.h"

enum { MAX_SPEC = 64, MAX_SETS = 8 };

struct job {
    struct options o;
    struct trace t;
    struct run_rows rows;
    uint8_t *train; /* [n_row] */
    struct learned learned;
    struct predictor_file file;
    struct hidden hidden;
    uint32_t *first, *when;
    float *hot; /* [n_layer * n_expert] uses on the training rows */
    struct plot hit_plot, speed_plot;
    double pool_x[OPT_MAX_POOL], *y; /* y: [line][pool][hit, speed] */
    char name[PLOT_MAX_LINE][48];
};

static void mark(uint8_t *doc, const uint32_t *list, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) doc[list[i]] = 1;
}

/* Rows to replay, rows to learn from (--train, else the documents not replayed, else all, which
 * makes a learned policy an oracle), and what the training rows used. */
static int choose_rows(struct job *j)
{
    const struct options *o = &j->o;
    const struct trace *t = &j->t;
    for (uint32_t i = 0; i < o->n_doc + o->n_train; i++) {
        const uint32_t d = i < o->n_doc ? o->doc[i] : o->train[i - o->n_doc];
        if (d >= t->n_doc) return ig_say("document: want below %u, got %u", t->n_doc, d);
    }
    const int decode = o->count_decode || (t->is_route && !o->count_all);
    const uint32_t batch = o->batch > 0 ? (uint32_t)o->batch : t->is_route ? UINT32_MAX : 1;
    uint8_t *replay = ig_zalloc(t->n_doc, 1), *train = ig_zalloc(t->n_doc, 1);
    if (o->n_doc)
        mark(replay, o->doc, o->n_doc);
    else
        memset(replay, 1, t->n_doc);
    mark(train, o->train, o->n_train);
    for (uint32_t d = 0; !o->n_train && d < t->n_doc; d++) train[d] = !o->n_doc || !replay[d];

    ig_rows(&j->rows, t, replay, decode, batch);
    j->train = ig_zalloc(t->n_row, 1);
    for (uint32_t d = 0; d < t->n_doc; d++)
        memset(j->train + t->doc[d].first, train[d], t->doc[d].tokens);
    free(replay);
    free(train);

    j->hot = ig_zalloc((size_t)t->n_layer * t->n_expert, sizeof *j->hot);
    for (uint32_t row = 0; row < t->n_row; row++)
        for (uint32_t i = 0; j->train[row] && i < t->n_layer * t->top_k; i++) {
            const uint16_t e = t->expert[(size_t)row * t->n_layer * t->top_k + i];
            if (e != IG_NO_EXPERT) j->hot[i / t->top_k * t->n_expert + e] += 1;
        }
    ig_future(t, &j->rows, &j->first, &j->when);
    return 0;
}

/* -- tables */

static void head(const struct options *o)
{
    if (o->csv)
        puts("predict,distance,least,bw_link_gbs,bw_mem_gbs,layer_us,sets,policy,pool_pct,slots,"
             "tokens,hit_pct,late_pct,mb_per_token,early,early_used,"
             "early_lost,stall_ms,ms,tokens_per_s");
    else
        printf("%-8s %-22s %6s %6s %6s %6s %9s %9s %9s %9s\n", "sets", "policy", "pool%", "slots",
               "hit%", "late%", "MB/token", "stall ms", "ms", "tokens/s");
}

static void print(const struct options *o, const char *sets, const char *policy, double pool,
                  uint32_t slots, const struct sim_result *r)
{
    const double n = r->tokens ? (double)r->tokens : 1, uses = r->uses ? (double)r->uses : 1;
    const double hit = 100 * (double)r->hits / uses, late = 100 * (double)r->late / uses;
    const double mb = r->bytes / n / 1e6, stall = 1e3 * r->stall / n, ms = 1e3 * r->seconds / n;
    if (o->csv)
        printf("%s,%u,%g,%g,%g,%g,", o->predict < 0 ? "none" : ig_predict_name[o->predict],
               o->predict < 0 ? 0 : o->distance, (double)o->least, o->m.bw_link / 1e9,
               o->m.bw_mem / 1e9, o->m.layer_s * 1e6);
    if (o->csv)
        printf("%s,%s,%g,%u,%llu,%.2f,%.2f,%.2f,%llu,%llu,%llu,%.3f,%.3f,%.2f\n", sets, policy,
               pool, slots, (unsigned long long)r->tokens, hit, late, mb,
               (unsigned long long)r->early, (unsigned long long)r->early_used,
               (unsigned long long)r->early_lost, stall, ms, 1e3 / ms);
    else
        printf("%-8s %-22s %6g %6u %6.1f %6.1f %9.2f %9.3f %9.3f %9.1f\n", sets, policy, pool,
               slots, hit, late, mb, stall, ms, 1e3 / ms);
}

static void plot_line(struct job *j, const char *sets, const char *policy)
{
    const uint32_t l = j->hit_plot.n_line;
    if (l == PLOT_MAX_LINE) return;
    double *y = j->y + (size_t)l * OPT_MAX_POOL * 2;
    snprintf(j->name[l], sizeof j->name[l], "%s %s", policy, sets);
    j->hit_plot.line[l] = (struct plot_line){ j->name[l], j->o.n_pool, j->pool_x, y };
    j->speed_plot.line[l] =
        (struct plot_line){ j->name[l], j->o.n_pool, j->pool_x, y + OPT_MAX_POOL };
    j->hit_plot.n_line = j->speed_plot.n_line = l + 1;
}

static void plot_point(struct job *j, uint32_t pool, const struct sim_result *r)
{
    const uint32_t l = j->hit_plot.n_line - 1;
    double *y = j->y + (size_t)l * OPT_MAX_POOL * 2;
    y[pool] = r->uses ? 100 * (double)r->hits / (double)r->uses : 0;
    y[OPT_MAX_POOL + pool] = r->seconds > 0 ? (double)r->tokens / r->seconds : 0;
}

/* -- runs */

static void plot_run(const struct job *j, const struct sim_conf *conf)
{
    /* Means of runs of rows: a pixel cannot show more. */
    enum { N = 400 };
    static double x[N], stride[N], stall[N];
    const uint32_t n = j->rows.n < N ? j->rows.n : N;
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t from = (uint32_t)((uint64_t)i * j->rows.n / n);
        const uint32_t to = (uint32_t)(((uint64_t)i + 1) * j->rows.n / n);
        x[i] = from;
        stride[i] = stall[i] = 0;
        for (uint32_t r = from; r < to; r++) {
            stride[i] += (double)conf->stride_log[r] / (to - from);
            stall[i] += 100 * (double)conf->stall_log[r] / (to - from);
        }
    }
    const struct plot panel[2] = {
        { .title = "mean stride over time",
          .x_name = "token",
          .y_name = "layers ahead",
          .n_line = 1,
          .line = { { "stride / stall", n, x, stride } } },
        { .title = "share of time stalled",
          .x_name = "token",
          .y_name = "per cent",
          .n_line = 1,
          .line = { { "stall", n, x, stall } } },
    };
    struct out_file out;
    if (ig_out_file_open(&out, j->o.svg)) exit(1);
    ig_plot_svg(out.f, panel, 2);
    if (ig_out_file_keep(&out)) exit(1);
}

static void run_one(struct job *j, const char *sets, uint32_t n_set, const char *name,
                    const struct ig_policy *policy, const struct sim_arg *arg, uint32_t pool)
{
    const struct options *o = &j->o;
    const uint32_t slots = ig_slots(&j->t, o->pool[pool], n_set);
    struct sim_conf conf = { .t = &j->t,
                             .rows = &j->rows,
                             .policy = policy,
                             .arg = &arg->base,
                             .pin = o->pin,
                             .rank_order = o->order < 0 ? j->t.is_route : o->order,
                             .m = o->m,
                             .prefetch = o->prefetch,
                             .distance = o->distance,
                             .width = o->width };
    struct predictor predictor;
    struct sim_result r;

    ig_geometry(&conf.g, &j->t, n_set, slots);
    if (policy && o->predict >= 0) {
        ig_predict_init(&predictor, (enum predict_kind)o->predict, &j->t, &j->learned,
                        o->stride[1] ? o->stride[1] : o->distance);
        predictor.least = o->least;
        conf.predictor = &predictor;
    }
    if (policy && o->stride[1]) {
        conf.rule = &o->rule;
        conf.stride = o->stride;
        conf.stride_log = ig_zalloc(j->rows.n, sizeof(float));
        conf.stall_log = ig_zalloc(j->rows.n, sizeof(float));
    }
    ig_sim(&conf, &r);
    print(o, sets, name, policy ? o->pool[pool] : 0, policy ? slots : 0, &r);
    plot_point(j, pool, &r);
    if (conf.rule && o->svg) plot_run(j, &conf);
    free(conf.stride_log);
    free(conf.stall_log);
    if (conf.predictor) ig_predict_free(&predictor);
    ig_geometry_free(&conf.g);
}

static void run_off(struct job *j)
{
    struct sim_arg none = { 0 };
    plot_line(j, "", "off");
    run_one(j, "-", 1, "off", NULL, &none, 0);
    double *y = j->y + (size_t)(j->hit_plot.n_line - 1) * OPT_MAX_POOL * 2;
    for (uint32_t p = 1; p < j->o.n_pool; p++) y[p] = y[0], y[OPT_MAX_POOL + p] = y[OPT_MAX_POOL];
}

static int run_policy(struct job *j, const char *spec, size_t len, const char *sets, uint32_t n_set)
{
    char name[MAX_SPEC];
    struct sim_arg arg = { .base.table = j->hot,
                           .t = &j->t,
                           .rows = &j->rows,
                           .train = j->train,
                           .first = j->first,
                           .when = j->when };
    const struct ig_policy *policy = ig_policy_parse(spec, len, &arg.base);
    if (!policy || len >= sizeof name) return ig_say("--policies: no policy %.*s", (int)len, spec);
    memcpy(name, spec, len);
    name[len] = 0;
    plot_line(j, sets, name);
    for (uint32_t p = 0; p < j->o.n_pool; p++) run_one(j, sets, n_set, name, policy, &arg, p);
    return 0;
}

static int run_sets(struct job *j, const char *sets, uint32_t n_set)
{
    if (!strcmp(j->o.policies, "all")) {
        for (const struct policy_entry *e = ig_policies; e->policy; e++)
            if (run_policy(j, e->policy->name, strlen(e->policy->name), sets, n_set)) return -1;
        return 0;
    }
    for (const char *s = j->o.policies;; s += strcspn(s, ",") + 1) {
        if (run_policy(j, s, strcspn(s, ","), sets, n_set)) return -1;
        if (!s[strcspn(s, ",")]) return 0;
    }
}

static int run_all(struct job *j)
{
    head(&j->o);
    run_off(j);
    for (const char *s = j->o.sets;; s += strcspn(s, ",") + 1) {
        char sets[16];
        const size_t len = strcspn(s, ",");
        unsigned long n = 0;
        snprintf(sets, sizeof sets, "%.*s", (int)len, s);
        if (!strcmp(sets, "layers"))
            n = j->t.n_layer;
        else if (!strcmp(sets, "global"))
            n = 1;
        else
            n = strtoul(sets, NULL, 10);
        if (n < 1 || n > j->t.n_layer)
            return ig_say("--sets: want layers, global or 1..%u, got %s", j->t.n_layer, sets);
        if (run_sets(j, sets, (uint32_t)n)) return -1;
        if (!s[len]) return 0;
    }
}

static int write_svg(struct job *j)
{
    const struct plot panel[2] = { j->hit_plot, j->speed_plot };
    struct out_file out;
    if (ig_out_file_open(&out, j->o.svg)) return -1;
    ig_plot_svg(out.f, panel, 2);
    return ig_out_file_keep(&out);
}

/* What the predictors have beside the trace. */
static int learned(struct job *j)
{
    j->learned.train = j->train;
    if (j->o.predictor) {
        if (ig_predictor_file_read(&j->file, j->o.predictor, &j->t))
            return ig_say("%s: %s", j->o.predictor, j->file.why);
        j->learned.file = &j->file;
    } else if (j->o.predict == PREDICT_FOREST || j->o.predict == PREDICT_MLP) {
        return ig_say("--predict %s: want --predictor FILE, got none",
                      ig_predict_name[j->o.predict]);
    }
    if (j->o.hidden) {
        if (ig_hidden_read(&j->hidden, j->o.hidden, &j->t))
            return ig_say("%s: %s", j->o.hidden, j->hidden.why);
        j->learned.hidden = &j->hidden;
    }
    return 0;
}

int main(int argc, char **argv)
{
    static struct job j;
    const int rc = ig_options(&j.o, argc, argv);
    if (rc) return rc < 0 ? 2 : 0;
    if (ig_trace_read(&j.t, j.o.trace)) {
        ig_say("%s: %s", j.o.trace, j.t.why);
        return 1;
    }
    if (choose_rows(&j)) return 2;
    j.y = ig_zalloc((size_t)PLOT_MAX_LINE * OPT_MAX_POOL * 2, sizeof *j.y);
    for (uint32_t p = 0; p < j.o.n_pool; p++) j.pool_x[p] = j.o.pool[p];
    j.hit_plot = (struct plot){
        .title = "hit rate", .x_name = "cached experts, per cent", .y_name = "per cent", .points = 1
    };
    j.speed_plot = (struct plot){ .title = "predicted speed",
                                  .x_name = "cached experts, per cent",
                                  .y_name = "tokens/s",
                                  .points = 1 };
    if (learned(&j)) return 1;
    int bad = 0;
    if (j.o.recall)
        ig_recall(&j.t, &j.rows, &j.learned, j.o.csv);
    else if (j.o.features)
        bad = ig_features(&j.t, &j.rows, &j.learned, j.o.features, j.o.every);
    else
        bad = run_all(&j);
    if (!bad && j.o.svg && !j.o.recall && !j.o.features && !j.o.stride[1]) bad = write_svg(&j);
    free(j.y);
    free(j.hot);
    free(j.first);
    free(j.when);
    free(j.train);
    ig_predictor_file_free(&j.file);
    ig_hidden_free(&j.hidden);
    ig_rows_free(&j.rows);
    ig_trace_free(&j.t);
    return bad ? 2 : 0;
}
