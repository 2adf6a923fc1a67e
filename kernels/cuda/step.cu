/* step.cu -- all kernels of a step in one program; compiled for ROWS 1 and for a batch. */
#include "rows.cu"
#include "linear.cu"
#include "attn.cu"
#include "latent.cu"
#include "place.cu"
#include "ahead.cu"
#include "moe.cu"
#include "dense.cu"
#if ROWS > 1
#include "gemm.cu"
#include "tile.cu"
#include "fast.cu"
#include "flash.cu"
#if N_EXPERT > 0
#include "router.cu"
#endif
#endif
