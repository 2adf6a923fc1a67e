/* ref.c -- the table of scalar definitions. */
#include "ref.h"
#define NAME ref
#include "../step.inc.h"

const struct ig_kernels ig_kernels_ref = {
    .name = "ref",
    .panel = {
        [IG_F32] = ig_panel_f32_ref,
        [IG_F16] = ig_panel_f16_ref,
        [IG_BF16] = ig_panel_bf16_ref,
        [IG_Q8_0] = ig_panel_q8_0_ref,
        [IG_Q4_0] = ig_panel_q4_0_ref,
    },
    .attn = { [IG_F32] = ig_attn_f32_ref, [IG_F16] = ig_attn_f16_ref },
    .rmsnorm = ig_rmsnorm_ref,
    .quantize = ig_quantize_ref,
    .swiglu = ig_swiglu_ref,
    .softmax = ig_softmax_ref,
    IG_STEP_MEMBERS
};
