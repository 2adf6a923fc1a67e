/* ref.h -- the scalar definitions, gathered in ig_kernels_ref (ref.c). */
#ifndef IG_REF_H
#define IG_REF_H

#include "../kernels.h"

ig_panel_fn ig_panel_f32_ref, ig_panel_f16_ref, ig_panel_bf16_ref, ig_panel_q8_0_ref,
    ig_panel_q4_0_ref, ig_panel_q4_k_ref, ig_panel_q6_k_ref, ig_panel_q5_k_ref, ig_panel_mxfp4_ref,
    ig_panel_q4_1_ref, ig_panel_q5_0_ref, ig_panel_q5_1_ref, ig_panel_iq4_nl_ref, ig_panel_q3_k_ref,
    ig_panel_q2_k_ref, ig_panel_iq4_xs_ref;
ig_panel_fn ig_panel_bf16_amx_ref; /* what BF16 is under ig_kernels_amx */
ig_attn_fn ig_attn_f32_ref, ig_attn_f16_ref, ig_attn_q8_0_ref;
void ig_rmsnorm_ref(float *y, const float *x, const float *w, int n, float eps);
void ig_quantize_ref(struct ig_xq *y, const float *x, int n);
void ig_swiglu_ref(float *h, const float *gate, const float *up, int n);
void ig_softmax_ref(float *x, int n);

#endif
