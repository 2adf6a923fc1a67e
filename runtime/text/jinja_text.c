/* jinja_text.c -- characters, and what values print as: str(), repr(), JSON.
 *
 * Upper and lower case cover Latin, Greek, Cyrillic, Armenian and full-width
 * letters; other scripts with case are rare in templates and stay as they are.
 */
#include "jinja.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* -- characters */
size_t ig_jchar_len(const char *p, size_t n)
{
    const unsigned char c = (unsigned char)p[0];
    const size_t len = c < 0xc0 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
    return len < n ? len : n;
}

uint32_t ig_jchar(const char *p, size_t n)
{
    const unsigned char *u = (const unsigned char *)p;
    const size_t len = ig_jchar_len(p, n);
    uint32_t cp = len == 1 ? u[0] : u[0] & (0x7fu >> len);
    for (size_t i = 1; i < len; i++) cp = cp << 6 | (u[i] & 0x3fu);
    return cp;
}

size_t ig_jchars(const struct ig_jstr *s)
{
    size_t k = 0;
    for (size_t i = 0; i < s->n; k++) i += ig_jchar_len(s->p + i, s->n - i);
    return k;
}

size_t ig_jchar_at(const struct ig_jstr *s, size_t index)
{
    size_t i = 0;
    while (index-- > 0 && i < s->n) i += ig_jchar_len(s->p + i, s->n - i);
    return i;
}

int ig_jspace(uint32_t cp)
{
    return (cp >= 9 && cp <= 13) || (cp >= 0x1c && cp <= 0x20) || cp == 0x85 || cp == 0xa0 ||
           cp == 0x1680 || (cp >= 0x2000 && cp <= 0x200a) || cp == 0x2028 || cp == 0x2029 ||
           cp == 0x202f || cp == 0x205f || cp == 0x3000;
}

int ig_jalpha(uint32_t cp)
{
    if (cp < 0x80) return (cp | 32) >= 'a' && (cp | 32) <= 'z';
    if (cp < 0x100)
        return cp == 0xaa || cp == 0xb5 || cp == 0xba || (cp >= 0xc0 && cp != 0xd7 && cp != 0xf7);
    return !ig_jspace(cp) && !(cp >= 0x300 && cp < 0x370) && !(cp >= 0x2000 && cp < 0x2c00) &&
           !(cp >= 0x3000 && cp < 0x3005) && !(cp >= 0x3008 && cp < 0x3021) &&
           !(cp >= 0xe000 && cp < 0xf900) && !(cp >= 0xff00 && cp < 0xff21) && cp < 0x1f000;
}

enum { PAIR = 0x10000 }; /* upper and lower alternate; else the distance to the lower one */

static const struct {
    uint16_t first, last; /* upper-case letters, or both when they alternate */
    int delta;
} case_range[] = {
    { 'A', 'Z', 32 },
    { 0xc0, 0xd6, 32 },
    { 0xd8, 0xde, 32 },
    { 0x100, 0x12f, PAIR },
    { 0x132, 0x137, PAIR },
    { 0x139, 0x148, PAIR },
    { 0x14a, 0x177, PAIR },
    { 0x178, 0x178, 0xff - 0x178 },
    { 0x179, 0x17e, PAIR },
    { 0x386, 0x386, 0x3ac - 0x386 },
    { 0x388, 0x38a, 0x3ad - 0x388 },
    { 0x38c, 0x38c, 0x3cc - 0x38c },
    { 0x38e, 0x38f, 0x3cd - 0x38e },
    { 0x391, 0x3a1, 32 },
    { 0x3a3, 0x3ab, 32 },
    { 0x400, 0x40f, 80 },
    { 0x410, 0x42f, 32 },
    { 0x460, 0x481, PAIR },
    { 0x48a, 0x4bf, PAIR },
    { 0x4d0, 0x52f, PAIR },
    { 0x531, 0x556, 48 },
    { 0x1e00, 0x1e95, PAIR },
    { 0x1ea0, 0x1eff, PAIR },
    { 0xff21, 0xff3a, 32 },
};

