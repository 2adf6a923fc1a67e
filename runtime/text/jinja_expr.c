/* jinja_expr.c -- expressions, with Jinja's precedences: ** binds to the left,
 * filters bind tighter than operators, tests tighter than not.
 */
#include "jinja_parse.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

static struct ig_jnode *parse_unary(struct ig_jparser *p, int with_filter);
static struct ig_jnode *parse_primary(struct ig_jparser *p);
static struct ig_jnode *parse_postfix(struct ig_jparser *p, struct ig_jnode *n);

int ig_jis_op(const struct ig_jparser *p, int op)
{
    return ig_jpeek(p)->type == IG_JT_OP && ig_jpeek(p)->op == op;
}

int ig_jis_name(const struct ig_jparser *p, const char *name)
{
    return ig_jpeek(p)->type == IG_JT_NAME && !strcmp(ig_jpeek(p)->p, name);
}

int ig_jskip_op(struct ig_jparser *p, int op)
{
    if (!ig_jis_op(p, op)) return 0;
    p->at++;
    return 1;
}

int ig_jskip_name(struct ig_jparser *p, const char *name)
{
    if (!ig_jis_name(p, name)) return 0;
    p->at++;
    return 1;
}

const char *ig_jtok_text(const struct ig_jtok *t, char buf[64])
{
    static const char *const kind[] = {
        [IG_JT_TEXT] = "text",    [IG_JT_VAR_BEGIN] = "{{",
        [IG_JT_VAR_END] = "}}",   [IG_JT_BLOCK_BEGIN] = "{%",
        [IG_JT_BLOCK_END] = "%}", [IG_JT_EOF] = "the end of the template"
    };
    if (t->type < IG_JT_NAME || t->type == IG_JT_EOF) return kind[t->type];
    snprintf(buf, 64, "'%.*s'", (int)(t->n < 50 ? t->n : 50), t->p);
    return buf;
}

int ig_jexpect_op(struct ig_jparser *p, int op)
{
    char buf[64];
    if (ig_jskip_op(p, op)) return 1;
    return ig_jparse_fail(p, ig_jpeek(p)->line, "want '%c', found %s", op,
                          ig_jtok_text(ig_jpeek(p), buf));
}

const char *ig_jexpect_name(struct ig_jparser *p)
{
    char buf[64];
    const struct ig_jtok *t = ig_jpeek(p);
    if (t->type != IG_JT_NAME) {
        ig_jparse_fail(p, t->line, "want a name, found %s", ig_jtok_text(t, buf));
        return NULL;
    }
    p->at++;
    return t->p;
}

struct ig_jnode *ig_jnode(struct ig_jparser *p, enum ig_jkind kind)
{
    struct ig_jnode *n = ig_jparse_get(p, sizeof *n);
    if (!n) return NULL;
    n->kind = kind;
    n->line = ig_jpeek(p)->line;
    return n;
}

static struct ig_jnode *binary(struct ig_jparser *p, enum ig_jkind kind, int op, struct ig_jnode *a,
                               struct ig_jnode *b)
{
    struct ig_jnode *n = a && b ? ig_jnode(p, kind) : NULL;
    if (!n) return NULL;
    n->op = op;
    n->a = a;
    n->b = b;
    return n;
}

static int str_value(struct ig_jparser *p, const char *text, size_t n, struct ig_jv *out)
{
    struct ig_jstr *s = ig_jparse_get(p, sizeof *s);
    if (!s) return 0;
    s->p = text;
    s->n = n;
    *out = (struct ig_jv){ .type = IG_J_STR, .u.s = s };
    return 1;
}

static int int_value(struct ig_jparser *p, const struct ig_jtok *t, struct ig_jv *out)
{
    char *end;
    int base = 10;
    const char *s = t->p;
    if (t->n > 2 && s[0] == '0' && strchr("xXoObB", s[1])) {
        base = (s[1] | 32) == 'x' ? 16 : (s[1] | 32) == 'o' ? 8 : 2;
        s += 2;
    }
    errno = 0;
    const long long v = strtoll(s, &end, base);
    if (errno || *end) return ig_jparse_fail(p, t->line, "the number %.40s is not supported", t->p);
    *out = ig_jint(v);
    return 1;
}

