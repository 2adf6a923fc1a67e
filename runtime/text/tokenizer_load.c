/* tokenizer_load.c -- a blob, checked in full, to a tokenizer.
 *
 * Every offset, id and enumerator is checked here, so that encoding and
 * decoding need no checks.  The blob comes from a file and may lie.
 */
#include "tokenizer_int.h"
#include <math.h>
#include <stdlib.h>

size_t ig_tok_sec_size(int sec)
{
    static const size_t size[IG_N_SEC] = {
        [IG_SEC_TEXT] = 1,
        [IG_SEC_KEY] = sizeof(struct ig_tok_span),
        [IG_SEC_PIECE] = sizeof(struct ig_tok_span),
        [IG_SEC_FLAG] = 1,
        [IG_SEC_SCORE] = sizeof(double),
        [IG_SEC_MERGE] = 3 * sizeof(uint32_t),
        [IG_SEC_ADDED] = sizeof(struct ig_tok_added),
        [IG_SEC_STEP] = sizeof(struct ig_tok_step),
        [IG_SEC_PREFIX] = sizeof(int32_t),
        [IG_SEC_SUFFIX] = sizeof(int32_t),
        [IG_SEC_END] = sizeof(int32_t),
        [IG_SEC_NAME] = sizeof(struct ig_tok_name),
    };
    return size[sec];
}

static const char *const sec_name[IG_N_SEC] = { "text",   "key",    "piece", "flag",
                                                "score",  "merge",  "added", "step",
                                                "prefix", "suffix", "end",   "name" };

static enum ig_err bad(struct ig_why *why, const char *what)
{
    return ig_fail(why, IG_BAD_FILE, "tokenizer: %s", what);
}

static enum ig_err load_sections(struct ig_tokenizer *t, const char *blob, size_t bytes,
                                 struct ig_why *why)
{
    const struct ig_tok_head *h = t->head;
    const void *at[IG_N_SEC];
    for (int i = 0; i < IG_N_SEC; i++) {
        const uint64_t off = h->sec[i].off, n = h->sec[i].n;
        uint64_t size, end;
        if (off % 8 || !ig_mul_ok(n, ig_tok_sec_size(i), &size) || !ig_add_ok(off, size, &end) ||
            end > bytes || n > UINT32_MAX)
            return ig_fail(why, IG_BAD_FILE, "tokenizer: section %s lies outside its %zu bytes",
                           sec_name[i], bytes);
        at[i] = blob + off;
    }
    if (h->sec[IG_SEC_KEY].n != h->n_tok || h->sec[IG_SEC_PIECE].n != h->n_tok ||
        h->sec[IG_SEC_FLAG].n != h->n_tok ||
        (h->sec[IG_SEC_SCORE].n != 0 && h->sec[IG_SEC_SCORE].n != h->n_tok))
        return bad(why, "sections disagree on the number of tokens");
    t->text = at[IG_SEC_TEXT];
    t->key = at[IG_SEC_KEY];
    t->piece = at[IG_SEC_PIECE];
    t->flag = at[IG_SEC_FLAG];
    t->score = h->sec[IG_SEC_SCORE].n ? at[IG_SEC_SCORE] : NULL;
    t->merge = at[IG_SEC_MERGE];
    t->added = at[IG_SEC_ADDED];
    t->step = at[IG_SEC_STEP];
    t->prefix = at[IG_SEC_PREFIX];
    t->suffix = at[IG_SEC_SUFFIX];
    t->end = at[IG_SEC_END];
    t->name = at[IG_SEC_NAME];
    t->n_merge = h->sec[IG_SEC_MERGE].n;
    t->n_added = h->sec[IG_SEC_ADDED].n;
    t->n_step = h->sec[IG_SEC_STEP].n;
    t->n_prefix = h->sec[IG_SEC_PREFIX].n;
    t->n_suffix = h->sec[IG_SEC_SUFFIX].n;
    t->n_end = h->sec[IG_SEC_END].n;
    t->n_name = h->sec[IG_SEC_NAME].n;
    return IG_OK;
}

static int span_ok(const struct ig_tokenizer *t, struct ig_tok_span s)
{
    return (uint64_t)s.off + s.bytes <= t->head->sec[IG_SEC_TEXT].n;
}

static int ids_ok(const struct ig_tokenizer *t, const int32_t *v, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (v[i] < 0 || (uint32_t)v[i] >= t->head->n_tok) return 0;
    return 1;
}

