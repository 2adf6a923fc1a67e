/* jinja_func.c -- global functions, loop.cycle() and friends, and % formatting. */
#include "jinja.h"
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static const char *const names[] = { "range",        "dict",   "namespace", "raise_exception",
                                     "strftime_now", "joiner", "cycler" };

int ig_jhas_global(const char *name)
{
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(names[i], name)) return 1;
    return 0;
}

static int g_range(struct ig_jctx *c, const struct ig_jargs *a, struct ig_jv *out)
{
    int64_t v[3] = { 0, 0, 1 };
    if (a->pos.n < 1 || a->pos.n > 3) return ig_jinja_fail(c, "range: want 1 to 3 arguments");
    for (size_t i = 0; i < a->pos.n; i++)
        if (!ig_jarg_int(c, a, i, "of range", 0, &v[a->pos.n == 1 ? 1 : i])) return 0;
    const int64_t most = (int64_t)1 << 40;
    for (int i = 0; i < 3; i++)
        if (v[i] < -most || v[i] > most) return ig_jinja_fail(c, "range: out of bounds");
    if (v[2] == 0) return ig_jinja_fail(c, "range() arg 3 must not be zero");
    const int64_t span = v[2] > 0 ? v[1] - v[0] : v[0] - v[1], step = v[2] > 0 ? v[2] : -v[2];
    const int64_t n = span > 0 ? (span + step - 1) / step : 0;
    if (n > IG_JINJA_MAX_RANGE)
        return ig_jinja_fail(c, "Range too big. The sandbox blocks ranges larger than "
                                "MAX_RANGE (100000).");
    if (!ig_jinja_step(c, n) || !ig_jlist_new(c, IG_J_LIST, out)) return 0;
    for (int64_t i = 0; i < n; i++)
        if (!ig_jlist_put(c, out->u.l, ig_jint(v[0] + i * v[2]))) return 0;
    return 1;
}

/* dict(a=1), dict(other, a=1), dict([(k, v)]); namespace() takes the same. */
static int g_dict(struct ig_jctx *c, const struct ig_jargs *a, enum ig_jtype type,
                  struct ig_jv *out)
{
    if (!ig_jdict_new(c, out)) return 0;
    if (a->pos.n > 1) return ig_jinja_fail(c, "dict: want at most one argument");
    if (a->pos.n == 1 && a->pos.v[0].type == IG_J_DICT) {
        const struct ig_jdict *d = a->pos.v[0].u.d;
        for (size_t i = 0; i < d->key.n; i++)
            if (!ig_jdict_put(c, out->u.d, d->key.v[i], d->value.v[i])) return 0;
    } else if (a->pos.n == 1) {
        struct ig_jlist *l;
        if (!ig_jiter(c, &a->pos.v[0], &l)) return 0;
        for (size_t i = 0; i < l->n; i++) {
            if (!ig_jis_list(&l->v[i]) || l->v[i].u.l->n != 2)
                return ig_jinja_fail(c, "dict: want pairs");
            if (!ig_jdict_put(c, out->u.d, l->v[i].u.l->v[0], l->v[i].u.l->v[1])) return 0;
        }
    }
    for (size_t k = 0; k < a->kw.n; k++)
        if (!ig_jdict_put(c, out->u.d, a->kw_name.v[k], a->kw.v[k])) return 0;
    out->type = type;
    return 1;
}

static int g_strftime(struct ig_jctx *c, const struct ig_jargs *a, struct ig_jv *out)
{
    struct ig_jstr *s;
    struct ig_jv fmt;
    char text[512];
    const time_t now = time(NULL);
    struct tm tm;
    if (!ig_jneed_str(c, ig_jarg(a, 0, "format"), "strftime_now", &s) ||
        !ig_jstr_new(c, s->p, NULL, s->n, &fmt))
        return 0;
    if (s->n > 100 || !localtime_r(&now, &tm))
        return ig_jinja_fail(c, "strftime_now: want a format of at most 100 bytes");
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    const size_t n = strftime(text, sizeof text, fmt.u.s->p, &tm);
#pragma GCC diagnostic pop
    return ig_jstr_new(c, text, NULL, n, out);
}

