/* matvec_float.c -- the definition of panel times activations for float formats (rule 2).
 *
 * Obvious and slow; the order of every sum is that of kernels.h.
 * Flags: -ffp-contract=off, no instruction set.
 */
#include <float.h>

#include "../math.h"
#include "ref.h"

enum { PR = IG_PANEL_ROWS };

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

/* BF16 as AMX's tiles sum it (cpu/amx_bf16.inc.h): denormals are 0, before and after. */
static float flush(float x) { return fabsf(x) < FLT_MIN ? copysignf(0.0f, x) : x; }

static float bf16_of(const float *x, int c, int cols)
{
    return c < cols ? flush(ig_bf16_to_f32(ig_bf16_from_f32(flush(x[c])))) : 0.0f;
}

void ig_panel_bf16_amx_ref(float (*y)[PR], const void *panel, const void *const *x, int cols, int n)
{
    enum { CHUNK = 32, PARTS = 4 };
    for (int t = 0; t < n; t++) {
        for (int r = 0; r < PR; r++) {
            float part[PARTS] = { 0 };
            for (int c = 0; c < cols; c += CHUNK) {
                float s[2] = { 0 };
                for (int j = c; j < c + CHUNK; j++) {
                    const float w = j < cols ? flush(weight_bf16(panel, r, j)) : 0.0f;
                    s[j % 2] = flush(fmaf(w, bf16_of(x[t], j, cols), s[j % 2]));
                }
                float *to = &part[c / CHUNK % PARTS];
                *to = flush(*to + flush(s[0] + s[1]));
            }
            y[t][r] = flush(flush(part[0] + part[2]) + flush(part[1] + part[3]));
        }
    }
}
