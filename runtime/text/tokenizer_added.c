/* tokenizer_added.c -- added tokens in a text: leftmost, longest.
 *
 * The tokens are sorted by text, so the search narrows a range byte by byte
 * and needs no other structure.  A control token is read only where no byte is
 * marked: what a person wrote stays text.
 */
#include "tokenizer_int.h"

/* First index in [lo, hi) whose byte at `depth` is >= c (or > c); shorter texts sort first. */
static size_t bound(const struct ig_tokenizer *t, size_t lo, size_t hi, uint32_t depth, unsigned c,
                    int above)
{
    while (lo < hi) {
        const size_t mid = lo + (hi - lo) / 2;
        const struct ig_tok_span s = t->added[mid].text;
        const int b = depth < s.bytes ? (unsigned char)t->text[s.off + depth] : -1;
        if (b < (int)c || (above && b == (int)c))
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static size_t prev_char(const struct ig_tok_text *x, size_t at, uint32_t *cp)
{
    size_t i = at - 1;
    while (i > 0 && (x->p[i] & 0xc0) == 0x80) i--;
    ig_utf8_decode(x->p + i, x->n - i, cp);
    return i;
}

/* Whether the character of x at `at` belongs to a word. */
static int is_word(struct ig_encoder *e, const struct ig_tok_text *x, size_t at)
{
    size_t start, end;
    uint32_t cp;
    const size_t n = (size_t)ig_utf8_decode(x->p + at, x->n - at, &cp);
    return ig_regex_next(e, e->tok->word, x->p + at, n, 0, &start, &end) == 1;
}

static int stands_alone(struct ig_encoder *e, const struct ig_tok_text *x, size_t start, size_t end)
{
    uint32_t cp;
    if (start > 0 && is_word(e, x, prev_char(x, start, &cp))) return 0;
    return end == x->n || !is_word(e, x, end);
}

/* The longest token of the range that starts at `at`: its index, or -1.  `skip`: flags that rule
 * one out. */
static int64_t longest(const struct ig_tokenizer *t, int set, const struct ig_tok_text *x,
                       size_t at, uint32_t skip)
{
    const unsigned c = (unsigned char)x->p[at];
    size_t lo = t->added_first[set][c], hi = t->added_first[set][c + 1];
    int64_t best = -1;
    int marked = 0;
    for (uint32_t depth = 1; lo < hi; depth++) {
        marked |= x->mark && x->mark[at + depth - 1];
        const struct ig_tok_added *a = &t->added[lo];
        if (a->text.bytes == depth) {
            if (!(marked && t->flag[a->id] & IG_TOKF_CONTROL) && !(a->flags & skip))
                best = (int64_t)lo;
            lo++;
        }
        if (at + depth >= x->n) break;
        const unsigned next = (unsigned char)x->p[at + depth];
        lo = bound(t, lo, hi, depth, next, 0);
        hi = bound(t, lo, hi, depth, next, 1);
    }
    return best;
}

size_t ig_added_at(const struct ig_tokenizer *t, const struct ig_tok_text *x, size_t at)
{
    const int64_t k = longest(t, 1, x, at, 0);
    return k < 0 ? 0 : t->added[k].text.bytes;
}

int ig_added_next(struct ig_encoder *enc, int set, const struct ig_tok_text *x, size_t from,
                  size_t *start, size_t *end, int32_t *id)
{
    const struct ig_tokenizer *t = enc->tok;
    for (size_t i = from; i < x->n;) {
        const int64_t k = longest(t, set, x, i, IG_ADD_MODEL);
        if (k < 0) {
            i++;
            continue;
        }
        const struct ig_tok_added *a = &t->added[k];
        size_t s = i, e = i + a->text.bytes;
        uint32_t cp;
        if ((a->flags & IG_ADD_SINGLE_WORD) && !stands_alone(enc, x, s, e)) {
            i = e;
            continue;
        }
        while ((a->flags & IG_ADD_LSTRIP) && s > from) {
            const size_t p = prev_char(x, s, &cp);
            if (!ig_utf8_is_space(cp) || p < from) break;
            s = p;
        }
        while ((a->flags & IG_ADD_RSTRIP) && e < x->n) {
            const size_t len = (size_t)ig_utf8_decode(x->p + e, x->n - e, &cp);
            if (!ig_utf8_is_space(cp)) break;
            e += len;
        }
        *start = s;
        *end = e;
        *id = (int32_t)a->id;
        return 1;
    }
    return 0;
}
