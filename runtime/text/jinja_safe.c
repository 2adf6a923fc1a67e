/* jinja_safe.c -- text that counts as HTML already: what escape and safe give.
 *
 * The rules are markupsafe's, which Jinja2 uses though nothing here is escaped
 * by itself: a safe string escapes whatever is added to it, on either side, and
 * what its own methods make of it is safe again.  ~, join, replace, tojson and
 * the text of a block are plain text.
 */
#include "jinja.h"

int ig_jsafe(struct ig_jctx *c, struct ig_jv *v)
{
    if (v->type == IG_J_LIST || v->type == IG_J_TUPLE) {
        for (size_t i = 0; i < v->u.l->n; i++)
            if (!ig_jsafe(c, &v->u.l->v[i])) return 0;
        return 1;
    }
    if (v->type != IG_J_STR || v->u.s->safe) return 1;
    struct ig_jstr *s = ig_jget(c, sizeof *s);
    if (!s) return 0;
    *s = *v->u.s;
    s->safe = 1;
    v->u.s = s;
    return 1;
}

int ig_jsafe_as(struct ig_jctx *c, const struct ig_jstr *s, struct ig_jv *out)
{
    return !s->safe || ig_jsafe(c, out);
}

static const char *entity(char ch)
{
    switch (ch) {
    case '&':
        return "&amp;";
    case '<':
        return "&lt;";
    case '>':
        return "&gt;";
    case '"':
        return "&#34;";
    case '\'':
        return "&#39;";
    default:
        return NULL;
    }
}

int ig_jescape(struct ig_jctx *c, const struct ig_jv *v, int again, struct ig_jv *out)
{
    static const unsigned char marks[8] = { 1, 1, 1, 1, 1, 1, 1, 1 };
    struct ig_jbuf b = { 0 };
    if (!ig_jstr_of(c, v, out)) return 0;
    const struct ig_jstr *s = out->u.s;
    if (s->safe && !again) return 1;
    for (size_t i = 0; i < s->n; i++) {
        const unsigned char *mark = s->mark ? s->mark + i : NULL;
        const char *to = entity(s->p[i]);
        const int ok = to ? ig_jbuf_put(c, &b, to, mark && *mark ? marks : NULL, strlen(to))
                          : ig_jbuf_put(c, &b, s->p + i, mark, 1);
        if (!ok) return 0;
    }
    return ig_jinja_step(c, (int64_t)(s->n / 64)) && ig_jbuf_value(c, &b, out) && ig_jsafe(c, out);
}

static int escape_all(struct ig_jctx *c, const struct ig_jlist *from, struct ig_jlist *to)
{
    *to = (struct ig_jlist){ 0 };
    for (size_t i = 0; i < from->n; i++) {
        struct ig_jv v = from->v[i];
        if (v.type == IG_J_STR && !ig_jescape(c, &v, 0, &v)) return 0;
        if (!ig_jinja_step(c, 1) || !ig_jlist_put(c, to, v)) return 0;
    }
    return 1;
}

int ig_jsafe_args(struct ig_jctx *c, const char *name, const struct ig_jargs *a,
                  struct ig_jargs *out)
{
    *out = *a;
    if (!strcmp(name, "join") && a->pos.n == 1 && a->pos.v[0].type != IG_J_UNDEF) {
        struct ig_jlist *items;
        struct ig_jv list;
        out->pos = (struct ig_jlist){ 0 };
        return ig_jiter(c, &a->pos.v[0], &items) && ig_jlist_new(c, IG_J_LIST, &list) &&
               escape_all(c, items, list.u.l) && ig_jlist_put(c, &out->pos, list);
    }
    if (!strcmp(name, "format"))
        return escape_all(c, &a->pos, &out->pos) && escape_all(c, &a->kw, &out->kw);
    /* replace(old, NEW), center(width, FILL) and so on; what is looked for is plain text. */
    const int second = !strcmp(name, "replace") || !strcmp(name, "center") || strstr(name, "just");
    if (!second || a->pos.n < 2) return 1;
    return escape_all(c, &a->pos, &out->pos) && (out->pos.v[0] = a->pos.v[0], 1);
}
