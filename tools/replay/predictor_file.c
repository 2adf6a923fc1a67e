/* predictor_file.c -- reads trained predictors; gen/predictor.lua reads the same file by the same
 * rules.
 */
#include "predictor_file.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_GROUP = 64, MAX_TREE = 64, MAX_DEPTH = 10, MAX_HIDDEN = 3, MAX_LAYER = 1024 };
static const size_t max_bytes = (size_t)64 << 20;

struct scan {
    struct predictor_file *f;
    char *at;         /* zero-terminated text */
    char section[32]; /* for messages */
};

__attribute__((format(printf, 2, 3))) static int fail(struct predictor_file *f, const char *fmt,
                                                      ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(f->why, sizeof f->why, fmt, ap);
    va_end(ap);
    return -1;
}

static size_t word(struct scan *s, char **from)
{
    s->at += strspn(s->at, " \n");
    *from = s->at;
    const size_t n = strcspn(s->at, " \n");
    s->at += n;
    return n;
}

/* Most characters of a word in a message, whose text is "nothing" when there is no word. */
static int shown(size_t n) { return n == 0 || n > 20 ? 20 : (int)n; }

/* A whole number of lo..hi, or -1 with why. */
static int integer(struct scan *s, const char *what, long lo, long hi, long *out)
{
    char *w, *end;
    const size_t n = word(s, &w);
    errno = 0;
    *out = strtol(w, &end, 10);
    if (n > 0 && end == w + n && !errno && *out >= lo && *out <= hi) return 0;
    return fail(s->f, "%s: %s: want %ld..%ld, got %.*s", s->section, what, lo, hi, shown(n),
                n ? w : "nothing");
}

static int real(struct scan *s, const char *what, float *out)
{
    char *w, *end;
    const size_t n = word(s, &w);
    *out = strtof(w, &end);
    if (n > 0 && end == w + n && isfinite(*out)) return 0;
    return fail(s->f, "%s: %s: want a number, got %.*s", s->section, what, shown(n),
                n ? w : "nothing");
}

static void *many(struct scan *s, const char *what, size_t n, long lo, long hi)
{
    unsigned char *p = malloc(n ? n : 1);
    if (!p) fail(s->f, "not enough memory");
    for (size_t i = 0; p && i < n; i++) {
        long v;
        if (integer(s, what, lo, hi, &v)) return free(p), NULL;
        p[i] = (unsigned char)v;
    }
    return p;
}

static float *reals(struct scan *s, const char *what, size_t n)
{
    float *p = malloc(n * sizeof *p);
    if (!p) fail(s->f, "not enough memory");
    for (size_t i = 0; p && i < n; i++)
        if (real(s, what, &p[i])) return free(p), NULL;
    return p;
}

/* FIRST LAST of a group, after all that were before. */
static int group(struct scan *s, long after, uint32_t *first, uint32_t *last)
{
    const long top = (long)s->f->shape.n_layer - 1;
    long a, b;
    if (integer(s, "first layer", after, top, &a) || integer(s, "last layer", a, top, &b))
        return -1;
    *first = (uint32_t)a, *last = (uint32_t)b;
    return 0;
}

static int forest(struct scan *s)
{
    struct predictor_file *f = s->f;
    const uint32_t n = f->t.n_forest;
    long trees, depth;
    if (n == MAX_GROUP) return fail(f, "forest: want at most %d groups", MAX_GROUP);
    struct ig_pforest *g = &f->forest[n];
    if (group(s, n ? (long)g[-1].last + 1 : 0, &g->first, &g->last) ||
        integer(s, "trees", 1, MAX_TREE, &trees) || integer(s, "depth", 1, MAX_DEPTH, &depth))
        return -1;
    g->n_tree = (uint32_t)trees, g->depth = (uint32_t)depth;
    const size_t leaves = (size_t)trees << depth, inner = leaves - (size_t)trees;
    uint8_t *node = malloc(2 * inner);
    f->t.n_forest++;
    g->node = node;
    if (!node) return fail(f, "not enough memory");
    for (size_t i = 0; i < inner; i++) {
        long feature, threshold;
        if (integer(s, "feature", 0, IG_N_PFEATURE - 1, &feature) ||
            integer(s, "threshold", 0, 255, &threshold))
            return -1;
        node[2 * i] = (uint8_t)feature, node[2 * i + 1] = (uint8_t)threshold;
    }
    return (g->leaf = many(s, "leaf", leaves, 0, 255)) ? 0 : -1;
}

