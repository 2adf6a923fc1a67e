/* trace.c -- reads the files that hold routing traces; see trace.h. */
#include "trace.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Limits of the reader, far above any model: they keep a hostile header from asking for
 * terabytes before the file's length is compared. */
enum { MAX_LAYER = 1024, MAX_EXPERT = 8192, MAX_K = 256, MAX_DOC = 1 << 20, MAX_TOKEN = 1 << 24 };
static const uint64_t max_cells = UINT64_C(1) << 28; /* rows x layers x k */

__attribute__((format(printf, 2, 3))) static int fail(struct trace *t, const char *fmt, ...)
{
    char why[sizeof t->why];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(why, sizeof why, fmt, ap);
    va_end(ap);
    ig_trace_free(t);
    memcpy(t->why, why, sizeof why);
    return -1;
}

static int shape_ok(struct trace *t, uint64_t rows)
{
    if (t->n_layer < 1 || t->n_layer > MAX_LAYER)
        return fail(t, "layers: want 1..%d, got %u", MAX_LAYER, t->n_layer);
    if (t->n_expert < 1 || t->n_expert > MAX_EXPERT)
        return fail(t, "experts: want 1..%d, got %u", MAX_EXPERT, t->n_expert);
    if (t->top_k < 1 || t->top_k > MAX_K || t->top_k > t->n_expert)
        return fail(t, "top-k: want 1..%u, got %u", t->n_expert < MAX_K ? t->n_expert : MAX_K,
                    t->top_k);
    if (rows < 1 || rows * t->n_layer * t->top_k > max_cells || rows > UINT32_MAX / 2)
        return fail(t, "tokens: %llu with this shape are none or too many",
                    (unsigned long long)rows);
    return 0;
}

static int allocate(struct trace *t, uint32_t rows)
{
    const size_t cells = (size_t)rows * t->n_layer * t->top_k;
    t->n_row = rows;
    t->expert = malloc(cells * sizeof *t->expert);
    t->weight = calloc(cells, sizeof *t->weight);
    if (!t->bytes) t->bytes = calloc(t->n_layer, sizeof *t->bytes);
    if (!t->expert || !t->weight || !t->bytes) return fail(t, "not enough memory");
    for (size_t i = 0; i < cells; i++) t->expert[i] = IG_NO_EXPERT;
    return 0;
}

