/* dump.h -- write arrays as one safetensors file. */
#ifndef IG_DUMP_H
#define IG_DUMP_H

#include "base.h"

/* Elements are 4 bytes: float or int32. */
struct ig_array {
    char name[48]; /* letters, digits, dots and underscores: needs no escapes */
    int is_int;
    int n_dim; /* 1 or 2 */
    uint64_t dim[2];
    const void *data;
};

/* The file appears under its name only when it is complete. */
enum ig_err ig_dump_write(const char *path, const struct ig_array *t, int n, struct ig_why *why);

#endif
