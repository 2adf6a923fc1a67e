/* jinja_value.c -- the arena, values and containers of the template engine. */
#include "jinja.h"
#include <stdio.h>
#include <stdlib.h>

struct ig_jchunk {
    struct ig_jchunk *next;
    size_t size;
    _Alignas(16) char data[];
};

struct ig_jvar {
    struct ig_jvar *next;
    const char *name;
    struct ig_jv value;
};

void *ig_jarena_get(struct ig_jarena *a, size_t n)
{
    if (n > IG_JINJA_MAX_BYTES) return NULL;
    n = (n + 15) & ~(size_t)15;
    if (!a->chunk || a->chunk->size - a->used < n) {
        const size_t size = n > 16384 ? n : 65536 - sizeof(struct ig_jchunk);
        if (size > IG_JINJA_MAX_BYTES - a->total) return NULL;
        struct ig_jchunk *k = calloc(1, sizeof *k + size);
        if (!k) return NULL;
        k->size = size;
        a->total += size;
        if (n > 16384 && a->chunk) { /* behind the chunk in use, which has room left */
            k->next = a->chunk->next;
            a->chunk->next = k;
            return k->data;
        }
        k->next = a->chunk;
        a->chunk = k;
        a->used = 0;
    }
    void *p = a->chunk->data + a->used;
    a->used += n;
    return p;
}

void ig_jarena_free(struct ig_jarena *a)
{
    while (a->chunk) {
        struct ig_jchunk *next = a->chunk->next;
        free(a->chunk);
        a->chunk = next;
    }
    a->used = a->total = 0;
}

int ig_jinja_fail(struct ig_jctx *c, const char *fmt, ...)
{
    char text[800];
    va_list ap;
    if (c->failed) return 0; /* the first reason is the one to tell */
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    c->failed = 1;
    c->err = ig_fail(c->why, IG_BAD_FILE, "chat template: line %d: %s", c->line, text);
    return 0;
}

void *ig_jget(struct ig_jctx *c, size_t n)
{
    void *p = ig_jarena_get(&c->arena, n);
    if (!p) ig_jinja_fail(c, "needs too much memory");
    return p;
}

int ig_jinja_step(struct ig_jctx *c, int64_t n)
{
    c->steps += n;
    return c->steps <= IG_JINJA_MAX_STEP || ig_jinja_fail(c, "takes too many steps");
}

/* -- buffers */
int ig_jbuf_put(struct ig_jctx *c, struct ig_jbuf *b, const char *p, const unsigned char *mark,
                size_t n)
{
    if (n == 0) return 1;
    if (n > b->cap - b->n) {
        size_t cap = b->cap ? 2 * b->cap : 64;
        while (cap - b->n < n) cap *= 2;
        char *bytes = ig_jget(c, cap);
        unsigned char *marks = b->mark ? ig_jget(c, cap) : NULL;
        if (!bytes || (b->mark && !marks)) return 0;
        if (b->n) memcpy(bytes, b->p, b->n);
        if (b->mark) memcpy(marks, b->mark, b->n);
        b->p = bytes;
        b->mark = marks;
        b->cap = cap;
    }
    if (mark && !b->mark) {
        b->mark = ig_jget(c, b->cap);
        if (!b->mark) return 0;
    }
    memcpy(b->p + b->n, p, n);
    if (mark)
        memcpy(b->mark + b->n, mark, n);
    else if (b->mark)
        memset(b->mark + b->n, 0, n);
    b->n += n;
    return 1;
}

int ig_jbuf_puts(struct ig_jctx *c, struct ig_jbuf *b, const char *s)
{
    return ig_jbuf_put(c, b, s, NULL, strlen(s));
}

int ig_jbuf_str(struct ig_jctx *c, struct ig_jbuf *b, const struct ig_jstr *s)
{
    return ig_jbuf_put(c, b, s->p, s->mark, s->n);
}

static int wrap(struct ig_jctx *c, const char *p, const unsigned char *mark, size_t n,
                struct ig_jv *out)
{
    struct ig_jstr *s = ig_jget(c, sizeof *s);
    if (!s) return 0;
    s->p = p ? p : "";
    s->mark = mark;
    s->n = n;
    *out = (struct ig_jv){ .type = IG_J_STR, .u.s = s };
    return 1;
}

int ig_jbuf_value(struct ig_jctx *c, const struct ig_jbuf *b, struct ig_jv *out)
{
    return wrap(c, b->p, b->mark, b->n, out);
}

/* -- strings */
int ig_jstr_new(struct ig_jctx *c, const char *p, const unsigned char *mark, size_t n,
                struct ig_jv *out)
{
    char *bytes = ig_jget(c, n + 1);
    unsigned char *marks = mark ? ig_jget(c, n + 1) : NULL;
    if (!bytes || (mark && !marks)) return 0;
    if (n) memcpy(bytes, p, n);
    if (mark && n) memcpy(marks, mark, n);
    return wrap(c, bytes, marks, n, out);
}

int ig_jstr_sub(struct ig_jctx *c, const struct ig_jstr *s, size_t from, size_t to,
                struct ig_jv *out)
{
    return wrap(c, s->p + from, s->mark ? s->mark + from : NULL, to - from, out);
}

int ig_jstr_is(const struct ig_jv *v, const char *text)
{
    return v->type == IG_J_STR && v->u.s->n == strlen(text) && !memcmp(v->u.s->p, text, v->u.s->n);
}

/* -- lists */
int ig_jlist_new(struct ig_jctx *c, enum ig_jtype type, struct ig_jv *out)
{
    struct ig_jlist *l = ig_jget(c, sizeof *l);
    if (!l) return 0;
    *out = (struct ig_jv){ .type = type, .u.l = l };
    return 1;
}

