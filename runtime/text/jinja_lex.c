/* jinja_lex.c -- a template's source to tokens.
 *
 * Whitespace control happens here: a minus strips all of it, trim_blocks drops
 * one newline behind a block tag, lstrip_blocks the blanks before one that
 * starts its line; a plus keeps either.  One newline at the end of the source
 * goes, as the reference renderer has it.
 */
#include "jinja_parse.h"
#include "utf8.h"
#include <stdio.h>
#include <stdlib.h>

int ig_jparse_fail(struct ig_jparser *p, int line, const char *fmt, ...)
{
    char text[800];
    va_list ap;
    if (p->err) return 0;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    p->err = ig_fail(p->why, IG_BAD_FILE, "chat template: line %d: %s", line, text);
    return 0;
}

void *ig_jparse_get(struct ig_jparser *p, size_t n)
{
    void *x = ig_jarena_get(p->arena, n);
    if (!x && !p->err)
        p->err = ig_fail(p->why, IG_NO_MEM, "chat template: not enough memory to parse it");
    return x;
}

struct lexer {
    struct ig_jparser *p;
    const char *s;
    size_t n, i;
    int line;
    int line_starting; /* text so far ends a line, or there is none */
    char stack[128];   /* open brackets of an expression */
    int depth;
};

static int push(struct lexer *l, struct ig_jtok t)
{
    struct ig_jparser *p = l->p;
    if (p->n_tok == p->cap) {
        const size_t cap = p->cap ? 2 * p->cap : 256;
        struct ig_jtok *v = realloc(p->tok, cap * sizeof *v);
        if (!v) {
            p->err = ig_fail(p->why, IG_NO_MEM, "chat template: out of memory");
            return 0;
        }
        p->tok = v;
        p->cap = cap;
    }
    t.line = l->line;
    p->tok[p->n_tok++] = t;
    return 1;
}

static void advance(struct lexer *l, size_t to)
{
    for (; l->i < to; l->i++) l->line += l->s[l->i] == '\n';
}

static int starts(const struct lexer *l, size_t at, const char *word)
{
    const size_t n = strlen(word);
    return l->n - at >= n && !memcmp(l->s + at, word, n);
}

/* Bytes of white space at `at`, or that end at `at`. */
static size_t space_after(const struct lexer *l, size_t at)
{
    const size_t from = at;
    while (at < l->n && ig_jspace(ig_jchar(l->s + at, l->n - at)))
        at += ig_jchar_len(l->s + at, l->n - at);
    return at - from;
}

static size_t rstrip(const struct lexer *l, size_t from, size_t end)
{
    while (end > from) {
        size_t at = end - 1;
        while (at > from && (l->s[at] & 0xc0) == 0x80) at--;
        if (!ig_jspace(ig_jchar(l->s + at, end - at))) break;
        end = at;
    }
    return end;
}

/* The text before a tag, as the tag's sign and kind leave it. */
static int put_text(struct lexer *l, size_t from, size_t end, char sign, int is_variable)
{
    size_t keep = end;
    if (sign == '-') {
        keep = rstrip(l, from, end);
    } else if (sign != '+' && !is_variable) {
        size_t line = end;
        while (line > from && l->s[line - 1] != '\n') line--;
        if ((line > from || l->line_starting) && rstrip(l, line, end) == line) keep = line;
    }
    advance(l, from);
    if (keep == from) return 1;
    return push(l, (struct ig_jtok){ .type = IG_JT_TEXT, .p = l->s + from, .n = keep - from });
}

/* A tag's end at `at`, with what it swallows: 0 when there is none. */
static size_t tag_end(const struct lexer *l, size_t at, const char *end, int trims)
{
    size_t k = at;
    const char sign = k < l->n ? l->s[k] : 0;
    if (sign == '-' || (sign == '+' && trims)) k++;
    if (!starts(l, k, end)) return 0;
    k += 2;
    if (sign == '-') return k + space_after(l, k) - at;
    if (trims && sign != '+' && k < l->n && l->s[k] == '\n') k++;
    return k - at;
}

