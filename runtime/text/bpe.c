/* bpe.c -- one word by byte-pair merges.
 *
 * The symbols form a linked list, possible merges a heap ordered by rank and
 * then position, so a word of n symbols costs O(n log n) whatever it holds.
 * A heap entry goes stale when a neighbour merges; it is recognised when it
 * comes up, because its pair no longer merges to the same token.
 */
#include "tokenizer_int.h"

int ig_bpe_heap_push(struct ig_encoder *e, uint32_t rank, uint32_t pos, uint32_t id)
{
    const struct ig_bpe_cand c = { .key = (uint64_t)rank << 32 | pos, .id = id };
    if (!IG_PUSH(e->heap, c)) return 0;
    size_t i = e->heap.n - 1;
    while (i > 0) {
        const size_t up = (i - 1) / 2;
        if (e->heap.v[up].key <= c.key) break;
        e->heap.v[i] = e->heap.v[up];
        i = up;
    }
    e->heap.v[i] = c;
    return 1;
}

int ig_bpe_heap_pop(struct ig_encoder *e, struct ig_bpe_cand *out)
{
    if (e->heap.n == 0) return 0;
    *out = e->heap.v[0];
    const struct ig_bpe_cand c = e->heap.v[--e->heap.n];
    const size_t n = e->heap.n;
    size_t i = 0;
    for (;;) {
        size_t down = 2 * i + 1;
        if (down >= n) break;
        if (down + 1 < n && e->heap.v[down + 1].key < e->heap.v[down].key) down++;
        if (c.key <= e->heap.v[down].key) break;
        e->heap.v[i] = e->heap.v[down];
        i = down;
    }
    if (n > 0) e->heap.v[i] = c;
    return 1;
}

static const struct ig_pair *find_pair(const struct ig_tokenizer *t, uint32_t left, uint32_t right)
{
    if (!t->pair) return NULL;
    for (uint64_t h = ig_pair_hash(left, right);; h++) {
        const struct ig_pair *p = &t->pair[h & t->pair_mask];
        if (p->id == UINT32_MAX) return NULL;
        if (p->left == left && p->right == right) return p;
    }
}

static int push_pair(struct ig_encoder *e, int32_t pos)
{
    const struct ig_bpe_sym *s = &e->sym.v[pos];
    if (s->next < 0) return 1;
    const struct ig_pair *p = find_pair(e->tok, s->id, e->sym.v[s->next].id);
    return !p || ig_bpe_heap_push(e, p->rank, (uint32_t)pos, p->id);
}

static int add_symbol(struct ig_encoder *e, uint32_t id)
{
    const int32_t at = (int32_t)e->sym.n;
    const struct ig_bpe_sym s = { .prev = at - 1, .next = -1, .id = id };
    if (!IG_PUSH(e->sym, s)) return 0;
    if (at > 0) e->sym.v[at - 1].next = at;
    return 1;
}

/* Characters, unknown ones by their bytes or as the unknown token. */
static int split_chars(struct ig_encoder *e, const char *p, size_t n)
{
    const struct ig_tokenizer *t = e->tok;
    int pending = 0; /* an unknown token that the next unknown character may join */
    uint32_t cp;

    for (size_t i = 0; i < n;) {
        const size_t len = (size_t)ig_utf8_decode(p + i, n - i, &cp);
        const int32_t id = ig_tok_find(t, p + i, len);
        int fallback = (t->head->flags & IG_TOK_BYTE_FALLBACK) != 0;
        for (size_t k = 0; k < len; k++)
            fallback = fallback && t->byte_id[(unsigned char)p[i + k]] >= 0;
        if (id >= 0) {
            if (pending && !add_symbol(e, (uint32_t)t->head->unk)) return 0;
            pending = 0;
            if (!add_symbol(e, (uint32_t)id)) return 0;
        } else if (fallback) {
            for (size_t k = 0; k < len; k++)
                if (!add_symbol(e, (uint32_t)t->byte_id[(unsigned char)p[i + k]])) return 0;
        } else if (t->head->unk >= 0) {
            if (pending && !(t->head->flags & IG_TOK_FUSE_UNK) &&
                !add_symbol(e, (uint32_t)t->head->unk))
                return 0;
            pending = 1;
        }
        i += len;
    }
    return !pending || add_symbol(e, (uint32_t)t->head->unk);
}

static int split_bytes(struct ig_encoder *e, const char *p, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const int32_t id = e->tok->byte_id[(unsigned char)p[i]];
        /* The reference drops a byte that the vocabulary lacks and has no name for. */
        const int32_t use = id >= 0 ? id : e->tok->head->unk;
        if (use >= 0 && !add_symbol(e, (uint32_t)use)) return 0;
    }
    return 1;
}

static int merge_all(struct ig_encoder *e)
{
    struct ig_bpe_cand c;
    e->heap.n = 0;
    for (size_t i = 0; i + 1 < e->sym.n; i++)
        if (!push_pair(e, (int32_t)i)) return 0;
    while (ig_bpe_heap_pop(e, &c)) {
        const int32_t pos = (int32_t)(uint32_t)c.key;
        struct ig_bpe_sym *s = &e->sym.v[pos];
        if (s->id == UINT32_MAX || s->next < 0) continue;
        struct ig_bpe_sym *right = &e->sym.v[s->next];
        const struct ig_pair *p = find_pair(e->tok, s->id, right->id);
        if (!p || p->id != c.id) continue;

        s->id = p->id;
        s->next = right->next;
        right->id = UINT32_MAX;
        if (s->next >= 0) e->sym.v[s->next].prev = pos;
        if (s->prev >= 0 && !push_pair(e, s->prev)) return 0;
        if (!push_pair(e, pos)) return 0;
    }
    return 1;
}

enum ig_err ig_bpe_word(struct ig_encoder *e, const char *p, size_t n)
{
    const uint32_t flags = e->tok->head->flags;
    if (n == 0) return IG_OK;
    if (flags & IG_TOK_IGNORE_MERGES) {
        const int32_t id = ig_tok_find(e->tok, p, n);
        if (id >= 0)
            return IG_PUSH(e->ids, id) ? IG_OK : ig_fail(e->why, IG_NO_MEM, "out of memory");
    }
    e->sym.n = 0;
    const int ok = flags & IG_TOK_BYTE_LEVEL ? split_bytes(e, p, n) : split_chars(e, p, n);
    if (!ok || !merge_all(e) || !IG_RESERVE(e->ids, e->ids.n + e->sym.n))
        return ig_fail(e->why, IG_NO_MEM, "out of memory for a word of %zu bytes", n);
    for (int32_t i = e->sym.n ? 0 : -1; i >= 0; i = e->sym.v[i].next)
        e->ids.v[e->ids.n++] = (int32_t)e->sym.v[i].id;
    return IG_OK;
}
