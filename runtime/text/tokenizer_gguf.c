/* tokenizer_gguf.c -- a tokenizer from GGUF metadata: the kinds "gpt2" (byte-level
 * BPE), "llama" (SentencePiece BPE) and "t5" (SentencePiece unigram).
 */
#include "tokenizer_int.h"

enum { T_NORMAL = 1, T_UNKNOWN, T_CONTROL, T_USER, T_UNUSED, T_BYTE };

static enum ig_err no_mem(struct ig_why *why) { return ig_fail(why, IG_NO_MEM, "out of memory"); }

static int type_of(const struct ig_tok_gguf *g, uint32_t id)
{
    if ((int32_t)id == g->bos || (int32_t)id == g->eos || (int32_t)id == g->eot ||
        (int32_t)id == g->pad)
        return T_CONTROL;
    return g->type ? g->type[id] : T_NORMAL;
}

/* Keys as the file spells them, so that merges can be looked up. */
static enum ig_err read_tokens(struct ig_blob *b, const struct ig_tok_gguf *g, struct ig_why *why)
{
    if (g->n_vocab == 0 || !g->token)
        return ig_fail(why, IG_BAD_FILE, "tokenizer.ggml.tokens: want some, found none");
    if (g->n_vocab > IG_TOK_MAX_VOCAB)
        return ig_fail(why, IG_BAD_FILE, "tokenizer.ggml.tokens: want at most %d, found %u",
                       IG_TOK_MAX_VOCAB, g->n_vocab);
    if (!ig_blob_tokens(b, g->n_vocab)) return no_mem(why);
    for (uint32_t i = 0; i < g->n_vocab; i++)
        if (!ig_blob_text(b, g->token[i], g->token_bytes[i], &b->key.v[i])) return no_mem(why);
    return ig_blob_index(b, why);
}

static enum ig_err read_merges(struct ig_blob *b, const struct ig_tok_gguf *g, struct ig_why *why)
{
    if (g->n_merge > IG_TOK_MAX_VOCAB)
        return ig_fail(why, IG_BAD_FILE, "tokenizer.ggml.merges: want at most %d, found %u",
                       IG_TOK_MAX_VOCAB, g->n_merge);
    if (!IG_RESERVE(b->merge, (size_t)g->n_merge + 1)) return no_mem(why);
    for (uint32_t i = 0; i < g->n_merge; i++) {
        const char *m = g->merge[i];
        const size_t n = g->merge_bytes[i];
        char both[2 * IG_TOK_MAX_KEY];
        /* A token may start with the space: it is the next one that divides. */
        const char *space = n > 2 && n < sizeof both ? memchr(m + 1, ' ', n - 1) : NULL;
        if (!space)
            return ig_fail(why, IG_BAD_FILE, "tokenizer.ggml.merges[%u]: want \"left right\"", i);
        const size_t left = (size_t)(space - m);
        memcpy(both, m, left);
        memcpy(both + left, space + 1, n - left - 1);
        const int32_t id[3] = { ig_blob_find(b, m, left), ig_blob_find(b, space + 1, n - left - 1),
                                ig_blob_find(b, both, n - 1) };
        for (int k = 0; k < 3; k++) {
            if (id[k] < 0)
                return ig_fail(why, IG_BAD_FILE,
                               "tokenizer.ggml.merges[%u]: \"%.*s\" names a missing token", i,
                               (int)(n < 80 ? n : 80), m);
            b->merge.v[i][k] = (uint32_t)id[k];
        }
        b->merge.n++;
    }
    return IG_OK;
}

