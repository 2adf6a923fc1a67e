/* pack_fixture.h -- checkpoints of the compiled-in plan's shape, right or with one fault.
 *
 * Values are k / 128 with |k| < 128: F32, F16 and BF16 hold them exactly, so
 * three files of different types must pack to the same bytes.
 */
#ifndef IG_TEST_PACK_FIXTURE_H
#define IG_TEST_PACK_FIXTURE_H

#include <math.h>

#include "bytes.h"

#include "../../kernels/panel.h"
#include "tables.h"

struct fixture {
    int gguf;       /* else safetensors */
    int per_expert; /* GGUF: a tensor an expert, as before 2024 */
    int shards;     /* safetensors: 2 files and an index; path is a folder */
    enum ig_fmt fmt;
    int sparse;                          /* no values: the file is refused before they matter */
    const char *drop, *reshape, *retype; /* names of tensors with a fault */
    const char *nan, *extra;
    int facts;         /* 1 states the plan's facts */
    const char *wrong; /* and this key with another value */
};

struct fx_tensor {
    char name[160];
    enum ig_role role;
    int layer, expert, n_dim; /* expert -1: none, or all of them (3 dimensions) */
    uint64_t dim[3];          /* outermost first */
    enum ig_fmt fmt;
    uint64_t off, bytes;
};

struct fx_list {
    struct fx_tensor *t;
    size_t n;
};

/* Sizes of the types that a fault gives a tensor: F64; Q5_0. */
enum { FX_F64_BYTES = 8, FX_Q8_1 = 9, FX_Q8_1_BYTES = 36 };

static inline void fx_name(char name[160], const char *pattern, int layer, int expert)
{
    for (; *pattern; pattern++) {
        if (*pattern == '%')
            name += sprintf(name, "%d", *++pattern == 'L' ? layer : expert);
        else
            *name++ = *pattern;
    }
    *name = '\0';
}

static inline int fx_is(const char *fault, const struct fx_tensor *t)
{
    return fault && strcmp(fault, t->name) == 0;
}

static inline void fx_add(struct fx_list *l, const struct fixture *x, struct fx_tensor t)
{
    const struct ig_source *s = &ig_sources[t.role];
    const char *pattern = x->gguf ? s->gguf[0].name : s->hf[0].name;
    for (int i = 0; x->gguf && x->per_expert && i < IG_N_NAME && s->gguf[i].name; i++)
        if (strstr(s->gguf[i].name, "%E")) pattern = s->gguf[i].name;
    fx_name(t.name, pattern, t.layer, t.expert);
    if (fx_is(x->drop, &t)) return;
    if (fx_is(x->reshape, &t)) t.dim[0]++;
    t.bytes = 1;
    for (int i = 0; i < t.n_dim - 1; i++) t.bytes *= t.dim[i];
    const int cols = (int)t.dim[t.n_dim - 1];
    t.bytes *= !fx_is(x->retype, &t) ? ig_fmt_row_bytes(t.fmt, cols)
               : x->gguf             ? (size_t)cols / 32 * FX_Q8_1_BYTES
                                     : (size_t)cols * FX_F64_BYTES;
    l->t = realloc(l->t, (l->n + 1) * sizeof *l->t);
    l->t[l->n++] = t;
}

static inline void fx_matrix(struct fx_list *l, const struct fixture *x, enum ig_role role,
                             int layer, const struct ig_mat *m)
{
    fx_add(l, x,
           (struct fx_tensor){ .role = role,
                               .layer = layer,
                               .expert = -1,
                               .n_dim = 2,
                               .dim = { m->rows, m->cols },
                               .fmt = x->fmt });
}

static inline void fx_norm(struct fx_list *l, const struct fixture *x, enum ig_role role, int layer)
{
    fx_add(l, x,
           (struct fx_tensor){ .role = role,
                               .layer = layer,
                               .expert = -1,
                               .n_dim = 1,
                               .dim = { IG_N_EMBD },
                               .fmt = x->gguf ? IG_F32 : x->fmt });
}

