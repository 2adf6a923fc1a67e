/* jinja_method.c -- methods of strings, lists and dicts that templates call. */
#include "jinja.h"
#include <stdlib.h>

static const char *const str_methods[] = {
    "strip",        "lstrip",      "rstrip",     "split",   "rsplit",    "splitlines",
    "startswith",   "endswith",    "upper",      "lower",   "title",     "capitalize",
    "swapcase",     "casefold",    "replace",    "find",    "rfind",     "index",
    "rindex",       "count",       "join",       "format",  "isdigit",   "isalpha",
    "isalnum",      "isspace",     "isupper",    "islower", "isdecimal", "isnumeric",
    "zfill",        "partition",   "rpartition", "center",  "ljust",     "rjust",
    "removeprefix", "removesuffix"
};
static const char *const dict_methods[] = { "items", "keys", "values", "get", "copy" };
static const char *const list_methods[] = { "index", "count", "copy" };

static int in_list(const char *name, const char *const *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!strcmp(name, list[i])) return 1;
    return 0;
}
#define IN(name, list) in_list(name, list, sizeof(list) / sizeof *(list))

int ig_jhas_method(const struct ig_jv *v, const char *name)
{
    if (v->type == IG_J_STR) return IN(name, str_methods);
    if (v->type == IG_J_DICT) return IN(name, dict_methods);
    return (v->type == IG_J_LIST || v->type == IG_J_TUPLE) && IN(name, list_methods);
}

static int has_char(const struct ig_jstr *set, uint32_t cp)
{
    if (!set) return ig_jspace(cp);
    for (size_t i = 0; i < set->n; i += ig_jchar_len(set->p + i, set->n - i))
        if (ig_jchar(set->p + i, set->n - i) == cp) return 1;
    return 0;
}

int ig_jstrip(struct ig_jctx *c, const struct ig_jstr *s, const struct ig_jv *chars, int sides,
              struct ig_jv *out)
{
    struct ig_jstr *set = NULL;
    size_t lo = 0, hi = s->n;
    if (chars && chars->type != IG_J_NONE && !ig_jneed_str(c, chars, "strip", &set)) return 0;
    if (set && !ig_jinja_step(c, (int64_t)(s->n / 64 * (set->n + 1)))) return 0;
    while ((sides & 1) && lo < hi && has_char(set, ig_jchar(s->p + lo, hi - lo)))
        lo += ig_jchar_len(s->p + lo, hi - lo);
    while ((sides & 2) && hi > lo) {
        size_t at = hi - 1;
        while (at > lo && (s->p[at] & 0xc0) == 0x80) at--;
        if (!has_char(set, ig_jchar(s->p + at, hi - at))) break;
        hi = at;
    }
    return ig_jstr_sub(c, s, lo, hi, out);
}

static const char *find(const struct ig_jstr *s, size_t from, const struct ig_jstr *what)
{
    if (from > s->n) return NULL;
    return what->n == 0 ? s->p + from : memmem(s->p + from, s->n - from, what->p, what->n);
}

int ig_jreplace(struct ig_jctx *c, const struct ig_jstr *s, const struct ig_jstr *from,
                const struct ig_jstr *to, int64_t count, struct ig_jv *out)
{
    struct ig_jbuf b = { 0 };
    size_t done = 0;
    if (from->n == 0) { /* between all characters, as Python does */
        for (size_t i = 0; i <= s->n && count != 0; count--) {
            const size_t len = i < s->n ? ig_jchar_len(s->p + i, s->n - i) : 0;
            if (!ig_jinja_step(c, 1) || !ig_jbuf_str(c, &b, to) ||
                !ig_jbuf_put(c, &b, s->p + i, s->mark ? s->mark + i : NULL, len))
                return 0;
            done = i += len;
            if (len == 0) break;
        }
    }
    while (from->n && count != 0) {
        const char *hit = find(s, done, from);
        if (!hit) break;
        const size_t at = (size_t)(hit - s->p);
        if (!ig_jinja_step(c, 1) ||
            !ig_jbuf_put(c, &b, s->p + done, s->mark ? s->mark + done : NULL, at - done) ||
            !ig_jbuf_str(c, &b, to))
            return 0;
        done = at + from->n;
        count--;
    }
    return ig_jbuf_put(c, &b, s->p + done, s->mark ? s->mark + done : NULL, s->n - done) &&
           ig_jbuf_value(c, &b, out);
}

