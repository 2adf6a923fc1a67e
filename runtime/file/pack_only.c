/* pack_only.c -- keys of a checkpoint that would change the arithmetic, where the plan has no place
 * for them.
 *
 * The generator refuses them in the checkpoint that it plans for (gen/facts.lua); a checkpoint that
 * is packed may be another one, so they are looked at again, with the same words.
 */
#include "pack_int.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "tables.h"

enum { SHOWN = 64 + 2 };

/* As gen/schema.lua shows a value. */
static void show_text(char out[SHOWN], const char *text, uint64_t n)
{
    const int shown = n > 60 ? 60 : (int)n;
    snprintf(out, SHOWN, "\"%*s%s\"", shown, "", n > 60 ? "..." : "");
    for (int i = 0; i < shown; i++) out[1 + i] = (char)(text[i] ? text[i] : '?'); /* NUL ends nothing */
}

static void show_json(char out[SHOWN], const json_t *v)
{
    if (json_is_string(v))
        show_text(out, json_string_value(v), json_string_length(v));
    else if (json_is_integer(v))
        snprintf(out, SHOWN, "%lld", (long long)json_integer_value(v));
    else if (json_is_real(v))
        snprintf(out, SHOWN, "%.14g", json_real_value(v));
    else
        snprintf(out, SHOWN, "%s",
                 json_is_true(v)    ? "true"
                 : json_is_false(v) ? "false"
                                    : "a table");
}

static void show_gguf(char out[SHOWN], const struct ig_gguf_kv *kv)
{
    double v;
    if (kv->type == IG_GGUF_STRING)
        show_text(out, (const char *)kv->data, kv->n);
    else if (kv->type == IG_GGUF_BOOL)
        snprintf(out, SHOWN, "%s", kv->data[0] ? "true" : "false");
    else if (ig_gguf_number(kv, &v))
        snprintf(out, SHOWN, "%.14g", v);
    else
        snprintf(out, SHOWN, "a table");
}

/* 1: it is stated, and `got` shows it. */
static int find(const struct ig_pack_src *s, const json_t *config, const struct ig_only *o,
                char got[SHOWN])
{
    if (config) {
        const json_t *v = o->hf[0] ? ig_config_at(config, o->hf[0]) : NULL;
        if (v) show_json(got, v);
        return v != NULL;
    }
    const struct ig_gguf_kv *kv = o->gguf ? ig_gguf_find(&s->g, o->gguf) : NULL;
    if (kv) show_gguf(got, kv);
    return kv != NULL;
}

static enum ig_err check(const struct ig_pack_src *s, const char *file, const json_t *config,
                         const struct ig_only *o, struct ig_why *why)
{
    char got[SHOWN], want[IG_N_FACT_KEY * SHOWN] = "nothing";
    size_t n = 0;

    if (!find(s, config, o, got)) return IG_OK;
    for (int i = 0; i < IG_N_FACT_KEY && o->want[i]; i++) {
        if (strcmp(got, o->want[i]) == 0) return IG_OK;
        n += (size_t)snprintf(want + n, sizeof want - n, "%s%s", i ? " or " : "", o->want[i]);
    }
    return ig_fail(why, IG_MISMATCH, "%s: %s: want %s (all that this engine computes), got %s",
                   file, config ? o->hf[0] : o->gguf, want, got);
}

enum ig_err ig_pack_check_only(const struct ig_pack_src *s, const char *file, const json_t *config,
                               struct ig_why *why)
{
    enum ig_err err = IG_OK;
    for (int i = 0; i < ig_n_only && !err; i++) err = check(s, file, config, &ig_only[i], why);
    return err;
}
