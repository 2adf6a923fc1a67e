/* pretok.c -- a piece of text through the pre-tokeniser's steps to words.
 *
 * Steps nest: each hands its splits to the next one, the last hands words to
 * the model.  No list of splits is kept; merging with a neighbour needs one
 * pending split only.
 */
#include "tokenizer_int.h"

struct pre {
    struct ig_encoder *e;
    int first; /* the piece starts the text */
};

static enum ig_err run_step(const struct pre *c, size_t step, const char *p, size_t n, int first);

static enum ig_err word(struct ig_encoder *e, const char *p, size_t n)
{
    switch (e->tok->head->model) {
    case IG_TOK_SPM:
        return ig_bpe_spm_word(e, p, n);
    case IG_TOK_UNIGRAM:
        return ig_bpe_unigram_word(e, p, n);
    default:
        return ig_bpe_word(e, p, n);
    }
}

/* The splits of one step on their way out, under a merging behaviour. */
struct split_out {
    const struct pre *c;
    size_t next_step;
    const char *text;
    int behaviour, first;
    size_t start, end; /* pending [start, end) */
    int pending, was_match;
};

static enum ig_err flush(struct split_out *o)
{
    if (!o->pending || o->end == o->start) return IG_OK;
    o->pending = 0;
    return run_step(o->c, o->next_step, o->text + o->start, o->end - o->start,
                    o->first && o->start == 0);
}

static enum ig_err emit(struct split_out *o, size_t start, size_t end, int match)
{
    int join = 0;
    if (start == end) return IG_OK;
    switch (o->behaviour) {
    case IG_SPLIT_REMOVED:
        if (match) {
            o->was_match = 1;
            return flush(o);
        }
        break;
    case IG_SPLIT_MERGED_PREV:
        join = o->pending && match && !o->was_match;
        break;
    case IG_SPLIT_MERGED_NEXT:
        join = o->pending && !match && o->was_match;
        break;
    case IG_SPLIT_CONTIGUOUS:
        join = o->pending && match == o->was_match;
        break;
    default:
        break;
    }
    o->was_match = match;
    if (join) {
        o->end = end;
        return IG_OK;
    }
    const enum ig_err err = flush(o);
    o->pending = 1;
    o->start = start;
    o->end = end;
    return err;
}

static enum ig_err split(const struct pre *c, size_t step, const char *p, size_t n, int first)
{
    const struct ig_tok_step *s = &c->e->tok->step[step];
    const int invert = (s->arg & IG_SPLIT_INVERT) != 0;
    struct split_out o = {
        .c = c, .next_step = step + 1, .text = p, .first = first, .behaviour = (int)(s->arg & 15)
    };
    size_t from = 0, done = 0, start, end;
    enum ig_err err = IG_OK;
    while (!err && from <= n) {
        const int rc = ig_regex_next(c->e, c->e->tok->regex[step], p, n, from, &start, &end);
        if (rc < 0) return IG_BAD_FILE;
        if (rc == 0) break;
        err = emit(&o, done, start, invert);
        if (!err) err = emit(&o, start, end, !invert);
        done = end;
        /* An empty match advances by one character. */
        from = end;
        if (end == start) {
            from++;
            while (from < n && (p[from] & 0xc0) == 0x80) from++;
        }
    }
    if (!err) err = emit(&o, done, n, invert);
    return err ? err : flush(&o);
}

/* Text that a step made counts against the call's budget. */
static enum ig_err charge(struct ig_encoder *e, size_t n)
{
    if (n > e->limit || n > e->budget)
        return ig_fail(e->why, IG_BAD_FILE, "pre-tokenizer: makes the text too long");
    e->budget -= n;
    return IG_OK;
}

/* A space before a piece that does not start with one. */
static enum ig_err byte_level(const struct pre *c, size_t step, const char *p, size_t n, int first)
{
    struct ig_tok_text t = { 0 };
    if (!(c->e->tok->step[step].arg & 1) || (n > 0 && p[0] == ' '))
        return run_step(c, step + 1, p, n, first);
    enum ig_err err = IG_OK;
    if (!ig_text_put(&t, " ", 1, 0) || !ig_text_put(&t, p, n, 0))
        err = ig_fail(c->e->why, IG_NO_MEM, "out of memory");
    if (!err) err = charge(c->e, t.n);
    if (!err) err = run_step(c, step + 1, t.p, t.n, first);
    ig_text_free(&t);
    return err;
}

static enum ig_err metaspace(const struct pre *c, size_t step, const char *p, size_t n, int first)
{
    const struct ig_tok_step *s = &c->e->tok->step[step];
    const char *rep = c->e->tok->text + s->a.off;
    const size_t rep_n = s->a.bytes;
    const int scheme = (int)(s->arg & 15);
    struct ig_tok_text t = { 0 };
    int ok = 1;
    const int has = n > 0 && (p[0] == ' ' || (n >= rep_n && !memcmp(p, rep, rep_n)));
    if ((scheme == IG_META_ALWAYS || (scheme == IG_META_FIRST && first)) && !has)
        ok = ig_text_put(&t, rep, rep_n, 0);
    for (size_t i = 0; i < n && ok; i++)
        ok = p[i] == ' ' ? ig_text_put(&t, rep, rep_n, 0) : ig_text_put(&t, p + i, 1, 0);
    enum ig_err err = ok ? IG_OK : ig_fail(c->e->why, IG_NO_MEM, "out of memory");
    if (!err) err = charge(c->e, t.n);
    if (!err && !(s->arg & IG_META_SPLIT)) err = run_step(c, step + 1, t.p, t.n, first);
    if (!err && (s->arg & IG_META_SPLIT)) {
        /* The replacement starts a word. */
        size_t start = 0;
        for (size_t i = 1; i <= t.n && !err; i++) {
            if (i < t.n && !(t.n - i >= rep_n && !memcmp(t.p + i, rep, rep_n))) continue;
            err = run_step(c, step + 1, t.p + start, i - start, first && start == 0);
            start = i;
        }
    }
    ig_text_free(&t);
    return err;
}

static enum ig_err run_step(const struct pre *c, size_t step, const char *p, size_t n, int first)
{
    const struct ig_tokenizer *t = c->e->tok;
    if (n == 0) return IG_OK;
    if (step == t->n_step) return word(c->e, p, n);
    switch (t->step[step].kind) {
    case IG_STEP_SPLIT:
        return split(c, step, p, n, first);
    case IG_STEP_BYTE_LEVEL:
        return byte_level(c, step, p, n, first);
    default:
        return metaspace(c, step, p, n, first);
    }
}

enum ig_err ig_pretok(struct ig_encoder *e, const char *p, size_t n, int first)
{
    const struct pre c = { .e = e, .first = first };
    return run_step(&c, e->tok->n_norm, p, n, first);
}
