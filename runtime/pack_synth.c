/* pack_synth.c -- random weights, made directly as panels.
 *
 * Values come from a counter (SplitMix64), so any panel can be made alone, by
 * any thread, with the same bits.  A float weight is +-2^e * [1, 2) and a block
 * weight is a uniform integer times a scale of that kind, with e such that the
 * standard deviation is near 1 / sqrt(cols): activations keep their size from
 * layer to layer.
 */
#include "pack_int.h"

#include <math.h>
#include <string.h>

#include "../kernels/panel.h"

static uint64_t mix(uint64_t z)
{
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

static const uint64_t STEP = UINT64_C(0x9e3779b97f4a7c15); /* SplitMix64's */

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

/* Row r of a tile or of a group of columns becomes zero weights. */
static void zero_row(enum ig_fmt fmt, unsigned char *panel, size_t bytes, int r)
{
    const size_t tile = ig_panel_bytes(fmt, ig_fmt_cols(fmt));
    const size_t head = ig_fmt_cols(fmt) > 1 ? 2 * IG_PANEL_ROWS : 0; /* the scales */
    const int zero = fmt == IG_Q8_0 ? 0x80 : fmt == IG_Q4_0 ? 0x88 : 0;

    for (size_t at = 0; at < bytes; at += tile) {
        if (head) memset(panel + at + 2 * (size_t)r, 0, 2);
        for (size_t g = at + head; g < at + tile; g += 64)
            memset(panel + g + 4 * (size_t)r, zero, 4);
    }
}

float ig_pack_synth_value(enum ig_role role)
{
    switch (role) {
    case IG_ROLE_ATTN_NORM:
    case IG_ROLE_FFN_NORM:
    case IG_ROLE_OUTPUT_NORM:
    case IG_ROLE_ATTN_Q_NORM:
    case IG_ROLE_ATTN_K_NORM:
    case IG_ROLE_ATTN_Q_A_NORM:
    case IG_ROLE_ATTN_KV_A_NORM: return 1.0f;
    default: return 0.0f;
    }
}

void ig_pack_synth_panel(uint64_t seed, const struct ig_pack_item *it, uint32_t p, void *dst)
{
    const enum ig_fmt fmt = (enum ig_fmt)it->mat.fmt;
    const int cols = (int)it->mat.cols;
    const size_t bytes = ig_panel_bytes(fmt, cols), tile = ig_panel_bytes(fmt, ig_fmt_cols(fmt));
    const uint64_t who =
        (uint64_t)it->role << 56 | (uint64_t)(it->layer + 1) << 28 | (uint64_t)(it->expert + 1);
    uint64_t at = mix(mix(seed + STEP) ^ who) + p * (uint64_t)bytes * STEP;
    unsigned char *panel = dst;
    const float deviation = 1.0f / sqrtf((float)cols);
    uint64_t keep = ~UINT64_C(0), set = 0;

    if (ig_fmt_cols(fmt) == 1) float_masks(fmt, deviation, &keep, &set);
    for (size_t i = 0; i < bytes; i += 8) { /* a panel is a multiple of 32 bytes */
        const uint64_t v = (mix(at += STEP) & keep) | set;
        memcpy(panel + i, &v, sizeof v);
    }
    if (ig_fmt_cols(fmt) > 1) {
        /* Deviation of the integers: 256 and 16 equally likely values. */
        const float spread = fmt == IG_Q8_0 ? 73.9f : 4.61f;
        float_masks(IG_F16, deviation / spread, &keep, &set);
        keep &= four(0x7fff);
        for (size_t i = 0; i < bytes; i += tile)
            for (size_t k = 0; k < 2 * IG_PANEL_ROWS; k += 8) {
                uint64_t v;
                memcpy(&v, panel + i + k, sizeof v);
                v = (v & keep) | set;
                memcpy(panel + i + k, &v, sizeof v);
            }
    }
    if ((fmt == IG_F16 || fmt == IG_BF16) && cols % 2) /* the second column of the last pair */
        for (int r = 0; r < IG_PANEL_ROWS; r++) memset(panel + bytes - 64 + 4 * r + 2, 0, 2);
    for (uint32_t r = 0; r < IG_PANEL_ROWS; r++)
        if (p * IG_PANEL_ROWS + r >= it->mat.rows) zero_row(fmt, panel, bytes, (int)r);
}
