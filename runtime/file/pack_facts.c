/* pack_facts.c -- what a checkpoint says of its model, against the plan.
 *
 * Shapes do not tell 8 heads of 32 from 4 of 64, nor one base of rotation from another: weights
 * packed for the wrong one give text, and it is nonsense.  What the checkpoint does not
 * state cannot be compared.
 */
#include "pack_int.h"
#include "file.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tables.h"

enum { CONFIG_MOST = 1 << 26, KEY_BYTES = 128 };

/* Compared as the float that the binary has. */
static enum ig_err compare(const char *path, const char *key, const struct ig_fact *fact,
                           double got, const struct ig_pack_src *s, struct ig_why *why)
{
    if ((float)got == fact->value) return IG_OK;
    return ig_fail(why, IG_MISMATCH, "%s: %s: want %.7g (plan of %s), got %.9g" OTHER_MODEL, path,
                   key, (double)fact->value, IG_MODEL_ID, got, s->path);
}

static int number_of(const struct ig_gguf *g, const char *key, double *v)
{
    const struct ig_gguf_kv *kv = key ? ig_gguf_find(g, key) : NULL;
    return kv && ig_gguf_number(kv, v);
}

static enum ig_err check_gguf(const struct ig_pack_src *s, struct ig_why *why)
{
    const struct ig_gguf_kv *arch = ig_gguf_find(&s->g, "general.architecture");
    const size_t n = strlen(ig_gguf_arch);

    if (arch && arch->type == IG_GGUF_STRING && n &&
        (arch->n != n || memcmp(arch->data, ig_gguf_arch, n) != 0))
        return ig_fail(why, IG_MISMATCH,
                       "%s: general.architecture: want %s (plan of %s), got %.*s" OTHER_MODEL,
                       s->path, ig_gguf_arch, IG_MODEL_ID, arch->n < 64 ? (int)arch->n : 64,
                       (const char *)arch->data, s->path);
    for (int i = 0; i < ig_n_facts; i++) {
        const struct ig_fact *fact = &ig_facts[i];
        double got, less = 0;
        const int k = number_of(&s->g, fact->gguf[0], &got) ? 0 : 1;
        if (k && !number_of(&s->g, fact->gguf[1], &got)) continue;
        number_of(&s->g, fact->less, &less);
        const enum ig_err err = compare(s->path, fact->gguf[k], fact, got - less, s, why);
        if (err) return err;
    }
    return IG_OK;
}

/* The value at a path of keys; 0: none, or neither a number nor a bool. */
static int value_at(const json_t *at, const char *keys, double *v)
{
    char key[KEY_BYTES];

    while (keys && at) {
        const size_t n = strcspn(keys, ".");
        snprintf(key, sizeof key, "%.*s", (int)n, keys);
        at = json_object_get(at, key);
        keys = keys[n] ? keys + n + 1 : NULL;
    }
    if (json_is_boolean(at)) *v = json_is_true(at);
    if (json_is_number(at)) *v = json_number_value(at);
    return json_is_boolean(at) || json_is_number(at);
}

static enum ig_err check_config(const struct ig_pack_src *s, const char *path, struct ig_why *why)
{
    json_error_t wrong;
    char *text = NULL;
    size_t bytes;

    enum ig_err err = ig_file_slurp(path, CONFIG_MOST, &text, &bytes, why);
    if (err) return err;
    json_t *config = json_loadb(text, bytes, JSON_ALLOW_NUL, &wrong);
    free(text);
    if (!config)
        return ig_fail(why, IG_BAD_FILE, "%s: want JSON, got: line %d: %s", path, wrong.line,
                       wrong.text);
    for (int i = 0; i < ig_n_facts && !err; i++) {
        const struct ig_fact *fact = &ig_facts[i];
        double got;
        for (int k = 0; k < 2 && fact->hf[k]; k++)
            if (value_at(config, fact->hf[k], &got)) {
                err = compare(path, fact->hf[k], fact, got, s, why);
                break;
            }
    }
    json_decref(config);
    return err;
}

/* config.json in the folder, or beside the one file. */
static enum ig_err check_hf(const struct ig_pack_src *s, struct ig_why *why)
{
    struct stat st;
    enum ig_err err = IG_OK;

    char *folder = ig_pack_folder(s);
    char *path = folder ? ig_file_join(folder, "config.json") : NULL;
    if (!path) err = ig_fail(why, IG_NO_MEM, "%s: no memory", s->path);
    if (!err && stat(path, &st) == 0) err = check_config(s, path, why);
    free(path);
    free(folder);
    return err;
}

enum ig_err ig_pack_check_facts(const struct ig_pack_src *s, struct ig_why *why)
{
    if (s->kind == IG_PACK_GGUF) return check_gguf(s, why);
    return s->kind == IG_PACK_HF ? check_hf(s, why) : IG_OK;
}
