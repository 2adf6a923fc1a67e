/* tokenizer.c -- encoding and decoding with a loaded tokenizer.
 *
 * Text becomes valid UTF-8, is cut at added tokens, normalised, cut again at
 * tokens that match normalised text, and the pieces go to the pre-tokeniser.
 */
#include "tokenizer_int.h"
#include <stdlib.h>

static enum ig_err no_mem(struct ig_why *why) { return ig_fail(why, IG_NO_MEM, "out of memory"); }

static enum ig_err make_valid(struct ig_tok_text *out, const char *p, const unsigned char *mark,
                              size_t n, struct ig_why *why)
{
    size_t done = 0;
    for (size_t i = 0; i < n;) {
        int ok;
        const size_t len = ig_utf8_next(p + i, n - i, &ok);
        if (ok != 1) {
            int m = 0;
            for (size_t k = 0; k < len; k++) m |= mark && mark[i + k];
            if (!ig_text_put_marks(out, p + done, mark ? mark + done : NULL, i - done) ||
                !ig_text_put(out, "\xef\xbf\xbd", 3, m))
                return no_mem(why);
            done = i + len;
        }
        i += len;
    }
    return ig_text_put_marks(out, p + done, mark ? mark + done : NULL, n - done) ? IG_OK
                                                                                 : no_mem(why);
}

/* Cut x at the added tokens of `set`; the pieces between go to level set + 1. */
static enum ig_err encode_level(struct ig_encoder *e, int set, const struct ig_tok_text *x,
                                int first);

static enum ig_err encode_piece(struct ig_encoder *e, int set, const struct ig_tok_text *x,
                                size_t start, size_t end, int first)
{
    const struct ig_tokenizer *t = e->tok;
    if (start == end) return IG_OK;
    const char *p = x->p + start;
    const unsigned char *mark = x->mark ? x->mark + start : NULL;
    if (set == 1) return ig_pretok(e, p, end - start, first);

    struct ig_tok_text y = { 0 };
    uint32_t cp;
    const int edges = (first ? IG_EDGE_START : 0) | (end == x->n ? IG_EDGE_END : 0);
    /* Where blanks were stripped, the text's start is gone for the pre-tokenizer. */
    ig_utf8_decode(p, end - start, &cp);
    for (size_t i = 0; i < t->n_norm; i++)
        if (t->step[i].kind == IG_STEP_STRIP && (t->step[i].arg & 1) && ig_utf8_is_space(cp))
            first = 0;
    enum ig_err err = ig_tok_normalize(t->step, t->n_norm, t->text, t, p, mark, end - start, edges,
                                       e->limit, &y, e->why);
    if (!err) err = encode_level(e, 1, &y, first);
    ig_text_free(&y);
    return err;
}

static enum ig_err encode_level(struct ig_encoder *e, int set, const struct ig_tok_text *x,
                                int first)
{
    size_t from = 0, start, end;
    int32_t id;
    enum ig_err err = IG_OK;
    while (!err && ig_added_next(e, set, x, from, &start, &end, &id)) {
        err = encode_piece(e, set, x, from, start, first && from == 0);
        if (!err && !IG_PUSH(e->ids, id)) err = no_mem(e->why);
        if (e->tok->head->flags & IG_TOK_FLOAT_SCORES)
            e->sum = (double)(float)(e->sum + e->tok->score[id]);
        from = end;
    }
    return err ? err : encode_piece(e, set, x, from, x->n, first && from == 0);
}

static enum ig_err put_ids(struct ig_encoder *e, const int32_t *v, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!IG_PUSH(e->ids, v[i])) return no_mem(e->why);
    return IG_OK;
}

enum ig_err ig_tok_encode_marked(const struct ig_tokenizer *tok, const char *text,
                                 const unsigned char *mark, size_t bytes, int bos, int32_t **ids,
                                 size_t *n, struct ig_why *why)
{
    *ids = NULL;
    *n = 0;
    if (bytes > IG_TOK_MAX_TEXT)
        return ig_fail(why, IG_FAIL, "text: at most %d bytes, found %zu", IG_TOK_MAX_TEXT, bytes);
    struct ig_encoder e = { .tok = tok, .why = why };
    struct ig_tok_text x = { 0 };
    /* A window of 256 bytes for every byte or two of text is far above what words need. */
    e.budget = (UINT64_C(1) << 22) + (uint64_t)bytes * 400 * (tok->n_step + 1);
    e.limit = 4096 + 16 * bytes;
    enum ig_err err = IG_RESERVE(e.ids, 16) ? IG_OK : no_mem(why);
    if (!err && bos) err = put_ids(&e, tok->prefix, tok->n_prefix);
    if (!err) err = make_valid(&x, text, mark, bytes, why);
    if (!err) err = encode_level(&e, 0, &x, 1);
    if (!err && bos) err = put_ids(&e, tok->suffix, tok->n_suffix);
    ig_text_free(&x);
    free(e.sym.v);
    free(e.heap.v);
    free(e.lattice.v);
    ig_regex_done(&e);
    if (err) {
        free(e.ids.v);
        return err;
    }
    *ids = e.ids.v;
    *n = e.ids.n;
    return IG_OK;
}

