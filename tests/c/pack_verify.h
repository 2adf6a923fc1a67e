/* pack_verify.h -- is a weights file what its checkpoint says?
 *
 * Reads both sides on its own: the weights file through wfile.h and
 * ig_panel_row, the checkpoint through its reader, with the row order and the
 * rounding of each value worked out again.  Compiled against generated tables.
 */
#ifndef IG_TEST_PACK_VERIFY_H
#define IG_TEST_PACK_VERIFY_H

#include "ckpt.h"
#include "wfile.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../kernels/panel.h"
#include "tables.h"

static char verify_text[2048];
static struct ig_why verify_why;
static unsigned char *data, *seen; /* the data section; 1: a value of the plan is there */

static const char *name_of(const struct ig_ckpt *c, enum ig_role role, int layer, int expert,
                           int alternative)
{
    static char name[256];
    const struct ig_source *s = &ig_sources[role];
    const char *p = (c->gguf ? s->gguf : s->hf)[alternative].name;
    char *out = name;

    if (!p) return NULL;
    for (; *p; p++) {
        if (*p == '%') {
            out += sprintf(out, "%d", *++p == 'L' ? layer : expert);
        } else {
            *out++ = *p;
        }
    }
    *out = '\0';
    return name;
}

/* The tensor and the first of its rows that is the expert's. */
static const struct ig_tensor *find(const struct ig_ckpt *c, enum ig_role role, int layer,
                                    int expert, uint64_t rows, uint64_t *first)
{
    for (int i = 0; i < 3; i++) {
        const char *name = name_of(c, role, layer, expert, i);
        const struct ig_tensor *t = name ? ig_ckpt_find(c, name) : NULL;
        if (!t) continue;
        *first = t->n_dim == 3 ? (uint64_t)expert * rows : 0;
        return t;
    }
    return NULL;
}

static uint64_t permuted(const struct ig_ckpt *c, enum ig_role role, uint64_t r)
{
    if (!c->gguf || !ig_sources[role].gguf[0].pair_period) return r;
    /* r = head, half, i  ->  head, i, half */
    const uint64_t hd = IG_HEAD_DIM, head = r / hd, half = r % hd / (hd / 2), i = r % (hd / 2);
    return (head * (hd / 2) + i) * 2 + half;
}

static const char *check_rows(const struct ig_ckpt *c, enum ig_role role, int layer, int expert,
                              const struct ig_mat *m, uint64_t base)
{
    const int cols = (int)m->cols;
    const enum ig_fmt to = (enum ig_fmt)m->fmt;
    const size_t panel = ig_panel_bytes(to, cols);
    uint64_t first = 0;
    const struct ig_tensor *t = find(c, role, layer, expert, m->rows, &first);
    const char *bad = NULL;

    if (!t) return "a tensor is missing";
    const enum ig_fmt from = (enum ig_fmt)t->fmt;
    const size_t row_bytes = ig_fmt_row_bytes(from, cols);
    void *row = malloc(row_bytes), *turned = malloc(ig_fmt_row_bytes(to, cols));
    float *want = malloc((size_t)cols * 4), *got = malloc((size_t)cols * 4);
    for (uint32_t r = 0; r < (m->rows + 15) / 16 * 16 && !bad; r++) {
        const uint64_t at = base + m->off + (uint64_t)(r / 16) * m->stride;
        ig_panel_row(to, got, data + at, (int)(r % 16), cols);
        memset(seen + at, 1, panel);
        memset(want, 0, (size_t)cols * 4);
        if (r < m->rows) {
            const uint64_t from_row = first + permuted(c, role, r);
            if (ig_ckpt_read(c, t, row, from_row * row_bytes, row_bytes, &verify_why))
                bad = verify_why.text;
            ig_row_to_f32(from, want, row, cols);
            if (from != to) {
                ig_row_from_f32(to, turned, want, cols);
                ig_row_to_f32(to, want, turned, cols);
            }
        }
        for (int k = 0; k < cols && !bad; k++) {
            if (want[k] == got[k]) continue; /* 0 and -0 may differ in padding only */
            snprintf(verify_text, sizeof verify_text, "%s: row %u, column %d: want %g, got %g",
                     t->name, r, k, (double)want[k], (double)got[k]);
            bad = verify_text;
        }
    }
    free(row);
    free(turned);
    free(want);
    free(got);
    return bad;
}