uint32_t ig_jcase(uint32_t cp, enum ig_jcase to)
{
    if (to == IG_JCASE_UPPER && cp == 0x3c2) return 0x3a3;
    if (to == IG_JCASE_UPPER && cp == 0xb5) return 0x39c;
    for (size_t i = 0; i < sizeof case_range / sizeof *case_range; i++) {
        const uint32_t first = case_range[i].first, last = case_range[i].last;
        const int delta = case_range[i].delta;
        if (delta == PAIR) {
            if (cp < first || cp > last) continue;
            const uint32_t odd = (cp - first) & 1;
            return to == IG_JCASE_UPPER ? cp - odd : cp + (1 - odd);
        }
        const uint32_t shift = (uint32_t)delta;
        if (to == IG_JCASE_LOWER && cp >= first && cp <= last) return cp + shift;
        if (to == IG_JCASE_UPPER && cp - shift >= first && cp - shift <= last) return cp - shift;
    }
    return cp;
}

int ig_jput_char(struct ig_jctx *c, struct ig_jbuf *b, uint32_t cp, int mark)
{
    char p[4];
    const unsigned char marks[4] = { 1, 1, 1, 1 };
    size_t n = 1;
    if (cp < 0x80) {
        p[0] = (char)cp;
    } else if (cp < 0x800) {
        n = 2;
        p[0] = (char)(0xc0 | cp >> 6);
    } else if (cp < 0x10000) {
        n = 3;
        p[0] = (char)(0xe0 | cp >> 12);
    } else {
        n = 4;
        p[0] = (char)(0xf0 | cp >> 18);
    }
    for (size_t i = 1; i < n; i++) p[i] = (char)(0x80 | (cp >> 6 * (n - 1 - i) & 0x3f));
    return ig_jbuf_put(c, b, p, mark ? marks : NULL, n);
}

/* -- names of types, as Python's messages have them */
const char *ig_jtype_name(const struct ig_jv *v)
{
    static const char *const name[] = {
        [IG_J_UNDEF] = "Undefined", [IG_J_NONE] = "NoneType", [IG_J_BOOL] = "bool",
        [IG_J_INT] = "int",         [IG_J_FLOAT] = "float",   [IG_J_STR] = "str",
        [IG_J_LIST] = "list",       [IG_J_TUPLE] = "tuple",   [IG_J_GEN] = "generator",
        [IG_J_DICT] = "dict",       [IG_J_NS] = "Namespace",  [IG_J_FUNC] = "function",
        [IG_J_LOOP] = "LoopContext"
    };
    return name[v->type];
}

/* -- numbers: the shortest text that reads back, in Python's spelling */
static int put_float(struct ig_jctx *c, struct ig_jbuf *b, double f)
{
    char text[40], digits[32], out[400];
    if (isnan(f)) return ig_jbuf_puts(c, b, "nan");
    if (isinf(f)) return ig_jbuf_puts(c, b, f > 0 ? "inf" : "-inf");
    for (int prec = 0; prec < 18; prec++) {
        snprintf(text, sizeof text, "%.*e", prec, f);
        if (strtod(text, NULL) == f) break;
    }
    const char *e = strchr(text, 'e');
    const int exponent = atoi(e + 1);
    size_t n = 0;
    for (const char *p = text; p < e; p++)
        if (*p >= '0' && *p <= '9') digits[n++] = *p;
    while (n > 1 && digits[n - 1] == '0') n--;
    digits[n] = 0;
    const char *sign = text[0] == '-' ? "-" : "";
    if (exponent < -4 || exponent >= 16)
        snprintf(out, sizeof out, "%s%c%s%se%c%02d", sign, digits[0], n > 1 ? "." : "", digits + 1,
                 exponent < 0 ? '-' : '+', abs(exponent));
    else if (exponent < 0)
        snprintf(out, sizeof out, "%s0.%.*s%s", sign, -exponent - 1, "0000", digits);
    else if ((int)n <= exponent + 1)
        snprintf(out, sizeof out, "%s%s%.*s.0", sign, digits, exponent + 1 - (int)n,
                 "0000000000000000");
    else
        snprintf(out, sizeof out, "%s%.*s.%s", sign, exponent + 1, digits, digits + exponent + 1);
    return ig_jbuf_puts(c, b, out);
}

