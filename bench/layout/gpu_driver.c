/* gpu_driver.c -- checks every kernel of gpu_kernels.cu against a scalar sum, bit for bit,
 * then times it: as nodes of one CUDA graph that walks over several GB of weights.
 *
 * Prints CSV: where,shape,format,layout,parts,how,us,GB/s,wrong rows.
 *
 * nvcc -arch=sm_90 -O3 bench/layout/gpu_kernels.cu bench/layout/gpu_driver.c
 *      kernels/ref/panel.c -Xcompiler -ffp-contract=off,-mfma -o layout_gpu
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../kernels/math.h"
#include "../../kernels/panel.h"
#include "gpu.h"

enum { POOL = 64, MAX_X = 8, PR = IG_PANEL_ROWS, NODES = 200, REPLAYS = 5 };
#define DEVICE_BYTES ((size_t)4 << 30)
#define HOST_BYTES   ((size_t)1 << 30)

#define OK(call)                                                                                   \
    do {                                                                                           \
        const cudaError_t e_ = (call);                                                             \
        if (e_ != cudaSuccess) {                                                                   \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, cudaGetErrorString(e_)); \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

static const struct shape {
    const char *name;
    int cols, panels, share;
} shapes[] = {
    { "8 x 1536x2048", 2048, 8 * 96, 8 * 96 }, { "8 x 2048x768", 768, 8 * 128, 128 },
    { "4096x2048", 2048, 256, 256 },           { "2 x 28672x4096", 4096, 2 * 1792, 2 * 1792 },
    { "2 x 4096x14336", 14336, 2 * 256, 256 },
};
enum { N_SHAPE = sizeof shapes / sizeof shapes[0] };

static uint32_t seed = 1;
static uint32_t rnd(void)
{
    seed = seed * 1664525u + 1013904223u;
    return seed ^ seed >> 15;
}

/* One random standard row; scales and values of ordinary size. */
static void random_row(enum ig_fmt fmt, uint8_t *row, int cols)
{
    if (fmt == IG_BF16) {
        for (int i = 0; i < cols; i++) {
            const uint16_t h = ig_bf16_from_f32(((float)(rnd() & 0xffff) - 32768.0f) * 0x1p-20f);
            memcpy(row + 2 * i, &h, 2);
        }
        return;
    }
    const int bytes = fmt == IG_Q8_0 ? 34 : 18;
    for (int b = 0; b < cols / 32; b++, row += bytes) {
        const uint16_t d = ig_fp16_from_f32(0.001f + (float)(rnd() & 0xffff) * 0x1p-24f);
        memcpy(row, &d, 2);
        for (int i = 2; i < bytes; i++) row[i] = (uint8_t)(rnd() >> 8);
    }
}

/* Layout B: see cpu.c. */
static void pack_b(enum ig_fmt fmt, uint8_t *panel, const uint8_t *const *row, int cols)
{
    for (int r = 0; r < PR; r++) {
        if (fmt == IG_BF16) {
            for (int c = 0; c < cols; c += 8)
                memcpy(panel + (size_t)c * 32 + r * 16, row[r] + 2 * c, 16);
            continue;
        }
        for (int b = 0; b < cols / 32; b++) {
            uint8_t *tile = panel + (size_t)b * (fmt == IG_Q8_0 ? 544 : 288);
            const uint8_t *std = row[r] + (size_t)b * (fmt == IG_Q8_0 ? 34 : 18);
            memcpy(tile + 2 * r, std, 2);
            if (fmt == IG_Q4_0)
                memcpy(tile + 32 + 16 * r, std + 2, 16);
            else
                for (int i = 0; i < 32; i++)
                    tile[32 + i / 16 * 256 + 16 * r + i % 16] = std[2 + i] ^ 0x80;
        }
    }
}

