/* The engine with experts behind few slots: the same bits whatever the copies do, and an end with
 * words, never a wrong token, when they fail.  Linked with --wrap of what it puts itself between.
 */
#include "own.h"
#include "state.h"
#include "copy_shaky.h"
#include "tsan_omp.h"
#include "tier_stats.h"
#include "wfile_write.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <cmocka.h>

static char packed[OWN_BYTES], beside[OWN_BYTES]; /* the weights; another file */
static const char *weights = packed;
static struct shaky shaky;
static int shake, no_wait;
static int watch, waited; /* test_order_of_work */

enum ig_err __real_ig_copy_file_open(struct ig_copy *copy, const struct ig_copy_file_conf *c,
                                     struct ig_copy_file_how *how, struct ig_why *why);
void __real_ig_copy_file_close(struct ig_copy *copy);
void __real_ig_tier_wait(struct ig_engine *e, int a);
enum ig_err __wrap_ig_copy_file_open(struct ig_copy *copy, const struct ig_copy_file_conf *c,
                                     struct ig_copy_file_how *how, struct ig_why *why);
void __wrap_ig_copy_file_close(struct ig_copy *copy);
void __wrap_ig_tier_wait(struct ig_engine *e, int a);
void __real_ig_tier_layer(struct ig_engine *e, int layer);
void __wrap_ig_tier_layer(struct ig_engine *e, int layer);
static void look(struct ig_engine *e);

enum ig_err __wrap_ig_copy_file_open(struct ig_copy *copy, const struct ig_copy_file_conf *c,
                                     struct ig_copy_file_how *how, struct ig_why *why)
{
    const enum ig_err err = __real_ig_copy_file_open(&shaky.inner, c, how, why);
    *copy = shake && err == IG_OK ? shaky_copy(&shaky, shaky.inner.depth) : shaky.inner;
    return err;
}
void __wrap_ig_copy_file_close(struct ig_copy *copy)
{
    __real_ig_copy_file_close(&shaky.inner);
    copy->ctx = NULL;
}
void __wrap_ig_tier_layer(struct ig_engine *e, int layer)
{
    __real_ig_tier_layer(e, layer);
    if (!watch) return;
    waited = 0;
    memset(e->mem + IG_MEM_YD_OFF, 0xff, IG_MEM_YD_BYTES);
}
void __wrap_ig_tier_wait(struct ig_engine *e, int a)
{
    if (watch) {
        if (!waited) look(e);
        waited = 1;
    }
    if (!no_wait) __real_ig_tier_wait(e, a);
}

static struct ig_engine *start(int threads)
{
    struct ig_engine *e;
    struct ig_why why;
    const struct ig_open o = { .weights = weights, .threads = threads, .verify = 1, .poison = 1 };
    if (ig_engine_open(&e, &o, &why) != IG_OK) fail_msg("%s", why.text);
    return e;
}

/* ThreadSanitizer is ten times slower, and barriers wait for a busy machine's turn: there every
 * test runs, but fewer of its combinations, one in THIN. */
#ifdef __SANITIZE_THREAD__
enum { PROMPT = 20, STEPS = 8, THIN = 3 };
#else
enum { PROMPT = 48, STEPS = 24, THIN = 1 };
#endif

/* FNV-1a over the bits of every logit of a prompt in batches of n and of greedy decoding after it;
 * tokens go to `out` as they are made.  *finite: no NaN was among them. */
static uint64_t tokens(struct ig_engine *e, int n, FILE *out, int *finite)
{
    static int32_t token[PROMPT], pos[PROMPT], seq[PROMPT];
    static uint8_t want[PROMPT];
    uint64_t h = UINT64_C(0xcbf29ce484222325);
    *finite = 1;
    for (int i = 0; i < PROMPT; i++) token[i] = (i * 37 + 5) % IG_N_VOCAB;
    for (int at = 0; at < PROMPT + STEPS;) {
        int rows = at < PROMPT ? PROMPT - at : 1;
        if (rows > n) rows = n;
        for (int i = 0; i < rows; i++) pos[i] = at + i, want[i] = at + i >= PROMPT - 1;
        const struct ig_batch b = { rows, at < PROMPT ? token + at : token, pos, seq, want };
        ig_forward(e, &b);
        at += rows;
        if (at < PROMPT) continue;
        const float *l = ig_logits(e, 0);
        int best = 0;
        for (int i = 0; i < IG_N_VOCAB; i++) {
            uint32_t bits;
            memcpy(&bits, &l[i], sizeof bits);
            h = (h ^ bits) * UINT64_C(0x100000001b3);
            if (!isfinite(l[i])) *finite = 0;
            if (l[i] > l[best]) best = i;
        }
        token[0] = best;
        if (out) fprintf(out, "%d\n", best), fflush(out);
    }
    return h;
}

