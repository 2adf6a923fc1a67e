/* wfile.h -- the weights file (*.ingot): header, sections, checksums.  docs/FORMAT.md.
 *
 * Little-endian.  Page 0 is struct ig_wheader; then the sections in the order
 * tokenizer, blocks, data, each starting at a 4 KiB multiple, zero-padded.  The
 * data section is byte for byte what the arena's weights region holds.
 * Everything in a file is hostile until checked.
 */
#ifndef IG_WFILE_H
#define IG_WFILE_H

#include "base.h"

#define IG_WMAGIC "INGOTW01"
enum { IG_WALIGN = 4096 };

struct ig_wsection {
    uint64_t off, bytes; /* off is relative to the start of the weights file */
    uint64_t hash;       /* XXH3-64 of the bytes; 0 for the data section, whose blocks are hashed */
};

struct ig_wheader {
    char magic[8];
    uint32_t header_bytes; /* sizeof(struct ig_wheader) */
    uint32_t n_block;
    uint64_t layout_hash;
    uint64_t file_bytes;
    char model_id[64];     /* NUL-padded */
    char layout_text[256]; /* one line that says what the layout hash stands for, for messages */
    struct ig_wsection tokenizer, blocks, data;
    uint64_t header_hash; /* XXH3-64 of all the bytes before it */
};

/* One checksummed piece of the data section: the resident part in pieces of at
 * most 1 MiB, then expert slabs, each in blocks of its own (older files: one block each).
 * Blocks are contiguous, in order. */
#define IG_WTOKENIZER_MOST (UINT64_C(1) << 30) /* bytes: a sparse file may state any */
enum { IG_WBLOCKS = 64 };                      /* most of an expert's */
struct ig_wblock {
    uint64_t off, bytes; /* inside the data section */
    uint64_t hash;       /* XXH3-64 */
};

/* The last 32 bytes of an executable that carries a weights file; it starts at
 * a 4 KiB multiple and ends where the trailer starts. */
#define IG_WTRAILER_MAGIC "INGOTEMB"
struct ig_wtrailer {
    char magic[8];
    uint64_t off, bytes;
    uint64_t hash; /* XXH3-64 of the 24 bytes before it */
};

/* An open, checked weights file. */
struct ig_wfile {
    int fd;
    char *path;    /* for messages */
    uint64_t base; /* where the weights file starts in fd (an embedded one: not 0) */
    struct ig_wheader h;
    struct ig_wblock *blocks; /* [h.n_block] */
};

/* The layout that a running program expects, in words, for messages.  layout.c has
 * the plan's; a program without a plan (a test) defines its own. */
extern const char ig_layout_text[];

/* Open and check header, section table and block table against the file's real
 * size; `expect_layout` of 0 accepts any layout.  `path` NULL: the file embedded
 * in the running executable.  On error nothing stays open. */
enum ig_err ig_wfile_open(struct ig_wfile *f, const char *path, uint64_t expect_layout,
                          struct ig_why *why);
/* The header's layout against the one that is expected (0: any); names both. */
enum ig_err ig_wfile_layout(const struct ig_wfile *f, uint64_t expect, struct ig_why *why);
/* Read `bytes` at data offset `off`; a short read is an error that names the place. */
enum ig_err ig_wfile_read(const struct ig_wfile *f, void *dst, uint64_t off, uint64_t bytes,
                          struct ig_why *why);
/* Check one block's bytes (already read) against its hash. */
enum ig_err ig_wfile_check(const struct ig_wfile *f, uint32_t block, const void *bytes,
                           struct ig_why *why);
/* Read the tokenizer section into malloc'ed memory, checked against its hash. */
enum ig_err ig_wfile_tokenizer(const struct ig_wfile *f, void **blob, size_t *bytes,
                               struct ig_why *why);
void ig_wfile_close(struct ig_wfile *f);
/* *found: the running executable carries a weights file.  IG_BAD_FILE when it has more than its
 * program, but no trailer; IG_IO when it cannot be read. */
enum ig_err ig_wfile_embedded(int *found, struct ig_why *why);

/* For writer and reader alike: offsets and file_bytes that follow from the bytes
 * of each section; 0 when they wrap. */
int ig_wfile_place(struct ig_wheader *h);
/* The embedded file in `fd` of `size` bytes: 1 and its place, or 0. */
int ig_wfile_trailer(int fd, uint64_t size, uint64_t *off, uint64_t *bytes);

#endif
