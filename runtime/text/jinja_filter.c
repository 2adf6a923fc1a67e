/* jinja_filter.c -- filters of one value.  Those of sequences are in jinja_filter_seq.c. */
#include "jinja.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <stdio.h>

static int undef(struct ig_jctx *c, const struct ig_jv *v)
{
    return ig_jinja_fail(c, "%.*s", v->u.s ? (int)v->u.s->n : 18,
                         v->u.s ? v->u.s->p : "an undefined value");
}

/* -- JSON as the reference's tojson: no HTML escapes, keys in order */
static int f_tojson(struct ig_jctx *c, const struct ig_jv *v, const struct ig_jargs *a,
                    struct ig_jv *out)
{
    const struct ig_jv *indent = ig_jarg(a, 1, "indent"), *seps = ig_jarg(a, 2, "separators");
    const int ascii = ig_jarg_bool(a, 0, "ensure_ascii", 0),
              sort = ig_jarg_bool(a, 3, "sort_keys", 0);
    const char *item = ", ", *key = ": ", *text = NULL;
    struct ig_jbuf b = { 0 };
    char blanks[65] = { 0 };
    /* tojson(2) of plain Jinja means the indent; the reference's first argument does not. */
    if (indent && indent->type == IG_J_INT) {
        const int64_t n = indent->u.i < 0 ? 0 : indent->u.i;
        if (n > 64) return ig_jinja_fail(c, "tojson: want an indent of at most 64");
        memset(blanks, ' ', (size_t)n);
        text = blanks;
    } else if (indent && indent->type == IG_J_STR) {
        struct ig_jv copy;
        if (!ig_jstr_new(c, indent->u.s->p, NULL, indent->u.s->n, &copy)) return 0;
        text = copy.u.s->p;
    }
    if (text) item = ",";
    if (seps && ig_jis_list(seps) && seps->u.l->n == 2) {
        struct ig_jv s[2];
        for (int i = 0; i < 2; i++)
            if (seps->u.l->v[i].type != IG_J_STR ||
                !ig_jstr_new(c, seps->u.l->v[i].u.s->p, NULL, seps->u.l->v[i].u.s->n, &s[i]))
                return ig_jinja_fail(c, "tojson: separators: want two strings");
        item = s[0].u.s->p;
        key = s[1].u.s->p;
    }
    return ig_jput_json(c, &b, v, text, item, key, sort, ascii, 0) && ig_jbuf_value(c, &b, out);
}

static int f_default(struct ig_jctx *c, const struct ig_jv *v, const struct ig_jargs *a,
                     struct ig_jv *out)
{
    const struct ig_jv *other = ig_jarg(a, 0, "default_value");
    const int empty_too = ig_jarg_bool(a, 1, "boolean", 0);
    *out = *v;
    if (v->type != IG_J_UNDEF && !(empty_too && !ig_jtruth(v))) return 1;
    if (!other) return ig_jstr_new(c, "", NULL, 0, out);
    *out = *other;
    return 1;
}

/* Python's int(text, base): blanks around it, underscores inside. */
static int parse_int(const struct ig_jstr *s, int64_t base, int64_t *out)
{
    char text[72];
    size_t n = 0, lo = 0, hi = s->n;
    char *end;
    while (lo < hi && ig_jspace((unsigned char)s->p[lo])) lo++;
    while (hi > lo && ig_jspace((unsigned char)s->p[hi - 1])) hi--;
    if (hi - lo >= sizeof text) return 0;
    for (size_t i = lo; i < hi; i++)
        if (s->p[i] != '_') text[n++] = s->p[i];
    text[n] = 0;
    const char *t = text;
    if (base == 16 && n > 2 && t[0] == '0' && (t[1] | 32) == 'x') t += 2;
    errno = 0;
    *out = strtoll(t, &end, (int)base);
    return n > 0 && !*end && end != t && errno == 0;
}