static enum ig_err check_tokens(struct ig_tokenizer *t, struct ig_why *why)
{
    for (uint32_t i = 0; i < t->head->n_tok; i++) {
        if (!span_ok(t, t->key[i]) || !span_ok(t, t->piece[i]))
            return bad(why, "a token's text lies outside");
        if (t->score && !isfinite(t->score[i])) return bad(why, "a score is not finite");
        if (!(t->flag[i] & IG_TOKF_LOOKUP)) continue;
        if (t->key[i].bytes == 0 || t->key[i].bytes > IG_TOK_MAX_KEY)
            return bad(why, "a token's key is empty or too long");
        if (t->key[i].bytes > t->max_key) t->max_key = t->key[i].bytes;
    }
    for (size_t i = 0; i < t->n_merge; i++)
        for (int k = 0; k < 3; k++)
            if (t->merge[i][k] >= t->head->n_tok) return bad(why, "a merge names a missing token");
    if (!ids_ok(t, t->prefix, t->n_prefix) || !ids_ok(t, t->suffix, t->n_suffix) ||
        !ids_ok(t, t->end, t->n_end) || t->head->unk < -1 || t->head->bos < -1 ||
        t->head->unk >= (int64_t)t->head->n_tok || t->head->bos >= (int64_t)t->head->n_tok)
        return bad(why, "a special id lies past the vocabulary");
    for (size_t i = 0; i < t->n_name; i++) {
        const struct ig_tok_span s[2] = { t->name[i].key, t->name[i].value };
        for (int k = 0; k < 2; k++)
            if (!span_ok(t, s[k]) || s[k].bytes == 0 ||
                memchr(t->text + s[k].off, 0, s[k].bytes) != t->text + s[k].off + s[k].bytes - 1)
                return bad(why, "a name does not end where it should");
    }
    return IG_OK;
}

static int compare(const struct ig_tokenizer *t, struct ig_tok_span a, struct ig_tok_span b)
{
    const size_t n = a.bytes < b.bytes ? a.bytes : b.bytes;
    const int c = memcmp(t->text + a.off, t->text + b.off, n);
    return c ? c : (a.bytes > b.bytes) - (a.bytes < b.bytes);
}

static enum ig_err check_added(struct ig_tokenizer *t, struct ig_why *why)
{
    for (size_t i = 0; i < t->n_added; i++) {
        const struct ig_tok_added *a = &t->added[i];
        const int set = (a->flags & IG_ADD_NORMALIZED) != 0;
        if (!span_ok(t, a->text) || a->text.bytes == 0 || a->text.bytes > IG_TOK_MAX_ADDED ||
            !ig_utf8_valid(t->text + a->text.off, a->text.bytes) || a->id >= t->head->n_tok)
            return bad(why, "an added token has no text or no id");
        if (!set) t->n_raw++;
        if ((a->flags & IG_ADD_SINGLE_WORD) && !t->word) {
            const enum ig_err err = ig_regex_compile(&t->word, "\\w", 2, why);
            if (err) return err;
        }
        if (i > 0) {
            const int before = (t->added[i - 1].flags & IG_ADD_NORMALIZED) != 0;
            if (before > set || (before == set && compare(t, t->added[i - 1].text, a->text) >= 0))
                return bad(why, "added tokens are not in order");
        }
    }
    for (int set = 0; set < 2; set++) {
        size_t i = set ? t->n_raw : 0;
        const size_t end = set ? t->n_added : t->n_raw;
        for (unsigned c = 0; c <= 256; c++) {
            while (i < end && (unsigned char)t->text[t->added[i].text.off] < c) i++;
            t->added_first[set][c] = (uint32_t)i;
        }
    }
    return IG_OK;
}

static enum ig_err check_steps(struct ig_tokenizer *t, struct ig_why *why)
{
    if (t->n_step > IG_TOK_MAX_STEP) return bad(why, "too many steps");
    for (size_t i = 0; i < t->n_step; i++) {
        const struct ig_tok_step *s = &t->step[i];
        if (s->kind >= IG_N_STEP || !span_ok(t, s->a) || !span_ok(t, s->b))
            return bad(why, "an unknown step");
        struct ig_why rules;
        const int has_map =
            s->kind == IG_STEP_CHARSMAP || (s->kind == IG_STEP_SPM && s->a.bytes > 0);
        const enum ig_err map =
            has_map ? ig_charsmap_check(t->text + s->a.off, s->a.bytes, &rules) : IG_OK;
        if (map) return ig_fail(why, map, "tokenizer: %.300s", rules.text);
        if ((!has_map && !ig_utf8_valid(t->text + s->a.off, s->a.bytes)) ||
            !ig_utf8_valid(t->text + s->b.off, s->b.bytes))
            return bad(why, "a step's text is not UTF-8");
        if (s->kind != IG_STEP_SPLIT && ((s->a.bytes > 64 && !has_map) || s->b.bytes > 64))
            return bad(why, "a step's text is too long");
        if ((s->kind == IG_STEP_REPLACE || s->kind == IG_STEP_METASPACE) && s->a.bytes == 0)
            return bad(why, "a step replaces nothing");
        if (s->kind < IG_STEP_SPLIT) {
            if (t->n_norm != i) return bad(why, "a normaliser behind a pre-tokenizer");
            t->n_norm++;
        }
        if (s->kind == IG_STEP_SPLIT) {
            if ((s->arg & 15) >= IG_N_SPLIT) return bad(why, "an unknown split behaviour");
            const enum ig_err err =
                ig_regex_compile(&t->regex[i], t->text + s->a.off, s->a.bytes, why);
            if (err) return err;
        }
    }
    return IG_OK;
}

