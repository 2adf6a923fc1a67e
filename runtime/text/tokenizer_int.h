/* tokenizer_int.h -- the tokenizer's blob and the parts that share it.
 *
 * Only runtime/tokenizer*.c, bpe*.c and pretok*.c include this.  The blob is
 * one header and a few arrays; every offset in it is checked by ig_tok_load()
 * before anything else looks at it, so the other files trust what they read.
 */
#ifndef IG_TOKENIZER_INT_H
#define IG_TOKENIZER_INT_H

#include "tokenizer.h"
#include "utf8.h"
#include <string.h>

enum {
    IG_TOK_MAX_VOCAB = 1 << 22, /* ids; the largest published vocabularies are near 2^18 */
    IG_TOK_MAX_STEP = 32,       /* normaliser and pre-tokeniser steps */
    IG_TOK_MAX_ADDED = 512,     /* bytes of an added token: bounds the work per text position */
    IG_TOK_MAX_KEY = 1024,      /* bytes of a vocabulary entry that is looked up by its text */
    IG_TOK_MAX_TEXT = 1 << 30,  /* bytes of one text: positions fit 32 bits with room to grow */
    IG_TOK_MAX_PROBE = 256      /* hash probes; only a vocabulary made to collide needs more */
};

enum ig_tok_model { IG_TOK_BPE, IG_TOK_SPM, IG_TOK_UNIGRAM, IG_TOK_N_MODEL };

/* ig_tok_head.flags */
enum {
    IG_TOK_IGNORE_MERGES = 1,
    IG_TOK_BYTE_FALLBACK = 2, /* unknown characters become the tokens of their bytes */
    IG_TOK_FUSE_UNK = 4,
    IG_TOK_BYTE_LEVEL = 8,   /* symbols are bytes, else characters */
    IG_TOK_STRIP_SPACE = 16, /* decoding drops one leading space of the text */
    IG_TOK_STRIP_MORE = 64,  /* and one of every token before any text */
    IG_TOK_FLOAT_SCORES = 32 /* sums of scores are rounded to float, as SentencePiece's are */
};

/* Flags of a token. */
enum {
    IG_TOKF_SPECIAL = 1, /* no text unless asked for */
    IG_TOKF_CONTROL = 2, /* never read from text that a person wrote */
    IG_TOKF_LOOKUP = 4,  /* the model may produce it from its text */
    IG_TOKF_ADDED = 8,
    IG_TOKF_BYTE = 16 /* stands for a byte; its own text is another's */
};

/* Flags of an added token. */
enum {
    IG_ADD_LSTRIP = 1,
    IG_ADD_RSTRIP = 2,
    IG_ADD_SINGLE_WORD = 4,
    IG_ADD_NORMALIZED = 8,
    IG_ADD_MODEL = 16 /* the model finds it, the normaliser keeps it as it is: no place to cut at */
};

struct ig_tok_span {
    uint32_t off, bytes; /* in the text section */
};

struct ig_tok_added {
    uint32_t id, flags;
    struct ig_tok_span text;
};

enum ig_tok_step_kind {
    /* normalisers, always before the pre-tokenisers */
    IG_STEP_NFC,
    IG_STEP_PREPEND,  /* a */
    IG_STEP_REPLACE,  /* every a by b */
    IG_STEP_COLLAPSE, /* runs of spaces by b */
    IG_STEP_STRIP,    /* arg: 1 left, 2 right */
    IG_STEP_CHARSMAP, /* a: precompiled rules, by clusters */
    IG_STEP_SPM,      /* a: precompiled rules or nothing; arg: IG_SPM_TRIM, IG_SPM_PREFIX */
    /* pre-tokenisers */
    IG_STEP_SPLIT,      /* pattern a; arg: enum ig_split, + IG_SPLIT_INVERT */
    IG_STEP_BYTE_LEVEL, /* arg: 1 = a space before a piece that has none */
    IG_STEP_METASPACE,  /* replacement a; arg: enum ig_metaspace, + IG_META_SPLIT */
    IG_N_STEP
};
enum ig_split {
    IG_SPLIT_ISOLATED,
    IG_SPLIT_REMOVED,
    IG_SPLIT_MERGED_PREV,
    IG_SPLIT_MERGED_NEXT,
    IG_SPLIT_CONTIGUOUS,
    IG_N_SPLIT,
    IG_SPLIT_INVERT = 16
};
enum {
    IG_SPM_TRIM = 1,
    IG_SPM_PREFIX = 2
}; /* runs of spaces and those at the edges; a mark before the text */
enum { IG_EDGE_START = 1, IG_EDGE_END = 2 }; /* what of the whole text a piece of it has */
enum ig_metaspace { IG_META_NEVER, IG_META_FIRST, IG_META_ALWAYS, IG_META_SPLIT = 16 };

