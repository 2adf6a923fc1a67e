/* pretok_regex.c -- the patterns of published tokenizers, run by PCRE2.
 *
 * Patterns are written for Oniguruma or for Rust's engines; ig_regex_compile()
 * rewrites what means something else in PCRE2.  Pattern and text are hostile:
 * each search sees a window that doubles only when the match reaches its end,
 * the engine's steps are limited by the window, and all windows of one text
 * together by a budget, so a search can fail but not hang.
 */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "tokenizer_int.h"
#include "pretok_unicode.h"
#include <pcre2.h>
#include <stdlib.h>

enum {
    MAX_PATTERN = 1 << 15,
    WINDOW = 256,      /* bytes a search sees at first: words are short */
    STEPS_PER_BYTE = 8 /* engine steps a window byte; real patterns need about two */
};

struct ig_regex {
    pcre2_code *code;
};

struct rewrite {
    const char *in;
    size_t n, i;
    struct ig_tok_text out;
    size_t atom; /* where the last atom starts in out, for {n,m}+ */
    size_t open[64];
    int depth, counting; /* groups; inside {n,m} */
    struct ig_why *why;
};

static int put(struct rewrite *r, const char *s) { return ig_text_put(&r->out, s, strlen(s), 0); }

static enum ig_err refuse(struct rewrite *r, const char *what)
{
    return ig_fail(r->why, IG_BAD_FILE, "pattern: %s at byte %zu is not supported", what, r->i);
}

/* \p{Name}, \P{Name}, \p{^Name}, \pL; r->i is behind the p. */
static enum ig_err rewrite_property(struct rewrite *r, int negated, int in_class)
{
    char name[32];
    size_t n = 1;
    const char *more = NULL, *p = r->in + r->i;
    if (r->i >= r->n) return refuse(r, "a property without a name");
    if (*p == '{') {
        const char *end = memchr(p, '}', r->n - r->i);
        if (!end || end - p > 30) return refuse(r, "this property");
        r->i += (size_t)(end - p) + 1;
        p++;
        if (*p == '^') {
            negated = !negated;
            p++;
        }
        n = (size_t)(end - p);
    } else {
        r->i++;
    }
    memcpy(name, p, n);
    name[n] = 0;
    for (size_t i = 0; i < sizeof pretok_unicode / sizeof *pretok_unicode; i++)
        if (!strcmp(name, pretok_unicode[i].property)) more = pretok_unicode[i].more;
    if (more && negated && in_class) more = NULL; /* a class cannot say it */
    const int wrap = more && !in_class;
    const int ok = put(r, !wrap     ? ""
                          : negated ? "[^"
                                    : "[") &&
                   put(r, negated && !wrap ? "\\P{" : "\\p{") && put(r, name) && put(r, "}") &&
                   (!more || put(r, more)) && (!wrap || put(r, "]"));
    return ok ? IG_OK : ig_fail(r->why, IG_NO_MEM, "out of memory");
}

/* One escape.  \s, \w and \h differ: PCRE2's \s takes U+180E, its \w lacks marks, its \h is
 * horizontal space where Oniguruma has hexadecimal digits. */
static enum ig_err rewrite_escape(struct rewrite *r, int in_class)
{
    static const char word[] = "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}";
    /* Outside of a class Oniguruma counts superscript digits and fractions in, too. */
    static const char latin[] = "\\x{b2}\\x{b3}\\x{b9}\\x{bc}-\\x{be}";
    if (r->i + 1 >= r->n) return refuse(r, "a lone backslash");
    const char c = r->in[r->i + 1];
    int ok = 1;
    r->i += 2;
    switch (c) {
    case 's':
        ok = put(r, "\\p{White_Space}");
        break;
    case 'S':
        ok = put(r, "\\P{White_Space}");
        break;
    case 'd':
        ok = put(r, "\\p{Nd}");
        break;
    case 'D':
        ok = put(r, "\\P{Nd}");
        break;
    case 'w':
        ok = in_class ? put(r, word) : put(r, "[") && put(r, word) && put(r, latin) && put(r, "]");
        break;
    case 'W':
        if (in_class) return refuse(r, "\\W in a class");
        ok = put(r, "[^") && put(r, word) && put(r, latin) && put(r, "]");
        break;
    case 'h':
        ok = put(r, in_class ? "0-9a-fA-F" : "[0-9a-fA-F]");
        break;
    case 'u': /* \u1234 */
        if (r->n - r->i < 4) return refuse(r, "a short \\u");
        ok = put(r, "\\x{") && ig_text_put(&r->out, r->in + r->i, 4, 0) && put(r, "}");
        r->i += 4;
        break;
    case 'C':
    case 'K':
    case 'Q':
    case 'E':
        return refuse(r, "this escape");
    case 'p':
    case 'P':
        return rewrite_property(r, c == 'P', in_class);
    default: {
        const char two[3] = { '\\', c, 0 };
        ok = ig_text_put(&r->out, two, 2, 0);
        while (ok && c == 'x' && r->i < r->n) { /* \x{...}: its braces are no quantifier */
            if (r->in[r->i] != '{' && r->in[r->i - 1] == 'x') break;
            ok = ig_text_put(&r->out, r->in + r->i, 1, 0);
            if (r->in[r->i++] == '}') break;
        }
    }
    }
    return ok ? IG_OK : ig_fail(r->why, IG_NO_MEM, "out of memory");
}