static int put_int(struct ig_jctx *c, struct ig_jbuf *b, int64_t i)
{
    char text[32];
    snprintf(text, sizeof text, "%lld", (long long)i);
    return ig_jbuf_puts(c, b, text);
}

/* -- str() and repr() */
static int unprintable(uint32_t cp)
{
    return cp < 32 || (cp >= 0x7f && cp <= 0xa0) || cp == 0xad || (cp > 32 && ig_jspace(cp)) ||
           (cp >= 0x200b && cp <= 0x200f) || (cp >= 0x2028 && cp <= 0x202e) ||
           (cp >= 0x2060 && cp <= 0x206f) || (cp >= 0xe000 && cp <= 0xf8ff) || cp == 0xfeff ||
           (cp >= 0xfff0 && cp <= 0xfffb) || cp >= 0xe0000;
}

static int put_repr_str(struct ig_jctx *c, struct ig_jbuf *b, const struct ig_jstr *s)
{
    const int single = s->n && memchr(s->p, '\'', s->n) != NULL;
    const char quote = single && !memchr(s->p, '"', s->n) ? '"' : '\'';
    if (s->safe && !ig_jbuf_puts(c, b, "Markup(")) return 0;
    if (!ig_jput_char(c, b, (uint32_t)quote, 0)) return 0;
    for (size_t i = 0; i < s->n;) {
        const size_t len = ig_jchar_len(s->p + i, s->n - i);
        const uint32_t cp = ig_jchar(s->p + i, len);
        const unsigned char *mark = s->mark ? s->mark + i : NULL;
        const unsigned char marks[12] = { 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1 };
        char text[12];
        int n = 0;
        if (cp == '\n' || cp == '\r' || cp == '\t')
            n = snprintf(text, sizeof text, "\\%c", cp == '\n' ? 'n' : cp == '\r' ? 'r' : 't');
        else if (cp == '\\' || cp == (uint32_t)quote)
            n = snprintf(text, sizeof text, "\\%c", (int)cp);
        else if (unprintable(cp))
            n = snprintf(text, sizeof text,
                         cp < 0x100     ? "\\x%02x"
                         : cp < 0x10000 ? "\\u%04x"
                                        : "\\U%08x",
                         cp);
        const int ok = n ? ig_jbuf_put(c, b, text, mark && *mark ? marks : NULL, (size_t)n)
                         : ig_jbuf_put(c, b, s->p + i, mark, len);
        if (!ok) return 0;
        i += len;
    }
    return ig_jput_char(c, b, (uint32_t)quote, 0) && (!s->safe || ig_jbuf_puts(c, b, ")"));
}

static int put_list(struct ig_jctx *c, struct ig_jbuf *b, const struct ig_jv *v)
{
    const struct ig_jlist *l = v->u.l;
    const int tuple = v->type == IG_J_TUPLE;
    if (!ig_jbuf_puts(c, b, tuple ? "(" : "[")) return 0;
    for (size_t i = 0; i < l->n; i++)
        if ((i && !ig_jbuf_puts(c, b, ", ")) || !ig_jput_repr(c, b, &l->v[i])) return 0;
    return ig_jbuf_puts(c, b, !tuple ? "]" : l->n == 1 ? ",)" : ")");
}

static int put_dict(struct ig_jctx *c, struct ig_jbuf *b, const struct ig_jdict *d)
{
    if (!ig_jbuf_puts(c, b, "{")) return 0;
    for (size_t i = 0; i < d->key.n; i++)
        if ((i && !ig_jbuf_puts(c, b, ", ")) || !ig_jput_repr(c, b, &d->key.v[i]) ||
            !ig_jbuf_puts(c, b, ": ") || !ig_jput_repr(c, b, &d->value.v[i]))
            return 0;
    return ig_jbuf_puts(c, b, "}");
}

