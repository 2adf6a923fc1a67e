/* quant_formats.inc.h -- quant.inc.h for every format that one text serves.
 *
 * Include it with NAME defined as the ISA's name.  The numbers are those of the
 * tiles in kernels/quant.h.
 */
#define QF_CAT2(a, b, c) a##_##b##_##c
#define QF_CAT(a, b, c)  QF_CAT2(a, b, c)

#define FN(f)         QF_CAT(f, q4_k, NAME)
#define TILE          2304
#define BLOCKS        8
#define HEAD          256
#define BLOCK         256
#define BITS          4
#define UNPACK(w, p)  quant_nibbles(w, p)
#define SCALE(p)      VLOAD_F16((p) + 2 * VL * h)
#define ZERO          0
#define SUBS          1
#define SCALES(sc, p) quant_scales_6(sc, (p) + 64, 0)
#define MIN           2
#define MINS          128
#include "quant.inc.h"

#define FN(f)         QF_CAT(f, q5_k, NAME)
#define TILE          2816
#define BLOCKS        8
#define HEAD          256
#define BLOCK         320
#define BITS          5
#define UNPACK(w, p)  quant_unpack_q5(w, p)
#define SCALE(p)      VLOAD_F16((p) + 2 * VL * h)
#define ZERO          0
#define SUBS          1
#define SCALES(sc, p) quant_scales_6(sc, (p) + 64, 0)
#define MIN           2
#define MINS          128
#include "quant.inc.h"

#define FN(f)         QF_CAT(f, q6_k, NAME)
#define TILE          3360
#define BLOCKS        8
#define HEAD          288
#define BLOCK         384
#define BITS          6
#define UNPACK(w, p)  quant_unpack_q6(w, p)
#define SCALE(p)      VLOAD_F16((p) + 2 * VL * h)
#define ZERO          32
#define SUBS          2
#define SCALES(sc, p) (const int8_t *)((p) + 32)
#define MIN           0
#include "quant.inc.h"

#define FN(f)         QF_CAT(f, q3_k, NAME)
#define TILE          1760
#define BLOCKS        8
#define HEAD          224
#define BLOCK         192
#define BITS          4
#define UNPACK(w, p)  quant_unpack_q3(w, p)
#define SCALE(p)      VLOAD_F16((p) + 2 * VL * h)
#define ZERO          4
#define SUBS          2
#define SCALES(sc, p) quant_scales_6(sc, (p) + 32, 32)
#define MIN           0
#include "quant.inc.h"

#define FN(f)         QF_CAT(f, q2_k, NAME)
#define TILE          1344
#define BLOCKS        8
#define HEAD          320
#define BLOCK         128
#define BITS          4
#define UNPACK(w, p)  quant_pairs(w, p)
#define SCALE(p)      VLOAD_F16((p) + 2 * VL * h)
#define ZERO          0
#define SUBS          2
#define SCALES(sc, p) quant_scales_44(sc, (p) + 64)
#define MIN           2
#define MINS          256
#include "quant.inc.h"

#define FN(f)         QF_CAT(f, iq4_xs, NAME)
#define TILE          2176
#define BLOCKS        8
#define HEAD          128
#define BLOCK         256
#define BITS          8
#define UNPACK(w, p)  quant_book(w, p, ig_iq4_book, 128)
#define SCALE(p)      VLOAD_F16((p) + 2 * VL * h)
#define ZERO          QABOVE(128)
#define SUBS          1
#define SCALES(sc, p) quant_scales_42(sc, (p) + 32)
#define MIN           0
#include "quant.inc.h"

#define FN(f)        QF_CAT(f, mxfp4, NAME)
#define TILE         272
#define BLOCKS       1
#define HEAD         16
#define BLOCK        256
#define BITS         5
#define UNPACK(w, p) quant_book(w, p, ig_mxfp4_book, 12)
#define SCALE(p)     quant_e8m0((p) + VL * h)
#define ZERO         QABOVE(12)
#define SUBS         0
#define MIN          0
#include "quant.inc.h"

#define FN(f)        QF_CAT(f, iq4_nl, NAME)
#define TILE         288
#define BLOCKS       1
#define HEAD         32
#define BLOCK        256
#define BITS         8
#define UNPACK(w, p) quant_book(w, p, ig_iq4_book, 128)
#define SCALE(p)     VLOAD_F16((p) + 2 * VL * h)
#define ZERO         QABOVE(128)
#define SUBS         0
#define MIN          0
#include "quant.inc.h"

#define FN(f)        QF_CAT(f, q4_1, NAME)
#define TILE         320
#define BLOCKS       1
#define HEAD         64
#define BLOCK        256
#define BITS         4
#define UNPACK(w, p) quant_nibbles(w, p)
#define SCALE(p)     VLOAD_F16((p) + 2 * VL * h)
#define ZERO         0
#define SUBS         0
#define MIN          1
#include "quant.inc.h"

#define FN(f)        QF_CAT(f, q5_0, NAME)
#define TILE         352
#define BLOCKS       1
#define HEAD         32
#define BLOCK        320
#define BITS         5
#define UNPACK(w, p) quant_unpack_q5(w, p)
#define SCALE(p)     VLOAD_F16((p) + 2 * VL * h)
#define ZERO         16
#define SUBS         0
#define MIN          0
#include "quant.inc.h"

#define FN(f)        QF_CAT(f, q5_1, NAME)
#define TILE         384
#define BLOCKS       1
#define HEAD         64
#define BLOCK        320
#define BITS         5
#define UNPACK(w, p) quant_unpack_q5(w, p)
#define SCALE(p)     VLOAD_F16((p) + 2 * VL * h)
#define ZERO         0
#define SUBS         0
#define MIN          1
#include "quant.inc.h"