enum ig_err ig_tok_encode(const struct ig_tokenizer *tok, const char *text, size_t bytes,
                          int special, int bos, int32_t **ids, size_t *n, struct ig_why *why)
{
    unsigned char *mark = NULL;
    if (!special && bytes > 0 && bytes <= IG_TOK_MAX_TEXT) {
        mark = malloc(bytes);
        if (!mark) return no_mem(why);
        memset(mark, 1, bytes);
    }
    const enum ig_err err = ig_tok_encode_marked(tok, text, mark, bytes, bos, ids, n, why);
    free(mark);
    return err;
}

const char *ig_tok_piece(const struct ig_tokenizer *tok, int32_t id, int special, size_t *bytes)
{
    *bytes = 0;
    if (id < 0 || (uint32_t)id >= tok->head->n_tok) return "";
    if (!special && (tok->flag[id] & IG_TOKF_SPECIAL)) return "";
    *bytes = tok->piece[id].bytes;
    return tok->text + tok->piece[id].off;
}

/* Bytes in, whole characters out; what may still become one waits in s->held. */
static size_t stream_bytes(struct ig_tok_stream *s, const char *p, size_t n, char *out, size_t cap)
{
    size_t used = 0, i = 0;
    while (i < n || s->n_held > 0) {
        char c[4];
        size_t have = (size_t)s->n_held;
        int ok;
        memcpy(c, s->held, have);
        const size_t old = have;
        while (have < 4 && i + (have - old) < n) {
            c[have] = p[i + (have - old)];
            have++;
        }
        const size_t len = ig_utf8_next(c, have, &ok);
        if (ok == -1) { /* all of it waits for more */
            memcpy(s->held, c, have);
            s->n_held = (int)have;
            break;
        }
        const char *put = ok ? c : "\xef\xbf\xbd";
        const size_t put_n = ok ? len : 3;
        if (put_n > cap - used) break;
        memcpy(out + used, put, put_n);
        used += put_n;
        if (len >= old) {
            i += len - old;
            s->n_held = 0;
        } else {
            memmove(s->held, s->held + len, old - len);
            s->n_held = (int)(old - len);
        }
    }
    return used;
}

static size_t stream_piece(struct ig_tok_stream *s, const struct ig_tokenizer *tok, int32_t id,
                           int special, char *out, size_t cap)
{
    size_t n;
    const char *p = ig_tok_piece(tok, id, special, &n);
    if (!s->started && n > 0) {
        if ((tok->head->flags & IG_TOK_STRIP_SPACE) && p[0] == ' ' && id != tok->head->unk) {
            p++;
            n--;
        }
        s->started = n > 0 || !(tok->head->flags & IG_TOK_STRIP_MORE);
    }
    return n ? stream_bytes(s, p, n, out, cap) : 0;
}

size_t ig_tok_stream_push(struct ig_tok_stream *s, const struct ig_tokenizer *tok, int32_t id,
                          char *out, size_t cap)
{
    return stream_piece(s, tok, id, 0, out, cap);
}

size_t ig_tok_stream_end(struct ig_tok_stream *s, char *out, size_t cap)
{
    if (s->n_held == 0 || cap < 3) return 0;
    s->n_held = 0;
    memcpy(out, "\xef\xbf\xbd", 3);
    return 3;
}

enum ig_err ig_tok_decode(const struct ig_tokenizer *tok, const int32_t *ids, size_t n, int special,
                          char **text, size_t *bytes, struct ig_why *why)
{
    struct ig_tok_stream s = { 0 };
    IG_VEC(char) out = { 0 };
    *text = NULL;
    *bytes = 0;
    for (size_t i = 0; i <= n; i++) {
        size_t piece = 0;
        if (i < n) ig_tok_piece(tok, ids[i], special, &piece);
        if (!IG_RESERVE(out, out.n + 3 * piece + 16)) {
            free(out.v);
            return no_mem(why);
        }
        const size_t room = out.cap - out.n;
        out.n += i < n ? stream_piece(&s, tok, ids[i], special, out.v + out.n, room)
                       : ig_tok_stream_end(&s, out.v + out.n, room);
    }
    out.v[out.n] = 0;
    *text = out.v;
    *bytes = out.n;
    return IG_OK;
}

int ig_tok_is_end(const struct ig_tokenizer *tok, int32_t id)
{
    for (size_t i = 0; i < tok->n_end; i++)
        if (tok->end[i] == id) return 1;
    return 0;
}

uint32_t ig_tok_n_vocab(const struct ig_tokenizer *tok) { return tok->n_vocab; }

const char *ig_tok_special_text(const struct ig_tokenizer *tok, const char *which)
{
    for (size_t i = 0; i < tok->n_name; i++)
        if (!strcmp(tok->text + tok->name[i].key.off, which))
            return tok->text + tok->name[i].value.off;
    return NULL;
}

const char *ig_tok_chat_template(const struct ig_tokenizer *tok)
{
    return ig_tok_special_text(tok, "chat_template");
}
