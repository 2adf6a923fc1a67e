/* pick.h -- a batch on a device whose experts lie in RAM: which layers' experts come over the link,
 * and which the processor computes where they are.
 *
 * The link brings layers one after the other into two buffers in turn, while the layers before are
 * computed; a layer of the processor's leaves the link free for those behind it.  As many layers
 * are the processor's, evenly between the others, as make the batch end soonest; none or all are
 * among the choices, so it never takes longer than with either alone.  Where both work, either
 * takes longer, since they share RAM; so both do only where that is clearly sooner.  What the
 * processor took in earlier batches corrects the reckoning for batches of like size.
 */
#ifndef IG_PICK_H
#define IG_PICK_H

#include <stdint.h>

enum { IG_PICK_SIZES = 16 }; /* batches of 1, 2 to 3, 4 to 7 ... rows */

/* Of a layer, in seconds. */
struct ig_pick {
    double link;             /* to bring all its experts; 0: it cannot */
    double start, each, row; /* of the processor: before the first expert, an expert, a row's share
                                of one expert; each 0: it does not take part */
    double link_beside, cpu_beside; /* so many times as long beside the other; 0: as long */
    /* What the processor took, of what was reckoned for it alone, in batches of a size: by itself
     * and beside the link; 0: there were none. */
    double seen[2][IG_PICK_SIZES];
    int n_expert, n_used; /* of a layer; of a row */
};

/* How many experts n rows of a text choose together: neighbours choose alike, so n rows choose as
 * many as n^0.7 that choose at random.  (2 to 128 rows of the three traces of docs/POLICIES.md:
 * n^0.60 to n^0.85.) */
double ig_pick_experts(const struct ig_pick *p, int n);
/* The processor's time for a layer of n rows, by itself or (both 1) beside the link. */
double ig_pick_cpu(const struct ig_pick *p, int n, int both);
/* It took so long for one. */
void ig_pick_saw(struct ig_pick *p, int n, int both, double took);
/* by_cpu[layer], layer in [0, n_layer): 1, the processor; -> seconds of all; below 0: no side can.
 */
double ig_pick_layers(const struct ig_pick *p, int n_layer, int n, uint8_t *by_cpu);
/* The most rows in [0, most] of which the processor takes a layer. */
int ig_pick_most(const struct ig_pick *p, int n_layer, int most, uint8_t *by_cpu);

#endif
