/* policy.h -- who leaves an expert cache: one struct of functions a policy.
 *
 * A policy only ranks experts.  The cache (xcache.c) decides: among the ways of
 * a set that are neither in use nor being filled it evicts the expert of least
 * value, ties broken by the older last use.  So no policy can break the rules
 * of the cache, and a policy never sees a slot.  An expert is named by its id,
 * layer * n_expert + expert.  State lies in memory that the caller gives
 * (bytes() says how much); nothing here allocates.
 */
#ifndef IG_POLICY_H
#define IG_POLICY_H

#include <stddef.h>
#include <stdint.h>

/* Sets x ways.  set_of[layer] < n_set; first[set] .. first[set + 1] are a set's slots, so ways may
 * differ from set to set.  The arrays belong to the caller (generated tables) and stay. */
struct ig_xgeom {
    uint32_t n_layer, n_expert, n_set, n_slot;
    const uint16_t *set_of; /* [n_layer] */
    const uint32_t *first;  /* [n_set + 1], first[n_set] == n_slot */
};

/* What a plan sets; 0 means the policy's own default.  The meaning is in the policy's file. */
struct ig_policy_arg {
    double num[3];
    const float *table; /* [n_layer * n_expert], static only */
};

struct ig_policy {
    const char *name;
    size_t (*bytes)(const struct ig_xgeom *g, const struct ig_policy_arg *arg);
    void (*init)(void *state, const struct ig_xgeom *g, const struct ig_policy_arg *arg);
    double (*value)(const void *state, uint32_t id);

    /* The rest may be NULL. */
    void (*token)(void *state, int32_t token); /* a step begins; token is -1 when not known */
    void (*row)(void *state, uint32_t back);   /* uses that follow are of the token `back` before */
    void (*use)(void *state, uint32_t id, float weight, int hit); /* the router chose it */
    void (*predict)(void *state, uint32_t id);                    /* a predictor expects it soon */
    void (*fill)(void *state, uint32_t id);
    void (*evict)(void *state, uint32_t id);
    /* 0: `id` is not worth the place of `victim`, the cache stays as it is. */
    int (*admit)(void *state, uint32_t id, uint32_t victim);
};

extern const struct ig_policy ig_policy_lru, ig_policy_lru2, ig_policy_decay, ig_policy_echo,
    ig_policy_echo_admit, ig_policy_static;

#endif