static enum ig_err rewrite_class(struct rewrite *r)
{
    const size_t start = r->i;
    int ok = put(r, "[");
    r->i++;
    if (r->i < r->n && r->in[r->i] == '^') {
        ok = ok && put(r, "^");
        r->i++;
    }
    for (size_t first = r->i; ok;) {
        if (r->i >= r->n) {
            r->i = start;
            return refuse(r, "an unclosed [");
        }
        const char c = r->in[r->i];
        if (c == ']' && r->i > first) break;
        if (c == '\\') {
            const enum ig_err err = rewrite_escape(r, 1);
            if (err) return err;
            continue;
        }
        if (c == '[' && !(r->i + 1 < r->n && r->in[r->i + 1] == ':'))
            return refuse(r, "a class in a class");
        if (c == '&' && r->i + 1 < r->n && r->in[r->i + 1] == '&') return refuse(r, "&&");
        if (c == '[') { /* [:name:] */
            const char *end = memchr(r->in + r->i, ']', r->n - r->i);
            if (!end) return refuse(r, "an unclosed [:");
            const size_t len = (size_t)(end - (r->in + r->i)) + 1;
            ok = ig_text_put(&r->out, r->in + r->i, len, 0);
            r->i += len;
            continue;
        }
        ok = ig_text_put(&r->out, &r->in[r->i++], 1, 0);
    }
    r->i++;
    return ok && put(r, "]") ? IG_OK : ig_fail(r->why, IG_NO_MEM, "out of memory");
}

static enum ig_err rewrite_one(struct rewrite *r)
{
    const char c = r->in[r->i];
    const size_t at = r->out.n;
    enum ig_err err = IG_OK;
    int ok = 1;
    switch (c) {
    case '\\':
        err = rewrite_escape(r, 0);
        r->atom = at;
        return err;
    case '[':
        err = rewrite_class(r);
        r->atom = at;
        return err;
    case '(':
        if (r->depth == 64) return refuse(r, "deep nesting");
        if (r->i + 1 < r->n && r->in[r->i + 1] == '*') return refuse(r, "(*");
        if (r->i + 2 < r->n && r->in[r->i + 1] == '?' &&
            (r->in[r->i + 2] == 'C' || r->in[r->i + 2] == 'R'))
            return refuse(r, "a callout or recursion");
        r->open[r->depth++] = at;
        break;
    case ')':
        if (r->depth == 0) return refuse(r, "an unopened )");
        ok = ig_text_put(&r->out, &c, 1, 0);
        r->atom = r->open[--r->depth];
        r->i++;
        return ok ? IG_OK : ig_fail(r->why, IG_NO_MEM, "out of memory");
    case '^':
    case '$':
        ok = put(r, c == '^' ? "(?m:^)" : "(?m:$)");
        r->i++;
        r->atom = at;
        return ok ? IG_OK : ig_fail(r->why, IG_NO_MEM, "out of memory");
    case '*':
    case '+':
    case '?':
    case '{':
    case '}':
    case '|':
        break;
    default:
        r->atom = at;
    }
    ok = ig_text_put(&r->out, &r->in[r->i++], 1, 0);
    /* A character of several bytes is one atom. */
    while (ok && (c & 0x80) && r->i < r->n && (r->in[r->i] & 0xc0) == 0x80)
        ok = ig_text_put(&r->out, &r->in[r->i++], 1, 0);
    return ok ? IG_OK : ig_fail(r->why, IG_NO_MEM, "out of memory");
}