/* how: u(pper) l(ower) c(apitalize) s(wapcase) t(itle) T(itle, as the filter has it) */
int ig_jrecase(struct ig_jctx *c, const struct ig_jstr *s, const char *how, struct ig_jv *out)
{
    struct ig_jbuf b = { 0 };
    int first = 1;
    for (size_t i = 0; i < s->n;) {
        const size_t len = ig_jchar_len(s->p + i, s->n - i);
        const uint32_t cp = ig_jchar(s->p + i, len);
        const int mark = s->mark && s->mark[i];
        const int up = how[0] == 'u' || ((how[0] == 'c' || (how[0] | 32) == 't') && first) ||
                       (how[0] == 's' && ig_jcase(cp, IG_JCASE_LOWER) == cp);
        const uint32_t to = ig_jcase(cp, up ? IG_JCASE_UPPER : IG_JCASE_LOWER);
        int ok = 1;
        if (cp == 0xdf && up) {
            ok = ig_jput_char(c, &b, 'S', mark);
            if (ok) ok = ig_jput_char(c, &b, how[0] == 'u' || how[0] == 's' ? 'S' : 's', mark);
        } else {
            ok = ig_jput_char(c, &b, to, mark);
        }
        if (!ok) return 0;
        if (how[0] == 't')
            first = !ig_jalpha(cp);
        else if (how[0] == 'T')
            first = cp == '-' || cp == '(' || cp == '{' || cp == '[' || cp == '<' || ig_jspace(cp);
        else
            first = 0;
        i += len;
    }
    return ig_jinja_step(c, (int64_t)(s->n / 16)) && ig_jbuf_value(c, &b, out);
}

/* -- splitting */
static int put_sub(struct ig_jctx *c, struct ig_jlist *l, const struct ig_jstr *s, size_t from,
                   size_t to)
{
    struct ig_jv v;
    return ig_jinja_step(c, 1) && ig_jstr_sub(c, s, from, to, &v) && ig_jlist_put(c, l, v);
}

static int split_space(struct ig_jctx *c, const struct ig_jstr *s, int64_t most, struct ig_jlist *l)
{
    size_t i = 0;
    while (i < s->n) {
        while (i < s->n && ig_jspace(ig_jchar(s->p + i, s->n - i)))
            i += ig_jchar_len(s->p + i, s->n - i);
        if (i >= s->n) break;
        size_t end = i;
        if (most-- == 0) {
            struct ig_jv rest;
            return ig_jstr_sub(c, s, i, s->n, &rest) && ig_jstrip(c, rest.u.s, NULL, 2, &rest) &&
                   ig_jlist_put(c, l, rest);
        }
        while (end < s->n && !ig_jspace(ig_jchar(s->p + end, s->n - end)))
            end += ig_jchar_len(s->p + end, s->n - end);
        if (!put_sub(c, l, s, i, end)) return 0;
        i = end;
    }
    return 1;
}

static int split_from_right(struct ig_jctx *c, const struct ig_jstr *s, const struct ig_jstr *sep,
                            int64_t most, struct ig_jlist *l)
{
    size_t end = s->n;
    for (size_t at = s->n; at >= sep->n && most != 0;) {
        if (memcmp(s->p + at - sep->n, sep->p, sep->n) != 0) {
            if (at-- == 0) break;
            continue;
        }
        if (!put_sub(c, l, s, at, end)) return 0;
        end = at -= sep->n;
        most--;
    }
    if (!put_sub(c, l, s, 0, end)) return 0;
    for (size_t i = 0; i < l->n / 2; i++) {
        const struct ig_jv t = l->v[i];
        l->v[i] = l->v[l->n - 1 - i];
        l->v[l->n - 1 - i] = t;
    }
    return 1;
}

