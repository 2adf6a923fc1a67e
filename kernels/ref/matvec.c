/* matvec.c -- the definition of panel times activations, one format a function.
 *
 * Obvious and slow; the order of every sum is that of kernels.h.
 * Flags: -ffp-contract=off, no instruction set.
 */
#include "../math.h"
#include "ref.h"

enum { PR = IG_PANEL_ROWS, QB = IG_QBLOCK };

/* Weight of row r, column c of a float panel. */
typedef float weight_fn(const void *panel, int r, int c);

static float weight_f32(const void *panel, int r, int c)
{
    return ((const float *)panel)[(size_t)c * PR + (size_t)r];
}

static uint16_t half_weight(const void *panel, int r, int c)
{
    return ((const uint16_t *)panel)[(size_t)(c / 2 * PR + r) * 2 + (size_t)(c % 2)];
}

static float weight_f16(const void *panel, int r, int c)
{
    return ig_fp16_to_f32(half_weight(panel, r, c));
}

static float weight_bf16(const void *panel, int r, int c)
{
    return ig_bf16_to_f32(half_weight(panel, r, c));
}

static void float_panel(weight_fn *weight, float (*y)[PR], const void *panel, const void *const *x,
                        int cols, int n)
{
    for (int t = 0; t < n; t++) {
        const float *xt = x[t];
        for (int r = 0; r < PR; r++) {
            float part[IG_FLOAT_PARTS] = { 0 };
            for (int c = 0; c < cols; c++) {
                float *acc = &part[c / 2 % IG_FLOAT_PARTS];
                *acc = fmaf(weight(panel, r, c), xt[c], *acc);
            }
            y[t][r] = ig_tree16(part);
        }
    }
}

void ig_panel_f32_ref(float (*y)[PR], const void *panel, const void *const *x, int cols, int n)
{
    float_panel(weight_f32, y, panel, x, cols, n);
}

void ig_panel_f16_ref(float (*y)[PR], const void *panel, const void *const *x, int cols, int n)
{
    float_panel(weight_f16, y, panel, x, cols, n);
}

void ig_panel_bf16_ref(float (*y)[PR], const void *panel, const void *const *x, int cols, int n)
{
    float_panel(weight_bf16, y, panel, x, cols, n);
}

/* Scale of row r, and its 32 weights with their zero point taken off. */
typedef float block_fn(int w[QB], const uint8_t *block, int r);

static float block_scale(const uint8_t *block, int r)
{
    return ig_fp16_to_f32((uint16_t)(block[2 * r] | block[2 * r + 1] << 8));
}

static float block_q8_0(int w[QB], const uint8_t *block, int r)
{
    const uint8_t *u = block + 2 * PR;
    for (int c = 0; c < QB; c++) w[c] = u[c / 4 * 64 + r * 4 + c % 4] - 128;
    return block_scale(block, r);
}

static float block_q4_0(int w[QB], const uint8_t *block, int r)
{
    const uint8_t *u = block + 2 * PR;
    for (int c = 0; c < QB; c++) {
        const int b = u[c / 8 * 64 + r * 4 + c % 4];
        w[c] = (c % 8 < 4 ? b & 15 : b >> 4) - 8;
    }
    return block_scale(block, r);
}

static void block_panel(block_fn *block, size_t block_bytes, float (*y)[PR], const void *panel,
                        const void *const *x, int cols, int n)
{
    for (int t = 0; t < n; t++) {
        const struct ig_xq *xt = x[t];
        for (int r = 0; r < PR; r++) {
            float part[IG_BLOCK_PARTS] = { 0 };
            for (int b = 0; b < cols / QB; b++) {
                int w[QB], s = 0;
                const float dw = block(w, (const uint8_t *)panel + (size_t)b * block_bytes, r);
                for (int c = 0; c < QB; c++) s += w[c] * xt[b].q[c];
                float *acc = &part[b % IG_BLOCK_PARTS];
                *acc = fmaf(dw * xt[b].d, (float)s, *acc);
            }
            y[t][r] = ig_tree8(part);
        }
    }
}

void ig_panel_q8_0_ref(float (*y)[PR], const void *panel, const void *const *x, int cols, int n)
{
    block_panel(block_q8_0, 544, y, panel, x, cols, n);
}

void ig_panel_q4_0_ref(float (*y)[PR], const void *panel, const void *const *x, int cols, int n)
{
    block_panel(block_q4_0, 288, y, panel, x, cols, n);
}