static enum ig_err compile_rewritten(struct ig_regex *re, const struct ig_tok_text *p,
                                     struct ig_why *why)
{
    pcre2_compile_context *cc = pcre2_compile_context_create(NULL);
    int code = 0;
    PCRE2_SIZE at = 0;
    if (!cc) return ig_fail(why, IG_NO_MEM, "out of memory");
    pcre2_set_newline(cc, PCRE2_NEWLINE_LF);
    pcre2_set_parens_nest_limit(cc, 64);
    re->code = pcre2_compile((PCRE2_SPTR)(p->n ? p->p : ""), p->n,
                             PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &code, &at, cc);
    pcre2_compile_context_free(cc);
    if (!re->code) {
        PCRE2_UCHAR text[160] = { 0 };
        pcre2_get_error_message(code, text, sizeof text);
        return ig_fail(why, IG_BAD_FILE, "pattern: %s (at byte %zu)", (const char *)text, at);
    }
    return IG_OK;
}

enum ig_err ig_regex_compile(struct ig_regex **out, const char *pattern, size_t n,
                             struct ig_why *why)
{
    struct rewrite r = { .in = pattern, .n = n, .why = why };
    enum ig_err err = IG_OK;
    *out = NULL;
    if (n > MAX_PATTERN)
        return ig_fail(why, IG_BAD_FILE, "pattern: at most %d bytes, found %zu", MAX_PATTERN, n);
    if (!ig_utf8_valid(pattern, n)) return ig_fail(why, IG_BAD_FILE, "pattern: not UTF-8");
    while (!err && r.i < n) err = rewrite_one(&r);
    struct ig_regex *re = err ? NULL : calloc(1, sizeof *re);
    if (!err && !re) err = ig_fail(why, IG_NO_MEM, "out of memory");
    if (!err) err = compile_rewritten(re, &r.out, why);
    ig_text_free(&r.out);
    if (err) {
        free(re);
        return err;
    }
    *out = re;
    return IG_OK;
}

void ig_regex_free(struct ig_regex *re)
{
    if (!re) return;
    pcre2_code_free(re->code);
    free(re);
}

void ig_regex_done(struct ig_encoder *e)
{
    pcre2_match_data_free(e->match_data);
    pcre2_match_context_free(e->match_ctx);
    e->match_data = e->match_ctx = NULL;
}

static int regex_fail(struct ig_encoder *e, enum ig_err err, const char *what, size_t at)
{
    ig_fail(e->why, err, "pre-tokenizer pattern: %s at byte %zu of a piece of text", what, at);
    return -1;
}

static int prepare(struct ig_encoder *e)
{
    if (!e->match_data) e->match_data = pcre2_match_data_create(1, NULL);
    if (!e->match_ctx) {
        e->match_ctx = pcre2_match_context_create(NULL);
        if (e->match_ctx) pcre2_set_heap_limit(e->match_ctx, 1u << 18); /* KiB */
    }
    return e->match_data && e->match_ctx;
}

int ig_regex_next(struct ig_encoder *e, const struct ig_regex *re, const char *text, size_t n,
                  size_t from, size_t *start, size_t *end)
{
    size_t window = WINDOW;
    if (!prepare(e)) return regex_fail(e, IG_NO_MEM, "out of memory", from);
    while (from < n) {
        size_t stop = window < n - from ? from + window : n;
        while (stop < n && (text[stop] & 0xc0) == 0x80) stop++;
        const size_t seen = stop - from;
        if (e->budget < seen) return regex_fail(e, IG_BAD_FILE, "takes too long, given up", from);
        e->budget -= seen;
        pcre2_set_match_limit(e->match_ctx, (uint32_t)(4096 + seen * STEPS_PER_BYTE));
        const int rc = pcre2_match(re->code, (PCRE2_SPTR)text, stop, from,
                                   PCRE2_NO_UTF_CHECK | (stop < n ? PCRE2_PARTIAL_HARD : 0u),
                                   e->match_data, e->match_ctx);
        if (rc == PCRE2_ERROR_PARTIAL) {
            window *= 2;
            continue;
        }
        if (rc == PCRE2_ERROR_NOMATCH) {
            from = stop; /* no match starts in the window, or it would have been partial */
            continue;
        }
        if (rc < 0) return regex_fail(e, IG_BAD_FILE, "takes too long, given up", from);
        const PCRE2_SIZE *o = pcre2_get_ovector_pointer(e->match_data);
        if (o[0] < from || o[1] < o[0] || o[1] > n)
            return regex_fail(e, IG_BAD_FILE, "matches backwards", from);
        *start = o[0];
        *end = o[1];
        return 1;
    }
    return 0;
}