/* Adjacent strings are one. */
static struct ig_jnode *parse_string(struct ig_jparser *p)
{
    struct ig_jnode *n = ig_jnode(p, IG_JN_CONST);
    size_t bytes = 0, end = p->at;
    for (; p->tok[end].type == IG_JT_STR; end++) bytes += p->tok[end].n;
    char *text = n ? ig_jparse_get(p, bytes + 1) : NULL;
    if (!text) return NULL;
    size_t used = 0;
    for (; p->at < end; p->at++) {
        memcpy(text + used, ig_jpeek(p)->p, ig_jpeek(p)->n);
        used += ig_jpeek(p)->n;
    }
    return str_value(p, text, bytes, &n->val) ? n : NULL;
}

static struct ig_jnode *parse_name(struct ig_jparser *p)
{
    struct ig_jnode *n = ig_jnode(p, IG_JN_CONST);
    if (!n) return NULL;
    const char *name = p->tok[p->at++].p;
    if (!strcmp(name, "true") || !strcmp(name, "True")) {
        n->val = ig_jbool(1);
    } else if (!strcmp(name, "false") || !strcmp(name, "False")) {
        n->val = ig_jbool(0);
    } else if (!strcmp(name, "none") || !strcmp(name, "None")) {
        n->val.type = IG_J_NONE;
    } else {
        n->kind = IG_JN_NAME;
        n->name = name;
    }
    return n;
}

/* Items up to `close`, for lists and dicts. */
static struct ig_jnode *parse_items(struct ig_jparser *p, enum ig_jkind kind, int close)
{
    struct ig_jnode *n = ig_jnode(p, kind);
    if (!n) return NULL;
    struct ig_jnode **tail = &n->a;
    p->at++;
    while (!ig_jis_op(p, close)) {
        if (n->a && !ig_jexpect_op(p, ',')) return NULL;
        if (ig_jis_op(p, close)) break;
        struct ig_jnode *item = ig_jparse_expr(p);
        if (!item) return NULL;
        *tail = item;
        tail = &item->next;
        if (kind != IG_JN_DICT) continue;
        if (!ig_jexpect_op(p, ':') || !(item = ig_jparse_expr(p))) return NULL;
        *tail = item;
        tail = &item->next;
    }
    p->at++;
    return n;
}

static struct ig_jnode *parse_paren(struct ig_jparser *p)
{
    p->at++;
    if (ig_jskip_op(p, ')')) return ig_jnode(p, IG_JN_TUPLE);
    struct ig_jnode *n = ig_jparse_tuple(p, 1);
    return n && ig_jexpect_op(p, ')') ? n : NULL;
}

static struct ig_jnode *parse_primary(struct ig_jparser *p)
{
    const struct ig_jtok *t = ig_jpeek(p);
    char buf[64];
    struct ig_jnode *n;
    switch (t->type) {
    case IG_JT_NAME:
        return parse_name(p);
    case IG_JT_STR:
        return parse_string(p);
    case IG_JT_INT:
    case IG_JT_FLOAT:
        n = ig_jnode(p, IG_JN_CONST);
        if (!n) return NULL;
        if (t->type == IG_JT_FLOAT)
            n->val = ig_jfloat(strtod(t->p, NULL));
        else if (!int_value(p, t, &n->val))
            return NULL;
        p->at++;
        return n;
    case IG_JT_OP:
        if (t->op == '(') return parse_paren(p);
        if (t->op == '[') return parse_items(p, IG_JN_LIST, ']');
        if (t->op == '{') return parse_items(p, IG_JN_DICT, '}');
        break;
    default:
        break;
    }
    ig_jparse_fail(p, t->line, "want an expression, found %s", ig_jtok_text(t, buf));
    return NULL;
}

/* One of the comma-separated subscripts: an expression or a slice. */
static struct ig_jnode *parse_subscript(struct ig_jparser *p)
{
    struct ig_jnode *slot[3] = { NULL, NULL, NULL };
    int k = 0, is_slice = 0;
    for (;;) {
        if (ig_jis_op(p, ':')) {
            if (++k > 2) break;
            p->at++;
            is_slice = 1;
            continue;
        }
        if (ig_jis_op(p, ']') || ig_jis_op(p, ',')) break;
        if (slot[k]) break;
        slot[k] = ig_jparse_expr(p);
        if (!slot[k]) return NULL;
    }
    if (!is_slice) {
        if (!slot[0]) ig_jparse_fail(p, ig_jpeek(p)->line, "an empty subscript");
        return slot[0];
    }
    struct ig_jnode *n = ig_jnode(p, IG_JN_SLICE);
    if (!n) return NULL;
    n->a = slot[0];
    n->b = slot[1];
    n->c = slot[2];
    return n;
}