static int make_state(struct ig_jctx *c, const char *name, const struct ig_jargs *a,
                      struct ig_jv *out)
{
    struct ig_jfunc *f = ig_jget(c, sizeof *f);
    if (!f || !ig_jlist_new(c, IG_J_LIST, &f->self)) return 0;
    for (size_t i = 0; i < a->pos.n; i++)
        if (!ig_jlist_put(c, f->self.u.l, a->pos.v[i])) return 0;
    f->kind = IG_JF_LOOP;
    f->name = name;
    *out = (struct ig_jv){ .type = IG_J_FUNC, .u.fn = f };
    return 1;
}

static int call_joiner(struct ig_jctx *c, struct ig_jfunc *f, struct ig_jv *out)
{
    if (f->state++ == 0) return ig_jstr_new(c, "", NULL, 0, out);
    if (f->self.u.l->n == 0) return ig_jstr_new(c, ", ", NULL, 2, out);
    *out = f->self.u.l->v[0];
    return 1;
}

static int loop_changed(struct ig_jctx *c, struct ig_jloop *l, const struct ig_jargs *a,
                        struct ig_jv *out)
{
    struct ig_jv now;
    int eq = 0;
    if (!ig_jlist_new(c, IG_J_TUPLE, &now)) return 0;
    for (size_t i = 0; i < a->pos.n; i++)
        if (!ig_jlist_put(c, now.u.l, a->pos.v[i])) return 0;
    if (l->has_changed && !ig_jequal(c, &l->changed, &now, &eq)) return 0;
    l->changed = now;
    l->has_changed = 1;
    *out = ig_jbool(!eq);
    return 1;
}

int ig_jglobal(struct ig_jctx *c, struct ig_jfunc *f, const struct ig_jargs *a, struct ig_jv *out)
{
    const char *name = f->name;
    if (f->kind == IG_JF_LOOP) {
        if (!strcmp(name, "joiner")) return call_joiner(c, f, out);
        if (!strcmp(name, "changed")) return loop_changed(c, f->self.u.loop, a, out);
        if (!strcmp(name, "cycle")) {
            if (a->pos.n == 0) return ig_jinja_fail(c, "no items for cycling given");
            *out = a->pos.v[f->self.u.loop->i % a->pos.n];
            return 1;
        }
        return ig_jinja_fail(c, "'%s' is not supported", name);
    }
    if (!strcmp(name, "range")) return g_range(c, a, out);
    if (!strcmp(name, "dict")) return g_dict(c, a, IG_J_DICT, out);
    if (!strcmp(name, "namespace")) return g_dict(c, a, IG_J_NS, out);
    if (!strcmp(name, "strftime_now")) return g_strftime(c, a, out);
    if (!strcmp(name, "joiner")) return make_state(c, name, a, out);
    if (!strcmp(name, "raise_exception")) {
        const struct ig_jv *v = ig_jarg(a, 0, "message");
        struct ig_jv s;
        if (!v || !ig_jstr_of(c, v, &s)) return ig_jinja_fail(c, "raise_exception");
        return ig_jinja_fail(c, "%.*s", (int)(s.u.s->n < 600 ? s.u.s->n : 600), s.u.s->p);
    }
    return ig_jinja_fail(c, "the function '%s' is not supported", name);
}

/* -- fmt % args */
struct spec {
    char text[40]; /* for snprintf, without the conversion */
    char conv;
};

