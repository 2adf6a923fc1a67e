/* gguf.c -- see gguf.h.
 *
 * magic, u32 version, u64 tensors, u64 key/values; the key/values; the tensor
 * infos; padding to general.alignment; the data.  Every count and length is
 * compared with what is left of the file before it is believed.
 */
#include "gguf.h"
#include "file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../kernels/kernels.h"

typedef unsigned long long ull; /* for %llu */

enum {
    META_MOST = 1 << 30, /* bytes before the data: the largest vocabularies need about 10 MiB */
    KV_MOST = 1 << 16,
    DIMS_MOST = 4,
    NAME_MOST = 64,
    KEY_MOST = 65535,
    KV_LEAST = 8 + 4 + 1,       /* bytes of the smallest key/value */
    INFO_LEAST = 8 + 4 + 4 + 8, /* and of the smallest tensor info */
    ALIGNMENT_DEFAULT = 32,
};
#define SIZE_MOST ((uint64_t)INT64_MAX) /* of dimensions, elements and bytes: Lua's integers too   \
                                         */

// clang-format off
static const struct {
    const char *name;
    int fmt;
    uint32_t weights, bytes; /* of one block */
} types[] = {
    [0] = { "F32", IG_F32, 1, 4 },
    [1] = { "F16", IG_F16, 1, 2 },
    [2] = { "Q4_0", IG_Q4_0, 32, 18 },
    [3] = { "Q4_1", IG_Q4_1, 32, 20 },
    [6] = { "Q5_0", IG_Q5_0, 32, 22 },
    [7] = { "Q5_1", IG_Q5_1, 32, 24 },
    [8] = { "Q8_0", IG_Q8_0, 32, 34 },
    [9] = { "Q8_1", IG_FMT_NONE, 32, 36 },
    [10] = { "Q2_K", IG_Q2_K, 256, 84 },
    [11] = { "Q3_K", IG_Q3_K, 256, 110 },
    [12] = { "Q4_K", IG_Q4_K, 256, 144 },
    [13] = { "Q5_K", IG_Q5_K, 256, 176 },
    [14] = { "Q6_K", IG_Q6_K, 256, 210 },
    [15] = { "Q8_K", IG_FMT_NONE, 256, 292 },
    [16] = { "IQ2_XXS", IG_FMT_NONE, 256, 66 },
    [17] = { "IQ2_XS", IG_FMT_NONE, 256, 74 },
    [18] = { "IQ3_XXS", IG_FMT_NONE, 256, 98 },
    [19] = { "IQ1_S", IG_FMT_NONE, 256, 50 },
    [20] = { "IQ4_NL", IG_IQ4_NL, 32, 18 },
    [21] = { "IQ3_S", IG_FMT_NONE, 256, 110 },
    [22] = { "IQ2_S", IG_FMT_NONE, 256, 82 },
    [23] = { "IQ4_XS", IG_IQ4_XS, 256, 136 },
    [24] = { "I8", IG_FMT_NONE, 1, 1 },
    [25] = { "I16", IG_FMT_NONE, 1, 2 },
    [26] = { "I32", IG_FMT_NONE, 1, 4 },
    [27] = { "I64", IG_FMT_NONE, 1, 8 },
    [28] = { "F64", IG_FMT_NONE, 1, 8 },
    [29] = { "IQ1_M", IG_FMT_NONE, 256, 56 },
    [30] = { "BF16", IG_BF16, 1, 2 },
    [34] = { "TQ1_0", IG_FMT_NONE, 256, 54 },
    [35] = { "TQ2_0", IG_FMT_NONE, 256, 66 },
    [39] = { "MXFP4", IG_MXFP4, 32, 17 },
};

static const struct {
    const char *name;
    uint32_t bytes; /* 0: not a fixed size */
} values[IG_GGUF_N_TYPE] = {
    [IG_GGUF_U8] = { "uint8", 1 },     [IG_GGUF_I8] = { "int8", 1 },
    [IG_GGUF_U16] = { "uint16", 2 },   [IG_GGUF_I16] = { "int16", 2 },
    [IG_GGUF_U32] = { "uint32", 4 },   [IG_GGUF_I32] = { "int32", 4 },
    [IG_GGUF_F32] = { "float32", 4 },  [IG_GGUF_BOOL] = { "bool", 1 },
    [IG_GGUF_STRING] = { "string", 0 }, [IG_GGUF_ARRAY] = { "array", 0 },
    [IG_GGUF_U64] = { "uint64", 8 },   [IG_GGUF_I64] = { "int64", 8 },
    [IG_GGUF_F64] = { "float64", 8 },
};
// clang-format on

