/* jinja_op.c -- operators, comparison, iteration and subscripts, with Python's meaning. */
#include "jinja.h"
#include <math.h>
#include <stdlib.h>

static int is_num(const struct ig_jv *v)
{
    return v->type == IG_J_INT || v->type == IG_J_FLOAT || v->type == IG_J_BOOL;
}
static double as_float(const struct ig_jv *v)
{
    return v->type == IG_J_FLOAT ? v->u.f : v->type == IG_J_BOOL ? v->u.b : (double)v->u.i;
}
static int64_t as_int(const struct ig_jv *v) { return v->type == IG_J_BOOL ? v->u.b : v->u.i; }

static int undef(struct ig_jctx *c, const struct ig_jv *v)
{
    return ig_jinja_fail(c, "%.*s", v->u.s ? (int)v->u.s->n : 18,
                         v->u.s ? v->u.s->p : "an undefined value");
}

int ig_jtruth(const struct ig_jv *v)
{
    switch (v->type) {
    case IG_J_UNDEF:
    case IG_J_NONE:
        return 0;
    case IG_J_BOOL:
        return v->u.b;
    case IG_J_INT:
        return v->u.i != 0;
    case IG_J_FLOAT:
        return v->u.f != 0.0;
    case IG_J_STR:
        return v->u.s->n > 0;
    case IG_J_LIST:
    case IG_J_TUPLE:
        return v->u.l->n > 0;
    case IG_J_DICT:
        return v->u.d->key.n > 0;
    default:
        return 1;
    }
}

/* -- comparison */
static int str_compare(const struct ig_jstr *a, const struct ig_jstr *b)
{
    const size_t n = a->n < b->n ? a->n : b->n;
    const int cmp = n ? memcmp(a->p, b->p, n) : 0;
    return cmp ? cmp : (a->n > b->n) - (a->n < b->n);
}

static int dict_equal(struct ig_jctx *c, const struct ig_jdict *a, const struct ig_jdict *b,
                      int *out)
{
    *out = a->key.n == b->key.n;
    for (size_t i = 0; i < a->key.n && *out; i++) {
        const struct ig_jv *other = ig_jdict_get(b, &a->key.v[i]);
        if (!other) {
            *out = 0;
            break;
        }
        if (!ig_jequal(c, &a->value.v[i], other, out)) return 0;
    }
    return 1;
}

int ig_jequal(struct ig_jctx *c, const struct ig_jv *a, const struct ig_jv *b, int *out)
{
    *out = 0;
    if (!ig_jinja_step(c, 1)) return 0;
    if (is_num(a) && is_num(b)) {
        *out = a->type == IG_J_FLOAT || b->type == IG_J_FLOAT ? as_float(a) == as_float(b)
                                                              : as_int(a) == as_int(b);
        return 1;
    }
    if (a->type != b->type) return 1;
    if (c->depth > IG_JINJA_MAX_CALL) return ig_jinja_fail(c, "nested too deep");
    int ok = 1;
    c->depth++;
    switch (a->type) {
    case IG_J_UNDEF:
    case IG_J_NONE:
        *out = 1;
        break;
    case IG_J_STR:
        *out = a->u.s->n == b->u.s->n && str_compare(a->u.s, b->u.s) == 0;
        break;
    case IG_J_LIST:
    case IG_J_TUPLE:
        *out = a->u.l->n == b->u.l->n;
        for (size_t i = 0; i < a->u.l->n && *out && ok; i++)
            ok = ig_jequal(c, &a->u.l->v[i], &b->u.l->v[i], out);
        break;
    case IG_J_DICT:
        ok = dict_equal(c, a->u.d, b->u.d, out);
        break;
    default:
        *out = a->u.d == b->u.d;
    }
    c->depth--;
    return ok;
}

