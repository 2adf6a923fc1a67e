/* move_check.h -- which blocks of a move are there, and whether they are right: the mover's, by any
 * thread that waits; rules in mover.h. */
#ifndef IG_MOVE_CHECK_H
#define IG_MOVE_CHECK_H

#include "mover.h"

#include <stdbool.h>

/* Checks one block; false: there is none to check now. */
bool ig_move_check(struct ig_move *v);
/* Marks the ends of blocks and of pieces, before anything is read into them. */
void ig_move_mark(const struct ig_move *v);
/* The last bytes before `end` are no longer what they were marked with. */
bool ig_move_changed(const unsigned char *end);
/* Who sleeps on its state looks again (mover.c). */
void ig_move_tell(struct ig_move *v);

#endif
