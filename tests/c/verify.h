/* verify.h -- is a weights file what its checkpoint says?
 *
 * Reads both sides on its own: the weights file through wfile.h and
 * ig_panel_row, the checkpoint through its reader, with the row order and the
 * rounding of each value worked out again.  Compiled against generated tables.
 */
#ifndef IG_TEST_VERIFY_H
#define IG_TEST_VERIFY_H

#include "ckpt.h"

/* NULL, or what differs first. */
const char *verify(const char *weights, const struct ig_ckpt *c);

#endif
