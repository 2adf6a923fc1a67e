/* trace_bin.c -- writes MOETRC02 and hidden states; see trace_bin.h. */
#include "trace_bin.h"

#include "tables.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CELL = 4 + IG_N_EMBD, HEAD = 24 };
static const int none = 255;

static int put_all(int fd, const void *data, size_t bytes)
{
    const char *p = data;
    while (bytes > 0) {
        const ssize_t n = write(fd, p, bytes);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return 0;
        p += n;
        bytes -= (size_t)n;
    }
    return 1;
}

static enum ig_err open_hidden(struct ig_trace_bin *b, const char *path, struct ig_why *why)
{
    const uint32_t shape[4] = { b->rows, IG_N_LAYER, IG_N_EMBD, 0 };
    const enum ig_err err = ig_temp_open(&b->hidden, path, 0666, why);
    if (err != IG_OK) return err;
    if (!put_all(b->hidden.fd, "INGOTHID", 8) || !put_all(b->hidden.fd, shape, sizeof shape))
        b->bad = errno;
    return IG_OK;
}

enum ig_err ig_trace_bin_open(struct ig_trace_bin *b, uint32_t rows, uint32_t window,
                              const char *path, const char *hidden, struct ig_why *why)
{
    static const uint32_t dist[IG_TRACE_DISTS] = { 1, 2, 4, 8 };
    const size_t cells = (size_t)rows * IG_N_LAYER * IG_N_EXPERT_USED;
    *b = (struct ig_trace_bin){ .rows = rows, .window = window, .to.fd = -1, .hidden.fd = -1 };
    if (IG_N_EXPERT > none)
        return ig_fail(why, IG_FAIL, "a binary trace: want at most %d experts a layer, got %d",
                       none, IG_N_EXPERT);
    for (int l = 0; l < IG_N_LAYER; l++)
        if (ig_layers[l].ffn != IG_FFN_MOE)
            return ig_fail(why, IG_FAIL,
                           "a binary trace: want experts in every layer, got none in %d", l);
    while (b->n_dist < IG_TRACE_DISTS && dist[b->n_dist] < IG_N_LAYER)
        b->dist[b->n_dist] = dist[b->n_dist], b->n_dist++;
    b->expert = calloc(cells + 1, 1);
    b->weight = calloc(cells + 1, 1);
    b->predicted = malloc(b->n_dist * cells + 1);
    b->logit = malloc((IG_N_EXPERT + 15) / 16 * 16 * sizeof(float));
    b->scratch = malloc(IG_PEEK_BYTES);
    b->cell = malloc(CELL);
    if (!b->expert || !b->weight || !b->predicted || !b->logit || !b->scratch || !b->cell)
        return ig_fail(why, IG_NO_MEM, "no memory for a trace of %u tokens", rows);
    memset(b->predicted, none, b->n_dist * cells);
    const enum ig_err err = ig_temp_open(&b->to, path, 0666, why);
    return err == IG_OK && hidden ? open_hidden(b, hidden, why) : err;
}

static size_t at(uint32_t row, int layer)
{
    return ((size_t)row * IG_N_LAYER + (size_t)layer) * IG_N_EXPERT_USED;
}

/* The largest logits, in order; ties to the lower id. */
static void best(float *logit, uint8_t *id)
{
    for (int k = 0; k < IG_N_EXPERT_USED; k++) {
        int most = 0;
        for (int x = 1; x < IG_N_EXPERT; x++)
            if (logit[x] > logit[most]) most = x;
        id[k] = (uint8_t)most;
        logit[most] = -INFINITY;
    }
}

