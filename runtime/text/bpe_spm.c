/* bpe_spm.c -- SentencePiece's BPE: any two neighbours merge whose text is a
 * token, the best score first, then the leftmost.
 *
 * Vocabularies of this kind carry scores and no list of merges.  Symbols are
 * adjacent in the text, so a pair's text is a slice of it.
 */
#include "tokenizer_int.h"

static int push_pair(struct ig_encoder *e, const char *p, int32_t pos)
{
    const struct ig_tokenizer *t = e->tok;
    if (pos < 0 || e->sym.v[pos].next < 0) return 1;
    const struct ig_bpe_sym *s = &e->sym.v[pos], *right = &e->sym.v[s->next];
    const size_t n = (size_t)s->bytes + right->bytes;
    if (n > t->max_key) return 1;
    const int32_t id = ig_tok_find(t, p + s->off, n);
    return id < 0 || ig_bpe_heap_push(e, t->rank[id], (uint32_t)pos, (uint32_t)id);
}

static int push_id(struct ig_encoder *e, int32_t id) { return id < 0 || IG_PUSH(e->ids, id); }

/* A symbol that is no token: its bytes, else the unknown token. */
static int push_unknown(struct ig_encoder *e, const char *p, size_t n, int *was_unknown)
{
    const struct ig_tokenizer *t = e->tok;
    int all = 1;
    for (size_t i = 0; i < n; i++) all = all && t->byte_id[(unsigned char)p[i]] >= 0;
    if (!all) {
        const int fuse = *was_unknown && (t->head->flags & IG_TOK_FUSE_UNK);
        *was_unknown = 1;
        return fuse || push_id(e, t->head->unk);
    }
    *was_unknown = 0;
    for (size_t i = 0; i < n; i++)
        if (!push_id(e, t->byte_id[(unsigned char)p[i]])) return 0;
    return 1;
}

static int merge_all(struct ig_encoder *e, const char *p)
{
    struct ig_bpe_cand c;
    e->heap.n = 0;
    for (size_t i = 0; i + 1 < e->sym.n; i++)
        if (!push_pair(e, p, (int32_t)i)) return 0;
    while (ig_bpe_heap_pop(e, &c)) {
        const int32_t pos = (int32_t)(uint32_t)c.key;
        struct ig_bpe_sym *s = &e->sym.v[pos];
        if (s->bytes == 0 || s->next < 0) continue;
        struct ig_bpe_sym *right = &e->sym.v[s->next];
        /* Stale unless the pair still spells the token. */
        if (s->bytes + right->bytes != e->tok->key[c.id].bytes) continue;
        s->bytes += right->bytes;
        s->next = right->next;
        right->bytes = 0;
        if (s->next >= 0) e->sym.v[s->next].prev = pos;
        if (!push_pair(e, p, s->prev) || !push_pair(e, p, pos)) return 0;
    }
    return 1;
}

enum ig_err ig_bpe_spm_word(struct ig_encoder *e, const char *p, size_t n)
{
    uint32_t cp;
    int ok = 1, unknown = 0;
    e->sym.n = 0;
    for (size_t i = 0; i < n && ok;) {
        const size_t len = (size_t)ig_utf8_decode(p + i, n - i, &cp);
        const int32_t at = (int32_t)e->sym.n;
        const struct ig_bpe_sym s = { .prev = at - 1,
                                      .next = i + len < n ? at + 1 : -1,
                                      .off = (uint32_t)i,
                                      .bytes = (uint32_t)len };
        ok = IG_PUSH(e->sym, s);
        i += len;
    }
    ok = ok && merge_all(e, p);
    for (int32_t i = e->sym.n ? 0 : -1; i >= 0 && ok; i = e->sym.v[i].next) {
        const struct ig_bpe_sym *s = &e->sym.v[i];
        const int32_t id = ig_tok_find(e->tok, p + s->off, s->bytes);
        if (id >= 0) unknown = 0;
        ok = id >= 0 ? push_id(e, id) : push_unknown(e, p + s->off, s->bytes, &unknown);
    }
    return ok ? IG_OK : ig_fail(e->why, IG_NO_MEM, "out of memory for a word of %zu bytes", n);
}
