/* What a checkpoint says of its model, against the plan: each statement right, wrong, elsewhere,
 * missing.
 *
 * Compiled against several plans, so that each kind of stretched rotation is among them.
 */
#include <jansson.h>

#include "bytes.h"
#include "pack_int.h"
#include "tables.h"

#define OTHER "; this binary is for " IG_MODEL_ID "; make MODEL=%s builds one for it"

/* One fault in what is else the plan's own statement. */
struct fault {
    const char *number, *word, *list; /* the key that is changed */
    const char *other;                /* what the word becomes; NULL: "other" */
    const char *drop;                 /* the word's key or the list's that is left out */
    int longer;                       /* the list has one number more */
    const float *to;                  /* what the number becomes; NULL: one more than it was */
    const char *only, *value;         /* a key of ig_only, and what it states, as JSON */
};

static int is(const char *fault, const char *key) { return fault && strcmp(fault, key) == 0; }

/* Put `v` at a path of keys; "a.1" is a list of one. */
static void put(json_t *object, const char *path, json_t *v)
{
    char key[128];
    for (;;) {
        const size_t n = strcspn(path, ".");
        snprintf(key, sizeof key, "%.*s", (int)n, path);
        if (strcmp(path + n, ".1") == 0) v = json_pack("[o]", v);
        if (!path[n] || strcmp(path + n, ".1") == 0) break;
        if (!json_object_get(object, key)) json_object_set_new(object, key, json_object());
        object = json_object_get(object, key);
        path += n + 1;
    }
    json_object_set_new(object, key, v);
}

static float changed(const struct fault *f, const char *key, float v)
{
    return !is(f->number, key) ? v : f->to ? *f->to : v + 1.0f;
}

/* config.json as the plan's own checkpoint has it; number `moved` under its key `k`. */
static void write_config(const char *folder, const struct fault *f, int moved, int k)
{
    json_t *c = json_object();
    char path[700];

    for (int i = 0; i < ig_n_words; i++) {
        const struct ig_word *w = &ig_words[i];
        if (w->hf[0] && !is(f->drop, w->hf[0]))
            put(c, w->hf[0], json_string(is(f->word, w->hf[0]) ? (f->other ? f->other : "other") : w->want[0]));
    }
    for (int i = 0; i < ig_n_facts; i++) {
        const struct ig_fact *x = &ig_facts[i];
        const char *key = x->hf[i == moved ? k : 0];
        if (!key || (x->none && !is(f->number, key))) continue;
        put(c, key, json_real((double)changed(f, key, x->value)));
    }
    for (int i = 0; i < ig_n_lists; i++) {
        const struct ig_list *l = &ig_lists[i];
        const int more = is(f->list, l->hf[0] ? l->hf[0] : "") && (f->longer || !l->n);
        if (!l->hf[0] || is(f->drop, l->hf[0]) || (!l->n && !more)) continue;
        json_t *list = json_array();
        for (uint32_t j = 0; j < l->n; j++)
            json_array_append_new(
                list, json_real((double)(l->value[j] +
                                         (float)(!more && j == 3 && is(f->list, l->hf[0])))));
        if (more) json_array_append_new(list, json_real(1.0));
        put(c, l->hf[0], list);
    }
    if (f->only) put(c, f->only, json_loads(f->value, JSON_DECODE_ANY, NULL));
    mkdir(folder, 0700);
    snprintf(path, sizeof path, "%s/config.json", folder);
    assert_int_equal(json_dump_file(c, path, JSON_REAL_PRECISION(9)), 0);
    json_decref(c);
}

static void put_float(struct bytes *b, float v)
{
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    put_u32(b, bits);
}

