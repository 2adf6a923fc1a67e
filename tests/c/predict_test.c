/* Predictors: chances, learning, the trained tables against sums done here, and the files they come
 * from (hostile input too).
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

#include "own.h"
#include "predict_parts.h"
#include "predictor_file.h"

enum { L = 4, E = 10, K = 2, D = 6 };
static const struct ig_pshape shape = { L, E, K, D };

static uint64_t seed = 3;
static uint32_t rnd(uint32_t n)
{
    seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
    return (uint32_t)(seed >> 33) % n;
}

static void *begin(const struct ig_predictor *p, const struct ig_ptables *t)
{
    void *state = malloc(p->bytes(&shape, t)); /* its own block, so that a sanitizer sees the end */
    p->init(state, &shape, t);
    return state;
}

/* A row whose every layer chose a and b. */
static void row(const struct ig_predictor *p, void *state, int32_t token, int32_t a, int32_t b)
{
    const int32_t id[K] = { a, b };
    const float weight[K] = { 0.7f, 0.3f };
    p->token(state, token);
    for (uint32_t l = 0; l < L; l++) p->use(state, 0, l, id, weight);
}

static void best_of_chances(void **state)
{
    (void)state;
    int32_t id[4];
    float c[5] = { 0.3f, 0.9f, 0.9f, 0, 0.5f };
    assert_int_equal(ig_predict_best(c, 5, 4, 0.4f, id), 3); /* 0.3 is not likely enough */
    assert_int_equal(id[0], 1);                              /* a tie goes to the lower id */
    assert_int_equal(id[1], 2);
    assert_int_equal(id[2], 4);
    float d[2] = { 0, -1 };
    assert_int_equal(ig_predict_best(d, 2, 2, 0, id), 0); /* nothing is known */
}

/* A rank that always comes true nears 1, one that never does nears 0. */
static void next_router_learns(void **state)
{
    (void)state;
    const struct ig_predictor *p = &ig_predictor_next_router;
    void *s = begin(p, NULL);
    float c[E];
    const int32_t next[K] = { 7, 3 };
    const struct ig_pask a = { .layer = 2, .dist = 1, .next = next };
    p->ask(s, &a, c);
    assert_true(c[7] > c[3] && c[3] > 0 && c[0] == 0); /* before anything was counted */
    for (int i = 0; i < 200; i++) {
        const int32_t id[K] = { 7, 5 };
        p->token(s, 1);
        p->ask(s, &a, c);
        p->use(s, 0, 2, id, (const float[]){ 0.6f, 0.4f });
    }
    p->ask(s, &a, c);
    assert_true(c[7] > 0.98f && c[3] < 0.02f);
    assert_true(c[5] > 0.1f && c[5] == c[0]); /* one of the eight that were not named */
    const struct ig_pask other = { .layer = 3, .dist = 1, .next = next };
    p->ask(s, &other, c);
    assert_true(c[3] > 0.5f); /* another layer's ranks are its own */
    const struct ig_pask start = { .layer = 0, .dist = 0 };
    p->ask(s, &start, c);
    for (int e = 0; e < E; e++) assert_true(c[e] == 0);
    free(s);
}

/* The token's last rows name the experts, before any layer has run. */
static void hybrid_remembers_tokens(void **state)
{
    (void)state;
    const struct ig_predictor *p = &ig_predictor_hybrid;
    void *s = begin(p, NULL);
    float c[E];
    for (int i = 0; i < 30; i++) row(p, s, 100, 1, 2), row(p, s, 200, 8, 9);
    p->token(s, 100);
    const struct ig_pask a = { .layer = 1, .dist = 0 };
    p->ask(s, &a, c);
    assert_true(c[1] > 0.9f && c[2] > 0.9f && c[8] < 0.1f);
    p->token(s, -1); /* unknown: no votes */
    p->ask(s, &a, c);
    for (int e = 0; e < E; e++) assert_true(c[e] < 0.1f);
    free(s);
}

/* Rows beyond the memory are forgotten, not mixed up; a batch's rows count for the row they are of.
 */
static void memory_of_rows(void **state)
{
    (void)state;
    struct ig_sense s;
    void *mem = malloc(ig_sense_bytes(&shape));
    float share[E];
    const int32_t x[K] = { 4, 5 }, y[K] = { 6, 7 };
    ig_sense_init(&s, &shape, mem);
    ig_sense_token(&s, 1);
    ig_sense_token(&s, 2);
    ig_sense_use(&s, 1, 0, x); /* of token 1 */
    ig_sense_use(&s, 0, 0, y);
    ig_sense_use(&s, 2, 0, y); /* there is no such row */
    ig_sense_token(&s, 1);
    ig_sense_vote(&s, 0, share);
    assert_true(share[4] == 1 && share[6] == 0);
    for (int i = 0; i < 10000; i++) ig_sense_token(&s, 3 + (int)rnd(1000));
    ig_sense_token(&s, 1);
    ig_sense_vote(&s, 0, share);
    for (int e = 0; e < E; e++) assert_true(share[e] == 0);
    free(mem);
}

