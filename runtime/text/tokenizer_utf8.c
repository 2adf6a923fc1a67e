/* tokenizer_utf8.c -- UTF-8, read the way a lossy decoder reads it.
 *
 * A broken sequence ends where it can no longer become a character, and each
 * such part is one U+FFFD; that is what the reference libraries do.  Also the
 * growing arrays of the tokenizer.
 */
#include "tokenizer_int.h"
#include <stdlib.h>

size_t ig_utf8_next(const char *p, size_t n, int *ok)
{
    const unsigned char *u = (const unsigned char *)p;
    const unsigned c = u[0];
    size_t len;
    unsigned lo = 0x80, hi = 0xbf; /* what the second byte may be */

    *ok = 1;
    if (c < 0x80) return 1;
    if (c >= 0xc2 && c <= 0xdf) {
        len = 2;
    } else if (c >= 0xe0 && c <= 0xef) {
        len = 3;
        if (c == 0xe0) lo = 0xa0;
        if (c == 0xed) hi = 0x9f;
    } else if (c >= 0xf0 && c <= 0xf4) {
        len = 4;
        if (c == 0xf0) lo = 0x90;
        if (c == 0xf4) hi = 0x8f;
    } else {
        *ok = 0;
        return 1;
    }
    for (size_t i = 1; i < len; i++) {
        if (i >= n) {
            *ok = -1;
            return i;
        }
        if (u[i] < lo || u[i] > hi) {
            *ok = 0;
            return i;
        }
        lo = 0x80;
        hi = 0xbf;
    }
    return len;
}

int ig_utf8_valid(const char *p, size_t n)
{
    for (size_t i = 0; i < n;) {
        int ok;
        i += ig_utf8_next(p + i, n - i, &ok);
        if (ok != 1) return 0;
    }
    return 1;
}

int ig_utf8_decode(const char *p, size_t n, uint32_t *cp)
{
    const unsigned char *u = (const unsigned char *)p;
    if (u[0] < 0x80 || n < 2) {
        *cp = u[0];
        return 1;
    }
    if (u[0] < 0xe0 || n < 3) {
        *cp = (u[0] & 0x1fu) << 6 | (u[1] & 0x3fu);
        return 2;
    }
    if (u[0] < 0xf0 || n < 4) {
        *cp = (u[0] & 0xfu) << 12 | (u[1] & 0x3fu) << 6 | (u[2] & 0x3fu);
        return 3;
    }
    *cp = (u[0] & 7u) << 18 | (u[1] & 0x3fu) << 12 | (u[2] & 0x3fu) << 6 | (u[3] & 0x3fu);
    return 4;
}

int ig_utf8_put(char out[4], uint32_t cp)
{
    if (cp < 0x80) {
        out[0] = (char)cp;
        return 1;
    }
    if (cp < 0x800) {
        out[0] = (char)(0xc0 | cp >> 6);
        out[1] = (char)(0x80 | (cp & 0x3f));
        return 2;
    }
    if (cp < 0x10000) {
        out[0] = (char)(0xe0 | cp >> 12);
        out[1] = (char)(0x80 | (cp >> 6 & 0x3f));
        out[2] = (char)(0x80 | (cp & 0x3f));
        return 3;
    }
    out[0] = (char)(0xf0 | cp >> 18);
    out[1] = (char)(0x80 | (cp >> 12 & 0x3f));
    out[2] = (char)(0x80 | (cp >> 6 & 0x3f));
    out[3] = (char)(0x80 | (cp & 0x3f));
    return 4;
}

int ig_utf8_is_space(uint32_t cp)
{
    return (cp >= 9 && cp <= 13) || cp == ' ' || cp == 0x85 || cp == 0xa0 || cp == 0x1680 ||
           (cp >= 0x2000 && cp <= 0x200a) || cp == 0x2028 || cp == 0x2029 || cp == 0x202f ||
           cp == 0x205f || cp == 0x3000;
}

int ig_vec_grow(void *vec_v, size_t *cap, size_t need, size_t elem)
{
    size_t want = *cap < 16 ? 16 : *cap;
    void *p;
    while (want < need) {
        if (want > SIZE_MAX / 2) return 0;
        want *= 2;
    }
    if (want > (SIZE_MAX / 2) / elem) return 0;
    memcpy(&p, vec_v, sizeof p);
    p = realloc(p, want * elem);
    if (!p) return 0;
    memcpy(vec_v, &p, sizeof p);
    *cap = want;
    return 1;
}

/* Room for `n` more bytes, and for their marks once there are any. */
static int text_reserve(struct ig_tok_text *t, size_t n, int marked)
{
    size_t cap = t->cap;
    if (n > SIZE_MAX - t->n) return 0;
    if (t->n + n > t->cap && !ig_vec_grow(&t->p, &cap, t->n + n, 1)) return 0;
    if ((marked || t->mark) && (!t->mark || cap != t->cap)) {
        unsigned char *mark = realloc(t->mark, cap ? cap : 1);
        if (!mark) {
            t->cap = t->cap < cap ? t->cap : cap;
            return 0;
        }
        if (!t->mark) memset(mark, 0, t->n);
        t->mark = mark;
    }
    t->cap = cap;
    return 1;
}

int ig_text_put(struct ig_tok_text *t, const char *p, size_t n, int mark)
{
    if (n == 0) return 1;
    if (!text_reserve(t, n, mark)) return 0;
    memcpy(t->p + t->n, p, n);
    if (t->mark) memset(t->mark + t->n, mark, n);
    t->n += n;
    return 1;
}

int ig_text_put_marks(struct ig_tok_text *t, const char *p, const unsigned char *mark, size_t n)
{
    if (!mark) return ig_text_put(t, p, n, 0);
    if (n == 0) return 1;
    if (!text_reserve(t, n, 1)) return 0;
    memcpy(t->p + t->n, p, n);
    memcpy(t->mark + t->n, mark, n);
    t->n += n;
    return 1;
}

void ig_text_free(struct ig_tok_text *t)
{
    free(t->p);
    free(t->mark);
    memset(t, 0, sizeof *t);
}