static int split(struct ig_jctx *c, const struct ig_jstr *s, const struct ig_jargs *a, int right,
                 struct ig_jv *out)
{
    const struct ig_jv *sep = ig_jarg(a, 0, "sep");
    struct ig_jstr *by;
    int64_t most;
    size_t done = 0;
    if (!ig_jarg_int(c, a, 1, "maxsplit", -1, &most) || !ig_jlist_new(c, IG_J_LIST, out)) return 0;
    if (!sep || sep->type == IG_J_NONE) {
        if (right && most >= 0)
            return ig_jinja_fail(c, "rsplit by white space with a limit is not supported");
        return split_space(c, s, most, out->u.l);
    }
    if (!ig_jneed_str(c, sep, "split", &by)) return 0;
    if (by->n == 0) return ig_jinja_fail(c, "empty separator");
    if (right) return split_from_right(c, s, by, most, out->u.l);
    for (const char *hit; most != 0 && (hit = find(s, done, by)) != NULL; most--) {
        if (!put_sub(c, out->u.l, s, done, (size_t)(hit - s->p))) return 0;
        done = (size_t)(hit - s->p) + by->n;
    }
    return put_sub(c, out->u.l, s, done, s->n);
}

static int splitlines(struct ig_jctx *c, const struct ig_jstr *s, int keep, struct ig_jv *out)
{
    size_t from = 0;
    if (!ig_jlist_new(c, IG_J_LIST, out)) return 0;
    for (size_t i = 0; i < s->n;) {
        const size_t len = ig_jchar_len(s->p + i, s->n - i);
        const uint32_t cp = ig_jchar(s->p + i, len);
        const int ends = (cp >= 10 && cp <= 13) || (cp >= 0x1c && cp <= 0x1e) || cp == 0x85 ||
                         cp == 0x2028 || cp == 0x2029;
        size_t end = i;
        i += len;
        if (!ends) continue;
        if (cp == '\r' && i < s->n && s->p[i] == '\n') i++;
        if (keep) end = i;
        if (!put_sub(c, out->u.l, s, from, end)) return 0;
        from = i;
    }
    return from == s->n || put_sub(c, out->u.l, s, from, s->n);
}

static int partition(struct ig_jctx *c, const struct ig_jstr *s, const struct ig_jstr *sep,
                     int right, struct ig_jv *out)
{
    const char *hit = NULL;
    if (sep->n == 0) return ig_jinja_fail(c, "empty separator");
    if (!ig_jlist_new(c, IG_J_TUPLE, out)) return 0;
    for (const char *p = find(s, 0, sep); p; p = find(s, (size_t)(p - s->p) + 1, sep)) {
        hit = p;
        if (!right) break;
    }
    const size_t at = hit ? (size_t)(hit - s->p) : right ? 0 : s->n, len = hit ? sep->n : 0;
    return put_sub(c, out->u.l, s, 0, at) && put_sub(c, out->u.l, s, at, at + len) &&
           put_sub(c, out->u.l, s, at + len, s->n);
}

/* -- looking */
static int fix(struct ig_jctx *c, const struct ig_jstr *s, const struct ig_jv *what, int at_end,
               int *yes)
{
    *yes = 0;
    if (what && what->type == IG_J_TUPLE) {
        for (size_t i = 0; i < what->u.l->n && !*yes; i++)
            if (!fix(c, s, &what->u.l->v[i], at_end, yes)) return 0;
        return 1;
    }
    struct ig_jstr *x;
    if (!ig_jneed_str(c, what, at_end ? "endswith" : "startswith", &x)) return 0;
    *yes = x->n <= s->n && !memcmp(at_end ? s->p + s->n - x->n : s->p, x->p, x->n);
    return 1;
}

