/* jinja_filter_seq.c -- filters of sequences.  Those that are generators in
 * Jinja give generators here: always true, without a length, good for one pass.
 */
#include "jinja.h"
#include <stdlib.h>

/* a.b.0 of an item; missing parts are undefined, or `otherwise` when given. */
static int get_path(struct ig_jctx *c, const struct ig_jv *v, const struct ig_jv *path,
                    const struct ig_jv *otherwise, struct ig_jv *out)
{
    *out = *v;
    if (path->type == IG_J_INT) return ig_jitem(c, v, path, out);
    struct ig_jstr *s;
    if (!ig_jneed_str(c, path, "attribute", &s)) return 0;
    for (size_t i = 0; i <= s->n;) {
        const char *dot = memchr(s->p + i, '.', s->n - i);
        const size_t end = dot ? (size_t)(dot - s->p) : s->n;
        struct ig_jv key, from = *out;
        if (!ig_jstr_new(c, s->p + i, NULL, end - i, &key)) return 0;
        char *rest;
        const long index = strtol(key.u.s->p, &rest, 10);
        if (end > i && !*rest && key.u.s->p[0] != '-') key = ig_jint(index);
        /* A lookup that fails half way is undefined, not an error. */
        if (from.type == IG_J_UNDEF) {
            if (!otherwise) return ig_jitem(c, &from, &key, out);
            break;
        }
        if (!ig_jitem(c, &from, &key, out)) return 0;
        i = end + 1;
    }
    if (out->type == IG_J_UNDEF && otherwise) *out = *otherwise;
    return 1;
}

static int put_all(struct ig_jctx *c, struct ig_jlist *to, const struct ig_jlist *from)
{
    for (size_t i = 0; i < from->n; i++)
        if (!ig_jinja_step(c, 1) || !ig_jlist_put(c, to, from->v[i])) return 0;
    return 1;
}

static int f_join(struct ig_jctx *c, const struct ig_jlist *l, const struct ig_jargs *a,
                  struct ig_jv *out)
{
    const struct ig_jv *sep = ig_jarg(a, 0, "d"), *path = ig_jarg(a, 1, "attribute");
    struct ig_jbuf b = { 0 };
    for (size_t i = 0; i < l->n; i++) {
        struct ig_jv v = l->v[i];
        if (path && !get_path(c, &l->v[i], path, NULL, &v)) return 0;
        if (i && sep && !ig_jput_str(c, &b, sep)) return 0;
        if (!ig_jput_str(c, &b, &v)) return 0;
    }
    return ig_jbuf_value(c, &b, out);
}

static int f_map(struct ig_jctx *c, const struct ig_jlist *l, const struct ig_jargs *a,
                 struct ig_jv *out)
{
    const struct ig_jv *path = ig_jarg(a, SIZE_MAX, "attribute"),
                       *otherwise = ig_jarg(a, SIZE_MAX, "default");
    struct ig_jargs rest = *a;
    struct ig_jstr *name = NULL;
    struct ig_jv copy;
    if (!path) {
        if (!ig_jneed_str(c, ig_jarg(a, 0, NULL), "map", &name) ||
            !ig_jstr_new(c, name->p, NULL, name->n, &copy))
            return 0;
        rest.pos.v++;
        rest.pos.n--;
        rest.pos.cap = 0;
    }
    for (size_t i = 0; i < l->n; i++) {
        struct ig_jv v;
        if (!ig_jinja_step(c, 1)) return 0;
        if (!(path ? get_path(c, &l->v[i], path, otherwise, &v)
                   : ig_jfilter(c, copy.u.s->p, &l->v[i], &rest, &v)))
            return 0;
        if (!ig_jlist_put(c, out->u.l, v)) return 0;
    }
    return 1;
}

/* select, reject, selectattr, rejectattr */
static int f_select(struct ig_jctx *c, const char *name, const struct ig_jlist *l,
                    const struct ig_jargs *a, struct ig_jv *out)
{
    const int by_attr = strstr(name, "attr") != NULL, keep = name[0] == 's';
    const size_t skip = (size_t)by_attr;
    struct ig_jargs rest = { .kw = a->kw, .kw_name = a->kw_name };
    struct ig_jv test = { .type = IG_J_NONE };
    struct ig_jstr *s;
    if (by_attr && a->pos.n == 0) return ig_jinja_fail(c, "%s: want an attribute", name);
    if (a->pos.n > skip) {
        if (!ig_jneed_str(c, &a->pos.v[skip], name, &s) || !ig_jstr_new(c, s->p, NULL, s->n, &test))
            return 0;
        rest.pos.v = a->pos.v + skip + 1;
        rest.pos.n = a->pos.n - skip - 1;
    }
    for (size_t i = 0; i < l->n; i++) {
        struct ig_jv v = l->v[i];
        int yes;
        if (!ig_jinja_step(c, 1) || (by_attr && !get_path(c, &l->v[i], &a->pos.v[0], NULL, &v)))
            return 0;
        if (test.type == IG_J_NONE)
            yes = ig_jtruth(&v);
        else if (!ig_jtest(c, test.u.s->p, &v, &rest, &yes))
            return 0;
        if (yes == keep && !ig_jlist_put(c, out->u.l, l->v[i])) return 0;
    }
    return 1;
}