const char *ig_gguf_type_name(uint32_t type)
{
    return type < IG_GGUF_N_TYPE ? values[type].name : "unknown";
}

/* The file's start, read as far as the parser has asked. */
struct cursor {
    const struct ig_ckpt_file *f;
    unsigned char *buf;
    uint64_t have, at;
    struct ig_why *why;
};

static enum ig_err need(struct cursor *c, uint64_t n, const char *what)
{
    if (n > c->f->bytes - c->at)
        return ig_fail(c->why, IG_BAD_FILE,
                       "%s: %s: want %llu bytes at %llu, got %llu, then the end", c->f->path, what,
                       (ull)n, (ull)c->at, (ull)(c->f->bytes - c->at));
    if (c->at + n <= c->have) return IG_OK;
    if (c->at + n > META_MOST)
        return ig_fail(c->why, IG_BAD_FILE, "%s: %s: want metadata of at most %d bytes, got more",
                       c->f->path, what, META_MOST);
    uint64_t size = c->have ? 2 * c->have : UINT64_C(1) << 20;
    if (size < c->at + n) size = c->at + n;
    if (size > c->f->bytes) size = c->f->bytes;
    unsigned char *grown = realloc(c->buf, (size_t)size);
    if (!grown)
        return ig_fail(c->why, IG_NO_MEM, "%s: no memory for %llu bytes of metadata", c->f->path,
                       (ull)size);
    c->buf = grown;
    const enum ig_err err =
        ig_file_read(c->f->fd, c->f->path, grown + c->have, c->have, size - c->have, c->why);
    if (!err) c->have = size;
    return err;
}

static uint64_t load(const unsigned char *p, int bytes)
{
    uint64_t v = 0;
    while (bytes-- > 0) v = v << 8 | p[bytes];
    return v;
}

static enum ig_err get(struct cursor *c, int bytes, uint64_t *v, const char *what)
{
    const enum ig_err err = need(c, (uint64_t)bytes, what);
    if (err) return err;
    *v = load(c->buf + c->at, bytes);
    c->at += (uint64_t)bytes;
    return IG_OK;
}

/* u64 length and bytes; *off is where the bytes start. */
static enum ig_err get_string(struct cursor *c, uint64_t *off, uint64_t *n, const char *what)
{
    enum ig_err err = get(c, 8, n, what);
    if (!err) err = need(c, *n, what);
    if (err) return err;
    *off = c->at;
    c->at += *n;
    return IG_OK;
}

static enum ig_err skip_array(struct cursor *c, struct ig_gguf_kv *kv, uint64_t *value,
                              const char *key)
{
    const char *path = c->f->path;
    uint64_t elem, bytes, off, n;

    enum ig_err err = get(c, 4, &elem, key);
    if (!err) err = get(c, 8, &kv->n, key);
    if (err) return err;
    *value = c->at;
    if (elem >= IG_GGUF_N_TYPE || elem == IG_GGUF_ARRAY)
        return ig_fail(c->why, IG_BAD_FILE,
                       "%s: %s: want an array of numbers, bools or strings, got element type %llu",
                       path, key, (ull)elem);
    kv->elem = (uint32_t)elem;
    const uint32_t least = elem == IG_GGUF_STRING ? 8 : values[elem].bytes;
    if (!ig_mul_ok(kv->n, least, &bytes) || bytes > c->f->bytes - c->at)
        return ig_fail(c->why, IG_BAD_FILE,
                       "%s: %s: want at most %llu elements (the rest of the file), got %llu", path,
                       key, (ull)((c->f->bytes - c->at) / least), (ull)kv->n);
    if (elem != IG_GGUF_STRING) {
        err = need(c, bytes, key);
        if (!err) c->at += bytes;
        return err;
    }
    for (uint64_t i = 0; i < kv->n && !err; i++) err = get_string(c, &off, &n, key);
    return err;
}

