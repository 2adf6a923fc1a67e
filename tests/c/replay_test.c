/* The replay tool's parts: trace readers (hostile input too), simulator, predictors, and the known
 * results on the shared traces (INGOT_SHARED, or ../shared from the repository root; else skipped).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "policies.h"
#include "predictors.h"
#include "sim.h"
#include "trace.h"

static uint64_t seed = 11;
static uint32_t rnd(uint32_t n)
{
    seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
    return (uint32_t)(seed >> 33) % n;
}

/* -- traces made here */

static char *put(char *p, uint32_t v)
{
    for (int i = 0; i < 4; i++) *p++ = (char)(v >> 8 * i);
    return p;
}

enum { V2_DOCS = 2, V2_ROWS = 7, V2_L = 3, V2_E = 5, V2_K = 2, V2_P = 2 };
enum { V2_CELLS = V2_ROWS * V2_L * V2_K };

/* Documents of 4 and 3 rows, distances 1 and 2. */
static size_t make_v2(char *s)
{
    char *p = s;
    memcpy(p, "MOETRC02", 8), p += 8;
    const uint32_t head[] = { V2_DOCS, 4, V2_L, V2_E, V2_K, V2_P, 1, 2, 4, 1, 0, 0, 3, 0, 2, 1 };
    for (size_t i = 0; i < sizeof head / sizeof *head; i++) p = put(p, head[i]);
    for (uint32_t i = 0; i < V2_ROWS; i++) p = put(p, 100 + i % 3);
    for (int i = 0; i < V2_CELLS; i++) *p++ = (char)((i / 2 + i % 2) % V2_E);
    for (int i = 0; i < V2_CELLS; i++) *p++ = (char)(i % 2 ? 55 : 200);
    for (int d = 0; d < V2_P; d++)
        for (int i = 0; i < V2_CELLS; i++)
            *p++ = (char)(i / V2_K % V2_L <= d ? 255 : (i / 2 + i % 2 + d) % V2_E);
    return (size_t)(p - s);
}

static size_t make_v1(char *s)
{
    char *p = s;
    memcpy(p, "MOETRC01", 8), p += 8;
    const uint32_t head[] = { 5, 1, 4, 3, 2, 0, 9, 8, 7, 9, 8 };
    for (size_t i = 0; i < sizeof head / sizeof *head; i++) p = put(p, head[i]);
    for (int i = 0; i < 15; i++) *p++ = (char)(i % 3);
    *p++ = 0; /* up to a multiple of 4 */
    for (int i = 0; i < 15; i++) {
        const float w = 0.25f;
        memcpy(p, &w, 4), p += 4;
    }
    return (size_t)(p - s);
}

static const char csv[] = "# route_trace v1\n"
                          "# model=x arch=y n_layer=2 n_expert=4 n_expert_used=2\n"
                          "# layer=0 expert_bytes=1000 dense_bytes=5\n"
                          "# layer=1 expert_bytes=3000 dense_bytes=5\n"
                          "turn,phase,step,layer,slot,expert,weight,residency,expert_bytes\n"
                          "0,0,0,0,0,1,0.75,0,1000\n"
                          "0,0,0,0,1,2,0.25,0,1000\n"
                          "0,0,1,0,0,3,0.5,0,1000\n"
                          "0,0,1,0,1,2,0.5,1,0\n"
                          "0,0,1,1,0,0,1e0,0,3000\n" /* the last row alone is routed in layer 1 */
                          "0,0,1,1,1,1,0.0,0,3000\n"
                          "0,1,2,0,0,1,0.5,0,0\n"
                          "0,1,2,0,1,0,0.5,0,0\n"
                          "0,1,2,1,1,3,0.5,0,0\n" /* any order */
                          "0,1,2,1,0,0,0.5,0,0\n";

