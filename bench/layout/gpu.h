/* gpu.h -- what gpu_kernels.cu offers and gpu_driver.c times. */
#ifndef LAYOUT_GPU_H
#define LAYOUT_GPU_H

#include <cuda_runtime.h>
#include <stdint.h>

#include "../../kernels/kernels.h"

/* `panels` panels one after the other; panel i meets activation row i / share. */
struct gemv {
    float *y;         /* [panels][16] */
    const uint8_t *w; /* device memory, or mapped host memory */
    const void *x;    /* [panels / share][cols] float, or [..][cols / 32] struct ig_xq */
    int cols, panels, share;
};

struct gpu_variant {
    const char *how;
    enum ig_fmt fmt;
    char layout; /* A or B */
    int parts;
    void (*launch)(const struct gemv *g, cudaStream_t stream);
};

#ifdef __cplusplus
extern "C" {
#endif
extern const struct gpu_variant gpu_variants[];
extern const int gpu_n_variants;
/* dst = `count` panels of `bytes`, panel i a copy of panel i * 37 % pool of src. */
void gpu_fill(uint8_t *dst, const uint8_t *src, size_t bytes, int count, int pool,
              cudaStream_t stream);
void gpu_read(const uint8_t *p, size_t bytes, float *sink, cudaStream_t stream);
#ifdef __cplusplus
}
#endif

#endif