int ig_jput_repr(struct ig_jctx *c, struct ig_jbuf *b, const struct ig_jv *v)
{
    int ok = 0;
    if (!ig_jinja_step(c, 1)) return 0;
    if (++c->depth > IG_JINJA_MAX_CALL) return ig_jinja_fail(c, "nested too deep");
    switch (v->type) {
    case IG_J_UNDEF:
        ok = ig_jbuf_puts(c, b, "Undefined");
        break;
    case IG_J_NONE:
        ok = ig_jbuf_puts(c, b, "None");
        break;
    case IG_J_BOOL:
        ok = ig_jbuf_puts(c, b, v->u.b ? "True" : "False");
        break;
    case IG_J_INT:
        ok = put_int(c, b, v->u.i);
        break;
    case IG_J_FLOAT:
        ok = put_float(c, b, v->u.f);
        break;
    case IG_J_STR:
        ok = put_repr_str(c, b, v->u.s);
        break;
    case IG_J_LIST:
    case IG_J_TUPLE:
        ok = put_list(c, b, v);
        break;
    case IG_J_DICT:
        ok = put_dict(c, b, v->u.d);
        break;
    case IG_J_NS:
        ok = ig_jbuf_puts(c, b, "<Namespace ") && put_dict(c, b, v->u.d) && ig_jbuf_puts(c, b, ">");
        break;
    default:
        ok = ig_jinja_fail(c, "printing a %s is not supported", ig_jtype_name(v));
    }
    c->depth--;
    return ok;
}

int ig_jput_str(struct ig_jctx *c, struct ig_jbuf *b, const struct ig_jv *v)
{
    if (v->type == IG_J_UNDEF) return 1;
    if (v->type == IG_J_STR) return ig_jbuf_str(c, b, v->u.s);
    return ig_jput_repr(c, b, v);
}

int ig_jstr_of(struct ig_jctx *c, const struct ig_jv *v, struct ig_jv *out)
{
    struct ig_jbuf b = { 0 };
    if (v->type == IG_J_STR) {
        *out = *v;
        return 1;
    }
    return ig_jput_str(c, &b, v) && ig_jbuf_value(c, &b, out);
}

/* -- JSON, as json.dumps writes it */
static int json_string(struct ig_jctx *c, struct ig_jbuf *b, const struct ig_jstr *s, int ascii)
{
    const unsigned char marks[16] = { 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1 };
    if (!ig_jbuf_puts(c, b, "\"")) return 0;
    for (size_t i = 0; i < s->n;) {
        static const char from[] = "\"\\\n\r\t\b\f", to[] = "\"\\nrtbf";
        const size_t len = ig_jchar_len(s->p + i, s->n - i);
        const uint32_t cp = ig_jchar(s->p + i, len);
        const char *at = cp && cp < 128 ? strchr(from, (int)cp) : NULL;
        const unsigned char *mark = s->mark ? s->mark + i : NULL;
        char text[16];
        int n = 0;
        if (at)
            n = snprintf(text, sizeof text, "\\%c", to[at - from]);
        else if (cp < 32 || (ascii && cp > 126 && cp < 0x10000))
            n = snprintf(text, sizeof text, "\\u%04x", cp);
        else if (ascii && cp >= 0x10000)
            n = snprintf(text, sizeof text, "\\u%04x\\u%04x", 0xd800 + ((cp - 0x10000) >> 10),
                         0xdc00 + ((cp - 0x10000) & 0x3ff));
        const int ok = n ? ig_jbuf_put(c, b, text, mark && *mark ? marks : NULL, (size_t)n)
                         : ig_jbuf_put(c, b, s->p + i, mark, len);
        if (!ok) return 0;
        i += len;
    }
    return ig_jbuf_puts(c, b, "\"");
}

struct json_style {
    const char *indent, *item_sep, *key_sep;
    int sort, ascii;
};

static int json_break(struct ig_jctx *c, struct ig_jbuf *b, const struct json_style *st, int level)
{
    if (!st->indent) return 1;
    if (!ig_jbuf_puts(c, b, "\n")) return 0;
    for (int i = 0; i < level; i++)
        if (!ig_jbuf_puts(c, b, st->indent)) return 0;
    return 1;
}

static int json_key(struct ig_jctx *c, struct ig_jbuf *b, const struct ig_jv *k,
                    const struct json_style *st)
{
    if (k->type == IG_J_STR) return json_string(c, b, k->u.s, st->ascii);
    if (k->type == IG_J_TUPLE) return ig_jinja_fail(c, "tojson: a tuple is no key");
    return ig_jbuf_puts(c, b, "\"") &&
           ig_jput_json(c, b, k, NULL, st->item_sep, st->key_sep, 0, 0, 0) &&
           ig_jbuf_puts(c, b, "\"");
}

