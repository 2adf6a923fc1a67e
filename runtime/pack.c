/* pack.c -- see pack.h: the walk over the plan and the output.
 *
 * The plan is walked twice: first every tensor is found and checked, then, with
 * the output open, every one is converted, in the order of the data section.
 */
#include "pack_int.h"
#include "wfile_write.h"

#include <stdlib.h>
#include <string.h>

#include "../kernels/panel.h"
#include "tables.h"

typedef unsigned long long ull; /* for %llu */

enum {
    CHUNK_BYTES = 16 << 20, /* converted panels in memory at a time */
    BLOCK_BYTES = 1 << 20,  /* of the resident part, a checksum */
};

struct packer {
    const struct ig_pack_job *job;
    struct ig_pack_src src;
    struct ig_wwriter out;
    int writing; /* second walk */
    unsigned char *chunk;
    uint64_t room; /* bytes at chunk */
    struct ig_why *why;
};

static enum ig_err check_cancel(const struct packer *k)
{
    if (!k->job->cancel || !*k->job->cancel) return IG_OK;
    return ig_fail(k->why, IG_FAIL, "%s: interrupted; nothing was written", k->job->out);
}

static enum ig_err append(struct packer *k, const void *data, uint64_t bytes)
{
    enum ig_err err = check_cancel(k);
    if (!err) err = ig_wwrite_data(&k->out, data, bytes, k->why);
    if (!err && k->job->progress) k->job->progress("pack", k->out.at, IG_DATA_BYTES);
    return err;
}

static enum ig_err make_room(struct packer *k, uint64_t bytes)
{
    if (bytes <= k->room) return IG_OK;
    free(k->chunk);
    k->chunk = malloc((size_t)bytes);
    k->room = k->chunk ? bytes : 0;
    return k->chunk ? IG_OK : ig_fail(k->why, IG_NO_MEM, "no memory for %llu bytes", (ull)bytes);
}

/* Zeros up to data offset `to`; the plan's items follow each other with small gaps. */
static enum ig_err pad_to(struct packer *k, uint64_t to)
{
    static const unsigned char zero[4096];
    enum ig_err err = IG_OK;

    if (to < k->out.at || to > IG_DATA_BYTES)
        return ig_fail(k->why, IG_FAIL, "the plan puts an item at %llu: want %llu to %llu", (ull)to,
                       (ull)k->out.at, (ull)IG_DATA_BYTES);
    while (k->out.at < to && !err) {
        const uint64_t left = to - k->out.at;
        err = append(k, zero, left < sizeof zero ? left : sizeof zero);
    }
    return err;
}

/* Panels [lo, hi) of n matrices that alternate panel by panel, into the chunk. */
static enum ig_err convert(struct packer *k, const struct ig_pack_item *it, int n, uint32_t lo,
                           uint32_t hi)
{
    const uint64_t stride = it[0].mat.stride;
    enum ig_err result = IG_OK;

    memset(k->chunk, 0, (size_t)((hi - lo) * stride));
    for (int i = 0; i < n; i++) {
        const uint64_t at = it[i].mat.off - it[0].mat.off;
        const struct ig_pack_item *const item = &it[i];
#ifdef _OPENMP
/* Random panels are made faster than memory takes them: threads would only wait. */
#pragma omp parallel if (item->t != NULL)
#endif
        {
            struct ig_pack_scratch b;
            struct ig_why why;
            enum ig_err err = ig_pack_scratch_make(&b, item, &why);
#ifdef _OPENMP
#pragma omp for schedule(static)
#endif
            for (uint32_t p = lo; p < hi; p++)
                if (!err)
                    err = ig_pack_panel(&k->src, item, p, k->chunk + (p - lo) * stride + at, &b,
                                        &why);
#ifdef _OPENMP
#pragma omp critical
#endif
            if (err) {
                result = err;
                *k->why = why;
            }
            ig_pack_scratch_free(&b);
        }
    }
    return result;
}

/* n matrices (1, or gate and up) whose panels alternate; `base` is added to their offsets. */
static enum ig_err visit_matrices(struct packer *k, uint64_t base, struct ig_pack_item *it, int n)
{
    const struct ig_mat *m = &it[0].mat;
    const uint32_t n_panel = (m->rows + IG_PANEL_ROWS - 1) / IG_PANEL_ROWS;
    enum ig_err err = IG_OK;

