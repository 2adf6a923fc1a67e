/* safetensors.c -- see safetensors.h.
 *
 * A file is: u64 header length, that many bytes of JSON
 * {name: {dtype, shape, data_offsets: [begin, end]}}, then the data, which the
 * offsets count from.  The format asks that tensors cover the data without
 * overlaps and without holes; both are checked.
 */
#include "safetensors.h"
#include "file.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "../kernels/kernels.h"

enum {
    HEADER_MOST = 100000000, /* the reference implementation's limit */
    INDEX_MOST = 1 << 28,
};

// clang-format off
static const struct {
    const char *name;
    int fmt, bits;
} dtypes[] = {
    { "F32", IG_F32, 32 }, { "F16", IG_F16, 16 }, { "BF16", IG_BF16, 16 },
    /* The rest is known to be skipped over. */
    { "F64", IG_FMT_NONE, 64 }, { "C64", IG_FMT_NONE, 64 },
    { "I64", IG_FMT_NONE, 64 }, { "U64", IG_FMT_NONE, 64 },
    { "I32", IG_FMT_NONE, 32 }, { "U32", IG_FMT_NONE, 32 },
    { "I16", IG_FMT_NONE, 16 }, { "U16", IG_FMT_NONE, 16 },
    { "I8", IG_FMT_NONE, 8 }, { "U8", IG_FMT_NONE, 8 }, { "BOOL", IG_FMT_NONE, 8 },
    { "F8_E4M3", IG_FMT_NONE, 8 }, { "F8_E5M2", IG_FMT_NONE, 8 }, { "F8_E8M0", IG_FMT_NONE, 8 },
    { "F4", IG_FMT_NONE, 4 },
};
// clang-format on

static int find_dtype(const char *name)
{
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
        if (strcmp(dtypes[i].name, name) == 0) return (int)i;
    return -1;
}

/* What a JSON value is, for "want X, got Y". */
static const char *kind(const json_t *j)
{
    static const char *const name[] = {
        [JSON_OBJECT] = "an object",
        [JSON_ARRAY] = "an array",
        [JSON_STRING] = "a string",
        [JSON_INTEGER] = "an integer",
        [JSON_REAL] = "a number with a fraction or exponent",
        [JSON_TRUE] = "true",
        [JSON_FALSE] = "false",
        [JSON_NULL] = "null",
    };
    return j ? name[json_typeof(j)] : "nothing";
}

/* Shape -> t->dim, and the bytes that shape and dtype ask for. */
static enum ig_err read_shape(struct ig_tensor *t, uint64_t *bytes, const char *path,
                              const char *name, const json_t *shape, int bits, struct ig_why *why)
{
    const size_t n = json_array_size(shape);
    uint64_t elements = 1;

    if (!json_is_array(shape))
        return ig_fail(why, IG_BAD_FILE, "%s: %s: shape: want an array, got %s", path, name,
                       kind(shape));
    if (n > IG_CKPT_DIMS)
        return ig_fail(why, IG_BAD_FILE, "%s: %s: shape: want at most %d dimensions, got %zu", path,
                       name, IG_CKPT_DIMS, n);
    t->n_dim = (int)n;
    for (size_t i = 0; i < n; i++) {
        const json_t *d = json_array_get(shape, i);
        if (!json_is_integer(d) || json_integer_value(d) < 0)
            return ig_fail(why, IG_BAD_FILE, "%s: %s: shape: want integers of 0 or more, got %s",
                           path, name, json_is_integer(d) ? "a negative one" : kind(d));
        t->dim[i] = (uint64_t)json_integer_value(d);
        if (!ig_mul_ok(elements, t->dim[i], &elements))
            return ig_fail(why, IG_BAD_FILE,
                           "%s: %s: shape: want fewer than 2^64 elements, got more", path, name);
    }
    uint64_t n_bits;
    if (!ig_mul_ok(elements, (uint64_t)bits, &n_bits) || n_bits % 8)
        return ig_fail(why, IG_BAD_FILE,
                       "%s: %s: shape: want a whole number of bytes below 2^61, got %llu elements",
                       path, name, (unsigned long long)elements);
    *bytes = n_bits / 8;
    return IG_OK;
}

static enum ig_err read_offsets(struct ig_tensor *t, uint64_t want, const char *path,
                                const char *name, const json_t *offsets, uint64_t data_bytes,
                                struct ig_why *why)
{
    uint64_t at[2];

