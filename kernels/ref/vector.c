/* vector.c -- the definitions of the kernels on one vector.
 *
 * Flags: -ffp-contract=off, no instruction set.
 */
#include <float.h>

#include "../math.h"
#include "ref.h"

void ig_rmsnorm_ref(float *y, const float *x, const float *w, int n, float eps)
{
    float lane[IG_LANES] = { 0 };
    for (int i = 0; i < n; i++) lane[i % IG_LANES] = fmaf(x[i], x[i], lane[i % IG_LANES]);
    const float scale = 1.0f / sqrtf(ig_tree16(lane) / (float)n + eps);
    for (int i = 0; i < n; i++) y[i] = x[i] * scale * w[i];
}

void ig_quantize_ref(struct ig_xq *y, const float *x, int n)
{
    for (int b = 0; b < n / IG_QBLOCK; b++, x += IG_QBLOCK) {
        float most = 0.0f;
        int finite = 1;
        for (int i = 0; i < IG_QBLOCK; i++) {
            most = fabsf(x[i]) > most ? fabsf(x[i]) : most;
            finite &= fabsf(x[i]) <= FLT_MAX;
        }
        if (!finite) {
            y[b] = (struct ig_xq){ .d = NAN };
            continue;
        }

        float d = most / 127.0f;
        if (d < FLT_MIN) d = 0.0f; /* 1 / d would overflow */
        const float inv = d > 0.0f ? 1.0f / d : 0.0f;
        y[b].d = d;
        y[b].sum = 0;
        for (int i = 0; i < IG_QBLOCK; i++) {
            /* the low byte of the sum is the rounded integer, in two's complement */
            const float product = x[i] * inv;
            y[b].q[i] = (int8_t)(uint8_t)ig_f32_bits(product + IG_ROUND);
            y[b].sum += y[b].q[i];
        }
    }
}

void ig_swiglu_ref(float *h, const float *gate, const float *up, int n)
{
    for (int i = 0; i < n; i++) h[i] = ig_silu(gate[i]) * up[i];
}

void ig_softmax_ref(float *x, int n)
{
    float most = -INFINITY, lane[IG_LANES] = { 0 };
    for (int i = 0; i < n; i++) most = x[i] > most ? x[i] : most;
    for (int i = 0; i < n; i++) {
        x[i] = ig_expf(x[i] - most);
        lane[i % IG_LANES] += x[i];
    }
    const float inv = 1.0f / ig_tree16(lane);
    for (int i = 0; i < n; i++) x[i] *= inv;
}