int ig_jcompare(struct ig_jctx *c, const struct ig_jv *a, const struct ig_jv *b, int *out)
{
    *out = 0;
    if (!ig_jinja_step(c, 1)) return 0;
    if (is_num(a) && is_num(b)) {
        if (a->type == IG_J_FLOAT || b->type == IG_J_FLOAT)
            *out = (as_float(a) > as_float(b)) - (as_float(a) < as_float(b));
        else
            *out = (as_int(a) > as_int(b)) - (as_int(a) < as_int(b));
        return 1;
    }
    if (a->type == IG_J_STR && b->type == IG_J_STR) {
        *out = str_compare(a->u.s, b->u.s);
        return 1;
    }
    if (a->type == b->type && (a->type == IG_J_LIST || a->type == IG_J_TUPLE)) {
        const size_t n = a->u.l->n < b->u.l->n ? a->u.l->n : b->u.l->n;
        if (c->depth > IG_JINJA_MAX_CALL) return ig_jinja_fail(c, "nested too deep");
        for (size_t i = 0; i < n; i++) {
            int eq;
            if (!ig_jequal(c, &a->u.l->v[i], &b->u.l->v[i], &eq)) return 0;
            if (eq) continue;
            c->depth++;
            const int ok = ig_jcompare(c, &a->u.l->v[i], &b->u.l->v[i], out);
            c->depth--;
            return ok;
        }
        *out = (a->u.l->n > b->u.l->n) - (a->u.l->n < b->u.l->n);
        return 1;
    }
    if (a->type == IG_J_UNDEF) return undef(c, a);
    if (b->type == IG_J_UNDEF) return undef(c, b);
    return ig_jinja_fail(c, "'<' not supported between instances of '%s' and '%s'",
                         ig_jtype_name(a), ig_jtype_name(b));
}

int ig_jcontains(struct ig_jctx *c, const struct ig_jv *item, const struct ig_jv *in, int *out)
{
    struct ig_jlist *l;
    *out = 0;
    if (in->type == IG_J_STR) {
        if (item->type != IG_J_STR)
            return ig_jinja_fail(c, "'in <string>' requires string as left operand, not %s",
                                 ig_jtype_name(item));
        *out = item->u.s->n == 0 ||
               (in->u.s->n && memmem(in->u.s->p, in->u.s->n, item->u.s->p, item->u.s->n) != NULL);
        return ig_jinja_step(c, (int64_t)(in->u.s->n / 64));
    }
    if (in->type == IG_J_DICT) {
        *out = ig_jdict_get(in->u.d, item) != NULL;
        return 1;
    }
    if (!ig_jis_list(in) && in->type != IG_J_UNDEF)
        return ig_jinja_fail(c, "argument of type '%s' is not iterable", ig_jtype_name(in));
    if (!ig_jiter(c, in, &l)) return 0;
    for (size_t i = 0; i < l->n && !*out; i++)
        if (!ig_jequal(c, item, &l->v[i], out)) return 0;
    return 1;
}

/* -- iteration */
int ig_jiter(struct ig_jctx *c, const struct ig_jv *v, struct ig_jlist **out)
{
    struct ig_jv list;
    if (v->type == IG_J_LIST || v->type == IG_J_TUPLE) {
        *out = v->u.l;
        return ig_jinja_step(c, (int64_t)v->u.l->n);
    }
    if (v->type == IG_J_DICT) {
        *out = &v->u.d->key;
        return ig_jinja_step(c, (int64_t)v->u.d->key.n);
    }
    if (!ig_jlist_new(c, IG_J_LIST, &list)) return 0;
    *out = list.u.l;
    if (v->type == IG_J_UNDEF) return 1;
    if (v->type == IG_J_GEN) {
        *list.u.l = *v->u.l;
        v->u.l->n = v->u.l->cap = 0; /* one pass uses it up */
        return ig_jinja_step(c, (int64_t)list.u.l->n);
    }
    if (v->type == IG_J_STR) {
        for (size_t i = 0; i < v->u.s->n;) {
            const size_t len = ig_jchar_len(v->u.s->p + i, v->u.s->n - i);
            struct ig_jv ch;
            if (!ig_jinja_step(c, 1) || !ig_jstr_sub(c, v->u.s, i, i + len, &ch) ||
                !ig_jlist_put(c, list.u.l, ch))
                return 0;
            i += len;
        }
        return 1;
    }
    return ig_jinja_fail(c, "'%s' object is not iterable", ig_jtype_name(v));
}