    if (!json_is_array(offsets) || json_array_size(offsets) != 2)
        return ig_fail(why, IG_BAD_FILE, "%s: %s: data_offsets: want [begin, end], got %s", path,
                       name, json_is_array(offsets) ? "an array of another length" : kind(offsets));
    for (size_t i = 0; i < 2; i++) {
        const json_t *o = json_array_get(offsets, i);
        if (!json_is_integer(o) || json_integer_value(o) < 0)
            return ig_fail(why, IG_BAD_FILE,
                           "%s: %s: data_offsets: want integers of 0 or more, got %s", path, name,
                           json_is_integer(o) ? "a negative one" : kind(o));
        at[i] = (uint64_t)json_integer_value(o);
    }
    if (at[0] > at[1] || at[1] > data_bytes)
        return ig_fail(why, IG_BAD_FILE,
                       "%s: %s: data_offsets: want begin <= end <= %llu (the file's data), got "
                       "[%llu, %llu]",
                       path, name, (unsigned long long)data_bytes, (unsigned long long)at[0],
                       (unsigned long long)at[1]);
    if (at[1] - at[0] != want)
        return ig_fail(why, IG_BAD_FILE,
                       "%s: %s: data_offsets: want %llu bytes (shape and dtype), got %llu", path,
                       name, (unsigned long long)want, (unsigned long long)(at[1] - at[0]));
    t->off = at[0];
    t->bytes = want;
    return IG_OK;
}

static enum ig_err read_tensor(struct ig_ckpt *c, uint32_t file, const char *name,
                               const json_t *entry, struct ig_why *why)
{
    const struct ig_ckpt_file *f = &c->file[file];
    struct ig_tensor t = { .file = file };
    uint64_t bytes = 0;

    if (!json_is_object(entry))
        return ig_fail(why, IG_BAD_FILE, "%s: %s: want an object, got %s", f->path, name,
                       kind(entry));
    const json_t *dtype = json_object_get(entry, "dtype");
    if (!json_is_string(dtype))
        return ig_fail(why, IG_BAD_FILE, "%s: %s: dtype: want a string, got %s", f->path, name,
                       kind(dtype));
    const int d = find_dtype(json_string_value(dtype));
    if (d < 0)
        return ig_fail(why, IG_BAD_FILE, "%s: %s: dtype: want F32, F16 or BF16, got %s", f->path,
                       name, json_string_value(dtype));
    t.type = dtypes[d].name;
    t.fmt = dtypes[d].fmt;

    enum ig_err err =
        read_shape(&t, &bytes, f->path, name, json_object_get(entry, "shape"), dtypes[d].bits, why);
    if (!err)
        err = read_offsets(&t, bytes, f->path, name, json_object_get(entry, "data_offsets"),
                           f->bytes - f->data_off, why);
    if (err) return err;
    t.off += f->data_off;
    return ig_ckpt_add(c, &t, name, strlen(name), why);
}

static enum ig_err read_header(struct ig_ckpt *c, uint32_t file, const char *text, size_t bytes,
                               struct ig_why *why)
{
    const char *path = c->file[file].path, *name;
    json_error_t e;
    json_t *root = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &e), *entry;
    enum ig_err err = IG_OK;

    if (!root)
        return ig_fail(why, IG_BAD_FILE, "%s: header: want JSON, got at byte %d: %s", path,
                       e.position, e.text);
    if (!json_is_object(root))
        err = ig_fail(why, IG_BAD_FILE, "%s: header: want an object, got %s", path, kind(root));
    json_object_foreach(root, name, entry)
    {
        if (err) break;
        if (strcmp(name, "__metadata__") != 0) err = read_tensor(c, file, name, entry, why);
    }
    json_decref(root);
    return err;
}

/* One .safetensors file: its header's tensors join c. */
static enum ig_err open_one(struct ig_ckpt *c, const char *path, struct ig_why *why)
{
    unsigned char raw[8];
    uint32_t file;
    uint64_t n = 0;

    enum ig_err err = ig_ckpt_add_file(c, path, &file, why);
    if (err) return err;
    struct ig_ckpt_file *f = &c->file[file];
    if (f->bytes < sizeof raw)
        return ig_fail(why, IG_BAD_FILE, "%s: size: want 8 bytes or more, got %llu", path,
                       (unsigned long long)f->bytes);
    err = ig_file_read(f->fd, path, raw, 0, sizeof raw, why);
    if (err) return err;
    for (int i = 7; i >= 0; i--) n = n << 8 | raw[i];
    if (n > f->bytes - sizeof raw || n > HEADER_MOST)
        return ig_fail(
            why, IG_BAD_FILE,
            "%s: header length: want at most %llu, got %llu: not a safetensors file, or cut", path,
            (unsigned long long)(f->bytes - 8 < HEADER_MOST ? f->bytes - 8 : HEADER_MOST),
            (unsigned long long)n);
    f->data_off = sizeof raw + n;