static uint64_t gguf_kv(struct bytes *b, const struct fault *f)
{
    enum { F32 = 6, BOOL = 7, STRING = 8 };
    uint64_t n = 0;

    for (int i = 0; i < ig_n_words; i++) {
        const struct ig_word *w = &ig_words[i];
        if (!w->gguf || is(f->drop, w->gguf)) continue;
        put_str(b, w->gguf);
        put_u32(b, STRING);
        put_str(b, is(f->word, w->gguf) ? (f->other ? f->other : "other") : w->want[0]);
        n++;
    }
    for (int i = 0; i < ig_n_facts; i++) {
        if (!ig_facts[i].gguf[0]) continue;
        put_str(b, ig_facts[i].gguf[0]);
        put_u32(b, F32);
        put_float(b, changed(f, ig_facts[i].gguf[0], ig_facts[i].value));
        n++;
    }
    if (!f->only) return n;
    json_t *v = json_loads(f->value, JSON_DECODE_ANY, NULL);
    put_str(b, f->only);
    put_u32(b, json_is_string(v) ? STRING : json_is_boolean(v) ? BOOL : F32);
    if (json_is_string(v)) put_str(b, json_string_value(v));
    if (json_is_boolean(v)) put_raw(b, json_is_true(v) ? "\1" : "\0", 1);
    if (json_is_number(v)) put_float(b, (float)json_number_value(v));
    json_decref(v);
    return n + 1;
}

/* Vectors of F32, each 32-byte aligned. */
static uint64_t gguf_lists(struct bytes *info, struct bytes *data, const struct fault *f)
{
    uint64_t n = 0;

    for (int i = 0; i < ig_n_lists; i++) {
        const struct ig_list *l = &ig_lists[i];
        const int more = is(f->list, l->gguf) && (f->longer || !l->n);
        if (is(f->drop, l->gguf) || (!l->n && !more)) continue;
        put_str(info, l->gguf);
        put_u32(info, 1);
        put_u64(info, l->n + (uint64_t)more);
        put_u32(info, 0);
        put_u64(info, data->n);
        for (uint32_t j = 0; j < l->n; j++)
            put_float(data, l->value[j] + (float)(!more && j == 3 && is(f->list, l->gguf)));
        if (more) put_float(data, 1.0f);
        put_zero(data, -data->n % 32);
        n++;
    }
    return n;
}

static void write_gguf(const char *path, const struct fault *f)
{
    struct bytes head = { 0 }, kv = { 0 }, info = { 0 }, data = { 0 };
    const uint64_t n_kv = gguf_kv(&kv, f), n_list = gguf_lists(&info, &data, f);

    put_text(&head, "GGUF");
    put_u32(&head, 3);
    put_u64(&head, n_list);
    put_u64(&head, n_kv);
    put_raw(&head, kv.p, kv.n);
    put_raw(&head, info.p, info.n);
    put_zero(&head, -head.n % 32);
    put_raw(&head, data.p, data.n);
    FILE *out = fopen(path, "wb");
    assert_non_null(out);
    assert_int_equal(fwrite(head.p, 1, head.n, out), head.n);
    fclose(out);
    free(head.p), free(kv.p), free(info.p), free(data.p);
}

/* The verdict on the folder or file at `path`; "": it is accepted. */
static void want_text_of(const char *path, int gguf, const char *text)
{
    struct ig_pack_src s = { .kind = gguf ? IG_PACK_GGUF : IG_PACK_HF, .path = path };
    struct ig_why why = { "" };

    if (gguf) assert_int_equal(ig_gguf_open(&s.g, path, &why), IG_OK);
    const enum ig_err err = ig_pack_check_facts(&s, &why);
    if (gguf) ig_gguf_close(&s.g);
    if (strcmp(why.text, text) != 0) fail_msg("want: %s\ngot:  %s", text, why.text);
    assert_int_equal(err, text[0] ? IG_MISMATCH : IG_OK);
}

/* No key: it is accepted. */
static void want(const char *path, int gguf, const char *key, const char *wanted, const char *got)
{
    char text[1024] = "";
    if (key)
        snprintf(text, sizeof text, "%s%s: %s: want %s (plan of " IG_MODEL_ID "), got %s" OTHER,
                 path, gguf ? "" : "/config.json", key, wanted, got, path);
    want_text_of(path, gguf, text);
}

static void make(const char *path, int gguf, const struct fault *f)
{
    if (gguf)
        write_gguf(path, f);
    else
        write_config(path, f, -1, 0);
}

static const char *place(int gguf) { return in_folder(gguf ? "facts.gguf" : "facts"); }

static void test_right(void **state)
{
    (void)state;
    for (int gguf = 0; gguf < 2; gguf++) {
        make(place(gguf), gguf, &(struct fault){ 0 });
        want(place(gguf), gguf, NULL, NULL, NULL);
    }
}

