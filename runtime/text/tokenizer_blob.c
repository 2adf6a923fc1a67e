/* tokenizer_blob.c -- what the compilers collect, laid out as one blob. */
#include "tokenizer_int.h"
#include <stdlib.h>

int ig_blob_text(struct ig_blob *b, const char *p, size_t n, struct ig_tok_span *out)
{
    if (n > UINT32_MAX - b->text.n || !ig_text_put(&b->text, p, n, 0)) return 0;
    *out = (struct ig_tok_span){ (uint32_t)(b->text.n - n), (uint32_t)n };
    return 1;
}

int ig_blob_name(struct ig_blob *b, const char *key, const char *value, size_t n)
{
    struct ig_tok_name name;
    struct ig_tok_span end;
    if (!ig_blob_text(b, key, strlen(key) + 1, &name.key) ||
        !ig_blob_text(b, value, n, &name.value) || !ig_blob_text(b, "", 1, &end))
        return 0;
    name.value.bytes++;
    return IG_PUSH(b->name, name);
}

int ig_blob_end_id(struct ig_blob *b, int64_t id)
{
    for (size_t i = 0; i < b->end.n; i++)
        if (b->end.v[i] == id) return 1;
    return IG_PUSH(b->end, (int32_t)id);
}

int ig_blob_tokens(struct ig_blob *b, size_t n)
{
    const size_t old = b->key.n;
    if (n <= old) return 1;
    if (!IG_RESERVE(b->key, n) || !IG_RESERVE(b->piece, n) || !IG_RESERVE(b->flag, n)) return 0;
    memset(b->key.v + old, 0, (n - old) * sizeof *b->key.v);
    memset(b->piece.v + old, 0, (n - old) * sizeof *b->piece.v);
    memset(b->flag.v + old, 0, n - old);
    b->key.n = b->piece.n = b->flag.n = n;
    return 1;
}

static uint64_t slot_of(const struct ig_blob *b, const char *p, size_t n, int *probes)
{
    uint64_t h = IG_TOK_HASH0;
    for (size_t i = 0; i < n; i++) h = ig_tok_hash_byte(h, (unsigned char)p[i]);
    *probes = 0;
    for (h = ig_tok_hash_end(h);; h++, ++*probes) {
        const uint32_t id = b->find[h & b->find_mask];
        if (id == UINT32_MAX || *probes > IG_TOK_MAX_PROBE) break;
        if (b->key.v[id].bytes == n && !memcmp(b->text.p + b->key.v[id].off, p, n)) break;
    }
    return h & b->find_mask;
}

enum ig_err ig_blob_index(struct ig_blob *b, struct ig_why *why)
{
    uint64_t size = 16;
    while (size < 2 * b->key.n) size *= 2;
    b->find = malloc(size * sizeof *b->find);
    if (!b->find) return ig_fail(why, IG_NO_MEM, "out of memory");
    memset(b->find, 0xff, size * sizeof *b->find);
    b->find_mask = size - 1;
    for (size_t id = 0; id < b->key.n; id++) {
        int probes;
        const uint64_t at = slot_of(b, b->text.p + b->key.v[id].off, b->key.v[id].bytes, &probes);
        if (probes > IG_TOK_MAX_PROBE)
            return ig_fail(why, IG_BAD_FILE, "tokens: their hashes collide");
        b->find[at] = (uint32_t)id;
    }
    return IG_OK;
}

int32_t ig_blob_find(const struct ig_blob *b, const char *p, size_t n)
{
    int probes;
    const uint64_t at = slot_of(b, p, n, &probes);
    return probes > IG_TOK_MAX_PROBE ? -1 : (int32_t)b->find[at];
}