    char *text = malloc((size_t)n + 1);
    if (!text) return ig_fail(why, IG_NO_MEM, "%s: no memory for its header", path);
    err = ig_file_read(f->fd, path, text, sizeof raw, n, why);
    if (!err) err = read_header(c, file, text, (size_t)n, why);
    free(text);
    return err;
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static int has_file(const struct ig_ckpt *c, const char *name)
{
    for (uint32_t i = 0; i < c->n_file; i++)
        if (strcmp(base_name(c->file[i].path), name) == 0) return 1;
    return 0;
}

/* Every shard that the index names, once. */
static enum ig_err open_shards(struct ig_ckpt *c, const char *folder, const char *index,
                               json_t *map, struct ig_why *why)
{
    const char *name;
    json_t *shard;

    json_object_foreach(map, name, shard)
    {
        const char *file = json_string_value(shard);
        /* A shard lies beside its index: no way out of the folder. */
        if (!file || !*file || strchr(file, '/'))
            return ig_fail(why, IG_BAD_FILE, "%s: %s: want the name of a file beside it, got %s",
                           index, name, file ? file : kind(shard));
        if (has_file(c, file)) continue;
        char *path = ig_file_join(folder, file);
        if (!path) return ig_fail(why, IG_NO_MEM, "%s: no memory", index);
        const enum ig_err err = open_one(c, path, why);
        free(path);
        if (err) return err;
    }
    return IG_OK;
}

/* The index and the shards say the same about where each tensor is. */
static enum ig_err check_map(const struct ig_ckpt *c, const char *index, json_t *map,
                             struct ig_why *why)
{
    const char *name;
    json_t *shard;

    json_object_foreach(map, name, shard)
    {
        const char *file = json_string_value(shard);
        const struct ig_tensor *t = ig_ckpt_find(c, name);
        const char *got = t ? base_name(c->file[t->file].path) : "none";
        if (strcmp(got, file) != 0)
            return ig_fail(why, IG_BAD_FILE, "%s: %s: want it in %s, got it in %s", index, name,
                           file, got);
    }
    return IG_OK;
}

/* No overlaps (ig_ckpt_index) and nothing past the end: equal sums mean no holes. */
static enum ig_err check_holes(const struct ig_ckpt *c, struct ig_why *why)
{
    for (uint32_t i = 0; i < c->n_file; i++) {
        const struct ig_ckpt_file *f = &c->file[i];
        uint64_t sum = 0;
        for (size_t k = 0; k < c->n_tensor; k++)
            if (c->tensor[k].file == i) sum += c->tensor[k].bytes;
        if (sum != f->bytes - f->data_off)
            return ig_fail(why, IG_BAD_FILE,
                           "%s: data: want %llu bytes (all its tensors), got %llu", f->path,
                           (unsigned long long)sum, (unsigned long long)(f->bytes - f->data_off));
    }
    return IG_OK;
}

static enum ig_err open_index(struct ig_ckpt *c, const char *folder, const char *index,
                              struct ig_why *why)
{
    char *text;
    size_t bytes;
    json_error_t e;

    enum ig_err err = ig_file_slurp(index, INDEX_MOST, &text, &bytes, why);
    if (err) return err;
    json_t *root = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &e);
    free(text);
    if (!root)
        return ig_fail(why, IG_BAD_FILE, "%s: want JSON, got at byte %d: %s", index, e.position,
                       e.text);
    json_t *map = json_object_get(root, "weight_map");
    if (!json_is_object(map))
        err = ig_fail(why, IG_BAD_FILE, "%s: weight_map: want an object, got %s", index, kind(map));
    if (!err) err = open_shards(c, folder, index, map, why);
    if (!err) err = ig_ckpt_index(c, why);
    if (!err) err = check_map(c, index, map, why);
    json_decref(root);
    return err;
}

/* As transformers does: a single file goes before an index. */
static enum ig_err open_folder(struct ig_ckpt *c, const char *folder, struct ig_why *why)
{
    char *single = ig_file_join(folder, "model.safetensors");
    char *index = ig_file_join(folder, "model.safetensors.index.json");
    struct stat st;
    enum ig_err err;

    if (!single || !index)
        err = ig_fail(why, IG_NO_MEM, "%s: no memory", folder);
    else if (stat(single, &st) == 0)
        err = (err = open_one(c, single, why)) ? err : ig_ckpt_index(c, why);
    else if (stat(index, &st) == 0)
        err = open_index(c, folder, index, why);
    else
        err = ig_fail(why, IG_IO,
                      "%s: want model.safetensors or model.safetensors.index.json in it, got "
                      "neither",
                      folder);
    free(single);
    free(index);
    return err;
}

enum ig_err ig_safetensors_open(struct ig_ckpt *c, const char *path, struct ig_why *why)
{
    struct stat st;
    enum ig_err err;

    *c = (struct ig_ckpt){ 0 };
    if (stat(path, &st) == 0 && S_ISDIR(st.st_mode)) {
        err = open_folder(c, path, why);
    } else {
        err = open_one(c, path, why);
        if (!err) err = ig_ckpt_index(c, why);
    }
    if (!err) err = check_holes(c, why);
    if (!err) err = ig_ckpt_join_pairs(c, why);
    if (err) ig_ckpt_close(c);
    return err;
}
