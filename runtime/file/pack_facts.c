/* pack_facts.c -- what a checkpoint says of its model, against the plan.
 *
 * Shapes do not tell 8 heads of 32 from 4 of 64, nor one base of rotation from another: weights
 * packed for the wrong one give text, and it is nonsense.  What the checkpoint does not
 * state cannot be compared; that it stretches no rotation is stated by silence.
 */
#include "pack_int.h"
#include "file.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tables.h"

enum { CONFIG_MOST = 1 << 26, KEY_BYTES = 128, LIST_MOST = 4096 };

/* Where the statements come from: GGUF's metadata and tensors, or config.json. */
struct stated {
    const struct ig_pack_src *s;
    const char *file;     /* for messages */
    const json_t *config; /* NULL: GGUF */
    struct ig_why *why;
};

const json_t *ig_config_at(const json_t *config, const char *path)
{
    char key[KEY_BYTES];

    while (path && config) {
        const size_t n = strcspn(path, ".");
        snprintf(key, sizeof key, "%.*s", (int)n, path);
        config = json_is_array(config) ? json_array_get(config, strtoul(key, NULL, 10) - 1)
                                       : json_object_get(config, key);
        path = path[n] ? path + n + 1 : NULL;
    }
    return json_is_null(config) ? NULL : config;
}

/* The first of `keys` that config.json states. */
static const json_t *first(const struct stated *o, const char *const keys[IG_N_FACT_KEY],
                           const char **key)
{
    for (int i = 0; i < IG_N_FACT_KEY && keys[i]; i++) {
        const json_t *v = ig_config_at(o->config, keys[i]);
        *key = keys[i];
        if (v) return v;
    }
    return NULL;
}

/* Print what was wanted and what was found; the rest of each message is the same. */
static enum ig_err mismatch(const struct stated *o, const char *key, const char *want,
                            const char *got)
{
    return ig_fail(o->why, IG_MISMATCH, "%s: %s: want %s (plan of %s), got %s" OTHER_MODEL, o->file,
                   key, want, IG_MODEL_ID, got, o->s->path);
}

/* "a list", for messages. */
static const char *kind_of(const json_t *j)
{
    return json_is_array(j)    ? "a list"
           : json_is_object(j) ? "an object"
           : json_is_string(j) ? "a text"
                               : "a number or a bool";
}

/* A number of GGUF's metadata: 1 it is there, 0 it is not; *odd is its type where it is no number.
 */
static int number_of(const struct ig_gguf *g, const char *key, double *v, const char **odd)
{
    const struct ig_gguf_kv *kv = key ? ig_gguf_find(g, key) : NULL;
    if (kv && !ig_gguf_number(kv, v)) *odd = ig_gguf_type_name(kv->type);
    return kv != NULL;
}

/* 1: the checkpoint states the fact, under *key. */
static int find_number(const struct stated *o, const struct ig_fact *fact, const char **key,
                       double *v, const char **odd)
{
    if (!o->config) {
        double less = 0;
        const int k = number_of(&o->s->g, *key = fact->gguf[0], v, odd) ? 0 : 1;
        if (k && !number_of(&o->s->g, *key = fact->gguf[1], v, odd)) return 0;
        number_of(&o->s->g, fact->less, &less, odd);
        *v -= less;
        return 1;
    }
    const json_t *j = first(o, fact->hf, key);
    if (json_is_boolean(j)) *v = json_is_true(j);
    if (json_is_number(j)) *v = json_number_value(j);
    if (j && !json_is_boolean(j) && !json_is_number(j)) *odd = kind_of(j);
    return j != NULL;
}

/* Compared as the float that the binary has. */
static enum ig_err check_number(const struct stated *o, const struct ig_fact *fact)
{
    const char *key = NULL, *odd = NULL;
    char want[32] = "nothing", got[32];
    double v = 0;

    if (!find_number(o, fact, &key, &v, &odd)) return IG_OK;
    if (!fact->none && !odd && (float)v == fact->value) return IG_OK;
    if (!fact->none) snprintf(want, sizeof want, "%.7g", (double)fact->value);
    snprintf(got, sizeof got, "%.9g", v);
    return mismatch(o, key, want, odd ? odd : got);
}

/* The word that the checkpoint states under *key, else what silence means.  1: it is stated. */
static int find_word(const struct stated *o, const struct ig_word *w, const char **key,
                      char word[KEY_BYTES])
{
    const char *text = w->absent;
    size_t n = text ? strlen(text) : 0;
    int stated = 0;

    *key = o->config ? w->hf[0] : w->gguf;
    if (o->config) {
        const char *at_key = NULL;
        const json_t *j = first(o, w->hf, &at_key);
        stated = j != NULL;
        if (j) text = json_is_string(j) ? json_string_value(j) : kind_of(j), *key = at_key;
        if (j) n = json_is_string(j) ? json_string_length(j) : strlen(text);
    } else {
        const struct ig_gguf_kv *kv = ig_gguf_find(&o->s->g, w->gguf);
        stated = kv != NULL;
        if (kv && kv->type == IG_GGUF_STRING) text = (const char *)kv->data, n = (size_t)kv->n;
        if (kv && kv->type != IG_GGUF_STRING) text = ig_gguf_type_name(kv->type), n = strlen(text);
    }
    if (n > KEY_BYTES - 1) n = KEY_BYTES - 1;
    for (size_t i = 0; i < n; i++) word[i] = (char)(text[i] ? text[i] : '?'); /* NUL ends nothing */
    word[n] = '\0';
    return stated;
}