/* -- order: a merge sort, because comparing may fail and must be stable */
struct sort_item {
    struct ig_jv key, value;
};

static int sort_key(struct ig_jctx *c, const struct ig_jv *v, const struct ig_jv *path,
                    int case_sensitive, struct ig_jv *out)
{
    *out = *v;
    if (path && path->type != IG_J_NONE && !get_path(c, v, path, NULL, out)) return 0;
    return case_sensitive || out->type != IG_J_STR || ig_jrecase(c, out->u.s, "lower", out);
}

static int merge_sort(struct ig_jctx *c, struct sort_item *v, struct sort_item *tmp, size_t n,
                      int reverse)
{
    if (n < 2) return 1;
    const size_t half = n / 2;
    if (!merge_sort(c, v, tmp, half, reverse) ||
        !merge_sort(c, v + half, tmp + half, n - half, reverse))
        return 0;
    size_t i = 0, j = half, k = 0;
    while (i < half && j < n) {
        int cmp;
        if (!ig_jcompare(c, &v[i].key, &v[j].key, &cmp)) return 0;
        if (reverse) cmp = -cmp;
        tmp[k++] = cmp <= 0 ? v[i++] : v[j++];
    }
    while (i < half) tmp[k++] = v[i++];
    while (j < n) tmp[k++] = v[j++];
    memcpy(v, tmp, n * sizeof *v);
    return 1;
}

static int sorted(struct ig_jctx *c, const struct ig_jlist *l, const struct ig_jv *path,
                  int case_sensitive, int reverse, struct sort_item **out)
{
    struct sort_item *v = ig_jget(c, (l->n + 1) * sizeof *v),
                     *tmp = ig_jget(c, (l->n + 1) * sizeof *v);
    if (!v || !tmp) return 0;
    for (size_t i = 0; i < l->n; i++) {
        v[i].value = l->v[i];
        if (!ig_jinja_step(c, 1) || !sort_key(c, &l->v[i], path, case_sensitive, &v[i].key))
            return 0;
    }
    *out = v;
    return merge_sort(c, v, tmp, l->n, reverse);
}

static int f_sort(struct ig_jctx *c, const struct ig_jlist *l, const struct ig_jargs *a,
                  struct ig_jv *out)
{
    struct sort_item *v;
    if (!sorted(c, l, ig_jarg(a, 2, "attribute"), ig_jarg_bool(a, 1, "case_sensitive", 0),
                ig_jarg_bool(a, 0, "reverse", 0), &v))
        return 0;
    for (size_t i = 0; i < l->n; i++)
        if (!ig_jlist_put(c, out->u.l, v[i].value)) return 0;
    return 1;
}

static int f_dictsort(struct ig_jctx *c, const struct ig_jv *d, const struct ig_jargs *a,
                      struct ig_jv *out)
{
    const struct ig_jv *by = ig_jarg(a, 1, "by");
    const struct ig_jv index = ig_jint(by && ig_jstr_is(by, "value"));
    struct ig_jargs none = { 0 };
    struct ig_jv items;
    struct sort_item *v;
    if (d->type != IG_J_DICT) return ig_jinja_fail(c, "dictsort: want a dict");
    if (!ig_jmethod(c, d, "items", &none, &items) ||
        !sorted(c, items.u.l, &index, ig_jarg_bool(a, 0, "case_sensitive", 0),
                ig_jarg_bool(a, 2, "reverse", 0), &v))
        return 0;
    for (size_t i = 0; i < items.u.l->n; i++)
        if (!ig_jlist_put(c, out->u.l, v[i].value)) return 0;
    return 1;
}

