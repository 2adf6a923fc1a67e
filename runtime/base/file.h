/* file.h -- reading whole ranges of files that may change or lie; replacing files whole.
 *
 * Files are read with pread, never mapped: a file that shrinks while it is read
 * is then a short read, which is an error with a name, and not a SIGBUS.
 */
#ifndef IG_FILE_H
#define IG_FILE_H

#include <signal.h>

#include "base.h"

/* Open a regular file for reading and tell its size; *fd is -1 on error. */
enum ig_err ig_file_open(int *fd, uint64_t *size, const char *path, struct ig_why *why);
/* Exactly `bytes` at `off`; fewer is an error. */
enum ig_err ig_file_read(int fd, const char *path, void *dst, uint64_t off, uint64_t bytes,
                         struct ig_why *why);
/* A whole file of at most `most` bytes, malloc'ed, with a NUL after the last. */
enum ig_err ig_file_slurp(const char *path, uint64_t most, char **text, size_t *bytes,
                          struct ig_why *why);
/* "folder/name", malloc'ed; NULL when memory is out. */
char *ig_file_join(const char *folder, const char *name);

/* 1 when both names are one file's: its inode, or, before it is there, folder and name. */
int ig_file_same(const char *a, const char *b);

/* A file that takes the name `out` only when it is complete. */
struct ig_temp {
    const char *out;
    char *to;              /* `out`, or what it links to: the link stays */
    char *name;            /* to.partial-PID; a signal that ends the process removes it */
    int fd;                /* to write to */
    struct sigaction xfsz; /* SIGXFSZ is ignored meanwhile: a limit is an error, not a death */
};
/* The name that `out` leads to through symbolic links, which need not exist yet; malloc'ed, or NULL
 * with errno set. */
char *ig_file_target(const char *out);
/* IG_IO unless `out` is free or names a regular file: a device or a FIFO is not replaced. */
enum ig_err ig_temp_check(const char *out, struct ig_why *why);
/* Check, and create the file beside `out` (beside what it links to, if it is a link), which must
 * live on.  On error nothing is left.  Signals are caught from here on (stop.h). */
enum ig_err ig_temp_open(struct ig_temp *t, const char *out, unsigned mode, struct ig_why *why);
/* Close and rename.  On error the file is gone, as after ig_temp_drop. */
enum ig_err ig_temp_keep(struct ig_temp *t, struct ig_why *why);
/* Close and remove; nothing after keep or drop. */
void ig_temp_drop(struct ig_temp *t);

#endif
