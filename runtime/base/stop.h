/* stop.h -- Ctrl-C and termination as a flag that long loops look at.
 *
 * Until ig_stop_catch the signals end the process as usual: start-up has
 * nothing to tidy.  Afterwards the first one sets the flag; a second one of its
 * kind that comes before the loop has answered ends the process at once.
 */
#ifndef IG_STOP_H
#define IG_STOP_H

#include <signal.h>

void ig_stop_catch(void);
int ig_stop_signal(void); /* 0, or the signal that asked us to stop */
void ig_stop_clear(void);
/* The flag itself, for code that only polls: not 0 means stop. */
const volatile sig_atomic_t *ig_stop_flag(void);
/* A file to remove should a second signal or exit end the process, until it is spared; the name
 * must live on.  At most IG_STOP_FILES at a time. */
enum { IG_STOP_FILES = 4 };
void ig_stop_unlink(const char *path);
void ig_stop_spare(const char *path);

#endif