static uint32_t u32(const char *p)
{
    const unsigned char *b = (const unsigned char *)p;
    return (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

/* Bytes to ids, each below n_expert or, where allowed, 255 for none. */
static int widen(struct trace *t, uint16_t *to, const char *from, size_t n, int none_ok,
                 const char *field)
{
    for (size_t i = 0; i < n; i++) {
        const unsigned char e = (unsigned char)from[i];
        if (e < t->n_expert)
            to[i] = e;
        else if (none_ok && e == 255)
            to[i] = IG_NO_EXPERT;
        else
            return fail(t, "%s: want below %u, got %u at %zu", field, t->n_expert, e, i);
    }
    return 0;
}

/* An expert chosen twice by one token would count a hit that is none. */
static int distinct(struct trace *t)
{
    for (size_t at = 0; at < (size_t)t->n_row * t->n_layer * t->top_k; at += t->top_k)
        for (uint32_t i = 1; i < t->top_k; i++)
            for (uint32_t j = 0; j < i; j++)
                if (t->expert[at + i] != IG_NO_EXPERT && t->expert[at + i] == t->expert[at + j])
                    return fail(t, "expert ids: %u twice in row %zu layer %zu", t->expert[at + i],
                                at / t->top_k / t->n_layer, at / t->top_k % t->n_layer);
    return 0;
}

static int token_ids(struct trace *t, const char *from)
{
    t->token = malloc(t->n_row * sizeof *t->token);
    if (!t->token) return fail(t, "not enough memory");
    for (uint32_t i = 0; i < t->n_row; i++) {
        if (u32(from + 4 * (size_t)i) > MAX_TOKEN)
            return fail(t, "token ids: row %u is above %d", i, MAX_TOKEN);
        t->token[i] = (int32_t)u32(from + 4 * (size_t)i);
    }
    return 0;
}

/* One run cut into windows: each window is a document. */
static int parse_v1(struct trace *t, const char *s, size_t size)
{
    if (size < 32) return fail(t, "header: want 32 bytes, got %zu", size);
    const uint32_t rows = u32(s + 8), window = u32(s + 24);
    t->n_layer = u32(s + 12);
    t->n_expert = u32(s + 16);
    t->top_k = u32(s + 20);
    if (shape_ok(t, rows)) return -1;
    if (t->n_expert > 255) return fail(t, "experts: want at most 255, got %u", t->n_expert);
    if (window < 1) return fail(t, "window: want 1 or more, got 0");

    const size_t cells = (size_t)rows * t->n_layer * t->top_k;
    const size_t ids = 32 + 4 * (size_t)rows, weights = (ids + cells + 3) & ~(size_t)3;
    if (size != weights + 4 * cells)
        return fail(t, "length: want %zu bytes, got %zu", weights + 4 * cells, size);
    if (allocate(t, rows) || token_ids(t, s + 32) ||
        widen(t, t->expert, s + ids, cells, 0, "expert ids"))
        return -1;
    memcpy(t->weight, s + weights, 4 * cells);
    for (size_t i = 0; i < cells; i++)
        if (!(t->weight[i] >= 0 && t->weight[i] <= 1.001f))
            return fail(t, "weights: want 0..1, got %g at %zu", (double)t->weight[i], i);

    t->n_doc = (rows - 1) / window + 1;
    t->doc = calloc(t->n_doc, sizeof *t->doc);
    if (!t->doc) return fail(t, "not enough memory");
    for (uint32_t d = 0; d < t->n_doc; d++) {
        const uint32_t left = rows - d * window;
        t->doc[d] =
            (struct trace_doc){ .first = d * window, .tokens = left < window ? left : window };
    }
    return distinct(t);
}

static int docs_v2(struct trace *t, const char *s, uint64_t *rows, uint32_t longest)
{
    t->doc = calloc(t->n_doc, sizeof *t->doc);
    if (!t->doc) return fail(t, "not enough memory");
    for (uint32_t d = 0; d < t->n_doc; d++, s += 16) {
        t->doc[d] = (struct trace_doc){
            .first = (uint32_t)*rows, .tokens = u32(s), .prompt = u32(s + 4), .domain = u32(s + 8)
        };
        if (t->doc[d].tokens < 1 || t->doc[d].tokens > longest)
            return fail(t, "document %u: tokens: want 1..%u, got %u", d, longest, t->doc[d].tokens);
        if (t->doc[d].prompt > t->doc[d].tokens)
            return fail(t, "document %u: prompt: want at most %u, got %u", d, t->doc[d].tokens,
                        t->doc[d].prompt);
        *rows += t->doc[d].tokens;
        if (*rows > UINT32_MAX / 2) return fail(t, "tokens: too many");
    }
    return 0;
}

static int parse_v2(struct trace *t, const char *s, size_t size)
{
    if (size < 32) return fail(t, "header: want 32 bytes, got %zu", size);
    const uint32_t longest = u32(s + 12);
    t->n_doc = u32(s + 8);
    t->n_layer = u32(s + 16);
    t->n_expert = u32(s + 20);
    t->top_k = u32(s + 24);
    t->n_dist = u32(s + 28);
    if (t->n_doc < 1 || t->n_doc > MAX_DOC)
        return fail(t, "documents: want 1..%d, got %u", MAX_DOC, t->n_doc);
    if (t->n_dist > IG_MAX_DIST)
        return fail(t, "distances: want at most %d, got %u", IG_MAX_DIST, t->n_dist);
    if (shape_ok(t, 1)) return -1;
    if (t->n_expert > 255) return fail(t, "experts: want at most 255, got %u", t->n_expert);

    const size_t docs_at = 32 + 4 * (size_t)t->n_dist, tokens_at = docs_at + 16 * (size_t)t->n_doc;
    if (size < tokens_at)
        return fail(t, "length: want at least %zu bytes, got %zu", tokens_at, size);
    for (uint32_t i = 0; i < t->n_dist; i++) {
        t->dist[i] = u32(s + 32 + 4 * i);
        if (t->dist[i] < 1 || t->dist[i] >= t->n_layer || (i && t->dist[i] <= t->dist[i - 1]))
            return fail(t, "distances: want ascending, 1..%u, got %u", t->n_layer - 1, t->dist[i]);
    }
    uint64_t rows = 0;
    if (docs_v2(t, s + docs_at, &rows, longest) || shape_ok(t, rows)) return -1;

    const size_t cells = (size_t)rows * t->n_layer * t->top_k;
    const size_t ids_at = tokens_at + 4 * (size_t)rows;
    if (size != ids_at + (2 + t->n_dist) * cells)
        return fail(t, "length: want %zu bytes, got %zu", ids_at + (2 + t->n_dist) * cells, size);
    if (allocate(t, (uint32_t)rows) || token_ids(t, s + tokens_at) ||
        widen(t, t->expert, s + ids_at, cells, 0, "expert ids"))
        return -1;
    for (size_t i = 0; i < cells; i++)
        t->weight[i] = (float)(unsigned char)s[ids_at + cells + i] / 255;
    if (t->n_dist) {
        t->predicted = malloc(t->n_dist * cells * sizeof *t->predicted);
        if (!t->predicted) return fail(t, "not enough memory");
        if (widen(t, t->predicted, s + ids_at + 2 * cells, t->n_dist * cells, 1, "predicted ids"))
            return -1;
    }
    return distinct(t);
}

/* -- route CSV: turn,phase,step,layer,slot,expert,weight,residency,expert_bytes */

struct line {
    uint32_t turn, phase, step, layer, slot, expert;
    float weight;
};

static int by_place(const void *a, const void *b)
{
    const struct line *x = a, *y = b;
#define ORDER(f)                                                                                   \
    if (x->f != y->f) return x->f < y->f ? -1 : 1
    ORDER(turn);
    ORDER(phase);
    ORDER(step);
    ORDER(layer);
    ORDER(slot);
#undef ORDER
    return 0;
}

static int number(const char **p, const char *end, uint32_t *out, char after)
{
    uint64_t n = 0;
    const char *s = *p;
    for (; s < end && *s >= '0' && *s <= '9'; s++) {
        n = n * 10 + (uint64_t)(*s - '0');
        if (n > UINT32_MAX) return 0;
    }
    if (s == *p || s == end || *s != after) return 0;
    *p = s + 1;
    *out = (uint32_t)n;
    return 1;
}

static int fraction(const char **p, const char *end, float *out)
{
    char buf[40];
    size_t n = 0;
    while (*p + n < end && n < sizeof buf - 1 && (*p)[n] != ',' && (*p)[n] != '\n')
        buf[n] = (*p)[n], n++;
    buf[n] = 0;
    char *stop;
    *out = strtof(buf, &stop);
    if (n == 0 || stop != buf + n || *p + n == end || (*p)[n] != ',') return 0;
    *p += n + 1;
    return *out >= 0 && *out <= 1.001f;
}

/* "# ... key=N ...": the number after `key`, or 0. */
static uint32_t field(const char *s, const char *end, const char *key)
{
    const size_t n = strlen(key);
    for (; s + n < end; s++)
        if (!memcmp(s, key, n)) {
            uint64_t v = 0;
            for (s += n; s < end && *s >= '0' && *s <= '9' && v <= UINT32_MAX; s++)
                v = v * 10 + (uint64_t)(*s - '0');
            return v <= UINT32_MAX ? (uint32_t)v : 0;
        }
    return 0;
}

static int comment(struct trace *t, const char *s, const char *end)
{
    if (field(s, end, " n_layer=")) {
        if (t->bytes) return fail(t, "header: the model is stated twice");
        t->n_layer = field(s, end, " n_layer=");
        t->n_expert = field(s, end, " n_expert=");
        t->top_k = field(s, end, " n_expert_used=");
        if (shape_ok(t, 1)) return -1;
        t->bytes = calloc(t->n_layer, sizeof *t->bytes);
        if (!t->bytes) return fail(t, "not enough memory");
    } else if (field(s, end, " expert_bytes=")) {
        const uint32_t layer = field(s, end, " layer=");
        if (!t->bytes || layer >= t->n_layer)
            return fail(t, "header: layer: want below %u, got %u", t->n_layer, layer);
        t->bytes[layer] = field(s, end, " expert_bytes=");
    }
    return 0;
}

/* Rows sorted by place become tokens; a (turn, phase, step) is a token, a turn is a document. */
static int build(struct trace *t, struct line *line, size_t n)
{
    uint32_t rows = 0;
    qsort(line, n, sizeof *line, by_place);
    for (size_t i = 0; i < n; i++) {
        const struct line *a = &line[i], *b = i ? a - 1 : NULL;
        if (b && !by_place(a, b))
            return fail(t, "turn %u step %u layer %u slot %u: stated twice", a->turn, a->step,
                        a->layer, a->slot);
        rows += !b || a->turn != b->turn || a->phase != b->phase || a->step != b->step;
        t->n_doc += !b || a->turn != b->turn;
    }
    /* A token names most of its layers and ranks; a file that does not asks for memory only. */
    if ((uint64_t)rows * t->n_layer * t->top_k > 16 * (uint64_t)n + 4096)
        return fail(t, "rows: %zu for %u tokens of %u layers x %u experts", n, rows, t->n_layer,
                    t->top_k);
    if (shape_ok(t, rows) || allocate(t, rows)) return -1;
    t->doc = calloc(t->n_doc, sizeof *t->doc);
    if (!t->doc) return fail(t, "not enough memory");

    uint32_t row = 0, doc = 0;
    for (size_t i = 0; i < n; i++) {
        const struct line *a = &line[i], *b = i ? a - 1 : NULL;
        const int new_doc = b && a->turn != b->turn;
        const int new_row = !b || new_doc || a->phase != b->phase || a->step != b->step;
        row += b && new_row;
        doc += (uint32_t)new_doc;
        if (new_row) {
            if (!t->doc[doc].tokens) t->doc[doc].first = row;
            t->doc[doc].tokens++;
            t->doc[doc].prompt += a->phase == 0;
        }
        const size_t at = trace_at(t, row, a->layer) + a->slot;
        t->expert[at] = (uint16_t)a->expert;
        t->weight[at] = a->weight;
    }
    t->is_route = 1;
    return distinct(t);
}

static int parse_csv(struct trace *t, const char *s, size_t size)
{
    const char *end = s + size;
    size_t lines = 0, n = 0;
    for (const char *p = s; p < end; p++) lines += *p == '\n';
    struct line *line = malloc((lines + 1) * sizeof *line);
    if (!line) return fail(t, "not enough memory");

    for (size_t at = 1; s < end; at++) {
        const char *nl = memchr(s, '\n', (size_t)(end - s));
        const char *stop = nl ? nl + 1 : end;
        struct line *a = &line[n];
        uint32_t resident, copied;
        if (*s == '#') {
            if (comment(t, s, stop)) return free(line), -1;
        } else if (stop - s > 5 && !memcmp(s, "turn,", 5)) {
            /* column names */
        } else if (number(&s, stop, &a->turn, ',') && number(&s, stop, &a->phase, ',') &&
                   number(&s, stop, &a->step, ',') && number(&s, stop, &a->layer, ',') &&
                   number(&s, stop, &a->slot, ',') && number(&s, stop, &a->expert, ',') &&
                   fraction(&s, stop, &a->weight) && number(&s, stop, &resident, ',') &&
                   number(&s, stop, &copied, '\n') && s == stop) {
            if (a->layer >= t->n_layer || a->slot >= t->top_k || a->expert >= t->n_expert ||
                a->phase > 1) {
                free(line);
                return fail(t, "line %zu: phase, layer, slot or expert is outside the header's",
                            at);
            }
            n++;
        } else {
            free(line);
            return fail(t,
                        "line %zu: want 9 numbers turn,phase,step,layer,slot,expert,weight,"
                        "residency,bytes",
                        at);
        }
        s = stop;
    }
    if (!n) return free(line), fail(t, "no rows");
    const int rc = build(t, line, n);
    free(line);
    return rc;
}

int ig_trace_parse(struct trace *t, const char *data, size_t size)
{
    memset(t, 0, sizeof *t);
    if (size >= 8 && !memcmp(data, "MOETRC01", 8)) return parse_v1(t, data, size);
    if (size >= 8 && !memcmp(data, "MOETRC02", 8)) return parse_v2(t, data, size);
    if (size && data[0] == '#') return parse_csv(t, data, size);
    return fail(t, "magic: want MOETRC01, MOETRC02 or a route CSV that starts with #");
}

int ig_trace_read(struct trace *t, const char *path)
{
    memset(t, 0, sizeof *t);
    FILE *f = fopen(path, "rb");
    if (!f) return fail(t, "cannot open: %s", strerror(errno));
    char *data = NULL;
    size_t size = 0, room = 0;
    for (;;) {
        if (size == room) {
            char *more = realloc(data, room = room ? 2 * room : 1 << 20);
            if (!more) break;
            data = more;
        }
        const size_t got = fread(data + size, 1, room - size, f);
        if (got == 0) break;
        size += got;
    }
    const int bad = ferror(f) || !feof(f);
    fclose(f);
    const int rc = bad ? fail(t, "cannot read") : ig_trace_parse(t, data, size);
    free(data);
    return rc;
}

void ig_trace_free(struct trace *t)
{
    free(t->doc);
    free(t->token);
    free(t->expert);
    free(t->weight);
    free(t->bytes);
    free(t->predicted);
    memset(t, 0, sizeof *t);
}
