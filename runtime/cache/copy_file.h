/* copy_file.h -- pieces of a file into registered memory: struct ig_copy over direct reads.
 *
 * io_uring where the kernel lets us, else pread, one piece at a time.  Through the page cache
 * instead of around it when asked to, or when the file system has no direct reads.
 */
#ifndef IG_COPY_FILE_H
#define IG_COPY_FILE_H

#include "base.h"
#include "copy.h"

struct ig_copy_file; /* one at a time: static memory */

struct ig_copy_file_conf {
    int fd;            /* stays the caller's */
    const char *path;  /* for messages */
    uint64_t base;     /* place in fd of source place 0, a multiple of 4096 */
    int cached;        /* through the page cache */
    int plain;         /* pread even where io_uring is there */
    uint32_t depth;    /* most pieces at a time */
    unsigned char *to; /* the memory that pieces go to, registered once */
    uint64_t bytes;
};

/* How it works after all, one word each, for reports. */
struct ig_copy_file_how {
    int direct, ring, registered;
};

enum ig_err ig_copy_file_open(struct ig_copy *copy, const struct ig_copy_file_conf *c,
                              struct ig_copy_file_how *how, struct ig_why *why);
void ig_copy_file_close(struct ig_copy *copy);

#endif
