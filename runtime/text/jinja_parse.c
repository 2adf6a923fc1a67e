/* jinja_parse.c -- statements. */
#include "jinja_parse.h"
#include <stdlib.h>

static int parse_body(struct ig_jparser *p, const char *const *end, struct ig_jnode **list);

static int block_end(struct ig_jparser *p)
{
    char buf[64];
    const struct ig_jtok *t = ig_jpeek(p);
    if (t->type != IG_JT_BLOCK_END)
        return ig_jparse_fail(p, t->line, "want %%}, found %s", ig_jtok_text(t, buf));
    p->at++;
    return 1;
}

/* A body up to one tag, whose name is taken and whose end must follow. */
static int body_until(struct ig_jparser *p, const char *name, struct ig_jnode **list)
{
    const char *const end[] = { name, NULL };
    if (!parse_body(p, end, list)) return 0;
    p->at++;
    return block_end(p);
}

static struct ig_jnode *parse_if(struct ig_jparser *p)
{
    static const char *const end[] = { "elif", "else", "endif", NULL };
    struct ig_jnode *n = ig_jnode(p, IG_JN_IF), *top = n;
    while (n) {
        n->a = ig_jparse_tuple(p, 1);
        if (!n->a || !block_end(p) || !parse_body(p, end, &n->b)) return NULL;
        if (ig_jskip_name(p, "elif")) {
            n->c = ig_jnode(p, IG_JN_IF);
            n = n->c;
            continue;
        }
        if (ig_jskip_name(p, "else")) {
            if (!block_end(p) || !body_until(p, "endif", &n->c)) return NULL;
            return top;
        }
        p->at++;
        return block_end(p) ? top : NULL;
    }
    return NULL;
}

static struct ig_jnode *parse_for(struct ig_jparser *p)
{
    static const char *const end[] = { "endfor", "else", NULL };
    struct ig_jnode *n = ig_jnode(p, IG_JN_FOR);
    if (!n || !(n->a = ig_jparse_target(p, 0))) return NULL;
    if (!ig_jskip_name(p, "in")) {
        ig_jparse_fail(p, ig_jpeek(p)->line, "for without in");
        return NULL;
    }
    if (!(n->b = ig_jparse_tuple(p, 0))) return NULL;
    if (ig_jskip_name(p, "if") && !(n->c = ig_jparse_expr(p))) return NULL;
    n->op = ig_jskip_name(p, "recursive");
    if (!block_end(p) || !parse_body(p, end, &n->d)) return NULL;
    if (ig_jskip_name(p, "else")) return block_end(p) && body_until(p, "endfor", &n->e) ? n : NULL;
    p->at++;
    return block_end(p) ? n : NULL;
}

static struct ig_jnode *parse_set(struct ig_jparser *p)
{
    struct ig_jnode *n = ig_jnode(p, IG_JN_SET);
    if (!n || !(n->a = ig_jparse_target(p, 1))) return NULL;
    if (ig_jskip_op(p, '=')) {
        n->b = ig_jparse_tuple(p, 1);
        return n->b && block_end(p) ? n : NULL;
    }
    struct ig_jnode *text = ig_jnode(p, IG_JN_BODY);
    n->b = text ? ig_jparse_filters(p, text, 0) : NULL;
    n->op = 1;
    return n->b && block_end(p) && body_until(p, "endset", &n->c) ? n : NULL;
}

/* "(a, b=1)": names with defaults. */
static int parse_params(struct ig_jparser *p, struct ig_jnode **list)
{
    struct ig_jnode **tail = list;
    if (!ig_jexpect_op(p, '(')) return 0;
    while (!ig_jis_op(p, ')')) {
        if (*list && !ig_jexpect_op(p, ',')) return 0;
        struct ig_jnode *n = ig_jnode(p, IG_JN_NAME);
        if (!n || !(n->name = ig_jexpect_name(p))) return 0;
        if (ig_jskip_op(p, '=') && !(n->a = ig_jparse_expr(p))) return 0;
        *tail = n;
        tail = &n->next;
    }
    p->at++;
    return 1;
}