    if (k->src.kind != IG_PACK_SYNTH)
        for (int i = 0; i < n && !err; i++) err = ig_pack_find(&k->src, &it[i], k->why);
    if (err || !k->writing) return err;

    const uint32_t step = m->stride < CHUNK_BYTES ? CHUNK_BYTES / m->stride : 1;
    err = make_room(k, (uint64_t)(step < n_panel ? step : n_panel) * m->stride);
    if (!err) err = pad_to(k, base + m->off);
    for (uint32_t lo = 0; lo < n_panel && !err; lo += step) {
        const uint32_t hi = n_panel - lo < step ? n_panel : lo + step;
        err = convert(k, it, n, lo, hi);
        if (!err) err = append(k, k->chunk, (hi - lo) * (uint64_t)m->stride);
    }
    return err;
}

static enum ig_err visit_matrix(struct packer *k, enum ig_role role, int layer,
                                const struct ig_mat *m)
{
    struct ig_pack_item it = { .role = role, .layer = layer, .expert = -1, .mat = *m };
    return visit_matrices(k, 0, &it, 1);
}

static enum ig_err visit_vector(struct packer *k, enum ig_role role, int layer, uint64_t off)
{
    struct ig_pack_scratch b = { 0 };
    struct ig_pack_item it = { .role = role,
                               .vector = 1,
                               .layer = layer,
                               .expert = -1,
                               .mat = { .off = off, .rows = 1, .cols = IG_N_EMBD, .fmt = IG_F32 } };
    enum ig_err err = IG_OK;

    if (k->src.kind != IG_PACK_SYNTH) err = ig_pack_find(&k->src, &it, k->why);
    if (err || !k->writing) return err;
    err = make_room(k, IG_N_EMBD * sizeof(float));
    if (!err) err = ig_pack_scratch_make(&b, &it, k->why);
    if (!err) err = ig_pack_vector(&k->src, &it, (float *)(void *)k->chunk, &b, k->why);
    if (!err) err = pad_to(k, off);
    if (!err) err = append(k, k->chunk, IG_N_EMBD * sizeof(float));
    ig_pack_scratch_free(&b);
    return err;
}

static enum ig_err visit_layer(struct packer *k, int n)
{
    const struct ig_layer *l = &ig_layers[n];
    enum ig_err err;

    /* One mixer and one feed-forward kind so far: a second one gets a switch here. */
    err = visit_vector(k, IG_ROLE_ATTN_NORM, n, l->mixer_norm);
    if (!err) err = visit_matrix(k, IG_ROLE_ATTN_Q, n, &l->q);
    if (!err) err = visit_matrix(k, IG_ROLE_ATTN_K, n, &l->k);
    if (!err) err = visit_matrix(k, IG_ROLE_ATTN_V, n, &l->v);
    if (!err) err = visit_matrix(k, IG_ROLE_ATTN_O, n, &l->o);
    if (!err) err = visit_vector(k, IG_ROLE_FFN_NORM, n, l->ffn_norm);
    if (!err) err = visit_matrix(k, IG_ROLE_ROUTER, n, &l->router);
    return err;
}

static enum ig_err visit_expert(struct packer *k, int n, int e)
{
    const struct ig_layer *l = &ig_layers[n];
    const uint64_t base = l->expert_off + (uint64_t)e * l->expert_stride;
    struct ig_pack_item pair[] = {
        { .role = IG_ROLE_GATE, .layer = n, .expert = e, .mat = l->gate },
        { .role = IG_ROLE_UP, .layer = n, .expert = e, .mat = l->up },
    };
    struct ig_pack_item down = { .role = IG_ROLE_DOWN, .layer = n, .expert = e, .mat = l->down };

    enum ig_err err = visit_matrices(k, base, pair, 2);
    if (!err) err = visit_matrices(k, base, &down, 1);
    return err;
}

static int is_tied(void) { return ig_output.off == ig_token_embd.off; }

/* Everything in the data section, by ascending offset (docs/ARCHITECTURE.md). */
static enum ig_err walk(struct packer *k)
{
    enum ig_err err = visit_matrix(k, IG_ROLE_TOKEN_EMBD, -1, &ig_token_embd);