static int f_groupby(struct ig_jctx *c, const struct ig_jlist *l, const struct ig_jargs *a,
                     struct ig_jv *out)
{
    const struct ig_jv *path = ig_jarg(a, 0, "attribute");
    struct sort_item *v;
    struct ig_jv group = { .type = IG_J_NONE }, pair, key;
    if (!path) return ig_jinja_fail(c, "groupby: want an attribute");
    if (!sorted(c, l, path, ig_jarg_bool(a, 2, "case_sensitive", 0), 0, &v)) return 0;
    for (size_t i = 0; i < l->n; i++) {
        int eq = 0;
        if (i && !ig_jequal(c, &v[i - 1].key, &v[i].key, &eq)) return 0;
        if (!eq &&
            (!get_path(c, &v[i].value, path, NULL, &key) || !ig_jlist_new(c, IG_J_LIST, &group) ||
             !ig_jlist_new(c, IG_J_TUPLE, &pair) || !ig_jlist_put(c, pair.u.l, key) ||
             !ig_jlist_put(c, pair.u.l, group) || !ig_jlist_put(c, out->u.l, pair)))
            return 0;
        if (!ig_jlist_put(c, group.u.l, v[i].value)) return 0;
    }
    return 1;
}

static int f_unique(struct ig_jctx *c, const struct ig_jlist *l, const struct ig_jargs *a,
                    struct ig_jv *out)
{
    const struct ig_jv *path = ig_jarg(a, 1, "attribute");
    const int case_sensitive = ig_jarg_bool(a, 0, "case_sensitive", 0);
    struct ig_jv seen;
    if (!ig_jdict_new(c, &seen)) return 0;
    for (size_t i = 0; i < l->n; i++) {
        struct ig_jv key;
        if (!sort_key(c, &l->v[i], path, case_sensitive, &key)) return 0;
        if (key.type <= IG_J_STR && ig_jdict_get(seen.u.d, &key)) continue;
        if (!ig_jdict_put(c, seen.u.d, key, key) || !ig_jlist_put(c, out->u.l, l->v[i])) return 0;
    }
    return 1;
}

/* -- numbers */
static int f_sum(struct ig_jctx *c, const struct ig_jlist *l, const struct ig_jargs *a,
                 struct ig_jv *out)
{
    const struct ig_jv *path = ig_jarg(a, 0, "attribute"), *start = ig_jarg(a, 1, "start");
    *out = start ? *start : ig_jint(0);
    for (size_t i = 0; i < l->n; i++) {
        struct ig_jv v = l->v[i], r;
        if (path && path->type != IG_J_NONE && !get_path(c, &l->v[i], path, NULL, &v)) return 0;
        if (!ig_jarith(c, '+', out, &v, &r)) return 0;
        *out = r;
    }
    return 1;
}

static int f_extreme(struct ig_jctx *c, const struct ig_jlist *l, const struct ig_jargs *a,
                     int sign, struct ig_jv *out)
{
    const struct ig_jv *path = ig_jarg(a, 1, "attribute");
    struct ig_jv best = { .type = IG_J_NONE };
    *out = ig_jundef(c, "No aggregated item, sequence was empty.");
    for (size_t i = 0; i < l->n; i++) {
        struct ig_jv key;
        int cmp = 1;
        if (!sort_key(c, &l->v[i], path, ig_jarg_bool(a, 0, "case_sensitive", 0), &key)) return 0;
        if (i && !ig_jcompare(c, &key, &best, &cmp)) return 0;
        if (i && cmp * sign <= 0) continue;
        best = key;
        *out = l->v[i];
    }
    return 1;
}

/* -- pieces */
static int f_batch(struct ig_jctx *c, const struct ig_jlist *l, const struct ig_jargs *a,
                   struct ig_jv *out)
{
    const struct ig_jv *fill = ig_jarg(a, 1, "fill_with");
    struct ig_jv part = { .type = IG_J_NONE };
    int64_t n;
    if (!ig_jarg_int(c, a, 0, "linecount", 0, &n)) return 0;
    if (n < 1) return ig_jinja_fail(c, "batch: want a positive number");
    for (size_t i = 0; i < l->n; i++) {
        if (i % (size_t)n == 0 &&
            (!ig_jlist_new(c, IG_J_LIST, &part) || !ig_jlist_put(c, out->u.l, part)))
            return 0;
        if (!ig_jlist_put(c, part.u.l, l->v[i])) return 0;
    }
    while (fill && fill->type != IG_J_NONE && part.type == IG_J_LIST && part.u.l->n < (size_t)n)
        if (!ig_jinja_step(c, 1) || !ig_jlist_put(c, part.u.l, *fill)) return 0;
    return 1;
}