static struct ig_jnode *parse_item(struct ig_jparser *p, struct ig_jnode *a)
{
    p->at++;
    struct ig_jnode *key = parse_subscript(p);
    if (!key) return NULL;
    if (ig_jis_op(p, ',')) {
        struct ig_jnode *tuple = ig_jnode(p, IG_JN_TUPLE), *last = key;
        if (!tuple) return NULL;
        tuple->a = key;
        while (ig_jskip_op(p, ',')) {
            last->next = parse_subscript(p);
            if (!last->next) return NULL;
            last = last->next;
        }
        key = tuple;
    }
    return ig_jexpect_op(p, ']') ? binary(p, IG_JN_ITEM, 0, a, key) : NULL;
}

static struct ig_jnode *parse_attr(struct ig_jparser *p, struct ig_jnode *a)
{
    p->at++;
    const struct ig_jtok *t = ig_jpeek(p);
    if (t->type == IG_JT_INT) {
        struct ig_jnode *key = ig_jnode(p, IG_JN_CONST);
        if (!key || !int_value(p, t, &key->val)) return NULL;
        p->at++;
        return binary(p, IG_JN_ITEM, 0, a, key);
    }
    struct ig_jnode *n = ig_jnode(p, IG_JN_ATTR);
    const char *name = n ? ig_jexpect_name(p) : NULL;
    if (!name) return NULL;
    n->a = a;
    n->name = name;
    return n;
}

/* "(" ... ")" */
static int parse_args(struct ig_jparser *p, struct ig_jnode **list)
{
    struct ig_jnode **tail = list;
    if (!ig_jexpect_op(p, '(')) return 0;
    while (!ig_jis_op(p, ')')) {
        if (*list && !ig_jexpect_op(p, ',')) return 0;
        if (ig_jis_op(p, ')')) break;
        struct ig_jnode *n = NULL;
        const struct ig_jtok *t = ig_jpeek(p);
        if (ig_jis_op(p, '*') || ig_jis_op(p, IG_JOP2('*', '*'))) {
            n = ig_jnode(p, IG_JN_SPREAD);
            if (!n) return 0;
            n->op = t->op == '*' ? '*' : '2';
            p->at++;
        } else if (t->type == IG_JT_NAME && p->tok[p->at + 1].type == IG_JT_OP &&
                   p->tok[p->at + 1].op == '=') {
            n = ig_jnode(p, IG_JN_KWARG);
            if (!n) return 0;
            n->name = t->p;
            p->at += 2;
        }
        struct ig_jnode *value = ig_jparse_expr(p);
        if (!value) return 0;
        if (n)
            n->a = value;
        else
            n = value;
        *tail = n;
        tail = &n->next;
    }
    p->at++;
    return 1;
}

static struct ig_jnode *parse_call(struct ig_jparser *p, struct ig_jnode *fn)
{
    struct ig_jnode *n = ig_jnode(p, IG_JN_CALL);
    if (!n) return NULL;
    n->a = fn;
    return parse_args(p, &n->b) ? n : NULL;
}

static struct ig_jnode *parse_postfix(struct ig_jparser *p, struct ig_jnode *n)
{
    while (n) {
        if (ig_jis_op(p, '.'))
            n = parse_attr(p, n);
        else if (ig_jis_op(p, '['))
            n = parse_item(p, n);
        else if (ig_jis_op(p, '('))
            n = parse_call(p, n);
        else
            break;
    }
    return n;
}

/* a.b.c as one name, for filters and tests */
static const char *dotted(struct ig_jparser *p)
{
    const char *name = ig_jexpect_name(p);
    while (name && ig_jis_op(p, '.')) {
        p->at++;
        const char *more = ig_jexpect_name(p);
        const size_t n = more ? strlen(name) + strlen(more) + 2 : 0;
        char *both = more ? ig_jparse_get(p, n) : NULL;
        if (!both) return NULL;
        snprintf(both, n, "%s.%s", name, more);
        name = both;
    }
    return name;
}

struct ig_jnode *ig_jparse_filters(struct ig_jparser *p, struct ig_jnode *a, int first)
{
    while (a && (first || ig_jis_op(p, '|'))) {
        if (!first) p->at++;
        first = 0;
        struct ig_jnode *n = ig_jnode(p, IG_JN_FILTER);
        const char *name = n ? dotted(p) : NULL;
        if (!name) return NULL;
        n->name = name;
        n->a = a;
        if (ig_jis_op(p, '(') && !parse_args(p, &n->b)) return NULL;
        a = n;
    }
    return a;
}