static int put_number(struct ig_jctx *c, struct ig_jbuf *b, struct spec *sp, const struct ig_jv *v)
{
    char out[512];
    const size_t n = strlen(sp->text);
    const int real = strchr("eEfFgG", sp->conv) != NULL;
    if (v->type != IG_J_INT && v->type != IG_J_FLOAT && v->type != IG_J_BOOL)
        return ig_jinja_fail(c, "%%%c format: a number is required, not %s", sp->conv,
                             ig_jtype_name(v));
    snprintf(sp->text + n, sizeof sp->text - n, real ? "%c" : "ll%c",
             sp->conv == 'i' || sp->conv == 'u' ? 'd' : sp->conv);
    const double f =
        v->type == IG_J_FLOAT ? v->u.f : (double)(v->type == IG_J_BOOL ? v->u.b : v->u.i);
    if (!real && !(f > -9.2e18 && f < 9.2e18)) return ig_jinja_fail(c, "integer overflow");
    const long long i = v->type == IG_J_INT ? v->u.i : (long long)f;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    if (real)
        snprintf(out, sizeof out, sp->text, f);
    else
        snprintf(out, sizeof out, sp->text, i);
#pragma GCC diagnostic pop
    return ig_jbuf_puts(c, b, out);
}

/* Flags, width and precision; nothing that could make the result long. */
static int read_spec(struct ig_jctx *c, const struct ig_jstr *s, size_t *i, struct spec *sp)
{
    size_t n = 0;
    int digits = 0;
    sp->text[n++] = '%';
    for (; *i < s->n && strchr("-+ #0123456789.", s->p[*i]) && s->p[*i]; ++*i) {
        digits = s->p[*i] >= '0' && s->p[*i] <= '9' ? digits + 1 : 0;
        if (n > 12 || digits > 2) return ig_jinja_fail(c, "a format that is not supported");
        sp->text[n++] = s->p[*i];
    }
    sp->text[n] = 0;
    if (*i >= s->n) return ig_jinja_fail(c, "incomplete format");
    sp->conv = s->p[(*i)++];
    return 1;
}

static int put_text(struct ig_jctx *c, struct ig_jbuf *b, char conv, int safe,
                    const struct ig_jv *v)
{
    struct ig_jbuf text = { 0 };
    struct ig_jv s;
    if (!safe) return conv == 's' ? ig_jput_str(c, b, v) : ig_jput_repr(c, b, v);
    if (conv == 's' ? !ig_jstr_of(c, v, &s)
                    : !ig_jput_repr(c, &text, v) || !ig_jbuf_value(c, &text, &s))
        return 0;
    return ig_jescape(c, &s, 0, &s) && ig_jbuf_str(c, b, s.u.s);
}

int ig_jformat(struct ig_jctx *c, const struct ig_jstr *s, const struct ig_jv *args,
               struct ig_jv *out)
{
    struct ig_jbuf b = { 0 };
    const int many = args->type == IG_J_TUPLE;
    size_t next = 0;
    for (size_t i = 0; i < s->n;) {
        struct spec sp;
        if (s->p[i] != '%') {
            if (!ig_jbuf_put(c, &b, s->p + i, s->mark ? s->mark + i : NULL, 1)) return 0;
            i++;
            continue;
        }
        i++;
        if (!read_spec(c, s, &i, &sp)) return 0;
        if (sp.conv == '%') {
            if (!ig_jbuf_puts(c, &b, "%")) return 0;
            continue;
        }
        if (!strchr("sdiurxXoeEfFgG", sp.conv))
            return ig_jinja_fail(c, "the format %%%c is not supported", sp.conv);
        if (many ? next >= args->u.l->n : next > 0)
            return ig_jinja_fail(c, "not enough arguments for format string");
        const struct ig_jv *v = many ? &args->u.l->v[next] : args;
        next++;
        if (sp.conv == 's' || sp.conv == 'r') {
            if (sp.text[1]) return ig_jinja_fail(c, "a width for %%s is not supported");
            if (!put_text(c, &b, sp.conv, s->safe, v)) return 0;
        } else if (!put_number(c, &b, &sp, v)) {
            return 0;
        }
    }
    if (many && next < args->u.l->n)
        return ig_jinja_fail(c, "not all arguments converted during string formatting");
    return ig_jbuf_value(c, &b, out) && ig_jsafe_as(c, s, out);
}
