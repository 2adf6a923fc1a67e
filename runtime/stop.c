/* stop.c -- Ctrl-C and termination as a flag that long loops look at. */
#include "stop.h"

#include <signal.h>
#include <stddef.h>

static volatile sig_atomic_t stop;

static void on_signal(int sig)
{
    if (stop) {
        signal(sig, SIG_DFL);
        raise(sig); /* delivered when this handler returns */
    }
    stop = sig;
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

void ig_stop_clear(void) { stop = 0; }

const volatile sig_atomic_t *ig_stop_flag(void) { return &stop; }
