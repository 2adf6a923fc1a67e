/* progress.h -- one line on the terminal that says how far a long step has come.
 *
 * Quiet unless standard error is a terminal.
 */
#ifndef IG_PROGRESS_H
#define IG_PROGRESS_H

#include <stdint.h>

/* `done` of `total` bytes of `what`; done == total takes the line away. */
void ig_progress_bytes(const char *what, uint64_t done, uint64_t total);
/* The same for things that are counted. */
void ig_progress_count(const char *what, uint64_t done, uint64_t total);
/* Take the line away, if there is one. */
void ig_progress_end(void);

#endif
