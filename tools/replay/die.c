/* die.c -- base.h's ig_die for a tool that links none of the engine but its tables. */
#include <stdio.h>
#include <stdlib.h>

#include "base.h"

_Noreturn void ig_die(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fputc('\n', stderr);
    exit(1);
}