static inline void fx_experts(struct fx_list *l, const struct fixture *x, enum ig_role role,
                              int layer, const struct ig_mat *m)
{
    struct fx_tensor t = { .role = role, .layer = layer, .expert = -1, .n_dim = 3, .fmt = x->fmt };
    memcpy(t.dim, (uint64_t[]){ IG_N_EXPERT, m->rows, m->cols }, sizeof t.dim);
    if (x->gguf && !x->per_expert) {
        fx_add(l, x, t);
        return;
    }
    t.n_dim = 2;
    memcpy(t.dim, (uint64_t[]){ m->rows, m->cols }, 2 * sizeof *t.dim);
    for (t.expert = 0; t.expert < IG_N_EXPERT; t.expert++) fx_add(l, x, t);
}

/* All tensors, in an order that is not the plan's. */
static inline struct fx_list fx_tensors(const struct fixture *x)
{
    struct fx_list l = { 0 };

    for (int n = IG_N_LAYER - 1; n >= 0; n--) {
        const struct ig_layer *y = &ig_layers[n];
        fx_experts(&l, x, IG_ROLE_DOWN, n, &y->down);
        fx_experts(&l, x, IG_ROLE_UP, n, &y->up);
        fx_experts(&l, x, IG_ROLE_GATE, n, &y->gate);
        fx_matrix(&l, x, IG_ROLE_ROUTER, n, &y->router);
        fx_matrix(&l, x, IG_ROLE_ATTN_O, n, &y->o);
        fx_matrix(&l, x, IG_ROLE_ATTN_V, n, &y->v);
        fx_matrix(&l, x, IG_ROLE_ATTN_K, n, &y->k);
        fx_matrix(&l, x, IG_ROLE_ATTN_Q, n, &y->q);
        fx_norm(&l, x, IG_ROLE_FFN_NORM, n);
        fx_norm(&l, x, IG_ROLE_ATTN_NORM, n);
    }
    if (ig_output.off != ig_token_embd.off) fx_matrix(&l, x, IG_ROLE_OUTPUT, -1, &ig_output);
    fx_norm(&l, x, IG_ROLE_OUTPUT_NORM, -1);
    fx_matrix(&l, x, IG_ROLE_TOKEN_EMBD, -1, &ig_token_embd);
    return l;
}

static inline float fx_value(const struct fx_tensor *t, int expert, uint64_t row, uint64_t col)
{
    uint64_t z = ((uint64_t)t->role << 58) + ((uint64_t)(t->layer + 1) << 46) +
                 ((uint64_t)(expert + 1) << 36) + (row << 18) + col;
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return (float)((int)(z >> 40 & 255) - 128 + (int)((z >> 40 & 255) == 0)) / 128.0f;
}

/* The file's row r holds this row of the matrix: GGUF has rotary pairs side by side. */
static inline uint64_t fx_row(const struct fixture *x, const struct fx_tensor *t, uint64_t r)
{
    const uint64_t hd = IG_HEAD_DIM, head = r / hd, pair = r % hd / 2, half = r % 2;
    if (!x->gguf || !ig_sources[t->role].gguf[0].pair_period) return r;
    return head * hd + half * (hd / 2) + pair;
}

static inline void fx_write_data(FILE *f, const struct fixture *x, const struct fx_tensor *t)
{
    const uint64_t cols = t->dim[t->n_dim - 1], rows = t->n_dim > 1 ? t->dim[t->n_dim - 2] : 1;
    const size_t bytes = ig_fmt_row_bytes(t->fmt, (int)cols);
    float *v = malloc(cols * sizeof *v);
    void *row = malloc(bytes);

    for (uint64_t e = 0; e < (t->n_dim == 3 ? t->dim[0] : 1); e++)
        for (uint64_t r = 0; r < rows; r++) {
            for (uint64_t c = 0; c < cols; c++)
                v[c] = fx_value(t, t->n_dim == 3 ? (int)e : t->expert, fx_row(x, t, r), c);
            const int bad = fx_is(x->nan, t) && r == (t->n_dim > 1);
            if (bad) v[2] = NAN;
            ig_row_from_f32(t->fmt, row, v, (int)cols);
            if (bad && ig_fmt_cols(t->fmt) > 1) memset(row, 0xff, bytes); /* scales, too */
            assert_int_equal(fwrite(row, 1, bytes, f), bytes);
        }
    free(row);
    free(v);
}

