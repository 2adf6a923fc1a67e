/* attn_formats.inc.h -- attention for each format of the KV cache: attn.inc.h three times.
 *
 * PANEL_Q8_0 names the panel kernel of the same instruction set.
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

/* Q8_0: K is four panels of 16 positions, V a standard row a position. */
ALWAYS void VNAME(panel_scores)(float p[][IG_KV_BLOCK], const struct ig_xq *q, const uint8_t *k,
                                int hd, int nh, int j)
{
    const int blocks = hd / IG_QBLOCK;
    const void *x[HEADS_MOST];
    float y[HEADS_MOST][IG_PANEL_ROWS];
    for (int i = 0; i < nh; i++) x[i] = q + i * blocks;
    PANEL_Q8_0(y, k + (size_t)(j / IG_PANEL_ROWS * blocks) * IG_KV_TILE, x, hd, nh);
    for (int i = 0; i < nh; i++) memcpy(p[i] + j, y[i], sizeof y[i]);
}

/* Scale times code is exact. */
static inline V VNAME(load_q8_0)(const void *v, int i)
{
    const struct ig_kv_q8_0 *b = (const struct ig_kv_q8_0 *)v + i / IG_QBLOCK;
    return VMUL(VHALF(b->d), VLOAD_I8(b->q + i % IG_QBLOCK));
}

#define KV(f)       VNAME(f##_q8_0)
#define BYTES(n)    ((n) / IG_QBLOCK * sizeof(struct ig_kv_q8_0))
#define LOADV(p, i) VNAME(load_q8_0)(p, i)
#define LOAD1(p, i) NAN /* heads are whole vectors */
#define SCORES      VNAME(panel_scores)
#include "attn.inc.h"

#undef ALWAYS
