/* tokenizer_nfc.c -- Unicode normalisation form C.
 *
 * Marks follow the characters: a composed character is marked when any of its
 * parts was.  O(n log n) whatever the text holds.
 */
#include "tokenizer_int.h"
#include "tokenizer_nfc_table.h"
#include <stdlib.h>

enum {
    N_DECOMP = sizeof nfc_decomp / sizeof *nfc_decomp,
    N_COMP = sizeof nfc_comp / sizeof *nfc_comp,
    N_CLASS = sizeof nfc_class / sizeof *nfc_class,
    S_BASE = 0xac00,
    L_BASE = 0x1100,
    V_BASE = 0x1161,
    T_BASE = 0x11a7,
    N_L = 19,
    N_V = 21,
    N_T = 28
};

struct nfc_char {
    uint32_t cp;
    uint8_t ccc, mark;
    uint32_t at; /* keeps equal classes in order */
};

struct nfc_chars {
    struct nfc_char *v;
    size_t n, cap;
};

static uint8_t combining_class(uint32_t cp)
{
    size_t lo = 0, hi = N_CLASS;
    while (lo < hi) {
        const size_t mid = (lo + hi) / 2;
        if (nfc_class[mid][1] < cp)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < N_CLASS && nfc_class[lo][0] <= cp ? (uint8_t)nfc_class[lo][2] : 0;
}

static int put_char(struct nfc_chars *c, uint32_t cp, unsigned char mark)
{
    const struct nfc_char x = { cp, combining_class(cp), mark, (uint32_t)c->n };
    return IG_PUSH(*c, x);
}

/* Canonical decompositions nest four deep at most. */
static int decompose(struct nfc_chars *c, uint32_t cp, unsigned char mark)
{
    if (cp - (uint32_t)S_BASE < (uint32_t)(N_L * N_V * N_T)) {
        const uint32_t s = cp - S_BASE, t = s % N_T;
        return put_char(c, L_BASE + s / (N_V * N_T), mark) &&
               put_char(c, V_BASE + s % (N_V * N_T) / N_T, mark) &&
               (t == 0 || put_char(c, T_BASE + t, mark));
    }
    size_t lo = 0, hi = cp < 0xc0 ? 0 : N_DECOMP;
    while (lo < hi) {
        const size_t mid = (lo + hi) / 2;
        if (nfc_decomp[mid][0] < cp)
            lo = mid + 1;
        else
            hi = mid;
    }
    if (cp < 0xc0 || lo == N_DECOMP || nfc_decomp[lo][0] != cp) return put_char(c, cp, mark);
    return decompose(c, nfc_decomp[lo][1], mark) &&
           (nfc_decomp[lo][2] == 0 || decompose(c, nfc_decomp[lo][2], mark));
}

static uint32_t compose(uint32_t a, uint32_t b)
{
    if (a - L_BASE < N_L && b - V_BASE < N_V)
        return S_BASE + ((a - L_BASE) * N_V + (b - V_BASE)) * N_T;
    if (a - S_BASE < N_L * N_V * N_T && (a - S_BASE) % N_T == 0 && b > T_BASE && b < T_BASE + N_T)
        return a + (b - T_BASE);
    size_t lo = 0, hi = N_COMP;
    while (lo < hi) {
        const size_t mid = (lo + hi) / 2;
        const uint32_t *d = nfc_decomp[nfc_comp[mid]];
        if (d[1] < a || (d[1] == a && d[2] < b))
            lo = mid + 1;
        else
            hi = mid;
    }
    if (lo == N_COMP) return 0;
    const uint32_t *d = nfc_decomp[nfc_comp[lo]];
    return d[1] == a && d[2] == b ? d[0] : 0;
}

static int by_class(const void *a, const void *b)
{
    const struct nfc_char *x = a, *y = b;
    if (x->ccc != y->ccc) return x->ccc < y->ccc ? -1 : 1;
    return x->at < y->at ? -1 : x->at > y->at;
}

static void sort_marks(struct nfc_chars *c)
{
    for (size_t i = 0; i < c->n;) {
        size_t end = i;
        while (end < c->n && c->v[end].ccc) end++;
        if (end - i > 1) qsort(c->v + i, end - i, sizeof *c->v, by_class);
        i = end + 1;
    }
}

static void compose_all(struct nfc_chars *c)
{
    size_t out = 0, starter = 0;
    int have = 0;     /* a starter to compose with */
    int blocked = -1; /* class of the last character kept since it; -1: none */
    for (size_t i = 0; i < c->n; i++) {
        const struct nfc_char x = c->v[i];
        const uint32_t cp = have && blocked < x.ccc ? compose(c->v[starter].cp, x.cp) : 0;
        if (cp) {
            c->v[starter].cp = cp;
            c->v[starter].mark |= x.mark;
            continue;
        }
        if (x.ccc == 0) {
            starter = out;
            have = 1;
            blocked = -1;
        } else {
            blocked = x.ccc;
        }
        c->v[out++] = x;
    }
    c->n = out;
}

int ig_nfc(const struct ig_tok_text *in, struct ig_tok_text *out)
{
    struct nfc_chars c = { 0 };
    uint32_t cp, most = 0;
    for (size_t i = 0; i < in->n;) {
        i += (size_t)ig_utf8_decode(in->p + i, in->n - i, &cp);
        if (cp > most) most = cp;
    }
    /* Nothing below U+0300 takes part in composition with its like. */
    if (most < 0x300) return ig_text_put_marks(out, in->p, in->mark, in->n);

    int ok = 1;
    for (size_t i = 0; i < in->n && ok;) {
        const size_t len = (size_t)ig_utf8_decode(in->p + i, in->n - i, &cp);
        ok = decompose(&c, cp, in->mark ? in->mark[i] : 0);
        i += len;
    }
    if (ok) {
        sort_marks(&c);
        compose_all(&c);
    }
    for (size_t i = 0; i < c.n && ok; i++) {
        char utf8[4];
        ok = ig_text_put(out, utf8, (size_t)ig_utf8_put(utf8, c.v[i].cp), c.v[i].mark);
    }
    free(c.v);
    return ok;
}
