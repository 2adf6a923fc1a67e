/* tier_open.c -- start-up of what holds experts: tables, copies, and which way to read is faster.
 */
#include "state.h"
#include "arena.h"
#include "machine.h"

#include <stdio.h>
#include <string.h>

#if IG_MEM_SLOTS_BYTES

/* Experts read to measure. */
#define TRIES (IG_N_XSLOT < 8 ? IG_N_XSLOT : 8)

/* How many blocks from b on make up the expert at `at`, 0: none do. */
static uint32_t blocks_of(const struct ig_wfile *f, uint32_t b, uint64_t at, uint64_t bytes)
{
    uint32_t n = 0;
    uint64_t end = at;
    for (; b + n < f->h.n_block && end < at + bytes && f->blocks[b + n].off == end; n++)
        end += f->blocks[b + n].bytes;
    return end == at + bytes && n <= IG_WBLOCKS ? n : 0;
}

/* The weights file's blocks of each layer's first expert; the others follow, as many each. */
static enum ig_err find_blocks(struct ig_engine *e, struct ig_why *why)
{
    const struct ig_wfile *f = &e->file;
    uint32_t b = 0;
    for (int layer = 0; layer < IG_N_LAYER; layer++) {
        const struct ig_layer *l = &ig_layers[layer];
        if (l->ffn != IG_FFN_MOE) continue;
        while (b < f->h.n_block && f->blocks[b].off < l->expert_off) b++;
        const uint32_t per = blocks_of(f, b, l->expert_off, l->expert_stride);
        e->tier.block[layer] = b;
        e->tier.per_expert[layer] = per;
        for (uint32_t x = 0; x < IG_N_EXPERT; x++, b += per)
            if (per == 0 ||
                blocks_of(f, b, l->expert_off + x * l->expert_stride, l->expert_stride) != per)
                return ig_fail(why, IG_BAD_FILE,
                               "%s: blocks: want at most %d that are the %llu bytes of layer %d "
                               "expert %u, as many as of the layer's others",
                               f->path, IG_WBLOCKS, (unsigned long long)l->expert_stride, layer, x);
    }
    return IG_OK;
}

#ifdef IG_POLICY_HOT
static const struct ig_policy_arg policy_arg = { .table = IG_POLICY_HOT };
#else
static const struct ig_policy_arg policy_arg = { .table = NULL }; /* the policy's own numbers */
#endif

static enum ig_err make_tables(struct ig_engine *e, struct ig_why *why)
{
    const struct ig_xgeom g = { IG_N_LAYER, IG_N_EXPERT,  IG_N_SET,
                                IG_N_XSLOT, ig_xc_set_of, ig_xc_first };
    unsigned char *mem = e->mem + IG_MEM_XCACHE_OFF;
    const size_t moves = (IG_N_XSLOT + IG_N_SPARE) * sizeof(struct ig_move);
    const size_t bytes = ig_xcache_bytes(&g, &IG_POLICY, &policy_arg);
    if (bytes == 0 || moves + bytes > IG_MEM_XCACHE_BYTES)
        return ig_fail(why, IG_FAIL, "cache: the plan has %llu bytes for its tables, they take %zu",
                       (unsigned long long)IG_MEM_XCACHE_BYTES, moves + bytes);
    memset(mem, 0, moves);
    e->tier.move = (struct ig_move *)(void *)mem;
    ig_xcache_init(&e->tier.cache, &g, &IG_POLICY, &policy_arg, mem + moves);
    return IG_OK;
}

static void stop(struct ig_tier *t)
{
    ig_mover_stop(&t->mover);
    ig_copy_file_close(&t->copy);
}

static enum ig_err start(struct ig_engine *e, int io, struct ig_why *why)
{
    struct ig_tier *t = &e->tier;
    const struct ig_copy_file_conf c = { .fd = e->file.fd,
                                         .path = e->file.path,
                                         .base = t->base,
                                         .cached = io == IG_COPY_CACHED,
                                         .plain = io == IG_COPY_PLAIN,
                                         .depth = IG_COPY_DEPTH,
                                         .to = e->mem + IG_MEM_SLOTS_OFF,
                                         .bytes = IG_MEM_SLOTS_BYTES };
    enum ig_err err = ig_copy_file_open(&t->copy, &c, &t->how, why);
    if (err == IG_OK)
        err = ig_mover_start(&t->mover, &t->copy, IG_PIECE_BYTES, IG_PREFETCH_DEPTH, why);
    return err;
}