static void reads_v2(void **state)
{
    (void)state;
    char s[1024];
    struct trace t;
    assert_int_equal(ig_trace_parse(&t, s, make_v2(s)), 0);
    assert_int_equal(t.n_doc, 2);
    assert_int_equal(t.n_row, V2_ROWS);
    assert_int_equal(t.doc[1].first, 4);
    assert_int_equal(t.doc[0].prompt, 1);
    assert_int_equal(t.token[4], 101);
    assert_int_equal(t.expert[trace_at(&t, 1, 1) + 1], (1 * 3 + 1 + 1) % V2_E);
    assert_int_equal(t.predicted[trace_at(&t, 2, 0)], IG_NO_EXPERT);
    assert_true(fabsf(t.weight[0] - 200.0f / 255) < 1e-6f);
    ig_trace_free(&t);
}

static void reads_v1(void **state)
{
    (void)state;
    char s[256];
    struct trace t;
    assert_int_equal(ig_trace_parse(&t, s, make_v1(s)), 0);
    assert_int_equal(t.n_doc, 3); /* windows of 2, 2, 1 rows */
    assert_int_equal(t.doc[2].tokens, 1);
    assert_int_equal(t.expert[trace_at(&t, 4, 0) + 2], 2);
    assert_int_equal(t.token[3], 9);
    ig_trace_free(&t);
}

static void reads_csv(void **state)
{
    (void)state;
    struct trace t;
    assert_int_equal(ig_trace_parse(&t, csv, sizeof csv - 1), 0);
    assert_int_equal(t.n_row, 3);
    assert_int_equal(t.doc[0].prompt, 2);
    assert_int_equal(t.bytes[1], 3000);
    assert_int_equal(t.expert[trace_at(&t, 0, 1)], IG_NO_EXPERT);
    assert_int_equal(t.expert[trace_at(&t, 2, 1) + 1], 3);
    ig_trace_free(&t);
}

static void refused(const char *data, size_t size, const char *says)
{
    struct trace t;
    assert_int_equal(ig_trace_parse(&t, data, size), -1);
    if (!strstr(t.why, says)) fail_msg("want \"%s\" in: %s", says, t.why);
}

static void names_the_field(void **state)
{
    (void)state;
    char s[1024];
    size_t n = make_v2(s);
    refused(s, n - 1, "length: want");
    refused(s, n + 1, "length: want");
    put(s + 16, 0), refused(s, n, "layers: want 1.."), make_v2(s);
    put(s + 16, UINT32_MAX), refused(s, n, "layers: want 1.."), make_v2(s);
    put(s + 24, 6), refused(s, n, "top-k: want 1..5"), make_v2(s);
    put(s + 28, 9), refused(s, n, "distances: want at most"), make_v2(s);
    put(s + 32, 3), refused(s, n, "distances: want ascending"), make_v2(s);
    put(s + 40, UINT32_MAX), refused(s, n, "document 0: tokens"), make_v2(s);
    put(s + 44, 5), refused(s, n, "document 0: prompt"), make_v2(s);
    s[72 + 28] = 9, refused(s, n, "expert ids: want below 5, got 9"), make_v2(s);
    s[72 + 28] = s[72 + 29], refused(s, n, "twice"), make_v2(s);
    s[72 + 28 + 2 * V2_CELLS] = 7, refused(s, n, "predicted ids"), make_v2(s);
    refused("hello", 5, "magic");
    refused("", 0, "magic");

    char c[2048];
#define CHANGED(from, to, says)                                                                    \
    do {                                                                                           \
        char *at = strstr(strcpy(c, csv), from);                                                   \
        memcpy(at, to, strlen(to));                                                                \
        refused(c, strlen(c), says);                                                               \
    } while (0)
    CHANGED("0,0,0,0,0,1,", "0,0,0,0,0,4,", "line 6:");
    CHANGED("0,0,0,0,0,1,", "0,2,0,0,0,1,", "line 6:");
    CHANGED("0,0,0,0,0,1,", "0,0,0,2,0,1,", "line 6:");
    CHANGED("0,0,0,0,1,2,", "0,0,0,0,0,2,", "stated twice");
    CHANGED("0,0,0,0,1,2,", "0,0,0,0,1,1,", "twice in row");
    CHANGED("0.75", "nan,", "line 6:");
    CHANGED("n_layer=2 n_expert=4 n_expert_used=2", "n_layer=999 n_expert=99 n_expert_used=99",
            "rows: 10 for 3 tokens");
    CHANGED("n_expert=4 n_expert_used=2", "n_expert=8192 n_expert_used=999", "top-k: want 1..256");
    CHANGED("n_expert=4", "n_expert=0", "experts: want");
    CHANGED("layer=1 e", "layer=2 e", "header: layer");
}

