/* quant_plain.inc.h -- quant.inc.h for Q8_0 and Q4_0, where they need no text of their own.
 *
 * After quant_formats.inc.h, with NAME as there.
 */
#define FN(f)        QF_CAT(f, q8_0, NAME)
#define TILE         544
#define BLOCKS       1
#define HEAD         32
#define BLOCK        512
#define BITS         8
#define UNPACK(w, p) quant_bytes(w, p)
#define SCALE(p)     VLOAD_F16((p) + 2 * VL * h)
#define ZERO         QABOVE(128)
#define SUBS         0
#define MIN          0
#include "quant.inc.h"

#define FN(f)        QF_CAT(f, q4_0, NAME)
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
