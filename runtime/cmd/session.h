/* session.h -- from the command line to an open engine: which weights, which tokenizer. */
#ifndef IG_SESSION_H
#define IG_SESSION_H

#include "args.h"
#include "engine.h"
#include "tokenizer.h"

enum { IG_PATH = 4096 };

/* The weights that a command reads: -m FILE, else the file inside this program
 * (path NULL), else <model id>.ingot beside it.  An error says what to do. */
enum ig_err ig_session_weights(const struct ig_opts *o, const char **path, struct ig_why *why);

struct ig_session {
    struct ig_engine *e;      /* NULL: not opened */
    struct ig_tokenizer *tok; /* NULL: not opened */
    void *blob;               /* what tok reads */
    int stats;                /* show the expert cache's tables at the end */
};

/* Open the engine, and the tokenizer when wanted; downgrades are shown. */
enum ig_err ig_session_open(struct ig_session *s, const struct ig_opts *o, int tokenizer,
                            struct ig_why *why);
/* Only the tokenizer: nothing of the size of the weights is read. */
enum ig_err ig_session_tokenizer(struct ig_session *s, const struct ig_opts *o, struct ig_why *why);
void ig_session_close(struct ig_session *s);

/* IG_USAGE when writing `out` (NULL: nothing) would replace the text, the weights or this program. */
enum ig_err ig_session_out(const struct ig_opts *o, const char *out, struct ig_why *why);

#endif
