/* progress.c -- one line on the terminal that says how far a long step has come. */
#include "progress.h"

#include "machine.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static double started, shown; /* seconds; 0: no line is up */
static char current[32];      /* what the line is about */

static void put(const char *text, int n)
{
    const ssize_t w = write(STDERR_FILENO, text, (size_t)n);
    (void)w; /* decoration: there is nothing to do about a failure */
}

void ig_progress_end(void)
{
    if (shown > 0) put("\r\033[K", 4);
    started = shown = 0;
    current[0] = 0;
}

/* 1 when it is time to draw: at most ten times a second, never for short steps. */
static int due(const char *what, uint64_t done, uint64_t total)
{
    static int terminal = -1;
    if (terminal < 0) terminal = isatty(STDERR_FILENO);
    if (!terminal) return 0;
    if (done >= total) {
        ig_progress_end();
        return 0;
    }
    const double now = ig_seconds();
    if (strncmp(what, current, sizeof current - 1) != 0) {
        ig_progress_end();
        snprintf(current, sizeof current, "%s", what);
        started = now;
    }
    if (now - started < 0.2 || now - shown < 0.1) return 0;
    shown = now;
    return 1;
}

void ig_progress_bytes(const char *what, uint64_t done, uint64_t total)
{
    if (!due(what, done, total)) return;
    char line[160];
    const double s = shown - started;
    const int n = snprintf(line, sizeof line, "\r%.31s  %3d %%  %.1f of %.1f GB  %.2f GB/s\033[K",
                           what, (int)(100.0 * (double)done / (double)total), (double)done / 1e9,
                           (double)total / 1e9, (double)done / 1e9 / s);
    put(line, n);
}

void ig_progress_count(const char *what, uint64_t done, uint64_t total)
{
    if (!due(what, done, total)) return;
    char line[160];
    const double s = shown - started;
    const int n = snprintf(line, sizeof line, "\r%.31s  %3d %%  %llu of %llu  %.0f/s\033[K", what,
                           (int)(100.0 * (double)done / (double)total), (unsigned long long)done,
                           (unsigned long long)total, (double)done / s);
    put(line, n);
}