static void test_numbers(void **state)
{
    char wanted[40], got[40];
    (void)state;

    for (int i = 0; i < ig_n_facts; i++) {
        const struct ig_fact *x = &ig_facts[i];
        snprintf(wanted, sizeof wanted, "%.7g", (double)x->value);
        snprintf(got, sizeof got, "%.9g", (double)(x->value + 1.0f));
        for (int k = 0; k < IG_N_FACT_KEY && x->hf[k]; k++) {
            write_config(place(0), &(struct fault){ 0 }, i, k);
            want(place(0), 0, NULL, NULL, NULL);
            write_config(place(0), &(struct fault){ .number = x->hf[k] }, i, k);
            want(place(0), 0, x->hf[k], x->none ? "nothing" : wanted, got);
        }
        if (!x->gguf[0]) continue;
        write_gguf(place(1), &(struct fault){ .number = x->gguf[0] });
        want(place(1), 1, x->gguf[0], wanted, got);
    }
}

/* Counts of experts that no model has. */
static void test_experts(void **state)
{
    char wanted[40], got[40];
    (void)state;

    for (int i = 0; i < ig_n_facts; i++) {
        const struct ig_fact *x = &ig_facts[i];
        if (!x->gguf[0] || !strstr(x->gguf[0], ".expert_")) continue;
        const float lies[] = { 0.0f, -1.0f, 0.5f, 1e9f, (float)IG_N_EXPERT + 1.0f };
        for (size_t k = 0; k < sizeof lies / sizeof *lies; k++) {
            snprintf(wanted, sizeof wanted, "%.7g", (double)x->value);
            snprintf(got, sizeof got, "%.9g", (double)lies[k]);
            write_gguf(place(1), &(struct fault){ .number = x->gguf[0], .to = &lies[k] });
            if (lies[k] == x->value)
                want(place(1), 1, NULL, NULL, NULL);
            else
                want(place(1), 1, x->gguf[0], wanted, got);
        }
    }
}

static void test_words(void **state)
{
    (void)state;
    for (int i = 0; i < ig_n_words; i++) {
        const struct ig_word *w = &ig_words[i];
        const char *key = w->gguf ? w->gguf : w->hf[0];
        const int gguf = w->gguf != NULL;
        char wanted[200];

        snprintf(wanted, sizeof wanted, "%s%s%s", w->want[0], w->want[1] ? " or " : "",
                 w->want[1] ? w->want[1] : "");
        make(place(gguf), gguf, &(struct fault){ .word = key });
        want(place(gguf), gguf, key, wanted, "other");
        make(place(gguf), gguf, &(struct fault){ .word = key, .other = "" });
        want(place(gguf), gguf, key, wanted, "an empty text");
        make(place(gguf), gguf, &(struct fault){ .drop = key });
        if (w->absent && strcmp(w->absent, w->want[0]) != 0)
            want(place(gguf), gguf, key, wanted, w->absent);
        else
            want(place(gguf), gguf, NULL, NULL, NULL);
    }
}

static void test_lists(void **state)
{
    char wanted[40], got[40];
    (void)state;

    for (int i = 0; i < ig_n_lists; i++)
        for (int gguf = 0; gguf < 2; gguf++) {
            const struct ig_list *l = &ig_lists[i];
            const char *key = gguf ? l->gguf : l->hf[0];
            if (!key) continue;
            snprintf(wanted, sizeof wanted, l->n ? "%u numbers" : "none", l->n);
            snprintf(got, sizeof got, "%u", l->n + 1);
            make(place(gguf), gguf, &(struct fault){ .list = key, .longer = 1 });
            want(place(gguf), gguf, key, wanted, got);
            if (!l->n) continue;
            make(place(gguf), gguf, &(struct fault){ .drop = key });
            want(place(gguf), gguf, key, wanted, "none");
            snprintf(wanted, sizeof wanted, "%.7g (number 3)", (double)l->value[3]);
            snprintf(got, sizeof got, "%.9g", (double)(l->value[3] + 1.0f));
            make(place(gguf), gguf, &(struct fault){ .list = key });
            want(place(gguf), gguf, key, wanted, got);
        }
}

