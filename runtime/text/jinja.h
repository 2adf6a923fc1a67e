/* jinja.h -- the Jinja of chat templates: parsed once, evaluated with an arena.
 *
 * Behaves as Jinja2's ImmutableSandboxedEnvironment(trim_blocks, lstrip_blocks,
 * loopcontrols) does, without its Python.  Strings carry a mark a byte that
 * says "a person wrote this"; every operation keeps the marks of the bytes it
 * keeps.  What is not supported is an error when it is reached, not before.
 * Steps, nesting and memory are limited, so hostile templates end.
 *
 * Functions that can fail return 0 after ig_jinja_fail() and 1 otherwise.
 */
#ifndef IG_JINJA_H
#define IG_JINJA_H

#include "base.h"
#include <string.h>

enum {
    IG_JINJA_MAX_DEPTH = 160,     /* nesting in the source */
    IG_JINJA_MAX_CALL = 800,      /* nesting of evaluation */
    IG_JINJA_MAX_STEP = 20000000, /* nodes evaluated and items iterated */
    IG_JINJA_MAX_RANGE = 100000,  /* the sandbox's limit */
    IG_JINJA_MAX_SOURCE = 1 << 22
};
#define IG_JINJA_MAX_BYTES ((size_t)512 << 20)

/* -- arena: everything of one template or one rendering */
struct ig_jarena {
    struct ig_jchunk *chunk;
    size_t used, total;
};
void *ig_jarena_get(struct ig_jarena *a, size_t n); /* zeroed; NULL: no memory or over the limit */
void ig_jarena_free(struct ig_jarena *a);

/* -- values */
enum ig_jtype {
    IG_J_UNDEF, /* s: what to say when it is used, or NULL */
    IG_J_NONE,
    IG_J_BOOL,
    IG_J_INT,
    IG_J_FLOAT,
    IG_J_STR,
    IG_J_LIST,
    IG_J_TUPLE,
    IG_J_GEN, /* l: what a Python generator would yield; true, no length, used up by one pass */
    IG_J_DICT,
    IG_J_NS,   /* d: namespace(), the one thing that can be changed */
    IG_J_FUNC, /* f: builtin by number, or bound method, or macro */
    IG_J_LOOP  /* loop: the `loop` of a for */
};

struct ig_jstr {
    const char *p;
    const unsigned char *mark; /* NULL: no byte is marked */
    size_t n;
    int safe; /* HTML already (jinja_safe.c) */
};

struct ig_jv {
    enum ig_jtype type;
    union {
        int b;
        int64_t i;
        double f;
        struct ig_jstr *s;
        struct ig_jlist *l;
        struct ig_jdict *d;
        struct ig_jfunc *fn;
        struct ig_jloop *loop;
    } u;
};

struct ig_jlist {
    struct ig_jv *v;
    size_t n, cap;
};

struct ig_jdict {
    struct ig_jlist key, value; /* in order of insertion */
    uint32_t *slot;             /* hash of string keys, once there are many */
    size_t n_slot;
};

struct ig_jnode;
struct ig_jframe {
    struct ig_jframe *parent;
    struct ig_jvar *var;
};

enum ig_jfunc_kind { IG_JF_GLOBAL, IG_JF_METHOD, IG_JF_MACRO, IG_JF_CALLER, IG_JF_LOOP };
struct ig_jfunc {
    enum ig_jfunc_kind kind;
    const char *name;            /* global or method */
    struct ig_jv self;           /* method, joiner, cycler */
    const struct ig_jnode *node; /* macro or call block */
    struct ig_jframe *frame;     /* where it was defined */
    int64_t state;               /* cycler, joiner */
};

struct ig_jloop {
    struct ig_jlist *items;
    size_t i;
    int depth;
    struct ig_jv changed;
    int has_changed;
    const struct ig_jnode *node; /* of a recursive loop */
    struct ig_jframe *frame;
};

/* -- growing output */
struct ig_jbuf {
    char *p;
    unsigned char *mark; /* NULL: none yet */
    size_t n, cap;
};