struct ig_tok_step {
    uint32_t kind, arg;
    struct ig_tok_span a, b;
};

struct ig_tok_name {
    struct ig_tok_span key, value;
};

enum ig_tok_sec {
    IG_SEC_TEXT,   /* bytes */
    IG_SEC_KEY,    /* struct ig_tok_span [n_tok]: as the model looks it up */
    IG_SEC_PIECE,  /* struct ig_tok_span [n_tok]: as it is decoded */
    IG_SEC_FLAG,   /* uint8_t [n_tok] */
    IG_SEC_SCORE,  /* double [n_tok] or empty */
    IG_SEC_MERGE,  /* uint32_t [n][3]: left, right, result; in order of rank */
    IG_SEC_ADDED,  /* struct ig_tok_added, [raw | normalised], each part sorted by text */
    IG_SEC_STEP,   /* struct ig_tok_step */
    IG_SEC_PREFIX, /* int32_t: before every text */
    IG_SEC_SUFFIX, /* int32_t: after every text */
    IG_SEC_END,    /* int32_t: end of sequence or of turn */
    IG_SEC_NAME,   /* struct ig_tok_name: "bos_token", ..., "chat_template" */
    IG_N_SEC
};

struct ig_tok_head {
    char magic[8];
    uint32_t n_tok, model, flags;
    int32_t bos, unk;
    uint32_t zero;
    struct {
        uint64_t off, n; /* bytes from the start, 8-byte aligned; elements */
    } sec[IG_N_SEC];
};
#define IG_TOK_MAGIC "IGTOK01\n"

/* Bytes of one element of a section. */
size_t ig_tok_sec_size(int sec);

/* -- growing arrays.  `IG_PUSH` is 0 when memory ends. */
#define IG_VEC(type)                                                                               \
    struct {                                                                                       \
        type *v;                                                                                   \
        size_t n, cap;                                                                             \
    }
int ig_vec_grow(void *vec_v, size_t *cap, size_t need, size_t elem);
#define IG_RESERVE(vec, need)                                                                      \
    ((need) <= (vec).cap || ig_vec_grow(&(vec).v, &(vec).cap, (need), sizeof *(vec).v))
#define IG_PUSH(vec, x) (IG_RESERVE(vec, (vec).n + 1) ? ((vec).v[(vec).n++] = (x), 1) : 0)

struct ig_ids {
    int32_t *v;
    size_t n, cap;
};

/* Text on its way to the model, with one mark a byte: 1 = a person wrote it. */
struct ig_tok_text {
    char *p;
    unsigned char *mark; /* NULL: none is marked */
    size_t n, cap;
};
int ig_text_put(struct ig_tok_text *t, const char *p, size_t n, int mark);
int ig_text_put_marks(struct ig_tok_text *t, const char *p, const unsigned char *mark, size_t n);
void ig_text_free(struct ig_tok_text *t);

/* -- the loaded tokenizer */
struct ig_pair {
    uint32_t left, right, rank, id; /* id == UINT32_MAX: empty */
};

struct ig_regex; /* pretok_regex.c */

struct ig_tokenizer {
    const struct ig_tok_head *head;
    const char *text;
    const struct ig_tok_span *key, *piece;
    const uint8_t *flag;
    const double *score;
    const uint32_t (*merge)[3];
    const struct ig_tok_added *added;
    const struct ig_tok_step *step;
    const int32_t *prefix, *suffix, *end;
    const struct ig_tok_name *name;
    size_t n_merge, n_added, n_raw, n_step, n_norm, n_prefix, n_suffix, n_end, n_name;
    size_t max_key;       /* bytes of the longest key that can be looked up */
    uint32_t *hash;       /* key -> id, UINT32_MAX: empty */
    struct ig_pair *pair; /* (left, right) -> rank, id */
    uint64_t hash_mask, pair_mask;
    uint32_t *rank;               /* SPM: order by score, [n_tok] */
    int32_t byte_id[256];         /* the token of a byte (byte level or fallback), -1: none */
    uint32_t added_first[2][257]; /* range of added tokens by first byte */
    struct ig_regex *regex[IG_TOK_MAX_STEP];
    struct ig_regex *word; /* \w, when some added token must stand alone */
    uint32_t n_vocab;
    double unk_score;
};