/* One key/value.  The buffer may still move, so key and value are offsets here. */
static enum ig_err get_kv(struct cursor *c, struct ig_gguf_kv *kv, uint64_t *key_off,
                          uint64_t *value)
{
    char key[96];
    uint64_t type;

    enum ig_err err = get_string(c, key_off, &kv->key_bytes, "key");
    if (err) return err;
    if (kv->key_bytes == 0 || kv->key_bytes > KEY_MOST)
        return ig_fail(c->why, IG_BAD_FILE, "%s: key: want 1 to %d bytes, got %llu", c->f->path,
                       KEY_MOST, (ull)kv->key_bytes);
    const size_t shown = kv->key_bytes < sizeof key ? (size_t)kv->key_bytes : sizeof key - 1;
    memcpy(key, c->buf + *key_off, shown);
    key[shown] = '\0';

    err = get(c, 4, &type, key);
    if (err) return err;
    if (type >= IG_GGUF_N_TYPE)
        return ig_fail(c->why, IG_BAD_FILE, "%s: %s: value type: want one below %d, got %llu",
                       c->f->path, key, IG_GGUF_N_TYPE, (ull)type);
    kv->type = (uint32_t)type;
    if (type == IG_GGUF_ARRAY) return skip_array(c, kv, value, key);
    if (type == IG_GGUF_STRING) return get_string(c, value, &kv->n, key);
    *value = c->at;
    err = need(c, values[type].bytes, key);
    if (err) return err;
    if (type == IG_GGUF_BOOL && c->buf[c->at] > 1)
        return ig_fail(c->why, IG_BAD_FILE, "%s: %s: want a bool of 0 or 1, got %d", c->f->path,
                       key, c->buf[c->at]);
    c->at += values[type].bytes;
    return IG_OK;
}

static int by_key(const void *a, const void *b)
{
    const struct ig_gguf_kv *s = a, *t = b;
    const uint64_t n = s->key_bytes < t->key_bytes ? s->key_bytes : t->key_bytes;
    const int order = memcmp(s->key, t->key, (size_t)n);
    return order ? order : (s->key_bytes > t->key_bytes) - (s->key_bytes < t->key_bytes);
}

static enum ig_err sort_keys(struct ig_gguf *g, const char *path, struct ig_why *why)
{
    if (g->n_kv == 0) return IG_OK;
    qsort(g->kv, g->n_kv, sizeof *g->kv, by_key);
    for (uint32_t i = 1; i < g->n_kv; i++)
        if (by_key(&g->kv[i - 1], &g->kv[i]) == 0)
            return ig_fail(why, IG_BAD_FILE, "%s: %.*s: want one value of this key, got two", path,
                           (int)g->kv[i].key_bytes, g->kv[i].key);
    return IG_OK;
}

const struct ig_gguf_kv *ig_gguf_find(const struct ig_gguf *g, const char *key)
{
    const struct ig_gguf_kv want = { .key = key, .key_bytes = strlen(key) };
    return g->n_kv ? bsearch(&want, g->kv, g->n_kv, sizeof *g->kv, by_key) : NULL;
}

int ig_gguf_number(const struct ig_gguf_kv *kv, double *v)
{
    const uint32_t bytes = values[kv->type].bytes;
    const uint64_t raw = load(kv->data, (int)bytes);
    const uint64_t sign = bytes ? UINT64_C(1) << (8 * bytes - 1) : 0;
    const uint32_t word = (uint32_t)raw;
    float single;

    switch (kv->type) {
    case IG_GGUF_STRING:
    case IG_GGUF_ARRAY:
        return 0;
    case IG_GGUF_F32:
        memcpy(&single, &word, sizeof single);
        *v = (double)single;
        return 1;
    case IG_GGUF_F64:
        memcpy(v, &raw, sizeof *v);
        return 1;
    case IG_GGUF_I8:
    case IG_GGUF_I16:
    case IG_GGUF_I32:
    case IG_GGUF_I64:
        *v = (double)(int64_t)((raw ^ sign) - sign);
        return 1;
    default:
        *v = (double)raw;
        return 1;
    }
}

