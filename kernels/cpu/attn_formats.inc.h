/* attn_formats.inc.h -- attention for each format of the KV cache.
 *
 * WORDS names the words of Q8_0: attn_q8_0.inc.h.
 */
enum { HEADS_MOST = VL == 16 ? 8 : 4 }; /* heads at a time */
#define ALWAYS static inline __attribute__((always_inline))

/* What is asked for while a block is folded, in two streams, each its half: evenly over the time
 * that takes, since a line on its way holds a buffer that the block's own lines need
 * (bench/LOG.tsv). */
struct asks {
    const char *at;
    size_t half; /* bytes between two streams */
    int left;    /* pairs of lines of both */
};
ALWAYS void VNAME(ask_line)(const struct asks *a, int i)
{
    PREFETCH_AT(a->at + (i & 1 ? a->half : 0) + i / 2 * 64);
}
ALWAYS void VNAME(ask)(struct asks *a, int fours)
{
    for (int i = 0; i < fours && a->left > 0; i++, a->left--, a->at += 128) {
        VNAME(ask_line)(a, 0);
        VNAME(ask_line)(a, 1);
        VNAME(ask_line)(a, 2);
        VNAME(ask_line)(a, 3);
    }
}

#include "attn_soften.inc.h"

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
