/* hash.h -- XXH3-64 of a block that comes in pieces, with this machine's vectors.
 *
 * The values are the public XXH3's; only how many bytes a step takes differs.  A block from disk
 * is hashed between its arrival and its use, so this speed is part of a miss.
 */
#ifndef IG_HASH_H
#define IG_HASH_H

#include <stddef.h>
#include <stdint.h>

struct ig_hash {
    _Alignas(64) unsigned char state[576]; /* XXH3_state_t */
};

void ig_hash_start(struct ig_hash *h);
void ig_hash_add(struct ig_hash *h, const void *p, size_t n);
uint64_t ig_hash_end(const struct ig_hash *h);

void ig_hash_add_avx2(struct ig_hash *h, const void *p, size_t n); /* hash_avx2.c */

#endif
