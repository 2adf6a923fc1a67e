/* stop.c -- Ctrl-C and termination as a flag that long loops look at. */
#include "stop.h"

#include "base.h"

#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

static volatile sig_atomic_t stop, seen[NSIG];
static const char *_Atomic leftover[IG_STOP_FILES];

static void unlink_all(void)
{
    for (int i = 0; i < IG_STOP_FILES; i++) {
        const char *path = atomic_load(&leftover[i]);
        if (path) unlink(path);
    }
}

/* A supervisor may send two kinds at once: only a repeated one is impatience. */
static void on_signal(int sig)
{
    if (seen[sig]) {
        unlink_all();
        signal(sig, SIG_DFL);
        raise(sig); /* delivered when this handler returns */
    }
    seen[sig] = 1;
    if (!stop) stop = sig;
}

void ig_stop_catch(void)
{
    static const int sigs[] = { SIGINT, SIGTERM, SIGHUP };
    for (size_t i = 0; i < sizeof sigs / sizeof *sigs; i++) {
        struct sigaction sa = { .sa_handler = on_signal };
        struct sigaction old;
        /* A program started in the background with SIGINT ignored (nohup, sh &) keeps it so.
         * No SA_RESTART: a read from the terminal must return. */
        if (sigaction(sigs[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN)
            sigaction(sigs[i], &sa, NULL);
    }
}

int ig_stop_signal(void) { return stop; }

void ig_stop_clear(void)
{
    stop = 0;
    for (int i = 0; i < NSIG; i++) seen[i] = 0;
}

const volatile sig_atomic_t *ig_stop_flag(void) { return &stop; }

/* Files are opened and closed by one thread; only the handler reads beside it. */
static void exchange(const char *from, const char *to)
{
    int i = 0;
    while (i < IG_STOP_FILES && atomic_load(&leftover[i]) != from) i++;
    IG_ASSERT(i < IG_STOP_FILES);
    if (i < IG_STOP_FILES) atomic_store(&leftover[i], to);
}

/* exit: a library's, too, as libgomp's when the system has no thread left. */
void ig_stop_unlink(const char *path)
{
    static int at_exit;
    if (!at_exit) at_exit = atexit(unlink_all) == 0;
    exchange(NULL, path);
}

void ig_stop_spare(const char *path) { exchange(path, NULL); }
