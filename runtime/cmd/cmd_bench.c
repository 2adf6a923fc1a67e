/* cmd_bench.c -- how fast prefill and decode are, beside what the machine allows: bench.
 *
 * A bound is the bytes that must be read, over the bandwidth of reading memory,
 * measured between the repetitions so that both see the same machine.  Token
 * ids are random: the speed of dense arithmetic does not depend on them, and
 * the choice of experts is as spread out as it can be.  With --route the trace says both.
 */
#include "cmd.h"

#include "device.h"
#include "generate.h"
#include "machine.h"
#include "out.h"
#include "progress.h"
#include "random.h"
#include "forced.h"
#include "stop.h"
#include "tables.h"
#include "tier_stats.h"

#include <stdio.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct ig_gen *gen;

enum { PREFILL, DECODE, N_TEST };

struct test {
    const char *name;
    int tokens;   /* 0: skipped */
    double *ms;   /* [repetitions] per token, sorted at the end */
    double bytes; /* a token must read */
};

struct bench {
    const struct ig_opts *o;
    struct ig_engine *e;
    int32_t *ids;
    struct test test[N_TEST];
    int done; /* repetitions */
    struct ig_forced route;
    struct ig_membench mem;
    double disk;      /* bytes/s of direct reads, best of the readings; 0: no experts on disk */
    double bandwidth; /* best of the readings, 0 when there was no memory for them */
    uint64_t peak, planned; /* bytes, where the work is done */
};

/* What a prefill must read for each token: a batch reads every weight at most
 * once, and no more than its tokens would read one by one.  Of an embedding
 * table that is not also the output matrix it reads a few rows. */
static double prefill_bytes(int tokens, int batch)
{
#if IG_N_LAYER_ENC
    const double row = (double)IG_INPUT_ROW_BYTES, all = (double)IG_INPUT_BYTES;
#else
    const uint64_t embd = (uint64_t)(ig_token_embd.rows + 15) / 16 * ig_token_embd.stride;
    const double row = (double)IG_TOKEN_BYTES,
                 all = (double)(IG_DATA_BYTES - (ig_token_embd.off == ig_output.off ? 0 : embd));
#endif
    double bytes = 0;
    for (int at = 0; at < tokens; at += batch) {
        const int rows = tokens - at < batch ? tokens - at : batch;
        const double each = (double)rows * row;
        bytes += each < all ? each : all;
    }
    return tokens > 0 ? bytes / tokens : 0;
}

static double prefill_once(struct bench *b)
{
    const int n = b->test[PREFILL].tokens;
    gen->n_past = 0; /* nothing is known: all of it is computed */
    if (IG_N_LAYER_ENC) {
        const double t0 = ig_seconds();
        ig_encode(b->e, b->ids, n, gen->n_batch);
        return ig_stop_signal() ? -1 : 1e3 * (ig_seconds() - t0) / n;
    }
    const int whole = ig_gen_prompt(gen, b->ids, n);
    return whole ? 1e3 * gen->stats.prefill_s / n : -1;
}

/* What the last timed decode asked of the device. */
static struct ig_device_calls decode_calls;

static double decode_once(struct bench *b)
{
    struct ig_device_calls before = { 0 }, after = { 0 };
    const int n = b->test[DECODE].tokens;
    gen->n_past = gen->n_ids = 0;
    if (IG_N_LAYER_ENC && b->test[PREFILL].tokens == 0) ig_encode(b->e, b->ids, 1, 1);
    ig_calls(b->e, &before);
    const double t0 = ig_seconds();
    for (int i = 0; i < n; i++) {
        if (ig_stop_signal()) return -1;
        const int32_t id = b->o->route ? ig_forced_token(&b->route, b->ids[i]) : b->ids[i];
        if (b->o->route) ig_forced_next(&b->route, b->e);
        ig_gen_step(gen, id);
    }
    const double ms = 1e3 * (ig_seconds() - t0) / n;
    ig_calls(b->e, &after);
    decode_calls =
        (struct ig_device_calls){ after.graphs - before.graphs, after.kernels - before.kernels,
                                  after.copies - before.copies, after.waits - before.waits,
                                  after.takes - before.takes,   after.fetches - before.fetches };
    ig_set_choices(b->e, NULL, NULL, NULL);
    return ms;
}