static struct ig_jnode *parse_macro(struct ig_jparser *p)
{
    struct ig_jnode *n = ig_jnode(p, IG_JN_MACRO);
    if (!n || !(n->name = ig_jexpect_name(p)) || !parse_params(p, &n->a)) return NULL;
    return block_end(p) && body_until(p, "endmacro", &n->b) ? n : NULL;
}

static struct ig_jnode *parse_call_block(struct ig_jparser *p)
{
    struct ig_jnode *n = ig_jnode(p, IG_JN_CALLBLOCK);
    if (!n) return NULL;
    n->name = "caller";
    if (ig_jis_op(p, '(') && !parse_params(p, &n->a)) return NULL;
    n->c = ig_jparse_expr(p);
    if (!n->c) return NULL;
    if (n->c->kind != IG_JN_CALL) {
        ig_jparse_fail(p, n->line, "call without a call");
        return NULL;
    }
    return block_end(p) && body_until(p, "endcall", &n->b) ? n : NULL;
}

static struct ig_jnode *parse_filter_block(struct ig_jparser *p)
{
    struct ig_jnode *n = ig_jnode(p, IG_JN_FILTERBLOCK), *text = ig_jnode(p, IG_JN_BODY);
    if (!n || !text || !(n->a = ig_jparse_filters(p, text, 1))) return NULL;
    return block_end(p) && body_until(p, "endfilter", &n->b) ? n : NULL;
}

static struct ig_jnode *parse_with(struct ig_jparser *p)
{
    struct ig_jnode *n = ig_jnode(p, IG_JN_WITH), **tail = n ? &n->a : NULL;
    if (!n) return NULL;
    while (ig_jpeek(p)->type != IG_JT_BLOCK_END) {
        struct ig_jnode *set = ig_jnode(p, IG_JN_SET);
        if (n->a && !ig_jexpect_op(p, ',')) return NULL;
        if (!set || !(set->a = ig_jparse_target(p, 0)) || !ig_jexpect_op(p, '=') ||
            !(set->b = ig_jparse_expr(p)))
            return NULL;
        *tail = set;
        tail = &set->next;
    }
    return block_end(p) && body_until(p, "endwith", &n->b) ? n : NULL;
}

/* A tag that only matters when it is reached: its own text is skipped. */
static struct ig_jnode *parse_unsupported(struct ig_jparser *p, const char *name)
{
    struct ig_jnode *n = ig_jnode(p, IG_JN_UNSUPPORTED);
    if (!n) return NULL;
    n->name = name;
    while (ig_jpeek(p)->type != IG_JT_BLOCK_END && ig_jpeek(p)->type != IG_JT_EOF) p->at++;
    return block_end(p) ? n : NULL;
}

static struct ig_jnode *parse_scope(struct ig_jparser *p, const char *end)
{
    struct ig_jnode *n = ig_jnode(p, IG_JN_SCOPE);
    return n && block_end(p) && body_until(p, end, &n->b) ? n : NULL;
}

static struct ig_jnode *parse_statement(struct ig_jparser *p)
{
    static const char *const later[] = {
        "include",    "import",        "from",  "extends", "do",       "block",    "endblock",
        "autoescape", "endautoescape", "debug", "trans",   "endtrans", "pluralize"
    };
    char buf[64];
    const struct ig_jtok *t = ig_jpeek(p);
    const char *name = ig_jexpect_name(p);
    if (!name) return NULL;
    if (!strcmp(name, "if")) return parse_if(p);
    if (!strcmp(name, "for")) return parse_for(p);
    if (!strcmp(name, "set")) return parse_set(p);
    if (!strcmp(name, "macro")) return parse_macro(p);
    if (!strcmp(name, "call")) return parse_call_block(p);
    if (!strcmp(name, "filter")) return parse_filter_block(p);
    if (!strcmp(name, "with")) return parse_with(p);
    if (!strcmp(name, "generation")) return parse_scope(p, "endgeneration");
    if (!strcmp(name, "break") || !strcmp(name, "continue")) {
        struct ig_jnode *n = ig_jnode(p, name[0] == 'b' ? IG_JN_BREAK : IG_JN_CONTINUE);
        return n && block_end(p) ? n : NULL;
    }
    for (size_t i = 0; i < sizeof later / sizeof *later; i++)
        if (!strcmp(name, later[i])) return parse_unsupported(p, later[i]);
    ig_jparse_fail(p, t->line, "unknown tag %s", ig_jtok_text(t, buf));
    return NULL;
}

