/* cmd_plan.c -- what was planned, and what is there: plan, info. */
#include "cmd.h"

#include "config.h"
#include "kernels.h"
#include "machine.h"
#include "out.h"
#include "session.h"
#include "tier_stats.h"
#include "tables.h"

#include <inttypes.h>
#include <omp.h>
#include <stdio.h>
#include <string.h>

enum ig_err ig_cmd_plan(const struct ig_opts *o, struct ig_why *why)
{
    (void)o;
    (void)why;
    for (const char *const *line = ig_plan_text; *line; line++) ig_out(*line, strlen(*line));
    return IG_OK;
}

static json_t *json_hash(uint64_t hash)
{
    char text[17];
    snprintf(text, sizeof text, "%016" PRIx64, hash);
    return json_string(text);
}

/* Names from outside may be anything but UTF-8, which JSON has to be. */
static json_t *json_text(const char *text)
{
    json_t *j = json_string(text);
    return j ? j : json_string("(not UTF-8)");
}

static json_t *build_json(void)
{
    json_t *regions = json_array();
    for (uint32_t i = 0; i < (uint32_t)ig_n_regions; i++)
        json_array_append_new(regions, json_pack("{s:s, s:I, s:I}", "name", ig_regions[i].name,
                                                 "offset", (json_int_t)ig_regions[i].off, "bytes",
                                                 (json_int_t)ig_regions[i].bytes));
    return json_pack("{s:s, s:s, s:s, s:o, s:s, s:s, s:i, s:i, s:i, s:I, s:I, s:I, s:f, s:o}",
                     "model", IG_MODEL_ID, "hw", IG_HW_ID, "plan", IG_PLAN_HASH, "layout",
                     json_hash(IG_LAYOUT_HASH), "layout_text", IG_LAYOUT_TEXT, "kernels",
                     ig_kern.name, "ctx", IG_N_CTX, "batch", IG_N_ROW, "threads_max",
                     IG_N_THREAD_MAX, "weights_bytes", (json_int_t)IG_DATA_BYTES, "token_bytes",
                     (json_int_t)IG_TOKEN_BYTES, "memory_bytes", (json_int_t)IG_MEM_BYTES,
                     "predicted_tokens_per_s", (double)IG_PREDICTED_TPS, "regions", regions);
}

static json_t *machine_json(void)
{
    char need[256], have[256];
    const unsigned found = ig_cpu_features();
    return json_pack("{s:s, s:s, s:b, s:i, s:I}", "isa_needed",
                     ig_machine_isa(IG_NEED_CPU, need, sizeof need), "isa_found",
                     ig_machine_isa(found, have, sizeof have), "isa_ok",
                     (IG_NEED_CPU & ~found) == 0, "cpus", omp_get_num_procs(), "memory_bytes",
                     (json_int_t)ig_machine_memory());
}

/* The file's own words; its layout is compared, not required. */
static enum ig_err weights_json(const char *path, json_t **j, struct ig_why *why)
{
    struct ig_wfile f;
    enum ig_err err = ig_wfile_open(&f, path, 0, why);
    if (err != IG_OK) return err;
    char model[sizeof f.h.model_id + 1] = "", layout[sizeof f.h.layout_text + 1] = "";
    memcpy(model, f.h.model_id, sizeof f.h.model_id);
    memcpy(layout, f.h.layout_text, sizeof f.h.layout_text);
    err = ig_wfile_layout(&f, IG_LAYOUT_HASH, why);
    *j = json_pack("{s:o, s:b, s:o, s:o, s:o, s:I, s:b}", "file",
                   json_text(path ? path : "(embedded)"), "matches", err == IG_OK, "model",
                   json_text(model), "layout_text", json_text(layout), "layout",
                   json_hash(f.h.layout_hash), "bytes", (json_int_t)f.h.file_bytes, "tokenizer",
                   f.h.tokenizer.bytes > 0);
    ig_wfile_close(&f);
    return err;
}