/* The definition of kernels.h with `parts` parts. */
static float scalar(enum ig_fmt fmt, const uint8_t *row, const void *x, int cols, int parts)
{
    float a[16] = { 0 };
    if (fmt == IG_BF16) {
        for (int c = 0; c < cols; c++) {
            uint16_t h;
            memcpy(&h, row + 2 * c, 2);
            float *p = &a[c / 2 % parts];
            *p = fmaf(ig_bf16_to_f32(h), ((const float *)x)[c], *p);
        }
    } else {
        const struct ig_xq *xq = x;
        for (int b = 0; b < cols / 32; b++) {
            const uint8_t *std = row + (size_t)b * (fmt == IG_Q8_0 ? 34 : 18);
            uint16_t d;
            int s = 0;
            memcpy(&d, std, 2);
            for (int i = 0; i < 32; i++) {
                const int w = fmt == IG_Q8_0 ? (int8_t)std[2 + i]
                              : i < 16       ? (std[2 + i] & 15) - 8
                                             : (std[2 + i - 16] >> 4) - 8;
                s += w * xq[b].q[i];
            }
            float *p = &a[b % parts];
            *p = fmaf(ig_fp16_to_f32(d) * xq[b].d, (float)s, *p);
        }
    }
    for (int h = parts / 2; h; h /= 2)
        for (int i = 0; i < h; i++) a[i] += a[i + h];
    return a[0];
}

/* Everything of one shape and format: rows, both packings, activations, expected results. */
struct job {
    const struct shape *shape;
    enum ig_fmt fmt;
    size_t panel_bytes, x_bytes;
    uint8_t *pool[2]; /* device: POOL panels in layout A, B */
    uint8_t *x;       /* device */
    float *want[3];   /* [MAX_X][POOL][16] for 4, 8, 16 parts */
};

static struct job make_job(const struct shape *shape, enum ig_fmt fmt)
{
    struct job j = { .shape = shape, .fmt = fmt };
    const int cols = shape->cols, n_x = shape->panels / shape->share;
    const size_t row_bytes = ig_fmt_row_bytes(fmt, cols);
    j.panel_bytes = ig_panel_bytes(fmt, cols);
    j.x_bytes = fmt == IG_BF16 ? (size_t)cols * 4 : (size_t)cols / 32 * sizeof(struct ig_xq);
    uint8_t *rows = malloc(row_bytes * PR * POOL), *x = malloc(j.x_bytes * MAX_X);
    uint8_t *packed[2] = { malloc(j.panel_bytes * POOL), malloc(j.panel_bytes * POOL) };
    for (int i = 0; i < POOL * PR; i++) random_row(fmt, rows + row_bytes * (size_t)i, cols);
    for (int i = 0; i < n_x * cols && fmt == IG_BF16; i++)
        ((float *)(void *)x)[i] = ((float)(rnd() & 0xffff) - 32768.0f) * 0x1p-15f;
    for (int b = 0; b < n_x * cols / 32 && fmt != IG_BF16; b++) {
        struct ig_xq *xq = (struct ig_xq *)(void *)x + b;
        xq->d = (float)(rnd() & 0xffff) * 0x1p-22f;
        xq->sum = 0;
        for (int i = 0; i < 32; i++) xq->sum += xq->q[i] = (int8_t)((int)(rnd() % 255) - 127);
    }
    for (int p = 0; p < POOL; p++) {
        const uint8_t *row[PR];
        for (int r = 0; r < PR; r++) row[r] = rows + row_bytes * (size_t)(p * PR + r);
        ig_panel_pack(fmt, packed[0] + j.panel_bytes * (size_t)p, (const void *const *)row, PR,
                      cols);
        pack_b(fmt, packed[1] + j.panel_bytes * (size_t)p, row, cols);
    }
    for (int k = 0; k < 3; k++) {
        j.want[k] = malloc(sizeof(float) * MAX_X * POOL * PR);
        for (int t = 0; t < n_x; t++)
            for (int i = 0; i < POOL * PR; i++)
                j.want[k][t * POOL * PR + i] = scalar(fmt, rows + row_bytes * (size_t)i,
                                                      x + j.x_bytes * (size_t)t, cols, 4 << k);
    }
    for (int l = 0; l < 2; l++) {
        OK(cudaMalloc((void **)&j.pool[l], j.panel_bytes * POOL));
        OK(cudaMemcpy(j.pool[l], packed[l], j.panel_bytes * POOL, cudaMemcpyHostToDevice));
        free(packed[l]);
    }
    OK(cudaMalloc((void **)&j.x, j.x_bytes * MAX_X));
    OK(cudaMemcpy(j.x, x, j.x_bytes * MAX_X, cudaMemcpyHostToDevice));
    free(rows);
    free(x);
    return j;
}

