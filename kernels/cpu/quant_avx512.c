/* quant_avx512.c -- the block formats that share one text (quant.inc.h), 16 rows a vector, VNNI.
 *
 * Flags: -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512vnni -mfma -mf16c -ffp-contract=off
 */
#include <string.h>

#include "quant_cpu.h"
#include "vec_avx512.h"
#include "quant_words_avx512.h"
#include "quant_unpack.inc.h"

#define NAME        avx512
#define QUANT_GROUP 8
#include "quant_formats.inc.h"

/* Eight bits are their own unpacked form. */
static inline void quant_bytes(QI w[8], const uint8_t *p)
{
    UNROLL
    for (int k = 0; k < 8; k++) w[k] = QLOAD(p + 64 * k);
}

#define FN(f)        f##_q8_0_avx512
#define TILE         544
#define BLOCKS       1
#define HEAD         32
#define BLOCK        512
#define BITS         8
#define UNPACK(w, p) quant_bytes(w, p)
#define SCALE(p)     VLOAD_F16((p) + 2 * VL * h)
#define ZERO         128
#define SUBS         0
#define MIN          0
#include "quant.inc.h"

#define FN(f)        f##_q4_0_avx512
#define TILE         288
#define BLOCKS       1
#define HEAD         32
#define BLOCK        256
#define BITS         4
#define UNPACK(w, p) quant_nibbles(w, p)
#define SCALE(p)     VLOAD_F16((p) + 2 * VL * h)
#define ZERO         8
#define SUBS         0
#define MIN          0
#include "quant.inc.h"