static uint64_t right; /* bits without any trouble, one thread */

static uint64_t run(int threads, int batch)
{
    int finite;
    struct ig_engine *e = start(threads);
    const uint64_t h = tokens(e, batch, NULL, &finite);
    ig_engine_close(e);
    assert_true(finite);
    return h;
}

static void test_threads_and_batches(void **state)
{
    (void)state;
    static const int at[][2] = { { 1, 1 }, { 1, 7 }, { 2, 1 }, { 2, 2 }, { 2, PROMPT }, { 3, 7 } };
    for (size_t i = 0; i < sizeof at / sizeof *at; i++)
        assert_int_equal(run(at[i][0], at[i][1]), right);
}

/* No prefetch may be on its way into a slot that a new table takes for empty. */
static void drain(struct ig_tier *t)
{
    for (int i = 0; i < t->n_early; i++) {
        ig_move_wait(&t->move[t->early[i]]);
        t->dropped[t->early[i]] = 0;
    }
    t->n_early = 0;
}

/* Every policy, with a set a layer and with one set for all. */
static void test_policies(void **state)
{
    (void)state;
    static const struct ig_policy *const policy[] = { &ig_policy_lru,        &ig_policy_lru2,
                                                      &ig_policy_decay,      &ig_policy_echo,
                                                      &ig_policy_echo_admit, &ig_policy_static };
    static const uint16_t one_set[IG_N_LAYER];
    static const uint32_t one_first[] = { 0, IG_N_XSLOT };
    struct ig_engine *e = start(2);
    for (size_t i = 0; i < sizeof policy / sizeof *policy; i++)
        for (int sets = 0; sets < 2; sets++) {
            if ((2 * i + (size_t)sets) % THIN) continue;
            struct ig_xgeom g = e->tier.cache.g;
            int finite;
            if (sets) g.n_set = 1, g.set_of = one_set, g.first = one_first;
            void *mem = aligned_alloc(64, ig_xcache_bytes(&g, policy[i], NULL));
            drain(&e->tier);
            ig_xcache_init(&e->tier.cache, &g, policy[i], NULL, mem);
            e->tier.wave_lo = e->tier.wave_hi = 0; /* nothing is in use in the new table */
            memset(e->tier.spare, 0, sizeof e->tier.spare);
            assert_int_equal(tokens(e, 16, NULL, &finite), right);
            free(mem);
        }
    ig_engine_close(e);
}

/* Prefetch off, on, and of experts that nobody will choose, at every distance. */
static void test_prefetch(void **state)
{
    (void)state;
    static int32_t wrong[(IG_N_LAYER + 9) * IG_N_LAYER * IG_N_EXPERT_USED];
    const int n = (int)(sizeof wrong / sizeof *wrong);
    for (int i = 0; i < n; i++) wrong[i] = i % 3 ? (i * 5 + i / 7) % IG_N_EXPERT : -1;
    for (int way = 0; way < 4; way++) {
        int finite;
        shaky = (struct shaky){ .seed = 9, .delay_us = way == 3 ? 500 : 0 };
        shake = 1;
        struct ig_engine *e = start(2);
        e->tier.ahead.step = way ? 0 : 1000; /* the first trial, where it is on, or far from one */
        e->tier.ahead.on = e->tier.ahead.pays = way;
        e->tier.ahead.least = 0;
        for (int l = 0; l < IG_N_LAYER; l++) e->tier.ahead.stride[l].s = (uint8_t)(1 + way * l % 8);
        if (way >= 2) ig_set_choices(e, NULL, NULL, wrong);
        assert_int_equal(tokens(e, 16, NULL, &finite), right);
        uint64_t early = 0;
        for (int l = 0; l < IG_N_LAYER; l++) early += e->tier.cache.count[l].early;
        if (way)
            assert_true(early > 0);
        else
            assert_int_equal(early, 0);
        ig_engine_close(e);
        shake = 0;
    }
}