int ig_jlength(struct ig_jctx *c, const struct ig_jv *v, int64_t *out)
{
    switch (v->type) {
    case IG_J_UNDEF:
        *out = 0;
        return 1;
    case IG_J_STR:
        *out = (int64_t)ig_jchars(v->u.s);
        return ig_jinja_step(c, *out / 64);
    case IG_J_LIST:
    case IG_J_TUPLE:
        *out = (int64_t)v->u.l->n;
        return 1;
    case IG_J_DICT:
        *out = (int64_t)v->u.d->key.n;
        return 1;
    default:
        return ig_jinja_fail(c, "object of type '%s' has no len()", ig_jtype_name(v));
    }
}

/* -- attributes and items */
static int loop_attr(struct ig_jctx *c, struct ig_jloop *l, const char *name, struct ig_jv *out)
{
    const int64_t n = (int64_t)l->items->n, i = (int64_t)l->i;
    if (!strcmp(name, "index"))
        *out = ig_jint(i + 1);
    else if (!strcmp(name, "index0"))
        *out = ig_jint(i);
    else if (!strcmp(name, "revindex"))
        *out = ig_jint(n - i);
    else if (!strcmp(name, "revindex0"))
        *out = ig_jint(n - i - 1);
    else if (!strcmp(name, "first"))
        *out = ig_jbool(i == 0);
    else if (!strcmp(name, "last"))
        *out = ig_jbool(i == n - 1);
    else if (!strcmp(name, "length"))
        *out = ig_jint(n);
    else if (!strcmp(name, "depth"))
        *out = ig_jint(l->depth + 1);
    else if (!strcmp(name, "depth0"))
        *out = ig_jint(l->depth);
    else if (!strcmp(name, "previtem"))
        *out = i > 0 ? l->items->v[i - 1] : ig_jundef(c, "there is no previous item");
    else if (!strcmp(name, "nextitem"))
        *out = i + 1 < n ? l->items->v[i + 1] : ig_jundef(c, "there is no next item");
    else if (!strcmp(name, "cycle") || !strcmp(name, "changed")) {
        struct ig_jfunc *f = ig_jget(c, sizeof *f);
        if (!f) return 0;
        f->kind = IG_JF_LOOP;
        f->name = name;
        f->self = (struct ig_jv){ .type = IG_J_LOOP, .u.loop = l };
        *out = (struct ig_jv){ .type = IG_J_FUNC, .u.fn = f };
    } else
        *out = ig_jundef(c, "'loop' has no attribute '%.60s'", name);
    return 1;
}

static int blocked(const struct ig_jv *v, const char *name)
{
    static const char *const list[] = { "append", "extend",  "insert", "pop",
                                        "remove", "reverse", "sort",   "clear" };
    static const char *const dict[] = { "clear", "pop", "popitem", "setdefault", "update" };
    const char *const *names = v->type == IG_J_LIST ? list : dict;
    const size_t n = v->type == IG_J_LIST ? 8 : v->type == IG_J_DICT ? 5 : 0;
    for (size_t i = 0; i < n; i++)
        if (!strcmp(names[i], name)) return 1;
    return 0;
}

