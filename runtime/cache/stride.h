/* stride.h -- how many layers ahead an expert of each layer is fetched, moved at run time.
 *
 * The plan gives S = (Ne * Es) / (Cs * Tl) and bounds, per layer; two counters move it:
 *   wait      compute stood still for an expert that was predicted but still on its way: too near
 *   overload  an expert arrived a layer or more before its use, or was fetched and never used: too
 * far.  When one passes its threshold within a window of steps the distance moves by one and both
 * start again; a window that ends without a move forgets what it counted, so rare events never add
 * up. When both pass in one step, the more frequent wins, and waiting if they are equal: a stall
 * costs time, an early copy room; but where as many are in vain the link is what lacks, and
 * farther guesses, which are worse, would keep it from more that is wanted.
 *
 * Plain state, no allocation; the engine's thread owns it.
 */
#ifndef IG_STRIDE_H
#define IG_STRIDE_H

#include <stdint.h>

struct ig_stride_rule {
    uint16_t wait_max, overload_max; /* events that may pass within a window */
    uint16_t window;                 /* steps */
};
extern const struct ig_stride_rule ig_stride_usual; /* docs/POLICIES.md */

struct ig_stride {
    uint8_t s;               /* layers ahead, for experts of this layer */
    uint8_t least, most;     /* its bounds, least >= 1 */
    uint16_t wait, overload; /* events in this window */
};

/* planned: of each layer start, least, most. */
void ig_stride_init(struct ig_stride *layer, uint32_t n_layer, const uint8_t (*planned)[3]);
void ig_stride_wait(struct ig_stride *layer);
void ig_stride_overload(struct ig_stride *layer);

/* End of step number `step`: moves what must move.  Returns the number of layers that moved. */
uint32_t ig_stride_step(struct ig_stride *layer, uint32_t n_layer,
                        const struct ig_stride_rule *rule, uint64_t step);

/* Strides over time: at most so many samples, taken every so many steps; when they are full every
 * second one goes.  at: [IG_STRIDE_PAST][n_layer], the caller's. */
enum { IG_STRIDE_PAST = 64 };
struct ig_stride_log {
    uint32_t n, every; /* every 0: as 1 */
    uint8_t *at;
};
void ig_stride_note(struct ig_stride_log *g, const struct ig_stride *layer, uint32_t n_layer,
                    uint64_t step);

#endif
