/* wfile_write.h -- writing weights files, front to back, under a temporary name.
 *
 * The data section is appended in order; each block's checksum is taken on the
 * way.  Until ig_wwrite_finish has renamed the temporary file, whatever had the
 * name before is untouched.
 */
#ifndef IG_WFILE_WRITE_H
#define IG_WFILE_WRITE_H

#include "temp.h"
#include "wfile.h"

/* What will be written.  Everything must live until finish or abort. */
struct ig_wspec {
    const char *out;
    int embed; /* put the running executable in front and a trailer at the end */
    const char *model_id, *layout_text;
    uint64_t layout_hash;
    const void *tokenizer;
    size_t tokenizer_bytes;
    uint64_t data_bytes;
    uint32_t n_block;
    struct ig_wblock *block; /* off and bytes are given, hash is filled in */
};

struct ig_wwriter {
    const struct ig_wspec *spec;
    struct ig_wheader h;
    struct ig_temp temp;
    uint64_t base;  /* of the weights file in temp */
    uint64_t at;    /* data bytes written */
    uint32_t block; /* the block that `at` lies in */
    void *hash;     /* its running checksum */
    char *gathered; /* data that is not written yet, at gathered_off of temp */
    uint64_t gathered_off, n_gathered;
};

/* On error nothing is left behind. */
enum ig_err ig_wwrite_open(struct ig_wwriter *w, const struct ig_wspec *spec, struct ig_why *why);
/* Append to the data section. */
enum ig_err ig_wwrite_data(struct ig_wwriter *w, const void *data, uint64_t bytes,
                           struct ig_why *why);
/* Header, sync, rename.  On error the temporary file is gone, as after abort. */
enum ig_err ig_wwrite_finish(struct ig_wwriter *w, struct ig_why *why);
void ig_wwrite_abort(struct ig_wwriter *w);

#endif
