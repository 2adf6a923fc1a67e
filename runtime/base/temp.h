/* temp.h -- replacing files whole: a file takes its name only when it is complete. */
#ifndef IG_TEMP_H
#define IG_TEMP_H

#include <signal.h>

#include "file.h"

/* A file that takes the name `out` only when it is complete. */
struct ig_temp {
    const char *out;
    char *to;              /* `out`, or what it links to: the link stays */
    char *name;            /* to.partial-PID; a signal that ends the process removes it */
    int fd;                /* to write to */
    struct sigaction xfsz; /* SIGXFSZ is ignored meanwhile: a limit is an error, not a death */
};
/* IG_IO unless `out` is free or names a regular file: a device or a FIFO is not replaced. */
enum ig_err ig_temp_check(const char *out, struct ig_why *why);
/* Check, and create the file beside `out` (beside what it links to, if it is a link), which must
 * live on.  On error nothing is left; what a killed process left there is removed.  Signals are
 * caught from here on (stop.h). */
enum ig_err ig_temp_open(struct ig_temp *t, const char *out, unsigned mode, struct ig_why *why);
/* Close and rename.  On error the file is gone, as after ig_temp_drop. */
enum ig_err ig_temp_keep(struct ig_temp *t, struct ig_why *why);
/* Close and remove; nothing after keep or drop. */
void ig_temp_drop(struct ig_temp *t);

#endif