/* Every truncation and many random changes: an error or a trace, never a crash. */
static void hostile(void **state)
{
    (void)state;
    char good[3][2048], *bad;
    const size_t size[3] = { make_v2(good[0]), make_v1(good[1]), sizeof csv - 1 };
    memcpy(good[2], csv, sizeof csv);
    for (int f = 0; f < 3; f++)
        for (size_t i = 0; i < size[f] + 4000; i++) {
            const size_t n = i < size[f] ? i : size[f];
            struct trace t;
            bad = malloc(n + 1); /* its own block, so that a sanitizer sees the end */
            memcpy(bad, good[f], n);
            for (uint32_t k = i < size[f] ? 0 : 1 + rnd(3); k; k--)
                bad[rnd((uint32_t)n)] = (char)rnd(256);
            char *exact = realloc(bad, n ? n : 1);
            if (!ig_trace_parse(&t, exact, n)) ig_trace_free(&t);
            free(exact);
        }
}

/* -- the simulator */

struct setup {
    struct trace t;
    struct run_rows rows;
    uint8_t *docs;
    struct sim_arg arg;
    uint32_t *first, *when;
};

static void setup(struct setup *s, int decode, uint32_t batch)
{
    s->docs = malloc(s->t.n_doc);
    memset(s->docs, 1, s->t.n_doc);
    ig_rows(&s->rows, &s->t, s->docs, decode, batch);
    ig_future(&s->t, &s->rows, &s->first, &s->when);
    s->arg = (struct sim_arg){ .t = &s->t, .rows = &s->rows, .first = s->first, .when = s->when };
}

static void cleanup(struct setup *s)
{
    ig_rows_free(&s->rows);
    ig_trace_free(&s->t);
    free(s->docs);
    free(s->first);
    free(s->when);
}

static struct sim_result run(struct setup *s, const char *policy, uint32_t n_set, uint32_t slots,
                             int pin, enum predict_kind predict)
{
    struct predictor predictor;
    struct sim_result r;
    struct sim_conf c = { .t = &s->t,
                          .rows = &s->rows,
                          .arg = &s->arg.base,
                          .pin = pin,
                          .rank_order = s->t.is_route,
                          .prefetch = 1,
                          .distance = 1,
                          .m = {
                              .bw_link = 1e9, .bw_mem = 1e10, .layer_s = 1e-4, .bytes = 100000 } };
    uint8_t *train = calloc(s->t.n_row, 1);
    s->arg.train = train;
    c.policy = policy ? ig_policy_parse(policy, strlen(policy), &s->arg.base) : NULL;
    assert_true(!policy || c.policy);
    ig_geometry(&c.g, &s->t, n_set, slots);
    if (predict < N_PREDICT) {
        ig_predict_init(&predictor, predict, &s->t, &(struct learned){ .train = train }, 1);
        c.predictor = &predictor;
    }
    ig_sim(&c, &r);
    if (c.predictor) ig_predict_free(&predictor);
    ig_geometry_free(&c.g);
    free(train);
    return r;
}

/* A random trace of one document, some experts much more often than others. */
static void random_trace(struct trace *t, uint32_t rows, uint32_t layers, uint32_t experts,
                         uint32_t k)
{
    static char s[1 << 16];
    char *p = s;
    memcpy(p, "MOETRC02", 8), p += 8;
    const uint32_t head[] = { 1, rows, layers, experts, k, 0, rows, 0, 0, 0 };
    for (size_t i = 0; i < sizeof head / sizeof *head; i++) p = put(p, head[i]);
    for (uint32_t i = 0; i < rows; i++) p = put(p, rnd(6));
    for (uint32_t i = 0; i < rows * layers; i++)
        for (uint32_t j = 0; j < k;) {
            const uint32_t e = rnd(1 + rnd(experts));
            if (memchr(p, (int)e, j)) continue;
            p[j++] = (char)e;
            if (j == k) p += k, j = k;
        }
    for (uint32_t i = 0; i < rows * layers * k; i++) *p++ = (char)(120 / k);
    assert_int_equal(ig_trace_parse(t, s, (size_t)(p - s)), 0);
}