/* Head, then the data of tensors [lo, hi), each at head->n + off. */
static inline void fx_write(const char *path, const struct fixture *x, const struct bytes *head,
                            const struct fx_list *l, size_t lo, size_t hi)
{
    FILE *f = fopen(path, "wb");
    long end = (long)head->n;

    assert_non_null(f);
    assert_int_equal(fwrite(head->p, 1, head->n, f), head->n);
    for (size_t i = lo; i < hi; i++) {
        fseek(f, (long)(head->n + l->t[i].off), SEEK_SET);
        if (!x->sparse) fx_write_data(f, x, &l->t[i]);
        end = (long)(head->n + l->t[i].off + l->t[i].bytes);
    }
    fflush(f);
    assert_int_equal(ftruncate(fileno(f), end), 0);
    fclose(f);
}

static inline void fx_safetensors(const char *path, const struct fixture *x, struct fx_list *l,
                                  size_t lo, size_t hi)
{
    struct bytes json = { 0 }, head = { 0 };
    uint64_t at = 0;
    char line[400];

    put_text(&json, "{\"__metadata__\":{\"format\":\"pt\"}");
    for (size_t i = lo; i < hi; i++) {
        struct fx_tensor *t = &l->t[i];
        char shape[100];
        static const char *const dtype[] = {
            [IG_F32] = "F32", [IG_F16] = "F16", [IG_BF16] = "BF16"
        };
        t->off = at;
        at += t->bytes;
        snprintf(shape, sizeof shape, t->n_dim == 1 ? "%llu" : "%llu,%llu",
                 (unsigned long long)t->dim[0], (unsigned long long)t->dim[1]);
        snprintf(line, sizeof line,
                 ",\"%s\":{\"dtype\":\"%s\",\"shape\":[%s],\"data_offsets\":[%llu,%llu]}", t->name,
                 fx_is(x->retype, t) ? "F64" : dtype[t->fmt], shape, (unsigned long long)t->off,
                 (unsigned long long)at);
        put_text(&json, line);
    }
    if (x->extra) {
        snprintf(line, sizeof line,
                 ",\"%s\":{\"dtype\":\"I64\",\"shape\":[0],\"data_offsets\":[0,0]}", x->extra);
        put_text(&json, line);
    }
    put_text(&json, "}");
    put_u64(&head, json.n);
    put_raw(&head, json.p, json.n);
    fx_write(path, x, &head, l, lo, hi);
    free(json.p);
    free(head.p);
}

static inline float fx_fact(const struct fixture *x, const char *key, float value)
{
    return x->wrong && strcmp(x->wrong, key) == 0 ? value + 1.0f : value;
}

/* general.architecture of the plan's GGUF files. */
static inline const char *fx_arch(void)
{
    for (int i = 0; i < ig_n_words; i++)
        if (ig_words[i].gguf && strcmp(ig_words[i].gguf, "general.architecture") == 0)
            return ig_words[i].want[0];
    return "";
}

/* The architecture and every fact, as floats; how many. */
static inline uint64_t fx_gguf_facts(struct bytes *head, const struct fixture *x)
{
    enum { F32 = 6, STRING = 8 };
    uint64_t n = 1;

    put_str(head, "general.architecture");
    put_u32(head, STRING);
    put_str(head, fx_fact(x, "general.architecture", 0) > 0 ? "other" : fx_arch());
    for (int i = 0; i < ig_n_facts; i++) {
        if (!ig_facts[i].gguf[0]) continue;
        const float v = fx_fact(x, ig_facts[i].gguf[0], ig_facts[i].value);
        uint32_t bits;
        memcpy(&bits, &v, sizeof bits);
        put_str(head, ig_facts[i].gguf[0]);
        put_u32(head, F32);
        put_u32(head, bits);
        n++;
    }
    return n;
}

