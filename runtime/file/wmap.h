/* wmap.h -- the weights data where the page cache has it: mapped read-only, checked by the caller.
 *
 * What was checked must not change afterwards.  A lease on the file makes the system tell us before
 * anyone writes to it or cuts it, and the process ends with a message; a program's own file cannot
 * be written while it runs.  Where the system gives no such word there is no mapping, and the
 * weights are copied.  A page that the system drops for want of memory is read again from the disk;
 * locking the pages prevents that where the limit of locked memory allows.
 */
#ifndef IG_WMAP_H
#define IG_WMAP_H

#include "wfile.h"

enum { IG_WMAPS = 2 }; /* mappings at a time, all of one file */

/* Data [0, bytes) in place of the arena's memory at `at`; nothing is read yet.  Not IG_OK: `why`
 * says what the system refused, and `at` is as it was. */
enum ig_err ig_wmap_open(const struct ig_wfile *f, unsigned char *at, uint64_t bytes,
                         struct ig_why *why);
/* The same where the system likes, and as it likes: no hints.  The caller's to unmap. */
enum ig_err ig_wmap_plain(const struct ig_wfile *f, const unsigned char **at, uint64_t bytes,
                          struct ig_why *why);
/* Have data [off, off + bytes) in memory; what cannot be read is an error here, not a signal. */
enum ig_err ig_wmap_fetch(const struct ig_wfile *f, unsigned char *at, uint64_t off, uint64_t bytes,
                          struct ig_why *why);
/* 1: the system will not drop the pages. */
int ig_wmap_lock(unsigned char *at, uint64_t bytes);
/* Before the file is closed: its signals are nobody's again.  The memory is the arena's to unmap.
 */
void ig_wmap_close(void);

#endif
