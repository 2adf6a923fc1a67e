/* quant_avx512.c -- the block formats that share one text (quant.inc.h), 16 rows a vector, VNNI.
 *
 * Flags: -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512vnni -mfma -mf16c -ffp-contract=off
 */
#include <string.h>

#include "../quant.h"
#include "quant_cpu.h"
#include "vec_avx512.h"
#include "quant_words_avx512.h"
#include "quant_unpack.inc.h"

#define NAME        avx512
#define QUANT_GROUP 8
#include "quant_formats.inc.h"
#include "quant_plain.inc.h"
