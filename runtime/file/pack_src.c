/* pack_src.c -- a checkpoint's tensors as rows of the plan's matrices.
 *
 * A value that has the planned type is copied bit for bit.  Any other goes
 * through f32, which holds each source type exactly, and must be inside the
 * planned type's range.  All must be finite: a silent infinity would be a broken
 * model.
 */
#include "pack_int.h"
#include "file.h"
#include "safetensors.h"

#include <dirent.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../kernels/panel.h"
#include "tables.h"

typedef unsigned long long ull; /* for %llu */

enum { NAME_BYTES = 256 };

/* Parts of a checkpoint in a folder: index.json names them all, config.json none. */
static enum ig_err refuse_part(const char *path, struct ig_why *why)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    const int folder = slash ? (int)(slash + 1 - path) : 2;
    const size_t n = strlen(name);
    int part = 0, parts = 0, end = 0;

    const int json = n > 5 && strcmp(name + n - 5, ".json") == 0;
    sscanf(name, "model-%d-of-%d.safetensors%n", &part, &parts, &end);
    if (!json && !(parts > 1 && end == (int)n)) return IG_OK;
    return ig_fail(why, IG_USAGE, "%s: %s; give the folder that holds it: pack %.*s", path,
                   json ? "holds no weights" : "is one part of several", folder,
                   slash ? path : "./");
}

static enum ig_err open_by_magic(struct ig_pack_src *s, struct ig_why *why)
{
    char magic[8] = "";
    uint64_t size;
    int fd;

    enum ig_err err = ig_file_open(&fd, &size, s->path, why);
    if (err) return err;
    err = ig_file_read(fd, s->path, magic, 0, size < sizeof magic ? size : sizeof magic, why);
    close(fd);
    if (err) return err;
    if (memcmp(magic, "GGUF", 4) == 0) {
        s->kind = IG_PACK_GGUF;
        return ig_gguf_open(&s->g, s->path, why);
    }
    if (memcmp(magic, IG_WMAGIC, sizeof magic) == 0) {
        s->kind = IG_PACK_WFILE;
        return ig_wfile_open(&s->w, s->path, IG_LAYOUT_HASH, why);
    }
    s->kind = IG_PACK_HF;
    return ig_safetensors_open(&s->g.ckpt, s->path, why);
}

/* 1 when `out` is one of the folder's files that describe the model or hold its weights. */
static int is_in_folder(const char *out, const char *folder)
{
    static const char *const end[] = { ".json", ".safetensors" };
    int found = 0;
    DIR *d = opendir(folder);

    for (struct dirent *e; d && !found && (e = readdir(d));) {
        const size_t n = strlen(e->d_name);
        int read = 0;
        for (size_t i = 0; i < sizeof end / sizeof *end; i++)
            read |= n > strlen(end[i]) && strcmp(e->d_name + n - strlen(end[i]), end[i]) == 0;
        char *path = read ? ig_file_join(folder, e->d_name) : NULL;
        found = path && access(path, F_OK) == 0 && ig_file_same(path, out);
        free(path);
    }
    if (d) closedir(d);
    return found;
}

/* Renaming onto a source would destroy it, and pack never harms what it reads. */
static enum ig_err refuse_out(const struct ig_pack_src *s, const char *out, struct ig_why *why)
{
    struct stat o, f;

    if (!out || stat(out, &o) != 0) return IG_OK;
    if (ig_file_same("/proc/self/exe", out))
        return ig_fail(why, IG_USAGE, "%s: want another name: this is the running program", out);
    int same = s->path && ig_file_same(s->path, out);
    for (uint32_t i = 0; i < s->g.ckpt.n_file && !same; i++)
        same = fstat(s->g.ckpt.file[i].fd, &f) == 0 && f.st_dev == o.st_dev && f.st_ino == o.st_ino;
    if (!same && s->kind == IG_PACK_HF) {
        char *folder = ig_pack_folder(s);
        if (!folder) return ig_fail(why, IG_NO_MEM, "%s: no memory", out);
        same = is_in_folder(out, folder);
        free(folder);
    }
    if (!same) return IG_OK;
    return ig_fail(why, IG_USAGE, "%s: want an output that is not the checkpoint itself", out);
}

