/* safetensors.h -- Hugging Face checkpoints: a folder (single file or shards with
 * an index) or one .safetensors file.
 */
#ifndef IG_SAFETENSORS_H
#define IG_SAFETENSORS_H

#include "ckpt.h"

/* On error nothing stays open. */
enum ig_err ig_safetensors_open(struct ig_ckpt *c, const char *path, struct ig_why *why);

#endif