    for (int n = 0; n < IG_N_LAYER && !err; n++) err = visit_layer(k, n);
    if (!err) err = visit_vector(k, IG_ROLE_OUTPUT_NORM, -1, ig_output_norm_off);
    if (!err && !is_tied()) err = visit_matrix(k, IG_ROLE_OUTPUT, -1, &ig_output);
    for (int n = 0; n < IG_N_LAYER && !err; n++)
        for (int e = 0; e < IG_N_EXPERT && !err; e++) err = visit_expert(k, n, e);
    if (!err && k->writing) err = pad_to(k, IG_DATA_BYTES);
    return err;
}

/* A weights file of the same layout: its blocks, each checked on the way. */
static enum ig_err copy_data(struct packer *k)
{
    const struct ig_wfile *w = &k->src.w;
    enum ig_err err = IG_OK;

    for (uint32_t i = 0; i < w->h.n_block && !err; i++) {
        const struct ig_wblock *b = &w->blocks[i];
        err = make_room(k, b->bytes);
        if (!err) err = ig_wfile_read(w, k->chunk, b->off, b->bytes, k->why);
        if (!err) err = ig_wfile_check(w, i, k->chunk, k->why);
        if (!err) err = append(k, k->chunk, b->bytes);
    }
    return err;
}

/* The resident part in pieces, then a block an expert. */
static enum ig_err make_blocks(struct ig_wblock **blocks, uint32_t *n_block, struct ig_why *why)
{
    const uint64_t pieces = (IG_RESIDENT_BYTES + BLOCK_BYTES - 1) / BLOCK_BYTES;
    const uint64_t n = pieces + (uint64_t)IG_N_LAYER * IG_N_EXPERT;
    uint64_t at = 0;

    struct ig_wblock *b = calloc((size_t)n, sizeof *b);
    if (!b) return ig_fail(why, IG_NO_MEM, "no memory for %llu blocks", (ull)n);
    for (uint64_t i = 0; i < n; i++) {
        const uint64_t left = IG_RESIDENT_BYTES - at;
        b[i].off = at;
        b[i].bytes = i >= pieces          ? ig_layers[(i - pieces) / IG_N_EXPERT].expert_stride
                     : left < BLOCK_BYTES ? left
                                          : BLOCK_BYTES;
        at += b[i].bytes;
    }
    *blocks = b;
    *n_block = (uint32_t)n;
    if (at == IG_DATA_BYTES) return IG_OK;
    return ig_fail(why, IG_FAIL,
                   "the plan has %llu bytes of data: want %llu, the sum of its blocks",
                   (ull)IG_DATA_BYTES, (ull)at);
}

static enum ig_err write_file(struct packer *k, const void *tokenizer, size_t tokenizer_bytes)
{
    struct ig_wspec spec = {
        .out = k->job->out,
        .embed = k->job->embed,
        .model_id = IG_MODEL_ID,
        .layout_text = IG_LAYOUT_TEXT,
        .layout_hash = IG_LAYOUT_HASH,
        .tokenizer = tokenizer,
        .tokenizer_bytes = tokenizer_bytes,
        .data_bytes = IG_DATA_BYTES,
    };

    enum ig_err err = make_blocks(&spec.block, &spec.n_block, k->why);
    if (!err) err = ig_wwrite_open(&k->out, &spec, k->why);
    if (!err) {
        k->writing = 1;
        err = k->src.kind == IG_PACK_WFILE ? copy_data(k) : walk(k);
        if (!err) err = check_cancel(k);
        if (err)
            ig_wwrite_abort(&k->out);
        else
            err = ig_wwrite_finish(&k->out, k->why);
    }
    free(spec.block);
    return err;
}

enum ig_err ig_pack(const struct ig_pack_job *job, struct ig_why *why)
{
    struct packer k = { .job = job, .why = why };
    void *tokenizer = NULL;
    size_t tokenizer_bytes = 0;

    enum ig_err err = ig_pack_src_open(&k.src, job, why);
    if (err) return err;
    if (k.src.kind != IG_PACK_WFILE) err = walk(&k);
    if (!err) ig_pack_warn_unused(&k.src, job->warn);
    if (!err) err = ig_pack_tokenizer(&k.src, job, &tokenizer, &tokenizer_bytes, why);
    if (!err) err = write_file(&k, tokenizer, tokenizer_bytes);
    free(tokenizer);
    free(k.chunk);
    ig_pack_src_close(&k.src);
    return err;
}