/* Bytes a second of a few experts spread over the file; 0 when one could not be read. */
static double try_reading(struct ig_engine *e)
{
    struct ig_tier *t = &e->tier;
    struct ig_move *v[TRIES];
    const int n = TRIES;
    uint64_t bytes = 0;
    int ready = 0;
    const double t0 = ig_seconds();
    for (int i = 0; i < n; i++) {
        int layer = i * IG_N_LAYER / n;
        while (ig_layers[layer].ffn != IG_FFN_MOE) layer++;
        const int x = i * IG_N_EXPERT / n;
        v[i] = ig_tier_prepare(e, layer, x, i);
        bytes += v[i]->bytes;
    }
    ig_mover_submit(&t->mover, v, n, 1);
    for (int i = 0; i < n; i++) ready += ig_move_wait(v[i]) == IG_MOVE_ARRIVED;
    return ready == n ? (double)bytes / (ig_seconds() - t0) : 0;
}

/* Around the page cache, unless memory is left for all experts and reading them from there, once
 * they are in it, is faster. */
static enum ig_err choose(struct ig_engine *e, struct ig_why *why)
{
    struct ig_tier *t = &e->tier;
    enum ig_err err = start(e, (int)IG_COPY_WAY, why);
    if (err != IG_OK) return err;
    t->direct_bw = try_reading(e);
    if (IG_COPY_WAY != IG_COPY_AUTO || ig_memory_left() < IG_DATA_BYTES - IG_RESIDENT_BYTES)
        return IG_OK;
    stop(t);
    err = start(e, IG_COPY_CACHED, why);
    if (err != IG_OK) return err;
    try_reading(e);
    t->cached_bw = try_reading(e);
    if (t->cached_bw > t->direct_bw) return IG_OK;
    stop(t);
    return start(e, IG_COPY_DIRECT, why);
}

static void report(struct ig_engine *e)
{
    struct ig_tier *t = &e->tier;
    if (!t->how.ring && IG_COPY_WAY != IG_COPY_PLAIN)
        ig_downgrade_add(e, "copies: io_uring is not allowed here, reading with pread");
    if (t->how.ring && !t->how.registered)
        ig_downgrade_add(e, "copies: slots are not registered (the limit of locked memory)");
    if (!t->how.direct && IG_COPY_WAY == IG_COPY_DIRECT)
        ig_downgrade_add(e, "copies: no direct reads on this file system");
    const int cached = t->cached_bw > t->direct_bw; /* how fast the disk is matters less */
    if (!cached && t->direct_bw > 0 && t->direct_bw < 0.8 * (double)IG_HW_DISK_BW)
        ig_downgrade_add(e, "disk: %.2f GB/s now, %.2f GB/s in the plan", t->direct_bw / 1e9,
                         (double)IG_HW_DISK_BW / 1e9);
}

enum ig_err ig_tier_open(struct ig_engine *e, const struct ig_open *o, struct ig_why *why)
{
    struct ig_tier *t = &e->tier;
    t->base = e->file.base + e->file.h.data.off;
    enum ig_err err = find_blocks(e, why);
    if (err == IG_OK) err = make_tables(e, why);
#if IG_MEM_RLP_BYTES
    if (err == IG_OK) err = ig_ahead_open(e, why);
#endif
    if (err == IG_OK) err = choose(e, why);
    if (err != IG_OK) return err;
    report(e);
    for (int i = 0; i < IG_N_XSLOT + IG_N_SPARE; i++) t->move[i].state = IG_MOVE_NONE;
    t->poison = o->poison;
    if (o->poison) memset(e->mem + IG_MEM_SLOTS_OFF, 0xff, IG_MEM_SLOTS_BYTES);
    err = ig_tier_warm(e, why);
    ig_expert_stats_reset(e); /* what start-up read is no run's */
    return err;
}

void ig_tier_close(struct ig_engine *e) { stop(&e->tier); }

const char *ig_expert_where(const struct ig_engine *e)
{
    static char text[160];
    const struct ig_tier *t = &e->tier;
    if (e->device) return "all in the device's memory";
    snprintf(text, sizeof text,
             "%d of %d in slots, others %s with %s%s; tried: %.2f GB/s around the page cache%s%.2f",
             IG_N_XSLOT, IG_N_LAYER * IG_N_EXPERT,
             t->how.direct ? "read directly" : "from the page cache",
             t->how.ring ? "io_uring" : "pread", t->how.registered ? ", registered" : "",
             t->direct_bw / 1e9, t->cached_bw > 0 ? ", through it " : ", not tried through it ",
             t->cached_bw / 1e9);
    return text;
}

#else

const char *ig_expert_where(const struct ig_engine *e)
{
#if IG_XC
    static char text[200];
    if (e->device) {
        snprintf(text, sizeof text,
                 "%d sets of %d slots in the device's memory%s, %.0f %% of the rest within its "
                 "reach",
                 e->miss.sets, e->miss.ways, IG_XC_STATIC ? ", filled at start for good" : "",
                 100.0 * (double)e->miss.reach / (double)(IG_DATA_BYTES - IG_RESIDENT_BYTES));
        return text;
    }
#endif
    if (e->device) return "all in the device's memory";
    return IG_TIER == IG_TIER_MMAP ? "mapped from the file" : "all in memory";
}

#endif