static int search(struct ig_jctx *c, const struct ig_jstr *s, const char *name,
                  const struct ig_jargs *a, struct ig_jv *out)
{
    struct ig_jstr *what;
    int64_t from, count = 0, last = -1;
    if (!ig_jneed_str(c, ig_jarg(a, 0, NULL), name, &what) || !ig_jarg_int(c, a, 1, NULL, 0, &from))
        return 0;
    if (a->pos.n > 2) return ig_jinja_fail(c, "%s with an end is not supported", name);
    if (from < 0) from += (int64_t)ig_jchars(s);
    size_t at = ig_jchar_at(s, from > 0 ? (size_t)from : 0);
    for (const char *hit; (hit = find(s, at, what)) != NULL; count++) {
        if (!ig_jinja_step(c, 1)) return 0;
        last = hit - s->p;
        if (name[0] == 'f' || name[0] == 'i') break;
        at = (size_t)last + (name[0] == 'c' && what->n ? what->n : 1);
    }
    if (name[0] == 'c') {
        *out = ig_jint(what->n ? count : (int64_t)ig_jchars(s) + 1);
        return 1;
    }
    if (last < 0 && (!strcmp(name, "index") || !strcmp(name, "rindex")))
        return ig_jinja_fail(c, "substring not found");
    const struct ig_jstr head = { .p = s->p, .n = last < 0 ? 0 : (size_t)last };
    *out = ig_jint(last < 0 ? -1 : (int64_t)ig_jchars(&head));
    return 1;
}

static int classify(const struct ig_jstr *s, const char *name)
{
    int cased = 0;
    for (size_t i = 0; i < s->n; i += ig_jchar_len(s->p + i, s->n - i)) {
        const uint32_t cp = ig_jchar(s->p + i, s->n - i);
        const int digit = cp >= '0' && cp <= '9';
        const int upper = ig_jcase(cp, IG_JCASE_LOWER) != cp;
        const int lower = ig_jcase(cp, IG_JCASE_UPPER) != cp || cp == 0xdf;
        if (!strcmp(name, "isspace") && !ig_jspace(cp)) return 0;
        if (!strcmp(name, "isalpha") && !ig_jalpha(cp)) return 0;
        if (!strcmp(name, "isalnum") && !ig_jalpha(cp) && !digit) return 0;
        if ((!strcmp(name, "isdigit") || !strcmp(name, "isdecimal") ||
             !strcmp(name, "isnumeric")) &&
            !digit)
            return 0;
        if ((!strcmp(name, "isupper") && lower) || (!strcmp(name, "islower") && upper)) return 0;
        cased |= upper || lower;
    }
    return s->n > 0 && (cased || (strcmp(name, "isupper") && strcmp(name, "islower")));
}

/* -- padding: 0 left of the text, 1 right, 2 both sides; zfill minds the sign */
static int pad(struct ig_jctx *c, const struct ig_jstr *s, const char *name,
               const struct ig_jargs *a, struct ig_jv *out)
{
    static const struct ig_jstr space = { .p = " ", .n = 1 }, zero = { .p = "0", .n = 1 };
    const int zfill = name[0] == 'z';
    const struct ig_jv *fill_v = zfill ? NULL : ig_jarg(a, 1, NULL);
    const struct ig_jstr *fill = zfill ? &zero : &space;
    struct ig_jbuf b = { 0 };
    int64_t width;
    if (!ig_jarg_int(c, a, 0, "width", 0, &width)) return 0;
    if (fill_v) {
        struct ig_jstr *x;
        if (!ig_jneed_str(c, fill_v, name, &x)) return 0;
        if (ig_jchars(x) != 1)
            return ig_jinja_fail(c, "The fill character must be exactly one character long");
        fill = x;
    }
    const int64_t n = (int64_t)ig_jchars(s), more = width > n ? width - n : 0;
    int64_t left = 0;
    if (name[0] == 'r' || zfill) left = more;
    if (name[0] == 'c') left = more / 2 + (more & width & 1);
    const size_t sign = zfill && s->n && (s->p[0] == '-' || s->p[0] == '+') ? 1 : 0;
    if (!ig_jinja_step(c, more) || !ig_jbuf_put(c, &b, s->p, s->mark, sign)) return 0;
    for (int64_t i = 0; i < more + 1; i++) {
        if (i == left &&
            !ig_jbuf_put(c, &b, s->p + sign, s->mark ? s->mark + sign : NULL, s->n - sign))
            return 0;
        if (i < more && !ig_jbuf_str(c, &b, fill)) return 0;
    }
    return ig_jbuf_value(c, &b, out);
}