static int mlp(struct scan *s)
{
    struct predictor_file *f = s->f;
    const uint32_t n = f->t.n_mlp;
    long hidden, width;
    if (n == MAX_GROUP) return fail(f, "mlp: want at most %d groups", MAX_GROUP);
    struct ig_pmlp *g = &f->mlp[n];
    if (group(s, n ? (long)g[-1].last + 1 : 0, &g->first, &g->last) ||
        integer(s, "hidden layers", 1, MAX_HIDDEN, &hidden) ||
        integer(s, "width", 1, IG_PMLP_WIDTH, &width))
        return -1;
    g->n_hidden = (uint32_t)hidden, g->width = (uint32_t)width;
    f->t.n_mlp++;
    const size_t h = (size_t)hidden, w = (size_t)width;
    if (!(g->scale = reals(s, "scale", h + 1)) || !(g->bias = reals(s, "bias", h * w + 1)) ||
        !(g->weight = many(s, "weight", w * IG_N_PFEATURE + (h - 1) * w * w + w, -127, 127)))
        return -1;
    return 0;
}

static int linear(struct scan *s)
{
    struct predictor_file *f = s->f;
    const uint32_t n = f->t.n_linear;
    long layer, dist, rank;
    if (f->shape.n_embd == 0) return fail(f, "linear: want a shape with a width, got 0");
    if (integer(s, "layer", 0, (long)f->shape.n_layer - 1, &layer) ||
        integer(s, "distance", 1, IG_PREDICT_DIST, &dist) ||
        integer(s, "rank", 1, IG_PLINEAR_RANK, &rank))
        return -1;
    struct ig_plinear *g = &f->linear[n];
    if (dist > layer)
        return fail(f, "linear: distance: want at most the layer, %ld, got %ld", layer, dist);
    if (n && (layer < g[-1].layer || (layer == g[-1].layer && dist <= g[-1].dist)))
        return fail(f, "linear: want ascending layers and distances, got %ld %ld", layer, dist);
    *g = (struct ig_plinear){ .layer = (uint32_t)layer,
                              .dist = (uint32_t)dist,
                              .rank = (uint32_t)rank };
    f->t.n_linear++;
    if (real(s, "scale", &g->v_scale) || real(s, "scale", &g->u_scale) ||
        !(g->bias = reals(s, "bias", f->shape.n_expert)) ||
        !(g->v = many(s, "v", (size_t)rank * f->shape.n_embd, -127, 127)) ||
        !(g->u = many(s, "u", (size_t)rank * f->shape.n_expert, -127, 127)))
        return -1;
    return 0;
}

static int header(struct scan *s)
{
    struct predictor_file *f = s->f;
    char *w;
    long version, layers, experts, k, embd, features;
    size_t n = word(s, &w);
    if (n != 15 || memcmp(w, "ingot-predictor", n))
        return fail(f, "header: want ingot-predictor, got %.*s", shown(n), w);
    if (integer(s, "version", 1, 1, &version)) return -1;
    n = word(s, &w);
    if (n != 5 || memcmp(w, "shape", n)) return fail(f, "header: want shape");
    if (integer(s, "layers", 1, MAX_LAYER, &layers) || integer(s, "experts", 1, 8192, &experts) ||
        integer(s, "top-k", 1, experts < 256 ? experts : 256, &k) ||
        integer(s, "width", 0, 1 << 20, &embd) ||
        integer(s, "features", IG_N_PFEATURE, IG_N_PFEATURE, &features))
        return -1;
    f->shape =
        (struct ig_pshape){ (uint32_t)layers, (uint32_t)experts, (uint32_t)k, (uint32_t)embd };
    f->forest = calloc(MAX_GROUP, sizeof *f->forest);
    f->mlp = calloc(MAX_GROUP, sizeof *f->mlp);
    f->linear = calloc((size_t)layers * IG_PREDICT_DIST, sizeof *f->linear);
    f->t.forest = f->forest, f->t.mlp = f->mlp, f->t.linear = f->linear;
    return f->forest && f->mlp && f->linear ? 0 : fail(f, "not enough memory");
}

