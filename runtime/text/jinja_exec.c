/* jinja_exec.c -- statements: what they print and which names they set. */
#include "jinja.h"

enum { FAILED = 0, DONE = 1, BREAK = 2, CONTINUE = 3 };

static struct ig_jframe *inner(struct ig_jctx *c, struct ig_jframe *f)
{
    struct ig_jframe *x = ig_jget(c, sizeof *x);
    if (x) x->parent = f;
    return x;
}

/* The statements of a list: DONE, FAILED, BREAK or CONTINUE. */
static int exec(struct ig_jctx *c, struct ig_jframe *f, const struct ig_jnode *list);

/* Run a body with its output caught. */
static int capture(struct ig_jctx *c, struct ig_jframe *f, const struct ig_jnode *body,
                   struct ig_jv *out)
{
    struct ig_jbuf b = { 0 }, *old = c->out;
    c->out = &b;
    const int rc = exec(c, f, body);
    c->out = old;
    if (rc == FAILED) return 0;
    if (rc != DONE) return ig_jinja_fail(c, "break or continue outside of a loop");
    return ig_jbuf_value(c, &b, out);
}

static int assign(struct ig_jctx *c, struct ig_jframe *f, const struct ig_jnode *target,
                  const struct ig_jv *v)
{
    struct ig_jlist *l;
    size_t n = 0;
    if (target->kind == IG_JN_NAME) return ig_jframe_set(c, f, target->name, *v);
    if (target->kind == IG_JN_NSTARGET) {
        const struct ig_jv *ns = ig_jframe_get(f, target->name);
        if (!ns || ns->type != IG_J_NS)
            return ig_jinja_fail(c, "cannot assign attribute on non-namespace object '%s'",
                                 target->name);
        return ig_jdict_put(c, ns->u.d, target->val, *v);
    }
    for (const struct ig_jnode *x = target->a; x; x = x->next) n++;
    if (v->type == IG_J_UNDEF) return ig_jinja_fail(c, "cannot unpack an undefined value");
    if (!ig_jiter(c, v, &l)) return 0;
    if (l->n != n)
        return ig_jinja_fail(c, "%s values to unpack (expected %zu, got %zu)",
                             l->n < n ? "not enough" : "too many", n, l->n);
    size_t i = 0;
    for (const struct ig_jnode *x = target->a; x; x = x->next)
        if (!assign(c, f, x, &l->v[i++])) return 0;
    return 1;
}

static int exec_set(struct ig_jctx *c, struct ig_jframe *f, const struct ig_jnode *n)
{
    struct ig_jv v;
    if (n->op) { /* block: the body in a scope of its own, then filters */
        struct ig_jframe *in = inner(c, f);
        struct ig_jframe *body = in ? inner(c, in) : NULL;
        if (!body || !capture(c, body, n->c, &v) || !ig_jframe_set(c, in, " body", v) ||
            !ig_jeval(c, in, n->b, &v))
            return 0;
    } else if (!ig_jeval(c, f, n->b, &v)) {
        return 0;
    }
    return assign(c, f, n->a, &v);
}

/* The items that a for runs over: all, or those its condition keeps. */
static int filtered(struct ig_jctx *c, struct ig_jframe *f, const struct ig_jnode *n,
                    struct ig_jlist *all, struct ig_jlist **out)
{
    struct ig_jv list, keep;
    *out = all;
    if (!n->c) return 1;
    if (!ig_jlist_new(c, IG_J_LIST, &list)) return 0;
    *out = list.u.l;
    for (size_t i = 0; i < all->n; i++) {
        struct ig_jframe *in = inner(c, f);
        if (!in || !assign(c, in, n->a, &all->v[i]) || !ig_jeval(c, in, n->c, &keep)) return 0;
        if (ig_jtruth(&keep) && !ig_jlist_put(c, list.u.l, all->v[i])) return 0;
    }
    return 1;
}

