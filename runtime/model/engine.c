/* engine.c -- start-up: threads, arena, weights; then nothing allocates. */
#include "state.h"
#include "arena.h"
#include "cpus.h"
#include "device.h"
#include "device_cache.h"
#include "device_step.h"
#include "machine.h"
#include "wmap.h"

#include <inttypes.h>
#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <string.h>

static struct ig_engine engine;
static struct ig_cpus cpus;

void ig_downgrade_add(struct ig_engine *e, const char *fmt, ...)
{
    if (e->n_downgrade == IG_MAX_DOWNGRADE) return;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(e->downgrade[e->n_downgrade++], sizeof e->downgrade[0], fmt, ap);
    va_end(ap);
}

/* The threads that OpenMP really gives; ig_team_wait would hang on fewer.  A team that takes all
 * cores is pinned, one thread a core; a smaller one is left to the system, so that two of them do
 * not meet on the same cores. */
static void start_team(struct ig_engine *e, int want, const char *root)
{
    ig_cpus_find(&cpus, root ? root : "", NULL);
    int n = want > 0 ? want : cpus.n;
    if (n > IG_N_THREAD_MAX) n = IG_N_THREAD_MAX;
    omp_set_dynamic(0);
    int got = 1;
#pragma omp parallel num_threads(n)
#pragma omp single
    got = omp_get_num_threads();
    if (got == cpus.n && got > 1) {
#pragma omp parallel num_threads(n)
        ig_cpus_pin(&cpus, omp_get_thread_num());
    }
    if (got < n) ig_downgrade_add(e, "threads: asked for %d, OpenMP gave %d", n, got);
    if (want > IG_N_THREAD_MAX)
        ig_downgrade_add(e, "threads: asked for %d, the plan has room for %d", want,
                         IG_N_THREAD_MAX);
    if (want <= 0 && cpus.n < IG_N_THREAD_MAX)
        ig_downgrade_add(e, "threads: planned for %d, the machine has %d usable core%s",
                         IG_N_THREAD_MAX, cpus.n, cpus.n == 1 ? "" : "s");
    if (n > cpus.n)
        ig_downgrade_add(e, "threads: %d on %d usable core%s", n, cpus.n, cpus.n == 1 ? "" : "s");
    ig_team_set(&e->team, got, got == cpus.n ? cpus.node : NULL);
}

/* Touch everything beside the weights, so that no page fault comes later; its pages go round the
 * threads, and so round the memory nodes. */
static void touch(struct ig_engine *e, int poison)
{
    const uint64_t from = IG_MEM_DATA_OFF + IG_MEM_DATA_BYTES, step = UINT64_C(2) << 20;
#pragma omp parallel for num_threads(e->team.n) schedule(static, 1)
    for (uint64_t off = from; off < IG_MEM_BYTES; off += step) {
        const uint64_t n = IG_MEM_BYTES - off < step ? IG_MEM_BYTES - off : step;
        memset(e->mem + off, poison ? 0xff : 0, n); /* all ones is a NaN in every float format */
    }
}

/* cos, sin of position * frequency: Su et al. 2021, RoFormer, equation 15. */
static void fill_rope(struct ig_engine *e, float *cs)
{
    for (int table = 0; table < IG_N_ROPE; table++) {
        const float scale = ig_rope_scale[table];
#pragma omp parallel for num_threads(e->team.n)
        for (int pos = 0; pos < IG_N_CTX; pos++) {
            float *at = cs + ((size_t)table * IG_N_CTX + (size_t)pos) * IG_ROPE_DIM;
            for (int i = 0; i < IG_ROPE_DIM / 2; i++) {
                const float angle = (float)pos * ig_rope_freq[table][i];
                at[2 * i] = cosf(angle) * scale;
                at[2 * i + 1] = sinf(angle) * scale;
            }
        }
    }
}

void ig_set_length(struct ig_engine *e, int n)
{
    e->rope = IG_N_ROPE > 1 && (n > 0 ? n : e->n_ctx) > IG_ROPE_SWITCH;
}