/* Best hits of the rest of one layer's rows over every choice of what to keep: tiny cases only. */
static uint32_t best(const struct trace *t, uint32_t row, uint32_t have, uint32_t ways)
{
    if (row == t->n_row) return 0;
    uint32_t need = 0, most = 0;
    for (uint32_t k = 0; k < t->top_k; k++) need |= 1u << t->expert[trace_at(t, row, 0) + k];
    const uint32_t hits = (uint32_t)__builtin_popcount(have & need), all = have | need;
    for (uint32_t keep = all;; keep = (keep - 1) & all) { /* subsets */
        const int full = __builtin_popcount(keep) == (int)ways || keep == all;
        if ((keep & need) == need && __builtin_popcount(keep) <= (int)ways && full) {
            const uint32_t rest = best(t, row + 1, keep, ways);
            if (rest > most) most = rest;
        }
        if (!keep) break;
    }
    return hits + most;
}

static void belady_is_the_best(void **state)
{
    (void)state;
    for (int i = 0; i < 60; i++) {
        struct setup s;
        random_trace(&s.t, 9, 1, 6, 2);
        setup(&s, 0, 1);
        const uint32_t ways = 2 + rnd(3);
        assert_int_equal(run(&s, "belady", 1, ways, 1, N_PREDICT).hits, best(&s.t, 0, 0, ways));
        cleanup(&s);
    }
}

static void nothing_beats_belady(void **state)
{
    (void)state;
    struct setup s;
    random_trace(&s.t, 400, 3, 12, 3);
    setup(&s, 0, 1);
    for (uint32_t ways = 3; ways <= 12; ways += 3) {
        const uint64_t bound = run(&s, "belady", 3, 3 * ways, 1, N_PREDICT).hits;
        const uint64_t bypass = run(&s, "belady-bypass", 3, 3 * ways, 0, N_PREDICT).hits;
        for (const struct policy_entry *e = ig_policies; e->policy; e++) {
            const struct sim_result r = run(&s, e->policy->name, 3, 3 * ways, 1, N_PREDICT);
            assert_true(r.hits <= (e->policy->admit ? bypass : bound));
            assert_true(ways < 12 || r.hits >= r.uses - 36); /* all fit: only first uses miss */
            assert_int_equal(r.uses, 400 * 9);
        }
    }
    cleanup(&s);
}

static void clock_adds_up(void **state)
{
    (void)state;
    struct setup s;
    random_trace(&s.t, 300, 4, 10, 2);
    setup(&s, 0, 1);
    /* Off: every expert takes 1e5 B / 1e9 B/s, the last one's read 1e-5 s, 1e-4 s a layer. */
    const struct sim_result off = run(&s, NULL, 1, 1, 1, N_PREDICT);
    assert_int_equal(off.hits, 0);
    assert_true(fabs(off.seconds - 1200 * (1e-4 + 2e-4 + 1e-5)) < 1e-9);
    assert_true(fabs(off.bytes - 2400 * 1e5) < 1);
    /* All cached: nothing but first uses crosses the link. */
    const struct sim_result all = run(&s, "lru", 4, 40, 1, N_PREDICT);
    assert_true(fabs(all.bytes - 1e5 * (double)(all.uses - all.hits)) < 1);
    /* A perfect predictor: no more bytes than needed, no more stall than without, nothing lost. */
    const struct sim_result none = run(&s, "lru", 4, 20, 1, N_PREDICT);
    const struct sim_result perfect = run(&s, "lru", 4, 20, 1, PREDICT_PERFECT);
    assert_true(none.stall > 0 && perfect.stall < 0.7 * none.stall);
    assert_int_equal(perfect.early, perfect.early_used);
    assert_true(fabs(none.seconds - none.stall - (1200 * 1e-4 + 2400 * 1e-5)) < 1e-9);
    assert_true(fabs(perfect.seconds - perfect.stall - (1200 * 1e-4 + 2400 * 1e-5)) < 1e-9);
    /* Wrong predictors cost time, never a wrong count. */
    for (int k = 0; k < N_PREDICT; k++) {
        const struct sim_result r = run(&s, "decay", 4, 20, 1, (enum predict_kind)k);
        assert_int_equal(r.uses, 2400);
        assert_true(r.early_used + r.early_lost <= r.early && r.hits + r.late <= r.uses);
    }
    cleanup(&s);
}

