/* jinja_eval.c -- expressions to values. */
#include "jinja.h"

static int eval_list(struct ig_jctx *c, struct ig_jframe *f, const struct ig_jnode *items,
                     enum ig_jtype type, struct ig_jv *out)
{
    struct ig_jv list, v;
    if (!ig_jlist_new(c, type, &list)) return 0;
    for (; items; items = items->next)
        if (!ig_jeval(c, f, items, &v) || !ig_jlist_put(c, list.u.l, v)) return 0;
    *out = list;
    return 1;
}

static int eval_dict(struct ig_jctx *c, struct ig_jframe *f, const struct ig_jnode *items,
                     struct ig_jv *out)
{
    struct ig_jv dict, key, v;
    if (!ig_jdict_new(c, &dict)) return 0;
    for (; items; items = items->next->next)
        if (!ig_jeval(c, f, items, &key) || !ig_jeval(c, f, items->next, &v) ||
            !ig_jdict_put(c, dict.u.d, key, v))
            return 0;
    *out = dict;
    return 1;
}

static int spread(struct ig_jctx *c, struct ig_jargs *args, int op, const struct ig_jv *v)
{
    struct ig_jlist *l;
    if (op == '*') {
        if (!ig_jiter(c, v, &l)) return 0;
        for (size_t i = 0; i < l->n; i++)
            if (!ig_jlist_put(c, &args->pos, l->v[i])) return 0;
        return 1;
    }
    if (v->type != IG_J_DICT)
        return ig_jinja_fail(c, "argument after ** must be a mapping, not %s", ig_jtype_name(v));
    for (size_t i = 0; i < v->u.d->key.n; i++)
        if (!ig_jlist_put(c, &args->kw_name, v->u.d->key.v[i]) ||
            !ig_jlist_put(c, &args->kw, v->u.d->value.v[i]))
            return 0;
    return 1;
}

static int eval_args(struct ig_jctx *c, struct ig_jframe *f, const struct ig_jnode *list,
                     struct ig_jargs *args)
{
    for (; list; list = list->next) {
        const int special = list->kind == IG_JN_KWARG || list->kind == IG_JN_SPREAD;
        struct ig_jv v, name;
        if (!ig_jeval(c, f, special ? list->a : list, &v)) return 0;
        if (list->kind == IG_JN_SPREAD) {
            if (!spread(c, args, list->op, &v)) return 0;
        } else if (list->kind == IG_JN_KWARG) {
            if (!ig_jstr_new(c, list->name, NULL, strlen(list->name), &name) ||
                !ig_jlist_put(c, &args->kw_name, name) || !ig_jlist_put(c, &args->kw, v))
                return 0;
        } else if (!ig_jlist_put(c, &args->pos, v)) {
            return 0;
        }
    }
    return 1;
}

const struct ig_jv *ig_jarg(const struct ig_jargs *a, size_t i, const char *name)
{
    if (i < a->pos.n) return &a->pos.v[i];
    for (size_t k = 0; name && k < a->kw.n; k++)
        if (ig_jstr_is(&a->kw_name.v[k], name)) return &a->kw.v[k];
    return NULL;
}

int ig_jarg_int(struct ig_jctx *c, const struct ig_jargs *a, size_t i, const char *name,
                int64_t otherwise, int64_t *out)
{
    const struct ig_jv *v = ig_jarg(a, i, name);
    *out = otherwise;
    if (!v || v->type == IG_J_NONE) return 1;
    if (v->type == IG_J_BOOL) *out = v->u.b;
    if (v->type == IG_J_INT) *out = v->u.i;
    return v->type == IG_J_BOOL || v->type == IG_J_INT ||
           ig_jinja_fail(c, "argument %s: want an integer, found %s", name, ig_jtype_name(v));
}

int ig_jarg_bool(const struct ig_jargs *a, size_t i, const char *name, int otherwise)
{
    const struct ig_jv *v = ig_jarg(a, i, name);
    return v ? ig_jtruth(v) : otherwise;
}

int ig_jneed_str(struct ig_jctx *c, const struct ig_jv *v, const char *what, struct ig_jstr **out)
{
    if (!v || v->type != IG_J_STR)
        return ig_jinja_fail(c, "%s: want a string, found %s", what,
                             v ? ig_jtype_name(v) : "nothing");
    *out = v->u.s;
    return 1;
}

