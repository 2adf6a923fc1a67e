/* device.h -- one CUDA device as the engine uses it: memory, kernels, one stream, graphs.
 *
 * device.c is the only file that knows cudart.  Opening returns errors; later
 * calls end the process, since nothing can mend a failed launch.
 */
#ifndef IG_DEVICE_H
#define IG_DEVICE_H

#include "base.h"

struct ig_device;

/* Programs compiled at build time (device_image.c): one for one row, one for a batch. */
enum { IG_IMAGE_STEP, IG_IMAGE_BATCH, IG_N_IMAGE };
extern const unsigned char ig_image_step[], ig_image_batch[];

/* Open device 0 for a plan that wants `bytes` on architecture `arch` ("sm_89").
 * IG_NO_DEVICE when there is none that the build can use; IG_NO_MEM, with
 * numbers, when it has too little free memory. */
enum ig_err ig_device_open(struct ig_device **d, const char *arch, uint64_t bytes,
                           struct ig_why *why);
/* Bytes a second from pinned memory to the device, measured now beside the arena; 0: no memory left
 * for it. */
double ig_device_link(struct ig_device *d);
/* What was asked of the device so far: graphs, kernels and copies started, waits of the host for
 * it, and memory taken of it or pinned for it. */
struct ig_device_calls {
    uint64_t graphs, kernels, copies, waits, takes;
    uint64_t fetches; /* copies that nobody waits for: ig_device_fetch */
};
struct ig_device_calls ig_device_calls(const struct ig_device *d);
void ig_device_close(struct ig_device *d);
/* "NVIDIA H200, sm_90, driver 13.0, 140.2 GB" */
const char *ig_device_name(const struct ig_device *d);
int ig_device_units(const struct ig_device *d); /* multiprocessors */
/* Device memory that the process has taken, context and kernels included. */
uint64_t ig_device_used(const struct ig_device *d);

/* The arena in device memory. */
unsigned char *ig_device_mem(const struct ig_device *d);
/* Host memory that the device can read; *on_device is its address there.  NULL: none left. */
void *ig_device_pin(struct ig_device *d, uint64_t bytes, void **on_device);
void ig_device_unpin(struct ig_device *d, void *host);
/* Let the device read [host, host + bytes) of this process's memory at the same address, from the
 * start on as far as the system allows: the first `now` bytes before this returns, the rest by a
 * thread of its own; `progress` as in struct ig_open.  -> bytes it can reach now. */
uint64_t ig_device_reach(struct ig_device *d, void *host, uint64_t bytes, uint64_t now,
                         void (*progress)(const char *what, uint64_t done, uint64_t total));
/* The same, later; 1 while there may come more. */
uint64_t ig_device_reached(struct ig_device *d);
int ig_device_reaching(struct ig_device *d);
/* End it, and wait for what is under way. */
void ig_device_unreach(struct ig_device *d);
void ig_device_fill(struct ig_device *d, uint64_t off, int byte, uint64_t bytes);
/* Copy into the arena and wait; any thread. */
enum ig_err ig_device_put(struct ig_device *d, uint64_t off, const void *src, uint64_t bytes,
                          struct ig_why *why);

/* A kernel of an image, by name; `shared` bytes of memory that its launches will ask for. */
struct ig_kernel {
    void *handle;
    int threads, shared;
    int alone; /* starts only when the one before has ended; others are put in place early */
};
enum ig_err ig_device_kernel(struct ig_device *d, struct ig_kernel *k, int image, const char *name,
                             struct ig_why *why);

/* In stream order; args is the kernel's one argument. */
void ig_device_launch(struct ig_device *d, const struct ig_kernel *k, int x, int y, int z,
                      const void *args);
void ig_device_get(struct ig_device *d, void *host, const void *src, uint64_t bytes);
void ig_device_wait(struct ig_device *d);
/* Kernels are still running (or could not: then the process ends). */
int ig_device_busy(struct ig_device *d);

/* Copies beside the kernels, in a stream of their own: `slot` (0, 1) names a buffer.  A copy into
 * it starts when the kernels launched before ig_device_free(slot) have ended; kernels launched
 * after ig_device_filled(slot) see it. */
void ig_device_copy(struct ig_device *d, void *dst, const void *host, uint64_t bytes, int slot);
/* In the same stream, for who looks at *flag in device memory: `bytes` of host memory, then *value,
 * a word of pinned memory that stays as it is until then. */
void ig_device_fetch(struct ig_device *d, void *dst, const void *host, uint64_t bytes, void *flag,
                     const uint32_t *value);
/* From now on the copies' link carries `bw` bytes a second at most; 0: as many as it can. */
void ig_device_slow(struct ig_device *d, uint64_t bw);
void ig_device_filled(struct ig_device *d, int slot);
void ig_device_free(struct ig_device *d, int slot);

/* What is launched between the two becomes one graph instead of running. */
void ig_device_record(struct ig_device *d);
void ig_device_recorded(struct ig_device *d);
void ig_device_replay(struct ig_device *d);

#endif
