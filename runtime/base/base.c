/* base.c -- errors: their exit codes and the two ways to report one. */
#include "base.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int ig_exit_code(enum ig_err err)
{
    static const int code_of[] = {
#define X(name, code) [IG_##name] = code,
        IG_ERRORS(X)
#undef X
    };
    return code_of[err];
}

/* Bytes at `p` that are one control character; 0: none. */
static int control(const char *p)
{
    const unsigned char c = (unsigned char)p[0], next = (unsigned char)p[1];
    if (c == '\n' && strncmp(p + 1, "  ", 2) == 0) return 0;
    if (c == 0xc2 && next >= 0x80 && next < 0xa0) return 2;
    return c < 0x20 || c == 0x7f;
}

void ig_escape(char *to, size_t room, const char *from)
{
    while (*from && room > 1) {
        const int n = control(from);
        const size_t wide = n ? 4 * (size_t)n : 1;
        if (wide >= room) break;
        for (int i = 0; i < n; i++) snprintf(to + 4 * i, 5, "\\x%02x", (unsigned char)from[i]);
        if (!n) *to = *from;
        to += wide, room -= wide, from += n ? n : 1;
    }
    *to = '\0';
}

enum ig_err ig_fail(struct ig_why *why, enum ig_err err, const char *fmt, ...)
{
    /* Through a buffer of its own, so that why->text may be an argument. */
    char text[sizeof why->text];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);

    ig_escape(why->text, sizeof why->text, text);
    return err;
}

_Noreturn void ig_die(const char *fmt, ...)
{
    char text[1024], shown[1024];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    ig_escape(shown, sizeof shown, text);
    fprintf(stderr, "ingot: %s\n", shown);
    exit(1);
}