/* -- predictors: whatever one says, the bits are the same */

static uint64_t
    wrong_state; /* a predictor's that is always wrong: sure of experts that no one chose */
static size_t wrong_bytes(const struct ig_pshape *s, const struct ig_ptables *t)
{
    (void)s, (void)t;
    return sizeof wrong_state;
}
static void wrong_init(void *state, const struct ig_pshape *s, const struct ig_ptables *t)
{
    (void)s, (void)t;
    *(uint64_t *)state = 7;
}
static void wrong_ask(void *state, const struct ig_pask *a, float *chance)
{
    uint64_t *n = state;
    for (int x = 0; x < IG_N_EXPERT; x++) {
        *n = *n * UINT64_C(6364136223846793005) + a->layer;
        chance[x] = (float)(*n >> 40) / (float)(1 << 24);
        for (int k = 0; a->next && k < IG_N_EXPERT_USED; k++)
            if (a->next[k] == x) chance[x] = 0; /* not what is likely */
    }
}
static void wrong_token(void *state, int32_t token) { (void)state, (void)token; }
static void wrong_use(void *state, uint32_t back, uint32_t layer, const int32_t *id,
                      const float *weight)
{
    (void)state, (void)back, (void)layer, (void)id, (void)weight;
}
static const struct ig_predictor predictor_wrong = { .name = "wrong on purpose",
                                                     .bytes = wrong_bytes,
                                                     .init = wrong_init,
                                                     .ask = wrong_ask,
                                                     .token = wrong_token,
                                                     .use = wrong_use };

/* Tables of random numbers: what was learned does not matter here. */
static const struct ig_ptables *random_tables(void)
{
    enum { TREES = 3, DEPTH = 4, INNER = (1 << DEPTH) - 1, WIDTH = 5, RANK = 3 };
    static uint8_t joint[2 * IG_N_LAYER * IG_N_EXPERT * IG_N_EXPERT];
    static uint8_t node[TREES * INNER * 2], leaf[TREES * (INNER + 1)];
    static int8_t weight[WIDTH * (IG_N_PFEATURE + WIDTH + 1)], v[RANK * IG_N_EMBD];
    static int8_t u[IG_N_EXPERT * RANK];
    static float scale[3] = { 0.01f, 0.02f, 0.03f }, bias[2 * WIDTH + 1], expert_bias[IG_N_EXPERT];
    static const struct ig_pforest forest = { 0, IG_N_LAYER - 1, TREES, DEPTH, node, leaf };
    static const struct ig_pmlp mlp = { 0, IG_N_LAYER - 1, 2, WIDTH, weight, scale, bias };
    static const struct ig_plinear linear = { 2, 1, RANK, v, u, 0.01f, 0.01f, expert_bias };
    static const struct ig_ptables t = { joint, 2, 1, 1, 1, &forest, &mlp, &linear };
    srand(5);
    for (size_t i = 0; i < sizeof joint; i++) joint[i] = (uint8_t)rand();
    for (size_t i = 0; i < sizeof node; i += 2)
        node[i] = (uint8_t)(rand() % IG_N_PFEATURE), node[i + 1] = (uint8_t)rand();
    for (size_t i = 0; i < sizeof leaf; i++) leaf[i] = (uint8_t)rand();
    for (size_t i = 0; i < sizeof weight; i++) weight[i] = (int8_t)(rand() % 255 - 127);
    for (size_t i = 0; i < sizeof v; i++) v[i] = (int8_t)(rand() % 255 - 127);
    for (size_t i = 0; i < sizeof u; i++) u[i] = (int8_t)(rand() % 255 - 127);
    return &t;
}

