/* tokenizer.h -- text to ids and back.
 *
 * A tokenizer is compiled from tokenizer.json (or GGUF metadata) into one
 * binary blob when weights are packed; the engine loads the blob and nothing
 * else.  Both inputs are hostile.  Loading allocates; decoding ids does not.
 */
#ifndef IG_TOKENIZER_H
#define IG_TOKENIZER_H

#include "base.h"

struct ig_tokenizer; /* immutable after load */

/* tokenizer.json (+ tokenizer_config.json and generation_config.json, each may be
 * NULL) -> malloc'ed blob.  `name` is the file's name for messages. */
enum ig_err ig_tok_compile_hf(void **blob, size_t *blob_bytes, const char *name, const char *json,
                              size_t json_bytes, const char *config_json, size_t config_bytes,
                              const char *generation_json, size_t generation_bytes,
                              struct ig_why *why);

/* The same from GGUF metadata; the GGUF reader fills this view. */
struct ig_tok_gguf {
    const char *model, *pre; /* tokenizer.ggml.model, .pre; NULL when absent */
    uint32_t n_vocab;
    const char *const *token; /* [n_vocab], lengths beside them */
    const uint32_t *token_bytes;
    const int32_t
        *type;          /* [n_vocab] or NULL: 1 normal 2 unknown 3 control 4 user 5 unused 6 byte */
    const float *score; /* [n_vocab] or NULL */
    uint32_t n_merge;
    const char *const *merge;
    const uint32_t *merge_bytes;
    int32_t bos, eos, eot, unk, pad; /* -1 when absent */
    int add_bos, add_eos;            /* -1 when absent */
    int space_prefix, trim_spaces; /* add_space_prefix, remove_extra_whitespaces; -1 when absent */
    const char *charsmap;          /* precompiled_charsmap, NULL when absent */
    uint32_t charsmap_bytes;
    const char *chat_template; /* NULL when absent */
};
/* The rules alone: whether they hold what they promise. */
enum ig_err ig_charsmap_check(const char *p, size_t n, struct ig_why *why);
enum ig_err ig_tok_compile_gguf(void **blob, size_t *blob_bytes, const char *name,
                                const struct ig_tok_gguf *g, struct ig_why *why);

/* The blob must outlive the tokenizer. `n_vocab`: the model's, ids must lie below it. */
enum ig_err ig_tok_load(struct ig_tokenizer **tok, const void *blob, size_t bytes, uint32_t n_vocab,
                        struct ig_why *why);
void ig_tok_free(struct ig_tokenizer *tok);

/* Text (any bytes; invalid UTF-8 is encoded as U+FFFD the way a lossy decoder
 * reads it) -> malloc'ed ids.  special: control tokens in the text become their
 * ids; without it they stay text.  bos: prepend what the model's post-processor
 * adds. */
enum ig_err ig_tok_encode(const struct ig_tokenizer *tok, const char *text, size_t bytes,
                          int special, int bos, int32_t **ids, size_t *n, struct ig_why *why);

/* The same with a mark a byte: control tokens are read only where every byte's mark is 0.
 * Tokens still join marked and unmarked text.  mark NULL: all 0. */
enum ig_err ig_tok_encode_marked(const struct ig_tokenizer *tok, const char *text,
                                 const unsigned char *mark, size_t bytes, int bos, int32_t **ids,
                                 size_t *n, struct ig_why *why);

/* The bytes of one id, never NUL-terminated; a control token's bytes are its
 * text when `special`, else none.  Pointer into the blob: no allocation. */
const char *ig_tok_piece(const struct ig_tokenizer *tok, int32_t id, int special, size_t *bytes);

/* Ids -> malloc'ed NUL-terminated UTF-8; broken sequences become U+FFFD. */
enum ig_err ig_tok_decode(const struct ig_tokenizer *tok, const int32_t *ids, size_t n, int special,
                          char **text, size_t *bytes, struct ig_why *why);

/* Streaming decode: bytes that are not yet a whole character are held back. */
struct ig_tok_stream {
    unsigned char held[4];
    int n_held;
    int started; /* some text came: a leading space that decoding drops is behind us */
};
/* Appends at most `cap` bytes for `id` to `out`, returns their number; cap >= 3 * piece + 16. */
size_t ig_tok_stream_push(struct ig_tok_stream *s, const struct ig_tokenizer *tok, int32_t id,
                          char *out, size_t cap);
size_t ig_tok_stream_end(struct ig_tok_stream *s, char *out, size_t cap);

int ig_tok_is_end(const struct ig_tokenizer *tok, int32_t id); /* end of sequence or of turn */
uint32_t ig_tok_n_vocab(const struct ig_tokenizer *tok);
const char *ig_tok_chat_template(const struct ig_tokenizer *tok); /* NULL: none */
/* The text of a token that the template may name: "bos_token", "eos_token", ...; NULL: none. */
const char *ig_tok_special_text(const struct ig_tokenizer *tok, const char *which);

#endif