/* config.json of a folder: facts whose keys are not inside objects. */
static inline void fx_config(const char *folder, const struct fixture *x)
{
    char path[700];

    snprintf(path, sizeof path, "%s/config.json", folder);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    fprintf(f, "{\"head_dim\": null");
    for (int i = 0; i < ig_n_facts; i++) {
        const char *key = ig_facts[i].hf[0];
        if (key && !strchr(key, '.') && strcmp(key, "head_dim") != 0)
            fprintf(f, ", \"%s\": %.9g", key, (double)fx_fact(x, key, ig_facts[i].value));
    }
    fprintf(f, "}");
    fclose(f);
}

static inline void fx_gguf(const char *path, const struct fixture *x, struct fx_list *l)
{
    static const uint32_t type[] = {
        [IG_F32] = 0,     [IG_F16] = 1,   [IG_BF16] = 30, [IG_Q8_0] = 8,
        [IG_Q4_0] = 2,    [IG_Q4_K] = 12, [IG_Q6_K] = 14, [IG_Q5_K] = 13,
        [IG_MXFP4] = 39,  [IG_Q4_1] = 3,  [IG_Q5_0] = 6,  [IG_Q5_1] = 7,
        [IG_IQ4_NL] = 20, [IG_Q3_K] = 11, [IG_Q2_K] = 10, [IG_IQ4_XS] = 23,
    };
    struct bytes head = { 0 }, kv = { 0 };
    const uint64_t n_kv = x->facts ? fx_gguf_facts(&kv, x) : 0;
    uint64_t at = 0;

    put_text(&head, "GGUF");
    put_u32(&head, 3);
    put_u64(&head, l->n);
    put_u64(&head, n_kv);
    put_raw(&head, kv.p, kv.n);
    free(kv.p);
    for (size_t i = 0; i < l->n; i++) {
        struct fx_tensor *t = &l->t[i];
        t->off = at;
        at = (at + t->bytes + 31) / 32 * 32;
        put_str(&head, t->name);
        put_u32(&head, (uint32_t)t->n_dim);
        for (int k = t->n_dim - 1; k >= 0; k--) put_u64(&head, t->dim[k]);
        put_u32(&head, fx_is(x->retype, t) ? FX_Q8_1 : type[t->fmt]);
        put_u64(&head, t->off);
    }
    put_zero(&head, -head.n % 32);
    fx_write(path, x, &head, l, 0, l->n);
    free(head.p);
}

/* Two files and the index that says which tensor is where. */
static inline void fx_shards(const char *folder, const struct fixture *x, struct fx_list *l)
{
    struct bytes index = { 0 };
    char path[700], line[400];

    mkdir(folder, 0700);
    if (x->facts) fx_config(folder, x);
    put_text(&index, "{\"metadata\":{},\"weight_map\":{");
    for (size_t i = 0; i < l->n; i++) {
        snprintf(line, sizeof line, "%s\"%s\":\"part-%d.safetensors\"", i ? "," : "", l->t[i].name,
                 i >= l->n / 3);
        put_text(&index, line);
    }
    put_text(&index, "}}");
    snprintf(path, sizeof path, "%s/part-0.safetensors", folder);
    fx_safetensors(path, x, l, 0, l->n / 3);
    snprintf(path, sizeof path, "%s/part-1.safetensors", folder);
    fx_safetensors(path, x, l, l->n / 3, l->n);
    snprintf(path, sizeof path, "%s/model.safetensors.index.json", folder);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(index.p, 1, index.n, f), index.n);
    fclose(f);
    free(index.p);
}

static inline void fx_make(const char *path, const struct fixture *x)
{
    struct fx_list l = fx_tensors(x);
    if (x->gguf)
        fx_gguf(path, x, &l);
    else if (x->shards)
        fx_shards(path, x, &l);
    else
        fx_safetensors(path, x, &l, 0, l.n);
    free(l.t);
}

#endif