int ig_jattr(struct ig_jctx *c, const struct ig_jv *v, const char *name, struct ig_jv *out)
{
    const struct ig_jv *found;
    if (v->type == IG_J_UNDEF) return undef(c, v);
    if (v->type == IG_J_LOOP) return loop_attr(c, v->u.loop, name, out);
    if (v->type == IG_J_NS) {
        found = ig_jdict_gets(v->u.d, name);
        *out = found ? *found : ig_jundef(c, "namespace has no attribute '%.60s'", name);
        return 1;
    }
    if (blocked(v, name)) /* the reference's sandbox forbids them, too */
        return ig_jinja_fail(c, "access to attribute '%s' of '%s' object is unsafe", name,
                             ig_jtype_name(v));
    if (ig_jhas_method(v, name)) {
        struct ig_jfunc *f = ig_jget(c, sizeof *f);
        if (!f) return 0;
        f->kind = IG_JF_METHOD;
        f->name = name;
        f->self = *v;
        *out = (struct ig_jv){ .type = IG_J_FUNC, .u.fn = f };
        return 1;
    }
    found = v->type == IG_J_DICT ? ig_jdict_gets(v->u.d, name) : NULL;
    *out = found ? *found
                 : ig_jundef(c, "'%s object' has no attribute '%.60s'", ig_jtype_name(v), name);
    return 1;
}

int ig_jitem(struct ig_jctx *c, const struct ig_jv *v, const struct ig_jv *key, struct ig_jv *out)
{
    if (v->type == IG_J_UNDEF) return undef(c, v);
    if (v->type == IG_J_DICT) {
        const struct ig_jv *found = ig_jdict_get(v->u.d, key);
        if (found) {
            *out = *found;
            return 1;
        }
    }
    if ((key->type == IG_J_INT || key->type == IG_J_BOOL) &&
        (v->type == IG_J_LIST || v->type == IG_J_TUPLE || v->type == IG_J_STR)) {
        int64_t n, i = as_int(key);
        if (!ig_jlength(c, v, &n)) return 0;
        if (i < 0) i += n;
        if (i < 0 || i >= n) {
            *out = ig_jundef(c, "'%s object' has no element %lld", ig_jtype_name(v),
                             (long long)as_int(key));
            return 1;
        }
        if (v->type != IG_J_STR) {
            *out = v->u.l->v[i];
            return 1;
        }
        const size_t at = ig_jchar_at(v->u.s, (size_t)i);
        const size_t end = at + ig_jchar_len(v->u.s->p + at, v->u.s->n - at);
        return ig_jstr_sub(c, v->u.s, at, end, out) && ig_jsafe_as(c, v->u.s, out);
    }
    if (key->type == IG_J_STR) {
        struct ig_jv name; /* NUL-ended, and kept by what refers to it */
        return ig_jstr_new(c, key->u.s->p, NULL, key->u.s->n, &name) &&
               ig_jattr(c, v, name.u.s->p, out);
    }
    *out = ig_jundef(c, "'%s object' has no such element", ig_jtype_name(v));
    return 1;
}

static int slice_bound(struct ig_jctx *c, const struct ig_jv *v, int64_t n, int64_t lo, int64_t hi,
                       int64_t otherwise, int64_t *out)
{
    if (v->type == IG_J_NONE) {
        *out = otherwise;
        return 1;
    }
    if (v->type == IG_J_UNDEF) return undef(c, v);
    if (v->type != IG_J_INT && v->type != IG_J_BOOL)
        return ig_jinja_fail(c, "slice indices must be integers or None");
    int64_t i = as_int(v);
    if (i < 0) i = i < -n ? lo : i + n;
    *out = i < lo ? lo : i > hi ? hi : i;
    return 1;
}

