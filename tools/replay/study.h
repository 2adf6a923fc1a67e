/* study.h -- what predictors are judged by and trained from. */
#ifndef IG_REPLAY_STUDY_H
#define IG_REPLAY_STUDY_H

#include "predictors.h"
#include "sim.h"

/* The table of --recall on standard output: every predictor that there is something for. */
void ig_recall(const struct trace *t, const struct run_rows *rows, const struct learned *from,
               int csv);

/* --features: records of IG_N_PFEATURE + 3 bytes, the features, distance, layer, and 1 when the
 * expert was chosen; of the candidates among every `every`th row's experts.  0, or 1 after a
 * message. */
int ig_features(const struct trace *t, const struct run_rows *rows, const struct learned *from,
                const char *path, uint32_t every);

#endif