int ig_blob_looks_like_control(const char *p, size_t n)
{
    return n > 2 && ((p[0] == '<' && p[n - 1] == '>') || (p[0] == '[' && p[n - 1] == ']'));
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

int ig_blob_byte_token(const char *p, size_t n)
{
    if (n != 6 || memcmp(p, "<0x", 3) || p[5] != '>') return -1;
    const int hi = hex_digit(p[3]), lo = hex_digit(p[4]);
    return hi < 0 || lo < 0 ? -1 : hi << 4 | lo;
}

/* Printable Latin-1 stands for itself, the other bytes in order for U+0100 and on. */
static int byte_of(uint32_t cp)
{
    if ((cp >= 33 && cp <= 126) || (cp >= 161 && cp <= 172) || (cp >= 174 && cp <= 255))
        return (int)cp;
    if (cp < 256 || cp >= 256 + 68) return -1;
    const int k = (int)cp - 256;
    if (k < 33) return k;
    if (k < 33 + 34) return 127 + k - 33;
    return 173;
}

long ig_blob_byte_level(const char *p, size_t n, char *out)
{
    long used = 0;
    for (size_t i = 0; i < n;) {
        uint32_t cp;
        i += (size_t)ig_utf8_decode(p + i, n - i, &cp);
        const int b = byte_of(cp);
        if (b < 0) return -1;
        out[used++] = (char)b;
    }
    return used;
}

int ig_blob_step(struct ig_blob *b, uint32_t kind, uint32_t arg, const char *a, size_t na,
                 const char *rep, size_t nb)
{
    struct ig_tok_step s = { .kind = kind, .arg = arg };
    return ig_blob_text(b, a, na, &s.a) && ig_blob_text(b, rep, nb, &s.b) && IG_PUSH(b->step, s);
}

int ig_blob_guess_ends(struct ig_blob *b)
{
    static const char *const name[] = {
        "<|eot_id|>",
        "<|im_end|>",
        "<|end|>",
        "<end_of_turn>",
        "<|endoftext|>",
        "<|eom_id|>",
        "<EOT>",
        "<|return|>",
        "<|call|>",
        "<|end_of_text|>",
        "<｜end▁of▁sentence｜>",
    };
    for (size_t i = 0; i < sizeof name / sizeof *name; i++)
        for (size_t k = 0; k < b->added.n; k++) {
            const struct ig_tok_added *a = &b->added.v[k];
            if (a->text.bytes != strlen(name[i]) ||
                memcmp(b->text.p + a->text.off, name[i], a->text.bytes))
                continue;
            if (!ig_blob_end_id(b, a->id)) return 0;
        }
    return 1;
}

static int by_text(const void *a, const void *b, void *text_v)
{
    const struct ig_tok_added *x = a, *y = b;
    const char *text = text_v;
    const int set_x = (x->flags & IG_ADD_NORMALIZED) != 0,
              set_y = (y->flags & IG_ADD_NORMALIZED) != 0;
    const size_t n = x->text.bytes < y->text.bytes ? x->text.bytes : y->text.bytes;
    if (set_x != set_y) return set_x - set_y;
    const int c = memcmp(text + x->text.off, text + y->text.off, n);
    return c ? c : (x->text.bytes > y->text.bytes) - (x->text.bytes < y->text.bytes);
}

static enum ig_err sort_added(struct ig_blob *b, struct ig_why *why)
{
    if (b->added.n == 0) return IG_OK;
    qsort_r(b->added.v, b->added.n, sizeof *b->added.v, by_text, b->text.p);
    for (size_t i = 1; i < b->added.n; i++)
        if (by_text(&b->added.v[i - 1], &b->added.v[i], b->text.p) == 0)
            return ig_fail(why, IG_BAD_FILE,
                           "added_tokens: want different texts, found \"%.*s\" twice",
                           (int)b->added.v[i].text.bytes, b->text.p + b->added.v[i].text.off);
    return IG_OK;
}

/* The loader is the judge of patterns and of everything else that it checks. */
static enum ig_err try_to_load(void **blob, size_t *bytes, struct ig_why *why)
{
    struct ig_tokenizer *t = NULL;
    const enum ig_err err = ig_tok_load(&t, *blob, *bytes, IG_TOK_MAX_VOCAB, why);
    ig_tok_free(t);
    if (err) {
        free(*blob);
        *blob = NULL;
        *bytes = 0;
    }
    return err;
}

static enum ig_err lay_out(struct ig_blob *b, void **blob, size_t *bytes, struct ig_why *why)
{
    const void *from[IG_N_SEC] = { b->text.p,   b->key.v,    b->piece.v, b->flag.v,
                                   b->score.v,  b->merge.v,  b->added.v, b->step.v,
                                   b->prefix.v, b->suffix.v, b->end.v,   b->name.v };
    const size_t n[IG_N_SEC] = { b->text.n,   b->key.n,    b->piece.n, b->flag.n,
                                 b->score.n,  b->merge.n,  b->added.n, b->step.n,
                                 b->prefix.n, b->suffix.n, b->end.n,   b->name.n };
    memcpy(b->head.magic, IG_TOK_MAGIC, 8);
    b->head.n_tok = (uint32_t)b->key.n;
    size_t at = sizeof b->head;
    for (int i = 0; i < IG_N_SEC; i++) {
        at = (at + 7) & ~(size_t)7;
        b->head.sec[i].off = at;
        b->head.sec[i].n = n[i];
        at += n[i] * ig_tok_sec_size(i);
    }
    char *out = calloc(1, at);
    if (!out) return ig_fail(why, IG_NO_MEM, "out of memory");
    memcpy(out, &b->head, sizeof b->head);
    for (int i = 0; i < IG_N_SEC; i++)
        if (n[i]) memcpy(out + b->head.sec[i].off, from[i], n[i] * ig_tok_sec_size(i));
    *blob = out;
    *bytes = at;
    return IG_OK;
}

enum ig_err ig_blob_finish(struct ig_blob *b, const char *name, void **blob, size_t *bytes,
                           struct ig_why *why)
{
    struct ig_why inner = { "" };
    enum ig_err err = sort_added(b, &inner);
    if (!err) err = lay_out(b, blob, bytes, &inner);
    if (!err) err = try_to_load(blob, bytes, &inner);
    return err ? ig_fail(why, err, "%s: %.900s", name, inner.text) : IG_OK;
}

void ig_blob_free(struct ig_blob *b)
{
    ig_text_free(&b->text);
    free(b->key.v);
    free(b->piece.v);
    free(b->flag.v);
    free(b->score.v);
    free(b->merge.v);
    free(b->added.v);
    free(b->step.v);
    free(b->prefix.v);
    free(b->suffix.v);
    free(b->end.v);
    free(b->name.v);
    free(b->find);
}