/* What no plan of the family computes, in the words of the generator. */
static void test_only(void **state)
{
    static const char *const OTHERS[] = { "\"other\"", "7", "0.5" };
    char wanted[300], text[1024];
    (void)state;

    assert_true(ig_n_only > 2);
    for (int i = 0; i < ig_n_only; i++) {
        const struct ig_only *o = &ig_only[i];
        const int gguf = o->gguf != NULL;
        const char *key = gguf ? o->gguf : o->hf[0];
        size_t n = 0;
        snprintf(wanted, sizeof wanted, "nothing");
        for (int k = 0; k < IG_N_FACT_KEY && o->want[k]; k++) {
            make(place(gguf), gguf, &(struct fault){ .only = key, .value = o->want[k] });
            want(place(gguf), gguf, NULL, NULL, NULL);
            n += (size_t)snprintf(wanted + n, sizeof wanted - n, "%s%s", k ? " or " : "",
                                  o->want[k]);
        }
        for (size_t k = 0; k < sizeof OTHERS / sizeof *OTHERS; k++) {
            make(place(gguf), gguf, &(struct fault){ .only = key, .value = OTHERS[k] });
            snprintf(text, sizeof text, "%s%s: %s: want %s (all that this engine computes), got %s",
                     place(gguf), gguf ? "" : "/config.json", key, wanted, OTHERS[k]);
            want_text_of(place(gguf), gguf, text);
        }
    }
}

/* Something is stated, and it is no number or no word: an array of counts, one a layer, say. */
static void test_kinds(void **state)
{
    enum { U32 = 4, ARRAY = 9 };
    struct bytes b = { 0 };
    char wanted[40], path[700];
    (void)state;

    for (int i = 0; i < ig_n_facts; i++) {
        const struct ig_fact *x = &ig_facts[i];
        if (!x->gguf[0] || (!strstr(x->gguf[0], "head_count") && !strstr(x->gguf[0], ".expert_")))
            continue;
        b.n = 0;
        put_text(&b, "GGUF"), put_u32(&b, 3), put_u64(&b, 0), put_u64(&b, 2);
        for (int w = 0; w < ig_n_words; w++) {
            if (!ig_words[w].gguf || strcmp(ig_words[w].gguf, "general.architecture") != 0)
                continue;
            put_str(&b, ig_words[w].gguf), put_u32(&b, 8), put_str(&b, ig_words[w].want[0]);
        }
        put_str(&b, x->gguf[0]), put_u32(&b, ARRAY), put_u32(&b, U32), put_u64(&b, 1),
            put_u32(&b, 0);
        for (int w = 0; w < ig_n_words; w++) {
            const struct ig_word *k = &ig_words[w];
            if (!k->gguf || !k->absent || strcmp(k->absent, k->want[0]) == 0) continue;
            b.p[16]++;
            put_str(&b, k->gguf), put_u32(&b, 8), put_str(&b, k->want[0]);
        }
        snprintf(wanted, sizeof wanted, "%.7g", (double)x->value);
        want(save("array.gguf", &b), 1, x->gguf[0], wanted, "array");
    }
    free(b.p);
    write_config(place(0), &(struct fault){ 0 }, -1, 0);
    snprintf(path, sizeof path, "%s/config.json", place(0));
    json_t *c = json_load_file(path, 0, NULL);
    json_object_set_new(c, "model_type", json_array());
    assert_int_equal(json_dump_file(c, path, 0), 0);
    want(place(0), 0, "model_type", ig_words[0].want[0], "a list");
    json_object_set_new(c, "model_type", json_string(ig_words[0].want[0]));
    json_object_set_new(c, ig_facts[0].hf[0], json_string("2"));
    assert_int_equal(json_dump_file(c, path, 0), 0);
    snprintf(wanted, sizeof wanted, "%.7g", (double)ig_facts[0].value);
    want(place(0), 0, ig_facts[0].hf[0], wanted, "a text");
    json_decref(c);
}

/* A GGUF file without an architecture is bare tensors; a folder may have no config.json. */
static void test_silence(void **state)
{
    const char *folder = in_folder("silent");
    (void)state;
    write_gguf(place(1), &(struct fault){ .drop = "general.architecture" });
    want(place(1), 1, NULL, NULL, NULL);
    mkdir(folder, 0700);
    want(folder, 0, NULL, NULL, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_right),   cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_experts), cmocka_unit_test(test_words),
        cmocka_unit_test(test_lists),   cmocka_unit_test(test_only),
        cmocka_unit_test(test_kinds),   cmocka_unit_test(test_silence),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests_name("facts", tests, NULL, NULL);
}