static void history_knows_pairs(void **state)
{
    (void)state;
    static uint8_t joint[2 * L * E * E];
    const struct ig_ptables t = { .joint = joint, .n_joint = 2 };
    const struct ig_predictor *p = &ig_predictor_history;
    void *s = begin(p, &t);
    float c[E];
    joint[((0 * L + 1) * E + 3) * E + 8] = 255; /* 3 in layer 1: 8 in layer 2 */
    joint[((1 * L + 1) * E + 3) * E + 9] = 128; /* and 9 in layer 3 */
    p->token(s, 0);
    p->use(s, 0, 1, (const int32_t[]){ 3, 0 }, (const float[]){ 0.8f, 0.2f });
    p->ask(s, &(struct ig_pask){ .layer = 2, .dist = 1 }, c);
    for (int e = 0; e < E; e++) assert_true(e == 8 ? c[e] > 0.6f : c[e] == 0);
    p->ask(s, &(struct ig_pask){ .layer = 3, .dist = 2 }, c);
    for (int e = 0; e < E; e++) assert_true(e == 9 ? c[e] > 0.3f : c[e] == 0);
    p->ask(s, &(struct ig_pask){ .layer = 3, .dist = 3 }, c); /* no table of that distance */
    for (int e = 0; e < E; e++) assert_true(c[e] == 0);
    p->ask(s, &(struct ig_pask){ .layer = 1, .dist = 1 }, c); /* layer 0 has not chosen */
    for (int e = 0; e < E; e++) assert_true(c[e] == 0);
    free(s);
}

/* -- trained tables */

static const char text[] = "ingot-predictor 1\nshape 4 10 2 6 9\n"
                           "linear 2 1 1 0.5 2\n"
                           "0 0 0 0 0 0 0 0 0 -1.5\n"
                           "1 0 0 0 0 0\n"
                           "0 0 0 0 0 3 0 0 0 0\n"
                           "forest 1 3 2 1\n"
                           "0 100 1 0\n" /* next > 100; vote > 0 */
                           "0 255 51 204\n"
                           "mlp 0 1 2 2\n"
                           "0.5 0.25 2\n"
                           "0 0.5 0 -1 0.125\n"
                           "2 0 0 0 0 0 0 0 0 0 -4 0 0 0 0 0 0 0\n"
                           "1 1 0 2\n"
                           "3 -1\nend\n";

static void forest_is_its_thresholds(void **state)
{
    (void)state;
    struct predictor_file f;
    assert_int_equal(ig_predictor_file_parse(&f, text, sizeof text - 1), 0);
    const struct ig_predictor *p = &ig_predictor_forest;
    void *s = begin(p, &f.t);
    float c[E];
    const int32_t next[K] = { 7, 3 };
    p->token(s, 1);
    p->ask(s, &(struct ig_pask){ .layer = 1, .dist = 1, .next = next }, c);
    /* Rank 0 and 1 of 2 are 255 and 128, above 100; no votes. */
    assert_true(fabsf(c[7] - (255 + 51) / 510.0f) < 1e-6f && c[3] == c[7]);
    assert_true(c[0] == 0); /* nothing speaks for it: not looked at */
    p->ask(s, &(struct ig_pask){ .layer = 0, .dist = 0 }, c);
    for (int e = 0; e < E; e++) assert_true(c[e] == 0); /* layer 0 is of no group */
    row(p, s, 5, 4, 6);
    p->token(s, 5);
    p->ask(s, &(struct ig_pask){ .layer = 3, .dist = 0 }, c);
    assert_true(fabsf(c[4] - (0 + 204) / 510.0f) < 1e-6f); /* not named, but voted for */
    free(s);
    ig_predictor_file_free(&f);
}

static void mlp_is_its_sums(void **state)
{
    (void)state;
    struct predictor_file f;
    assert_int_equal(ig_predictor_file_parse(&f, text, sizeof text - 1), 0);
    const struct ig_predictor *p = &ig_predictor_mlp;
    void *s = begin(p, &f.t);
    float c[E];
    const int32_t next[K] = { 7, -1 };
    p->token(s, 1);
    p->ask(s, &(struct ig_pask){ .layer = 1, .dist = 1, .next = next }, c);
    /* next 1, vote 0: hidden (2 x 0.5, 0.5), then ((1 + 0.5) x 0.25, 2 x 0.5 x 0.25 - 1 < 0), then
     * 3 x 0.375 x 2 + 0.125. */
    assert_true(fabsf(c[7] - 1 / (1 + expf(-2.375f))) < 1e-6f);
    assert_true(c[0] == 0);
    free(s);
    ig_predictor_file_free(&f);
}