/* Space marks as spaces, <0x0A> as its byte. */
static int spm_piece(struct ig_blob *b, uint32_t id, int is_byte)
{
    const struct ig_tok_span key = b->key.v[id];
    const int byte = is_byte ? ig_blob_byte_token(b->text.p + key.off, key.bytes) : -1;
    if (byte >= 0) {
        const char c = (char)byte;
        return ig_blob_text(b, &c, 1, &b->piece.v[id]);
    }
    struct ig_tok_text t = { 0 };
    int ok = 1;
    for (size_t i = 0; i < key.bytes && ok;) {
        const char *p = b->text.p + key.off + i;
        const int mark = key.bytes - i >= 3 && !memcmp(p, "\xe2\x96\x81", 3);
        ok = mark ? ig_text_put(&t, " ", 1, 0) : ig_text_put(&t, p, 1, 0);
        i += mark ? 3 : 1;
    }
    ok = ok && ig_blob_text(b, t.n ? t.p : "", t.n, &b->piece.v[id]);
    ig_text_free(&t);
    return ok;
}

/* SentencePiece's unigram model finds a user's own tokens itself, in normalised text; here it does
 * so unless they look like part of a conversation's frame: those need the text's marks. */
static int add_token(struct ig_blob *b, uint32_t id, int special)
{
    const struct ig_tok_span key = b->key.v[id];
    struct ig_tok_added a = { .id = id, .text = key };
    b->piece.v[id] = key;
    if (special) b->flag.v[id] |= IG_TOKF_SPECIAL;
    if (special || ig_blob_looks_like_control(b->text.p + key.off, key.bytes))
        b->flag.v[id] |= IG_TOKF_CONTROL;
    if (!special && b->head.model == IG_TOK_UNIGRAM) {
        a.flags |= IG_ADD_NORMALIZED;
        if (!(b->flag.v[id] & IG_TOKF_CONTROL)) a.flags |= IG_ADD_MODEL;
        if (!spm_piece(b, id, 0)) return 0; /* the texts may have moved */
    }
    const char *p = b->text.p + key.off;
    if (key.bytes == 0 || key.bytes > IG_TOK_MAX_ADDED || !ig_utf8_valid(p, key.bytes) ||
        ig_blob_find(b, p, key.bytes) != (int32_t)id)
        return 1; /* no text that could be recognised, or another token has it */
    b->flag.v[id] |= IG_TOKF_ADDED;
    return IG_PUSH(b->added, a);
}

static int bpe_piece(struct ig_blob *b, uint32_t id)
{
    const struct ig_tok_span key = b->key.v[id];
    char raw[IG_TOK_MAX_KEY];
    const char *p = b->text.p + key.off;
    const long n = key.bytes <= sizeof raw && ig_utf8_valid(p, key.bytes)
                       ? ig_blob_byte_level(p, key.bytes, raw)
                       : -1;
    b->piece.v[id] = key;
    if (n < 0) return 1; /* not of the byte alphabet: merges cannot make it */
    if (!ig_blob_text(b, raw, (size_t)n, &b->key.v[id])) return 0;
    b->piece.v[id] = b->key.v[id];
    if (n > 0) b->flag.v[id] |= IG_TOKF_LOOKUP;
    return 1;
}

static enum ig_err read_pieces(struct ig_blob *b, const struct ig_tok_gguf *g, struct ig_why *why)
{
    static const char unknown[] = " \xe2\x81\x87 "; /* SentencePiece's text for it */
    const int byte_level = (b->head.flags & IG_TOK_BYTE_LEVEL) != 0,
              unigram = b->head.model == IG_TOK_UNIGRAM;
    for (uint32_t id = 0; id < g->n_vocab; id++) {
        const int type = type_of(g, id);
        int ok;
        if (type < T_NORMAL || type > T_BYTE)
            return ig_fail(why, IG_BAD_FILE, "tokenizer.ggml.token_type[%u]: want 1 to 6, found %d",
                           id, type);
        if (type == T_CONTROL || type == T_USER)
            ok = add_token(b, id, type == T_CONTROL);
        else
            ok = byte_level          ? bpe_piece(b, id)
                 : type == T_UNKNOWN ? ig_blob_text(b, unknown, sizeof unknown - 1, &b->piece.v[id])
                                     : spm_piece(b, id, type == T_BYTE);
        if (!ok) return no_mem(why);
        if (byte_level && type == T_UNKNOWN) b->flag.v[id] |= IG_TOKF_SPECIAL;
        if (unigram && type == T_UNKNOWN && b->head.unk < 0) b->head.unk = (int32_t)id;
        if (unigram && type == T_BYTE) b->flag.v[id] |= IG_TOKF_BYTE;
        if (unigram && type == T_UNUSED) continue;
        if (!byte_level && type != T_CONTROL && type != T_UNKNOWN && b->key.v[id].bytes > 0 &&
            b->key.v[id].bytes <= IG_TOK_MAX_KEY && !(b->flag.v[id] & IG_TOKF_CONTROL))
            b->flag.v[id] |= IG_TOKF_LOOKUP;
    }
    return IG_OK;
}

