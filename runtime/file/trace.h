/* trace.h -- a routing trace in memory, whatever file format it came from.
 *
 * Row = token in the order the model saw it.  Arrays are [row][layer][rank], rank 0 heaviest.
 */
#ifndef IG_TRACE_H
#define IG_TRACE_H

#include <stddef.h>
#include <stdint.h>

enum { IG_NO_EXPERT = 0xffff, IG_MAX_DIST = 8 };

struct trace_doc {
    uint32_t first, tokens; /* rows */
    uint32_t prompt;        /* of them prefill */
    uint32_t domain;
};

struct trace {
    uint32_t n_doc, n_row, n_layer, n_expert, top_k;
    struct trace_doc *doc;
    int32_t *token;   /* [n_row], NULL when the format has none */
    uint16_t *expert; /* IG_NO_EXPERT: that layer did not route this row */
    float *weight;
    uint64_t *bytes; /* [n_layer] of one expert, 0: unknown */
    uint32_t n_dist, dist[IG_MAX_DIST];
    uint16_t *predicted; /* [n_dist][row][layer][rank], stored next-router predictions */
    int is_route;        /* from a route CSV: main.c has its conventions */
    char why[200];       /* of a failed read: field, wanted, got */
};

/* Both return 0, or -1 with `why` set (and nothing to free).  parse reads all three formats:
 * the route CSV, MOETRC01, MOETRC02.  Hostile input is an error, never a crash. */
int ig_trace_read(struct trace *t, const char *path);
int ig_trace_parse(struct trace *t, const char *data, size_t size);
void ig_trace_free(struct trace *t);

static inline size_t trace_at(const struct trace *t, uint32_t row, uint32_t layer)
{
    return ((size_t)row * t->n_layer + layer) * t->top_k;
}

#endif
