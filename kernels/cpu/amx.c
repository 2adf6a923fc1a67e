/* amx.c -- BF16 panels with AMX tiles.
 *
 * Its tiles take activations rounded to bf16 and sum pairs in an order of their own, so BF16
 * weights have a definition of their own under this instruction set (amx_bf16.inc.h), kept for
 * every number of rows.
 *
 * Block formats stay with AVX-512.  Each sum of 32 columns is scaled by itself, so it has to
 * leave the tile; loads and stores of tiles take turns with the vector units (a store of 16 rows
 * adds 16 cycles to the scaling beside it), and what is left of the tiles' gain is 1.0 to 1.5 a
 * kernel and nothing in a whole prefill (bench/LOG.tsv).
 *
 * A thread configures its tiles with its first product and keeps them.
 * Flags: those of quant_avx512.c, -mavx512bf16 -mamx-tile -mamx-bf16
 */
#include <stddef.h>
#include <string.h>

#include "quant_cpu.h"
#include "vec_avx512.h"
#include "quant_words_avx512.h"
#include "amx_tile.h"

enum {
    AMX_ROWS = 16,
    AMX_LEAST = 6 /* rows: fewer go one by one */
};

static void amx_ready(void)
{
    static _Thread_local int ready;
    if (!ready) TILE_CONFIG(&amx_bf16);
    ready = 1;
}

#include "amx_bf16.inc.h"
