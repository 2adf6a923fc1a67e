/* base.c -- error texts and the two ways to report one. */
#include "base.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    int code;
    const char *text;
} table[] = {
#define X(name, code, text) [IG_##name] = { code, text },
    IG_ERRORS(X)
#undef X
};

int ig_exit_code(enum ig_err err) { return table[err].code; }

const char *ig_err_text(enum ig_err err) { return table[err].text; }

enum ig_err ig_fail(struct ig_why *why, enum ig_err err, const char *fmt, ...)
{
    /* Through a buffer of its own, so that why->text may be an argument. */
    char text[sizeof why->text];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);

    /* Names from hostile files end up here: keep the message one line, or lines that are
     * seen to go on with it, and keep their escape sequences away from the terminal. */
    for (char *p = text; *p; p++)
        if (((unsigned char)*p < 0x20 && strncmp(p, "\n  ", 3) != 0) || *p == 0x7f) *p = '?';
    memcpy(why->text, text, sizeof text);
    return err;
}

_Noreturn void ig_die(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    fputs("ingot: ", stderr);
    vfprintf(stderr, fmt, ap);
    fputc('\n', stderr);
    va_end(ap);
    exit(1);
}
