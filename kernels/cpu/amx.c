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
    AMX_RB = 256,  /* rows for which a panel is unpacked once */
    AMX_SPAN = 64, /* blocks: a part's, unpacked, stay in the nearest cache */
    AMX_AHEAD = 3, /* products */
    AMX_RING = 4,  /* more than that, a power of two */
    AMX_LEAST = 6  /* rows of BF16: fewer go one by one */
};

/* The tiles of block formats, or of BF16. */
static void amx_ready(const struct amx_config *config)
{
    static _Thread_local const struct amx_config *now;
    if (now != config) TILE_CONFIG(config);
    now = config;
}

/* Sums of 16 rows of activations with 32 columns; halves: with each 16 of them, one result behind
 * the other.  Two sets of tiles in turn gain nothing. */
static inline void amx_product(int32_t (*to)[AMX_ROWS][IG_PANEL_ROWS], const int8_t *q,
                               const int8_t *w, int halves, int magic)
{
    for (int h = 0; h < halves; h++) {
        TILE_LOAD(5, w + 256 * h, 64);
        TILE_LOAD(4, q + IG_QBLOCK / 2 * h, IG_QBLOCK);
        if (magic)
            TILE_LOAD(0, amx_magic, 0);
        else
            TILE_ZERO(0);
        TILE_DOT8(0, 4, 5);
        TILE_SAVE(0, to[h], 64);
    }
}

/* What goes with 32 columns of 16 rows' activations, the columns' sums also by halves. */
struct amx_side {
    float d[AMX_ROWS], sum[AMX_ROWS], half[2][AMX_ROWS];
};

enum { AMX_PACKED = sizeof(struct amx_side) + AMX_ROWS * IG_QBLOCK }; /* bytes of 16 x 32 */

static inline int amx_part_blocks(int blocks, int part)
{
    return (blocks - part + IG_BLOCK_PARTS - 1) / IG_BLOCK_PARTS;
}

/* Where block j of a span lies when a part's blocks follow one another. */
static inline int amx_place(int j, int blocks)
{
    const int part = j % IG_BLOCK_PARTS, each = blocks / IG_BLOCK_PARTS,
              more = blocks % IG_BLOCK_PARTS;
    return part * each + (part < more ? part : more) + j / IG_BLOCK_PARTS;
}

size_t ig_amx_packed_bytes(int cols, int n)
{
    return (size_t)((n + AMX_ROWS - 1) / AMX_ROWS) * (size_t)(cols / IG_QBLOCK) * AMX_PACKED;
}

static void amx_pack_one(struct amx_side *side, int8_t *q, const struct ig_xq *const *x, int b)
{
    const __m256i ones = _mm256_set1_epi8(1);
    for (int t = 0; t < AMX_ROWS; t++) {
        const struct ig_xq *from = x[t] + b;
        const __m256i v = _mm256_loadu_si256((const void *)from->q);
        _mm256_store_si256((void *)(q + t * IG_QBLOCK), v);
        const __m256i four = _mm256_dpbusd_epi32(_mm256_setzero_si256(), ones, v);
        const __m128i two =
            _mm_hadd_epi32(_mm256_castsi256_si128(four), _mm256_extracti128_si256(four, 1));
        const __m128i one = _mm_hadd_epi32(two, two);
        side->d[t] = from->d;
        side->sum[t] = (float)from->sum;
        side->half[0][t] = (float)_mm_cvtsi128_si32(one);
        side->half[1][t] = (float)_mm_extract_epi32(one, 1);
    }
}

/* Packed rows: for every AMX_RB of them, what goes with a block of 16 rows, then their quants, each
 * in the order in which amx_rows.inc.h reads them. */
struct amx_rows {
    struct amx_side *side;
    int8_t *q;
    int groups;
};

static struct amx_rows amx_rows_at(const void *packed, int nb, int n, int t)
{
    const int left = n - t < AMX_RB ? n - t : AMX_RB;
    struct amx_rows r = { .groups = (left + AMX_ROWS - 1) / AMX_ROWS };
    const size_t before = (size_t)(t / AMX_ROWS) * (size_t)nb;
    r.side = (struct amx_side *)((uintptr_t)packed + before * AMX_PACKED);
    r.q = (int8_t *)(r.side + (size_t)r.groups * (size_t)nb);
    return r;
}

/* Where block b of group g lies. */
static size_t amx_packed_place(int nb, int groups, int g, int b)
{
    const int at = b / AMX_SPAN * AMX_SPAN, blocks = nb - at < AMX_SPAN ? nb - at : AMX_SPAN;
    const int part = (b - at) % IG_BLOCK_PARTS, each = amx_part_blocks(blocks, part);
    const int j = (b - at) / IG_BLOCK_PARTS;
    return (size_t)(groups * (at + amx_place(part, blocks)) + g * each + j);
}

/* Rows that there are not repeat the last one, and their results are dropped. */
void ig_amx_pack(void *packed, const void *const *x, int cols, int n, int lo, int hi)
{
    const int nb = cols / IG_QBLOCK;
    for (int t = 0; t < n; t += AMX_ROWS) {
        const struct amx_rows to = amx_rows_at(packed, nb, n, t / AMX_RB * AMX_RB);
        const struct ig_xq *row[AMX_ROWS];
        for (int i = 0; i < AMX_ROWS; i++) row[i] = x[t + i < n ? t + i : n - 1];
        for (int b = lo; b < hi; b++) {
            const size_t at = amx_packed_place(nb, to.groups, t % AMX_RB / AMX_ROWS, b);
            amx_pack_one(to.side + at, to.q + at * AMX_ROWS * IG_QBLOCK, row, b);
        }
    }
}

#define NAME amx
#define QUANT_TILES
#include "quant_formats.inc.h"
#include "quant_plain.inc.h"

#define X(name, fmt)                                                                               \
    void ig_packed_##name##_amx(float(*y)[IG_PANEL_ROWS], const void *panel, const void *packed,   \
                                int cols, int n)                                                   \
    {                                                                                              \
        IG_KNOWN_COLS(cols);                                                                       \
        for (int t = 0; t < n; t += AMX_RB)                                                        \
            amx_rows_##name##_amx(y + t, panel, amx_rows_at(packed, cols / IG_QBLOCK, n, t),       \
                                  cols / IG_QBLOCK, n - t < AMX_RB ? n - t : AMX_RB);              \
    }
IG_QUANT_TILES(X)
#undef X

#include "amx_bf16.inc.h"
