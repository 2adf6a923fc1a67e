/* tokenizer_charsmap.c -- SentencePiece's precompiled rules: what a text starts with, and what
 * takes its place.
 *
 * A map is the bytes of its trie (uint32, little-endian), the trie, and the replacements, each
 * ended by NUL.  The trie is a double array: a unit's children lie at its place, XOR its offset,
 * XOR their byte; a leaf's replacement lies where the byte would be 0.  ig_charsmap_check() holds
 * replacements to whole characters; places are checked where they are looked at.
 */
#include "tokenizer_int.h"

struct map {
    const char *unit, *to;
    size_t n_unit, to_bytes;
};

static uint32_t u32_at(const char *p, size_t i)
{
    uint32_t v;
    memcpy(&v, p + 4 * i, sizeof v);
    return v;
}

static struct map map_of(const char *p, size_t n)
{
    struct map m = { 0 };
    if (n == 0) return m;
    m.n_unit = u32_at(p, 0) / 4;
    m.unit = p + 4;
    m.to = p + 4 + 4 * m.n_unit;
    m.to_bytes = n - 4 - 4 * m.n_unit;
    return m;
}

static int is_leaf(uint32_t unit) { return (unit >> 31) != 0; }

enum ig_err ig_charsmap_check(const char *p, size_t n, struct ig_why *why)
{
    const uint32_t trie = n < 4 ? 0 : u32_at(p, 0);
    if (trie == 0 || trie % 4 || n - 4 < trie)
        return ig_fail(why, IG_BAD_FILE,
                       "precompiled_charsmap: want a trie of 4-byte units in its %zu bytes, found "
                       "one of %u bytes",
                       n, trie);
    const struct map m = map_of(p, n);
    if (m.to_bytes == 0 || m.to[m.to_bytes - 1] != 0 || !ig_utf8_valid(m.to, m.to_bytes))
        return ig_fail(why, IG_BAD_FILE,
                       "precompiled_charsmap: want replacements in UTF-8 that end with NUL");
    for (size_t i = 0, from = 0; i < m.to_bytes; i++) {
        if (m.to[i] == 0) from = i + 1;
        if (i + 1 - from > IG_TOK_MAX_KEY) /* bounds the work for a character */
            return ig_fail(why, IG_BAD_FILE,
                           "precompiled_charsmap: want replacements of at most %d bytes, found "
                           "more",
                           IG_TOK_MAX_KEY);
    }
    for (size_t i = 0; i < m.n_unit; i++) {
        const uint32_t u = u32_at(m.unit, i), to = u & 0x7fffffff;
        if (is_leaf(u) && (to >= m.to_bytes || (m.to[to] & 0xc0) == 0x80))
            return ig_fail(
                why, IG_BAD_FILE,
                "precompiled_charsmap: want in unit %zu the start of a replacement below "
                "%zu, found %u",
                i, m.to_bytes, to);
    }
    return IG_OK;
}

static uint32_t offset_of(uint32_t unit) { return (unit >> 10) << ((unit & 0x200) >> 6); }

/* How many bytes of p[0, n) a rule replaces, 0: none does; *to: by what.  The longest rule, or
 * the shortest one. */
static size_t match(const struct map *m, const char *p, size_t n, int shortest, const char **to)
{
    size_t best = 0;
    if (m->n_unit == 0) return 0;
    if (n > IG_TOK_MAX_KEY) n = IG_TOK_MAX_KEY;
    uint32_t at = offset_of(u32_at(m->unit, 0));
    for (size_t i = 0; i < n && p[i] != 0 && !(shortest && best); i++) {
        const unsigned char c = (unsigned char)p[i];
        at ^= c;
        if (at >= m->n_unit) break;
        const uint32_t u = u32_at(m->unit, at);
        if ((u & 0x800000ff) != c) break;
        at ^= offset_of(u);
        if (!(u & 0x100)) continue;
        if (at >= m->n_unit || !is_leaf(u32_at(m->unit, at))) break;
        best = i + 1;
        *to = m->to + (u32_at(m->unit, at) & 0x7fffffff);
    }
    return best;
}

static int mark_of(const struct ig_tok_text *in, size_t from, size_t n)
{
    int mark = 0;
    for (size_t i = 0; in->mark && i < n; i++) mark |= in->mark[from + i];
    return mark;
}

/* One character, or what a rule makes of it. */
static int put_char(const struct map *m, const struct ig_tok_text *in, size_t at, size_t n,
                    struct ig_tok_text *out)
{
    const char *to = NULL;
    if (match(m, in->p + at, n, 1, &to))
        return ig_text_put(out, to, strlen(to), mark_of(in, at, n));
    return ig_text_put_marks(out, in->p + at, in->mark ? in->mark + at : NULL, n);
}