static int join(struct ig_jctx *c, const struct ig_jstr *sep, const struct ig_jv *items,
                struct ig_jv *out)
{
    struct ig_jbuf b = { 0 };
    struct ig_jlist *l;
    if (!items) return ig_jinja_fail(c, "join: want an iterable");
    if (!ig_jiter(c, items, &l)) return 0;
    for (size_t i = 0; i < l->n; i++) {
        struct ig_jstr *s;
        if (!ig_jneed_str(c, &l->v[i], "join", &s) || (i && !ig_jbuf_str(c, &b, sep)) ||
            !ig_jbuf_str(c, &b, s))
            return 0;
    }
    return ig_jbuf_value(c, &b, out);
}

/* "{} {0} {name}" with plain fields only */
static int format(struct ig_jctx *c, const struct ig_jstr *s, const struct ig_jargs *a,
                  struct ig_jv *out)
{
    struct ig_jbuf b = { 0 };
    size_t next = 0;
    for (size_t i = 0; i < s->n; i++) {
        const unsigned char *mark = s->mark ? s->mark + i : NULL;
        const char ch = s->p[i];
        if ((ch == '{' || ch == '}') && i + 1 < s->n && s->p[i + 1] == ch) {
            if (!ig_jbuf_put(c, &b, s->p + i++, mark, 1)) return 0;
            continue;
        }
        if (ch != '{') {
            if (!ig_jbuf_put(c, &b, s->p + i, mark, 1)) return 0;
            continue;
        }
        const char *end = memchr(s->p + i, '}', s->n - i);
        char name[64];
        const size_t n = end ? (size_t)(end - (s->p + i)) - 1 : 0;
        if (!end || n >= sizeof name) return ig_jinja_fail(c, "format: a field without its end");
        memcpy(name, s->p + i + 1, n);
        name[n] = 0;
        if (strpbrk(name, ":!.[")) return ig_jinja_fail(c, "format: {%s} is not supported", name);
        const int numbered = n == 0 || (name[0] >= '0' && name[0] <= '9');
        const struct ig_jv *v = numbered ? ig_jarg(a, n ? (size_t)atoi(name) : next++, NULL)
                                         : ig_jarg(a, SIZE_MAX, name);
        if (!v) return ig_jinja_fail(c, "format: no value for {%s}", name);
        if (!ig_jput_str(c, &b, v)) return 0;
        i += n + 1;
    }
    return ig_jbuf_value(c, &b, out);
}

static int str_method(struct ig_jctx *c, const struct ig_jstr *s, const char *name,
                      const struct ig_jargs *a, struct ig_jv *out)
{
    const struct ig_jv *first = ig_jarg(a, 0, NULL);
    struct ig_jstr *x, *y;
    int yes = 0;
    if (!ig_jinja_step(c, (int64_t)(s->n / 64))) return 0;
    if (!strcmp(name, "strip")) return ig_jstrip(c, s, first, 3, out);
    if (!strcmp(name, "lstrip")) return ig_jstrip(c, s, first, 1, out);
    if (!strcmp(name, "rstrip")) return ig_jstrip(c, s, first, 2, out);
    if (!strcmp(name, "split") || !strcmp(name, "rsplit"))
        return split(c, s, a, name[0] == 'r', out);
    if (!strcmp(name, "splitlines"))
        return splitlines(c, s, ig_jarg_bool(a, 0, "keepends", 0), out);
    if (!strcmp(name, "startswith") || !strcmp(name, "endswith")) {
        if (a->pos.n > 1) return ig_jinja_fail(c, "%s with a start is not supported", name);
        if (!fix(c, s, first, name[0] == 'e', &yes)) return 0;
        *out = ig_jbool(yes);
        return 1;
    }
    if (!strcmp(name, "upper") || !strcmp(name, "lower") || !strcmp(name, "title") ||
        !strcmp(name, "capitalize") || !strcmp(name, "swapcase"))
        return ig_jrecase(c, s, name, out);
    if (!strcmp(name, "casefold")) return ig_jrecase(c, s, "lower", out);
    if (!strcmp(name, "replace")) {
        int64_t count;
        return ig_jneed_str(c, first, name, &x) && ig_jneed_str(c, ig_jarg(a, 1, NULL), name, &y) &&
               ig_jarg_int(c, a, 2, "count", -1, &count) && ig_jreplace(c, s, x, y, count, out);
    }
    if (strstr(name, "find") || strstr(name, "index") || !strcmp(name, "count"))
        return search(c, s, name, a, out);
    if (!strcmp(name, "join")) return join(c, s, first, out);
    if (!strcmp(name, "format")) return format(c, s, a, out);
    if (!strncmp(name, "is", 2)) {
        *out = ig_jbool(classify(s, name));
        return 1;
    }
    if (strstr(name, "partition"))
        return ig_jneed_str(c, first, name, &x) && partition(c, s, x, name[0] == 'r', out);
    if (!strncmp(name, "remove", 6)) {
        const int suffix = name[6] == 's';
        if (!ig_jneed_str(c, first, name, &x) || !fix(c, s, first, suffix, &yes)) return 0;
        const size_t cut = yes ? x->n : 0;
        return ig_jstr_sub(c, s, suffix ? 0 : cut, suffix ? s->n - cut : s->n, out);
    }
    return pad(c, s, name, a, out);
}

