/* input.h -- whole files and lines from outside. */
#ifndef IG_INPUT_H
#define IG_INPUT_H

#include "base.h"

/* The bytes of a file, malloc'ed with a NUL behind them; "-" is standard input. */
enum ig_err ig_input_file(const char *path, char **data, size_t *bytes, struct ig_why *why);

/* Ids separated by commas, brackets or white space, or {"ids": [...]}, each in [0, n_vocab)
 * -> malloc'ed ids. */
enum ig_err ig_input_ids(const char *what, const char *text, int n_vocab, int32_t **ids, size_t *n,
                         struct ig_why *why);

/* One line from standard input, malloc'ed, without its newline.  *line is NULL at
 * the end of the input, or when a signal came before the line was whole. */
enum ig_err ig_input_line(char **line, size_t *bytes, struct ig_why *why);
/* Drop what arrow keys and the like left in a line of n bytes; the bytes that stay. */
size_t ig_input_strip(char *line, size_t n);

#endif