static inline uint64_t ig_tok_hash_byte(uint64_t h, unsigned char c)
{
    return (h ^ c) * UINT64_C(0x100000001b3);
}
#define IG_TOK_HASH0 UINT64_C(0xcbf29ce484222325)
static inline uint64_t ig_tok_hash_end(uint64_t h) { return h ^ h >> 29 ^ h >> 47; }

static inline uint64_t ig_pair_hash(uint32_t left, uint32_t right)
{
    uint64_t h = ((uint64_t)left << 32 | right) * UINT64_C(0x9e3779b97f4a7c15);
    h = (h ^ h >> 32) * UINT64_C(0xd6e8feb86659fd93);
    return h ^ h >> 32;
}

/* The token whose key is these bytes, -1: none; `h` is their running hash. */
int32_t ig_tok_find_hashed(const struct ig_tokenizer *t, const char *p, size_t n, uint64_t h);
int32_t ig_tok_find(const struct ig_tokenizer *t, const char *p, size_t n);

/* -- one encode call: scratch and limits */
struct ig_bpe_sym {
    int32_t prev, next; /* -1: none */
    uint32_t id, off, bytes;
};
struct ig_bpe_cand {
    uint64_t key; /* rank, then position: the order in which merges happen */
    uint32_t id;
};
struct ig_lattice {
    double score;
    int32_t id;
    uint32_t from;
};

struct ig_encoder {
    const struct ig_tokenizer *tok;
    struct ig_ids ids;
    struct ig_why *why;
    IG_VEC(struct ig_bpe_sym) sym;
    IG_VEC(struct ig_bpe_cand) heap;
    IG_VEC(struct ig_lattice) lattice;
    double sum; /* of the scores so far, with IG_TOK_FLOAT_SCORES: where sums are rounded depends on
                   it */
    uint64_t budget; /* bytes that patterns may still look at and steps may still write */
    size_t limit;    /* bytes that a piece may grow to */
    void *match_data, *match_ctx;
};

/* pretok.c: one piece of normalised text -> words -> ids.  `first`: the text's start. */
enum ig_err ig_pretok(struct ig_encoder *e, const char *p, size_t n, int first);

/* bpe.c, bpe_spm.c, bpe_unigram.c: one word -> ids */
enum ig_err ig_bpe_word(struct ig_encoder *e, const char *p, size_t n);
enum ig_err ig_bpe_spm_word(struct ig_encoder *e, const char *p, size_t n);
enum ig_err ig_bpe_unigram_word(struct ig_encoder *e, const char *p, size_t n);
/* Heap of merges, shared by both. */
int ig_bpe_heap_push(struct ig_encoder *e, uint32_t rank, uint32_t pos, uint32_t id);
int ig_bpe_heap_pop(struct ig_encoder *e, struct ig_bpe_cand *out);

/* pretok_regex.c */
enum ig_err ig_regex_compile(struct ig_regex **re, const char *pattern, size_t n,
                             struct ig_why *why);
void ig_regex_free(struct ig_regex *re);
/* The next match in text[from..n): 1 and [*start, *end), 0 when there is none, -1 with e->why. */
int ig_regex_next(struct ig_encoder *e, const struct ig_regex *re, const char *text, size_t n,
                  size_t from, size_t *start, size_t *end);
void ig_regex_done(struct ig_encoder *e);

/* tokenizer_added.c: the next added token of set (0 raw, 1 normalised) in text[from..n), and the
 * bytes of the longest one of set 1 that starts at `at`, those that the model finds among them. */
int ig_added_next(struct ig_encoder *e, int set, const struct ig_tok_text *text, size_t from,
                  size_t *start, size_t *end, int32_t *id);
size_t ig_added_at(const struct ig_tokenizer *t, const struct ig_tok_text *text, size_t at);

/* tokenizer_norm.c; edges: IG_EDGE_...; t: whose tokens SentencePiece's rules spare, or NULL */
enum ig_err ig_tok_normalize(const struct ig_tok_step *step, size_t n_step, const char *strings,
                             const struct ig_tokenizer *t, const char *p, const unsigned char *mark,
                             size_t n, int edges, size_t limit, struct ig_tok_text *out,
                             struct ig_why *why);
/* tokenizer_charsmap.c: SentencePiece's rules as tokenizer.json's reference applies them, and as
 * SentencePiece does, spaces included.  0 when memory ends; they may stop behind `limit`. */
