/* quant_cpu.h -- what quant_*.c define, for the tables of the instruction sets. */
#ifndef IG_QUANT_CPU_H
#define IG_QUANT_CPU_H

#include "../kernels.h"

#define IG_QUANT_FORMATS(X)                                                                        \
    X(q4_k, IG_Q4_K)                                                                               \
    X(q6_k, IG_Q6_K)                                                                               \
    X(q5_k, IG_Q5_K) X(mxfp4, IG_MXFP4) X(q4_1, IG_Q4_1) X(q5_0, IG_Q5_0) X(q5_1, IG_Q5_1)         \
        X(iq4_nl, IG_IQ4_NL) X(q3_k, IG_Q3_K) X(q2_k, IG_Q2_K) X(iq4_xs, IG_IQ4_XS)

#if defined(__aarch64__)
#define X(name, fmt) ig_panel_fn ig_panel_##name##_neon, ig_panel_##name##_i8mm;
IG_QUANT_FORMATS(X)
X(q8_0, IG_Q8_0)
X(q4_0, IG_Q4_0)
#undef X
#else
#define X(name, fmt) ig_panel_fn ig_panel_##name##_avx2, ig_panel_##name##_avx512;
IG_QUANT_FORMATS(X)
#undef X
ig_panel_fn ig_panel_q8_0_avx512, ig_panel_q4_0_avx512; /* avx2.c has its own */
ig_panel_fn ig_panel_bf16_amx;
#endif

#endif