static const char *check_norm(const struct ig_ckpt *c, enum ig_role role, int layer, uint64_t off)
{
    float want[IG_N_EMBD];
    unsigned char row[IG_N_EMBD * 4];
    const struct ig_tensor *t = ig_ckpt_find(c, name_of(c, role, layer, -1, 0));

    if (!t) return "a norm is missing";
    if (ig_ckpt_read(c, t, row, 0, t->bytes, &verify_why)) return verify_why.text;
    ig_row_to_f32((enum ig_fmt)t->fmt, want, row, IG_N_EMBD);
    memset(seen + off, 1, sizeof want);
    return memcmp(want, data + off, sizeof want) ? t->name : NULL;
}

static const char *check_all(const struct ig_ckpt *c)
{
    const char *bad = check_rows(c, IG_ROLE_TOKEN_EMBD, -1, -1, &ig_token_embd, 0);

    if (!bad) bad = check_norm(c, IG_ROLE_OUTPUT_NORM, -1, ig_output_norm);
    if (!bad && ig_output.off != ig_token_embd.off)
        bad = check_rows(c, IG_ROLE_OUTPUT, -1, -1, &ig_output, 0);
    for (int n = 0; n < IG_N_LAYER && !bad; n++) {
        const struct ig_layer *l = &ig_layers[n];
        bad = check_norm(c, IG_ROLE_ATTN_NORM, n, l->mixer_norm);
        if (!bad) bad = check_norm(c, IG_ROLE_FFN_NORM, n, l->ffn_norm);
        if (!bad) bad = check_rows(c, IG_ROLE_ATTN_Q, n, -1, &l->q, 0);
        if (!bad) bad = check_rows(c, IG_ROLE_ATTN_K, n, -1, &l->k, 0);
        if (!bad) bad = check_rows(c, IG_ROLE_ATTN_V, n, -1, &l->v, 0);
        if (!bad) bad = check_rows(c, IG_ROLE_ATTN_O, n, -1, &l->o, 0);
        if (!bad) bad = check_rows(c, IG_ROLE_ROUTER, n, -1, &l->router, 0);
        for (int e = 0; e < IG_N_EXPERT && !bad; e++) {
            const uint64_t slab = l->expert_off + (uint64_t)e * l->expert_stride;
            bad = check_rows(c, IG_ROLE_GATE, n, e, &l->gate, slab);
            if (!bad) bad = check_rows(c, IG_ROLE_UP, n, e, &l->up, slab);
            if (!bad) bad = check_rows(c, IG_ROLE_DOWN, n, e, &l->down, slab);
        }
    }
    for (uint64_t i = 0; i < IG_DATA_BYTES && !bad; i++)
        if (!seen[i] && data[i]) bad = "padding is not zero";
    return bad;
}

/* NULL, or what differs first.  c NULL: only the checksums. */
static const char *verify(const char *weights, const struct ig_ckpt *c)
{
    struct ig_wfile f;
    const char *bad = NULL;

    if (ig_wfile_open(&f, weights, IG_LAYOUT_HASH, &verify_why)) return verify_why.text;
    data = malloc(IG_DATA_BYTES);
    seen = calloc(IG_DATA_BYTES, 1);
    if (f.h.data.bytes != IG_DATA_BYTES || ig_wfile_read(&f, data, 0, IG_DATA_BYTES, &verify_why))
        bad = "the data section cannot be read";
    for (uint32_t i = 0; i < f.h.n_block && !bad; i++)
        if (ig_wfile_check(&f, i, data + f.blocks[i].off, &verify_why)) bad = verify_why.text;
    if (!bad && c) bad = check_all(c);
    free(data);
    free(seen);
    ig_wfile_close(&f);
    return bad;
}

#endif
