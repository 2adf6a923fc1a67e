/* matvec_q.c -- the definition of panel times activations for block formats (rule 3).
 *
 * One text for all of them, by the numbers of quant.h.
 * Flags: -ffp-contract=off, no instruction set.
 */
#include "../math.h"
#include "../quant.h"
#include "ref.h"

enum { PR = IG_PANEL_ROWS, QB = IG_QBLOCK };

/* 32 columns from column `at` of a row's block. */
static float add_block(const struct ig_qfmt *f, const struct ig_qcodes *c, int at,
                       const struct ig_xq *x, float acc)
{
    const int sub = f->n_sub ? ig_qsub_cols(f) : QB;
    int32_t s = 0, s_min = 0;
    for (int i = 0; i < QB; i += sub) {
        int32_t dot = 0, sum = 0;
        for (int j = i; j < i + sub; j++) {
            dot += ig_qvalue(f, c->q[at + j]) * x->q[j];
            sum += x->q[j];
        }
        s += f->n_sub ? c->sc[(at + i) / sub] * dot : dot;
        s_min += f->min == IG_QMIN_SUB ? c->mn[(at + i) / sub] * sum : sum;
    }
    acc = fmaf(ig_qscale(f, c->d) * x->d, (float)s, acc);
    if (f->min == IG_QMIN_NONE) return acc;
    const float m = ig_fp16_to_f32(c->m) * x->d;
    return fmaf(f->min == IG_QMIN_SUB ? -m : m, (float)s_min, acc);
}

static void block_panel(enum ig_fmt fmt, float (*y)[PR], const void *panel, const void *const *x,
                        int cols, int n)
{
    const struct ig_qfmt *f = ig_qfmt(fmt);
    for (int t = 0; t < n; t++) {
        const struct ig_xq *xt = x[t];
        for (int r = 0; r < PR; r++) {
            float part[IG_BLOCK_PARTS] = { 0 };
            const uint8_t *tile = panel;
            for (int c = 0; c < cols; c += f->cols, tile += PR * f->bytes) {
                struct ig_qcodes codes;
                ig_qcodes_from_tile(f, &codes, tile, r);
                for (int j = 0; j < f->cols; j += QB) {
                    const int b = (c + j) / QB;
                    part[b % IG_BLOCK_PARTS] =
                        add_block(f, &codes, j, xt + b, part[b % IG_BLOCK_PARTS]);
                }
            }
            y[t][r] = ig_tree8(part);
        }
    }
}

#define DEFINE(name, fmt)                                                                          \
    void ig_panel_##name##_ref(float(*y)[PR], const void *panel, const void *const *x, int cols,   \
                               int n)                                                              \
    {                                                                                              \
        block_panel(fmt, y, panel, x, cols, n);                                                    \
    }
DEFINE(q4_k, IG_Q4_K)
DEFINE(q6_k, IG_Q6_K)
DEFINE(q5_k, IG_Q5_K)
DEFINE(mxfp4, IG_MXFP4)
DEFINE(q4_1, IG_Q4_1)
DEFINE(q5_0, IG_Q5_0)
DEFINE(q5_1, IG_Q5_1)
DEFINE(iq4_nl, IG_IQ4_NL)
DEFINE(q3_k, IG_Q3_K)
DEFINE(q2_k, IG_Q2_K)
DEFINE(iq4_xs, IG_IQ4_XS)
