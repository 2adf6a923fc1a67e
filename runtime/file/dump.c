/* dump.c -- write arrays as one safetensors file.
 *
 * A u64 header length, a JSON header padded with spaces to a multiple of 8, the
 * data.  All little-endian, as the machines we run on.
 */
#include "dump.h"
#include "temp.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ENTRY = 256 }; /* most bytes of one tensor in the header */

static uint64_t tensor_bytes(const struct ig_array *t)
{
    return 4 * t->dim[0] * (t->n_dim == 2 ? t->dim[1] : 1);
}

/* The header with its length in front; malloc'ed. */
static char *make_header(const struct ig_array *t, int n, size_t *bytes)
{
    const size_t cap = 16 + (size_t)n * ENTRY;
    char *h = malloc(cap);
    if (!h) return NULL;
    uint64_t off = 0;
    size_t at = sizeof(uint64_t);
    h[at++] = '{';
    for (int i = 0; i < n; i++) {
        char shape[48];
        const uint64_t end = off + tensor_bytes(&t[i]);
        if (t[i].n_dim == 2)
            snprintf(shape, sizeof shape, "%llu,%llu", (unsigned long long)t[i].dim[0],
                     (unsigned long long)t[i].dim[1]);
        else
            snprintf(shape, sizeof shape, "%llu", (unsigned long long)t[i].dim[0]);
        at += (size_t)snprintf(
            h + at, cap - at,
            "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[%s],\"data_offsets\":[%llu,%llu]}", i ? "," : "",
            t[i].name, t[i].is_int ? "I32" : "F32", shape, (unsigned long long)off,
            (unsigned long long)end);
        off = end;
    }
    h[at++] = '}';
    while (at % 8 != 0) h[at++] = ' ';
    const uint64_t len = at - sizeof(uint64_t);
    memcpy(h, &len, sizeof len);
    *bytes = at;
    return h;
}

static int write_all(int fd, const void *data, uint64_t bytes)
{
    const char *p = data;
    while (bytes > 0) {
        const ssize_t n = write(fd, p, bytes < (1u << 30) ? bytes : 1u << 30);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return 0;
        p += n;
        bytes -= (uint64_t)n;
    }
    return 1;
}

enum ig_err ig_dump_write(const char *path, const struct ig_array *t, int n, struct ig_why *why)
{
    struct ig_temp to;
    size_t bytes = 0;
    char *header = make_header(t, n, &bytes);
    if (!header) return ig_fail(why, IG_NO_MEM, "%s: no memory for its header", path);

    enum ig_err err = ig_temp_open(&to, path, 0666, why);
    if (err == IG_OK) {
        int ok = write_all(to.fd, header, bytes);
        for (int i = 0; i < n && ok; i++) ok = write_all(to.fd, t[i].data, tensor_bytes(&t[i]));
        if (ok) {
            err = ig_temp_keep(&to, why);
        } else {
            err = ig_fail(why, IG_IO, "%s: cannot write: %s", path, strerror(errno));
            ig_temp_drop(&to);
        }
    }
    free(header);
    return err;
}
