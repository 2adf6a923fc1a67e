/* file.h -- reading whole ranges of files that may change or lie.
 *
 * Files are read with pread, never mapped: a file that shrinks while it is read
 * is then a short read, which is an error with a name, and not a SIGBUS.
 */
#ifndef IG_FILE_H
#define IG_FILE_H

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

/* The name that `out` leads to through symbolic links, which need not exist yet; malloc'ed, or NULL
 * with errno set. */
char *ig_file_target(const char *out);

#endif
