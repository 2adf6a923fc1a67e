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

#define AMX_MAGIC   12582912.0f /* 1.5 * 2^23: s added to its bits is AMX_MAGIC + s, |s| < 2^22 */
#define AMX_SET1(x) x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x
static const _Alignas(64) float amx_magic[16] = { AMX_SET1(AMX_MAGIC) };
enum {
    AMX_ROWS = 16,
    AMX_RB = 64,
    AMX_SPAN = 32, /* blocks: their bytes and 16 rows' activations about fill the nearest cache */
    AMX_AHEAD = 3, /* products */
    AMX_RING = 4,  /* more than that, a power of two */
    AMX_LEAST = 6  /* rows: fewer are left to AVX-512 */
};

/* The tiles of block formats, or of BF16. */
static void amx_ready(const struct amx_config *config)
{
    static _Thread_local const struct amx_config *now;
    if (now != config) TILE_CONFIG(config);
    now = config;
}

/* Sums of 16 rows of activations with 32 columns, through the tiles r, x and w. */
#define AMX_PRODUCT(r, x, w, to, q, row, v, magic)                                                 \
    do {                                                                                           \
        TILE_LOAD(w, v, 64);                                                                       \
        TILE_LOAD(x, q, row);                                                                      \
        if (magic)                                                                                 \
            TILE_LOAD(r, amx_magic, 0);                                                            \
        else                                                                                       \
            TILE_ZERO(r);                                                                          \
        TILE_DOT8(r, x, w);                                                                        \
        TILE_SAVE(r, to, 64);                                                                      \
    } while (0)

/* 16 rows' activations from a block on: the quants, in bytes from block to block and from row
 * to row, and what goes with them. */
struct amx_x8 {
    const int8_t *q;
    size_t block, row;
    const struct ig_xq *x[AMX_ROWS];
};

/* As they lie in memory if that is regular, else copied; rows that there are not repeat the
 * last one, and their results are dropped. */
static struct amx_x8 amx_x8(int8_t (*copy)[AMX_ROWS][IG_QBLOCK], const void *const *x, int b, int n,
                            int live)
{
    struct amx_x8 r;
    for (int t = 0; t < AMX_ROWS; t++)
        r.x[t] = (const struct ig_xq *)x[t < live ? t : live - 1] + b;
    const ptrdiff_t step = (const char *)r.x[1] - (const char *)r.x[0];
    int regular = step > 0;
    for (int t = 2; t < AMX_ROWS && regular; t++)
        regular = (const char *)r.x[t] - (const char *)r.x[t - 1] == step;
    if (regular) {
        r.q = r.x[0]->q;
        r.block = sizeof(struct ig_xq);
        r.row = (size_t)step;
        return r;
    }
    for (int j = 0; j < n; j++) {
        for (int t = 0; t < AMX_ROWS; t++) memcpy(copy[j][t], r.x[t][j].q, IG_QBLOCK);
    }
    r.q = copy[0][0];
    r.block = sizeof copy[0];
    r.row = IG_QBLOCK;
    return r;
}

/* Which product is next: 16 rows after 16 rows, in them part after part. */
struct amx_turn {
    int row, part, j, n, blocks;
};

static inline void amx_turn(struct amx_turn *a)
{
    a->j += IG_BLOCK_PARTS;
    if (a->j < a->blocks) return;
    a->j = ++a->part;
    if (a->part < IG_BLOCK_PARTS && a->part < a->blocks) return;
    a->part = a->j = 0;
    a->row += AMX_ROWS;
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