/* What surrounds a text when the file does not say. */
struct around {
    int bos, eos;
};

static enum ig_err read_special(struct ig_blob *b, const struct ig_tok_gguf *g, struct around add,
                                struct ig_why *why)
{
    const struct {
        const char *key, *name;
        int32_t id;
    } special[] = { { "bos", "bos_token", g->bos },
                    { "eos", "eos_token", g->eos },
                    { "eot", "eot_token", g->eot },
                    { "unknown", "unk_token", g->unk },
                    { "padding", "pad_token", g->pad } };
    for (size_t i = 0; i < sizeof special / sizeof *special; i++) {
        const int32_t id = special[i].id;
        if (id < 0) continue;
        if ((uint32_t)id >= g->n_vocab)
            return ig_fail(why, IG_BAD_FILE,
                           "tokenizer.ggml.%s_token_id: want an id below %u, found %d",
                           special[i].key, g->n_vocab, id);
        const char *text = g->token[id];
        if (!memchr(text, 0, g->token_bytes[id]) &&
            !ig_blob_name(b, special[i].name, text, g->token_bytes[id]))
            return no_mem(why);
    }
    b->head.bos = g->bos;
    /* Byte-level models have no unknown text: a byte that the vocabulary lacks is dropped. */
    if (g->unk >= 0 && b->head.model != IG_TOK_BPE) b->head.unk = g->unk;
    if ((g->eos >= 0 && !ig_blob_end_id(b, g->eos)) ||
        (g->eot >= 0 && !ig_blob_end_id(b, g->eot)) || !ig_blob_guess_ends(b))
        return no_mem(why);
    if (g->add_bos >= 0) add.bos = g->add_bos;
    if (g->add_eos >= 0) add.eos = g->add_eos;
    if (add.bos && g->bos >= 0 && !IG_PUSH(b->prefix, g->bos)) return no_mem(why);
    if (add.eos && g->eos >= 0 && !IG_PUSH(b->suffix, g->eos)) return no_mem(why);
    if (g->chat_template &&
        !ig_blob_name(b, "chat_template", g->chat_template, strlen(g->chat_template)))
        return no_mem(why);
    return IG_OK;
}

static enum ig_err spm_model(struct ig_blob *b, const struct ig_tok_gguf *g, struct ig_why *why)
{
    static const char mark[] = "\xe2\x96\x81";
    b->head.model = IG_TOK_SPM;
    b->head.flags |= IG_TOK_BYTE_FALLBACK | IG_TOK_FUSE_UNK;
    if (!g->score) return ig_fail(why, IG_BAD_FILE, "tokenizer.ggml.scores: want one a token");
    for (uint32_t i = 0; i < g->n_vocab; i++)
        if (!IG_PUSH(b->score, (double)g->score[i])) return no_mem(why);
    if (g->space_prefix != 0) {
        b->head.flags |= IG_TOK_STRIP_SPACE;
        if (!ig_blob_step(b, IG_STEP_PREPEND, 0, mark, 3, "", 0)) return no_mem(why);
    }
    return ig_blob_step(b, IG_STEP_REPLACE, 0, " ", 1, mark, 3) ? IG_OK : no_mem(why);
}

