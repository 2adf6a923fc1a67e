/* pack_synth.c -- random weights, made directly as panels.
 *
 * Values come from a counter (SplitMix64), so any panel can be made alone, by
 * any thread, with the same bits.  A float weight is +-2^e * [1, 2) and a block
 * weight is a uniform integer times a scale of that kind, with e such that the
 * standard deviation is near 1 / sqrt(cols): activations keep their size from
 * layer to layer.
 */
#include "pack_int.h"
#include "random.h"

#include <math.h>
#include <string.h>

#include "../kernels/math.h"
#include "../kernels/panel.h"
#include "../kernels/quant.h"

/* e for +-2^e * [1, 2) to have this standard deviation; its own is 1.53 * 2^e. */
static int exponent(float deviation) { return (int)floorf(log2f(deviation / 1.53f) + 0.5f); }

/* The same two 16-bit or one 32-bit pattern over a word. */
static uint64_t twice(uint32_t v) { return (uint64_t)v << 32 | v; }
static uint64_t four(uint32_t v) { return twice(v << 16 | v); }

/* Which random bits stay, and which bits every value has. */
static void float_masks(enum ig_fmt fmt, float deviation, uint64_t *keep, uint64_t *set)
{
    const int e = exponent(deviation);
    switch (fmt) {
    case IG_F16: /* the smallest normal exponent is -14 */
        *keep = four(0x83ff);
        *set = four((uint32_t)(e < -14 ? 1 : e + 15) << 10);
        break;
    case IG_BF16:
        *keep = four(0x807f);
        *set = four((uint32_t)(e + 127) << 7);
        break;
    default:
        *keep = twice(0x807fffff);
        *set = twice((uint32_t)(e + 127) << 23);
        break;
    }
}

/* Standard deviation of a block weight in units of d, its bytes being random; the m that
 * makes its mean 0, in the same units. */
static const struct {
    float spread, m;
} of_fmt[IG_N_FMT] = {
    [IG_Q8_0] = { 73.9f, 0 },     [IG_Q4_0] = { 4.61f, 0 },      [IG_Q4_K] = { 258.0f, 7.5f },
    [IG_Q6_K] = { 1366.0f, 0 },   [IG_Q5_K] = { 527.0f, 15.5f }, [IG_MXFP4] = { 5.85f, 0 },
    [IG_Q4_1] = { 4.61f, -7.5f }, [IG_Q5_0] = { 9.23f, 0 },      [IG_Q5_1] = { 9.23f, -15.5f },
    [IG_IQ4_NL] = { 67.4f, 0 },   [IG_Q3_K] = { 42.4f, 0 },      [IG_Q2_K] = { 13.9f, 1.5f },
    [IG_IQ4_XS] = { 1247.0f, 0 },
};

static void put_half(unsigned char *p, float x)
{
    const uint16_t u = ig_fp16_from_f32(x);
    memcpy(p, &u, sizeof u);
}

/* Scales of one tile: +2^e * [1, 2), the mantissa from what is there. */
static void set_scales(enum ig_fmt fmt, unsigned char *tile, float deviation)
{
    const struct ig_qfmt *f = ig_qfmt(fmt);
    const float d_mean = deviation / of_fmt[fmt].spread;
    const int e = exponent(f->d_bytes == 1 ? d_mean * 1.53f : d_mean); /* E8M0 has no mantissa */
    for (int r = 0; r < IG_PANEL_ROWS; r++) {
        if (f->d_bytes == 1) {
            tile[r] = (unsigned char)(e + 128);
            continue;
        }
        const float d = ldexpf(1.0f + (float)tile[2 * r] / 256.0f, e);
        put_half(tile + 2 * r, d);
        if (f->min) put_half(tile + 2 * (IG_PANEL_ROWS + r), d * of_fmt[fmt].m);
    }
}

float ig_pack_synth_value(enum ig_role role, uint32_t r)
{
    switch (role) {
    case IG_ROLE_ATTN_NORM:
    case IG_ROLE_FFN_NORM:
    case IG_ROLE_OUTPUT_NORM:
    case IG_ROLE_ENC_NORM:
    case IG_ROLE_CROSS_NORM:
    case IG_ROLE_ATTN_Q_NORM:
    case IG_ROLE_ATTN_K_NORM:
    case IG_ROLE_ATTN_Q_A_NORM:
    case IG_ROLE_ATTN_KV_A_NORM:
        return 1.0f;
    case IG_ROLE_REL_BIAS:
        return (float)(r * 37 % 64) / 32.0f - 1.0f;
    default:
        return 0.0f;
    }
}

void ig_pack_synth_panel(uint64_t seed, const struct ig_pack_item *it, uint32_t p, void *dst)
{
    const enum ig_fmt fmt = (enum ig_fmt)it->mat.fmt;
    const int cols = (int)it->mat.cols;
    const size_t bytes = ig_panel_bytes(fmt, cols), tile = ig_panel_bytes(fmt, ig_fmt_cols(fmt));
    const uint64_t who =
        (uint64_t)it->role << 56 | (uint64_t)(it->layer + 1) << 28 | (uint64_t)(it->expert + 1);
    uint64_t at = ig_random_mix(ig_random_mix(seed + IG_RANDOM_STEP) ^ who) + p * (uint64_t)bytes * IG_RANDOM_STEP;
    unsigned char *panel = dst;
    const float deviation = 1.0f / sqrtf((float)cols);
    uint64_t keep = ~UINT64_C(0), set = 0;

    if (!ig_qfmt(fmt)) float_masks(fmt, deviation, &keep, &set);
    for (size_t i = 0; i < bytes; i += 8) { /* a panel is a multiple of 16 bytes */
        const uint64_t v = (ig_random_mix(at += IG_RANDOM_STEP) & keep) | set;
        memcpy(panel + i, &v, sizeof v);
    }
    if (ig_qfmt(fmt))
        for (size_t i = 0; i < bytes; i += tile) set_scales(fmt, panel + i, deviation);
    if ((fmt == IG_F16 || fmt == IG_BF16) && cols % 2) /* the second column of the last pair */
        for (int r = 0; r < IG_PANEL_ROWS; r++) memset(panel + bytes - 64 + 4 * r + 2, 0, 2);
    for (uint32_t r = 0; r < IG_PANEL_ROWS; r++)
        if (p * IG_PANEL_ROWS + r >= it->mat.rows) ig_panel_zero_row(fmt, panel, (int)r, cols);
}
