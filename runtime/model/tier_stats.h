/* tier_stats.h -- the counters of the expert cache as text lines and as JSON. */
#ifndef IG_TIER_STATS_H
#define IG_TIER_STATS_H

#include "engine.h"

#include <jansson.h>

/* A line at a time; none when all experts are in memory. */
void ig_expert_table(struct ig_engine *e, int decode, void (*show)(const char *text));
/* The same as lines of a few words, of both phases: what is said at the end of a run. */
void ig_expert_lines(struct ig_engine *e, void (*show)(const char *text));
/* An object, or null when all experts are in memory. */
json_t *ig_expert_json(struct ig_engine *e, int decode);

#endif