/* Eight bits a value and one scale, so that the largest is 127. */
static void keep_hidden(struct ig_trace_bin *b, int layer, uint32_t row, const float *x)
{
    float most = 0;
    for (int i = 0; i < IG_N_EMBD; i++)
        if (fabsf(x[i]) > most) most = fabsf(x[i]);
    const float scale = most / 127;
    memcpy(b->cell, &scale, sizeof scale);
    for (int i = 0; i < IG_N_EMBD; i++)
        b->cell[4 + i] = (unsigned char)(signed char)(scale > 0 ? lrintf(x[i] / scale) : 0);
    const off_t off = HEAD + (off_t)((size_t)row * IG_N_LAYER + (size_t)layer) * CELL;
    const ssize_t n = pwrite(b->hidden.fd, b->cell, CELL, off);
    if (n != CELL && !b->bad) b->bad = n < 0 ? errno : ENOSPC;
}

void ig_trace_bin_router_in(struct ig_trace_bin *b, struct ig_engine *e, int layer, uint32_t row,
                            const float *x, const float *norm)
{
    const size_t cells = (size_t)b->rows * IG_N_LAYER * IG_N_EXPERT_USED;
    for (uint32_t d = 0; d < b->n_dist; d++) {
        const int to = layer + (int)b->dist[d];
        if (to >= IG_N_LAYER) break;
        ig_peek_router(e, to, x, b->scratch, b->logit);
        best(b->logit, b->predicted + d * cells + at(row, to));
    }
    if (b->hidden.fd >= 0) keep_hidden(b, layer, row, norm);
}

void ig_trace_bin_routed(struct ig_trace_bin *b, int layer, uint32_t row, const int32_t *expert,
                         const float *weight)
{
    float sum = 0;
    for (int k = 0; k < IG_N_EXPERT_USED; k++) sum += weight[k];
    for (int k = 0; k < IG_N_EXPERT_USED; k++) {
        const float share = sum > 0 ? weight[k] / sum : 0;
        b->expert[at(row, layer) + (size_t)k] = (uint8_t)expert[k];
        b->weight[at(row, layer) + (size_t)k] = (uint8_t)lrintf(255 * (share < 1 ? share : 1));
    }
}

static int put_header(int fd, const struct ig_trace_bin *b)
{
    const uint32_t docs = (b->rows - 1) / b->window + 1,
                   longest = b->rows < b->window ? b->rows : b->window;
    const uint32_t shape[6] = {
        docs, longest, IG_N_LAYER, IG_N_EXPERT, IG_N_EXPERT_USED, b->n_dist
    };
    int ok = put_all(fd, "MOETRC02", 8) && put_all(fd, shape, sizeof shape) &&
             put_all(fd, b->dist, 4 * b->n_dist);
    for (uint32_t d = 0; ok && d < docs; d++) {
        const uint32_t left = b->rows - d * b->window;
        const uint32_t doc[4] = { left < b->window ? left : b->window, 0, 0, 0 };
        ok = put_all(fd, doc, sizeof doc);
    }
    return ok;
}

enum ig_err ig_trace_bin_write(struct ig_trace_bin *b, const int32_t *ids, struct ig_why *why)
{
    const size_t cells = (size_t)b->rows * IG_N_LAYER * IG_N_EXPERT_USED;
    const int fd = b->to.fd;
    if (b->bad) return ig_fail(why, IG_IO, "%s: cannot write: %s", b->hidden.out, strerror(b->bad));
    if (!put_header(fd, b) || !put_all(fd, ids, b->rows * sizeof *ids) ||
        !put_all(fd, b->expert, cells) || !put_all(fd, b->weight, cells) ||
        !put_all(fd, b->predicted, b->n_dist * cells))
        return ig_fail(why, IG_IO, "%s: cannot write: %s", b->to.out, strerror(errno));
    enum ig_err err = IG_OK;
    if (b->hidden.fd >= 0) err = ig_temp_keep(&b->hidden, why); /* the last opened ends first */
    return err == IG_OK ? ig_temp_keep(&b->to, why) : err;
}

void ig_trace_bin_close(struct ig_trace_bin *b)
{
    if (b->hidden.fd >= 0) ig_temp_drop(&b->hidden);
    if (b->to.fd >= 0) ig_temp_drop(&b->to);
    free(b->expert);
    free(b->weight);
    free(b->predicted);
    free(b->logit);
    free(b->scratch);
    free(b->cell);
}
