/* ckpt_pair.c -- weights that a checkpoint keeps as two tensors, read as one.
 *
 *   F8_E4M3 NAME [rows, cols] and NAME_scale_inv [rows / 128, cols / 128], both
 *     rounded up: value = f8 * scale, in f32.
 *   U8 NAME_blocks [..., cols / 32, 16] and NAME_scales [..., cols / 32]: 32 E2M1
 *     values a block, byte i holding 2i (low nibble) and 2i + 1; times
 *     2^(scale - 127).  GGUF's MXFP4 has the same codes in another order, and the
 *     same scale byte first, so this is a re-ordering.
 */
#include "ckpt.h"
#include "file.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../kernels/panel.h"

enum {
    F8_BLOCK = 128,
    F8_SCALES = 4096,
    MX_COLS = 32,
    MX_CODES = 16,
    MX_BYTES = 17,
    NAME_BYTES = 512
};

/* E4M3 without infinities: bias 7, subnormals of 2^-9, 0x7f is not a number. */
static float f8_to_f32(unsigned char b)
{
    const int e = b >> 3 & 15, m = b & 7;
    const float x = e == 15 && m == 7 ? NAN
                    : e               ? ldexpf((float)(8 + m), e - 10)
                                      : ldexpf((float)m, -9);
    return b & 0x80 ? -x : x;
}

/* One row of scales, for rows 128 * row .. of the tensor. */
static enum ig_err read_scales(const struct ig_ckpt *c, const struct ig_tensor *t, uint64_t row,
                               uint64_t n, float *scale, struct ig_why *why)
{
    unsigned char raw[F8_SCALES * 4];
    const struct ig_ckpt_file *f = &c->file[t->scale_file];
    const size_t bytes = ig_fmt_row_bytes((enum ig_fmt)t->scale_fmt, (int)n);
    const enum ig_err err =
        ig_file_read(f->fd, f->path, raw, t->scale_off + row * bytes, bytes, why);
    if (!err) ig_row_to_f32((enum ig_fmt)t->scale_fmt, scale, raw, (int)n);
    return err;
}

/* The bytes are read into the end of dst and grow to floats from its start: the float of
 * a byte never lies past that byte. */
static enum ig_err read_fp8(const struct ig_ckpt *c, const struct ig_tensor *t, void *dst,
                            uint64_t first, uint64_t n, struct ig_why *why)
{
    const struct ig_ckpt_file *f = &c->file[t->file];
    const uint64_t cols = t->dim[1], blocks = (cols + F8_BLOCK - 1) / F8_BLOCK;
    unsigned char *to = dst;
    const unsigned char *from = to + 3 * n;
    float table[256], scale[F8_SCALES];
    uint64_t at = UINT64_MAX;

    enum ig_err err = ig_file_read(f->fd, f->path, to + 3 * n, t->off + first, n, why);
    for (int i = 0; i < 256; i++) table[i] = f8_to_f32((unsigned char)i);
    for (uint64_t i = 0; i < n && !err; i++) {
        const uint64_t row = (first + i) / cols / F8_BLOCK, col = (first + i) % cols;
        if (row != at) err = read_scales(c, t, at = row, blocks, scale, why);
        const float x = table[from[i]] * scale[col / F8_BLOCK];
        memcpy(to + 4 * i, &x, sizeof x);
    }
    return err;
}

/* The same with blocks of 16 bytes that grow to 17. */
static enum ig_err read_mxfp4(const struct ig_ckpt *c, const struct ig_tensor *t, void *dst,
                              uint64_t first, uint64_t n, struct ig_why *why)
{
    const struct ig_ckpt_file *f = &c->file[t->file], *sf = &c->file[t->scale_file];
    unsigned char *to = dst, scale[4096];
    const unsigned char *from = to + n;

    enum ig_err err =
        ig_file_read(f->fd, f->path, to + n, t->off + first * MX_CODES, n * MX_CODES, why);
    for (uint64_t i = 0; i < n && !err; i++, to += MX_BYTES, from += MX_CODES) {
        const uint64_t k = i % sizeof scale;
        unsigned char pair[MX_CODES];
        if (k == 0)
            err = ig_file_read(sf->fd, sf->path, scale, t->scale_off + first + i,
                               n - i < sizeof scale ? n - i : sizeof scale, why);
        if (err) break;
        memcpy(pair, from, sizeof pair);
        to[0] = scale[k];
        for (int j = 0; j < MX_CODES; j++) { /* j and j + 16 from 2i, 2i + 1 */
            const int lo = pair[j / 2] >> 4 * (j % 2) & 15;
            const int hi = pair[j / 2 + 8] >> 4 * (j % 2) & 15;
            to[1 + j] = (unsigned char)(lo | hi << 4);
        }
    }
    return err;
}

