/* quant_i8mm.c -- all block formats (quant.inc.h): batches two activation rows at a time, with
 * SMMLA.
 *
 * Flags: -march=armv8.2-a+dotprod+i8mm -ffp-contract=off
 */
#include <stddef.h>
#include <string.h>

#include "../quant.h"
#include "quant_cpu.h"
#include "vec_neon.h"
#include "quant_words_neon.h"
#include "quant_words_i8mm.h"
#include "quant_unpack.inc.h"

#define NAME i8mm
#include "quant_formats.inc.h"
#include "quant_plain.inc.h"