int ig_charsmap_clusters(const char *map, size_t map_bytes, const struct ig_tok_text *in,
                         size_t limit, struct ig_tok_text *out)
{
    enum { SHORT = 6 }; /* the reference looks longer clusters up by their characters only */
    const struct map m = map_of(map, map_bytes);
    uint32_t cp;
    int ok = 1;
    for (size_t i = 0; i < in->n && ok && out->n <= limit;) {
        const char *to = NULL;
        const size_t n = ig_grapheme(in->p + i, in->n - i), end = i + n;
        if (n < SHORT && match(&m, in->p + i, n, 1, &to)) {
            ok = ig_text_put(out, to, strlen(to), mark_of(in, i, n));
            i = end;
        }
        while (i < end && ok) {
            const size_t one = (size_t)ig_utf8_decode(in->p + i, end - i, &cp);
            ok = put_char(&m, in, i, one, out);
            i += one;
        }
    }
    return ok;
}

/* What the text from `at` starts with, as the rules have it: bytes eaten, and their replacement.
 * A user's own token is spared. */
static size_t prefix(const struct map *m, const struct ig_tokenizer *t,
                     const struct ig_tok_text *in, size_t at, const char **to, size_t *to_n)
{
    uint32_t cp;
    size_t n = t ? ig_added_at(t, in, at) : 0;
    if (n > 0) {
        *to = in->p + at;
        return *to_n = n;
    }
    n = match(m, in->p + at, in->n - at, 0, to);
    if (n > 0) {
        *to_n = strlen(*to);
        return n;
    }
    *to = in->p + at;
    return *to_n = (size_t)ig_utf8_decode(in->p + at, in->n - at, &cp);
}

static const char escaped[] = "\xe2\x96\x81";
enum { ESCAPED = sizeof escaped - 1 };

static int put_escaped(const char *p, size_t n, int mark, struct ig_tok_text *out)
{
    int ok = 1;
    for (size_t i = 0; i < n && ok; i++)
        ok = p[i] == ' ' ? ig_text_put(out, escaped, ESCAPED, mark)
                         : ig_text_put(out, p + i, 1, mark);
    return ok;
}

int ig_charsmap_spm(const char *map, size_t map_bytes, uint32_t how, int edges,
                    const struct ig_tokenizer *t, const struct ig_tok_text *in, size_t limit,
                    struct ig_tok_text *out)
{
    const struct map m = map_of(map, map_bytes);
    const int trim = (how & IG_SPM_TRIM) != 0, starts = (edges & IG_EDGE_START) != 0;
    const char *to = NULL;
    size_t i = 0, to_n = 0, n;

    while (trim && starts && i < in->n) {
        n = prefix(&m, t, in, i, &to, &to_n);
        if (to_n != 1 || to[0] != ' ') break;
        i += n;
    }
    if (i == in->n) return 1;
    int ok = !(how & IG_SPM_PREFIX) || !starts || ig_text_put(out, escaped, ESCAPED, 0);
    for (int space = trim && starts; i < in->n && ok && out->n <= limit; i += n) {
        n = prefix(&m, t, in, i, &to, &to_n);
        for (; space && to_n > 0 && to[0] == ' '; to_n--) to++;
        if (to_n > 0) space = trim && to[to_n - 1] == ' ';
        ok = put_escaped(to, to_n, mark_of(in, i, n), out);
    }
    while (trim && (edges & IG_EDGE_END) && out->n >= ESCAPED &&
           !memcmp(out->p + out->n - ESCAPED, escaped, ESCAPED))
        out->n -= ESCAPED;
    return ok;
}

static int digit(char c)
{
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    if (c >= '0' && c <= '9') return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

int ig_base64(const char *p, size_t n, struct ig_tok_text *out)
{
    if (n % 4) return 0;
    for (size_t i = 0; i < n; i += 4) {
        const int last = i + 4 == n, pad = !last || p[i + 3] != '=' ? 0 : p[i + 2] == '=' ? 2 : 1;
        uint32_t v = 0;
        for (int k = 0; k < 4; k++) {
            const int d = k >= 4 - pad ? 0 : digit(p[i + (size_t)k]);
            if (d < 0) return 0;
            v = v << 6 | (uint32_t)d;
        }
        const char three[3] = { (char)(v >> 16), (char)(v >> 8), (char)v };
        if (!ig_text_put(out, three, (size_t)(3 - pad), 0)) return 0;
    }
    return 1;
}