static int comment(struct lexer *l)
{
    for (size_t k = l->i + 2; k < l->n; k++) {
        const size_t len = tag_end(l, k, "#}", 1);
        if (!len) continue;
        advance(l, k + len);
        l->line_starting = l->s[l->i - 1] == '\n';
        return 1;
    }
    return ig_jparse_fail(l->p, l->line, "a comment without its end");
}

static int hex(struct lexer *l, size_t *i, size_t end, int digits, uint32_t *out)
{
    *out = 0;
    for (int k = 0; k < digits; k++, ++*i) {
        const char c = *i < end ? l->s[*i] : 0;
        const char *at = c ? strchr("0123456789abcdefABCDEF", c) : NULL;
        if (!at) return ig_jparse_fail(l->p, l->line, "a broken \\x or \\u escape");
        const uint32_t v = (uint32_t)(at - "0123456789abcdefABCDEF");
        *out = *out << 4 | (v < 16 ? v : v - 6);
    }
    return 1;
}

/* One escape of a string literal; *i is behind the backslash. */
static int escape(struct lexer *l, size_t *i, size_t end, char *out, size_t *n)
{
    static const char from[] = "nrtabfv\\'\"", to[] = "\n\r\t\a\b\f\v\\'\"";
    const char c = l->s[(*i)++];
    const char *at = strchr(from, c);
    uint32_t cp = 0;
    if (c && at) {
        out[(*n)++] = to[at - from];
        return 1;
    }
    if (c == '\n') return 1;
    if (c == 'x' || c == 'u' || c == 'U') {
        if (!hex(l, i, end, c == 'x' ? 2 : c == 'u' ? 4 : 8, &cp)) return 0;
        if (cp > 0x10ffff || (cp >= 0xd800 && cp < 0xe000))
            return ig_jparse_fail(l->p, l->line, "an escape that is no character");
        *n += (size_t)ig_utf8_put(out + *n, cp);
        return 1;
    }
    if (c >= '0' && c <= '7') {
        cp = (uint32_t)(c - '0');
        for (int k = 0; k < 2 && *i < end && l->s[*i] >= '0' && l->s[*i] <= '7'; k++)
            cp = cp * 8 + (uint32_t)(l->s[(*i)++] - '0');
        *n += (size_t)ig_utf8_put(out + *n, cp);
        return 1;
    }
    if (c == 'N') return ig_jparse_fail(l->p, l->line, "\\N{...} is not supported");
    out[(*n)++] = '\\';
    out[(*n)++] = c;
    return 1;
}

static int string(struct lexer *l)
{
    const char quote = l->s[l->i];
    size_t end = l->i + 1, n = 0;
    while (end < l->n && l->s[end] != quote) end += l->s[end] == '\\' ? 2 : 1;
    if (end >= l->n) return ig_jparse_fail(l->p, l->line, "a string without its end");
    char *out = ig_jparse_get(l->p, (end - l->i) + 4);
    if (!out) return 0;
    for (size_t i = l->i + 1; i < end;) {
        if (l->s[i] != '\\') {
            out[n++] = l->s[i++];
            continue;
        }
        i++;
        if (!escape(l, &i, end, out, &n)) return 0;
    }
    if (!push(l, (struct ig_jtok){ .type = IG_JT_STR, .p = out, .n = n })) return 0;
    advance(l, end + 1);
    return 1;
}

static int is_digit(char c) { return c >= '0' && c <= '9'; }
static int is_name(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || is_digit(c) ||
           (c & 0x80);
}

static size_t digits(const struct lexer *l, size_t at)
{
    while (at < l->n &&
           (is_digit(l->s[at]) || (l->s[at] == '_' && at + 1 < l->n && is_digit(l->s[at + 1]))))
        at++;
    return at;
}