static int run_loop(struct ig_jctx *c, struct ig_jframe *f, const struct ig_jnode *n,
                    const struct ig_jv *over, int depth)
{
    struct ig_jlist *all, *items;
    struct ig_jloop *loop = ig_jget(c, sizeof *loop);
    if (!loop || !ig_jiter(c, over, &all) || !filtered(c, f, n, all, &items)) return FAILED;
    loop->items = items;
    loop->depth = depth;
    loop->node = n->op ? n : NULL;
    loop->frame = f;
    if (items->n == 0) {
        struct ig_jframe *in = inner(c, f);
        return in ? exec(c, in, n->e) : FAILED;
    }
    for (size_t i = 0; i < items->n; i++) {
        struct ig_jframe *in = inner(c, f);
        const struct ig_jv v = { .type = IG_J_LOOP, .u.loop = loop };
        loop->i = i;
        if (!in || !ig_jframe_set(c, in, "loop", v) || !assign(c, in, n->a, &items->v[i]))
            return FAILED;
        const int rc = exec(c, in, n->d);
        if (rc == FAILED) return FAILED;
        if (rc == BREAK) break;
    }
    return DONE;
}

int ig_jcall_loop(struct ig_jctx *c, struct ig_jloop *loop, const struct ig_jv *items,
                  struct ig_jv *out)
{
    struct ig_jbuf b = { 0 }, *old = c->out;
    if (!loop->node)
        return ig_jinja_fail(c, "the loop must have the 'recursive' marker to be called");
    c->out = &b;
    const int rc = run_loop(c, loop->frame, loop->node, items, loop->depth + 1);
    c->out = old;
    return rc != FAILED && ig_jbuf_value(c, &b, out);
}

/* -- macros */
static const struct ig_jv *named(const struct ig_jargs *args, const char *name)
{
    for (size_t k = 0; k < args->kw.n; k++)
        if (ig_jstr_is(&args->kw_name.v[k], name)) return &args->kw.v[k];
    return NULL;
}

/* varargs, kwargs and caller: what the parameters do not take. */
static int bind_rest(struct ig_jctx *c, struct ig_jframe *in, const struct ig_jnode *node,
                     const struct ig_jargs *args, size_t taken)
{
    struct ig_jv rest, kw;
    if (!ig_jlist_new(c, IG_J_TUPLE, &rest) || !ig_jdict_new(c, &kw)) return 0;
    for (size_t i = taken; i < args->pos.n; i++)
        if (!ig_jlist_put(c, rest.u.l, args->pos.v[i])) return 0;
    for (size_t k = 0; k < args->kw.n; k++) {
        int is_param = 0;
        for (const struct ig_jnode *p = node->a; p; p = p->next)
            is_param |= ig_jstr_is(&args->kw_name.v[k], p->name);
        if (ig_jstr_is(&args->kw_name.v[k], "caller")) {
            if (!ig_jframe_set(c, in, "caller", args->kw.v[k])) return 0;
        } else if (!is_param && !ig_jdict_put(c, kw.u.d, args->kw_name.v[k], args->kw.v[k])) {
            return 0;
        }
    }
    return ig_jframe_set(c, in, "varargs", rest) && ig_jframe_set(c, in, "kwargs", kw);
}

int ig_jcall_macro(struct ig_jctx *c, struct ig_jfunc *fn, const struct ig_jargs *args,
                   struct ig_jv *out)
{
    const struct ig_jnode *node = fn->node;
    struct ig_jframe *in = inner(c, fn->frame);
    size_t i = 0;
    if (++c->depth > IG_JINJA_MAX_CALL) return ig_jinja_fail(c, "nested too deep");
    if (!in) return 0;
    for (const struct ig_jnode *p = node->a; p; p = p->next, i++) {
        const struct ig_jv *given = i < args->pos.n ? &args->pos.v[i] : named(args, p->name);
        struct ig_jv v;
        if (given)
            v = *given;
        else if (!p->a)
            v = ig_jundef(c, "parameter '%.80s' was not provided", p->name);
        else if (!ig_jeval(c, in, p->a, &v))
            return 0;
        if (!ig_jframe_set(c, in, p->name, v)) return 0;
    }
    const int ok = bind_rest(c, in, node, args, i) && capture(c, in, node->b, out);
    c->depth--;
    return ok;
}

static int make_macro(struct ig_jctx *c, struct ig_jframe *f, const struct ig_jnode *n,
                      struct ig_jv *out)
{
    struct ig_jfunc *fn = ig_jget(c, sizeof *fn);
    if (!fn) return 0;
    fn->kind = IG_JF_MACRO;
    fn->name = n->name;
    fn->node = n;
    fn->frame = f;
    *out = (struct ig_jv){ .type = IG_J_FUNC, .u.fn = fn };
    return 1;
}

