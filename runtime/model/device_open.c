/* device_open.c -- the start and the end of work on a device: its kernels, its memory, the graph.
 */
#include "device_int.h"

enum ig_err ig_step_find(struct ig_engine *e, struct ig_step_kernel *list, int n, int image,
                         struct ig_why *why)
{
    enum ig_err err = IG_OK;
    for (int i = 0; i < n && err == IG_OK; i++)
        err = ig_device_kernel(e->device, &list[i].k, image, list[i].name, why);
    return err;
}

/* The plan's bytes, or with --vram no more than that: fewer slots where there are any. */
static enum ig_err size_arena(struct ig_engine *e, const struct ig_open *o, struct ig_why *why)
{
    e->vram = IG_VRAM_BYTES;
#if IG_XC
    return ig_cache_size(e, o, why);
#else
    if (o->vram == 0 || o->vram >= e->vram) return IG_OK;
    return ig_fail(why, IG_NO_MEM,
                   "device: --vram: want %llu bytes or more, got %llu; the plan has all experts "
                   "there (build.lua --set "
                   "vram=BYTES makes one with a cache)",
                   (unsigned long long)e->vram, (unsigned long long)o->vram);
#endif
}

/* In the device's memory, or in memory that is its own and the CPU's. */
static enum ig_err place_weights(struct ig_engine *e, struct ig_why *why)
{
    void *seen = NULL;
    ig_step.weights = ig_device_mem(e->device) + IG_VRAM_DATA_OFF;
    if (!IG_UNIFIED) return IG_OK;
    e->mapped = ig_device_pin(e->device, IG_DATA_BYTES, &seen);
    ig_step.weights = seen;
    return e->mapped ? IG_OK
                     : ig_fail(why, IG_NO_MEM, "device: cannot map the weights' %llu MiB of memory",
                               (unsigned long long)IG_DATA_BYTES >> 20);
}

enum ig_err ig_step_open(struct ig_engine *e, const struct ig_open *o, struct ig_why *why)
{
    void *seen = NULL;
    enum ig_err err = size_arena(e, o, why);
    if (err == IG_OK) err = ig_device_open(&e->device, IG_DEVICE_ARCH, e->vram, why);
    if (err != IG_OK) return err;
    err = ig_step_kernels(e, why);
    if (err == IG_OK) err = ig_batch_kernels(e, why);
    if (err == IG_OK && !(ig_step.shared = ig_device_pin(e->device, sizeof *ig_step.shared, &seen)))
        err = ig_fail(why, IG_NO_MEM, "device: cannot pin %zu bytes of host memory",
                      sizeof *ig_step.shared);
    if (err != IG_OK) {
        ig_step_close(e);
        return err;
    }
    /* The kernels find a KV block by its number: the table says the same (kernels/cuda/kv.h). */
    for (int s = 0; s < IG_N_SEQ; s++)
        for (uint32_t i = 0; i < IG_N_KV_BLOCK / IG_N_SEQ; i++)
            IG_ASSERT(e->kv_table[s][i] == (uint32_t)s * (IG_N_KV_BLOCK / IG_N_SEQ) + i);
    ig_step.seen = seen;
    err = place_weights(e, why);
    if (err != IG_OK) {
        ig_step_close(e);
        return err;
    }
    ig_step_fill(ig_device_mem(e->device));
    const uint64_t work = IG_VRAM_DATA_OFF + IG_VRAM_DATA_BYTES;
    ig_device_fill(e->device, work, o->poison ? 0xff : 0, e->vram - work);
    ig_device_fill(e->device, IG_VRAM_ARRIVED_OFF, 0, IG_VRAM_ARRIVED_BYTES);
#if IG_XC
    err = ig_cache_open(e, why);
    if (err != IG_OK) ig_step_close(e);
#endif
    return err;
}

#if IG_XC
void ig_step_reach(struct ig_engine *e, const struct ig_open *o)
{
    ig_cache_reach(e, o, &ig_step.args.xc);
}
#endif

enum ig_err ig_step_put(struct ig_engine *e, uint64_t off, uint64_t bytes,
                        void (*fill)(struct ig_engine *e, float *to), struct ig_why *why)
{
    float *p = ig_device_pin(e->device, bytes, NULL);
    if (!p)
        return ig_fail(why, IG_NO_MEM, "device: cannot pin %llu bytes of host memory",
                       (unsigned long long)bytes);
    fill(e, p);
    const enum ig_err err = ig_device_put(e->device, off, p, bytes, why);
    ig_device_unpin(e->device, p);
    return err;
}

void ig_step_record(struct ig_engine *e)
{
    ig_step.args.n = ig_step.args.n_want = 1;
    ig_step.args.logits = ig_step.seen->logits + (IG_XC ? IG_N_LOGIT_ROW * IG_LOGIT_STRIDE : 0);
    ig_device_record(e->device);
    ig_step_all(e);
    ig_device_recorded(e->device);
}

void ig_step_close(struct ig_engine *e)
{
    if (!e->device) return;
    if (ig_step.shared) ig_device_unpin(e->device, ig_step.shared);
    if (e->mapped) ig_device_unpin(e->device, e->mapped);
    e->mapped = NULL;
#if IG_XC
    ig_cache_close(e);
#endif
    ig_device_close(e->device);
    ig_step.shared = NULL;
    e->device = NULL;
}
