/* pack.c -- see pack.h: the walk over the plan and the output.
 *
 * The plan is walked twice: first every tensor is found and checked, then, with
 * the output open, every one is converted, in the order of the data section.
 */
#include "machine.h"
#include "pack_int.h"
#include "wfile_write.h"

#ifdef _OPENMP
#include <omp.h>
#endif
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "../kernels/panel.h"
#include "tables.h"

typedef unsigned long long ull; /* for %llu */

enum {
    CHUNK_BYTES = 16 << 20, /* converted panels in memory at a time */
    BLOCK_BYTES = 1 << 20,  /* of the resident part, a checksum */
    SLAB_BLOCK = 256 << 10, /* of an expert */
};

struct packer {
    const struct ig_pack_job *job;
    struct ig_pack_src src;
    struct ig_wwriter out;
    int writing; /* second walk */
    int cpus;
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
#ifdef _OPENMP
    /* OMP_NUM_THREADS may ask for less, and for more than there can be. */
    const int most = omp_get_max_threads(), threads = most < k->cpus ? most : k->cpus;
#endif
    enum ig_err result = IG_OK;

    memset(k->chunk, 0, (size_t)((hi - lo) * stride));
    for (int i = 0; i < n; i++) {
        const uint64_t at = it[i].mat.off - it[0].mat.off;
        const struct ig_pack_item *const item = &it[i];
#ifdef _OPENMP
/* Random panels are made faster than memory takes them: threads would only wait. */
#pragma omp parallel num_threads(threads) if (item->t != NULL)
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

static enum ig_err write_matrices(struct packer *k, uint64_t base, struct ig_pack_item *it, int n)
{
    const struct ig_mat *m = &it[0].mat;
    const uint32_t n_panel = (m->rows + IG_PANEL_ROWS - 1) / IG_PANEL_ROWS;
    const uint32_t step = m->stride < CHUNK_BYTES ? CHUNK_BYTES / m->stride : 1;
    enum ig_err err = make_room(k, (uint64_t)(step < n_panel ? step : n_panel) * m->stride);

    for (int i = 0; i < n && !err; i++) err = ig_pack_load(&k->src, &it[i], k->why);
    if (!err) err = pad_to(k, base + m->off);
    for (uint32_t lo = 0; lo < n_panel && !err; lo += step) {
        const uint32_t hi = n_panel - lo < step ? n_panel : lo + step;
        err = convert(k, it, n, lo, hi);
        if (!err) err = append(k, k->chunk, (hi - lo) * (uint64_t)m->stride);
    }
    for (int i = 0; i < n; i++) free(it[i].whole);
    return err;
}

/* n matrices (1, or gate and up) whose panels alternate; `base` is added to their offsets. */
static enum ig_err visit_matrices(struct packer *k, uint64_t base, struct ig_pack_item *it, int n)
{
    enum ig_err err = IG_OK;

    if (k->src.kind != IG_PACK_SYNTH)
        for (int i = 0; i < n && !err; i++) err = ig_pack_find(&k->src, &it[i], k->why);
    return err || !k->writing ? err : write_matrices(k, base, it, n);
}

static enum ig_err visit_vector(struct packer *k, enum ig_role role, int layer, int expert,
                                uint64_t off, uint32_t n)
{
    struct ig_pack_item it = { .role = role,
                               .vector = 1,
                               .layer = layer,
                               .expert = expert,
                               .mat = { .off = off, .rows = n, .cols = 1, .fmt = IG_F32 } };
    enum ig_err err = IG_OK;

    if (k->src.kind != IG_PACK_SYNTH) err = ig_pack_find(&k->src, &it, k->why);
    if (err || !k->writing) return err;
    err = make_room(k, n * sizeof(float));
    if (!err) err = ig_pack_load(&k->src, &it, k->why);
    if (!err) err = ig_pack_vector(&k->src, &it, (float *)(void *)k->chunk, k->why);
    if (!err) err = pad_to(k, off);
    if (!err) err = append(k, k->chunk, n * sizeof(float));
    free(it.whole);
    return err;
}

static enum ig_err visit_matrix(struct packer *k, enum ig_role role, int layer,
                                const struct ig_mat *m)
{
    struct ig_pack_item it = { .role = role, .layer = layer, .expert = -1, .mat = *m };
    return visit_matrices(k, 0, &it, 1);
}

/* Gate, up, down and their biases, whose roles follow in this order; `base` as above. */
static enum ig_err visit_mlp(struct packer *k, const enum ig_role role[3], int layer, int expert,
                             const struct ig_mat *const m[3], uint64_t base)
{
    struct ig_pack_item it[3];
    for (int i = 0; i < 3; i++)
        it[i] = (struct ig_pack_item){
            .role = role[i], .layer = layer, .expert = expert, .mat = *m[i]
        };

    const int wide = m[1]->rows ? 2 : 1; /* ReLU blocks have no up */
    enum ig_err err = visit_matrices(k, base, it, wide);
    if (!err) err = visit_matrices(k, base, it + 2, 1);
    for (int i = 0; i < 3 && !err; i++)
        if (m[i]->bias)
            err = visit_vector(k, (enum ig_role)(role[i] + 1), layer, expert, base + m[i]->bias,
                               m[i]->rows);
    return err;
}

/* What a layer may have in the resident part, in file order (gen/shape.lua): matrices, whose
 * biases follow at once and have the next role, and vectors of n elements. */
struct field {
    enum ig_role role;
    uint32_t n; /* 0: a matrix */
    size_t at;  /* in struct ig_layer */
};
#define MATRIX(role, name)                                                                         \
    {                                                                                              \
        IG_ROLE_##role, 0, offsetof(struct ig_layer, name)                                         \
    }
#define VECTOR(role, name, n)                                                                      \
    {                                                                                              \
        IG_ROLE_##role, n, offsetof(struct ig_layer, name)                                         \
    }
enum {
    FULL = (int)IG_QK_NORM == (int)IG_QK_NORM_FULL,
    Q_NORM = FULL ? IG_N_HEAD * IG_HEAD_DIM : IG_HEAD_DIM,
    K_NORM = FULL ? IG_N_HEAD_KV * IG_HEAD_DIM : IG_HEAD_DIM
};

/* clang-format off */
static const struct field mixer_fields[] = {
    VECTOR(ATTN_NORM, mixer_norm, IG_N_EMBD), VECTOR(ATTN_NORM_BIAS, mixer_norm_bias, IG_N_EMBD),
#if IG_KV_LORA
    MATRIX(ATTN_Q_A, q_a), VECTOR(ATTN_Q_A_NORM, q_a_norm, IG_Q_LORA),
    { IG_Q_LORA ? IG_ROLE_ATTN_Q_B : IG_ROLE_ATTN_Q, 0, offsetof(struct ig_layer, q) },
    MATRIX(ATTN_KV_A, kv_a), VECTOR(ATTN_KV_A_NORM, kv_a_norm, IG_KV_LORA),
    MATRIX(ATTN_K_B, k_b), MATRIX(ATTN_V_B, v_b), MATRIX(ATTN_O, o),
#else
    MATRIX(ATTN_Q, q), MATRIX(ATTN_K, k), MATRIX(ATTN_V, v), MATRIX(ATTN_O, o),
    VECTOR(ATTN_Q_NORM, q_norm, Q_NORM), VECTOR(ATTN_K_NORM, k_norm, K_NORM),
    VECTOR(ATTN_SINKS, sinks, IG_N_HEAD),
#endif
#if IG_N_LAYER_ENC
    VECTOR(REL_BIAS, rel_bias, IG_N_REL_BUCKET * IG_N_HEAD),
    VECTOR(CROSS_NORM, cross_norm, IG_N_EMBD),
    MATRIX(CROSS_Q, cross_q), MATRIX(CROSS_K, cross_k), MATRIX(CROSS_V, cross_v), MATRIX(CROSS_O, cross_o),
#endif
    VECTOR(FFN_NORM, ffn_norm, IG_N_EMBD), VECTOR(FFN_NORM_BIAS, ffn_norm_bias, IG_N_EMBD),
    MATRIX(ROUTER, router), VECTOR(ROUTE_BIAS, route_bias, IG_N_EXPERT),
    VECTOR(SHARED_SCALE, shared_gate, IG_N_EMBD),
};
/* clang-format on */

static enum ig_err visit_field(struct packer *k, const struct field *f, int layer)
{
    const unsigned char *at = (const unsigned char *)&ig_layers[layer] + f->at;
    const struct ig_mat *m = (const void *)at;
    const uint64_t *off = (const void *)at;

    if (f->n) return *off ? visit_vector(k, f->role, layer, -1, *off, f->n) : IG_OK;
    if (!m->rows) return IG_OK;
    enum ig_err err = visit_matrix(k, f->role, layer, m);
    if (!err && m->bias)
        err = visit_vector(k, (enum ig_role)(f->role + 1), layer, -1, m->bias, m->rows);
    return err;
}

static enum ig_err visit_layer(struct packer *k, int n)
{
    static const enum ig_role dense[] = { IG_ROLE_DENSE_GATE, IG_ROLE_DENSE_UP,
                                          IG_ROLE_DENSE_DOWN };
    static const enum ig_role shared[] = { IG_ROLE_SHARED_GATE, IG_ROLE_SHARED_UP,
                                           IG_ROLE_SHARED_DOWN };
    const struct ig_layer *l = &ig_layers[n];
    const struct ig_mat *const mats[] = { &l->dense_gate, &l->dense_up, &l->dense_down };
    enum ig_err err = IG_OK;

    for (size_t i = 0; i < sizeof mixer_fields / sizeof *mixer_fields && !err; i++)
        err = visit_field(k, &mixer_fields[i], n);
    if (!err && l->dense_gate.rows)
        err = visit_mlp(k, l->ffn == IG_FFN_DENSE ? dense : shared, n, -1, mats, 0);
    return err;
}

static enum ig_err visit_expert(struct packer *k, int n, int e)
{
    static const enum ig_role roles[] = { IG_ROLE_GATE, IG_ROLE_UP, IG_ROLE_DOWN };
    const struct ig_layer *l = &ig_layers[n];
    const struct ig_mat *const mats[] = { &l->gate, &l->up, &l->down };
    return visit_mlp(k, roles, n, e, mats, l->expert_off + (uint64_t)e * l->expert_stride);
}

static int is_tied(void) { return ig_output.off == ig_token_embd.off; }

/* Everything in the data section, by ascending offset (docs/ARCHITECTURE.md). */
static enum ig_err walk(struct packer *k)
{
    enum ig_err err = visit_matrix(k, IG_ROLE_TOKEN_EMBD, -1, &ig_token_embd);

    for (int n = 0; n < IG_N_LAYER && !err; n++) err = visit_layer(k, n);
    if (!err) err = visit_vector(k, IG_ROLE_OUTPUT_NORM, -1, -1, ig_output_norm, IG_N_EMBD);
    if (!err && ig_output_norm_bias)
        err = visit_vector(k, IG_ROLE_OUTPUT_NORM_BIAS, -1, -1, ig_output_norm_bias, IG_N_EMBD);
    if (!err && ig_enc_norm)
        err = visit_vector(k, IG_ROLE_ENC_NORM, -1, -1, ig_enc_norm, IG_N_EMBD);
    if (!err && !is_tied()) err = visit_matrix(k, IG_ROLE_OUTPUT, -1, &ig_output);
    if (!err && ig_output.bias)
        err = visit_vector(k, IG_ROLE_OUTPUT_BIAS, -1, -1, ig_output.bias, IG_N_VOCAB);
    for (int n = 0; n < IG_N_LAYER && !err; n++)
        for (int e = 0; e < (int)ig_layers[n].n_expert && !err; e++) err = visit_expert(k, n, e);
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

/* Bytes of an expert's blocks but the last: small enough that threads which wait for it can share
 * its checksums, and in a core's cache when they go on to compute with it. */
static uint64_t slab_block(uint64_t slab)
{
    uint64_t bytes = SLAB_BLOCK;
    while ((slab + bytes - 1) / bytes > IG_WBLOCKS) bytes *= 2;
    return bytes;
}

/* A slab at `at`: how many blocks, filled in where b is not NULL. */
static uint64_t slab_blocks(struct ig_wblock *b, uint64_t at, uint64_t slab)
{
    const uint64_t bytes = slab_block(slab), n = (slab + bytes - 1) / bytes;
    for (uint64_t i = 0; b && i < n; i++)
        b[i] = (struct ig_wblock){ .off = at + i * bytes,
                                   .bytes = i + 1 < n ? bytes : slab - i * bytes };
    return n;
}

/* The resident part in pieces, then every expert's slab in its own. */
static enum ig_err make_blocks(struct ig_wblock **blocks, uint32_t *n_block, struct ig_why *why)
{
    const uint64_t pieces = (IG_RESIDENT_BYTES + BLOCK_BYTES - 1) / BLOCK_BYTES;
    uint64_t n = pieces, at = 0;

    for (int l = 0; l < IG_N_LAYER; l++)
        n += ig_layers[l].n_expert * slab_blocks(NULL, 0, ig_layers[l].expert_stride);
    if (n > UINT32_MAX)
        return ig_fail(why, IG_FAIL, "want at most %u blocks, got %llu", UINT32_MAX, (ull)n);
    struct ig_wblock *b = calloc((size_t)n, sizeof *b);
    if (!b) return ig_fail(why, IG_NO_MEM, "no memory for %llu blocks", (ull)n);
    for (uint64_t i = 0; i < pieces; i++, at += BLOCK_BYTES) {
        const uint64_t left = IG_RESIDENT_BYTES - at;
        b[i] = (struct ig_wblock){ .off = at, .bytes = left < BLOCK_BYTES ? left : BLOCK_BYTES };
    }
    at = IG_RESIDENT_BYTES;
    n = pieces;
    for (int l = 0; l < IG_N_LAYER; l++)
        for (uint32_t e = 0; e < ig_layers[l].n_expert; e++, at += ig_layers[l].expert_stride)
            n += slab_blocks(b + n, at, ig_layers[l].expert_stride);
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
        if (!err) err = ig_ckpt_unchanged(&k->src.g.ckpt, k->why);
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
    struct packer k = { .job = job, .cpus = ig_machine_cpus(), .why = why };
    void *tokenizer = NULL;
    size_t tokenizer_bytes = 0;

    enum ig_err err = ig_pack_src_open(&k.src, job, why);
    if (err) return err;
    err = ig_pack_check_facts(&k.src, why);
    if (!err && k.src.kind != IG_PACK_WFILE) err = walk(&k);
    if (!err) ig_pack_warn_unused(&k.src, job->warn);
    if (!err) err = ig_pack_tokenizer(&k.src, job, &tokenizer, &tokenizer_bytes, why);
    if (!err) err = write_file(&k, tokenizer, tokenizer_bytes);
    free(tokenizer);
    free(k.chunk);
    ig_pack_src_close(&k.src);
    return err;
}
