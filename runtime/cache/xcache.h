/* xcache.h -- which experts sit in the fast tier, and in which slot.
 *
 * A table, not a store: it never touches weights and knows no byte sizes.  Tags
 * are full (layer, expert) ids, so layers may share a set.  The caller gives all
 * memory at init; nothing allocates.  One thread (the engine's) calls it: the
 * mover reports through that thread.
 *
 * The invariant: a way that is pinned (a kernel may read it) or being filled (a
 * copy may write it) is never a victim.  A prefetch that has come and awaits its
 * layer is the last of victims, and of another prefetch none: it was not worth a
 * place by the policy, so it would be the first.
 *
 * A step of one layer, from the router's choice to the kernels:
 *   1. ig_xcache_use() for each chosen expert, least weight first; pin the hits
 *   2. ig_xcache_claim() for each miss worth storing, copy, ig_xcache_ready()
 *   3. after the kernels: unpin
 * Pinning before claiming is what keeps one miss from throwing out a hit of the
 * same token.
 */
#ifndef IG_XCACHE_H
#define IG_XCACHE_H

#include "policy.h"

enum {
    IG_XC_MISS = -1,    /* not resident, or no way of the set may be taken now */
    IG_XC_REFUSED = -2, /* the policy keeps the resident expert instead */
};

enum ig_xstate { IG_XC_EMPTY, IG_XC_FILLING, IG_XC_READY };
enum ig_xearly { IG_XC_DEMANDED, IG_XC_AWAITED, IG_XC_PASSED };

struct ig_xslot {
    uint32_t id;   /* full tag; meaningless when EMPTY */
    uint16_t pins; /* kernels that may read it */
    uint8_t state; /* enum ig_xstate */
    uint8_t
        early; /* enum ig_xearly: filled by a prefetch and not used since; its layer has passed */
};

/* Per layer, of the expert that the event is about. */
struct ig_xcount {
    uint64_t hit, late, miss;      /* late: chosen while its copy was under way */
    uint64_t fill, evict, refused; /* demand fills; evictions; not admitted or no free way */
    uint64_t early, early_used, early_lost; /* prefetch fills; later used; evicted unused */
};

struct ig_xcache {
    struct ig_xgeom g;
    const struct ig_policy *policy;
    void *state;             /* the policy's */
    struct ig_xslot *slot;   /* [n_slot] */
    int32_t *slot_of;        /* [n_layer * n_expert], IG_XC_MISS when not resident */
    uint64_t *used;          /* [n_layer * n_expert] clock of the last use, 0: never */
    struct ig_xcount *count; /* [n_layer] */
    uint64_t clock;          /* uses so far */
};

/* Bytes that init wants, 64-byte aligned.  0: the geometry is not one (empty, ways of a set
 * not ascending, a layer without a set). */
size_t ig_xcache_bytes(const struct ig_xgeom *g, const struct ig_policy *policy,
                       const struct ig_policy_arg *arg);
void ig_xcache_init(struct ig_xcache *c, const struct ig_xgeom *g, const struct ig_policy *policy,
                    const struct ig_policy_arg *arg, void *mem);

/* A token begins.  A prefill batch announces all its tokens, then goes through the layers; row()
 * says whose uses follow, 0 for the newest token, 1 for the one before it, ...; token() sets 0. */
void ig_xcache_token(struct ig_xcache *c, int32_t token);
void ig_xcache_row(struct ig_xcache *c, uint32_t back);

/* The slot of an expert, READY or FILLING, or IG_XC_MISS.  Changes nothing. */
int ig_xcache_find(const struct ig_xcache *c, uint32_t layer, uint32_t expert);

/* The router chose it: counted, and the policy learns of it.  Returns as find does. */
int ig_xcache_use(struct ig_xcache *c, uint32_t layer, uint32_t expert, float weight);

/* A predictor expects it: the policy learns of it. */
void ig_xcache_predict(struct ig_xcache *c, uint32_t layer, uint32_t expert);

/* A slot for an expert that is not resident; it is FILLING until ready or drop.
 * `early`: a prefetch, not demanded yet; the policy is not asked whether it is worth a place, the
 * predictor was.  IG_XC_MISS: every way is pinned or filling, or awaited if `early`. */
int ig_xcache_claim(struct ig_xcache *c, uint32_t layer, uint32_t expert, int early);
void ig_xcache_ready(struct ig_xcache *c, int slot);
void ig_xcache_drop(struct ig_xcache *c, int slot); /* copy failed or cancelled: the way is empty */

/* The layer has chosen: its prefetches that are not used await nothing any more. */
uint32_t ig_xcache_passed(struct ig_xcache *c, uint32_t layer); /* how many */

void ig_xcache_pin(struct ig_xcache *c, int slot);
void ig_xcache_unpin(struct ig_xcache *c, int slot);

#endif
