/* attn_formats.inc.h -- attention for each format of the KV cache.
 *
 * WORDS names the words of Q8_0: attn_q8_0.inc.h.
 */
enum { HEADS_MOST = VL == 16 ? 8 : 4 }; /* heads at a time */
#define ALWAYS static inline __attribute__((always_inline))

#define KV(f)       VNAME(f##_f32)
#define BYTES(n)    ((n) * sizeof(float))
#define LOADV(p, i) VLOAD((const float *)(p) + (i))
#define LOAD1(p, i) ((const float *)(p))[i]
#include "attn.inc.h"

#define KV(f)       VNAME(f##_f16)
#define BYTES(n)    ((n) * sizeof(uint16_t))
#define LOADV(p, i) VLOAD_F16((const uint16_t *)(p) + (i))
#define LOAD1(p, i) ig_fp16_to_f32(((const uint16_t *)(p))[i])
#include "attn.inc.h"

#include WORDS
#include "attn_q8_0.inc.h"

#undef ALWAYS