static struct ig_jnode *parse_test(struct ig_jparser *p, struct ig_jnode *a)
{
    p->at++;
    const int negate = ig_jskip_name(p, "not");
    struct ig_jnode *n = ig_jnode(p, IG_JN_TEST);
    const char *name = n ? dotted(p) : NULL;
    if (!name) return NULL;
    n->name = name;
    n->a = a;
    const struct ig_jtok *t = ig_jpeek(p);
    if (ig_jis_op(p, '(')) {
        if (!parse_args(p, &n->b)) return NULL;
    } else if (t->type == IG_JT_STR || t->type == IG_JT_INT || t->type == IG_JT_FLOAT ||
               ig_jis_op(p, '[') || ig_jis_op(p, '{') ||
               (t->type == IG_JT_NAME && strcmp(t->p, "else") && strcmp(t->p, "or") &&
                strcmp(t->p, "and") && strcmp(t->p, "if") && strcmp(t->p, "in") &&
                strcmp(t->p, "not") && strcmp(t->p, "recursive"))) {
        if (ig_jis_name(p, "is")) {
            ig_jparse_fail(p, t->line, "a test behind a test");
            return NULL;
        }
        n->b = parse_postfix(p, parse_primary(p));
        if (!n->b) return NULL;
    }
    if (!negate) return n;
    struct ig_jnode *not_n = ig_jnode(p, IG_JN_UNARY);
    if (!not_n) return NULL;
    not_n->op = 'n';
    not_n->a = n;
    return not_n;
}

static struct ig_jnode *parse_filter_expr(struct ig_jparser *p, struct ig_jnode *n)
{
    while (n) {
        if (ig_jis_op(p, '|'))
            n = ig_jparse_filters(p, n, 0);
        else if (ig_jis_name(p, "is"))
            n = parse_test(p, n);
        else if (ig_jis_op(p, '('))
            n = parse_call(p, n);
        else
            break;
    }
    return n;
}

static struct ig_jnode *parse_unary(struct ig_jparser *p, int with_filter)
{
    struct ig_jnode *n;
    if (ig_jis_op(p, '-') || ig_jis_op(p, '+')) {
        if (++p->depth > IG_JINJA_MAX_DEPTH) {
            ig_jparse_fail(p, ig_jpeek(p)->line, "nested too deep");
            return NULL;
        }
        n = ig_jnode(p, IG_JN_UNARY);
        if (!n) return NULL;
        n->op = ig_jpeek(p)->op;
        p->at++;
        n->a = parse_unary(p, 0);
        p->depth--;
        if (!n->a) return NULL;
    } else {
        n = parse_primary(p);
    }
    n = parse_postfix(p, n);
    return with_filter ? parse_filter_expr(p, n) : n;
}

static struct ig_jnode *parse_level(struct ig_jparser *p, int level)
{
    /* loosest first */
    static const int ops[4][5] = {
        { '+', '-' }, { '~' }, { '*', '/', IG_JOP2('/', '/'), '%' }, { IG_JOP2('*', '*') }
    };
    if (level == 4) return parse_unary(p, 1);
    struct ig_jnode *n = parse_level(p, level + 1);
    while (n && ig_jpeek(p)->type == IG_JT_OP) {
        int op = 0;
        for (int i = 0; i < 5; i++)
            if (ops[level][i] && ig_jpeek(p)->op == ops[level][i]) op = ops[level][i];
        if (!op) break;
        p->at++;
        n = binary(p, IG_JN_BINARY, op, n, parse_level(p, level + 1));
    }
    return n;
}

static int compare_op(struct ig_jparser *p)
{
    static const int ops[] = { IG_JOP2('=', '='), IG_JOP2('!', '='), '<', '>',
                               IG_JOP2('<', '='), IG_JOP2('>', '=') };
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        if (ig_jskip_op(p, ops[i])) return ops[i];
    if (ig_jskip_name(p, "in")) return 'i';
    if (ig_jis_name(p, "not") && p->tok[p->at + 1].type == IG_JT_NAME &&
        !strcmp(p->tok[p->at + 1].p, "in")) {
        p->at += 2;
        return 'o'; /* not in */
    }
    return 0;
}

static struct ig_jnode *parse_compare(struct ig_jparser *p)
{
    struct ig_jnode *a = parse_level(p, 0), *n = NULL, **tail = NULL;
    int op;
    while (a && (op = compare_op(p))) {
        if (!n) {
            n = ig_jnode(p, IG_JN_COMPARE);
            if (!n) return NULL;
            n->a = a;
            tail = &n->b;
        }
        struct ig_jnode *x = ig_jnode(p, IG_JN_OPERAND);
        if (!x) return NULL;
        x->op = op;
        x->a = parse_level(p, 0);
        if (!x->a) return NULL;
        *tail = x;
        tail = &x->next;
    }
    return n ? n : a;
}