static int dict_method(struct ig_jctx *c, const struct ig_jdict *d, const char *name,
                       const struct ig_jargs *a, struct ig_jv *out)
{
    if (!strcmp(name, "get")) {
        const struct ig_jv *key = ig_jarg(a, 0, NULL), *other = ig_jarg(a, 1, NULL);
        if (!key) return ig_jinja_fail(c, "get: want a key");
        const struct ig_jv *v = ig_jdict_get(d, key);
        *out = v ? *v : other ? *other : (struct ig_jv){ .type = IG_J_NONE };
        return 1;
    }
    if (!strcmp(name, "copy")) {
        if (!ig_jdict_new(c, out)) return 0;
        for (size_t i = 0; i < d->key.n; i++)
            if (!ig_jdict_put(c, out->u.d, d->key.v[i], d->value.v[i])) return 0;
        return 1;
    }
    if (!ig_jlist_new(c, IG_J_LIST, out)) return 0;
    for (size_t i = 0; i < d->key.n; i++) {
        struct ig_jv v = name[0] == 'k' ? d->key.v[i] : d->value.v[i], pair;
        if (name[0] == 'i') {
            if (!ig_jlist_new(c, IG_J_TUPLE, &pair) || !ig_jlist_put(c, pair.u.l, d->key.v[i]) ||
                !ig_jlist_put(c, pair.u.l, v))
                return 0;
            v = pair;
        }
        if (!ig_jinja_step(c, 1) || !ig_jlist_put(c, out->u.l, v)) return 0;
    }
    return 1;
}

static int list_method(struct ig_jctx *c, const struct ig_jv *self, const char *name,
                       const struct ig_jargs *a, struct ig_jv *out)
{
    const struct ig_jlist *l = self->u.l;
    const struct ig_jv *what = ig_jarg(a, 0, NULL);
    int64_t count = 0;
    if (!strcmp(name, "copy")) {
        if (!ig_jlist_new(c, self->type, out)) return 0;
        for (size_t i = 0; i < l->n; i++)
            if (!ig_jinja_step(c, 1) || !ig_jlist_put(c, out->u.l, l->v[i])) return 0;
        return 1;
    }
    if (!what) return ig_jinja_fail(c, "%s: want a value", name);
    for (size_t i = 0; i < l->n; i++) {
        int eq;
        if (!ig_jequal(c, &l->v[i], what, &eq)) return 0;
        if (eq && name[0] == 'i') {
            *out = ig_jint((int64_t)i);
            return 1;
        }
        count += eq;
    }
    if (name[0] == 'i') return ig_jinja_fail(c, "index: the value is not in the list");
    *out = ig_jint(count);
    return 1;
}

int ig_jmethod(struct ig_jctx *c, const struct ig_jv *self, const char *name,
               const struct ig_jargs *args, struct ig_jv *out)
{
    if (self->type == IG_J_STR && self->u.s->safe) {
        struct ig_jargs safe;
        return ig_jsafe_args(c, name, args, &safe) && str_method(c, self->u.s, name, &safe, out) &&
               ig_jsafe(c, out);
    }
    if (self->type == IG_J_STR) return str_method(c, self->u.s, name, args, out);
    if (self->type == IG_J_DICT) return dict_method(c, self->u.d, name, args, out);
    return list_method(c, self, name, args, out);
}
