/* pack_src.c -- a checkpoint's tensors as rows of the plan's matrices.
 *
 * A value that has the planned type is copied bit for bit.  Any other goes
 * through f32, which holds each source type exactly, and must be finite and
 * inside the planned type's range: a silent infinity would be a broken model.
 */
#include "pack_int.h"
#include "file.h"
#include "safetensors.h"

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

/* Renaming onto a source would destroy it, and pack never harms what it reads. */
static enum ig_err refuse_same(const struct ig_pack_src *s, const char *out, struct ig_why *why)
{
    struct stat o, f;

    if (stat(out, &o) != 0) return IG_OK;
    for (uint32_t i = 0; i < s->g.ckpt.n_file; i++)
        if (fstat(s->g.ckpt.file[i].fd, &f) == 0 && f.st_dev == o.st_dev && f.st_ino == o.st_ino)
            return ig_fail(why, IG_USAGE, "%s: want an output that is not the checkpoint itself",
                           out);
    return IG_OK;
}

enum ig_err ig_pack_src_open(struct ig_pack_src *s, const struct ig_pack_job *job,
                             struct ig_why *why)
{
    struct stat st;
    enum ig_err err;

    *s = (struct ig_pack_src){ .path = job->src, .seed = job->seed, .w.fd = -1 };
    if (!job->src) {
        s->kind = IG_PACK_SYNTH;
        return IG_OK;
    }
    if (stat(job->src, &st) == 0 && S_ISDIR(st.st_mode)) {
        s->kind = IG_PACK_HF;
        err = ig_safetensors_open(&s->g.ckpt, job->src, why);
    } else {
        err = open_by_magic(s, why);
    }
    if (!err) err = refuse_same(s, job->out, why);
    if (!err) {
        s->used = calloc(s->g.ckpt.n_tensor + 1, 1);
        if (!s->used) err = ig_fail(why, IG_NO_MEM, "%s: no memory", s->path);
    }
    if (err) ig_pack_src_close(s);
    return err;
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

static enum ig_err check_shape(const struct ig_pack_src *s, const struct ig_pack_item *it,
                               int sliced, struct ig_why *why)
{
    uint64_t want[3];
    char want_text[80], got_text[200];
    int n = 0;

    if (sliced) want[n++] = IG_N_EXPERT;
    if (!it->vector) want[n++] = it->mat.rows;
    want[n++] = it->mat.cols;
    if (it->t->n_dim == n && memcmp(it->t->dim, want, (size_t)n * sizeof *want) == 0) return IG_OK;
    return ig_fail(why, IG_MISMATCH, "%s: %s: want %s (plan of %s), got %s", s->path, it->t->name,
                   ig_shape_text(want_text, sizeof want_text, want, n), IG_MODEL_ID,
                   ig_shape_text(got_text, sizeof got_text, it->t->dim, it->t->n_dim));
}

static enum ig_err check_type(const struct ig_pack_src *s, const struct ig_pack_item *it,
                              struct ig_why *why)
{
    const struct ig_tensor *t = it->t;
    if (t->fmt == IG_FMT_NONE)
        return ig_fail(why, IG_BAD_FILE, "%s: %s: type: want %s, got %s", s->path, t->name,
                       s->kind == IG_PACK_GGUF ? IG_GGUF_TYPES : "F32, F16 or BF16", t->type);
    return IG_OK;
}

enum ig_err ig_pack_find(struct ig_pack_src *s, struct ig_pack_item *it, struct ig_why *why)
{
    const struct ig_source *names = &ig_sources[it->role];
    const char *const *pattern = s->kind == IG_PACK_GGUF ? names->gguf : names->hf;
    char name[NAME_BYTES] = "", first[NAME_BYTES] = "";
    int sliced = 0;

