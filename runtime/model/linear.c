/* linear.c -- a range of a matrix's panels times a batch's activation rows, plus its bias. */
#include "state.h"

#include <string.h>

const void *ig_packed(struct ig_worker *w, int fmt, int id, const void *const *x, int cols, int n)
{
    if (!ig_packs(fmt, n) || ig_kern.packed_bytes(cols, n) > IG_PACK_BYTES) return NULL;
    const unsigned phase = atomic_load_explicit(&w->e->team.phase, memory_order_relaxed);
    struct ig_packed_of *of = &w->packed_of;
    if (of->n == n && of->phase == phase && of->id == id && of->first == x[0] &&
        of->last == x[n - 1])
        return w->packed;
    *of = (struct ig_packed_of){ phase, id, n, x[0], x[n - 1] };
    ig_kern.pack(w->packed, x, cols, n, 0, cols / IG_QBLOCK);
    return w->packed;
}

/* y[t * y_stride + r] = row r of m times x[t], for panels [lo, hi), t < n.
 * y has room for whole panels: padded rows come out as zeros. */
void ig_linear(struct ig_worker *w, const struct ig_mat *m, int lo, int hi, const void *const *x,
               int n, float *y, size_t y_stride)
{
    const void *packed = ig_packed(w, m->fmt, IG_WHOLE_BATCH, x, (int)m->cols, n);
    const unsigned char *panel = ig_data(w->e, m->off + (uint64_t)lo * m->stride);
    for (int p = lo; p < hi; p++, panel += m->stride) {
        ig_panel(m->fmt, w->ya, panel, packed, x, (int)m->cols, n);
        if (m->bias)
            for (int t = 0; t < n; t++)
                ig_kern.add(w->ya[t], ig_vec(w->e, m->bias) + p * IG_PANEL_ROWS, IG_PANEL_ROWS);
        for (int t = 0; t < n; t++)
            memcpy(y + (size_t)t * y_stride + (size_t)p * IG_PANEL_ROWS, w->ya[t], sizeof w->ya[t]);
    }
}