static int by_key(const void *a, const void *b, void *d_v)
{
    const struct ig_jdict *d = d_v;
    const struct ig_jv *x = &d->key.v[*(const size_t *)a], *y = &d->key.v[*(const size_t *)b];
    if (x->type != IG_J_STR || y->type != IG_J_STR) return 0;
    const size_t n = x->u.s->n < y->u.s->n ? x->u.s->n : y->u.s->n;
    const int cmp = memcmp(x->u.s->p, y->u.s->p, n);
    return cmp ? cmp : (x->u.s->n > y->u.s->n) - (x->u.s->n < y->u.s->n);
}

static int json_dict(struct ig_jctx *c, struct ig_jbuf *b, const struct ig_jdict *d,
                     const struct json_style *st, int level)
{
    const size_t n = d->key.n;
    size_t *order = ig_jget(c, (n + 1) * sizeof *order);
    if (!order) return 0;
    for (size_t i = 0; i < n; i++) order[i] = i;
    if (st->sort && n > 1) qsort_r(order, n, sizeof *order, by_key, (void *)(uintptr_t)d);
    if (!ig_jbuf_puts(c, b, "{")) return 0;
    for (size_t i = 0; i < n; i++) {
        if (i && !ig_jbuf_puts(c, b, st->item_sep)) return 0;
        if (!json_break(c, b, st, level + 1) || !json_key(c, b, &d->key.v[order[i]], st) ||
            !ig_jbuf_puts(c, b, st->key_sep) ||
            !ig_jput_json(c, b, &d->value.v[order[i]], st->indent, st->item_sep, st->key_sep,
                          st->sort, st->ascii, level + 1))
            return 0;
    }
    return (n == 0 || json_break(c, b, st, level)) && ig_jbuf_puts(c, b, "}");
}

static int json_list(struct ig_jctx *c, struct ig_jbuf *b, const struct ig_jlist *l,
                     const struct json_style *st, int level)
{
    if (!ig_jbuf_puts(c, b, "[")) return 0;
    for (size_t i = 0; i < l->n; i++) {
        if (i && !ig_jbuf_puts(c, b, st->item_sep)) return 0;
        if (!json_break(c, b, st, level + 1) ||
            !ig_jput_json(c, b, &l->v[i], st->indent, st->item_sep, st->key_sep, st->sort,
                          st->ascii, level + 1))
            return 0;
    }
    return (l->n == 0 || json_break(c, b, st, level)) && ig_jbuf_puts(c, b, "]");
}

int ig_jput_json(struct ig_jctx *c, struct ig_jbuf *b, const struct ig_jv *v, const char *indent,
                 const char *item_sep, const char *key_sep, int sort, int ascii, int level)
{
    const struct json_style st = { indent, item_sep, key_sep, sort, ascii };
    int ok;
    if (!ig_jinja_step(c, 1)) return 0;
    if (++c->depth > IG_JINJA_MAX_CALL) return ig_jinja_fail(c, "nested too deep");
    switch (v->type) {
    case IG_J_NONE:
        ok = ig_jbuf_puts(c, b, "null");
        break;
    case IG_J_BOOL:
        ok = ig_jbuf_puts(c, b, v->u.b ? "true" : "false");
        break;
    case IG_J_INT:
        ok = put_int(c, b, v->u.i);
        break;
    case IG_J_FLOAT:
        ok = isfinite(v->u.f) ? put_float(c, b, v->u.f)
                              : ig_jbuf_puts(c, b,
                                             isnan(v->u.f) ? "NaN"
                                             : v->u.f > 0  ? "Infinity"
                                                           : "-Infinity");
        break;
    case IG_J_STR:
        ok = json_string(c, b, v->u.s, ascii);
        break;
    case IG_J_LIST:
    case IG_J_TUPLE:
        ok = json_list(c, b, v->u.l, &st, level);
        break;
    case IG_J_DICT:
        ok = json_dict(c, b, v->u.d, &st, level);
        break;
    default:
        ok = ig_jinja_fail(c, "tojson: Object of type %s is not JSON serializable",
                           ig_jtype_name(v));
    }
    c->depth--;
    return ok;
}
