/* amx_tile.h -- the tiles of amx.c: which there are, and the instructions on them.
 *
 * With IG_AMX_EMULATE defined before it, the instructions are those of the includer: the
 * tests run amx.c over scalar code that does what Intel's manual says of each.
 *
 * Tiles: 0..3 results [16 rows of activations][16 rows of the panel], as int32 or float;
 * 4: 16 rows of 32 activations as int8; 5: 32 columns of a panel as bytes, a group of four
 * columns a row; 6: 16 rows of 32 activations as bf16; 7: 32 columns as bf16, a pair a row.
 */
#include <stdint.h>

enum { AMX_ROWS = 16, AMX_X8 = 4, AMX_W8 = 5, AMX_X16 = 6, AMX_W16 = 7 };

struct amx_config {
    uint8_t palette, start, zero[14];
    uint16_t bytes[16]; /* of a row */
    uint8_t rows[16];
};
#define AMX_CONFIG                                                                                 \
    {                                                                                              \
        .palette = 1, .bytes = { 64, 64, 64, 64, 32, 64, 64, 64 },                                 \
        .rows = { 16, 16, 16, 16, 16, 8, 16, 16 }                                                  \
    }

#ifndef IG_AMX_EMULATE
#include <immintrin.h>
#define TILE_CONFIG(c)        _tile_loadconfig(c)
#define TILE_ZERO(t)          _tile_zero(t)
#define TILE_LOAD(t, p, step) _tile_loadd(t, p, step)
#define TILE_SAVE(t, p, step) _tile_stored(t, p, step)
#define TILE_DOT8(c)          _tile_dpbsud(c, AMX_X8_, AMX_W8_)
#define TILE_DOT16(c)         _tile_dpbf16ps(c, AMX_X16_, AMX_W16_)
/* The intrinsics paste their arguments into text. */
#define AMX_X8_  4
#define AMX_W8_  5
#define AMX_X16_ 6
#define AMX_W16_ 7
#endif
