/* pack.h -- checkpoint -> weights file of the compiled-in plan.
 *
 * Reads a Hugging Face folder, a .safetensors or a .gguf file, converts every
 * tensor to the format and order that tables.c asks for, and writes one weights
 * file; memory use does not grow with the model.  The output appears under its
 * name only when it is complete: whatever fails, an existing file of that name
 * stays as it was and nothing else is left behind.
 */
#ifndef IG_PACK_H
#define IG_PACK_H

#include <signal.h>

#include "base.h"

struct ig_pack_job {
    const char *src;       /* folder, *.safetensors, *.gguf or *.ingot; NULL: random weights */
    const char *tokenizer; /* the same, for the tokenizer alone; NULL: src */
    uint64_t seed;         /* of the random weights; the same seed gives the same bytes */
    const char *out;       /* the file to write */
    const char *next;      /* another file, to be made later: it must be no source either; or NULL */
    int embed;             /* out is this executable with the weights inside, mode 755 */
    const volatile sig_atomic_t *cancel;                               /* may be NULL; 1: stop */
    void (*progress)(const char *what, uint64_t done, uint64_t total); /* bytes; may be NULL */
    void (*warn)(const char *line);                                    /* may be NULL */
};

enum ig_err ig_pack(const struct ig_pack_job *job, struct ig_why *why);

#endif