static void free_job(struct job *j)
{
    for (int l = 0; l < 2; l++) OK(cudaFree(j->pool[l]));
    OK(cudaFree(j->x));
    for (int k = 0; k < 3; k++) free(j->want[k]);
}

static int wrong_rows(const struct job *j, int parts, const float *y_dev)
{
    const int rows = j->shape->panels * PR, k = parts == 4 ? 0 : parts == 8 ? 1 : 2;
    float *y = malloc(sizeof(float) * (size_t)rows);
    int wrong = 0;
    OK(cudaMemcpy(y, y_dev, sizeof(float) * (size_t)rows, cudaMemcpyDeviceToHost));
    for (int i = 0; i < rows; i++) {
        const int panel = i / PR, t = panel / j->shape->share, p = (int)((long)panel * 37 % POOL);
        wrong += memcmp(&y[i], &j->want[k][(t * POOL + p) * PR + i % PR], sizeof(float)) != 0;
    }
    free(y);
    return wrong;
}

static int by_value(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

/* Median microseconds a launch. */
static float time_graph(const struct gpu_variant *v, struct gemv g, const uint8_t *base,
                        size_t slot_bytes, int slots, int replays)
{
    cudaStream_t s;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    cudaEvent_t a, b;
    OK(cudaStreamCreate(&s));
    OK(cudaEventCreate(&a));
    OK(cudaEventCreate(&b));
    OK(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
    for (int i = 0; i < slots; i++) {
        g.w = base + slot_bytes * (size_t)i;
        v->launch(&g, s);
    }
    OK(cudaStreamEndCapture(s, &graph));
    OK(cudaGraphInstantiate(&exec, graph, 0));
    float us[REPLAYS];
    for (int r = -1; r < replays; r++) {
        float ms;
        OK(cudaEventRecord(a, s));
        OK(cudaGraphLaunch(exec, s));
        OK(cudaEventRecord(b, s));
        OK(cudaEventSynchronize(b));
        OK(cudaEventElapsedTime(&ms, a, b));
        if (r >= 0) us[r] = ms * 1000.0f / (float)slots;
    }
    qsort(us, (size_t)replays, sizeof us[0], by_value);
    OK(cudaGraphExecDestroy(exec));
    OK(cudaGraphDestroy(graph));
    OK(cudaEventDestroy(a));
    OK(cudaEventDestroy(b));
    OK(cudaStreamDestroy(s));
    return us[replays / 2];
}

static void run_layout(const struct job *j, char layout, uint8_t *device, uint8_t *host,
                       uint8_t *host_dev, float *y)
{
    const size_t slot = j->panel_bytes * (size_t)j->shape->panels;
    const int fit = (int)(DEVICE_BYTES / slot), fit_host = (int)(HOST_BYTES / slot);
    const int slots = fit < NODES ? fit : NODES, host_slots = fit_host < 24 ? fit_host : 24;
    gpu_fill(device, j->pool[layout == 'B'], j->panel_bytes, j->shape->panels, POOL, 0);
    OK(cudaDeviceSynchronize());
    for (int i = 1; i < fit; i++)
        OK(cudaMemcpy(device + slot * (size_t)i, device, slot, cudaMemcpyDeviceToDevice));
    for (int i = 0; i < host_slots && host; i++)
        OK(cudaMemcpy(host + slot * (size_t)i, device, slot, cudaMemcpyDeviceToHost));

    for (int k = 0; k < gpu_n_variants; k++) {
        const struct gpu_variant *v = &gpu_variants[k];
        if (v->fmt != j->fmt || v->layout != layout) continue;
        struct gemv g = { y, device, j->x, j->shape->cols, j->shape->panels, j->shape->share };
        OK(cudaMemset(y, 0xff, sizeof(float) * (size_t)g.panels * PR));
        v->launch(&g, 0);
        OK(cudaGetLastError());
        OK(cudaDeviceSynchronize());
        const int wrong = wrong_rows(j, v->parts, y);
        const float us = time_graph(v, g, device, slot, slots, REPLAYS);
        printf("device,%s,%s,%c,%d,%s,%.2f,%.0f,%d\n", j->shape->name, ig_fmt_name(j->fmt), layout,
               v->parts, v->how, (double)us, 1e-3 * (double)slot / (double)us, wrong);
        if (host && host_slots > 0) {
            const float hus = time_graph(v, g, host_dev, slot, host_slots, 3);
            printf("mapped,%s,%s,%c,%d,%s,%.2f,%.1f,%d\n", j->shape->name, ig_fmt_name(j->fmt),
                   layout, v->parts, v->how, (double)hus, 1e-3 * (double)slot / (double)hus,
                   wrong_rows(j, v->parts, y));
        }
        fflush(stdout);
    }
}

static void read_ceiling(const uint8_t *p, size_t bytes, const char *where, float *sink)
{
    cudaEvent_t a, b;
    float best = 1e30f, ms;
    OK(cudaEventCreate(&a));
    OK(cudaEventCreate(&b));
    for (int r = 0; r < 5; r++) {
        OK(cudaEventRecord(a, 0));
        gpu_read(p, bytes, sink, 0);
        OK(cudaEventRecord(b, 0));
        OK(cudaEventSynchronize(b));
        OK(cudaEventElapsedTime(&ms, a, b));
        best = ms < best ? ms : best;
    }
    printf("%s,plain read,-,-,0,-,%.2f,%.1f,0\n", where, (double)best * 1e3,
           1e-6 * (double)bytes / (double)best);
}

/* Arguments name the formats; all three without any. */
int main(int argc, char **argv)
{
    static const enum ig_fmt fmts[] = { IG_Q4_0, IG_Q8_0, IG_BF16 };
    uint8_t *device, *host, *host_dev;
    float *y;
    OK(cudaMalloc((void **)&device, DEVICE_BYTES));
    OK(cudaHostAlloc((void **)&host, HOST_BYTES, cudaHostAllocMapped));
    OK(cudaHostGetDevicePointer((void **)&host_dev, host, 0));
    OK(cudaMalloc((void **)&y, sizeof(float) * PR * 8192));
    memset(host, 1, HOST_BYTES);
    printf("where,shape,format,layout,parts,how,us,GB/s,wrong_rows\n");
    read_ceiling(device, DEVICE_BYTES, "device", y);
    read_ceiling(host_dev, HOST_BYTES, "mapped", y);
    for (int s = 0; s < N_SHAPE; s++) {
        for (int f = 0; f < 3; f++) {
            int wanted = argc == 1;
            for (int i = 1; i < argc; i++) wanted |= strcmp(argv[i], ig_fmt_name(fmts[f])) == 0;
            if (!wanted) continue;
            struct job j = make_job(&shapes[s], fmts[f]);
            uint8_t *const h = s < 2 ? host : NULL; /* the link: expert shapes only */
            run_layout(&j, 'A', device, h, host_dev, y);
            run_layout(&j, 'B', device, h, host_dev, y);
            free_job(&j);
        }
    }
    return 0;
}