static struct ig_jnode *parse_print(struct ig_jparser *p)
{
    char buf[64];
    struct ig_jnode *n = ig_jnode(p, IG_JN_PRINT);
    if (!n || !(n->a = ig_jparse_tuple(p, 1))) return NULL;
    if (ig_jpeek(p)->type != IG_JT_VAR_END) {
        ig_jparse_fail(p, ig_jpeek(p)->line, "want }}, found %s", ig_jtok_text(ig_jpeek(p), buf));
        return NULL;
    }
    p->at++;
    return n;
}

static struct ig_jnode *parse_text(struct ig_jparser *p)
{
    const struct ig_jtok *t = ig_jpeek(p);
    struct ig_jnode *n = ig_jnode(p, IG_JN_TEXT);
    struct ig_jstr *s = n ? ig_jparse_get(p, sizeof *s) : NULL;
    if (!s) return NULL;
    s->p = t->p;
    s->n = t->n;
    n->val = (struct ig_jv){ .type = IG_J_STR, .u.s = s };
    p->at++;
    return n;
}

/* Nodes until one of the tags in `end` (its name is next), or with end NULL to the template's. */
static int parse_body(struct ig_jparser *p, const char *const *end, struct ig_jnode **list)
{
    struct ig_jnode **tail = list;
    const int line = ig_jpeek(p)->line;
    *list = NULL;
    if (++p->depth > IG_JINJA_MAX_DEPTH) return ig_jparse_fail(p, line, "nested too deep");
    for (;;) {
        const struct ig_jtok *t = ig_jpeek(p);
        struct ig_jnode *n;
        if (t->type == IG_JT_EOF) {
            if (end) return ig_jparse_fail(p, line, "a block without %s", end[0]);
            break;
        }
        if (t->type == IG_JT_TEXT) {
            n = parse_text(p);
        } else if (t->type == IG_JT_VAR_BEGIN) {
            p->at++;
            n = parse_print(p);
        } else {
            p->at++;
            for (const char *const *e = end; e && *e; e++)
                if (ig_jis_name(p, *e)) {
                    p->depth--;
                    return 1;
                }
            n = parse_statement(p);
        }
        if (!n) return 0;
        *tail = n;
        tail = &n->next;
    }
    p->depth--;
    return 1;
}

enum ig_err ig_jinja_parse(struct ig_jtemplate **out, const char *source, size_t n,
                           struct ig_why *why)
{
    *out = NULL;
    if (n > IG_JINJA_MAX_SOURCE)
        return ig_fail(why, IG_BAD_FILE, "chat template: at most %d bytes, found %zu",
                       IG_JINJA_MAX_SOURCE, n);
    struct ig_jtemplate *t = calloc(1, sizeof *t);
    if (!t) return ig_fail(why, IG_NO_MEM, "out of memory");
    struct ig_jparser p = { .arena = &t->arena, .why = why };
    const int ok = ig_jlex(&p, source, n) && parse_body(&p, NULL, &t->body);
    free(p.tok);
    if (!ok) {
        ig_jinja_free(t);
        return p.err ? p.err : ig_fail(why, IG_NO_MEM, "chat template: out of memory");
    }
    *out = t;
    return IG_OK;
}

void ig_jinja_free(struct ig_jtemplate *t)
{
    if (!t) return;
    ig_jarena_free(&t->arena);
    free(t);
}