enum ig_err ig_ckpt_read_pair(const struct ig_ckpt *c, const struct ig_tensor *t, void *dst,
                              uint64_t off, uint64_t bytes, struct ig_why *why)
{
    const uint64_t each = t->pair == IG_PAIR_FP8 ? sizeof(float) : MX_BYTES;
    IG_ASSERT(off % each == 0 && bytes % each == 0);
    return t->pair == IG_PAIR_FP8 ? read_fp8(c, t, dst, off / each, bytes / each, why)
                                  : read_mxfp4(c, t, dst, off / each, bytes / each, why);
}

/* -- finding them */

static int ends_with(const char *s, const char *end)
{
    const size_t n = strlen(s), m = strlen(end);
    return n >= m && strcmp(s + n - m, end) == 0;
}

/* The tensor called `name` with the end `from` made `to`. */
static struct ig_tensor *partner(const struct ig_ckpt *c, const char *name, const char *from,
                                 const char *to)
{
    char other[NAME_BYTES];
    const size_t n = strlen(name) - strlen(from);
    if (n + strlen(to) >= sizeof other) return NULL;
    memcpy(other, name, n);
    strcpy(other + n, to);
    const struct ig_tensor *t = ig_ckpt_find(c, other);
    return t ? &c->tensor[t - c->tensor] : NULL;
}

static enum ig_err wrong(const struct ig_ckpt *c, const struct ig_tensor *s, const uint64_t *want,
                         int n, const char *type, struct ig_why *why)
{
    char a[200], b[200];
    return ig_fail(why, IG_BAD_FILE, "%s: %s: want %s %s, got %s %s", c->file[s->file].path,
                   s->name, type, ig_shape_text(a, sizeof a, want, n), s->type,
                   ig_shape_text(b, sizeof b, s->dim, s->n_dim));
}

static void take_scales(struct ig_tensor *t, struct ig_tensor *s, enum ig_ckpt_pair pair, int fmt)
{
    t->pair = pair;
    t->fmt = fmt;
    t->scale_fmt = s->fmt;
    t->scale_file = s->file;
    t->scale_off = s->off;
    s->bytes = UINT64_MAX; /* to be dropped */
}

static enum ig_err join_fp8(struct ig_ckpt *c, struct ig_tensor *t, struct ig_why *why)
{
    struct ig_tensor *s = partner(c, t->name, "", "_scale_inv");
    if (!s || t->n_dim != 2) return IG_OK; /* refused by its type, where it is wanted */
    const uint64_t want[2] = { (t->dim[0] + F8_BLOCK - 1) / F8_BLOCK,
                               (t->dim[1] + F8_BLOCK - 1) / F8_BLOCK };
    uint64_t bytes;
    if (s->n_dim != 2 || memcmp(s->dim, want, sizeof want) != 0 || s->fmt == IG_FMT_NONE ||
        want[1] > F8_SCALES)
        return wrong(c, s, want, 2, "F32, F16 or BF16", why);
    if (!ig_mul_ok(t->bytes, sizeof(float), &bytes)) return wrong(c, t, t->dim, 2, "less", why);
    take_scales(t, s, IG_PAIR_FP8, IG_F32);
    t->bytes = bytes;
    return IG_OK;
}

static enum ig_err join_mxfp4(struct ig_ckpt *c, struct ig_tensor *t, struct ig_why *why)
{
    struct ig_tensor *s = partner(c, t->name, "_blocks", "_scales");
    const int n = t->n_dim - 1;
    if (!s || strcmp(t->type, "U8") != 0 || n < 2 || t->dim[n] != MX_CODES) return IG_OK;
    if (s->n_dim != n || strcmp(s->type, "U8") != 0 ||
        memcmp(s->dim, t->dim, (size_t)n * sizeof *s->dim) != 0)
        return wrong(c, s, t->dim, n, "U8", why);
    if (!ig_mul_ok(t->dim[n - 1], MX_COLS, &t->dim[n - 1])) /* beside a dimension of 0 */
        return wrong(c, s, t->dim, n, "fewer", why);
    take_scales(t, s, IG_PAIR_MXFP4, IG_MXFP4);
    t->n_dim = n;
    t->bytes = t->bytes / MX_CODES * MX_BYTES;
    t->type = "MXFP4";
    return IG_OK;
}

enum ig_err ig_ckpt_join_pairs(struct ig_ckpt *c, struct ig_why *why)
{
    enum ig_err err = IG_OK;
    size_t n = 0;
    for (size_t i = 0; i < c->n_tensor && !err; i++) {
        struct ig_tensor *t = &c->tensor[i];
        if (strcmp(t->type, "F8_E4M3") == 0)
            err = join_fp8(c, t, why);
        else if (ends_with(t->name, "_blocks"))
            err = join_mxfp4(c, t, why);
    }
    if (err) return err;
    for (size_t i = 0; i < c->n_tensor; i++) {
        if (c->tensor[i].bytes == UINT64_MAX)
            free(c->tensor[i].name);
        else
            c->tensor[n++] = c->tensor[i];
    }
    c->n_tensor = n;
    return IG_OK;
}