static int parse_float(const struct ig_jstr *s, double *out)
{
    char text[72];
    char *end;
    size_t lo = 0, hi = s->n;
    while (lo < hi && ig_jspace((unsigned char)s->p[lo])) lo++;
    while (hi > lo && ig_jspace((unsigned char)s->p[hi - 1])) hi--;
    if (hi == lo || hi - lo >= sizeof text || memchr(s->p + lo, 'x', hi - lo)) return 0;
    memcpy(text, s->p + lo, hi - lo);
    text[hi - lo] = 0;
    *out = strtod(text, &end);
    return !*end;
}

static int f_int(struct ig_jctx *c, const struct ig_jv *v, const struct ig_jargs *a,
                 struct ig_jv *out)
{
    const struct ig_jv *other = ig_jarg(a, 0, "default");
    int64_t base, i = 0;
    double f;
    if (!ig_jarg_int(c, a, 1, "base", 10, &base)) return 0;
    if (base < 2 || base > 36) return ig_jinja_fail(c, "int: base: want 2 to 36");
    *out = ig_jint(0);
    if (other) *out = *other;
    switch (v->type) {
    case IG_J_INT:
        *out = *v;
        return 1;
    case IG_J_BOOL:
        *out = ig_jint(v->u.b);
        return 1;
    case IG_J_FLOAT:
        f = v->u.f;
        break;
    case IG_J_STR:
        if (parse_int(v->u.s, base, &i)) {
            *out = ig_jint(i);
            return 1;
        }
        if (!parse_float(v->u.s, &f)) return 1;
        break;
    default:
        return 1;
    }
    if (f > -9.2e18 && f < 9.2e18) *out = ig_jint((int64_t)f);
    return 1;
}

static int f_float(struct ig_jctx *c, const struct ig_jv *v, const struct ig_jargs *a,
                   struct ig_jv *out)
{
    const struct ig_jv *other = ig_jarg(a, 0, "default");
    double f = 0;
    (void)c;
    *out = ig_jfloat(0);
    if (other) *out = *other;
    if (v->type == IG_J_INT) *out = ig_jfloat((double)v->u.i);
    if (v->type == IG_J_BOOL) *out = ig_jfloat(v->u.b);
    if (v->type == IG_J_FLOAT) *out = *v;
    if (v->type == IG_J_STR && parse_float(v->u.s, &f)) *out = ig_jfloat(f);
    return 1;
}

static int f_abs(struct ig_jctx *c, const struct ig_jv *v, struct ig_jv *out)
{
    if (v->type == IG_J_FLOAT) {
        *out = ig_jfloat(fabs(v->u.f));
        return 1;
    }
    if (v->type != IG_J_INT && v->type != IG_J_BOOL)
        return ig_jinja_fail(c, "abs: want a number, found %s", ig_jtype_name(v));
    const int64_t i = v->type == IG_J_BOOL ? v->u.b : v->u.i;
    if (i == INT64_MIN) return ig_jinja_fail(c, "integer overflow");
    *out = ig_jint(i < 0 ? -i : i);
    return 1;
}

static int f_round(struct ig_jctx *c, const struct ig_jv *v, const struct ig_jargs *a,
                   struct ig_jv *out)
{
    const struct ig_jv *method = ig_jarg(a, 1, "method");
    int64_t digits;
    if (!ig_jarg_int(c, a, 0, "precision", 0, &digits)) return 0;
    if (v->type != IG_J_INT && v->type != IG_J_FLOAT && v->type != IG_J_BOOL)
        return ig_jinja_fail(c, "round: want a number, found %s", ig_jtype_name(v));
    if (digits < -20 || digits > 20) return ig_jinja_fail(c, "round: precision: want -20 to 20");
    const double f =
        v->type == IG_J_FLOAT ? v->u.f : (double)(v->type == IG_J_BOOL ? v->u.b : v->u.i);
    const double scale = pow(10, (double)digits);
    if (method && ig_jstr_is(method, "ceil")) {
        *out = ig_jfloat(ceil(f * scale) / scale);
    } else if (method && ig_jstr_is(method, "floor")) {
        *out = ig_jfloat(floor(f * scale) / scale);
    } else if (digits < 0) {
        *out = ig_jfloat(nearbyint(f * scale) / scale);
    } else { /* printf rounds the exact value half to even, as Python's round() does */
        char text[400];
        snprintf(text, sizeof text, "%.*f", (int)digits, f);
        *out = ig_jfloat(strtod(text, NULL));
    }
    if (v->type == IG_J_INT && !method) *out = ig_jint(v->u.i); /* Python keeps the type */
    return 1;
}

