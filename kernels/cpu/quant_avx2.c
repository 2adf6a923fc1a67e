/* quant_avx2.c -- the block formats that share one text (quant.inc.h), 8 rows a vector.
 *
 * Flags: -mavx2 -mfma -mf16c -ffp-contract=off
 */
#include <string.h>

#include "../quant.h"
#include "quant_cpu.h"
#include "vec_avx2.h"
#include "quant_words_avx2.h"
#include "quant_unpack.inc.h"

#define NAME avx2
#include "quant_formats.inc.h"