static enum ig_err prepare_arena(struct ig_engine *e, const struct ig_open *o, struct ig_why *why)
{
    int huge = 0;
    enum ig_err err = ig_arena_map(&e->mem, IG_MEM_BYTES, ig_load_skew(e), &huge, why);
    if (err != IG_OK) return err;
    if (!huge) ig_downgrade_add(e, "memory: huge pages are off on this kernel");
    ig_place(e);
    err = ig_load_weights(e, o, why);
    if (err != IG_OK) return err;
    touch(e, o->poison);
    fill_rope(e, IG_BUF(e, ROPE, float));
#if IG_N_REL_BUCKET
    const float *const table[2] = { ig_vec(e, ig_layers[0].rel_bias),
                                    ig_vec(e, ig_layers[IG_N_LAYER_ENC].rel_bias) };
    ig_fill_bias(IG_BUF(e, BIAS, float), table);
#endif
    /* The mover's thread and the system's inherit this one's CPUs: not its core. */
    ig_cpus_unpin(&cpus);
    err = ig_tier_open(e, o, why);
    if (e->team.n == cpus.n && e->team.n > 1) ig_cpus_pin(&cpus, 0);
    return err;
}

#if IG_DEVICE
/* The same in the device's memory.  Without a device that the build can use: IG_NO_DEVICE. */
static enum ig_err prepare_device(struct ig_engine *e, const struct ig_open *o, struct ig_why *why)
{
    enum ig_err err = ig_step_open(e, o, why);
    if (err != IG_OK) return err;
#if IG_XC
    err = prepare_arena(e, o, why);
    if (err == IG_OK)
        err = ig_device_put(e->device, IG_VRAM_DATA_OFF, e->mem + IG_MEM_DATA_OFF,
                            IG_RESIDENT_BYTES, why);
    ig_cpus_unpin(&cpus); /* the thread that pins memory does not get this one's core */
    if (err == IG_OK) ig_step_reach(e, o);
    if (e->team.n == cpus.n && e->team.n > 1) ig_cpus_pin(&cpus, 0);
#else
    err = ig_load_weights(e, o, why);
#endif
    if (err != IG_OK) return err;
    err = ig_step_put(e, IG_VRAM_ROPE_OFF, IG_VRAM_ROPE_BYTES, fill_rope, why);
#if IG_N_REL_BUCKET
    if (err == IG_OK) err = ig_step_put(e, IG_VRAM_BIAS_OFF, IG_VRAM_BIAS_BYTES, ig_step_bias, why);
#endif
    if (err == IG_OK) ig_step_record(e);
    return err;
}
#endif

static enum ig_err prepare(struct ig_engine *e, const struct ig_open *o, struct ig_why *why)
{
    if (o->n_ctx > IG_N_CTX)
        return ig_fail(why, IG_USAGE, "context: the plan has room for %d positions, asked for %d",
                       IG_N_CTX, o->n_ctx);
    e->n_ctx = o->n_ctx > 0 ? o->n_ctx : IG_N_CTX;
    ig_set_length(e, 0);
    for (int s = 0; s < IG_N_SEQ; s++)
        for (uint32_t i = 0; i < IG_N_KV_BLOCK / IG_N_SEQ; i++)
            e->kv_table[s][i] = (uint32_t)s * (IG_N_KV_BLOCK / IG_N_SEQ) + i;
    start_team(e, o->threads, o->root);
    enum ig_err err = ig_wfile_open(&e->file, o->weights, IG_LAYOUT_HASH, why);
    if (err != IG_OK) return err;
    if (e->file.h.data.bytes != IG_DATA_BYTES)
        return ig_fail(why, IG_MISMATCH, "weights: want %" PRIu64 " bytes of data, got %" PRIu64,
                       (uint64_t)IG_DATA_BYTES, e->file.h.data.bytes);
#if IG_DEVICE
    err = prepare_device(e, o, why);
    if (err != IG_NO_DEVICE) return err;
    ig_downgrade_add(e, "%s; the CPU does the work", why->text);
#endif
    return prepare_arena(e, o, why);
}

enum ig_err ig_engine_open(struct ig_engine **e, const struct ig_open *o, struct ig_why *why)
{
    memset(&engine, 0, sizeof engine);
    engine.file.fd = -1;
    const enum ig_err err = prepare(&engine, o, why);
    if (err != IG_OK)
        ig_engine_close(&engine);
    else
        *e = &engine;
    return err;
}

