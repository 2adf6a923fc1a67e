/* amx_tile.h -- the tiles of amx.c and the instructions on them.
 *
 * With IG_AMX_EMULATE defined, the instructions are the includer's: the tests run amx.c over
 * scalar code that does what Intel's manual says of each.
 *
 * Tiles 0..3: results, [16 rows of activations][16 rows of the panel] floats;
 * 6: 16 rows of 32 activations as bf16; 7: 32 columns of a panel, a pair a row, as bf16.
 */
#ifndef IG_AMX_TILE_H
#define IG_AMX_TILE_H

#include <stdint.h>

struct amx_config {
    uint8_t palette, start, zero[14];
    uint16_t bytes[16]; /* of a row */
    uint8_t rows[16];
};
#define AMX_ALL(x)                                                                                 \
    {                                                                                              \
        x, x, x, x, x, x, x, x                                                                     \
    }
static const struct amx_config amx_bf16 = { .palette = 1,
                                            .bytes = AMX_ALL(64),
                                            .rows = AMX_ALL(16) };

/* Written out: the intrinsics of gcc 12 do not say that a load reads memory. */
#ifndef IG_AMX_EMULATE
#define TILE_CONFIG(c) __asm__ volatile("ldtilecfg %0" : : "m"(*(c)))
#define TILE_ZERO(t)   __asm__ volatile("tilezero %tmm" #t)
#define TILE_LOAD(t, p, step)                                                                      \
    __asm__ volatile("tileloadd (%0,%1,1), %%tmm" #t : : "r"(p), "r"((size_t)(step)) : "memory")
#define TILE_SAVE(t, p, step)                                                                      \
    __asm__ volatile("tilestored %%tmm" #t ", (%0,%1,1)"                                           \
                     :                                                                             \
                     : "r"(p), "r"((size_t)(step))                                                 \
                     : "memor"                                                                     \
                       "y")
#define TILE_DOT16(to, x, w) __asm__ volatile("tdpbf16ps %tmm" #w ", %tmm" #x ", %tmm" #to)
#endif

#endif
