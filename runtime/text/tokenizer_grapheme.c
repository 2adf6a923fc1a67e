/* tokenizer_grapheme.c -- how far a character goes as a reader sees it: Unicode's extended
 * grapheme clusters.
 *
 * Pairs of regional indicators are not told from single ones: a charsmap looks up clusters below
 * six bytes, and one indicator has four already.
 */
#include "tokenizer_grapheme_table.h"
#include "tokenizer_int.h"

static enum grapheme kind_of(uint32_t cp)
{
    size_t lo = 0, hi = sizeof grapheme_table / sizeof *grapheme_table;
    if (cp == '\r') return CR;
    if (cp == '\n') return LF;
    if (cp >= ' ' && cp < 0x7f) return NO;
    if (cp >= 0xac00 && cp < 0xac00 + 11172) return (cp - 0xac00) % 28 ? H3 : H2;
    while (lo < hi) { /* the first range that ends behind cp */
        const size_t mid = lo + (hi - lo) / 2;
        if (grapheme_table[mid].from + grapheme_table[mid].n <= cp)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < sizeof grapheme_table / sizeof *grapheme_table && grapheme_table[lo].from <= cp
               ? (enum grapheme)grapheme_table[lo].what
               : NO;
}

static int is_control(enum grapheme k) { return k == CN || k == CR || k == LF; }

/* Whether b goes on with the cluster that a ends.  conjunct: 1 behind a consonant, 2 with a linker
 * since; pict: 1 behind a pictograph, 2 with a joiner at the end. */
static int joins(enum grapheme a, enum grapheme b, int conjunct, int pict)
{
    if (is_control(a) || is_control(b)) return a == CR && b == LF;
    if (b == EX || b == LO || b == LI || b == ZW || b == SP || a == PR) return 1;
    switch (a) {
    case HL:
        if (b == HL || b == HV || b == H2 || b == H3) return 1;
        break;
    case HV:
    case H2:
        if (b == HV || b == HT) return 1;
        break;
    case HT:
    case H3:
        if (b == HT) return 1;
        break;
    default:
        break;
    }
    return (conjunct == 2 && b == CO) || (pict == 2 && b == PI);
}

size_t ig_grapheme(const char *p, size_t n)
{
    uint32_t cp;
    size_t at = (size_t)ig_utf8_decode(p, n, &cp);
    enum grapheme a = kind_of(cp);
    int conjunct = a == CO, pict = a == PI;
    while (at < n) {
        const size_t one = (size_t)ig_utf8_decode(p + at, n - at, &cp);
        const enum grapheme b = kind_of(cp);
        if (!joins(a, b, conjunct, pict)) break;
        if (b == CO)
            conjunct = 1;
        else if (conjunct && b == LI)
            conjunct = 2;
        else if (b != EX && b != ZW)
            conjunct = 0;
        pict = b == PI ? 1 : pict == 0 ? 0 : b == ZW ? 2 : b == EX || b == LO || b == LI;
        a = b;
        at += one;
    }
    return at;
}