static enum ig_err run_json(const struct ig_opts *o, json_t **j, struct ig_why *why)
{
    struct ig_session s;
    const enum ig_err err = ig_session_open(&s, o, 0, why);
    if (err != IG_OK) return err;
    json_t *list = json_array();
    for (int i = 0; i < ig_n_downgrade(s.e); i++)
        json_array_append_new(list, json_string(ig_downgrade(s.e, i)));
    char cores[256];
    uint64_t used, planned;
    const char *device = ig_device(s.e);
    ig_peak(s.e, &used, &planned);
    *j = json_pack("{s:s, s:s, s:s, s:s, s:s, s:o, s:i, s:s, s:i, s:s, s:s, s:s, s:I, s:I}", "on",
                   device ? device : "CPU", "link", ig_device_link_says(s.e), "pinned",
                   ig_device_pinned_says(s.e), "misses", ig_misses_say(s.e), "batches",
                   ig_batches_say(s.e), "downgrades", list, "threads", ig_threads(s.e), "cores",
                   ig_cpus_used(cores, sizeof cores), "ctx", ig_n_ctx(s.e), "weights",
                   ig_loaded(s.e), "experts", ig_expert_where(s.e), "prefetch",
                   ig_prefetch_says(s.e), "peak_bytes", (json_int_t)used, "planned_bytes",
                   (json_int_t)planned);
    json_object_set_new(*j, "cache", ig_expert_json(s.e, 1));
    ig_session_close(&s);
    return IG_OK;
}

/* Bytes are shown in MiB, under a name without "bytes". */
static void print_integer(const char *key, json_int_t v, int depth)
{
    const size_t n = strlen(key);
    if (n < 5 || strcmp(key + n - 5, "bytes") != 0)
        ig_outf("%*s%s: %" JSON_INTEGER_FORMAT "\n", depth, "", key, v);
    else
        ig_outf("%*s%.*s: %.1f MiB\n", depth, "", n > 6 ? (int)n - 6 : 4, n > 6 ? key : "size",
                (double)v / (1 << 20));
}

static void print_list(const json_t *list, int depth)
{
    size_t i;
    json_t *item;
    json_array_foreach(list, i, item)
    {
        if (json_is_string(item))
            ig_outf("%*s- %s\n", depth, "", json_string_value(item));
        else
            ig_outf("%*s%-24s %10.2f MiB at %10.2f\n", depth, "",
                    json_string_value(json_object_get(item, "name")),
                    (double)json_integer_value(json_object_get(item, "bytes")) / (1 << 20),
                    (double)json_integer_value(json_object_get(item, "offset")) / (1 << 20));
    }
}

/* A value as a "key: value" line, for people; what is nested stands indented below. */
static void print_text(const char *key, const json_t *v, int depth)
{
    if (json_is_null(v) || strcmp(key, "layers") == 0) return; /* not there; for programs */
    if (json_is_integer(v)) {
        print_integer(key, json_integer_value(v), depth);
        return;
    }
    ig_outf("%*s%s:", depth, "", key);
    if (json_is_string(v)) {
        char shown[2048];
        ig_escape(shown, sizeof shown, json_string_value(v));
        ig_outf(" %s\n", shown);
    } else if (json_is_real(v)) {
        ig_outf(" %.1f\n", json_real_value(v));
    } else if (json_is_boolean(v)) {
        ig_outf(" %s\n", json_is_true(v) ? "yes" : "no");
    } else if (json_is_object(v)) {
        ig_outf("\n");
        json_t *part;
        json_object_foreach((json_t *)(uintptr_t)v, key, part) print_text(key, part, depth + 2);
    } else {
        ig_outf(json_array_size(v) ? "\n" : " none\n");
        print_list(v, depth + 2);
    }
}

/* What a person asks first comes first; the memory map, the build's last part, is the end. */
static void print_info(const json_t *root)
{
    static const char *const parts[] = { "weights", "run", "machine", "build" };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        const json_t *part = json_object_get(root, parts[i]);
        if (part) print_text(parts[i], part, 0);
    }
}

/* Everything that can be said is said; what is wrong decides the exit code. */
enum ig_err ig_cmd_info(const struct ig_opts *o, struct ig_why *why)
{
    json_t *root = json_pack("{s:o, s:o}", "build", build_json(), "machine", machine_json());
    json_t *part = NULL;
    const enum ig_err isa = ig_machine_check(IG_NEED_CPU, ig_cpu_features(), why);
    const char *path, *unloaded = "not loaded: --no-load";
    struct ig_why more;
    enum ig_err err = IG_OK;
    if (ig_session_weights(o, &path, &more) != IG_OK) {
        unloaded = more.text; /* none there is a fact here, not an error */
    } else {
        err = weights_json(path, &part, &more);
        if (part) json_object_set_new(root, "weights", part);
        part = NULL;
        if (err == IG_OK && isa == IG_OK && !o->no_load) err = run_json(o, &part, &more);
        if (err != IG_OK || isa != IG_OK) unloaded = err != IG_OK ? more.text : why->text;
    }
    if (part)
        json_object_set_new(root, "run", part);
    else
        json_object_set_new(root, "run", json_string(unloaded));
    if (o->format == IG_JSON) {
        ig_out_json(root);
    } else {
        print_info(root);
        json_decref(root);
    }
    if (isa != IG_OK) return isa;
    if (err != IG_OK) *why = more;
    return err;
}
