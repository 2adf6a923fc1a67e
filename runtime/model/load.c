/* load.c -- the weights file into memory, in groups of blocks, each checked by the team.
 *
 * The plan says how: mapped, where the page cache has it (file/wmap.h), or copied into the arena;
 * then a block's checksum is made while it is in cache.  What cannot be mapped is copied.  For a
 * device every thread has pinned memory that a group goes through.
 */
#include "state.h"
#include "device.h"
#include "wmap.h"

#include <stdio.h>

#include <omp.h>

enum { READ_BYTES = 8 << 20 };          /* blocks are read in groups of about this size */
#define STAGE_BYTES (UINT64_C(1) << 30) /* most pinned memory, unless one group has more */

struct load {
    struct ig_engine *e;
    const struct ig_open *o;
    int mapped;           /* the file is where the arena's data would be */
    unsigned char *stage; /* NULL: straight into the arena */
    uint64_t stage_bytes; /* of one thread */
    uint64_t done, total; /* bytes; what lies behind total stays in the file */
    enum ig_err err;
    struct ig_why why;
};

static enum ig_err put(const struct load *ld, uint64_t off, const unsigned char *src,
                       uint64_t bytes, struct ig_why *why)
{
#if IG_DEVICE && !IG_XC
    if (ld->stage) return ig_device_put(ld->e->device, IG_VRAM_DATA_OFF + off, src, bytes, why);
#endif
    (void)ld, (void)off, (void)src, (void)bytes, (void)why;
    return IG_OK;
}

/* Data [off, off + bytes) at `dst`. */
static enum ig_err fetch(const struct load *ld, unsigned char *dst, uint64_t off, uint64_t bytes,
                         struct ig_why *why)
{
    const struct ig_wfile *f = &ld->e->file;
    if (ld->mapped) return ig_wmap_fetch(f, ld->e->mem + IG_MEM_DATA_OFF, off, bytes, why);
    return ig_wfile_read(f, dst, off, bytes, why);
}

/* Blocks [lo, hi): one read, then each block's checksum. */
static void load_blocks(struct load *ld, uint32_t lo, uint32_t hi)
{
    const struct ig_wfile *f = &ld->e->file;
    const uint64_t off = f->blocks[lo].off;
    const uint64_t bytes = f->blocks[hi - 1].off + f->blocks[hi - 1].bytes - off;
    unsigned char *dst = ld->stage
                             ? ld->stage + (uint64_t)omp_get_thread_num() * ld->stage_bytes
                             : (ld->e->mapped ? ld->e->mapped : ld->e->mem + IG_MEM_DATA_OFF) + off;
    struct ig_why why;

    enum ig_err err = fetch(ld, dst, off, bytes, &why);
    for (uint32_t i = lo; i < hi && err == IG_OK && ld->o->verify; i++)
        err = ig_wfile_check(f, i, dst + (f->blocks[i].off - off), &why);
    if (err == IG_OK) err = put(ld, off, dst, bytes, &why);
#pragma omp critical(ig_load)
    {
        if (err != IG_OK && ld->err == IG_OK) {
            ld->err = err;
            ld->why = why;
        }
        ld->done += bytes;
        if (ld->o->progress) ld->o->progress("loading weights", ld->done, ld->total);
    }
}

/* The end of the group of blocks that starts at lo. */
static uint32_t group_end(const struct load *ld, uint32_t lo)
{
    const struct ig_wfile *f = &ld->e->file;
    uint32_t hi = lo + 1;
    while (hi < f->h.n_block && f->blocks[hi].off < ld->total &&
           f->blocks[hi].off + f->blocks[hi].bytes - f->blocks[lo].off <= READ_BYTES)
        hi++;
    return hi;
}
static int group_at(const struct load *ld, uint32_t lo)
{
    const struct ig_wfile *f = &ld->e->file;
    return lo < f->h.n_block && f->blocks[lo].off < ld->total;
}

static void load_groups(struct load *ld, int threads)
{
#pragma omp parallel num_threads(threads)
#pragma omp single
    for (uint32_t lo = 0, hi; group_at(ld, lo); lo = hi) {
        hi = group_end(ld, lo);
#pragma omp task firstprivate(lo, hi)
        if (ld->err == IG_OK) load_blocks(ld, lo, hi);
    }
}