static int eval_name(struct ig_jctx *c, struct ig_jframe *f, const struct ig_jnode *n,
                     struct ig_jv *out)
{
    const struct ig_jv *v = ig_jframe_get(f, n->name);
    if (v) {
        *out = *v;
        return 1;
    }
    if (ig_jhas_global(n->name)) {
        struct ig_jfunc *fn = ig_jget(c, sizeof *fn);
        if (!fn) return 0;
        fn->kind = IG_JF_GLOBAL;
        fn->name = n->name;
        *out = (struct ig_jv){ .type = IG_J_FUNC, .u.fn = fn };
        return 1;
    }
    *out = ig_jundef(c, "'%.80s' is undefined", n->name);
    return 1;
}

static int eval_unary(struct ig_jctx *c, const struct ig_jnode *n, const struct ig_jv *a,
                      struct ig_jv *out)
{
    const struct ig_jv zero = ig_jint(0);
    if (n->op == 'n' || n->op == 'b') {
        *out = ig_jbool(ig_jtruth(a) == (n->op == 'b'));
        return 1;
    }
    if (a->type == IG_J_FLOAT) {
        *out = ig_jfloat(n->op == '-' ? -a->u.f : a->u.f);
        return 1;
    }
    if (a->type != IG_J_INT && a->type != IG_J_BOOL && a->type != IG_J_UNDEF)
        return ig_jinja_fail(c, "bad operand type for unary %c: '%s'", n->op, ig_jtype_name(a));
    return ig_jarith(c, n->op, &zero, a, out);
}

static int compare_one(struct ig_jctx *c, int op, const struct ig_jv *a, const struct ig_jv *b,
                       int *yes)
{
    int r = 0;
    switch (op) {
    case '=' | '=' << 8:
        return ig_jequal(c, a, b, yes);
    case '!' | '=' << 8:
        if (!ig_jequal(c, a, b, &r)) return 0;
        *yes = !r;
        return 1;
    case 'i':
        return ig_jcontains(c, a, b, yes);
    case 'o':
        if (!ig_jcontains(c, a, b, &r)) return 0;
        *yes = !r;
        return 1;
    default:
        break;
    }
    if (!ig_jcompare(c, a, b, &r)) return 0;
    *yes = op == '<' ? r < 0 : op == '>' ? r > 0 : op == ('<' | '=' << 8) ? r <= 0 : r >= 0;
    return 1;
}

/* a < b < c compares neighbours, each operand evaluated once. */
static int eval_compare(struct ig_jctx *c, struct ig_jframe *f, const struct ig_jnode *n,
                        struct ig_jv *out)
{
    struct ig_jv a, b;
    int yes = 1;
    if (!ig_jeval(c, f, n->a, &a)) return 0;
    for (const struct ig_jnode *x = n->b; x && yes; x = x->next) {
        if (!ig_jeval(c, f, x->a, &b) || !compare_one(c, x->op, &a, &b, &yes)) return 0;
        a = b;
    }
    *out = ig_jbool(yes);
    return 1;
}

static int eval_item(struct ig_jctx *c, struct ig_jframe *f, const struct ig_jnode *n,
                     struct ig_jv *out)
{
    struct ig_jv v, key[3];
    if (!ig_jeval(c, f, n->a, &v)) return 0;
    if (n->b->kind != IG_JN_SLICE)
        return ig_jeval(c, f, n->b, &key[0]) && ig_jitem(c, &v, &key[0], out);
    const struct ig_jnode *part[3] = { n->b->a, n->b->b, n->b->c };
    for (int i = 0; i < 3; i++) {
        key[i] = (struct ig_jv){ .type = IG_J_NONE };
        if (part[i] && !ig_jeval(c, f, part[i], &key[i])) return 0;
    }
    return ig_jslice(c, &v, key, out);
}

static int call_value(struct ig_jctx *c, const struct ig_jv *fn, const struct ig_jargs *args,
                      struct ig_jv *out)
{
    if (fn->type == IG_J_UNDEF)
        return ig_jinja_fail(c, "%.*s", fn->u.s ? (int)fn->u.s->n : 18,
                             fn->u.s ? fn->u.s->p : "an undefined value");
    if (fn->type == IG_J_LOOP && args->pos.n == 1)
        return ig_jcall_loop(c, fn->u.loop, &args->pos.v[0], out);
    if (fn->type != IG_J_FUNC)
        return ig_jinja_fail(c, "'%s' object is not callable", ig_jtype_name(fn));
    switch (fn->u.fn->kind) {
    case IG_JF_METHOD:
        return ig_jmethod(c, &fn->u.fn->self, fn->u.fn->name, args, out);
    case IG_JF_MACRO:
    case IG_JF_CALLER:
        return ig_jcall_macro(c, fn->u.fn, args, out);
    default:
        return ig_jglobal(c, fn->u.fn, args, out);
    }
}