/* Both outputs, before either is begun. */
static enum ig_err refuse_outs(const struct ig_pack_src *s, const struct ig_pack_job *job,
                               struct ig_why *why)
{
    if (job->next && ig_file_same(job->out, job->next))
        return ig_fail(why, IG_USAGE, "%s: want two outputs, got the same file twice", job->out);
    const enum ig_err err = refuse_out(s, job->out, why);
    return err ? err : refuse_out(s, job->next, why);
}

static int is_folder(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

enum ig_err ig_pack_src_open(struct ig_pack_src *s, const struct ig_pack_job *job,
                             struct ig_why *why)
{
    struct stat st;
    enum ig_err err;

    *s = (struct ig_pack_src){ .path = job->src, .seed = job->seed, .w.fd = -1 };
    if (!job->src) {
        s->kind = IG_PACK_SYNTH;
        return refuse_outs(s, job, why);
    }
    if (stat(job->src, &st) == 0 && S_ISDIR(st.st_mode)) {
        s->kind = IG_PACK_HF;
        err = ig_safetensors_open(&s->g.ckpt, job->src, why);
    } else {
        err = refuse_part(job->src, why);
        if (!err) err = open_by_magic(s, why);
    }
    if (!err) err = refuse_outs(s, job, why);
    if (!err) {
        s->used = calloc(s->g.ckpt.n_tensor + 1, 1);
        if (!s->used) err = ig_fail(why, IG_NO_MEM, "%s: no memory", s->path);
    }
    if (err) ig_pack_src_close(s);
    return err;
}

enum ig_err ig_pack_src_open_tokenizer(struct ig_pack_src *s, const char *path, struct ig_why *why)
{
    *s = (struct ig_pack_src){ .kind = IG_PACK_HF, .path = path, .w.fd = -1 };
    const enum ig_err err = is_folder(path) ? IG_OK : open_by_magic(s, why);
    if (err) ig_pack_src_close(s);
    return err;
}

char *ig_pack_folder(const struct ig_pack_src *s)
{
    struct stat st;

    char *folder = strdup(s->path);
    if (folder && stat(folder, &st) == 0 && !S_ISDIR(st.st_mode)) {
        char *slash = strrchr(folder, '/');
        if (slash)
            slash[slash == folder] = '\0';
        else
            strcpy(folder, ".");
    }
    return folder;
}

void ig_pack_src_close(struct ig_pack_src *s)
{
    free(s->used);
    ig_gguf_close(&s->g);
    ig_wfile_close(&s->w);
    s->used = NULL;
}

/* %L and %E of a name pattern. */
static void expand(char name[NAME_BYTES], const char *pattern, int layer, int expert)
{
    size_t at = 0;
    for (const char *p = pattern; *p && at < NAME_BYTES - 16; p++) {
        if (p[0] == '%' && (p[1] == 'L' || p[1] == 'E'))
            at += (size_t)snprintf(name + at, 16, "%d", *++p == 'L' ? layer : expert);
        else
            name[at++] = *p;
    }
    name[at] = '\0';
}

static uint32_t group_of(const struct ig_pack_item *it)
{
    return it->name->count ? it->name->group : it->mat.rows;
}
static uint32_t count_of(const struct ig_pack_item *it)
{
    return it->name->count ? it->name->count : it->mat.rows;
}
/* Rows of the tensor that the item's groups take, and columns of the tensor. */
static uint64_t rows_of(const struct ig_pack_item *it)
{
    return (uint64_t)it->mat.rows / count_of(it) * group_of(it);
}
static uint64_t cols_of(const struct ig_pack_item *it)
{
    return it->name->cols ? it->name->cols : it->mat.cols;
}

/* The last dimension is the columns; how the others are cut does not matter. */
static enum ig_err check_shape(const struct ig_pack_src *s, const struct ig_pack_item *it,
                               int sliced, struct ig_why *why)
{
    const struct ig_tensor *t = it->t;
    const int inner = it->vector ? t->n_dim : t->n_dim - 1; /* dimensions of rows */
    uint64_t want[3], rows = 1;
    char want_text[80], got_text[200];
    int n = 0;

    if (sliced) want[n++] = IG_N_EXPERT;
    want[n++] = rows_of(it);
    if (!it->vector) want[n++] = cols_of(it);
    for (int i = 0; i < inner; i++)
        if (__builtin_mul_overflow(rows, t->dim[i], &rows)) rows = 0;
    if (t->n_dim >= (it->vector ? 1 : 2) && rows == rows_of(it) * (sliced ? IG_N_EXPERT : 1) &&
        (it->vector || t->dim[inner] == cols_of(it)))
        return IG_OK;
    return ig_fail(why, IG_MISMATCH, "%s: %s: want %s (plan of %s), got %s" OTHER_MODEL, s->path,
                   t->name, ig_shape_text(want_text, sizeof want_text, want, n), IG_MODEL_ID,
                   ig_shape_text(got_text, sizeof got_text, t->dim, t->n_dim), s->path);
}

static enum ig_err check_type(const struct ig_pack_src *s, const struct ig_pack_item *it,
                              struct ig_why *why)
{
    const struct ig_tensor *t = it->t;
    if (t->fmt == IG_FMT_NONE)
        return ig_fail(why, IG_BAD_FILE, "%s: %s: type: want %s, got %s", s->path, t->name,
                       s->kind == IG_PACK_GGUF ? IG_GGUF_TYPES : "F32, F16 or BF16", t->type);
    if (it->vector && ig_fmt_cols((enum ig_fmt)t->fmt) > 1)
        return ig_fail(why, IG_BAD_FILE, "%s: %s: type: want F32, F16 or BF16, got %s", s->path,
                       t->name, t->type);
    return IG_OK;
}

enum ig_err ig_pack_find(struct ig_pack_src *s, struct ig_pack_item *it, struct ig_why *why)
{
    const struct ig_source *source = &ig_sources[it->role];
    const struct ig_name *names = s->kind == IG_PACK_GGUF ? source->gguf : source->hf;
    char name[NAME_BYTES] = "", first[NAME_BYTES] = "";

    it->t = NULL;
    const int encoder = it->layer < IG_N_LAYER_ENC; /* or no layer at all, which has one name */
    for (int i = 0; i < IG_N_NAME && names[i].name && !it->t; i++) {
        if (names[i].stack == (encoder ? IG_STACK_DEC : IG_STACK_ENC)) continue;
        expand(name, names[i].name, encoder ? it->layer : it->layer - IG_N_LAYER_ENC, it->expert);
        if (!*first) memcpy(first, name, sizeof first);
        it->t = ig_ckpt_find(&s->g.ckpt, name);
        it->name = &names[i];
    }
    if (!it->t)
        return ig_fail(why, IG_BAD_FILE,
                       "%s: %s: want this tensor (plan of %s), got none" OTHER_MODEL, s->path,
                       first, IG_MODEL_ID, s->path);
    s->used[it->t - s->g.ckpt.tensor] = 1;
    const int sliced = it->expert >= 0 && !strstr(it->name->name, "%E");
    it->row0 = sliced ? rows_of(it) * (uint64_t)it->expert : 0;
    const enum ig_err err = check_shape(s, it, sliced, why);
    return err ? err : check_type(s, it, why);
}

/* Divisors of rotary frequencies, which the plan has worked in (gen/gguf_rope.lua). */
static int is_rope_factors(const char *name)
{
    static const char *const names[] = { "rope_freqs.weight", "rope_factors_short.weight",
                                         "rope_factors_long.weight" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(name, names[i])) return 1;
    return 0;
}

void ig_pack_warn_unused(const struct ig_pack_src *s, void (*warn)(const char *line))
{
    struct ig_why line;
    const char *first = NULL;
    size_t n = 0;

    for (size_t i = 0; i < s->g.ckpt.n_tensor; i++) {
        if (s->used[i] || is_rope_factors(s->g.ckpt.tensor[i].name)) continue;
        if (!first) first = s->g.ckpt.tensor[i].name;
        n++;
    }
    if (!n || !warn) return;
    ig_fail(&line, IG_OK,
            "%s: %zu of its tensors have no place in the plan of %s and are left out; "
            "the first is %s",
            s->path, n, IG_MODEL_ID, first);
    warn(line.text);
}

enum ig_err ig_pack_scratch_make(struct ig_pack_scratch *b, const struct ig_pack_item *it,
                                 struct ig_why *why)
{
    const int cols = (int)it->mat.cols;
    const enum ig_fmt from = it->t ? (enum ig_fmt)it->t->fmt : IG_F32;

    b->raw = malloc(IG_PANEL_ROWS * ig_fmt_row_bytes(from, cols));
    b->row = malloc(IG_PANEL_ROWS * ig_fmt_row_bytes((enum ig_fmt)it->mat.fmt, cols));
    b->f32 = malloc((size_t)cols * sizeof *b->f32);
    if (b->raw && b->row && b->f32) return IG_OK;
    return ig_fail(why, IG_NO_MEM, "no memory for rows of %d columns", cols);
}

void ig_pack_scratch_free(struct ig_pack_scratch *b)
{
    free(b->raw);
    free(b->row);
    free(b->f32);
    *b = (struct ig_pack_scratch){ 0 };
}

/* Row r of the matrix among the rows (or columns) of its group: interleaved pairs put
 * apart.  Rotary dimension i pairs with i + half here. */
static uint32_t unpaired(const struct ig_name *name, uint32_t r)
{
    if (!name->pair_period || r % name->pair_period < name->pair_from) return r;
    const uint32_t start = r - r % name->pair_period + name->pair_from, i = r - start;
    const uint32_t half = (name->pair_period - name->pair_from) / 2;
    return start + 2 * (i % half) + i / half;
}

/* Where row r of the matrix is, counted from row0. */
static uint64_t source_row(const struct ig_pack_item *it, uint32_t r)
{
    const struct ig_name *name = it->name;
    const uint32_t u = unpaired(name, r), count = count_of(it);
    if (!name->count) return u;
    return (uint64_t)(u / count) * name->group + name->from + (uint64_t)(u % count) * name->step;
}

/* Rows r0 .. r0 + n - 1 of the matrix, as they are in the file. */
static enum ig_err read_rows(const struct ig_pack_src *s, const struct ig_pack_item *it,
                             uint32_t r0, uint32_t n, unsigned char *raw, struct ig_why *why)
{
    const size_t row = ig_fmt_row_bytes((enum ig_fmt)it->t->fmt, (int)it->mat.cols);
    enum ig_err err = IG_OK;

    if (!it->name->pair_period && it->name->step <= 1 &&
        r0 / count_of(it) == (r0 + n - 1) / count_of(it))
        return ig_ckpt_read(&s->g.ckpt, it->t, raw, (it->row0 + source_row(it, r0)) * row, n * row,
                            why);
    for (uint32_t i = 0; i < n && !err; i++)
        err = ig_ckpt_read(&s->g.ckpt, it->t, raw + i * row,
                           (it->row0 + source_row(it, r0 + i)) * row, row, why);
    return err;
}

enum ig_err ig_pack_load(const struct ig_pack_src *s, struct ig_pack_item *it, struct ig_why *why)
{
    const enum ig_fmt fmt = it->t ? (enum ig_fmt)it->t->fmt : IG_F32;
    const uint64_t rows = it->t ? rows_of(it) : 0, cols = it->t ? cols_of(it) : 0;
    const size_t row = ig_fmt_row_bytes(fmt, (int)cols);

    if (!it->t || (!it->vector && !it->name->cols)) return IG_OK;
    unsigned char *raw = malloc((size_t)rows * row);
    it->whole = malloc((size_t)(rows * cols) * sizeof *it->whole);
    enum ig_err err = raw && it->whole
                          ? ig_ckpt_read(&s->g.ckpt, it->t, raw, it->row0 * row, rows * row, why)
                          : ig_fail(why, IG_NO_MEM, "no memory for %llu rows of %llu columns",
                                    (ull)rows, (ull)cols);
    for (uint64_t r = 0; r < rows && !err; r++)
        ig_row_to_f32(fmt, it->whole + r * cols, raw + r * row, (int)cols);
    free(raw);
    return err;
}

/* Row r of a matrix that is columns of its tensor. */
static void turn(const struct ig_pack_item *it, uint32_t r, float *dst)
{
    const struct ig_name *name = it->name;
    const uint32_t u = unpaired(name, r);
    const float *src = it->whole + (uint64_t)(u / name->count) * name->group * name->cols +
                       name->from + (uint64_t)(u % name->count) * name->step;
    for (uint32_t c = 0; c < it->mat.cols; c++) dst[c] = src[(uint64_t)c * name->cols];
}

static enum ig_err check_range(const struct ig_pack_src *s, const struct ig_pack_item *it,
                               enum ig_fmt fmt, float most, uint64_t row, const float *x,
                               struct ig_why *why)
{
    for (uint32_t c = 0; c < it->mat.cols; c++)
        if (!(fabsf(x[c]) <= most))
            return ig_fail(why, IG_BAD_FILE,
                           "%s: %s: row %llu, column %u: want a finite value that %s holds, got %g",
                           s->path, it->t->name, (ull)row, c, ig_fmt_name(fmt), (double)x[c]);
    return IG_OK;
}

enum ig_err ig_pack_panel(const struct ig_pack_src *s, const struct ig_pack_item *it, uint32_t p,
                          void *dst, struct ig_pack_scratch *b, struct ig_why *why)
{
    if (!it->t) {
        ig_pack_synth_panel(s->seed, it, p, dst);
        return IG_OK;
    }
    const enum ig_fmt from = (enum ig_fmt)it->t->fmt, to = (enum ig_fmt)it->mat.fmt;
    const int cols = (int)it->mat.cols;
    const size_t from_row = ig_fmt_row_bytes(from, cols), to_row = ig_fmt_row_bytes(to, cols);
    const uint32_t r0 = p * IG_PANEL_ROWS, left = it->mat.rows - r0;
    const uint32_t n = left < IG_PANEL_ROWS ? left : IG_PANEL_ROWS;
    const void *rows[IG_PANEL_ROWS];

    enum ig_err err = it->whole ? IG_OK : read_rows(s, it, r0, n, b->raw, why);
    for (uint32_t i = 0; i < n && !err; i++) {
        rows[i] = b->raw + i * from_row;
        if (from == to && !it->whole) {
            if (ig_row_finite(from, rows[i], cols)) continue;
            ig_row_to_f32(from, b->f32, rows[i], cols);
            err = check_range(s, it, to, FLT_MAX, r0 + i, b->f32, why);
            continue;
        }
        if (it->whole)
            turn(it, r0 + i, b->f32);
        else
            ig_row_to_f32(from, b->f32, rows[i], cols);
        err = check_range(s, it, to, ig_fmt_most(to), r0 + i, b->f32, why);
        if (err) break;
        ig_row_from_f32(to, b->row + i * to_row, b->f32, cols);
        rows[i] = b->row + i * to_row;
    }
    if (!err) ig_panel_pack(to, dst, rows, (int)n, cols);
    return err;
}

enum ig_err ig_pack_vector(const struct ig_pack_src *s, const struct ig_pack_item *it, float *dst,
                           struct ig_why *why)
{
    enum ig_err err = IG_OK;
    for (uint32_t r = 0; r < it->mat.rows && !err; r++) {
        dst[r] = it->whole ? it->whole[source_row(it, r)] : ig_pack_synth_value(it->role, r);
        err = check_range(s, it, IG_F32, FLT_MAX, r, &dst[r], why);
    }
    return err;
}