static int f_indent(struct ig_jctx *c, const struct ig_jstr *s, const struct ig_jargs *a,
                    struct ig_jv *out)
{
    const struct ig_jv *width = ig_jarg(a, 0, "width");
    const int first = ig_jarg_bool(a, 1, "first", 0), blank = ig_jarg_bool(a, 2, "blank", 0);
    struct ig_jstr pad = { .p = "    ", .n = 4 };
    struct ig_jbuf b = { 0 };
    if (width && width->type == IG_J_STR) {
        pad = *width->u.s;
    } else if (width) {
        if (width->type != IG_J_INT || width->u.i > 4096)
            return ig_jinja_fail(c, "indent: want a string or a width of at most 4096");
        pad.n = width->u.i > 0 ? (size_t)width->u.i : 0;
        char *blanks = ig_jget(c, pad.n + 1);
        if (!blanks) return 0;
        memset(blanks, ' ', pad.n);
        pad.p = blanks;
    }
    if (first && !ig_jbuf_str(c, &b, &pad)) return 0;
    for (size_t i = 0; i < s->n;) {
        const char *nl = memchr(s->p + i, '\n', s->n - i);
        const size_t end = nl ? (size_t)(nl - s->p) + 1 : s->n;
        const int empty = end - i == 1 && nl != NULL;
        if (i > 0 && (!empty || blank) && !ig_jbuf_str(c, &b, &pad)) return 0;
        if (!ig_jinja_step(c, 1) ||
            !ig_jbuf_put(c, &b, s->p + i, s->mark ? s->mark + i : NULL, end - i))
            return 0;
        i = end;
        if (i == s->n && nl && blank && !ig_jbuf_str(c, &b, &pad)) return 0;
    }
    return ig_jbuf_value(c, &b, out);
}

static int f_truncate(struct ig_jctx *c, const struct ig_jstr *s, const struct ig_jargs *a,
                      struct ig_jv *out)
{
    const struct ig_jv *end_v = ig_jarg(a, 2, "end");
    static const struct ig_jstr dots = { .p = "...", .n = 3 };
    const struct ig_jstr *end = end_v && end_v->type == IG_J_STR ? end_v->u.s : &dots;
    int64_t length, leeway;
    if (!ig_jarg_int(c, a, 0, "length", 255, &length) ||
        !ig_jarg_int(c, a, 3, "leeway", 5, &leeway))
        return 0;
    struct ig_jv head, tail = { .type = IG_J_STR, .u.s = (struct ig_jstr *)(uintptr_t)end };
    const int64_t n_end = (int64_t)ig_jchars(end);
    if (length < n_end || leeway < 0) return ig_jinja_fail(c, "truncate: too short a length");
    if ((int64_t)ig_jchars(s) <= length + leeway) return ig_jstr_sub(c, s, 0, s->n, out);
    size_t cut = ig_jchar_at(s, (size_t)(length - n_end));
    if (!ig_jarg_bool(a, 1, "killwords", 0)) {
        const char *space = memrchr(s->p, ' ', cut);
        if (space) cut = (size_t)(space - s->p);
    }
    if (!ig_jstr_sub(c, s, 0, cut, &head) || !ig_jsafe_as(c, s, &head)) return 0;
    return ig_jarith(c, '+', &head, &tail, out);
}