static void test_predictors(void **state)
{
    (void)state;
    static const struct ig_predictor *const predictor[] = {
        &ig_predictor_next_router, &ig_predictor_history, &ig_predictor_hybrid,
        &ig_predictor_forest,      &ig_predictor_mlp,     &predictor_wrong,
    };
    static const struct ig_pshape s = { IG_N_LAYER, IG_N_EXPERT, IG_N_EXPERT_USED, IG_N_EMBD };
    const struct ig_ptables *t = random_tables();
    for (size_t i = 0; i < sizeof predictor / sizeof *predictor; i++)
        for (int stride = 1; stride < 4; stride++) {
            if ((i + (size_t)stride) % THIN) continue;
            int finite;
            uint64_t early = 0;
            void *mem = aligned_alloc(64, (predictor[i]->bytes(&s, t) + 63) / 64 * 64);
            predictor[i]->init(mem, &s, t);
            struct ig_engine *e = start(2);
            e->tier.ahead.predictor = predictor[i];
            e->tier.ahead.state = mem;
            e->tier.ahead.least = stride == 2 ? 0.4f : 0;
            for (int l = 0; l < IG_N_LAYER; l++) e->tier.ahead.stride[l].s = (uint8_t)stride;
            assert_int_equal(tokens(e, stride == 3 ? 1 : 16, NULL, &finite), right);
            for (int l = 0; l < IG_N_LAYER; l++) early += e->tier.cache.count[l].early;
            if (early == 0 && stride != 2) fail_msg("%s fetched nothing", predictor[i]->name);
            ig_engine_close(e);
            free(mem);
        }
}

/* Names two experts, others at each distance. */
static void fickle_ask(void *state, const struct ig_pask *a, float *chance)
{
    (void)state;
    for (int x = 0; x < IG_N_EXPERT; x++) chance[x] = 0;
    chance[(3 * a->layer + 5 * a->dist) % IG_N_EXPERT] = 0.9f;
    chance[(3 * a->layer + 5 * a->dist + 1) % IG_N_EXPERT] = 0.8f;
}
static const struct ig_predictor predictor_fickle = { .name = "of two minds",
                                                      .bytes = wrong_bytes,
                                                      .init = wrong_init,
                                                      .ask = fickle_ask,
                                                      .token = wrong_token,
                                                      .use = wrong_use };

/* A layer is asked about again when it is nearer, and what is then no longer named is cancelled. */
static void test_renewal(void **state)
{
    (void)state;
    for (int stride = 1; stride <= 3; stride++) {
        int finite;
        shaky = (struct shaky){ .seed = 4, .delay_us = 800 };
        shake = 1;
        struct ig_engine *e = start(2);
        struct ig_ahead *h = &e->tier.ahead;
        h->predictor = &predictor_fickle;
        pthread_mutex_lock(&e->tier.mover.drive);
        e->tier.mover.prefetch_depth = 1; /* they queue, and can be taken back */
        pthread_mutex_unlock(&e->tier.mover.drive);
        h->least = 0.5f;
        for (int l = 0; l < IG_N_LAYER; l++)
            h->stride[l].s = h->stride[l].least = h->stride[l].most = (uint8_t)stride;
        assert_int_equal(tokens(e, 16, NULL, &finite), right);
        assert_true(h->asked > 0);
        if (stride == 1) {
            assert_int_equal(h->renewed + h->taken_back, 0);
        } else {
            assert_true(h->renewed > 0 && h->taken_back > 0);
        }
        ig_engine_close(e);
        shake = 0;
    }
}

/* Nothing is likely enough: nothing is fetched early. */
static void test_least(void **state)
{
    (void)state;
    int finite;
    uint64_t early = 0;
    struct ig_engine *e = start(1);
    e->tier.ahead.least = 1.01f;
    assert_int_equal(tokens(e, 16, NULL, &finite), right);
    for (int l = 0; l < IG_N_LAYER; l++) early += e->tier.cache.count[l].early;
    assert_int_equal(early, 0);
    ig_engine_close(e);
}

