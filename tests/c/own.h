/* own.h -- files of a test program's own: two builds of one program may run at the same time, and
 * they lie in out/, since /tmp may have no direct reads. */
#ifndef OWN_H
#define OWN_H

#include <stdio.h>
#include <unistd.h>

enum { OWN_BYTES = 64 };

static inline const char *own_file(char to[OWN_BYTES], const char *name)
{
    snprintf(to, OWN_BYTES, "out/tests/%s-%d", name, (int)getpid());
    return to;
}

#endif