static int f_urlencode(struct ig_jctx *c, const struct ig_jstr *s, struct ig_jv *out)
{
    struct ig_jbuf b = { 0 };
    for (size_t i = 0; i < s->n; i++) {
        const char ch = s->p[i];
        char text[4];
        const int plain = (ch >= '0' && ch <= '9') || ((ch | 32) >= 'a' && (ch | 32) <= 'z') ||
                          (ch && strchr("_.-~/", ch));
        snprintf(text, sizeof text, "%%%02X", (unsigned char)ch);
        if (!(plain ? ig_jbuf_put(c, &b, s->p + i, s->mark ? s->mark + i : NULL, 1)
                    : ig_jbuf_puts(c, &b, text)))
            return 0;
    }
    return ig_jbuf_value(c, &b, out);
}

static int f_wordcount(const struct ig_jstr *s, struct ig_jv *out)
{
    int64_t n = 0;
    int in = 0;
    for (size_t i = 0; i < s->n; i += ig_jchar_len(s->p + i, s->n - i)) {
        const uint32_t cp = ig_jchar(s->p + i, s->n - i);
        const int word = ig_jalpha(cp) || (cp >= '0' && cp <= '9') || cp == '_';
        n += word && !in;
        in = word;
    }
    *out = ig_jint(n);
    return 1;
}

static int f_center(struct ig_jctx *c, const struct ig_jv *s, const struct ig_jargs *a,
                    struct ig_jv *out)
{
    struct ig_jargs args = { 0 };
    int64_t width;
    return ig_jarg_int(c, a, 0, "width", 80, &width) &&
           ig_jlist_put(c, &args.pos, ig_jint(width)) && ig_jmethod(c, s, "center", &args, out);
}

static int f_replace(struct ig_jctx *c, const struct ig_jstr *s, const struct ig_jargs *a,
                     struct ig_jv *out)
{
    const struct ig_jv *from = ig_jarg(a, 0, "old"), *to = ig_jarg(a, 1, "new");
    struct ig_jv x, y;
    int64_t count;
    if (!from || !to) return ig_jinja_fail(c, "replace: want old and new");
    return ig_jarg_int(c, a, 2, "count", -1, &count) && ig_jstr_of(c, from, &x) &&
           ig_jstr_of(c, to, &y) && ig_jreplace(c, s, x.u.s, y.u.s, count, out);
}

/* Filters that first make a string of their value. */
static const struct {
    const char *name;
    int stays; /* what was safe (jinja_safe.c) still is */
} text_names[] = { { "string", 1 },      { "upper", 1 },     { "lower", 1 },     { "title", 0 },
                   { "capitalize", 1 },  { "trim", 1 },      { "replace", 0 },   { "indent", 1 },
                   { "truncate", 1 },    { "escape", 0 },    { "e", 0 },         { "safe", 0 },
                   { "forceescape", 0 }, { "urlencode", 0 }, { "wordcount", 0 }, { "center", 1 },
                   { "format", 1 } };
enum { N_TEXT = sizeof text_names / sizeof *text_names };

static int apply_text(struct ig_jctx *c, size_t k, const struct ig_jv *s, const struct ig_jargs *a,
                      struct ig_jv *out)
{
    const struct ig_jv args = { .type = IG_J_TUPLE, .u.l = (struct ig_jlist *)(uintptr_t)&a->pos };
    *out = *s;
    switch (k) {
    case 1:
    case 2:
    case 4:
        return ig_jrecase(c, s->u.s, text_names[k].name, out);
    case 3:
        return ig_jrecase(c, s->u.s, "Title", out);
    case 5:
        return ig_jstrip(c, s->u.s, ig_jarg(a, 0, "chars"), 3, out);
    case 6:
        return f_replace(c, s->u.s, a, out);
    case 7:
        return f_indent(c, s->u.s, a, out);
    case 8:
        return f_truncate(c, s->u.s, a, out);
    case 9:
    case 10:
    case 12:
        return ig_jescape(c, s, k == 12, out);
    case 11:
        return ig_jsafe(c, out);
    case 13:
        return f_urlencode(c, s->u.s, out);
    case 14:
        return f_wordcount(s->u.s, out);
    case 15:
        return f_center(c, s, a, out);
    case 16:
        return ig_jformat(c, s->u.s, &args, out);
    default:
        return 1;
    }
}