int ig_jlist_put(struct ig_jctx *c, struct ig_jlist *l, struct ig_jv v)
{
    if (l->n == l->cap) {
        const size_t cap = l->cap ? 2 * l->cap : 4;
        struct ig_jv *p = ig_jget(c, cap * sizeof *p);
        if (!p) return 0;
        if (l->n) memcpy(p, l->v, l->n * sizeof *p);
        l->v = p;
        l->cap = cap;
    }
    l->v[l->n++] = v;
    return 1;
}

/* -- dicts */
int ig_jdict_new(struct ig_jctx *c, struct ig_jv *out)
{
    struct ig_jdict *d = ig_jget(c, sizeof *d);
    if (!d) return 0;
    *out = (struct ig_jv){ .type = IG_J_DICT, .u.d = d };
    return 1;
}

/* Keys are what JSON and templates make: strings, and scalars that equal as numbers do. */
static int key_equal(const struct ig_jv *a, const struct ig_jv *b)
{
    if (a->type == IG_J_STR && b->type == IG_J_STR)
        return a->u.s->n == b->u.s->n && !memcmp(a->u.s->p, b->u.s->p, a->u.s->n);
    if (a->type == IG_J_NONE || b->type == IG_J_NONE) return a->type == b->type;
    int eq = 0;
    struct ig_jctx none = { .failed = 1 };
    return ig_jequal(&none, a, b, &eq) && eq;
}

static uint64_t key_hash(const struct ig_jv *k)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325);
    if (k->type != IG_J_STR) return h; /* numbers are few: they share one slot */
    for (size_t i = 0; i < k->u.s->n; i++)
        h = (h ^ (unsigned char)k->u.s->p[i]) * UINT64_C(0x100000001b3);
    return h ^ h >> 32;
}

/* Index of the key, or -1; *slot where it would go. */
static int64_t find_key(const struct ig_jdict *d, const struct ig_jv *key, size_t *slot)
{
    if (!d->n_slot) {
        for (size_t i = 0; i < d->key.n; i++)
            if (key_equal(&d->key.v[i], key)) return (int64_t)i;
        return -1;
    }
    for (size_t h = (size_t)key_hash(key);; h++) {
        *slot = h & (d->n_slot - 1);
        if (d->slot[*slot] == 0) return -1;
        if (key_equal(&d->key.v[d->slot[*slot] - 1], key)) return (int64_t)d->slot[*slot] - 1;
    }
}

static int grow_slots(struct ig_jctx *c, struct ig_jdict *d)
{
    if (d->key.n < 8 || 2 * (d->key.n + 1) <= d->n_slot) return 1;
    const size_t n = d->n_slot ? 2 * d->n_slot : 32;
    uint32_t *slot = ig_jget(c, n * sizeof *slot);
    if (!slot) return 0;
    d->slot = slot;
    d->n_slot = n;
    for (size_t i = 0; i < d->key.n; i++) {
        size_t h = (size_t)key_hash(&d->key.v[i]);
        while (slot[h & (n - 1)]) h++;
        slot[h & (n - 1)] = (uint32_t)i + 1;
    }
    return 1;
}

int ig_jdict_put(struct ig_jctx *c, struct ig_jdict *d, struct ig_jv key, struct ig_jv v)
{
    size_t slot = 0;
    if (key.type > IG_J_STR && key.type != IG_J_TUPLE)
        return ig_jinja_fail(c, "unhashable type: '%s'", ig_jtype_name(&key));
    if (!grow_slots(c, d)) return 0;
    const int64_t i = find_key(d, &key, &slot);
    if (i >= 0) {
        d->value.v[i] = v;
        return 1;
    }
    if (d->n_slot) d->slot[slot] = (uint32_t)d->key.n + 1;
    return ig_jinja_step(c, 1) && ig_jlist_put(c, &d->key, key) && ig_jlist_put(c, &d->value, v);
}

const struct ig_jv *ig_jdict_get(const struct ig_jdict *d, const struct ig_jv *key)
{
    size_t slot;
    const int64_t i = find_key(d, key, &slot);
    return i < 0 ? NULL : &d->value.v[i];
}

const struct ig_jv *ig_jdict_gets(const struct ig_jdict *d, const char *key)
{
    struct ig_jstr s = { .p = key, .n = strlen(key) };
    const struct ig_jv k = { .type = IG_J_STR, .u.s = &s };
    return ig_jdict_get(d, &k);
}

/* -- names */
struct ig_jv ig_jundef(struct ig_jctx *c, const char *fmt, ...)
{
    struct ig_jv v = { .type = IG_J_UNDEF }, s;
    char text[200];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (ig_jstr_new(c, text, NULL, strlen(text), &s)) v.u.s = s.u.s;
    return v;
}

int ig_jframe_set(struct ig_jctx *c, struct ig_jframe *f, const char *name, struct ig_jv v)
{
    for (struct ig_jvar *x = f->var; x; x = x->next)
        if (!strcmp(x->name, name)) {
            x->value = v;
            return 1;
        }
    struct ig_jvar *x = ig_jget(c, sizeof *x);
    if (!x) return 0;
    *x = (struct ig_jvar){ .next = f->var, .name = name, .value = v };
    f->var = x;
    return 1;
}

const struct ig_jv *ig_jframe_get(const struct ig_jframe *f, const char *name)
{
    for (; f; f = f->parent)
        for (const struct ig_jvar *x = f->var; x; x = x->next)
            if (!strcmp(x->name, name)) return &x->value;
    return NULL;
}