int ig_jslice(struct ig_jctx *c, const struct ig_jv *v, const struct ig_jv key[3],
              struct ig_jv *out)
{
    int64_t n, start, stop, step = 1;
    if (v->type == IG_J_UNDEF) return undef(c, v);
    if (v->type != IG_J_STR && v->type != IG_J_LIST && v->type != IG_J_TUPLE) {
        *out = ig_jundef(c, "a '%s' cannot be sliced", ig_jtype_name(v));
        return 1;
    }
    if (key[2].type != IG_J_NONE) {
        if (key[2].type != IG_J_INT || key[2].u.i == 0 || key[2].u.i < -IG_JINJA_MAX_SOURCE ||
            key[2].u.i > IG_JINJA_MAX_SOURCE)
            return ig_jinja_fail(c, "slice step cannot be this");
        step = key[2].u.i;
    }
    if (!ig_jlength(c, v, &n)) return 0;
    const int back = step < 0;
    const int64_t lo = back ? -1 : 0, hi = back ? n - 1 : n;
    if (!slice_bound(c, &key[0], n, lo, hi, back ? hi : lo, &start) ||
        !slice_bound(c, &key[1], n, lo, hi, back ? lo : hi, &stop))
        return 0;
    if (v->type == IG_J_STR && step == 1) {
        if (stop < start) stop = start;
        return ig_jstr_sub(c, v->u.s, ig_jchar_at(v->u.s, (size_t)start),
                           ig_jchar_at(v->u.s, (size_t)stop), out) &&
               ig_jsafe_as(c, v->u.s, out);
    }
    struct ig_jlist *all = v->u.l;
    struct ig_jbuf b = { 0 };
    struct ig_jv list;
    if (v->type == IG_J_STR && !ig_jiter(c, v, &all)) return 0;
    if (!ig_jlist_new(c, v->type, &list)) return 0;
    for (int64_t i = start; back ? i > stop : i < stop; i += step) {
        if (!ig_jinja_step(c, 1)) return 0;
        if (v->type == IG_J_STR ? !ig_jbuf_str(c, &b, all->v[i].u.s)
                                : !ig_jlist_put(c, list.u.l, all->v[i]))
            return 0;
    }
    if (v->type == IG_J_STR) return ig_jbuf_value(c, &b, out) && ig_jsafe_as(c, v->u.s, out);
    *out = list;
    return 1;
}

/* -- arithmetic */
static int repeat(struct ig_jctx *c, const struct ig_jv *v, int64_t k, struct ig_jv *out)
{
    struct ig_jbuf b = { 0 };
    if (v->type == IG_J_STR) {
        if (v->u.s->n == 0) k = 0;
        for (int64_t i = 0; i < k; i++)
            if (!ig_jinja_step(c, 1) || !ig_jbuf_str(c, &b, v->u.s)) return 0;
        return ig_jbuf_value(c, &b, out) && ig_jsafe_as(c, v->u.s, out);
    }
    if (!ig_jlist_new(c, v->type, out)) return 0;
    if (v->u.l->n == 0) k = 0;
    for (int64_t i = 0; i < k; i++)
        for (size_t j = 0; j < v->u.l->n; j++)
            if (!ig_jinja_step(c, 1) || !ig_jlist_put(c, out->u.l, v->u.l->v[j])) return 0;
    return 1;
}

static int int_power(struct ig_jctx *c, int64_t a, int64_t b, struct ig_jv *out)
{
    int64_t r = 1;
    if (b < 0) {
        if (a == 0) return ig_jinja_fail(c, "0 cannot be raised to a negative power");
        *out = ig_jfloat(pow((double)a, (double)b));
        return 1;
    }
    while (b > 0) {
        if ((b & 1) && __builtin_mul_overflow(r, a, &r))
            return ig_jinja_fail(c, "integer overflow");
        b >>= 1;
        if (b > 0 && __builtin_mul_overflow(a, a, &a)) return ig_jinja_fail(c, "integer overflow");
    }
    *out = ig_jint(r);
    return 1;
}

static int int_arith(struct ig_jctx *c, int op, int64_t a, int64_t b, struct ig_jv *out)
{
    int64_t r = 0;
    int over = 0;
    switch (op) {
    case '+':
        over = __builtin_add_overflow(a, b, &r);
        break;
    case '-':
        over = __builtin_sub_overflow(a, b, &r);
        break;
    case '*':
        over = __builtin_mul_overflow(a, b, &r);
        break;
    case '*' | '*' << 8:
        return int_power(c, a, b, out);
    default:
        if (b == 0) return ig_jinja_fail(c, "division by zero");
        if (op == '/') {
            *out = ig_jfloat((double)a / (double)b);
            return 1;
        }
        if (b == -1) { /* a / b would overflow for the least a */
            over = op != '%' && __builtin_sub_overflow((int64_t)0, a, &r);
            break;
        }
        r = a % b; /* towards minus infinity, as Python has it */
        if (r && (r < 0) != (b < 0)) r += b;
        if (op != '%') r = (a - r) / b;
    }
    if (over) return ig_jinja_fail(c, "integer overflow");
    *out = ig_jint(r);
    return 1;
}