/* -1: not one of them. */
static int text_filter(struct ig_jctx *c, const char *name, const struct ig_jv *v,
                       const struct ig_jargs *a, struct ig_jv *out)
{
    struct ig_jv s;
    size_t k = 0;
    while (k < N_TEXT && strcmp(name, text_names[k].name)) k++;
    if (k == N_TEXT) return -1;
    if (!ig_jstr_of(c, v, &s) || !ig_jinja_step(c, (int64_t)(s.u.s->n / 64)) ||
        !apply_text(c, k, &s, a, out))
        return 0;
    return !(text_names[k].stays && s.u.s->safe) || ig_jsafe(c, out);
}

static const char *const other_names[] = { "tojson", "default", "d",     "int",  "float", "abs",
                                           "round",  "length",  "count", "attr", "items" };

int ig_jfilter(struct ig_jctx *c, const char *name, const struct ig_jv *v, const struct ig_jargs *a,
               struct ig_jv *out)
{
    int64_t n;
    if (!strcmp(name, "tojson")) return f_tojson(c, v, a, out);
    if (!strcmp(name, "default") || !strcmp(name, "d")) return f_default(c, v, a, out);
    if (!strcmp(name, "int")) return f_int(c, v, a, out);
    if (!strcmp(name, "float")) return f_float(c, v, a, out);
    if (!strcmp(name, "abs")) return v->type == IG_J_UNDEF ? undef(c, v) : f_abs(c, v, out);
    if (!strcmp(name, "round")) return v->type == IG_J_UNDEF ? undef(c, v) : f_round(c, v, a, out);
    if (!strcmp(name, "length") || !strcmp(name, "count")) {
        if (!ig_jlength(c, v, &n)) return 0;
        *out = ig_jint(n);
        return 1;
    }
    if (!strcmp(name, "attr")) {
        const struct ig_jv *key = ig_jarg(a, 0, "name");
        struct ig_jstr *s;
        struct ig_jv copy;
        if (!ig_jneed_str(c, key, "attr", &s) || !ig_jstr_new(c, s->p, NULL, s->n, &copy)) return 0;
        if (v->type == IG_J_DICT && !ig_jhas_method(v, copy.u.s->p)) {
            *out = ig_jundef(c, "'dict object' has no attribute '%.60s'", copy.u.s->p);
            return 1;
        }
        return ig_jattr(c, v, copy.u.s->p, out);
    }
    if (!strcmp(name, "items")) {
        struct ig_jargs none = { 0 };
        if (v->type == IG_J_UNDEF) return ig_jlist_new(c, IG_J_GEN, out);
        if (v->type != IG_J_DICT)
            return ig_jinja_fail(c, "items: want a mapping, found %s", ig_jtype_name(v));
        return ig_jmethod(c, v, "items", &none, out);
    }
    const int rc = text_filter(c, name, v, a, out);
    if (rc >= 0) return rc;
    const int seq = ig_jfilter_seq(c, name, v, a, out);
    if (seq >= 0) return seq;
    return ig_jinja_fail(c, "the filter '%.80s' is not supported", name);
}

int ig_jhas_filter(const char *name)
{
    static const char *const more[] = { "list",   "first",      "last",       "join",   "reverse",
                                        "sort",   "dictsort",   "unique",     "map",    "select",
                                        "reject", "selectattr", "rejectattr", "sum",    "min",
                                        "max",    "batch",      "slice",      "groupby" };
    for (size_t i = 0; i < sizeof other_names / sizeof *other_names; i++)
        if (!strcmp(name, other_names[i])) return 1;
    for (size_t i = 0; i < sizeof more / sizeof *more; i++)
        if (!strcmp(name, more[i])) return 1;
    for (size_t i = 0; i < N_TEXT; i++)
        if (!strcmp(name, text_names[i].name)) return 1;
    return 0;
}
