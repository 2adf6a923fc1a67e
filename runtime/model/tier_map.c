/* tier_map.c -- experts without slots: in the arena, or, the baseline, where the system's page
 * cache has them.
 *
 * Experts that are mapped are not checked; file/wmap.h sees to it that the file does not change
 * while they are in use, and says why when it would or when a page cannot be read.
 */
#include "state.h"
#include "wmap.h"

#include <sys/mman.h>

#if !IG_MEM_SLOTS_BYTES

enum ig_err ig_tier_open(struct ig_engine *e, const struct ig_open *o, struct ig_why *why)
{
    struct ig_why no;
    (void)o;
    if (IG_TIER != IG_TIER_MMAP) return IG_OK;
    if (ig_wmap_plain(&e->file, &e->tier.map, IG_DATA_BYTES, &no) == IG_OK) return IG_OK;
    return ig_fail(why, IG_IO, "%s: cannot map its experts: %s", e->file.path, no.text);
}

void ig_tier_close(struct ig_engine *e)
{
    if (e->tier.map) munmap((void *)(uintptr_t)e->tier.map, IG_DATA_BYTES);
}

#endif