static int32_t find(const struct ig_tokenizer *t, const char *p, size_t n, uint64_t h,
                    uint64_t *slot, int *probes)
{
    *probes = 0;
    for (uint64_t i = ig_tok_hash_end(h);; i++, ++*probes) {
        const uint32_t id = t->hash[i & t->hash_mask];
        *slot = i & t->hash_mask;
        if (id == UINT32_MAX || *probes > IG_TOK_MAX_PROBE) return -1;
        if (t->key[id].bytes == n && !memcmp(t->text + t->key[id].off, p, n)) return (int32_t)id;
    }
}

int32_t ig_tok_find_hashed(const struct ig_tokenizer *t, const char *p, size_t n, uint64_t h)
{
    uint64_t slot;
    int probes;
    return find(t, p, n, h, &slot, &probes);
}

int32_t ig_tok_find(const struct ig_tokenizer *t, const char *p, size_t n)
{
    uint64_t h = IG_TOK_HASH0;
    if (n > t->max_key) return -1;
    for (size_t i = 0; i < n; i++) h = ig_tok_hash_byte(h, (unsigned char)p[i]);
    return ig_tok_find_hashed(t, p, n, h);
}

static uint64_t table_size(uint64_t n)
{
    uint64_t size = 16;
    while (size < 2 * n) size *= 2;
    return size;
}

static enum ig_err build_hash(struct ig_tokenizer *t, struct ig_why *why)
{
    const uint64_t size = table_size(t->head->n_tok);
    t->hash = malloc(size * sizeof *t->hash);
    if (!t->hash) return ig_fail(why, IG_NO_MEM, "out of memory");
    memset(t->hash, 0xff, size * sizeof *t->hash);
    t->hash_mask = size - 1;
    for (uint32_t id = 0; id < t->head->n_tok; id++) {
        if (!(t->flag[id] & IG_TOKF_LOOKUP)) continue;
        const char *p = t->text + t->key[id].off;
        uint64_t h = IG_TOK_HASH0, slot;
        int probes;
        for (size_t i = 0; i < t->key[id].bytes; i++) h = ig_tok_hash_byte(h, (unsigned char)p[i]);
        find(t, p, t->key[id].bytes, h, &slot, &probes);
        if (probes > IG_TOK_MAX_PROBE) return bad(why, "the vocabulary's hashes collide");
        t->hash[slot] = id; /* the last of equal keys wins, as in the reference */
    }
    return IG_OK;
}

static enum ig_err build_pairs(struct ig_tokenizer *t, struct ig_why *why)
{
    const uint64_t size = table_size(t->n_merge);
    if (t->n_merge == 0) return IG_OK;
    t->pair = malloc(size * sizeof *t->pair);
    if (!t->pair) return ig_fail(why, IG_NO_MEM, "out of memory");
    memset(t->pair, 0xff, size * sizeof *t->pair);
    t->pair_mask = size - 1;
    for (size_t i = 0; i < t->n_merge; i++) {
        const uint32_t *m = t->merge[i];
        if (t->flag[m[2]] & IG_TOKF_CONTROL) continue; /* text never becomes one */
        uint64_t h = ig_pair_hash(m[0], m[1]);
        struct ig_pair *p = NULL;
        int probes = 0;
        for (;; h++) {
            p = &t->pair[h & t->pair_mask];
            if (p->id == UINT32_MAX || (p->left == m[0] && p->right == m[1])) break;
            if (++probes > IG_TOK_MAX_PROBE) return bad(why, "the merges' hashes collide");
        }
        *p = (struct ig_pair){ m[0], m[1], (uint32_t)i, m[2] };
    }
    return IG_OK;
}