#if IG_DEVICE && !IG_XC
static uint64_t largest_group(const struct load *ld)
{
    const struct ig_wfile *f = &ld->e->file;
    uint64_t most = 0;
    for (uint32_t lo = 0, hi; group_at(ld, lo); lo = hi) {
        hi = group_end(ld, lo);
        const uint64_t bytes = f->blocks[hi - 1].off + f->blocks[hi - 1].bytes - f->blocks[lo].off;
        if (bytes > most) most = bytes;
    }
    return most;
}

static enum ig_err load_staged(struct load *ld, struct ig_why *why)
{
    struct ig_device *d = ld->e->device;
    int threads = ld->e->team.n;
    ld->stage_bytes = (largest_group(ld) + 4095) & ~UINT64_C(4095);
    while (threads > 1 && (uint64_t)threads * ld->stage_bytes > STAGE_BYTES) threads--;
    ld->stage = ig_device_pin(d, (uint64_t)threads * ld->stage_bytes, NULL);
    if (!ld->stage)
        return ig_fail(why, IG_NO_MEM, "device: cannot pin %llu MiB of host memory for loading",
                       (unsigned long long)((uint64_t)threads * ld->stage_bytes >> 20));
    load_groups(ld, threads);
    ig_device_unpin(d, ld->stage);
    return IG_OK;
}
#endif

uint64_t ig_load_skew(const struct ig_engine *e)
{
    return IG_LOAD_MAP ? e->file.base + e->file.h.data.off - IG_MEM_DATA_OFF : 0;
}

/* The file in place of the arena's data, if the plan wants that and the system allows it. */
static int map_file(struct ig_engine *e)
{
    struct ig_why why;
    if (!IG_LOAD_MAP) return 0;
    if (e->team.n_pool > 1) {
        snprintf(e->loaded, sizeof e->loaded, "copied, to each of %d memory nodes its part",
                 e->team.n_pool);
        return 0;
    }
    if (ig_wmap_open(&e->file, e->mem + IG_MEM_DATA_OFF, IG_MEM_DATA_BYTES, &why) == IG_OK)
        return 1;
    snprintf(e->loaded, sizeof e->loaded, "copied, not mapped: %.120s", why.text);
    return 0;
}

/* A block that begins in what is loaded ends there too: behind it is other memory. */
static enum ig_err check_ends(const struct load *ld, struct ig_why *why)
{
    const struct ig_wfile *f = &ld->e->file;
    for (uint32_t i = 0; group_at(ld, i); i++)
        if (f->blocks[i].bytes > ld->total - f->blocks[i].off)
            return ig_fail(why, IG_BAD_FILE,
                           "%s: block %u: want its end at %llu or before, where the experts that "
                           "stay in the file begin, got %llu",
                           f->path, i, (unsigned long long)ld->total,
                           (unsigned long long)(f->blocks[i].off + f->blocks[i].bytes));
    return IG_OK;
}

enum ig_err ig_load_weights(struct ig_engine *e, const struct ig_open *o, struct ig_why *why)
{
    struct load ld = { .e = e,
                       .o = o,
                       .total = e->device && !IG_XC ? IG_DATA_BYTES : IG_MEM_DATA_BYTES };
    const enum ig_err bad = check_ends(&ld, why);
    if (bad) return bad;
    snprintf(e->loaded, sizeof e->loaded, "copied");
    ld.mapped = map_file(e);
#if IG_DEVICE && !IG_XC
    if (e->device && !e->mapped) {
        const enum ig_err err = load_staged(&ld, why);
        if (err != IG_OK) return err;
    } else
#endif
        load_groups(&ld, e->team.n);
    if (ld.err != IG_OK) *why = ld.why;
    if (ld.mapped)
        snprintf(e->loaded, sizeof e->loaded, "mapped from the page cache, %s",
                 ig_wmap_lock(e->mem + IG_MEM_DATA_OFF, IG_MEM_DATA_BYTES)
                     ? "locked"
                     : "not locked (the limit of locked memory)");
    return ld.err;
}