static int number(struct lexer *l)
{
    size_t end = digits(l, l->i);
    enum ig_jtok_type type = IG_JT_INT;
    if (l->s[l->i] == '0' && end == l->i + 1 && end < l->n && strchr("xXoObB", l->s[end]) &&
        end + 1 < l->n && is_name(l->s[end + 1])) {
        end++;
        while (end < l->n && is_name(l->s[end])) end++;
    } else if (!(l->i > 0 && l->s[l->i - 1] == '.')) { /* x.0.1 is two subscripts */
        if (end + 1 < l->n && l->s[end] == '.' && is_digit(l->s[end + 1])) {
            end = digits(l, end + 1);
            type = IG_JT_FLOAT;
        }
        if (end < l->n && (l->s[end] | 32) == 'e') {
            size_t k = end + 1;
            if (k < l->n && (l->s[k] == '+' || l->s[k] == '-')) k++;
            if (k < l->n && is_digit(l->s[k])) {
                end = digits(l, k);
                type = IG_JT_FLOAT;
            }
        }
    }
    char *text = ig_jparse_get(l->p, end - l->i + 1);
    size_t n = 0;
    if (!text) return 0;
    for (size_t k = l->i; k < end; k++)
        if (l->s[k] != '_') text[n++] = l->s[k];
    if (!push(l, (struct ig_jtok){ .type = type, .p = text, .n = n })) return 0;
    advance(l, end);
    return 1;
}

static int name(struct lexer *l)
{
    size_t end = l->i;
    while (end < l->n && is_name(l->s[end])) end++;
    char *text = ig_jparse_get(l->p, end - l->i + 1);
    if (!text) return 0;
    memcpy(text, l->s + l->i, end - l->i);
    if (!push(l, (struct ig_jtok){ .type = IG_JT_NAME, .p = text, .n = end - l->i })) return 0;
    advance(l, end);
    return 1;
}

static int op(struct lexer *l)
{
    static const char *const two[] = { "//", "**", "==", "!=", ">=", "<=" };
    const char c = l->s[l->i];
    int code = c;
    size_t n = 1;
    for (size_t k = 0; k < sizeof two / sizeof *two; k++)
        if (starts(l, l->i, two[k])) {
            code = IG_JOP2(two[k][0], two[k][1]);
            n = 2;
        }
    if (!c || !strchr("+-/*%~[](){}><=.:|,;!", c) || code == '!')
        return ig_jparse_fail(l->p, l->line, "unexpected character '%c'",
                              c >= 32 && c < 127 ? c : '?');
    if (strchr("([{", c)) {
        if (l->depth == (int)sizeof l->stack)
            return ig_jparse_fail(l->p, l->line, "brackets nested too deep");
        l->stack[l->depth++] = c == '(' ? ')' : c == '[' ? ']' : '}';
    } else if (strchr(")]}", c)) {
        if (l->depth == 0 || l->stack[--l->depth] != c)
            return ig_jparse_fail(l->p, l->line, "unexpected '%c'", c);
    }
    if (!push(l, (struct ig_jtok){ .type = IG_JT_OP, .op = code, .p = l->s + l->i, .n = n }))
        return 0;
    advance(l, l->i + n);
    return 1;
}

/* The inside of {{ }} or {% %}, and the end. */
static int tag(struct lexer *l, int is_variable)
{
    const char *end = is_variable ? "}}" : "%}";
    const int line = l->line;
    l->depth = 0;
    while (l->i < l->n) {
        const size_t space = space_after(l, l->i);
        if (space) {
            advance(l, l->i + space);
            continue;
        }
        const size_t len = l->depth ? 0 : tag_end(l, l->i, end, !is_variable);
        if (len) {
            const enum ig_jtok_type t = is_variable ? IG_JT_VAR_END : IG_JT_BLOCK_END;
            if (!push(l, (struct ig_jtok){ .type = t, .p = end, .n = 2 })) return 0;
            advance(l, l->i + len);
            l->line_starting = l->s[l->i - 1] == '\n';
            return 1;
        }
        const char c = l->s[l->i];
        const int ok = c == '"' || c == '\'' ? string(l)
                       : is_digit(c)         ? number(l)
                       : is_name(c)          ? name(l)
                                             : op(l);
        if (!ok) return 0;
    }
    return ig_jparse_fail(l->p, line, "a tag without its %s", end);
}