void ig_engine_close(struct ig_engine *e)
{
    if (e->mem) ig_tier_close(e);
    ig_wmap_close();
    if (e->file.fd >= 0) ig_wfile_close(&e->file);
#if IG_DEVICE
    ig_step_close(e); /* before the arena, part of which it may have mapped */
#endif
    ig_arena_unmap(e->mem, IG_MEM_BYTES);
    e->mem = NULL;
    ig_cpus_unpin(&cpus); /* this thread may open another engine */
}

void ig_set_tap(struct ig_engine *e, const struct ig_tap *tap)
{
    e->tap = tap ? *tap : (struct ig_tap){ 0 };
}
void ig_set_choices(struct ig_engine *e, const int32_t *expert, const float *weight,
                    const int32_t *predicted)
{
    e->force_predicted = predicted;
    e->force_expert = expert;
    e->force_weight = weight;
}
struct ig_candidate *ig_sample_work(struct ig_engine *e)
{
#if IG_DEVICE
    if (e->device) return ig_step_sample();
#endif
    return IG_BUF(e, SAMPLE, struct ig_candidate);
}
const char *ig_loaded(const struct ig_engine *e) { return e->loaded; }
const char *ig_cpus_used(char *buf, size_t cap) { return ig_cpus_text(&cpus, buf, cap); }
const char *ig_device(const struct ig_engine *e)
{
#if IG_DEVICE
    return e->device ? ig_device_name(e->device) : NULL;
#else
    return (void)e, NULL;
#endif
}
const char *ig_device_link_says(struct ig_engine *e)
{
    static char text[96] = "none";
#if IG_DEVICE
    if (!e->device) return text;
    const double bw = ig_device_link(e->device);
    if (bw > 0.0)
        snprintf(text, sizeof text, "%.1f GB/s to the device from pinned memory, measured",
                 1e-9 * bw);
    else
        snprintf(text, sizeof text, "not measured: no memory left for it");
#endif
    return (void)e, text;
}
const char *ig_device_pinned_says(const struct ig_engine *e)
{
    static char text[96] = "none";
#if IG_XC
    const uint64_t all = IG_DATA_BYTES - IG_RESIDENT_BYTES;
    if (e->device)
        snprintf(text, sizeof text, "%llu of the experts' %llu MiB in RAM%s",
                 (unsigned long long)ig_device_reached(e->device) >> 20,
                 (unsigned long long)all >> 20,
                 ig_device_reaching(e->device) ? " so far; it goes on beside the work"
                 : ig_device_reached(e->device) < e->miss.reach_want ? "; the system allows no more"
                                                                     : "");
#elif IG_UNIFIED
    if (e->device)
        snprintf(text, sizeof text, "the weights, %llu MiB, which the device reads in RAM",
                 (unsigned long long)IG_DATA_BYTES >> 20);
#elif IG_DEVICE
    if (e->device) return "nothing: the device's memory has all weights";
#endif
    return (void)e, text;
}
const char *ig_misses_say(const struct ig_engine *e)
{
#if IG_XC
    if (e->device) return ig_miss_says(&e->miss);
#endif
    return (void)e, "none";
}
const char *ig_batches_say(const struct ig_engine *e)
{
#if IG_XC
    if (e->device) return ig_prefill_says(e);
#endif
    return (void)e, "none";
}
int ig_calls(const struct ig_engine *e, struct ig_device_calls *c)
{
#if IG_DEVICE
    if (e->device) *c = ig_device_calls(e->device);
    return e->device != NULL;
#else
    return (void)e, (void)c, 0;
#endif
}
uint64_t ig_read_bw(const struct ig_engine *e)
{
#if IG_DEVICE
    if (e->device) return IG_VRAM_BW;
#endif
    return (void)e, IG_HW_MEM_BW;
}
void ig_peak(const struct ig_engine *e, uint64_t *used, uint64_t *planned)
{
    *used = ig_machine_peak();
    *planned = IG_MEM_BYTES;
#if IG_DEVICE
    if (!e->device) return;
    *used = ig_device_used(e->device);
    *planned = e->vram;
#else
    (void)e;
#endif
}
int ig_threads(const struct ig_engine *e) { return e->team.n; }
int ig_n_ctx(const struct ig_engine *e) { return e->n_ctx; }
const struct ig_wfile *ig_weights(const struct ig_engine *e) { return &e->file; }
int ig_n_downgrade(const struct ig_engine *e) { return e->n_downgrade; }
const char *ig_downgrade(const struct ig_engine *e, int i) { return e->downgrade[i]; }