int ig_predictor_file_parse(struct predictor_file *f, const char *text, size_t size)
{
    static const struct {
        const char *name;
        int (*read)(struct scan *s);
    } section[] = { { "forest", forest }, { "mlp", mlp }, { "linear", linear } };
    memset(f, 0, sizeof *f);
    if (size > max_bytes)
        return fail(f, "length: want at most %zu bytes, got %zu", max_bytes, size);
    char *copy = malloc(size + 1), *w;
    if (!copy) return fail(f, "not enough memory");
    memcpy(copy, text, size);
    copy[size] = 0;
    struct scan s = { .f = f, .at = copy, .section = "header" };
    int rc = header(&s);
    while (!rc) {
        const size_t n = word(&s, &w);
        size_t i = 0;
        if (n == 3 && !memcmp(w, "end", n)) break;
        while (i < 3 && (strlen(section[i].name) != n || memcmp(section[i].name, w, n))) i++;
        if (i == 3) {
            rc = fail(f, "section: want forest, mlp, linear or end, got %.*s", shown(n),
                      n ? w : "nothing");
            break;
        }
        snprintf(s.section, sizeof s.section, "%s", section[i].name);
        rc = section[i].read(&s);
    }
    if (!rc && word(&s, &w)) rc = fail(f, "end: want nothing after it");
    free(copy);
    if (rc) ig_predictor_file_free(f);
    return rc;
}

void ig_predictor_file_free(struct predictor_file *f)
{
    for (uint32_t i = 0; i < f->t.n_forest; i++) {
        free((void *)(uintptr_t)f->forest[i].node);
        free((void *)(uintptr_t)f->forest[i].leaf);
    }
    for (uint32_t i = 0; i < f->t.n_mlp; i++) {
        free((void *)(uintptr_t)f->mlp[i].scale);
        free((void *)(uintptr_t)f->mlp[i].bias);
        free((void *)(uintptr_t)f->mlp[i].weight);
    }
    for (uint32_t i = 0; i < f->t.n_linear; i++) {
        free((void *)(uintptr_t)f->linear[i].bias);
        free((void *)(uintptr_t)f->linear[i].v);
        free((void *)(uintptr_t)f->linear[i].u);
    }
    free(f->forest);
    free(f->mlp);
    free(f->linear);
    f->t = (struct ig_ptables){ 0 };
    f->forest = NULL, f->mlp = NULL, f->linear = NULL;
}

int ig_predictor_file_read(struct predictor_file *f, const char *path, const struct trace *t)
{
    size_t size;
    char *text = ig_slurp(path, &size);
    memset(f, 0, sizeof *f);
    if (!text) return fail(f, "cannot read");
    const int rc = ig_predictor_file_parse(f, text, size);
    free(text);
    if (rc) return rc;
    const struct ig_pshape s = f->shape;
    if (s.n_layer == t->n_layer && s.n_expert == t->n_expert && s.top_k == t->top_k) return 0;
    ig_predictor_file_free(f);
    return fail(f, "shape: want the trace's %u layers, %u experts, %u used, got %u, %u, %u",
                t->n_layer, t->n_expert, t->top_k, s.n_layer, s.n_expert, s.top_k);
}