static int float_arith(struct ig_jctx *c, int op, double a, double b, struct ig_jv *out)
{
    double r = 0;
    switch (op) {
    case '+':
        r = a + b;
        break;
    case '-':
        r = a - b;
        break;
    case '*':
        r = a * b;
        break;
    case '*' | '*' << 8:
        r = pow(a, b);
        break;
    default:
        if (b == 0.0) return ig_jinja_fail(c, "float division by zero");
        r = a / b;
        if (op == ('/' | '/' << 8)) r = floor(r);
        if (op == '%') {
            r = fmod(a, b);
            if (r != 0.0 && (r < 0) != (b < 0)) r += b;
        }
    }
    *out = ig_jfloat(r);
    return 1;
}

static int concat(struct ig_jctx *c, const struct ig_jv *a, const struct ig_jv *b,
                  struct ig_jv *out)
{
    if (a->type == IG_J_STR) {
        struct ig_jbuf buf = { 0 };
        return ig_jbuf_str(c, &buf, a->u.s) && ig_jbuf_str(c, &buf, b->u.s) &&
               ig_jbuf_value(c, &buf, out);
    }
    if (!ig_jlist_new(c, a->type, out)) return 0;
    const struct ig_jlist *l[2] = { a->u.l, b->u.l };
    for (int k = 0; k < 2; k++)
        for (size_t i = 0; i < l[k]->n; i++)
            if (!ig_jinja_step(c, 1) || !ig_jlist_put(c, out->u.l, l[k]->v[i])) return 0;
    return 1;
}

int ig_jarith(struct ig_jctx *c, int op, const struct ig_jv *a, const struct ig_jv *b,
              struct ig_jv *out)
{
    const int sequence = a->type == IG_J_STR || a->type == IG_J_LIST || a->type == IG_J_TUPLE;
    if (op == '~') {
        struct ig_jbuf buf = { 0 };
        return ig_jput_str(c, &buf, a) && ig_jput_str(c, &buf, b) && ig_jbuf_value(c, &buf, out);
    }
    if (a->type == IG_J_UNDEF) return undef(c, a);
    if (b->type == IG_J_UNDEF && !(op == '%' && a->type == IG_J_STR)) return undef(c, b);
    if (is_num(a) && is_num(b))
        return a->type == IG_J_FLOAT || b->type == IG_J_FLOAT
                   ? float_arith(c, op, as_float(a), as_float(b), out)
                   : int_arith(c, op, as_int(a), as_int(b), out);
    if (op == '+' && a->type == IG_J_STR && b->type == IG_J_STR && (a->u.s->safe || b->u.s->safe)) {
        struct ig_jv x, y;
        return ig_jescape(c, a, 0, &x) && ig_jescape(c, b, 0, &y) && concat(c, &x, &y, out) &&
               ig_jsafe(c, out);
    }
    if (op == '+' && sequence && a->type == b->type) return concat(c, a, b, out);
    if (op == '*' && sequence && (b->type == IG_J_INT || b->type == IG_J_BOOL))
        return repeat(c, a, as_int(b), out);
    if (op == '*' && (a->type == IG_J_INT || a->type == IG_J_BOOL) &&
        (b->type == IG_J_STR || b->type == IG_J_LIST || b->type == IG_J_TUPLE))
        return repeat(c, b, as_int(a), out);
    if (op == '%' && a->type == IG_J_STR) return ig_jformat(c, a->u.s, b, out);
    if (op == '+' && a->type == IG_J_STR)
        return ig_jinja_fail(c, "can only concatenate str (not \"%s\") to str", ig_jtype_name(b));
    return ig_jinja_fail(c, "unsupported operand types for %c: '%s' and '%s'", op & 0x7f,
                         ig_jtype_name(a), ig_jtype_name(b));
}
