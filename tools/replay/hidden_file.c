/* hidden_file.c -- hidden states that `trace --hidden` recorded (docs/FORMAT.md): "INGOTHID", rows,
 * layers, width and 0 as u32; then for each row and layer a float scale and `width` int8.
 */
#include "predictor_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

char *ig_slurp(const char *path, size_t *size)
{
    FILE *f = fopen(path, "rb");
    char *data = NULL;
    long n = -1;
    if (f && !fseek(f, 0, SEEK_END)) n = ftell(f);
    if (n >= 0 && !fseek(f, 0, SEEK_SET)) data = malloc((size_t)n + 1);
    if (data && fread(data, 1, (size_t)n, f) != (size_t)n) free(data), data = NULL;
    if (f) fclose(f);
    *size = (size_t)n;
    return data;
}

enum { HEAD = 24 };

static uint32_t u32(const char *p)
{
    uint32_t v;
    memcpy(&v, p, sizeof v); /* little-endian, as the machines we run on */
    return v;
}

int ig_hidden_read(struct hidden *h, const char *path, const struct trace *t)
{
    size_t size;
    *h = (struct hidden){ .data = ig_slurp(path, &size) };
    if (!h->data) return snprintf(h->why, sizeof h->why, "cannot read"), -1;
    const int ok = size >= HEAD && !memcmp(h->data, "INGOTHID", 8);
    if (ok)
        h->n_row = u32(h->data + 8), h->n_layer = u32(h->data + 12), h->n_embd = u32(h->data + 16);
    const uint64_t cells = (uint64_t)h->n_row * h->n_layer;
    if (!ok)
        snprintf(h->why, sizeof h->why, "magic: want INGOTHID");
    else if (h->n_row != t->n_row || h->n_layer != t->n_layer || h->n_embd < 1 ||
             h->n_embd > 1 << 20)
        snprintf(h->why, sizeof h->why, "shape: want %u rows of %u layers, got %u, %u, width %u",
                 t->n_row, t->n_layer, h->n_row, h->n_layer, h->n_embd);
    else if (size != HEAD + cells * (4 + (uint64_t)h->n_embd))
        snprintf(h->why, sizeof h->why, "length: want %llu bytes, got %zu",
                 (unsigned long long)(HEAD + cells * (4 + (uint64_t)h->n_embd)), size);
    else
        return 0;
    free(h->data);
    h->data = NULL;
    return -1;
}

void ig_hidden_row(const struct hidden *h, uint32_t row, uint32_t layer, float *x)
{
    const char *p = h->data + HEAD + ((size_t)row * h->n_layer + layer) * (4 + (size_t)h->n_embd);
    float scale;
    memcpy(&scale, p, sizeof scale);
    for (uint32_t i = 0; i < h->n_embd; i++) x[i] = scale * (float)(signed char)p[4 + i];
}

void ig_hidden_free(struct hidden *h)
{
    free(h->data);
    h->data = NULL;
}