/* The word on prefetch is never silent, and is what the trials say. */
static void test_says(void **state)
{
    (void)state;
    struct ig_engine *e = start(1);
    assert_non_null(strstr(ig_prefetch_says(e), "on, because no trial has ended yet"));
    e->tier.ahead.trials = 1;
    e->tier.ahead.gain = 1.25, e->tier.ahead.on = e->tier.ahead.pays = 1;
    assert_non_null(strstr(ig_prefetch_says(e), "on, because a step takes 20.0 % less with it"));
    e->tier.ahead.gain = 0.8, e->tier.ahead.on = e->tier.ahead.pays = 0;
    assert_non_null(strstr(ig_prefetch_says(e), "off, because a step takes 25.0 % more with it"));
    e->tier.ahead.gain = 1.01;
    assert_non_null(
        strstr(ig_prefetch_says(e), "off, because a step takes only 1.0 % less with it"));
    ig_engine_close(e);
}

static void test_delays_and_sizes(void **state)
{
    (void)state;
    for (unsigned seed = 1; seed <= 4; seed += THIN) {
        shaky = (struct shaky){ .seed = seed, .delay_us = seed % 2 ? 300 : 0, .short_some = 1 };
        shake = 1;
        assert_int_equal(run(2, seed < 3 ? PROMPT : 5), right);
        shake = 0;
        assert_true(shaky.n_short > 50);
    }
}

/* At a layer's first wait for a copy: everything that rows want of resident experts is computed. */
static int n_looked, n_resident;
static void look(struct ig_engine *e)
{
    enum { STRIDE = (IG_N_EMBD + 15) / 16 * 16 };
    const int32_t *start = IG_BUF(e, ROUTE, int32_t), *slot = start + IG_N_EXPERT + 1;
    if (e->batch->n == 1) return;
    n_looked++;
    n_resident += e->tier.n_there;
    for (int a = 0; a < e->tier.n_there; a++)
        for (int i = start[e->active[a]]; i < start[e->active[a] + 1]; i++)
            for (int r = 0; r < IG_N_EMBD; r++)
                assert_true(isfinite(IG_BUF(e, YD, float)[(size_t)slot[i] * STRIDE + (size_t)r]));
}

/* Work of a batch whose experts are resident goes first, to its end, while the others are read. */
static void test_order_of_work(void **state)
{
    (void)state;
    int finite;
    shaky = (struct shaky){ .seed = 6, .delay_us = 2000 };
    shake = watch = 1;
    struct ig_engine *e = start(1);
    const uint64_t h = tokens(e, 6, NULL, &finite);
    ig_engine_close(e);
    shake = watch = 0;
    assert_int_equal(h, right);
    assert_true(n_looked > 10 && n_resident > n_looked / 4);
}

/* A use that does not wait reads a slot that is not filled: its NaN must be seen.  One token, so
 * that no slot is used twice while its copy is under way. */
static void test_planted_use(void **state)
{
    (void)state;
    const int32_t token = 5, zero = 0;
    const uint8_t want = 1;
    const struct ig_batch b = { 1, &token, &zero, &zero, &want };
    for (no_wait = 0; no_wait < 2; no_wait++) {
        int finite = 1;
        shaky = (struct shaky){ .seed = 1, .delay_us = 20000 };
        shake = 1;
        struct ig_engine *e = start(1);
        ig_forward(e, &b);
        for (int i = 0; i < IG_N_VOCAB; i++) finite &= isfinite(ig_logits(e, 0)[i]) != 0;
        ig_engine_close(e);
        assert_int_equal(finite, !no_wait);
    }
    no_wait = shake = 0;
}