/* Arguments of a call. */
struct ig_jargs {
    struct ig_jlist pos;
    struct ig_jlist kw_name, kw;
};

/* -- syntax tree */
enum ig_jkind {
    /* expressions */
    IG_JN_CONST,  /* val */
    IG_JN_NAME,   /* name */
    IG_JN_LIST,   /* a: items */
    IG_JN_TUPLE,  /* a: items */
    IG_JN_DICT,   /* a: key, value, key, value ... */
    IG_JN_UNARY,  /* op: '-' '+' 'n'(ot); a */
    IG_JN_BINARY, /* op; a, b */
    IG_JN_AND,    /* a, b */
    IG_JN_OR,
    IG_JN_COMPARE, /* a, then b: list of IG_JN_OPERAND */
    IG_JN_OPERAND, /* op; a */
    IG_JN_COND,    /* a if b else c (may be NULL) */
    IG_JN_ATTR,    /* a.name */
    IG_JN_ITEM,    /* a[b] */
    IG_JN_SLICE,   /* start a, stop b, step c */
    IG_JN_CALL,    /* a(b: list of args) */
    IG_JN_KWARG,   /* name = a */
    IG_JN_SPREAD,  /* op '*' or '2' for **; a */
    IG_JN_FILTER,  /* a | name(b) */
    IG_JN_TEST,    /* a is name(b) */
    /* statements */
    IG_JN_TEXT,        /* val */
    IG_JN_PRINT,       /* a */
    IG_JN_IF,          /* if a then b else c */
    IG_JN_FOR,         /* target a in b if c: d, else e; op: recursive */
    IG_JN_SET,         /* target a = b, or block body c with filters b */
    IG_JN_NSTARGET,    /* name.field; field in val */
    IG_JN_MACRO,       /* name; a: parameters (NAME, with default in a); b: body */
    IG_JN_CALLBLOCK,   /* a: parameters, b: body, c: the call */
    IG_JN_FILTERBLOCK, /* a: filters over a IG_JN_BODY, b: body */
    IG_JN_WITH,        /* a: list of SET, b: body */
    IG_JN_SCOPE,       /* b: body in a scope of its own */
    IG_JN_BODY,        /* stands for the captured text in a filter chain */
    IG_JN_BREAK,
    IG_JN_CONTINUE,
    IG_JN_UNSUPPORTED /* name: the tag */
};

struct ig_jnode {
    enum ig_jkind kind;
    int op, line;
    struct ig_jnode *a, *b, *c, *d, *e;
    struct ig_jnode *next; /* in a list */
    const char *name;
    struct ig_jv val;
};

struct ig_jtemplate {
    struct ig_jarena arena;
    struct ig_jnode *body;
};

/* -- one rendering */
struct ig_jctx {
    struct ig_jarena arena;
    struct ig_why *why;
    enum ig_err err;
    int line, depth, failed;
    int64_t steps;
    struct ig_jframe *globals;
    struct ig_jbuf *out;
};

enum ig_err ig_jinja_parse(struct ig_jtemplate **t, const char *source, size_t n,
                           struct ig_why *why);
void ig_jinja_free(struct ig_jtemplate *t);
/* Renders with the variables in ctx->globals into ctx->out; the caller frees the arena. */
enum ig_err ig_jinja_render(const struct ig_jtemplate *t, struct ig_jctx *c);

