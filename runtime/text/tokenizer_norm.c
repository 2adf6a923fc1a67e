/* tokenizer_norm.c -- the normaliser's steps over marked text. */
#include "tokenizer_int.h"

static int replace(const struct ig_tok_text *in, const char *a, size_t na, const char *b, size_t nb,
                   size_t limit, struct ig_tok_text *out)
{
    size_t done = 0;
    for (size_t i = 0; i + na <= in->n;) {
        const char *hit = memmem(in->p + i, in->n - i, a, na);
        if (!hit) break;
        const size_t at = (size_t)(hit - in->p);
        int mark = 0;
        for (size_t k = 0; k < na; k++) mark |= in->mark && in->mark[at + k];
        if (!ig_text_put_marks(out, in->p + done, in->mark ? in->mark + done : NULL, at - done) ||
            !ig_text_put(out, b, nb, mark))
            return 0;
        if (out->n > limit) return 1; /* the caller sees the length */
        done = i = at + na;
    }
    return ig_text_put_marks(out, in->p + done, in->mark ? in->mark + done : NULL, in->n - done);
}

/* Runs of two or more spaces by b. */
static int collapse(const struct ig_tok_text *in, const char *b, size_t nb, struct ig_tok_text *out)
{
    for (size_t i = 0; i < in->n;) {
        size_t end = i;
        int mark = 0;
        for (; end < in->n && in->p[end] == ' '; end++) mark |= in->mark && in->mark[end];
        if (end - i >= 2) {
            if (!ig_text_put(out, b, nb, mark)) return 0;
        } else {
            if (end == i) end++;
            if (!ig_text_put_marks(out, in->p + i, in->mark ? in->mark + i : NULL, end - i))
                return 0;
        }
        i = end;
    }
    return 1;
}

static int strip(const struct ig_tok_text *in, uint32_t sides, struct ig_tok_text *out)
{
    size_t lo = 0, hi = in->n;
    uint32_t cp;
    while ((sides & 1) && lo < hi) {
        const size_t len = (size_t)ig_utf8_decode(in->p + lo, hi - lo, &cp);
        if (!ig_utf8_is_space(cp)) break;
        lo += len;
    }
    while ((sides & 2) && hi > lo) {
        size_t at = hi - 1;
        while (at > lo && (in->p[at] & 0xc0) == 0x80) at--;
        ig_utf8_decode(in->p + at, hi - at, &cp);
        if (!ig_utf8_is_space(cp)) break;
        hi = at;
    }
    return ig_text_put_marks(out, in->p + lo, in->mark ? in->mark + lo : NULL, hi - lo);
}

static int apply(const struct ig_tok_step *s, const char *strings, const struct ig_tokenizer *t,
                 const struct ig_tok_text *in, int edges, size_t limit, struct ig_tok_text *out)
{
    const char *a = strings + s->a.off, *b = strings + s->b.off;
    switch (s->kind) {
    case IG_STEP_NFC:
        return ig_nfc(in, out);
    case IG_STEP_PREPEND:
        return in->n == 0 || (ig_text_put(out, a, s->a.bytes, 0) &&
                              ig_text_put_marks(out, in->p, in->mark, in->n));
    case IG_STEP_REPLACE:
        return replace(in, a, s->a.bytes, b, s->b.bytes, limit, out);
    case IG_STEP_COLLAPSE:
        return collapse(in, b, s->b.bytes, out);
    case IG_STEP_CHARSMAP:
        return ig_charsmap_clusters(a, s->a.bytes, in, limit, out);
    case IG_STEP_SPM:
        return ig_charsmap_spm(a, s->a.bytes, s->arg, edges, t, in, limit, out);
    default:
        return strip(in, s->arg, out);
    }
}

enum ig_err ig_tok_normalize(const struct ig_tok_step *step, size_t n_step, const char *strings,
                             const struct ig_tokenizer *t, const char *p, const unsigned char *mark,
                             size_t n, int edges, size_t limit, struct ig_tok_text *out,
                             struct ig_why *why)
{
    enum ig_err err = IG_OK;
    if (!ig_text_put_marks(out, p, mark, n)) err = ig_fail(why, IG_NO_MEM, "out of memory");
    for (size_t i = 0; i < n_step && !err; i++) {
        struct ig_tok_text next = { 0 };
        if (!apply(&step[i], strings, t, out, edges, limit, &next))
            err = ig_fail(why, IG_NO_MEM, "out of memory");
        else if (next.n > limit)
            err = ig_fail(why, IG_BAD_FILE, "normalizer: makes the text too long");
        ig_text_free(out);
        *out = next;
    }
    return err;
}
