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
        [IG_Q4_K] = ig_panel_q4_k_ref,
        [IG_Q6_K] = ig_panel_q6_k_ref,
        [IG_Q5_K] = ig_panel_q5_k_ref,
        [IG_MXFP4] = ig_panel_mxfp4_ref,
        [IG_Q4_1] = ig_panel_q4_1_ref,
        [IG_Q5_0] = ig_panel_q5_0_ref,
        [IG_Q5_1] = ig_panel_q5_1_ref,
        [IG_IQ4_NL] = ig_panel_iq4_nl_ref,
        [IG_Q3_K] = ig_panel_q3_k_ref,
        [IG_Q2_K] = ig_panel_q2_k_ref,
        [IG_IQ4_XS] = ig_panel_iq4_xs_ref,
    },
    .attn = { [IG_F32] = ig_attn_f32_ref, [IG_F16] = ig_attn_f16_ref, [IG_Q8_0] = ig_attn_q8_0_ref },
    .rmsnorm = ig_rmsnorm_ref,
    .quantize = ig_quantize_ref,
    .swiglu = ig_swiglu_ref,
    .softmax = ig_softmax_ref,
    IG_STEP_MEMBERS
};
