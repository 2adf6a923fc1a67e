/* quant_neon.c -- all block formats (quant.inc.h), 4 rows a vector, with SDOT.
 *
 * Flags: -march=armv8.2-a+dotprod -ffp-contract=off
 */
#include <stddef.h>
#include <string.h>

#include "../quant.h"
#include "quant_cpu.h"
#include "vec_neon.h"
#include "quant_words_neon.h"
#include "quant_words_sdot.h"
#include "quant_unpack.inc.h"

#define NAME neon
#include "quant_formats.inc.h"
#include "quant_plain.inc.h"
