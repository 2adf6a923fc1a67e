/* out.c -- standard output and remarks, without stdio. */
#include "out.h"

#include "base.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char buf[1 << 16];
static size_t n_buf;
static int failed;       /* errno of the first failed write */
static char last = '\n'; /* byte that was written */

int ig_out_flush(void)
{
    size_t at = 0;
    while (!failed && at < n_buf) {
        const ssize_t n = write(STDOUT_FILENO, buf + at, n_buf - at);
        if (n > 0) last = buf[at + (size_t)n - 1];
        if (n >= 0)
            at += (size_t)n;
        else if (errno != EINTR)
            failed = errno;
    }
    n_buf = 0;
    return failed;
}

void ig_out(const void *bytes, size_t n)
{
    const char *from = bytes;
    while (n > 0 && !failed) {
        if (n_buf == sizeof buf) ig_out_flush();
        const size_t room = sizeof buf - n_buf, m = n < room ? n : room;
        memcpy(buf + n_buf, from, m);
        n_buf += m, from += m, n -= m;
    }
}

void ig_outf(const char *fmt, ...)
{
    char text[4096]; /* longer texts go through ig_out */
    va_list ap;
    va_start(ap, fmt);
    const int n = vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (n > 0) ig_out(text, (size_t)n < sizeof text ? (size_t)n : sizeof text - 1);
}

int ig_out_is_terminal(void) { return isatty(STDOUT_FILENO); }

/* 1 when a remark would go on in the line that the text left open: both go to the same
 * pipe or file.  At a terminal whoever prints text ends its line. */
static int same_line(void)
{
    struct stat out, err;
    return last != '\n' && !ig_out_is_terminal() && fstat(STDOUT_FILENO, &out) == 0 &&
           fstat(STDERR_FILENO, &err) == 0 && out.st_dev == err.st_dev && out.st_ino == err.st_ino;
}

void ig_note(const char *fmt, ...)
{
    char text[2048], shown[2048];
    va_list ap;
    va_start(ap, fmt);
    const int made = vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (made < 0) return;
    ig_out_flush(); /* keep the order that a terminal shows */
    size_t n = 0;
    if (same_line()) shown[n++] = last = '\n';
    ig_escape(shown + n, sizeof shown - 1 - n, text);
    n = strlen(shown);
    shown[n++] = '\n';
    for (size_t at = 0; at < n;) {
        const ssize_t w = write(STDERR_FILENO, shown + at, n - at);
        if (w < 0 && errno != EINTR) return; /* nobody is left to tell */
        if (w > 0) at += (size_t)w;
    }
}

void ig_note_written(const char *path, const char *more)
{
    struct stat st;
    if (stat(path, &st) == 0)
        ig_note("%s: written, %.*f MB%s", path, st.st_size < 100000 ? 3 : 1,
                (double)st.st_size / 1e6, more);
}
