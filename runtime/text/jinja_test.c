/* jinja_test.c -- what may stand behind "is". */
#include "jinja.h"

static const char *const names[] = { "defined", "undefined",   "none",     "boolean",  "true",
                                     "false",   "integer",     "float",    "number",   "string",
                                     "mapping", "sequence",    "iterable", "callable", "odd",
                                     "even",    "divisibleby", "lower",    "upper",    "sameas",
                                     "in",      "filter",      "test",     "escaped",  "eq",
                                     "==",      "equalto",     "ne",       "!=",       "lt",
                                     "<",       "lessthan",    "le",       "<=",       "gt",
                                     ">",       "greaterthan", "ge",       ">=" };

static int has_test(const char *name)
{
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(names[i], name)) return 1;
    return 0;
}

static int is(const char *name, const char *a, const char *b, const char *also)
{
    return !strcmp(name, a) || !strcmp(name, b) || (also && !strcmp(name, also));
}

static int integer(struct ig_jctx *c, const struct ig_jv *v, const char *name, int64_t *out)
{
    if (v->type != IG_J_INT && v->type != IG_J_BOOL)
        return ig_jinja_fail(c, "%s: want an integer, found %s", name, ig_jtype_name(v));
    *out = v->type == IG_J_BOOL ? v->u.b : v->u.i;
    return 1;
}

/* Tests of the type alone; -1: not one of them. */
static int type_test(const char *name, const struct ig_jv *v)
{
    const enum ig_jtype t = v->type;
    if (!strcmp(name, "defined")) return t != IG_J_UNDEF;
    if (!strcmp(name, "undefined")) return t == IG_J_UNDEF;
    if (!strcmp(name, "none")) return t == IG_J_NONE;
    if (!strcmp(name, "boolean")) return t == IG_J_BOOL;
    if (!strcmp(name, "true")) return t == IG_J_BOOL && v->u.b;
    if (!strcmp(name, "false")) return t == IG_J_BOOL && !v->u.b;
    if (!strcmp(name, "integer")) return t == IG_J_INT;
    if (!strcmp(name, "float")) return t == IG_J_FLOAT;
    if (!strcmp(name, "number")) return t == IG_J_INT || t == IG_J_FLOAT || t == IG_J_BOOL;
    if (!strcmp(name, "string")) return t == IG_J_STR;
    if (!strcmp(name, "mapping")) return t == IG_J_DICT;
    if (!strcmp(name, "sequence"))
        return t == IG_J_STR || t == IG_J_LIST || t == IG_J_TUPLE || t == IG_J_DICT ||
               t == IG_J_UNDEF;
    if (!strcmp(name, "iterable"))
        return t == IG_J_STR || ig_jis_list(v) || t == IG_J_DICT || t == IG_J_UNDEF ||
               t == IG_J_LOOP;
    if (!strcmp(name, "callable")) return t == IG_J_FUNC || t == IG_J_LOOP;
    if (!strcmp(name, "escaped")) return t == IG_J_STR && v->u.s->safe;
    return -1;
}

static int compare_test(struct ig_jctx *c, const char *name, const struct ig_jv *v,
                        const struct ig_jv *arg, int *out)
{
    int r;
    if (is(name, "eq", "==", "equalto")) return ig_jequal(c, v, arg, out);
    if (is(name, "ne", "!=", NULL)) {
        if (!ig_jequal(c, v, arg, &r)) return 0;
        *out = !r;
        return 1;
    }
    if (!strcmp(name, "in")) return ig_jcontains(c, v, arg, out);
    if (!strcmp(name, "sameas")) {
        *out = v->type == arg->type && (v->type >= IG_J_STR ? v->u.s == arg->u.s : 1);
        return !*out || v->type >= IG_J_STR || ig_jequal(c, v, arg, out);
    }
    if (!strcmp(name, "divisibleby")) {
        int64_t a = 0, b = 0;
        if (!integer(c, v, name, &a) || !integer(c, arg, name, &b)) return 0;
        if (b == 0) return ig_jinja_fail(c, "division by zero");
        *out = b == -1 || a % b == 0;
        return 1;
    }
    if (!ig_jcompare(c, v, arg, &r)) return 0;
    *out = is(name, "lt", "<", "lessthan")      ? r < 0
           : is(name, "le", "<=", NULL)         ? r <= 0
           : is(name, "gt", ">", "greaterthan") ? r > 0
                                                : r >= 0;
    return 1;
}

int ig_jtest(struct ig_jctx *c, const char *name, const struct ig_jv *v,
             const struct ig_jargs *args, int *out)
{
    int64_t i = 0;
    const int known = type_test(name, v);
    *out = 0;
    if (known >= 0) {
        *out = known;
        return 1;
    }
    if (!has_test(name)) return ig_jinja_fail(c, "the test '%.80s' is not supported", name);
    if (!strcmp(name, "odd") || !strcmp(name, "even")) {
        if (!integer(c, v, name, &i)) return 0;
        *out = (i % 2 != 0) == (name[0] == 'o');
        return 1;
    }
    if (!strcmp(name, "lower") || !strcmp(name, "upper")) {
        struct ig_jargs none = { 0 };
        struct ig_jv s, yes;
        if (!ig_jstr_of(c, v, &s) ||
            !ig_jmethod(c, &s, name[0] == 'l' ? "islower" : "isupper", &none, &yes))
            return 0;
        *out = yes.u.b;
        return 1;
    }
    if (!strcmp(name, "filter") || !strcmp(name, "test")) {
        struct ig_jv copy;
        if (v->type != IG_J_STR) return 1;
        if (!ig_jstr_new(c, v->u.s->p, NULL, v->u.s->n, &copy)) return 0;
        *out = name[0] == 'f' ? ig_jhas_filter(copy.u.s->p) : has_test(copy.u.s->p);
        return 1;
    }
    const struct ig_jv *arg = ig_jarg(args, 0, "other");
    if (!arg) arg = args->kw.n ? &args->kw.v[0] : NULL;
    if (!arg) return ig_jinja_fail(c, "the test '%s' wants an argument", name);
    return compare_test(c, name, v, arg, out);
}
