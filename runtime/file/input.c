/* input.c -- whole files and lines from outside. */
#include "input.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A growing buffer that always has room for a NUL. */
struct bytes {
    char *at;
    size_t n, cap;
};

static int bytes_room(struct bytes *b, size_t more)
{
    if (b->cap - b->n > more) return 1;
    const size_t cap = 2 * b->cap + more + 256;
    char *p = realloc(b->at, cap);
    if (!p) return 0;
    b->at = p;
    b->cap = cap;
    return 1;
}

static enum ig_err read_all(int fd, const char *name, struct bytes *b, struct ig_why *why)
{
    for (;;) {
        if (!bytes_room(b, 1 << 16))
            return ig_fail(why, IG_NO_MEM, "%s: no memory after %zu bytes", name, b->n);
        const ssize_t n = read(fd, b->at + b->n, 1 << 16);
        if (n == 0) break;
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return ig_fail(why, IG_IO, "%s: cannot read: %s", name, strerror(errno));
        b->n += (size_t)n;
    }
    b->at[b->n] = 0;
    return IG_OK;
}

enum ig_err ig_input_file(const char *path, char **data, size_t *bytes, struct ig_why *why)
{
    struct bytes b = { NULL, 0, 0 };
    const int is_stdin = strcmp(path, "-") == 0;
    const char *name = is_stdin ? "standard input" : path;
    const int fd = is_stdin ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return ig_fail(why, IG_IO, "%s: cannot open: %s", name, strerror(errno));

    const enum ig_err err = read_all(fd, name, &b, why);
    if (!is_stdin) close(fd);
    if (err) {
        free(b.at);
        return err;
    }
    *data = b.at;
    *bytes = b.n;
    return IG_OK;
}

/* Brackets too: a list is often pasted as a program printed it. */
static int is_separator(char c)
{
    return c == ',' || c == ' ' || c == '[' || c == ']' || (c >= '\t' && c <= '\r');
}

/* The list in {"ids": [1, 2]}, as tokenize -o json prints it: its end is in *end. */
static const char *json_list(const char *text, const char **end)
{
    int head = 0, tail = 0;
    *end = text + strlen(text);
    sscanf(text, " { \"ids\" :%n", &head);
    if (!head) return text;
    while (*end > text + head && is_separator((*end)[-1])) (*end)--;
    if (*end > text + head && (*end)[-1] == '}') (*end)--, tail = 1;
    return tail ? text + head : text;
}

enum ig_err ig_input_ids(const char *what, const char *text, int n_vocab, int32_t **ids, size_t *n,
                         struct ig_why *why)
{
    /* An id takes at least one digit and a separator. */
    int32_t *out = malloc((strlen(text) / 2 + 1) * sizeof *out);
    if (!out) return ig_fail(why, IG_NO_MEM, "%s: no memory for its ids", what);
    const char *end;
    *n = 0;
    text = json_list(text, &end);
    for (;;) {
        while (text < end && is_separator(*text)) text++;
        if (text == end) break;
        const char *start = text;
        int64_t v = 0;
        while (*text >= '0' && *text <= '9' && v < n_vocab) v = 10 * v + (*text++ - '0');
        if (text == start || v >= n_vocab || (text < end && !is_separator(*text))) {
            while (text < end && text < start + 32 && !is_separator(*text)) text++;
            free(out);
            return ig_fail(why, IG_USAGE, "%s: want token ids from 0 to %d, got \"%.*s\"", what,
                           n_vocab - 1, (int)(text - start), start);
        }
        out[(*n)++] = (int32_t)v;
    }
    *ids = out;
    return IG_OK;
}

size_t ig_input_strip(char *line, size_t n)
{
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        if (line[i] != 0x1b) {
            line[kept++] = line[i];
            continue;
        }
        /* ECMA-48: ESC [, parameters, one letter or the like; ESC O and one more of keypads. */
        if (i + 1 < n) i++;
        if (line[i] == 'O') i++;
        if (line[i] != '[') continue;
        for (i++; i < n && (line[i] < 0x40 || line[i] > 0x7e);) i++;
    }
    line[kept] = 0;
    return kept;
}

enum ig_err ig_input_line(char **line, size_t *bytes, struct ig_why *why)
{
    static char buf[4096]; /* read, but not yet given out: [lo, hi) */
    static size_t lo, hi;
    struct bytes b = { NULL, 0, 0 };
    int whole = 0, ended = 0;

    *line = NULL;
    while (!whole && !ended) {
        if (lo == hi) {
            const ssize_t n = read(STDIN_FILENO, buf, sizeof buf);
            if (n < 0 && errno != EINTR) {
                free(b.at);
                return ig_fail(why, IG_IO, "standard input: cannot read: %s", strerror(errno));
            }
            if (n < 0) break; /* the caller looks at the signal */
            lo = 0;
            hi = (size_t)n;
            ended = n == 0;
        }
        const char *nl = memchr(buf + lo, '\n', hi - lo);
        const size_t m = nl ? (size_t)(nl - (buf + lo)) : hi - lo;
        if (!bytes_room(&b, m)) {
            free(b.at);
            return ig_fail(why, IG_NO_MEM, "standard input: no memory for a line");
        }
        memcpy(b.at + b.n, buf + lo, m);
        b.n += m;
        whole = nl != NULL;
        lo += m + (size_t)whole;
    }
    if (!whole && !(ended && b.n > 0)) { /* nothing, or half a line and a signal */
        free(b.at);
        return IG_OK;
    }
    b.at[b.n] = 0;
    *line = b.at;
    *bytes = b.n;
    return IG_OK;
}
