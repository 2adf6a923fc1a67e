/* probe.h -- between the probe's files: the machine's, its GPU's, the checksum's. */
#ifndef PROBE_H
#define PROBE_H

#include <stdint.h>

struct gpu_found {
    char name[128];
    int major, minor, driver, unified, pinned;
    uint64_t total, free; /* bytes of its memory; what a program can have of it */
    double vram;          /* bytes a second: reading it */
    double down, up;      /* to the device, from it, alone */
    double both;          /* each way at the same time */
    double busy_down, cpu; /* the link's and the cores' while both read memory */
};

/* NULL, or why there is no GPU to measure.  `cpu` measures the cores' rate. */
const char *probe_gpu(struct gpu_found *g, double (*cpu)(void *ctx), void *ctx);

/* Bytes a second at which one core checks memory that no cache holds (probe_hash.c). */
double probe_hash(const void *memory, uint64_t bytes);

double now(void);

#endif