    it->t = NULL;
    for (int i = 0; i < 3 && pattern[i] && !it->t; i++) {
        expand(name, pattern[i], it->layer, it->expert);
        if (i == 0) memcpy(first, name, sizeof first);
        it->t = ig_ckpt_find(&s->g.ckpt, name);
        sliced = it->expert >= 0 && !strstr(pattern[i], "%E");
    }
    if (!it->t)
        return ig_fail(why, IG_BAD_FILE, "%s: %s: want this tensor (plan of %s), got none", s->path,
                       first, IG_MODEL_ID);
    s->used[it->t - s->g.ckpt.tensor] = 1;
    it->t_off = sliced ? it->t->bytes / IG_N_EXPERT * (uint64_t)it->expert : 0;
    it->rope_pairs = s->kind == IG_PACK_GGUF && names->rope_pairs;
    const enum ig_err err = check_shape(s, it, sliced, why);
    return err ? err : check_type(s, it, why);
}

void ig_pack_warn_unused(const struct ig_pack_src *s, void (*warn)(const char *line))
{
    struct ig_why line;
    const char *first = NULL;
    size_t n = 0;

    for (size_t i = 0; i < s->g.ckpt.n_tensor; i++) {
        if (s->used[i]) continue;
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

/* Where row r of the matrix is in the tensor.  Rotary dimension i of a head pairs
 * with i + hd/2 here; files for interleaved rotation have the two side by side. */
static uint64_t source_row(const struct ig_pack_item *it, uint64_t r)
{
    const uint64_t half = IG_HEAD_DIM / 2;
    if (!it->rope_pairs) return r;
    const uint64_t head = r / (2 * half), i = r % (2 * half);
    return head * 2 * half + 2 * (i % half) + i / half;
}

/* Rows r0 .. r0 + n - 1 of the matrix, as they are in the file. */
static enum ig_err read_rows(const struct ig_pack_src *s, const struct ig_pack_item *it,
                             uint64_t r0, uint64_t n, unsigned char *raw, struct ig_why *why)
{
    const size_t row = ig_fmt_row_bytes((enum ig_fmt)it->t->fmt, (int)it->mat.cols);
    enum ig_err err = IG_OK;

    if (!it->rope_pairs)
        return ig_ckpt_read(&s->g.ckpt, it->t, raw, it->t_off + r0 * row, n * row, why);
    for (uint64_t i = 0; i < n && !err; i++)
        err = ig_ckpt_read(&s->g.ckpt, it->t, raw + i * row,
                           it->t_off + source_row(it, r0 + i) * row, row, why);
    return err;
}

static enum ig_err check_range(const struct ig_pack_src *s, const struct ig_pack_item *it,
                               enum ig_fmt fmt, uint64_t row, const float *x, struct ig_why *why)
{
    const float most = ig_fmt_most(fmt);
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

    enum ig_err err = read_rows(s, it, r0, n, b->raw, why);
    for (uint32_t i = 0; i < n && !err; i++) {
        rows[i] = b->raw + i * from_row;
        if (from == to) continue;
        ig_row_to_f32(from, b->f32, rows[i], cols);
        err = check_range(s, it, to, r0 + i, b->f32, why);
        if (err) break;
        ig_row_from_f32(to, b->row + i * to_row, b->f32, cols);
        rows[i] = b->row + i * to_row;
    }
    if (!err) ig_panel_pack(to, dst, rows, (int)n, cols);
    return err;
}

enum ig_err ig_pack_vector(const struct ig_pack_src *s, const struct ig_pack_item *it, float *dst,
                           struct ig_pack_scratch *b, struct ig_why *why)
{
    if (!it->t) { /* a norm that leaves sizes as they are */
        for (uint32_t c = 0; c < it->mat.cols; c++) dst[c] = 1.0f;
        return IG_OK;
    }
    const enum ig_err err = read_rows(s, it, 0, 1, b->raw, why);
    if (!err) ig_row_to_f32((enum ig_fmt)it->t->fmt, dst, b->raw, (int)it->mat.cols);
    return err;
}