static void read_memory(struct bench *b)
{
    if (IG_TIER != IG_TIER_RAM) {
        const struct ig_wfile *f = ig_weights(b->e);
        const double bw = ig_machine_read(f->fd, f->base + f->h.data.off + IG_RESIDENT_BYTES,
                                          IG_DATA_BYTES - IG_RESIDENT_BYTES);
        if (bw > b->disk) b->disk = bw;
    }
    if (!b->mem.words) return;
    for (int i = 0; i < 3; i++) {
        const double bw = ig_membench_read(&b->mem, ig_threads(b->e));
        if (bw > b->bandwidth) b->bandwidth = bw;
    }
}

/* Decode until a device has chosen its way, or for so many times as long as is measured. */
static void settle(struct bench *b)
{
    enum { TIMES = 4 };
    for (int i = 0; b->test[DECODE].tokens > 0 && i < TIMES * b->o->repetitions; i++)
        if (ig_settled(b->e) || decode_once(b) < 0) return;
}

/* One unmeasured round, then the repetitions; a signal ends them early. */
static void measure(struct bench *b)
{
    struct ig_why why;
    const int n = b->o->repetitions;
    for (int i = -1; i < n; i++) {
        double ms[N_TEST] = { 0, 0 };
        if (b->test[PREFILL].tokens > 0) ms[PREFILL] = prefill_once(b);
        if (b->test[DECODE].tokens > 0) ms[DECODE] = decode_once(b);
        if (ms[PREFILL] < 0 || ms[DECODE] < 0) break;
        if (i < 0) {
            settle(b);
            ig_expert_stats_reset(b->e);
            /* Everything the engine uses was used; the benchmark's own memory comes after. */
            ig_peak(b->e, &b->peak, &b->planned);
            /* What a device reads is not measured from here. */
            if (!ig_device(b->e) && ig_membench_open(&b->mem, ig_threads(b->e), &why) != IG_OK)
                ig_note("%s; bounds are of the plan's bandwidth", why.text);
        } else {
            for (int k = 0; k < N_TEST; k++) b->test[k].ms[i] = ms[k];
            b->done = i + 1;
        }
        read_memory(b);
        ig_progress_count("repetitions", (uint64_t)(i + 1), (uint64_t)n);
    }
    ig_progress_end();
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static uint64_t slot_bytes(void)
{
#if IG_MEM_SLOTS_BYTES
    return IG_SLOT_BYTES;
#elif IG_XC
    return IG_XC_SLOT_BYTES;
#else
    return 0;
#endif
}

/* What is printed of one test. */
struct result {
    double min, median, max; /* ms a token */
    double rate, gbs, bound_rate, bound_gbs;
    double missed; /* bytes a token that had to come from disk */
};

static struct result result(const struct bench *b, const struct test *t)
{
    const int n = b->done;
    qsort(t->ms, (size_t)n, sizeof *t->ms, compare);
    struct result r = { t->ms[0], (t->ms[(n - 1) / 2] + t->ms[n / 2]) / 2, t->ms[n - 1], 0, 0, 0, 0,
                        0 };
    r.rate = 1e3 / r.median;
    r.gbs = r.rate * t->bytes / 1e9;
    r.bound_gbs = (b->bandwidth > 0 ? b->bandwidth : (double)ig_read_bw(b->e)) / 1e9;
    r.bound_rate = r.bound_gbs * 1e9 / t->bytes;
    const int decode = t == &b->test[DECODE];
    const struct ig_expert_stats s = ig_expert_stats(b->e, decode, -1);
    if (!s.active || s.steps == 0) return r;
    /* What was copied early and used had missed too. */
    const double steps = decode ? (double)s.steps : (double)n * t->tokens;
    r.missed = (double)(s.miss + (decode ? s.early_used : 0)) * (double)slot_bytes() / steps;
    /* A device reads its own and waits for the rest. */
    if (s.link_bw + s.cpu_bw > 0.0)
        r.bound_rate = 1 / (1 / r.bound_rate + r.missed / (s.link_bw + s.cpu_bw));
    if (r.missed > 0 && b->disk > 0 && b->disk / r.missed < r.bound_rate)
        r.bound_rate = b->disk / r.missed;
    return r;
}

/* Of a timed decode, a device's: what it was asked for, a token. */
static json_t *calls_json(const struct bench *b)
{
    const struct ig_device_calls c = decode_calls;
    const double n = b->test[DECODE].tokens;
    if (!ig_device(b->e) || n == 0) return json_null();
    return json_pack("{s:f, s:f, s:f, s:f, s:f, s:f}", "graphs", (double)c.graphs / n, "kernels",
                     (double)c.kernels / n, "copies", (double)c.copies / n, "waits",
                     (double)c.waits / n, "memory_taken", (double)c.takes / n, "copies_behind",
                     (double)c.fetches / n);
}

static void show(const char *text) { ig_outf("%s\n", text); }

static void print_experts(const struct bench *b)
{
    if (b->disk > 0)
        ig_outf("\ndisk read %.2f GB/s now, %.2f GB/s in the plan\n", b->disk / 1e9,
                (double)IG_HW_DISK_BW / 1e9);
    for (int k = 0; k < N_TEST; k++) {
        const struct ig_expert_stats s = ig_expert_stats(b->e, k == DECODE, -1);
        if (b->test[k].tokens == 0 || !s.active) continue;
        ig_outf("%s: %.2f %% of the chosen experts were there, %.2f MB a token were not, stalls "
                "%.2f ms a batch\n",
                b->test[k].name, 100 * (double)s.hit / (double)(s.hit + s.late + s.miss),
                result(b, &b->test[k]).missed / 1e6, 1e3 * s.stall_s / (double)s.steps);
        if (s.link_bw + s.cpu_bw > 0.0)
            ig_outf("%s: the CPU took %.1f %% of the misses; at start the link read %.1f GB/s, the "
                    "CPU %.1f GB/s "
                    "(0: not in use)\n",
                    b->test[k].name, s.miss ? 100 * (double)s.by_cpu / (double)s.miss : 0.0,
                    s.link_bw / 1e9, s.cpu_bw / 1e9);
        if (s.behind > 0)
            ig_outf("%s: %llu copied into slots behind the work, %llu of them used, %llu given up "
                    "unused\n",
                    b->test[k].name, (unsigned long long)s.behind,
                    (unsigned long long)s.behind_used, (unsigned long long)s.behind_lost);
        if (b->o->stats) ig_expert_table(b->e, k == DECODE, show);
    }
}

static const char *kernels(const struct bench *b)
{
    const char *device = ig_device(b->e);
    return device ? device : ig_kern.name;
}

static void print_text(const struct bench *b)
{
    ig_outf("model %s, machine %s, plan %s, kernels %s\n", IG_MODEL_ID, IG_HW_ID, IG_PLAN_HASH,
            kernels(b));
    ig_outf("%d thread%s, context %d, batches of %d, %d repetition%s\n", ig_threads(b->e),
            IG_S(ig_threads(b->e)), ig_n_ctx(b->e), gen->n_batch, b->done, IG_S(b->done));
    ig_outf("memory read %.1f GB/s now, %.1f GB/s in the plan\n\n", b->bandwidth / 1e9,
            (double)ig_read_bw(b->e) / 1e9);
    ig_outf("%-8s %7s  %27s  %9s  %9s  %8s  %8s  %8s\n", "test", "tokens",
            "ms a token min/median/max", "tokens/s", "bound", "MB/token", "GB/s", "of bound");
    int above = 0; /* a test above its bound */
    for (int k = 0; k < N_TEST; k++) {
        const struct test *t = &b->test[k];
        if (t->tokens == 0) continue;
        const struct result r = result(b, t);
        ig_outf("%-8s %7d  %8.3f %8.3f %8.3f   %9.2f  %9.2f  %8.2f  %8.2f  %6.1f %%\n", t->name,
                t->tokens, r.min, r.median, r.max, r.rate, r.bound_rate, t->bytes / 1e6, r.gbs,
                100 * r.rate / r.bound_rate);
        above = above || r.rate > r.bound_rate;
    }
    if (above)
        ig_outf("\nmore than 100 %% of the bound: %s\n",
                sysconf(_SC_LEVEL3_CACHE_SIZE) >= (long)IG_TOKEN_BYTES
                    ? "the weights read fit the last-level cache; memory is not the bound"
                    : "the machine was busy while its memory was measured");
    if (b->o->route)
        ig_outf("\ndecode took its experts from %s: %u rows of %u layers\n", b->o->route,
                b->route.t.n_row, b->route.t.n_layer);
    print_experts(b);
    const double beside = (double)b->peak - (double)b->planned;
    ig_outf("\npeak memory %.1f MB: the plan's arena %.1f MB", (double)b->peak / 1e6,
            (double)b->planned / 1e6);
    if (beside > 0) ig_outf(", beside it %.1f MB (program, buffers, threads)", beside / 1e6);
    ig_outf("\n");
}

static void print_json(const struct bench *b)
{
    json_t *tests = json_array();
    for (int k = 0; k < N_TEST; k++) {
        const struct test *t = &b->test[k];
        if (t->tokens == 0) continue;
        const struct result r = result(b, t);
        json_array_append_new(
            tests,
            json_pack("{s:s, s:i, s:{s:f, s:f, s:f}, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:o}",
                      "test", t->name, "tokens", t->tokens, "ms_per_token", "min", r.min, "median",
                      r.median, "max", r.max, "tokens_per_s", r.rate, "bound_tokens_per_s",
                      r.bound_rate, "fraction_of_bound", r.rate / r.bound_rate, "bytes_per_token",
                      t->bytes, "gb_per_s", r.gbs, "bound_gb_per_s", r.bound_gbs, "missed_bytes",
                      r.missed, "experts", ig_expert_json(b->e, k == DECODE)));
    }
    /* The seed as a string: readers keep numbers as doubles, which end at 2^53. */
    ig_out_json(json_pack(
        "{s:s, s:s, s:s, s:s, s:i, s:i, s:i, s:i, s:o, s:f, s:f, s:f, s:f, s:o, s:o, s:o, s:I, "
        "s:I}",
        "plan", IG_PLAN_HASH, "hw", IG_HW_ID, "model", IG_MODEL_ID, "kernels", kernels(b),
        "threads", ig_threads(b->e), "ctx", ig_n_ctx(b->e), "batch", gen->n_batch, "repetitions",
        b->done, "seed", json_sprintf("%" PRIu64, b->o->seed.value), "memory_read_gb_per_s",
        b->bandwidth / 1e9, "plan_memory_read_gb_per_s", (double)ig_read_bw(b->e) / 1e9,
        "disk_read_gb_per_s", b->disk / 1e9, "plan_disk_read_gb_per_s", (double)IG_HW_DISK_BW / 1e9,
        "route", b->o->route ? json_string(b->o->route) : json_null(), "device_calls",
        calls_json(b), "tests", tests, "peak_bytes", (json_int_t)b->peak, "plan_bytes",
        (json_int_t)b->planned));
}

static void print_csv(const struct bench *b)
{
    ig_outf("plan,hw,model,threads,ctx,test,tokens,ms_min,ms_median,ms_max,tokens_per_s,gb_per_s,"
            "bound_gb_per_s,peak_bytes,plan_bytes\n");
    for (int k = 0; k < N_TEST; k++) {
        const struct test *t = &b->test[k];
        if (t->tokens == 0) continue;
        const struct result r = result(b, t);
        ig_outf("%s,%s,%s,%d,%d,%s,%d,%.4f,%.4f,%.4f,%.3f,%.3f,%.3f,%llu,%llu\n", IG_PLAN_HASH,
                IG_HW_ID, IG_MODEL_ID, ig_threads(b->e), ig_n_ctx(b->e), t->name, t->tokens, r.min,
                r.median, r.max, r.rate, r.gbs, r.bound_gbs, (unsigned long long)b->peak,
                (unsigned long long)b->planned);
    }
}

/* Sizes from the options, checked against the context; ids; room for the times. */
static enum ig_err prepare(struct bench *b, const struct ig_session *s, struct ig_why *why)
{
    static const int usual[N_TEST] = { 512, 128 };
    static const char *const name[N_TEST] = { "prefill", "decode" }, *const flag[N_TEST] = { "-p",
                                                                                             "-n" };
    const int given[N_TEST] = { b->o->bench_prompt, b->o->bench_gen }, most = ig_n_ctx(s->e);
    uint64_t state = b->o->seed.value;
    b->e = s->e;
    for (int k = 0; k < N_TEST; k++) {
        struct test *t = &b->test[k];
        t->name = name[k];
        t->tokens = given[k] >= 0 ? given[k] : usual[k] < most ? usual[k] : most;
        if (t->tokens > most)
            return ig_fail(why, IG_USAGE, "%s: want at most the context, %d, got %d", flag[k], most,
                           t->tokens);
        t->ms = calloc((size_t)b->o->repetitions, sizeof *t->ms);
        if (!t->ms) return ig_fail(why, IG_NO_MEM, "no memory for the times");
    }
    if (b->test[PREFILL].tokens + b->test[DECODE].tokens == 0)
        return ig_fail(why, IG_USAGE, "want -p or -n above 0, got 0 for both");
    b->ids = malloc((size_t)most * sizeof *b->ids);
    if (!b->ids) return ig_fail(why, IG_NO_MEM, "no memory for %d ids", most);
    for (int i = 0; i < most; i++) b->ids[i] = (int32_t)(ig_random(&state) % IG_N_VOCAB);
    const enum ig_err err = ig_gen_open(&gen, s, b->o, why);
    b->test[PREFILL].bytes = prefill_bytes(b->test[PREFILL].tokens, gen->n_batch);
    b->test[DECODE].bytes = (double)IG_TOKEN_BYTES;
    return err;
}

enum ig_err ig_cmd_bench(const struct ig_opts *o, struct ig_why *why)
{
    struct bench b = { .o = o };
    struct ig_session s;
    struct ig_opts settled = *o;
    settled.settle = 1;
    enum ig_err err = ig_session_open(&s, &settled, 0, why);
    if (err != IG_OK) return err;
    s.stats = 0; /* they are part of what it prints */
    if (o->route) err = ig_forced_open(&b.route, o->route, why);
    if (err == IG_OK) err = prepare(&b, &s, why);
    if (err == IG_OK) {
        ig_stop_catch();
        measure(&b);
        if (b.done == 0)
            ig_note("interrupted before the first repetition");
        else if (o->format == IG_JSON)
            print_json(&b);
        else if (o->format == IG_CSV)
            print_csv(&b);
        else
            print_text(&b);
    }
    if (o->route) ig_forced_close(&b.route);
    ig_membench_close(&b.mem);
    for (int k = 0; k < N_TEST; k++) free(b.test[k].ms);
    free(b.ids);
    ig_session_close(&s);
    return err;
}