static int exec_call_block(struct ig_jctx *c, struct ig_jframe *f, const struct ig_jnode *n)
{
    struct ig_jframe *in = inner(c, f);
    struct ig_jnode call = *n->c; /* the same call, told to pass the caller on */
    struct ig_jv v;
    call.op = 'c';
    if (!in || !make_macro(c, f, n, &v) || !ig_jframe_set(c, in, " caller", v) ||
        !ig_jeval(c, in, &call, &v))
        return 0;
    return ig_jput_str(c, c->out, &v);
}

static int exec_filter_block(struct ig_jctx *c, struct ig_jframe *f, const struct ig_jnode *n)
{
    struct ig_jframe *in = inner(c, f);
    struct ig_jframe *body = in ? inner(c, in) : NULL;
    struct ig_jv v;
    if (!body || !capture(c, body, n->b, &v) || !ig_jframe_set(c, in, " body", v) ||
        !ig_jeval(c, in, n->a, &v))
        return 0;
    return ig_jput_str(c, c->out, &v);
}

static int exec_with(struct ig_jctx *c, struct ig_jframe *f, const struct ig_jnode *n)
{
    struct ig_jframe *in = inner(c, f);
    struct ig_jv v;
    if (!in) return FAILED;
    for (const struct ig_jnode *s = n->a; s; s = s->next)
        if (!ig_jeval(c, f, s->b, &v) || !assign(c, in, s->a, &v)) return FAILED;
    return exec(c, in, n->b);
}

static int exec_if(struct ig_jctx *c, struct ig_jframe *f, const struct ig_jnode *n)
{
    for (;;) {
        struct ig_jv cond;
        if (!ig_jeval(c, f, n->a, &cond)) return FAILED;
        if (ig_jtruth(&cond)) return exec(c, f, n->b);
        if (!n->c) return DONE;
        if (n->c->kind != IG_JN_IF || n->c->next) return exec(c, f, n->c);
        n = n->c; /* elif, without nesting */
    }
}

static int exec_for(struct ig_jctx *c, struct ig_jframe *f, const struct ig_jnode *n)
{
    struct ig_jv v;
    return ig_jeval(c, f, n->b, &v) ? run_loop(c, f, n, &v, 0) : FAILED;
}

static int exec_print(struct ig_jctx *c, struct ig_jframe *f, const struct ig_jnode *n)
{
    struct ig_jv v;
    return ig_jeval(c, f, n->a, &v) && ig_jput_str(c, c->out, &v);
}

static int exec_node(struct ig_jctx *c, struct ig_jframe *f, const struct ig_jnode *n)
{
    struct ig_jframe *in;
    struct ig_jv v;
    switch (n->kind) {
    case IG_JN_TEXT:
        return ig_jbuf_str(c, c->out, n->val.u.s);
    case IG_JN_PRINT:
        return exec_print(c, f, n);
    case IG_JN_IF:
        return exec_if(c, f, n);
    case IG_JN_FOR:
        return exec_for(c, f, n);
    case IG_JN_SET:
        return exec_set(c, f, n);
    case IG_JN_MACRO:
        return make_macro(c, f, n, &v) && ig_jframe_set(c, f, n->name, v);
    case IG_JN_CALLBLOCK:
        return exec_call_block(c, f, n);
    case IG_JN_FILTERBLOCK:
        return exec_filter_block(c, f, n);
    case IG_JN_WITH:
        return exec_with(c, f, n);
    case IG_JN_SCOPE:
        in = inner(c, f);
        return in ? exec(c, in, n->b) : FAILED;
    case IG_JN_BREAK:
        return BREAK;
    case IG_JN_CONTINUE:
        return CONTINUE;
    default:
        return ig_jinja_fail(c, "the tag '%s' is not supported", n->name);
    }
}

static int exec(struct ig_jctx *c, struct ig_jframe *f, const struct ig_jnode *list)
{
    int rc = DONE;
    if (++c->depth > IG_JINJA_MAX_CALL) return ig_jinja_fail(c, "nested too deep");
    for (; list && rc == DONE; list = list->next) {
        if (!ig_jinja_step(c, 1)) return FAILED;
        c->line = list->line;
        rc = exec_node(c, f, list);
    }
    c->depth--;
    return c->failed ? FAILED : rc;
}

enum ig_err ig_jinja_render(const struct ig_jtemplate *t, struct ig_jctx *c)
{
    struct ig_jframe *top = inner(c, c->globals);
    const int rc = top ? exec(c, top, t->body) : FAILED;
    if (rc != FAILED && rc != DONE) ig_jinja_fail(c, "break or continue outside of a loop");
    return c->failed ? c->err : IG_OK;
}