static int eval_call(struct ig_jctx *c, struct ig_jframe *f, const struct ig_jnode *n,
                     struct ig_jv *out)
{
    struct ig_jargs args = { 0 };
    struct ig_jv fn;
    if (!ig_jeval(c, f, n->a, &fn) || !eval_args(c, f, n->b, &args)) return 0;
    /* A call block hands its body over under this name. */
    const struct ig_jv *caller = n->op == 'c' ? ig_jframe_get(f, " caller") : NULL;
    if (caller) {
        struct ig_jv name;
        if (!ig_jstr_new(c, "caller", NULL, 6, &name) || !ig_jlist_put(c, &args.kw_name, name) ||
            !ig_jlist_put(c, &args.kw, *caller))
            return 0;
    }
    c->line = n->line;
    return call_value(c, &fn, &args, out);
}

static int eval_filter(struct ig_jctx *c, struct ig_jframe *f, const struct ig_jnode *n,
                       struct ig_jv *out)
{
    struct ig_jargs args = { 0 };
    struct ig_jv v;
    if (!ig_jeval(c, f, n->a, &v) || !eval_args(c, f, n->b, &args)) return 0;
    c->line = n->line;
    return ig_jfilter(c, n->name, &v, &args, out);
}

static int eval_test(struct ig_jctx *c, struct ig_jframe *f, const struct ig_jnode *n,
                     struct ig_jv *out)
{
    struct ig_jargs args = { 0 };
    struct ig_jv v;
    int yes = 0;
    if (!ig_jeval(c, f, n->a, &v) || !eval_args(c, f, n->b, &args)) return 0;
    c->line = n->line;
    if (!ig_jtest(c, n->name, &v, &args, &yes)) return 0;
    *out = ig_jbool(yes);
    return 1;
}

static int eval_cond(struct ig_jctx *c, struct ig_jframe *f, const struct ig_jnode *n,
                     struct ig_jv *out)
{
    struct ig_jv cond;
    if (!ig_jeval(c, f, n->b, &cond)) return 0;
    if (ig_jtruth(&cond)) return ig_jeval(c, f, n->a, out);
    if (n->c) return ig_jeval(c, f, n->c, out);
    *out = ig_jundef(c, "the inline if evaluated to false and no else was given");
    return 1;
}

static int eval_node(struct ig_jctx *c, struct ig_jframe *f, const struct ig_jnode *n,
                     struct ig_jv *out)
{
    struct ig_jv a, b;
    switch (n->kind) {
    case IG_JN_CONST:
    case IG_JN_TEXT:
        *out = n->val;
        return 1;
    case IG_JN_NAME:
        return eval_name(c, f, n, out);
    case IG_JN_LIST:
        return eval_list(c, f, n->a, IG_J_LIST, out);
    case IG_JN_TUPLE:
        return eval_list(c, f, n->a, IG_J_TUPLE, out);
    case IG_JN_DICT:
        return eval_dict(c, f, n->a, out);
    case IG_JN_UNARY:
        return ig_jeval(c, f, n->a, &a) && eval_unary(c, n, &a, out);
    case IG_JN_BINARY:
        return ig_jeval(c, f, n->a, &a) && ig_jeval(c, f, n->b, &b) &&
               ig_jarith(c, n->op, &a, &b, out);
    case IG_JN_AND:
    case IG_JN_OR:
        if (!ig_jeval(c, f, n->a, out)) return 0;
        return ig_jtruth(out) == (n->kind == IG_JN_OR) || ig_jeval(c, f, n->b, out);
    case IG_JN_COMPARE:
        return eval_compare(c, f, n, out);
    case IG_JN_COND:
        return eval_cond(c, f, n, out);
    case IG_JN_ATTR:
        return ig_jeval(c, f, n->a, &a) && ig_jattr(c, &a, n->name, out);
    case IG_JN_ITEM:
        return eval_item(c, f, n, out);
    case IG_JN_CALL:
        return eval_call(c, f, n, out);
    case IG_JN_FILTER:
        return eval_filter(c, f, n, out);
    case IG_JN_TEST:
        return eval_test(c, f, n, out);
    case IG_JN_BODY: {
        const struct ig_jv *v = ig_jframe_get(f, " body");
        *out = v ? *v : (struct ig_jv){ .type = IG_J_NONE };
        return 1;
    }
    default:
        return ig_jinja_fail(c, "a slice outside of a subscript");
    }
}

int ig_jeval(struct ig_jctx *c, struct ig_jframe *f, const struct ig_jnode *n, struct ig_jv *out)
{
    if (++c->depth > IG_JINJA_MAX_CALL) return ig_jinja_fail(c, "nested too deep");
    if (!ig_jinja_step(c, 1)) return 0;
    c->line = n->line;
    const int ok = eval_node(c, f, n, out);
    c->depth--;
    return ok && !c->failed;
}
