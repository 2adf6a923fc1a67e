/* amx_emulate.h -- tiles in scalar code, for kernels/cpu/amx.c, which is included behind it.
 *
 * The instructions are those of Intel's manual (volume 2, TILELOADD, TDPBF16PS).
 */
#ifndef IG_AMX_EMULATE_H
#define IG_AMX_EMULATE_H

#include <immintrin.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define IG_AMX_EMULATE
#define TILE_CONFIG(c)        emu_config(c)
#define TILE_ZERO(t)          memset(emu_tile[t], 0, sizeof emu_tile[t])
#define TILE_LOAD(t, p, step) emu_load(t, p, step)
#define TILE_SAVE(t, p, step) emu_save(t, p, step)
#define TILE_DOT16(to, x, w)  emu_dot16(to, x, w)

#include "../../kernels/cpu/amx_tile.h"

/* Or the test ends: no one configured this tile, or not for that. */
#define EMU_WANT(x)                                                                                \
    if (!(x)) {                                                                                    \
        fprintf(stderr, "tile instruction: want %s\n", #x);                                        \
        abort();                                                                                   \
    }

static _Thread_local uint8_t emu_tile[8][16][64];
static _Thread_local struct amx_config emu;

static void emu_config(const struct amx_config *c) { emu = *c; }

static void emu_load(int t, const void *p, size_t step)
{
    EMU_WANT(emu.palette == 1);
    memset(emu_tile[t], 0, sizeof emu_tile[t]);
    for (int r = 0; r < emu.rows[t]; r++)
        memcpy(emu_tile[t][r], (const uint8_t *)p + (size_t)r * step, emu.bytes[t]);
}

static void emu_save(int t, void *p, size_t step)
{
    for (int r = 0; r < emu.rows[t]; r++)
        memcpy((uint8_t *)p + (size_t)r * step, emu_tile[t][r], emu.bytes[t]);
}

/* What the manual asks of sizes: rows of the first as results', its columns as rows of the other.
 */
static void emu_fits(int to, int x, int w)
{
    EMU_WANT(emu.rows[x] == emu.rows[to]);
    EMU_WANT(emu.bytes[x] / 4 == emu.rows[w]);
    EMU_WANT(emu.bytes[w] == emu.bytes[to]);
}

static float emu_bf16(int t, int r, int i)
{
    uint16_t h;
    memcpy(&h, emu_tile[t][r] + 2 * i, 2);
    const uint32_t bits = (uint32_t)h << 16;
    float f;
    memcpy(&f, &bits, 4);
    return f;
}

/* The real one neither reads nor writes MXCSR, and flushes denormals always. */
static void emu_dot16(int to, int x, int w)
{
    const unsigned before = _mm_getcsr();
    _mm_setcsr(0x9fc0);
    emu_fits(to, x, w);
    for (int m = 0; m < emu.rows[to]; m++) {
        for (int i = 0; i < emu.bytes[to] / 4; i++) {
            volatile float s[2] = { 0, 0 }, sum; /* volatile: between the two changes of MXCSR */
            memcpy((void *)&sum, emu_tile[to][m] + 4 * i, 4);
            for (int k = 0; k < emu.bytes[x] / 2; k++)
                s[k % 2] = fmaf(emu_bf16(w, k / 2, 2 * i + k % 2), emu_bf16(x, m, k), s[k % 2]);
            const volatile float both = s[0] + s[1];
            sum += both;
            memcpy(emu_tile[to][m] + 4 * i, (void *)&sum, 4);
        }
    }
    _mm_setcsr(before);
}

#endif
