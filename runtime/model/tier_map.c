/* tier_map.c -- experts without slots: in the arena, or, the baseline, where the system's page
 * cache has them.
 *
 * A mapped file that is cut short while in use ends the program with a signal on the next access;
 * it shall say why.  One that is overwritten cannot be told from a good one: only slots are
 * checked.
 */
#include "state.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#if !IG_MEM_SLOTS_BYTES

static struct {
    const unsigned char *map;
    const char *path;
} mapped;

static void say(const char *text)
{
    if (write(STDERR_FILENO, text, strlen(text)) < 0) _exit(1);
}

static void bus_error(int sig, siginfo_t *info, void *context)
{
    const unsigned char *at = info->si_addr;
    (void)context;
    if (mapped.map && at >= mapped.map && at < mapped.map + IG_DATA_BYTES) {
        say("ingot: ");
        say(mapped.path);
        say(": cannot read mapped experts: the file was cut short while in use, or the disk "
            "failed\n");
        _exit(1);
    }
    signal(sig, SIG_DFL); /* not ours: the same access again, and the system's answer */
}

enum ig_err ig_tier_open(struct ig_engine *e, const struct ig_open *o, struct ig_why *why)
{
    (void)o;
    if (IG_TIER != IG_TIER_MMAP) return IG_OK;
    void *p = mmap(NULL, IG_DATA_BYTES, PROT_READ, MAP_SHARED, e->file.fd,
                   (off_t)(e->file.base + e->file.h.data.off));
    if (p == MAP_FAILED)
        return ig_fail(why, IG_IO, "%s: cannot map: %s", e->file.path, strerror(errno));
    e->tier.map = p;
    mapped.map = p;
    mapped.path = e->file.path;
    const struct sigaction act = { .sa_sigaction = bus_error, .sa_flags = SA_SIGINFO };
    sigaction(SIGBUS, &act, NULL);
    return IG_OK;
}

void ig_tier_close(struct ig_engine *e)
{
    if (!e->tier.map) return;
    mapped.map = NULL;
    munmap((void *)(uintptr_t)e->tier.map, IG_DATA_BYTES);
}

#endif