/* name, dims, type, offset of one tensor; the offset is checked later, when the
 * start of the data is known. */
static enum ig_err get_info(struct cursor *c, struct ig_ckpt *ckpt)
{
    struct ig_tensor t = { .file = ckpt->n_file - 1 };
    char name[NAME_MOST + 1];
    uint64_t at, n, v, type = 0, elements = 1, row = 1;
    const char *path = c->f->path;

    enum ig_err err = get_string(c, &at, &n, "tensor name");
    if (err) return err;
    if (n == 0 || n > NAME_MOST || memchr(c->buf + at, 0, (size_t)n))
        return ig_fail(c->why, IG_BAD_FILE,
                       "%s: tensor name: want 1 to %d bytes without a NUL, got %llu", path,
                       NAME_MOST, (ull)n);
    memcpy(name, c->buf + at, (size_t)n);
    name[n] = '\0';

    err = get(c, 4, &v, name);
    if (err) return err;
    if (v > DIMS_MOST)
        return ig_fail(c->why, IG_BAD_FILE, "%s: %s: dimensions: want at most %d, got %llu", path,
                       name, DIMS_MOST, (ull)v);
    t.n_dim = (int)v;
    for (int i = t.n_dim - 1; i >= 0; i--) { /* the file has the innermost first */
        err = get(c, 8, &t.dim[i], name);
        if (err) return err;
        if (i == t.n_dim - 1) row = t.dim[i];
        if (t.dim[i] > SIZE_MOST || !ig_mul_ok(elements, t.dim[i], &elements) ||
            elements > SIZE_MOST)
            return ig_fail(c->why, IG_BAD_FILE,
                           "%s: %s: dimensions: want fewer than 2^63 elements, got more", path,
                           name);
    }
    err = get(c, 4, &type, name);
    if (!err) err = get(c, 8, &t.off, name);
    if (err) return err;
    if (type >= sizeof types / sizeof *types || !types[type].name)
        return ig_fail(c->why, IG_BAD_FILE,
                       "%s: %s: type: want " IG_GGUF_TYPES ", got unknown type %llu", path, name,
                       (ull)type);
    t.type = types[type].name;
    t.fmt = types[type].fmt;
    if (row % types[type].weights)
        return ig_fail(c->why, IG_BAD_FILE,
                       "%s: %s: rows: want a multiple of %u (a block of %s), got %llu", path, name,
                       types[type].weights, t.type, (ull)row);
    if (!ig_mul_ok(elements / types[type].weights, types[type].bytes, &t.bytes) ||
        t.bytes > SIZE_MOST)
        return ig_fail(c->why, IG_BAD_FILE, "%s: %s: size: want fewer than 2^63 bytes, got more",
                       path, name);
    return ig_ckpt_add(ckpt, &t, name, (size_t)n, c->why);
}

/* Offsets inside the data, multiples of the alignment, of the tensors from `first` on.
 * `part` has the last file's keys. */
static enum ig_err place(struct ig_ckpt *ckpt, const struct ig_gguf *part, size_t first,
                         uint64_t end, struct ig_why *why)
{
    struct ig_ckpt_file *f = &ckpt->file[ckpt->n_file - 1];
    const struct ig_gguf_kv *kv = ig_gguf_find(part, "general.alignment");
    uint64_t alignment = ALIGNMENT_DEFAULT;

    if (kv && kv->type != IG_GGUF_U32)
        return ig_fail(why, IG_BAD_FILE, "%s: general.alignment: want uint32, got %s", f->path,
                       ig_gguf_type_name(kv->type));
    if (kv) alignment = load(kv->data, 4);
    if (alignment == 0 || (alignment & (alignment - 1)))
        return ig_fail(why, IG_BAD_FILE, "%s: general.alignment: want a power of two, got %llu",
                       f->path, (ull)alignment);
    f->data_off = (end + alignment - 1) & ~(alignment - 1);
    const uint64_t data = f->bytes > f->data_off ? f->bytes - f->data_off : 0;
    for (size_t i = first; i < ckpt->n_tensor; i++) {
        struct ig_tensor *t = &ckpt->tensor[i];
        if (t->off & (alignment - 1))
            return ig_fail(why, IG_BAD_FILE, "%s: %s: offset: want a multiple of %llu, got %llu",
                           f->path, t->name, (ull)alignment, (ull)t->off);
        if (t->off > data || t->bytes > data - t->off)
            return ig_fail(why, IG_BAD_FILE,
                           "%s: %s: offset: want its %llu bytes inside the file's %llu of data, "
                           "got offset %llu",
                           f->path, t->name, (ull)t->bytes, (ull)data, (ull)t->off);
        t->off += f->data_off;
    }
    return IG_OK;
}

