/* out.h -- standard output and remarks, without stdio.
 *
 * stdio may allocate at its first use, and the token loop must not allocate;
 * so the program writes through one static buffer.  The first failed write is
 * remembered and everything after it dropped; main.c reports it at the end.
 */
#ifndef IG_OUT_H
#define IG_OUT_H

#include <stddef.h>
#include <jansson.h>

void ig_out(const void *bytes, size_t n);
#define IG_S(n) ((n) == 1 ? "" : "s") /* 1 token, 2 tokens */

void ig_outf(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Print `root` with a newline and release it. */
void ig_out_json(json_t *root);
/* Write what is buffered; 0, or the errno of the first write that ever failed. */
int ig_out_flush(void);
int ig_out_is_terminal(void);

/* One line on standard error that is not an error: statistics, remarks. */
void ig_note(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* That a file was written, with its size. */
void ig_note_written(const char *path, const char *more);

#endif