int ig_charsmap_clusters(const char *map, size_t map_bytes, const struct ig_tok_text *in,
                         size_t limit, struct ig_tok_text *out);
int ig_charsmap_spm(const char *map, size_t map_bytes, uint32_t how, int edges,
                    const struct ig_tokenizer *t, const struct ig_tok_text *in, size_t limit,
                    struct ig_tok_text *out);
/* The bytes that base64 spells; 0: it does not, or memory ends. */
int ig_base64(const char *p, size_t n, struct ig_tok_text *out);
/* tokenizer_grapheme.c: bytes of the cluster that p starts with, n > 0 */
size_t ig_grapheme(const char *p, size_t n);
/* tokenizer_nfc.c: canonical composition; 0 when memory ends. */
int ig_nfc(const struct ig_tok_text *in, struct ig_tok_text *out);

/* tokenizer_blob.c: the compilers fill this, ig_blob_finish() lays it out. */
struct ig_blob {
    struct ig_tok_head head;
    struct ig_tok_text text;
    IG_VEC(struct ig_tok_span) key;
    IG_VEC(struct ig_tok_span) piece;
    IG_VEC(uint8_t) flag;
    IG_VEC(double) score;
    struct {
        uint32_t (*v)[3];
        size_t n, cap;
    } merge;
    IG_VEC(struct ig_tok_added) added;
    IG_VEC(struct ig_tok_step) step;
    IG_VEC(int32_t) prefix;
    IG_VEC(int32_t) suffix;
    IG_VEC(int32_t) end;
    IG_VEC(struct ig_tok_name) name;
    uint32_t *find; /* key -> id while compiling */
    uint64_t find_mask;
};
int ig_blob_text(struct ig_blob *b, const char *p, size_t n, struct ig_tok_span *out);
int ig_blob_name(struct ig_blob *b, const char *key, const char *value, size_t n);
int ig_blob_end_id(struct ig_blob *b, int64_t id);
/* Make room for ids below n. */
int ig_blob_tokens(struct ig_blob *b, size_t n);
/* Index the keys, once all are there; then look one up, -1: none. */
enum ig_err ig_blob_index(struct ig_blob *b, struct ig_why *why);
int32_t ig_blob_find(const struct ig_blob *b, const char *p, size_t n);
/* A text that looks like part of a conversation's frame: <...>, [...]. */
int ig_blob_looks_like_control(const char *p, size_t n);
/* The byte that "<0xAB>" names, -1: it names none. */
int ig_blob_byte_token(const char *p, size_t n);
/* Text in the alphabet of byte-level vocabularies -> bytes in out[n]; their number, -1: other
 * characters occur. */
long ig_blob_byte_level(const char *p, size_t n, char *out);
int ig_blob_step(struct ig_blob *b, uint32_t kind, uint32_t arg, const char *a, size_t na,
                 const char *rep, size_t nb);
/* Names of end-of-turn tokens that checkpoints forget to list. */
int ig_blob_guess_ends(struct ig_blob *b);
enum ig_err ig_blob_finish(struct ig_blob *b, const char *name, void **blob, size_t *bytes,
                           struct ig_why *why);
void ig_blob_free(struct ig_blob *b);

/* pretok_names.c: GGUF pre-tokeniser name -> steps. */
enum ig_err ig_pretok_named(struct ig_blob *b, const char *pre, int *add_bos, struct ig_why *why);

/* tokenizer_hf.c and tokenizer_hf_steps.c: one tokenizer.json on its way into a blob. */
#include <jansson.h>
struct ig_hf {
    struct ig_blob b;
    const char *name;
    struct ig_why *why;
    json_t *root, *config, *generation;
    /* What the decoder does to a token. */
    int byte_level, byte_tokens, n_replace;
    struct {
        const char *from, *to;
    } replace[4];
};
/* "NAME: PATH: want WANT", with what was found. */
enum ig_err ig_hf_want(struct ig_hf *h, const char *path, const char *want, const json_t *found);
enum ig_err ig_hf_normalizer(struct ig_hf *h, const json_t *j, const char *path);
enum ig_err ig_hf_pre_tokenizer(struct ig_hf *h, const json_t *j, const char *path);
enum ig_err ig_hf_decoder(struct ig_hf *h, const json_t *j, const char *path);
enum ig_err ig_hf_post_processor(struct ig_hf *h, const json_t *j, const char *path);
int ig_hf_true(const json_t *j, const char *key, int otherwise);

#endif
