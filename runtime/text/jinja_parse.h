/* jinja_parse.h -- tokens between jinja_lex.c and the two parsers. */
#ifndef IG_JINJA_PARSE_H
#define IG_JINJA_PARSE_H

#include "jinja.h"

enum ig_jtok_type {
    IG_JT_TEXT,
    IG_JT_VAR_BEGIN,
    IG_JT_VAR_END,
    IG_JT_BLOCK_BEGIN,
    IG_JT_BLOCK_END,
    IG_JT_NAME,
    IG_JT_INT,
    IG_JT_FLOAT,
    IG_JT_STR,
    IG_JT_OP, /* op: one character, or two as first | second << 8 */
    IG_JT_EOF
};
#define IG_JOP2(a, b) ((a) | (b) << 8)

struct ig_jtok {
    enum ig_jtok_type type;
    int line, op;
    const char *p; /* text; a string without its quotes, escapes resolved; a name, NUL-ended */
    size_t n;
};

struct ig_jparser {
    struct ig_jarena *arena;
    struct ig_why *why;
    enum ig_err err;
    struct ig_jtok *tok;
    size_t n_tok, cap, at;
    int depth;
};

/* NULL / 0 after the reason is set. */
int ig_jparse_fail(struct ig_jparser *p, int line, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void *ig_jparse_get(struct ig_jparser *p, size_t n);
struct ig_jnode *ig_jnode(struct ig_jparser *p, enum ig_jkind kind);
int ig_jlex(struct ig_jparser *p, const char *source, size_t n);

static inline const struct ig_jtok *ig_jpeek(const struct ig_jparser *p) { return &p->tok[p->at]; }
int ig_jis_op(const struct ig_jparser *p, int op);
int ig_jis_name(const struct ig_jparser *p, const char *name);
int ig_jskip_op(struct ig_jparser *p, int op); /* 1: was there, taken */
int ig_jskip_name(struct ig_jparser *p, const char *name);
int ig_jexpect_op(struct ig_jparser *p, int op);
const char *ig_jexpect_name(struct ig_jparser *p);
const char *ig_jtok_text(const struct ig_jtok *t, char buf[64]);

/* jinja_expr.c */
struct ig_jnode *ig_jparse_expr(struct ig_jparser *p);
/* One expression or a tuple without parentheses. */
struct ig_jnode *ig_jparse_tuple(struct ig_jparser *p, int with_if);
struct ig_jnode *ig_jparse_target(struct ig_jparser *p, int with_ns);
/* filters behind `n`; `first`: one without the bar is next */
struct ig_jnode *ig_jparse_filters(struct ig_jparser *p, struct ig_jnode *n, int first);

#endif