/* -- the shared traces */

static int shared(struct setup *s, const char *name)
{
    const char *root = getenv("INGOT_SHARED");
    char path[512];
    snprintf(path, sizeof path, "%s/%s", root ? root : "../shared", name);
    FILE *f = fopen(path, "rb");
    if (!f) return 0;
    fclose(f);
    if (ig_trace_read(&s->t, path)) fail_msg("%s: %s", path, s->t.why);
    return 1;
}

static void near(struct setup *s, const char *policy, int sets, double pool, double want,
                 double within)
{
    const uint32_t n_set = sets ? s->t.n_layer : 1;
    const struct sim_result r = run(s, policy, n_set, ig_slots(&s->t, pool, n_set), 1, N_PREDICT);
    const double got = 100 * (double)r.hits / (double)r.uses;
    if (fabs(got - want) > within)
        fail_msg("%s, %s, %g %%: want %.1f, got %.2f", policy, sets ? "layers" : "global", pool,
                 want, got);
}

static void qwen(void **state)
{
    (void)state;
    struct setup s;
    if (!shared(&s, "traces/qwen.route.csv")) skip();
    setup(&s, 1, UINT32_MAX);
    near(&s, "lru", 0, 3, 0, 0.01);
    near(&s, "lru", 0, 10, 50.0, 0.5);
    near(&s, "lru", 0, 20, 74.1, 0.5);
    near(&s, "lru", 1, 10, 53.8, 0.5);
    near(&s, "lru", 1, 20, 74.8, 0.5);
    near(&s, "decay", 1, 10, 58.8, 0.5);
    near(&s, "decay", 1, 20, 77.6, 0.5);
    near(&s, "belady", 0, 10, 75.7, 0.5);
    near(&s, "belady", 0, 20, 90.1, 0.5);
    cleanup(&s);
}

static void fine_moe(void **state)
{
    (void)state;
    struct setup s;
    if (!shared(&s, "traces/fine-moe.trace")) skip();
    setup(&s, 0, 1);
    near(&s, "lru", 1, 25, 47.9, 0.1);
    near(&s, "lru", 1, 50, 74.3, 0.1);
    near(&s, "decay", 1, 25, 52.0, 0.1);
    near(&s, "decay", 1, 50, 77.9, 0.5);
    near(&s, "decay:32", 1, 50, 77.9, 0.1);
    near(&s, "belady", 1, 25, 65.5, 0.1);
    near(&s, "belady", 1, 50, 87.9, 0.1);
    near(&s, "lru", 0, 25, 43.1, 0.1);
    near(&s, "lru", 0, 50, 73.3, 0.1);
    near(&s, "echo", 1, 25, 54.7, 0.3);
    cleanup(&s);
}

static void next_router_recall(void **state)
{
    (void)state;
    static const double want[3] = { 77.3, 68.1, 55.4 };
    struct setup s;
    if (!shared(&s, "traces/fine-moe.trace")) skip();
    setup(&s, 0, 1);
    for (uint32_t d = 0; d < 3; d++) {
        const double got =
            ig_predict_recall(&s.t, &s.rows, PREDICT_NEXT, NULL, s.t.dist[d], NULL, NULL);
        assert_true(fabs(100 * got - want[d]) < 0.06);
    }
    cleanup(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_v2),
        cmocka_unit_test(reads_v1),
        cmocka_unit_test(reads_csv),
        cmocka_unit_test(names_the_field),
        cmocka_unit_test(hostile),
        cmocka_unit_test(belady_is_the_best),
        cmocka_unit_test(nothing_beats_belady),
        cmocka_unit_test(clock_adds_up),
        cmocka_unit_test(qwen),
        cmocka_unit_test(fine_moe),
        cmocka_unit_test(next_router_recall),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests_name("replay", tests, NULL, NULL);
}
