/* bpe_unigram.c -- the unigram model: the split of a word with the best sum of
 * scores, found left to right.
 *
 * The work is the text times the longest key, which loading bounds.
 */
#include "tokenizer_int.h"

static void relax(const struct ig_tokenizer *t, struct ig_lattice *to, double score, int32_t id,
                  size_t from)
{
    if (t->head->flags & IG_TOK_FLOAT_SCORES) score = (double)(float)score;
    if (to->from != UINT32_MAX && score <= to->score) return;
    to->score = score;
    to->id = id;
    to->from = (uint32_t)from;
}

/* SentencePiece keeps the sums of long texts near 0, where a float is precise: what is known in
 * front of `at` loses the sum there. */
static void rebase(const struct ig_tokenizer *t, struct ig_lattice *best, size_t at, size_t n)
{
    const double most = 1e5, sum = best[at].score;
    if (!(t->head->flags & IG_TOK_FLOAT_SCORES) || (sum >= -most && sum <= most)) return;
    for (size_t i = at; i <= n && i - at <= t->max_key; i++)
        if (best[i].from != UINT32_MAX) best[i].score = (double)(float)(best[i].score - sum);
}

static void find_best(struct ig_encoder *e, const char *p, size_t n)
{
    const struct ig_tokenizer *t = e->tok;
    struct ig_lattice *best = e->lattice.v;
    for (size_t i = 0; i <= n; i++) best[i] = (struct ig_lattice){ .id = -1, .from = UINT32_MAX };
    best[0].from = 0;
    if (t->head->flags & IG_TOK_FLOAT_SCORES) best[0].score = e->sum;
    for (size_t at = 0; at < n;) {
        uint32_t cp;
        const size_t one = (size_t)ig_utf8_decode(p + at, n - at, &cp);
        const size_t most = n - at < t->max_key ? n - at : t->max_key;
        uint64_t h = IG_TOK_HASH0;
        int single = 0;
        rebase(t, best, at, n);
        for (size_t k = 0; k < most; k++) {
            h = ig_tok_hash_byte(h, (unsigned char)p[at + k]);
            if (at + k + 1 < n && (p[at + k + 1] & 0xc0) == 0x80) continue;
            const int32_t id = ig_tok_find_hashed(t, p + at, k + 1, h);
            if (id < 0 || t->flag[id] & IG_TOKF_BYTE) continue;
            relax(t, &best[at + k + 1], best[at].score + t->score[id], id, at);
            single |= k + 1 == one;
        }
        if (!single) relax(t, &best[at + one], best[at].score + t->unk_score, -1, at);
        at += one;
    }
    e->sum = best[n].score;
}

/* An unknown stretch by its bytes when they all are tokens, else as the unknown token. */
static int put_unknown(struct ig_encoder *e, const char *p, size_t n)
{
    const struct ig_tokenizer *t = e->tok;
    int all = 1;
    for (size_t i = 0; i < n; i++) all = all && t->byte_id[(unsigned char)p[i]] >= 0;
    if (!all) return t->head->unk < 0 || IG_PUSH(e->ids, t->head->unk);
    for (size_t i = 0; i < n; i++)
        if (!IG_PUSH(e->ids, t->byte_id[(unsigned char)p[i]])) return 0;
    return 1;
}

enum ig_err ig_bpe_unigram_word(struct ig_encoder *e, const char *p, size_t n)
{
    const int32_t unk = e->tok->head->unk;
    if (!IG_RESERVE(e->lattice, n + 1))
        return ig_fail(e->why, IG_NO_MEM, "out of memory for a word of %zu bytes", n);
    find_best(e, p, n);
    struct ig_lattice *best = e->lattice.v;
    /* Turn the path round in place: `from` of a node becomes the next node's position. */
    uint32_t at = (uint32_t)n, next = UINT32_MAX;
    int32_t id_next = 0;
    for (;;) {
        const uint32_t from = best[at].from;
        const int32_t id = best[at].id;
        best[at].from = next;
        best[at].id = id_next;
        next = at;
        id_next = id;
        if (at == 0) break;
        at = from;
    }
    for (uint32_t i = 0; i < n;) {
        uint32_t to = best[i].from;
        const int32_t id = best[i].id;
        int ok;
        if (id >= 0 && id != unk) {
            ok = IG_PUSH(e->ids, id);
        } else {
            while (to < n && (best[to].id < 0 || best[to].id == unk)) to = best[to].from;
            ok = put_unknown(e, p + i, to - i);
        }
        if (!ok) return ig_fail(e->why, IG_NO_MEM, "out of memory");
        i = to;
    }
    return IG_OK;
}
