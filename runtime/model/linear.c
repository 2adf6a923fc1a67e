/* linear.c -- a range of a matrix's panels times a batch's activation rows, plus its bias. */
#include "state.h"

#include <string.h>

/* y[t * y_stride + r] = row r of m times x[t], for panels [lo, hi), t < n.
 * y has room for whole panels: padded rows come out as zeros. */
void ig_linear(struct ig_worker *w, const struct ig_mat *m, int lo, int hi, const void *const *x,
               int n, float *y, size_t y_stride)
{
    ig_panel_fn *const fn = ig_kern.panel[m->fmt];
    const unsigned char *panel = ig_data(w->e, m->off + (uint64_t)lo * m->stride);
    for (int p = lo; p < hi; p++, panel += m->stride) {
        fn(w->ya, panel, x, (int)m->cols, n);
        if (m->bias)
            for (int t = 0; t < n; t++)
                ig_kern.add(w->ya[t], ig_vec(w->e, m->bias) + p * IG_PANEL_ROWS, IG_PANEL_ROWS);
        for (int t = 0; t < n; t++)
            memcpy(y + (size_t)t * y_stride + (size_t)p * IG_PANEL_ROWS, w->ya[t], sizeof w->ya[t]);
    }
}