static enum ig_err get_start(struct cursor *c, uint64_t *n_tensor, uint64_t *n_kv)
{
    const char *path = c->f->path;
    uint64_t version;

    enum ig_err err = need(c, 8, "header");
    if (err) return err;
    if (memcmp(c->buf, "GGUF", 4) != 0)
        return ig_fail(c->why, IG_BAD_FILE, "%s: magic: want GGUF, got 0x%08llx", path,
                       (ull)load(c->buf, 4));
    c->at = 4;
    err = get(c, 4, &version, "version");
    if (err) return err;
    if (version != 2 && version != 3)
        return ig_fail(c->why, IG_BAD_FILE, "%s: version: want 2 or 3%s, got %llu", path,
                       version & 0xffff ? "" : " in little-endian order", (ull)version);
    err = get(c, 8, n_tensor, "tensor count");
    if (!err) err = get(c, 8, n_kv, "metadata count");
    if (err) return err;
    const uint64_t left = c->f->bytes - c->at;
    if (*n_tensor > left / INFO_LEAST)
        return ig_fail(c->why, IG_BAD_FILE,
                       "%s: tensor count: want at most %llu (the rest of the file), got %llu", path,
                       (ull)(left / INFO_LEAST), (ull)*n_tensor);
    const uint64_t most = left / KV_LEAST < KV_MOST ? left / KV_LEAST : KV_MOST;
    if (*n_kv > most)
        return ig_fail(c->why, IG_BAD_FILE, "%s: metadata count: want at most %llu, got %llu", path,
                       (ull)most, (ull)*n_kv);
    return IG_OK;
}

/* The keys go into `part`, the tensors into `ckpt`. */
static enum ig_err parse(struct cursor *c, struct ig_gguf *part, struct ig_ckpt *ckpt)
{
    const char *path = c->f->path;
    const size_t first = ckpt->n_tensor;
    uint64_t n_tensor = 0, n_kv = 0;
    uint64_t(*at)[2]; /* of key and value: pointers would move with the buffer */

    enum ig_err err = get_start(c, &n_tensor, &n_kv);
    if (err) return err;
    part->kv = calloc((size_t)n_kv + 1, sizeof *part->kv);
    at = calloc((size_t)n_kv + 1, sizeof *at);
    if (!part->kv || !at) err = ig_fail(c->why, IG_NO_MEM, "%s: no memory for its metadata", path);
    for (uint64_t i = 0; i < n_kv && !err; i++) err = get_kv(c, &part->kv[i], &at[i][0], &at[i][1]);
    for (uint64_t i = 0; i < n_tensor && !err; i++) err = get_info(c, ckpt);
    for (uint64_t i = 0; i < n_kv && !err; i++) {
        part->kv[i].key = (const char *)c->buf + at[i][0];
        part->kv[i].data = c->buf + at[i][1];
    }
    free(at);
    part->n_kv = err ? 0 : (uint32_t)n_kv;
    if (!err) err = sort_keys(part, path, c->why);
    if (!err) err = place(ckpt, part, first, c->at, c->why);
    return err;
}

static enum ig_err open_part(struct ig_ckpt *ckpt, struct ig_gguf *part, const char *path,
                             struct ig_why *why)
{
    uint32_t file;
    enum ig_err err = ig_ckpt_add_file(ckpt, path, &file, why);
    if (err) return err;
    struct cursor c = { .f = &ckpt->file[file], .why = why };
    err = parse(&c, part, ckpt);
    part->meta = (char *)c.buf;
    return err;
}