/* jinja_value.c */
int ig_jinja_fail(struct ig_jctx *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void *ig_jget(struct ig_jctx *c, size_t n); /* NULL after ig_jinja_fail() */
int ig_jbuf_put(struct ig_jctx *c, struct ig_jbuf *b, const char *p, const unsigned char *mark,
                size_t n);
int ig_jbuf_puts(struct ig_jctx *c, struct ig_jbuf *b, const char *s);
int ig_jbuf_str(struct ig_jctx *c, struct ig_jbuf *b, const struct ig_jstr *s);
int ig_jbuf_value(struct ig_jctx *c, const struct ig_jbuf *b, struct ig_jv *out);
int ig_jstr_new(struct ig_jctx *c, const char *p, const unsigned char *mark, size_t n,
                struct ig_jv *out);
int ig_jstr_sub(struct ig_jctx *c, const struct ig_jstr *s, size_t from, size_t to,
                struct ig_jv *out);
int ig_jstr_is(const struct ig_jv *v, const char *text);
int ig_jlist_new(struct ig_jctx *c, enum ig_jtype type, struct ig_jv *out);
int ig_jlist_put(struct ig_jctx *c, struct ig_jlist *l, struct ig_jv v);
int ig_jdict_new(struct ig_jctx *c, struct ig_jv *out);
int ig_jdict_put(struct ig_jctx *c, struct ig_jdict *d, struct ig_jv key, struct ig_jv v);
const struct ig_jv *ig_jdict_get(const struct ig_jdict *d, const struct ig_jv *key);
const struct ig_jv *ig_jdict_gets(const struct ig_jdict *d, const char *key);
/* Undefined, with what is wrong if it is used. */
struct ig_jv ig_jundef(struct ig_jctx *c, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
int ig_jframe_set(struct ig_jctx *c, struct ig_jframe *f, const char *name, struct ig_jv v);
const struct ig_jv *ig_jframe_get(const struct ig_jframe *f, const char *name);
int ig_jinja_step(struct ig_jctx *c, int64_t n);

static inline struct ig_jv ig_jint(int64_t i)
{
    return (struct ig_jv){ .type = IG_J_INT, .u.i = i };
}
static inline struct ig_jv ig_jbool(int b)
{
    return (struct ig_jv){ .type = IG_J_BOOL, .u.b = b != 0 };
}
static inline struct ig_jv ig_jfloat(double f)
{
    return (struct ig_jv){ .type = IG_J_FLOAT, .u.f = f };
}
static inline int ig_jis_list(const struct ig_jv *v)
{
    return v->type == IG_J_LIST || v->type == IG_J_TUPLE || v->type == IG_J_GEN;
}

/* jinja_text.c: what values print as, and Unicode */
int ig_jstr_of(struct ig_jctx *c, const struct ig_jv *v, struct ig_jv *out); /* str(v) */
int ig_jput_str(struct ig_jctx *c, struct ig_jbuf *b, const struct ig_jv *v);
int ig_jput_repr(struct ig_jctx *c, struct ig_jbuf *b, const struct ig_jv *v);
int ig_jput_json(struct ig_jctx *c, struct ig_jbuf *b, const struct ig_jv *v, const char *indent,
                 const char *item_sep, const char *key_sep, int sort, int ascii, int level);
const char *ig_jtype_name(const struct ig_jv *v);
size_t ig_jchar_len(const char *p, size_t n);              /* bytes of the character at p */
size_t ig_jchars(const struct ig_jstr *s);                 /* characters */
size_t ig_jchar_at(const struct ig_jstr *s, size_t index); /* byte offset */
uint32_t ig_jchar(const char *p, size_t n);
enum ig_jcase { IG_JCASE_UPPER, IG_JCASE_LOWER };
uint32_t ig_jcase(uint32_t cp, enum ig_jcase to);
int ig_jspace(uint32_t cp); /* as str.isspace() */
int ig_jalpha(uint32_t cp);
int ig_jput_char(struct ig_jctx *c, struct ig_jbuf *b, uint32_t cp, int mark);

/* jinja_op.c */
int ig_jtruth(const struct ig_jv *v);
int ig_jequal(struct ig_jctx *c, const struct ig_jv *a, const struct ig_jv *b, int *out);
int ig_jcompare(struct ig_jctx *c, const struct ig_jv *a, const struct ig_jv *b, int *out);
int ig_jcontains(struct ig_jctx *c, const struct ig_jv *item, const struct ig_jv *in, int *out);
int ig_jarith(struct ig_jctx *c, int op, const struct ig_jv *a, const struct ig_jv *b,
              struct ig_jv *out);
int ig_jiter(struct ig_jctx *c, const struct ig_jv *v, struct ig_jlist **out);
int ig_jlength(struct ig_jctx *c, const struct ig_jv *v, int64_t *out);
int ig_jattr(struct ig_jctx *c, const struct ig_jv *v, const char *name, struct ig_jv *out);
int ig_jitem(struct ig_jctx *c, const struct ig_jv *v, const struct ig_jv *key, struct ig_jv *out);
int ig_jslice(struct ig_jctx *c, const struct ig_jv *v, const struct ig_jv key[3],
              struct ig_jv *out);
int ig_jformat(struct ig_jctx *c, const struct ig_jstr *fmt, const struct ig_jv *args,
               struct ig_jv *out); /* fmt % args */

/* jinja_method.c */
int ig_jhas_method(const struct ig_jv *v, const char *name);
int ig_jmethod(struct ig_jctx *c, const struct ig_jv *self, const char *name,
               const struct ig_jargs *args, struct ig_jv *out);
int ig_jstrip(struct ig_jctx *c, const struct ig_jstr *s, const struct ig_jv *chars, int sides,
              struct ig_jv *out);
int ig_jreplace(struct ig_jctx *c, const struct ig_jstr *s, const struct ig_jstr *from,
                const struct ig_jstr *to, int64_t count, struct ig_jv *out);
int ig_jrecase(struct ig_jctx *c, const struct ig_jstr *s, const char *how, struct ig_jv *out);

/* jinja_safe.c */
int ig_jsafe(struct ig_jctx *c, struct ig_jv *v); /* it, or each string of a new list */
int ig_jsafe_as(struct ig_jctx *c, const struct ig_jstr *s, struct ig_jv *out); /* if s is */
/* str(v) with entities; what is safe stays, but `again`. */
int ig_jescape(struct ig_jctx *c, const struct ig_jv *v, int again, struct ig_jv *out);
/* What a safe string's method is given. */
int ig_jsafe_args(struct ig_jctx *c, const char *name, const struct ig_jargs *a,
                  struct ig_jargs *out);

/* jinja_filter.c, jinja_filter_seq.c, jinja_test.c, jinja_func.c.  -1: not known by this file */
int ig_jfilter(struct ig_jctx *c, const char *name, const struct ig_jv *v,
               const struct ig_jargs *args, struct ig_jv *out);
int ig_jfilter_seq(struct ig_jctx *c, const char *name, const struct ig_jv *v,
                   const struct ig_jargs *args, struct ig_jv *out);
int ig_jtest(struct ig_jctx *c, const char *name, const struct ig_jv *v,
             const struct ig_jargs *args, int *out);
int ig_jhas_filter(const char *name);
int ig_jhas_global(const char *name);
int ig_jglobal(struct ig_jctx *c, struct ig_jfunc *f, const struct ig_jargs *args,
               struct ig_jv *out);
/* Argument `i`, or by name; NULL when absent. */
const struct ig_jv *ig_jarg(const struct ig_jargs *a, size_t i, const char *name);
int ig_jarg_int(struct ig_jctx *c, const struct ig_jargs *a, size_t i, const char *name,
                int64_t otherwise, int64_t *out);
int ig_jarg_bool(const struct ig_jargs *a, size_t i, const char *name, int otherwise);
int ig_jneed_str(struct ig_jctx *c, const struct ig_jv *v, const char *what, struct ig_jstr **out);

/* jinja_eval.c */
int ig_jeval(struct ig_jctx *c, struct ig_jframe *f, const struct ig_jnode *n, struct ig_jv *out);
/* jinja_exec.c */
int ig_jcall_macro(struct ig_jctx *c, struct ig_jfunc *fn, const struct ig_jargs *args,
                   struct ig_jv *out);
int ig_jcall_loop(struct ig_jctx *c, struct ig_jloop *loop, const struct ig_jv *items,
                  struct ig_jv *out);

#endif
