/* utf8.h -- characters as bytes and code points (tokenizer_utf8.c). */
#ifndef IG_UTF8_H
#define IG_UTF8_H

#include <stddef.h>
#include <stdint.h>

int ig_utf8_decode(const char *p, size_t n, uint32_t *cp); /* bytes used; valid text only */
/* Bytes written; cp is below 0x110000. */
int ig_utf8_put(char out[4], uint32_t cp);
/* Bytes of the next character; *ok = 1 valid, 0 a broken part, -1 cut off at the end of p[0..n). */
size_t ig_utf8_next(const char *p, size_t n, int *ok);
int ig_utf8_valid(const char *p, size_t n);
int ig_utf8_is_space(uint32_t cp); /* Unicode White_Space */

#endif