/* A key of the split; `absent` where there is none. */
static enum ig_err get_split(const struct ig_gguf *part, const char *path, const char *key,
                             uint32_t type, uint32_t absent, uint32_t *v, struct ig_why *why)
{
    const struct ig_gguf_kv *kv = ig_gguf_find(part, key);
    *v = absent;
    if (!kv) return IG_OK;
    if (kv->type != type)
        return ig_fail(why, IG_BAD_FILE, "%s: %s: want %s, got %s", path, key, values[type].name,
                       ig_gguf_type_name(kv->type));
    *v = (uint32_t)load(kv->data, (int)values[type].bytes);
    return IG_OK;
}

/* NAME-00001-of-0000N.gguf -> the same with part i, counted from 0; malloc'ed. */
static enum ig_err part_path(char **to, const char *path, uint32_t i, uint32_t n,
                             struct ig_why *why)
{
    char tail[48], first[48];
    const size_t length = strlen(path);

    const size_t bytes = (size_t)snprintf(first, sizeof first, "-%05u-of-%05u.gguf", 1u, n);
    snprintf(tail, sizeof tail, "-%05u-of-%05u.gguf", i + 1, n);
    if (length < bytes || strcmp(path + length - bytes, first) != 0)
        return ig_fail(why, IG_BAD_FILE, "%s: name: want NAME%s (the first of %u parts), got %s",
                       path, first, n, path);
    *to = strdup(path);
    if (!*to) return ig_fail(why, IG_NO_MEM, "%s: no memory", path);
    memcpy(*to + length - bytes, tail, bytes);
    return IG_OK;
}

/* Part i of n says that it is that. */
static enum ig_err check_part(const struct ig_gguf *part, const char *path, uint32_t i, uint32_t n,
                              struct ig_why *why)
{
    uint32_t no, count;
    enum ig_err err = get_split(part, path, "split.count", IG_GGUF_U16, 1, &count, why);
    if (!err) err = get_split(part, path, "split.no", IG_GGUF_U16, 0, &no, why);
    if (err) return err;
    if (count != n)
        return ig_fail(why, IG_BAD_FILE, "%s: split.count: want %u, got %u", path, n, count);
    if (no != i) return ig_fail(why, IG_BAD_FILE, "%s: split.no: want %u, got %u", path, i, no);
    return IG_OK;
}

/* Parts 2..N of a split file: some of the tensors each, and keys that only number them. */
static enum ig_err open_parts(struct ig_gguf *g, const char *path, struct ig_why *why)
{
    uint32_t n, total;
    enum ig_err err = get_split(g, path, "split.count", IG_GGUF_U16, 1, &n, why);
    if (err || n < 2) return err;
    err = check_part(g, path, 0, n, why);
    for (uint32_t i = 1; i < n && !err; i++) {
        struct ig_gguf part = { 0 };
        char *name = NULL;
        err = part_path(&name, path, i, n, why);
        if (!err) err = open_part(&g->ckpt, &part, name, why);
        if (!err) err = check_part(&part, name, i, n, why);
        ig_gguf_close(&part);
        free(name);
    }
    if (!err)
        err = get_split(g, path, "split.tensors.count", IG_GGUF_I32, (uint32_t)g->ckpt.n_tensor,
                        &total, why);
    if (!err && total != g->ckpt.n_tensor)
        err = ig_fail(why, IG_BAD_FILE, "%s: split.tensors.count: want %zu (of all parts), got %u",
                      path, g->ckpt.n_tensor, total);
    return err;
}

enum ig_err ig_gguf_open(struct ig_gguf *g, const char *path, struct ig_why *why)
{
    *g = (struct ig_gguf){ .ckpt.gguf = 1 };
    enum ig_err err = open_part(&g->ckpt, g, path, why);
    if (!err) err = open_parts(g, path, why);
    if (!err) err = ig_ckpt_index(&g->ckpt, why);
    if (err) ig_gguf_close(g);
    return err;
}

void ig_gguf_close(struct ig_gguf *g)
{
    for (int i = 0; i < g->n_owned; i++) free(g->owned[i]);
    free(g->meta);
    free(g->kv);
    ig_ckpt_close(&g->ckpt);
    *g = (struct ig_gguf){ 0 };
}
