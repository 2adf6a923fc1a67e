/* emulate_run.h -- launching an emulated kernel. */
#ifndef IG_EMULATE_RUN_H
#define IG_EMULATE_RUN_H

#include "emulate.h"

struct ig_args;
void emu_launch(void (*k)(const struct ig_args a), const struct ig_args *a, struct emu_index grid,
                int threads);

#endif