/* "{%- raw -%}" at `at`: its length, else 0. */
static size_t word_tag(const struct lexer *l, size_t at, const char *word, int trims, char *sign)
{
    size_t k = at + 2;
    if (!starts(l, at, "{%")) return 0;
    *sign = k < l->n && (l->s[k] == '-' || l->s[k] == '+') ? l->s[k++] : 0;
    k += space_after(l, k);
    if (!starts(l, k, word)) return 0;
    k += strlen(word);
    k += space_after(l, k);
    const size_t end = tag_end(l, k, "%}", trims);
    if (!end) return 0;
    /* raw's own end never trims a newline */
    if (!trims && l->s[k] == '+') return 0;
    return k + end - at;
}

static int raw(struct lexer *l, size_t open)
{
    const int line = l->line;
    advance(l, l->i + open);
    const size_t from = l->i;
    for (size_t k = from; k < l->n; k++) {
        char sign;
        const size_t len = word_tag(l, k, "endraw", 1, &sign);
        if (!len) continue;
        if (!put_text(l, from, k, sign, 0)) return 0;
        advance(l, k + len);
        l->line_starting = l->s[l->i - 1] == '\n';
        return 1;
    }
    return ig_jparse_fail(l->p, line, "raw without endraw");
}

static int lex_all(struct lexer *l)
{
    while (l->i < l->n) {
        const size_t from = l->i;
        size_t at = from;
        while (at < l->n &&
               !(l->s[at] == '{' && at + 1 < l->n && strchr("{%#", l->s[at + 1]) && l->s[at + 1]))
            at++;
        if (at >= l->n) {
            const struct ig_jtok t = { .type = IG_JT_TEXT, .p = l->s + from, .n = l->n - from };
            return push(l, t);
        }
        const char kind = l->s[at + 1];
        const char sign =
            at + 2 < l->n && strchr("-+", l->s[at + 2]) && l->s[at + 2] ? l->s[at + 2] : 0;
        if (!put_text(l, from, at, sign, kind == '{')) return 0;
        advance(l, at);
        char raw_sign;
        const size_t raw_len = kind == '%' ? word_tag(l, at, "raw", 0, &raw_sign) : 0;
        if (raw_len) {
            l->line_starting = l->s[at + raw_len - 1] == '\n';
            if (!raw(l, raw_len)) return 0;
            continue;
        }
        if (kind == '#') {
            if (!comment(l)) return 0;
            continue;
        }
        const enum ig_jtok_type t = kind == '{' ? IG_JT_VAR_BEGIN : IG_JT_BLOCK_BEGIN;
        if (!push(l, (struct ig_jtok){ .type = t, .p = "tag", .n = 3 })) return 0;
        advance(l, at + (sign ? 3 : 2));
        if (!tag(l, kind == '{')) return 0;
    }
    return 1;
}

int ig_jlex(struct ig_jparser *p, const char *source, size_t n)
{
    char *s = ig_jparse_get(p, n + 1);
    size_t k = 0;
    if (!s) return 0;
    for (size_t i = 0; i < n; i++) { /* every kind of line end is \n */
        if (source[i] == '\r' && i + 1 < n && source[i + 1] == '\n') continue;
        s[k++] = source[i] == '\r' ? '\n' : source[i];
    }
    if (k > 0 && s[k - 1] == '\n') k--;
    struct lexer l = { .p = p, .s = s, .n = k, .line = 1, .line_starting = 1 };
    return lex_all(&l) && push(&l, (struct ig_jtok){ .type = IG_JT_EOF, .p = "", .n = 0 });
}
