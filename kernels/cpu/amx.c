/* amx.c -- panels times many rows of activations with AMX tiles.
 *
 * Block formats give the bits of every other variant.  BF16 does not: its tiles take
 * activations rounded to bf16 and sum pairs in an order of their own, so BF16 weights have a
 * definition of their own under this instruction set (amx_bf16.inc.h), kept for every number
 * of rows.  Formats whose sub-scales are for 16 columns stay with AVX-512.
 *
 * A thread configures its tiles with its first product and keeps them.
 * Flags: those of quant_avx512.c, -mavx512bf16 -mamx-tile -mamx-int8 -mamx-bf16
 */
#include <stddef.h>
#include <string.h>

#include "../quant.h"
#include "quant_cpu.h"
#include "vec_avx512.h"
#include "quant_words_avx512.h"
#include "quant_unpack.inc.h"
#include "amx_tile.h"

#ifndef AMX_SPAN
#define AMX_SPAN 64
#endif
#ifndef AMX_WINDOW
#define AMX_WINDOW 16
#endif
#ifndef AMX_AHEAD
#define AMX_AHEAD 3
#endif
enum {
    AMX_ROWS = 16,
    AMX_RB = 64,
    AMX_RING = AMX_AHEAD + 1,
    AMX_LEAST = 6 /* rows: fewer are left to AVX-512 */
};
#define AMX_MAGIC 12582912.0f /* 1.5 * 2^23: s added to its bits is AMX_MAGIC + s, |s| < 2^22 */

/* The tiles of block formats, or of BF16. */
static void amx_ready(const struct amx_config *config)
{
    static _Thread_local const struct amx_config *now;
    if (now != config) TILE_CONFIG(config);
    now = config;
}

#define AMX_SET1(x) x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x
static const _Alignas(64) float amx_magic[16] = { AMX_SET1(AMX_MAGIC) };

/* Sums of 16 rows of activations with 32 columns, through the tiles r, x and w. */
#define AMX_PRODUCT(r, x, w, to, q, v, magic)                                                      \
    do {                                                                                           \
        TILE_LOAD(w, v, 64);                                                                       \
        TILE_LOAD(x, q, IG_QBLOCK);                                                                \
        if (magic)                                                                                 \
            TILE_LOAD(r, amx_magic, 0);                                                            \
        else                                                                                       \
            TILE_ZERO(r);                                                                          \
        TILE_DOT8(r, x, w);                                                                        \
        TILE_SAVE(r, to, 64);                                                                      \
    } while (0)
#define AMX_SUMS(to, q, v, turn, magic)                                                            \
    do {                                                                                           \
        if (turn)                                                                                  \
            AMX_PRODUCT(1, 6, 7, to, q, v, magic);                                                 \
        else                                                                                       \
            AMX_PRODUCT(0, 4, 5, to, q, v, magic);                                                 \
    } while (0)

/* What goes with a row's 32 activations: struct ig_xq's d, and its sum as a float. */
struct amx_scale {
    float d, own;
};
/* A span of 16 rows of activations. */
struct amx_acts {
    _Alignas(64) int8_t q[AMX_WINDOW][AMX_ROWS][IG_QBLOCK];
    _Alignas(64) struct amx_scale s[AMX_WINDOW][AMX_ROWS];
};

/* Rows of activations lie anywhere (an expert's rows of a batch): they are copied, once for 16
 * rows of weights, so that tiles load whole lines that the first-level cache has.  Rows that there
 * are not repeat the last one, and their results are dropped. */
static void amx_acts(struct amx_acts *to, const void *const *x, int b, int blocks, int live,
                     int own)
{
    enum { EACH = 4 };
    for (int t = 0; t < AMX_ROWS; t += EACH) {
        const struct ig_xq *from[EACH];
        for (int i = 0; i < EACH; i++)
            from[i] = (const struct ig_xq *)x[t + i < live ? t + i : live - 1] + b;
        for (int j = 0; j < blocks; j++) {
            UNROLL
            for (int i = 0; i < EACH; i++) memcpy(to->q[j][t + i], from[i][j].q, IG_QBLOCK);
            UNROLL
            for (int i = 0; i < EACH; i++)
                memcpy(&to->s[j][t + i], &from[i][j].d, sizeof(struct amx_scale));
        }
    }
    for (int j = 0; j < blocks && own; j++) {
        for (int t = 0; t < AMX_ROWS; t += 8) { /* the sums are every second number */
            const __m512 v = VLOAD(&to->s[j][t]);
            VSTORE(&to->s[j][t].d, _mm512_mask_cvtepi32_ps(v, 0xaaaa, _mm512_castps_si512(v)));
        }
    }
}

/* Which product is next: window after window, in it part after part. */
struct amx_turn {
    int at, part, j, end;
};

static inline int amx_window(int blocks) { return blocks < AMX_WINDOW ? blocks : AMX_WINDOW; }

static inline void amx_turn(struct amx_turn *a)
{
    const int window = amx_window(a->end - a->at);
    a->j += IG_BLOCK_PARTS;
    if (a->j < window) return;
    a->j = ++a->part;
    if (a->part < IG_BLOCK_PARTS && a->part < window) return;
    a->part = a->j = 0;
    a->at += AMX_WINDOW;
}

#define NAME amx
#define QUANT_TILES
#include "quant_formats.inc.h"
#include "quant_plain.inc.h"

typedef void amx_rows_fn(float (*y)[IG_PANEL_ROWS], const uint8_t *p, const void *const *x, int nb,
                         int n);

static inline void amx_panel(amx_rows_fn *rows, ig_panel_fn *few, float (*y)[IG_PANEL_ROWS],
                             const void *panel, const void *const *x, int cols, int n)
{
    int t = 0;
    IG_KNOWN_COLS(cols);
    if (n >= AMX_LEAST) amx_ready(&amx_int8);
    for (; n - t >= AMX_LEAST; t += AMX_RB)
        rows(y + t, panel, x + t, cols / IG_QBLOCK, n - t < AMX_RB ? n - t : AMX_RB);
    if (t < n) few(y + t, panel, x + t, cols, n - t);
}

#define X(name, fmt)                                                                               \
    void ig_panel_##name##_amx(float(*y)[IG_PANEL_ROWS], const void *panel, const void *const *x,  \
                               int cols, int n)                                                    \
    {                                                                                              \
        amx_panel(amx_rows_##name##_amx, ig_panel_##name##_avx512, y, panel, x, cols, n);          \
    }
IG_QUANT_TILES(X)
#undef X

#include "amx_bf16.inc.h"