/* The map of the hidden state reaches the features, for its layer and distance alone. */
static void linear_is_a_feature(void **state)
{
    (void)state;
    struct predictor_file f;
    struct ig_sense s;
    uint8_t feature[E][IG_N_PFEATURE];
    const float hidden[D] = { 0.5f, 9, 9, 9, 9, 9 };
    assert_int_equal(ig_predictor_file_parse(&f, text, sizeof text - 1), 0);
    void *mem = malloc(ig_sense_bytes(&shape));
    ig_sense_init(&s, &shape, mem);
    ig_sense_token(&s, 1);
    struct ig_pask a = { .layer = 2, .dist = 1, .hidden = hidden };
    ig_sense_features(&s, &a, &f.t, feature);
    /* z = 0.25; expert 5: sigmoid(3 x 0.25 x 2), expert 9: sigmoid(-1.5), others a half. */
    assert_int_equal(feature[5][IG_PF_LEARNED], (int)lrintf(255 / (1 + expf(-1.5f))));
    assert_int_equal(feature[9][IG_PF_LEARNED], (int)lrintf(255 / (1 + expf(1.5f))));
    assert_int_equal(feature[0][IG_PF_LEARNED], 128);
    a.dist = 2;
    ig_sense_features(&s, &a, &f.t, feature);
    assert_int_equal(feature[5][IG_PF_LEARNED], 0);
    const float bad[D] = { NAN, INFINITY, 0, 0, 0, 0 };
    a.dist = 1, a.hidden = bad;
    ig_sense_features(&s, &a, &f.t, feature); /* a number, whichever */
    free(mem);
    ig_predictor_file_free(&f);
}

static void sigmoid_is_one(void **state)
{
    (void)state;
    for (float x = -30; x < 30; x += 0.37f)
        assert_true(fabsf(ig_sigmoid1(x) - 1 / (1 + expf(-x))) < 1e-6f);
    assert_true(ig_sigmoid1(1e30f) == 1 && ig_sigmoid1(-1e30f) == 0);
}

/* -- files */

static void refused(const char *from, const char *to, const char *says)
{
    struct predictor_file f;
    char c[sizeof text + 64];
    const char *at = strstr(text, from);
    const int n = snprintf(c, sizeof c, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
    assert_int_equal(ig_predictor_file_parse(&f, c, (size_t)n), -1);
    if (!strstr(f.why, says)) fail_msg("want \"%s\" in: %s", says, f.why);
}

static void names_what_is_wrong(void **state)
{
    (void)state;
    refused("ingot-predictor", "ingot", "header: want ingot-predictor, got ingot");
    refused("predictor 1", "predictor 2", "version: want 1..1, got 2");
    refused("shape 4", "shape 0", "layers: want 1..1024, got 0");
    refused("shape 4 10 2", "shape 4 10 11", "top-k: want 1..10, got 11");
    refused("6 9\n", "6 8\n", "features: want 9..9, got 8");
    refused("linear 2 1 1", "linear 2 3 1", "distance: want at most the layer");
    refused("linear 2 1 1", "linear 2 1 65", "rank: want 1..64, got 65");
    refused("linear 2 1 1 0.5", "linear 2 1 1 nan", "scale: want a number, got nan");
    refused("forest 1 3 2 1", "forest 1 4 2 1", "last layer: want 1..3, got 4");
    refused("forest 1 3 2 1", "forest 1 3 65 1", "trees: want 1..64");
    refused("forest 1 3 2 1", "forest 1 3 2 11", "depth: want 1..10");
    refused("0 100 1 0", "9 100 1 0", "feature: want 0..8, got 9");
    refused("0 100 1 0", "0 256 1 0", "threshold: want 0..255");
    refused("0 255 51 204", "0 255 51 -1", "leaf: want 0..255, got -1");
    refused("mlp 0 1 2 2", "mlp 0 1 4 2", "hidden layers: want 1..3");
    refused("mlp 0 1 2 2", "mlp 0 1 2 65", "width: want 1..64");
    refused("3 -1\n", "3 -128\n", "weight: want -127..127, got -128");
    refused("end", "endless", "section: want forest, mlp, linear or end, got endless");
    refused("end\n", "end\nmore\n", "end: want nothing after it");
    refused("3 -1\nend\n", "3 ", "weight: want -127..127, got nothing");
    refused("mlp 0 1 2 2", "forest 2 3 1 1 0 0 0 0 mlp 0 1 2 2", "first layer: want 4..3");
}

/* Every truncation and many random changes: an error or tables, never a crash. */
static void hostile(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof text + 6000; i++) {
        const size_t n = i < sizeof text - 1 ? i : sizeof text - 1;
        struct predictor_file f;
        char *bad = malloc(n ? n : 1);
        memcpy(bad, text, n);
        for (uint32_t k = i < sizeof text ? 0 : 1 + rnd(3); k; k--)
            bad[rnd((uint32_t)n)] = (char)(rnd(2) ? '0' + (int)rnd(10) : (int)rnd(256));
        if (!ig_predictor_file_parse(&f, bad, n)) ig_predictor_file_free(&f);
        free(bad);
    }
}