/* SentencePiece's scores: of ordinary tokens as they are; a user's own tokens beat them all. */
static enum ig_err unigram_scores(struct ig_blob *b, const struct ig_tok_gguf *g,
                                  struct ig_why *why)
{
    if (!g->score) return ig_fail(why, IG_BAD_FILE, "tokenizer.ggml.scores: want one a token");
    for (uint32_t i = 0; i < g->n_vocab; i++) {
        const int type = type_of(g, i);
        const double score = type == T_NORMAL ? (double)g->score[i]
                             : type == T_USER && g->token_bytes[i]
                                 ? (double)(float)(0.1 * (g->token_bytes[i] - 1))
                                 : 0;
        if (!IG_PUSH(b->score, score)) return no_mem(why);
    }
    return IG_OK;
}

static enum ig_err unigram_model(struct ig_blob *b, const struct ig_tok_gguf *g, struct ig_why *why)
{
    const uint32_t how =
        (g->trim_spaces > 0 ? IG_SPM_TRIM : 0u) | (g->space_prefix > 0 ? IG_SPM_PREFIX : 0u);
    b->head.model = IG_TOK_UNIGRAM;
    b->head.flags |= IG_TOK_FUSE_UNK | IG_TOK_FLOAT_SCORES;
    if (how) b->head.flags |= IG_TOK_STRIP_SPACE;
    if (how & IG_SPM_TRIM) b->head.flags |= IG_TOK_STRIP_MORE;
    for (uint32_t i = 0; g->type && i < g->n_vocab; i++)
        if (g->type[i] == T_BYTE) b->head.flags |= IG_TOK_BYTE_FALLBACK;
    const enum ig_err err = unigram_scores(b, g, why);
    if (err) return err;
    return ig_blob_step(b, IG_STEP_SPM, how, g->charsmap ? g->charsmap : "", g->charsmap_bytes, "",
                        0)
               ? IG_OK
               : no_mem(why);
}

static enum ig_err compile(struct ig_blob *b, const struct ig_tok_gguf *g, struct ig_why *why)
{
    struct around add = { .bos = 1 };
    enum ig_err err = read_tokens(b, g, why);
    if (err) return err;
    if (g->model && !strcmp(g->model, "gpt2")) {
        b->head.model = IG_TOK_BPE;
        err = ig_pretok_named(b, g->pre ? g->pre : "default", &add.bos, why);
        if (!err) err = read_merges(b, g, why);
    } else if (g->model && !strcmp(g->model, "llama")) {
        err = spm_model(b, g, why);
    } else if (g->model && !strcmp(g->model, "t5")) {
        add = (struct around){ .eos = 1 };
        err = unigram_model(b, g, why);
    } else {
        err = ig_fail(why, IG_BAD_FILE, "tokenizer.ggml.model: want gpt2, llama or t5, found %s",
                      g->model ? g->model : "nothing");
    }
    if (!err) err = read_pieces(b, g, why);
    if (!err) err = read_special(b, g, add, why);
    return err;
}

enum ig_err ig_tok_compile_gguf(void **blob, size_t *blob_bytes, const char *name,
                                const struct ig_tok_gguf *g, struct ig_why *why)
{
    struct ig_blob b = { 0 };
    struct ig_why inner = { "" };
    *blob = NULL;
    *blob_bytes = 0;
    b.head.bos = b.head.unk = -1;
    enum ig_err err = compile(&b, g, &inner);
    if (err)
        ig_fail(why, err, "%s: %.900s", name, inner.text);
    else
        err = ig_blob_finish(&b, name, blob, blob_bytes, why);
    ig_blob_free(&b);
    return err;
}