static int f_slice(struct ig_jctx *c, const struct ig_jlist *l, const struct ig_jargs *a,
                   struct ig_jv *out)
{
    const struct ig_jv *fill = ig_jarg(a, 1, "fill_with");
    int64_t n;
    if (!ig_jarg_int(c, a, 0, "slices", 0, &n)) return 0;
    if (n < 1 || n > IG_JINJA_MAX_RANGE) return ig_jinja_fail(c, "slice: want 1 to 100000 slices");
    const size_t each = l->n / (size_t)n, more = l->n % (size_t)n;
    size_t at = 0;
    for (size_t i = 0; i < (size_t)n; i++) {
        struct ig_jv part;
        const size_t end = at + each + (i < more);
        if (!ig_jlist_new(c, IG_J_LIST, &part) || !ig_jlist_put(c, out->u.l, part)) return 0;
        for (; at < end; at++)
            if (!ig_jlist_put(c, part.u.l, l->v[at])) return 0;
        if (fill && fill->type != IG_J_NONE && i >= more && !ig_jlist_put(c, part.u.l, *fill))
            return 0;
    }
    return 1;
}

static int f_reverse(struct ig_jctx *c, const struct ig_jv *v, const struct ig_jlist *l,
                     struct ig_jv *out)
{
    struct ig_jbuf b = { 0 };
    for (size_t i = l->n; i-- > 0;)
        if (v->type == IG_J_STR ? !ig_jbuf_str(c, &b, l->v[i].u.s)
                                : !ig_jlist_put(c, out->u.l, l->v[i]))
            return 0;
    return v->type != IG_J_STR || (ig_jbuf_value(c, &b, out) && ig_jsafe_as(c, v->u.s, out));
}

enum seq {
    LIST,
    FIRST,
    LAST,
    JOIN,
    REVERSE,
    SORT,
    DICTSORT,
    UNIQUE,
    MAP,
    SELECT,
    REJECT,
    SELECTATTR,
    REJECTATTR,
    SUM,
    MIN,
    MAX,
    BATCH,
    SLICE,
    GROUPBY,
    N_SEQ
};

static const struct {
    const char *name;
    int gen; /* yields, instead of making a list */
} seq_filter[N_SEQ] = {
    { "list", 0 },   { "first", 0 },      { "last", 0 },       { "join", 0 },   { "reverse", 1 },
    { "sort", 0 },   { "dictsort", 0 },   { "unique", 1 },     { "map", 1 },    { "select", 1 },
    { "reject", 1 }, { "selectattr", 1 }, { "rejectattr", 1 }, { "sum", 0 },    { "min", 0 },
    { "max", 0 },    { "batch", 1 },      { "slice", 1 },      { "groupby", 0 }
};

int ig_jfilter_seq(struct ig_jctx *c, const char *name, const struct ig_jv *v,
                   const struct ig_jargs *a, struct ig_jv *out)
{
    int k = 0;
    struct ig_jlist *l;
    while (k < N_SEQ && strcmp(name, seq_filter[k].name)) k++;
    if (k == N_SEQ) return -1;
    if (!ig_jlist_new(c, seq_filter[k].gen ? IG_J_GEN : IG_J_LIST, out)) return 0;
    if (k == DICTSORT) return f_dictsort(c, v, a, out);
    if (k >= MAP && k <= REJECTATTR && !ig_jtruth(v)) return 1; /* none has no items here */
    if (!ig_jiter(c, v, &l)) return 0;
    switch (k) {
    case FIRST:
    case LAST:
        *out = l->n ? l->v[k == FIRST ? 0 : l->n - 1]
                    : ig_jundef(c, "No %s item, sequence was empty.", name);
        return 1;
    case JOIN:
        return f_join(c, l, a, out);
    case REVERSE:
        return f_reverse(c, v, l, out);
    case SORT:
        return f_sort(c, l, a, out);
    case UNIQUE:
        return f_unique(c, l, a, out);
    case MAP:
        return f_map(c, l, a, out);
    case SELECT:
    case REJECT:
    case SELECTATTR:
    case REJECTATTR:
        return f_select(c, name, l, a, out);
    case SUM:
        return f_sum(c, l, a, out);
    case MIN:
        return f_extreme(c, l, a, -1, out);
    case MAX:
        return f_extreme(c, l, a, 1, out);
    case BATCH:
        return f_batch(c, l, a, out);
    case SLICE:
        return f_slice(c, l, a, out);
    case GROUPBY:
        return f_groupby(c, l, a, out);
    default:
        return put_all(c, out->u.l, l);
    }
}