static enum ig_err check_word(const struct stated *o, const struct ig_word *w)
{
    char got[KEY_BYTES], want[IG_N_FACT_KEY * KEY_BYTES] = "";
    const char *key;

    if (o->config ? !w->hf[0] : !w->gguf) return IG_OK;
    if (!find_word(o, w, &key, got) && !got[0]) return IG_OK;
    for (int i = 0; i < IG_N_FACT_KEY && w->want[i]; i++) {
        if (strcmp(got, w->want[i]) == 0) return IG_OK;
        const size_t n = strlen(want);
        snprintf(want + n, sizeof want - n, "%s%s", i ? " or " : "", w->want[i]);
    }
    return mismatch(o, key, want, got[0] ? got : "an empty text");
}

/* The list that the checkpoint has, at most LIST_MOST numbers of it; *n is its whole length, 0:
 * none. */
static enum ig_err find_list(const struct stated *o, const struct ig_list *l, const char **key,
                             float *v, uint64_t *n)
{
    *n = 0;
    *key = o->config ? l->hf[0] : l->gguf;
    if (o->config) {
        const char *at_key = NULL;
        const json_t *j = first(o, l->hf, &at_key);
        if (!json_is_array(j)) return IG_OK;
        *key = at_key;
        *n = json_array_size(j);
        for (uint64_t i = 0; i < *n && i < LIST_MOST; i++)
            v[i] = (float)json_number_value(json_array_get(j, (size_t)i));
        return IG_OK;
    }
    const struct ig_tensor *t = ig_ckpt_find(&o->s->g.ckpt, l->gguf);
    if (!t) return IG_OK;
    if (t->fmt != IG_F32 || t->n_dim != 1)
        return mismatch(o, l->gguf, "a vector of type F32", t->n_dim == 1 ? t->type : "a matrix");
    *n = t->dim[0];
    return ig_ckpt_read(&o->s->g.ckpt, t, v, 0, 4 * (*n < LIST_MOST ? *n : LIST_MOST), o->why);
}

/* Writers work divisors out in single precision and print them in few digits. */
static int alike(float a, float b) { return fabsf(a - b) <= 1e-5f * fabsf(b); }

static enum ig_err check_list(const struct stated *o, const struct ig_list *l)
{
    float v[LIST_MOST];
    char want[64], got[64];
    const char *key;
    uint64_t n;

    if (o->config ? !l->hf[0] : !l->gguf) return IG_OK;
    const enum ig_err err = find_list(o, l, &key, v, &n);
    if (err) return err;
    snprintf(want, sizeof want, l->n ? "%u numbers" : "none", l->n);
    snprintf(got, sizeof got, n ? "%llu" : "none", (unsigned long long)n);
    if (n != l->n) return mismatch(o, key, want, got);
    for (uint32_t i = 0; i < l->n && i < LIST_MOST; i++) {
        if (alike(v[i], l->value[i])) continue;
        snprintf(want, sizeof want, "%.7g (number %u)", (double)l->value[i], i);
        snprintf(got, sizeof got, "%.9g", (double)v[i]);
        return mismatch(o, key, want, got);
    }
    return IG_OK;
}

/* Words first: with another family the numbers say little. */
static enum ig_err check_all(const struct stated *o)
{
    enum ig_err err = IG_OK;

    for (int i = 0; i < ig_n_words && !err; i++) err = check_word(o, &ig_words[i]);
    for (int i = 0; i < ig_n_facts && !err; i++) err = check_number(o, &ig_facts[i]);
    for (int i = 0; i < ig_n_lists && !err; i++) err = check_list(o, &ig_lists[i]);
    return err ? err : ig_pack_check_only(o->s, o->file, o->config, o->why);
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
    if (!json_is_object(config)) {
        json_decref(config);
        return ig_fail(why, IG_BAD_FILE, "%s: want a JSON object, got: %s", path,
                       config ? "another value" : wrong.text);
    }
    err = check_all(&(struct stated){ s, path, config, why });
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

/* A file without an architecture is bare tensors, and its silence says nothing. */
enum ig_err ig_pack_check_facts(const struct ig_pack_src *s, struct ig_why *why)
{
    if (s->kind == IG_PACK_HF) return check_hf(s, why);
    if (s->kind != IG_PACK_GGUF || !ig_gguf_find(&s->g, "general.architecture")) return IG_OK;
    return check_all(&(struct stated){ s, s->path, NULL, why });
}