static void hidden_states(void **state)
{
    (void)state;
    char own[OWN_BYTES];
    const char *const path = own_file(own, "hidden");
    struct trace t = { .n_row = 2, .n_layer = 1 };
    struct hidden h;
    float x[3];
    const uint32_t head[4] = { 2, 1, 3, 0 };
    const float scale = 0.5f;
    FILE *f = fopen(path, "wb");
    fwrite("INGOTHID", 1, 8, f);
    fwrite(head, 4, 4, f);
    for (int r = 0; r < 2; r++) {
        fwrite(&scale, 4, 1, f);
        fputc(2 + r, f), fputc(-4, f), fputc(127, f);
    }
    fclose(f);
    assert_int_equal(ig_hidden_read(&h, path, &t), 0);
    ig_hidden_row(&h, 1, 0, x);
    assert_true(x[0] == 1.5f && x[1] == -2 && x[2] == 63.5f);
    ig_hidden_free(&h);
    t.n_row = 3;
    assert_int_equal(ig_hidden_read(&h, path, &t), -1);
    assert_non_null(strstr(h.why, "shape: want 3 rows of 1 layers, got 2, 1, width 3"));
    t.n_row = 2;
    f = fopen(path, "ab");
    fputc(0, f);
    fclose(f);
    assert_int_equal(ig_hidden_read(&h, path, &t), -1);
    assert_non_null(strstr(h.why, "length: want 38 bytes, got 39"));
    remove(path);
    assert_int_equal(ig_hidden_read(&h, path, &t), -1);
    assert_string_equal(h.why, "cannot read");
}

/* Every predictor, random questions and rows: chances of 0..1, the same ones from the same past. */
static void chances_and_determinism(void **state)
{
    (void)state;
    static const struct ig_predictor *const all[] = { &ig_predictor_next_router,
                                                      &ig_predictor_history, &ig_predictor_hybrid,
                                                      &ig_predictor_forest, &ig_predictor_mlp };
    static uint8_t joint[2 * L * E * E];
    struct predictor_file f;
    for (size_t i = 0; i < sizeof joint; i++) joint[i] = (uint8_t)rnd(256);
    assert_int_equal(ig_predictor_file_parse(&f, text, sizeof text - 1), 0);
    f.t.joint = joint, f.t.n_joint = 2;
    for (size_t p = 0; p < sizeof all / sizeof *all; p++) {
        uint64_t hash[2] = { 0, 0 };
        for (int again = 0; again < 2; again++) {
            void *s = begin(all[p], &f.t);
            seed = 99;
            for (int r = 0; r < 6000; r++) { /* more rows than are remembered */
                all[p]->token(s, (int32_t)rnd(50) - 1);
                for (uint32_t l = 0; l < L; l++) {
                    const int32_t a = (int32_t)rnd(E),
                                  id[K] = { a, (a + 1 + (int32_t)rnd(E - 1)) % E };
                    const int32_t next[K] = { (int32_t)rnd(E), -1 };
                    const float hidden[D] = { (float)rnd(9), 1, 2, 3, 4, 5 };
                    const struct ig_pask q = { l, rnd(l + 1), next, hidden };
                    float c[E];
                    all[p]->ask(s, &q, c);
                    for (int e = 0; e < E; e++) {
                        uint32_t bits;
                        assert_true(c[e] >= 0 && c[e] <= 1);
                        memcpy(&bits, &c[e], 4);
                        hash[again] = hash[again] * 31 + bits;
                    }
                    all[p]->use(s, rnd(3), l, id, (const float[]){ 0.6f, 0.4f });
                }
            }
            free(s);
        }
        assert_true(hash[0] == hash[1]);
    }
    f.t.joint = NULL;
    ig_predictor_file_free(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(best_of_chances),
        cmocka_unit_test(next_router_learns),
        cmocka_unit_test(hybrid_remembers_tokens),
        cmocka_unit_test(memory_of_rows),
        cmocka_unit_test(history_knows_pairs),
        cmocka_unit_test(forest_is_its_thresholds),
        cmocka_unit_test(mlp_is_its_sums),
        cmocka_unit_test(linear_is_a_feature),
        cmocka_unit_test(sigmoid_is_one),
        cmocka_unit_test(names_what_is_wrong),
        cmocka_unit_test(hostile),
        cmocka_unit_test(hidden_states),
        cmocka_unit_test(chances_and_determinism),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests_name("predict", tests, NULL, NULL);
}