static struct ig_jnode *parse_not(struct ig_jparser *p)
{
    int nots = 0;
    while (ig_jskip_name(p, "not")) nots++;
    struct ig_jnode *n = parse_compare(p);
    if (!n || nots == 0) return n;
    struct ig_jnode *x = ig_jnode(p, IG_JN_UNARY);
    if (!x) return NULL;
    x->op = nots % 2 ? 'n' : 'b'; /* two nots still make a boolean */
    x->a = n;
    return x;
}

static struct ig_jnode *parse_and(struct ig_jparser *p)
{
    struct ig_jnode *n = parse_not(p);
    while (n && ig_jskip_name(p, "and")) n = binary(p, IG_JN_AND, 0, n, parse_not(p));
    return n;
}

static struct ig_jnode *expr_no_if(struct ig_jparser *p)
{
    struct ig_jnode *n = parse_and(p);
    while (n && ig_jskip_name(p, "or")) n = binary(p, IG_JN_OR, 0, n, parse_and(p));
    return n;
}

struct ig_jnode *ig_jparse_expr(struct ig_jparser *p)
{
    if (++p->depth > IG_JINJA_MAX_DEPTH) {
        ig_jparse_fail(p, ig_jpeek(p)->line, "nested too deep");
        return NULL;
    }
    struct ig_jnode *n = expr_no_if(p);
    while (n && ig_jskip_name(p, "if")) {
        struct ig_jnode *x = ig_jnode(p, IG_JN_COND);
        if (!x) return NULL;
        x->a = n;
        x->b = expr_no_if(p);
        if (!x->b) return NULL;
        if (ig_jskip_name(p, "else") && !(x->c = ig_jparse_expr(p))) return NULL;
        n = x;
    }
    p->depth--;
    return n;
}

static int at_tuple_end(const struct ig_jparser *p)
{
    const struct ig_jtok *t = ig_jpeek(p);
    return t->type == IG_JT_VAR_END || t->type == IG_JT_BLOCK_END || t->type == IG_JT_EOF ||
           ig_jis_op(p, ')') || ig_jis_op(p, '=') || ig_jis_name(p, "in") ||
           ig_jis_name(p, "recursive");
}

static struct ig_jnode *one_or_tuple(struct ig_jparser *p,
                                     struct ig_jnode *(*one)(struct ig_jparser *))
{
    struct ig_jnode *n = one(p);
    if (!n || !ig_jis_op(p, ',')) return n;
    struct ig_jnode *tuple = ig_jnode(p, IG_JN_TUPLE), *last = n;
    if (!tuple) return NULL;
    tuple->a = n;
    while (ig_jskip_op(p, ',') && !at_tuple_end(p)) {
        last->next = one(p);
        if (!last->next) return NULL;
        last = last->next;
    }
    return tuple;
}

struct ig_jnode *ig_jparse_tuple(struct ig_jparser *p, int with_if)
{
    return one_or_tuple(p, with_if ? ig_jparse_expr : expr_no_if);
}

static struct ig_jnode *parse_target_one(struct ig_jparser *p)
{
    if (++p->depth > IG_JINJA_MAX_DEPTH) {
        ig_jparse_fail(p, ig_jpeek(p)->line, "nested too deep");
        return NULL;
    }
    struct ig_jnode *n = NULL;
    if (ig_jskip_op(p, '(')) {
        n = one_or_tuple(p, parse_target_one);
        if (n && !ig_jexpect_op(p, ')')) n = NULL;
    } else {
        const char *name = ig_jexpect_name(p);
        n = name ? ig_jnode(p, IG_JN_NAME) : NULL;
        if (n) n->name = name;
    }
    p->depth--;
    return n;
}

struct ig_jnode *ig_jparse_target(struct ig_jparser *p, int with_ns)
{
    if (with_ns && ig_jpeek(p)->type == IG_JT_NAME && p->tok[p->at + 1].type == IG_JT_OP &&
        p->tok[p->at + 1].op == '.') {
        struct ig_jnode *n = ig_jnode(p, IG_JN_NSTARGET);
        if (!n) return NULL;
        n->name = ig_jexpect_name(p);
        p->at++;
        const char *field = ig_jexpect_name(p);
        return field && str_value(p, field, strlen(field), &n->val) ? n : NULL;
    }
    return one_or_tuple(p, parse_target_one);
}