/* In a child: tokens until a fault ends it.  Its words in `err`; what it printed in `out`. */
static int child(void (*plant)(struct ig_engine *e), char *err, size_t err_cap, char *out,
                 size_t out_cap)
{
    int p[2], q[2], status, finite;
    assert_int_equal(pipe(p), 0);
    assert_int_equal(pipe(q), 0);
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        dup2(p[1], 2);
        close(p[0]), close(q[0]);
        struct ig_engine *e = start(2);
        if (plant) plant(e);
        tokens(e, 16, fdopen(q[1], "w"), &finite);
        _exit(0);
    }
    close(p[1]), close(q[1]);
    size_t n = 0;
    for (ssize_t got; n < out_cap - 1 && (got = read(q[0], out + n, out_cap - 1 - n)) > 0;)
        n += (size_t)got;
    out[n] = 0;
    n = 0;
    for (ssize_t got; n < err_cap - 1 && (got = read(p[0], err + n, err_cap - 1 - n)) > 0;)
        n += (size_t)got;
    err[n] = 0;
    close(p[0]), close(q[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static char err[4096], whole[4096], out[4096];

/* Fault in an expert that the run uses late: the last read of a run without faults. */
static void test_faults(void **state)
{
    (void)state;
    static const struct {
        enum shaky_fault fault;
        const char *say;
    } t[] = { { SHAKY_EIO, "cannot read" },
              { SHAKY_END, "cut short" },
              { SHAKY_FLIP, "wrong checksum" } };
    shaky = (struct shaky){ .seed = 3 };
    shake = 1;
    run(1, 16); /* no threads yet: children could not use them */
    const uint64_t late = shaky.order[shaky.n_order * 3 / 4];
    for (int i = 0; i < 3; i++) {
        /* The second read of that place and all later ones: the first is in the prompt. */
        shaky =
            (struct shaky){ .seed = 3, .fault = t[i].fault, .fault_at = late, .fault_left = 1000 };
        assert_int_equal(child(NULL, err, sizeof err, out, sizeof out), 1);
        assert_non_null(strstr(err, t[i].say));
        assert_non_null(strstr(err, "layer"));
        assert_non_null(strstr(err, "expert"));
        assert_non_null(strstr(err, weights));
        assert_memory_equal(out, whole, strlen(out)); /* what came before was right */
        assert_true(strlen(out) < strlen(whole));
    }
    shake = 0;
}

static void cut(struct ig_engine *e)
{
    (void)e;
    struct stat st;
    stat(weights, &st);
    if (truncate(weights, st.st_size / 2) != 0) _exit(9);
}
static void scribble(struct ig_engine *e)
{
    char zero[4096] = { 0 };
    FILE *f = fopen(weights, "r+b");
    for (uint64_t at = e->tier.base + IG_RESIDENT_BYTES; at < e->file.h.file_bytes; at += 100000)
        if (fseek(f, (long)at, SEEK_SET) || fwrite(zero, 1, sizeof zero, f) != sizeof zero)
            _exit(9);
    fclose(f);
}
/* Another file under the same name: the open one goes on. */
static void replace(struct ig_engine *e)
{
    (void)e;
    FILE *f = fopen(beside, "wb");
    fputs("something else", f);
    fclose(f);
    if (rename(beside, weights) != 0) _exit(9);
}

static void pack(void)
{
    const char *command = "out/test/t-demo/tiny-mixtral pack tests/data/tiny-mixtral.gguf -o ";
    char line[256];
    unlink(weights);
    snprintf(line, sizeof line, "%s%s 2>/dev/null", command, weights);
    if (system(line) != 0) fail_msg("cannot pack: %s", line);
}

static void test_file_changes(void **state)
{
    (void)state;
    assert_int_equal(child(cut, err, sizeof err, out, sizeof out), 1);
    assert_non_null(strstr(err, "cut short"));
    assert_memory_equal(out, whole, strlen(out));
    pack();
    assert_int_equal(child(scribble, err, sizeof err, out, sizeof out), 1);
    assert_non_null(strstr(err, "wrong checksum"));
    assert_memory_equal(out, whole, strlen(out));
    pack();
    assert_int_equal(child(replace, err, sizeof err, out, sizeof out), 0);
    assert_string_equal(out, whole);
    pack();
}

/* The weights with experts in blocks of at most so many bytes; 0: all data one block. */
static void write_blocks(const char *to, uint64_t most)
{
    struct ig_wfile f;
    struct ig_wwriter w;
    struct ig_why why;
    void *tokenizer;
    struct ig_wspec spec = { .out = to,
                             .layout_hash = IG_LAYOUT_HASH,
                             .data_bytes = IG_DATA_BYTES };
    assert_int_equal(ig_wfile_open(&f, weights, IG_LAYOUT_HASH, &why), IG_OK);
    assert_int_equal(ig_wfile_tokenizer(&f, &tokenizer, &spec.tokenizer_bytes, &why), IG_OK);
    spec.tokenizer = tokenizer;
    spec.model_id = f.h.model_id;
    spec.layout_text = f.h.layout_text;
    spec.block = calloc((size_t)(f.h.n_block * IG_WBLOCKS), sizeof *spec.block);
    uint64_t at = 0;
    if (!most) spec.block[spec.n_block++].bytes = at = IG_DATA_BYTES;
    for (; at < IG_RESIDENT_BYTES; at += spec.block[spec.n_block++].bytes)
        spec.block[spec.n_block] = f.blocks[spec.n_block];
    for (int l = 0; most && l < IG_N_LAYER; l++)
        for (uint32_t x = 0; x < ig_layers[l].n_expert; x++)
            for (uint64_t left = ig_layers[l].expert_stride, step; left > 0; left -= step) {
                step = left < most ? left : most;
                spec.block[spec.n_block++] = (struct ig_wblock){ .off = at, .bytes = step };
                at += step;
            }
    unsigned char *data = malloc(IG_DATA_BYTES);
    assert_int_equal(ig_wfile_read(&f, data, 0, IG_DATA_BYTES, &why), IG_OK);
    assert_int_equal(ig_wwrite_open(&w, &spec, &why), IG_OK);
    assert_int_equal(ig_wwrite_data(&w, data, IG_DATA_BYTES, &why), IG_OK);
    assert_int_equal(ig_wwrite_finish(&w, &why), IG_OK);
    ig_wfile_close(&f);
    free(data), free(tokenizer), free(spec.block);
}

/* Older files have one block an expert; several are shared by the threads that wait. */
static void test_blocks_of_the_file(void **state)
{
    (void)state;
    const char *now = weights, *other = beside;
    static const uint64_t most[] = { UINT64_MAX, 8192, 50000 };
    for (int i = 0; i < 3; i++) {
        write_blocks(other, most[i]);
        weights = other;
        const uint64_t alone = run(1, 16), shared = run(2, 16);
        weights = now;
        unlink(other);
        assert_int_equal(alone, right);
        assert_int_equal(shared, right);
    }
}

/* A block of what is read at start that goes on into the experts would be read over other memory. */
static void test_block_runs_into_the_experts(void **state)
{
    (void)state;
    const char *now = weights;
    struct ig_engine *e;
    struct ig_why why;
    write_blocks(beside, 0);
    weights = beside;
    const struct ig_open o = { .weights = weights, .threads = 1, .verify = 1 };
    const enum ig_err got = ig_engine_open(&e, &o, &why);
    unlink(weights);
    weights = now;
    assert_int_equal(got, IG_BAD_FILE);
    assert_non_null(strstr(why.text, ": block 0: want its end at "));
}

/* Killed at any moment: there is nothing to repair, the next run is right. */
static void test_kill(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        const pid_t pid = fork();
        if (pid == 0) {
            int finite;
            struct ig_engine *e = start(2);
            for (;;) tokens(e, 16, NULL, &finite);
        }
        usleep(20000 + 30000 * (unsigned)i);
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
    }
    assert_int_equal(run(2, 16), right);
}

static int setup(void **state)
{
    (void)state;
    own_file(packed, "tier");
    own_file(beside, "tier-beside");
    pack();
    assert_int_equal(child(NULL, err, sizeof err, whole, sizeof whole), 0);
    right = run(1, PROMPT);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    return unlink(packed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        /* Those that fork come first: a child has only the thread that forked. */
        cmocka_unit_test(test_faults),
        cmocka_unit_test(test_file_changes),
        cmocka_unit_test(test_kill),
        cmocka_unit_test(test_blocks_of_the_file),
        cmocka_unit_test(test_block_runs_into_the_experts),
        cmocka_unit_test(test_threads_and_batches),
        cmocka_unit_test(test_policies),
        cmocka_unit_test(test_prefetch),
        cmocka_unit_test(test_predictors),
        cmocka_unit_test(test_renewal),
        cmocka_unit_test(test_least),
        cmocka_unit_test(test_says),
        cmocka_unit_test(test_delays_and_sizes),
        cmocka_unit_test(test_order_of_work),
        cmocka_unit_test(test_planted_use),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests_name("tier", tests, setup, teardown);
}
