/* say.h -- messages of replay, and its files, which take their names when they are complete. */
#ifndef IG_REPLAY_SAY_H
#define IG_REPLAY_SAY_H

#include <stdio.h>

#include "temp.h"

/* "replay: ..." on standard error, control bytes escaped; -1. */
int ig_say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

struct out_file {
    struct ig_temp to;
    FILE *f;
};
/* 0, or -1 after a message. */
int ig_out_file_open(struct out_file *o, const char *path);
int ig_out_file_keep(struct out_file *o);
void ig_out_file_drop(struct out_file *o);

#endif