/* The token of each byte: the byte itself, or <0x0A>. */
static void build_bytes(struct ig_tokenizer *t)
{
    for (int b = 0; b < 256; b++) {
        char text[8] = { (char)b };
        size_t n = 1;
        t->byte_id[b] = -1;
        if (!(t->head->flags & IG_TOK_BYTE_LEVEL)) {
            static const char hex[] = "0123456789ABCDEF";
            memcpy(text, "<0x00>", 6);
            text[3] = hex[b >> 4];
            text[4] = hex[b & 15];
            n = 6;
            if (!(t->head->flags & IG_TOK_BYTE_FALLBACK)) continue;
        }
        t->byte_id[b] = ig_tok_find(t, text, n);
    }
}

static int by_score(const void *a, const void *b, void *score_v)
{
    const double *score = score_v;
    const double x = score[*(const uint32_t *)a], y = score[*(const uint32_t *)b];
    return (x < y) - (x > y);
}

/* Equal scores share a rank: then the leftmost pair merges first. */
static enum ig_err build_ranks(struct ig_tokenizer *t, struct ig_why *why)
{
    const uint32_t n = t->head->n_tok;
    uint32_t *order = malloc((n ? n : 1) * sizeof *order), rank = 0;
    t->rank = malloc((n ? n : 1) * sizeof *t->rank);
    if (!order || !t->rank) {
        free(order);
        return ig_fail(why, IG_NO_MEM, "out of memory");
    }
    for (uint32_t i = 0; i < n; i++) order[i] = i;
    qsort_r(order, n, sizeof *order, by_score, (void *)(uintptr_t)t->score);
    for (uint32_t i = 0; i < n; i++) {
        if (i > 0 && t->score[order[i]] != t->score[order[i - 1]]) rank = i;
        t->rank[order[i]] = rank;
    }
    free(order);
    return IG_OK;
}

static enum ig_err build(struct ig_tokenizer *t, struct ig_why *why)
{
    enum ig_err err = build_hash(t, why);
    if (!err) err = build_pairs(t, why);
    if (err) return err;
    build_bytes(t);
    if ((t->head->model != IG_TOK_BPE || t->head->flags & IG_TOK_FLOAT_SCORES) && !t->score)
        return bad(why, "no scores");
    if (t->head->model == IG_TOK_SPM) return build_ranks(t, why);
    if (t->head->model == IG_TOK_UNIGRAM) {
        double least = 0;
        for (uint32_t i = 0; i < t->head->n_tok; i++)
            if (t->score[i] < least) least = t->score[i];
        t->unk_score = least - 10; /* SentencePiece's penalty */
        if (t->head->flags & IG_TOK_FLOAT_SCORES) t->unk_score = (double)((float)least - 10.0f);
    }
    return IG_OK;
}

enum ig_err ig_tok_load(struct ig_tokenizer **out, const void *blob, size_t bytes, uint32_t n_vocab,
                        struct ig_why *why)
{
    const struct ig_tok_head *h = blob;
    *out = NULL;
    if ((uintptr_t)blob % 8) return bad(why, "not 8-byte aligned");
    if (bytes < sizeof *h || memcmp(h->magic, IG_TOK_MAGIC, 8) || h->model >= IG_TOK_N_MODEL)
        return bad(why, "not a tokenizer of this version");
    if (h->n_tok > IG_TOK_MAX_VOCAB) return bad(why, "too many tokens");
    if (h->n_tok > n_vocab)
        return ig_fail(why, IG_BAD_FILE,
                       "tokenizer: ids up to %u, but the model's vocabulary has %u", h->n_tok - 1,
                       n_vocab);
    struct ig_tokenizer *t = calloc(1, sizeof *t);
    if (!t) return ig_fail(why, IG_NO_MEM, "out of memory");
    t->head = h;
    t->n_vocab = n_vocab;
    enum ig_err err = load_sections(t, blob, bytes, why);
    if (!err) err = check_tokens(t, why);
    if (!err) err = check_added(t, why);
    if (!err) err = check_steps(t, why);
    if (!err) err = build(t, why);
    if (err) {
        ig_tok_free(t);
        return err;
    }
    *out = t;
    return IG_OK;
}

void ig_tok_free(struct ig_tokenizer *t)
{
    if (!t) return;
    for (int i = 0; i < IG_TOK_MAX_STEP; i++) ig_regex_free(t->regex[i]);
    ig_regex_free(t->word);
    free(t->hash);
    free(t->pair);
    free(t->rank);
    free(t);
}
