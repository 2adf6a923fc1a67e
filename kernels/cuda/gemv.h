/* gemv.h -- panels times activation rows, in the order of sums of kernels.h.
 *
 * 128 threads take a panel.  Block formats: half a warp a tile, part = thread /
 * 16; a lane loads 16 B = 4 rows of a group of columns, and three exchanges give
 * every lane one row's integer sum.  Float formats: part = thread / 8, a lane
 * has 2 rows (or 1, in half panels), so its loads are 8 B (4 B).
 *
 * A step is one tile (pair of columns) of every part.  Steps are loaded in
 * bunches: the first can be asked for before the activations are there.
 */
#ifndef IG_GEMV_H
#define IG_GEMV_H

#include "blocks.h"
#include "row.h"

enum { MOST_STEPS = 64 };

/* Weights on their way: blocks, or pairs of columns in the first words of q[0]. */
struct bunch {
    struct block b[MOST_STEPS];
};

/* A panel, or half a float panel: 8 rows, one a lane. */
struct panel {
    const unsigned char *p;
    int fmt, cols;
    int half; /* -1: a whole panel */
    int unroll;
};

/* Steps in flight: what a thread's registers hold, and no more than there are. */
IG_FN int panel_steps(int fmt, int cols) { return IS_BLOCK(fmt) ? DIV_UP(cols / QB, 8) : DIV_UP(cols, 32); }
IG_FN int panel_unroll(int fmt, int cols, int words)
{
    const int each = IS_BLOCK(fmt) ? block_words(fmt) : fmt == IG_F32 ? 4 : 2, steps = panel_steps(fmt, cols);
    const int most = LEAST(steps, LEAST(words / each, (int)MOST_STEPS));
    UNROLL for (int less = 0; less < MOST_STEPS / 2; less++) /* whole bunches, if they can be more than half as long */
        if (2 * less < most && steps % (most - less) == 0) return most - less;
    return most;
}

/* Row of the panel whose sum a lane holds in acc[.][0]. */
IG_FN int panel_row(const struct panel *m)
{
    const int t = (int)threadIdx.x % PANEL_THREADS;
    if (IS_BLOCK(m->fmt)) return (t & 3) * 4 + (t >> 3 & 1) * 2 + (t >> 2 & 1);
    return m->half < 0 ? (t & 7) * 2 : m->half * 8 + (t & 7);
}

IG_FN int panel_part(const struct panel *m)
{
    const int t = (int)threadIdx.x % PANEL_THREADS;
    return IS_BLOCK(m->fmt) ? t >> 4 : t >> 3;
}

/* 1, a constant: bunches of steps end where the columns end, so that nobody has to look. */
IG_FN int in_steps(const struct panel *m)
{
    return m->cols % (IS_BLOCK(m->fmt) ? 8 * QB : 32) == 0 && panel_steps(m->fmt, m->cols) % m->unroll == 0;
}

/* A step's loads are a fixed way from the first step's: one address for all, where nobody has to look. */
IG_FN void load_block(struct bunch *b, int i, const struct panel *m, int step)
{
    const int each = f_cols(m->fmt) / QB, part = panel_part(m); /* blocks of a tile */
    const int at = step * 8 + part, block = at < m->cols / QB ? at : 0;
    const size_t tile = (size_t)f_tile(m->fmt);
    const unsigned char *const t =
        in_steps(m) ? m->p + (size_t)(part / each) * tile : m->p + (size_t)(block / each) * tile;
    block_load(&b->b[i], m->fmt, in_steps(m) ? t + (size_t)step * (size_t)(8 / each) * tile : t, in_steps(m) ? part % each : block % each, panel_row(m));
}

IG_FN void load_float(struct bunch *b, int i, const struct panel *m, int step)
{
    const int pair = step * 16 + panel_part(m), row = panel_row(m);
    const int at = 2 * pair < m->cols ? pair : 0;
    const unsigned wide = m->fmt == IG_F32 ? 2 * PR * 4 : PR * 4; /* bytes of a pair */
    const unsigned char *const t =
        (in_steps(m) ? m->p + (size_t)panel_part(m) * wide + (size_t)step * 16 * wide : m->p + (size_t)at * wide) + row * 4;
    ig_u4 *q = &b->b[i].q[0];
    if (m->fmt == IG_F32) {
        const int next = in_steps(m) || 2 * at + 1 < m->cols ? PR * 4 : 0; /* an odd matrix has no last column */
        if (m->half < 0) {
            ig_load8(&q->x, &q->y, t);
            ig_load8(&q->z, &q->w, t + next);
        } else {
            q->x = ig_load4(t);
            q->z = ig_load4(t + next);
        }
    } else {
        if (m->half < 0)
            ig_load8(&q->x, &q->y, t);
        else
            q->x = ig_load4(t);
    }
}

/* Step `step` into place i of the bunch. */
IG_FN void step_load(struct bunch *b, int i, const struct panel *m, int step)
{
    if (IS_BLOCK(m->fmt))
        load_block(b, i, m, step);
    else
        load_float(b, i, m, step);
}

IG_FN void panel_load(struct bunch *b, const struct panel *m, int step)
{
    UNROLL for (int i = 0; i < MOST_STEPS; i++)
    {
        if (i >= m->unroll) break;
        step_load(b, i, m, step + i);
    }
}

/* The weights behind the first bunch come into L2. */
IG_FN void panel_near(const struct panel *m)
{
    const unsigned first = f_panel(m->fmt, m->unroll * (IS_BLOCK(m->fmt) ? 8 * QB : 32));
    for (unsigned i = first + 128 * (threadIdx.x % PANEL_THREADS); i < f_panel(m->fmt, m->cols); i += 128 * PANEL_THREADS)
        ig_prefetch(m->p + i);
}

/* The two columns of a pair, of the lane's row i of the pair of rows. */
IG_FN float weight_of(const ig_u4 *q, int fmt, int i, int odd)
{
    if (fmt == IG_F32) return ig_bits(odd ? (i ? q->w : q->z) : (i ? q->y : q->x));
    const unsigned w = i ? q->y : q->x;
    if (fmt == IG_F16) return ig_half(odd ? w >> 16 : w & 0xffffu);
    return ig_bits(odd ? w & 0xffff0000u : w << 16);
}

IG_FN void use_float(float *acc, const ig_u4 *q, const struct panel *m, const float *x, int pair)
{
    UNROLL for (int i = 0; i < 2; i++)
    {
        if (i == 1 && m->half >= 0) break;
        if (in_steps(m) || 2 * pair < m->cols) acc[i] = fmaf(weight_of(q, m->fmt, i, 0), x[2 * pair], acc[i]);
        if (in_steps(m) || 2 * pair + 1 < m->cols)
            acc[i] = fmaf(weight_of(q, m->fmt, i, 1), x[2 * pair + 1], acc[i]);
    }
}

/* Step `step`, in place i of the bunch, into the parts of `rows` activation rows (float, or struct ig_xq). */
IG_FN void step_use(float (*acc)[2], const struct bunch *b, int i, const struct panel *m, const void *const *x, int rows,
                    int step)
{
    if (IS_BLOCK(m->fmt)) {
        const int tile = step * 8 + panel_part(m), in = in_steps(m) || tile < m->cols / QB;
        UNROLL for (int t = 0; t < ROWS; t++)
        {
            if (t >= rows) break;
            const struct ig_xq *xb = (const struct ig_xq *)x[t] + (in ? xq_place(tile, m->cols / QB) : 0);
            acc[t][0] = block_use(acc[t][0], m->fmt, &b->b[i], tile % 8, xb, in);
        }
    } else {
        const int pair = step * 16 + panel_part(m);
        UNROLL for (int t = 0; t < ROWS; t++)
        {
            if (t >= rows) break;
            use_float(acc[t], &b->b[i].q[0], m, (const float *)x[t], pair);
        }
    }
}

IG_FN void panel_use(float (*acc)[2], const struct bunch *b, const struct panel *m, const void *const *x, int rows, int step)
{
    UNROLL for (int i = 0; i < MOST_STEPS; i++)
    {
        if (i >= m->unroll) break;
        step_use(acc, b, i, m, x, rows, step + i);
    }
}

/* The same, a quarter of it at a time, whose places are then asked for again: steps `from` on of panel `then`, if there
 * is one (p not NULL). */
IG_FN void panel_flow(float (*acc)[2], struct bunch *b, const struct panel *m, const struct panel *then, int from,
                      const void *const *x, int rows, int step)
{
    const int group = DIV_UP(m->unroll, 4);
    UNROLL for (int i = 0; i < MOST_STEPS; i++)
    {
        if (i >= m->unroll) break;
        step_use(acc, b, i, m, x, rows, step + i);
        if ((i + 1) % group != 0 && i + 1 < m->unroll) continue;
        if (then->p) {
            UNROLL for (int j = i / group * group; j <= i; j++) step_load(b, j, then, from + j);
        }
        __syncwarp(); /* keeps the compiler from sinking the loads to their uses */
    }
}

/* All bunches; the first is in b already.  Whole warps come here together. */
IG_FN void panel_sum(float (*acc)[2], struct bunch *b, const struct panel *m,
                     const void *const *x, int rows)
{
    const int steps = panel_steps(m->fmt, m->cols);
    UNROLL for (int t = 0; t < ROWS; t++) acc[t][0] = acc[t][1] = 0.0f;
#if ROWS == 1
    UNROLL_BY(1) for (int step = 0; step < steps; step += m->unroll)
    {
        struct panel then = *m;
        if (step + m->unroll >= steps) then.p = NULL;
        panel_flow(acc, b, m, &then, step + m->unroll, x, rows, step);
    }
#else
    for (int step = 0; step < steps; step += m->unroll) {
        if (step > 0) {
            panel_load(b, m, step);
            __syncwarp(); /* keeps the compiler from sinking the loads to their uses */
        }
        panel_use(acc, b, m, x, rows, step);
    }
#endif
}

/* A panel's parts in shared memory. */
typedef float panel_parts[IG_FLOAT_PARTS][PR];

IG_FN void panel_put(panel_parts *parts, float (*acc)[2], const struct panel *m, int rows)
{
    const int part = panel_part(m), row = panel_row(m);
    UNROLL for (int t = 0; t < ROWS; t++)
    {
        if (t >= rows) break;
        parts[t][part][row] = acc[t][0];
        if (!IS_BLOCK(m->fmt) && m->half < 0) parts[t][part][row + 1] = acc[t][1];
    }
}

/* The product of a panel, whose first weights are asked for, with `rows` activation rows: all parts are there. */
IG_FN void panel_product(panel_parts *parts, struct bunch *b, const struct panel *m, const void *const *x, int rows)
{
    float acc[ROWS][2];
    panel_sum(acc, b, m, x, rows);
    panel_put(parts, acc, m, rows);
    __syncthreads();
    stamp_mark(3);
}

/* Row r's result, once all parts are there. */
IG_FN float panel_get(float (*parts)[PR], int fmt, int r)
{
    float a[16];
    if (IS_BLOCK(fmt)) {
        UNROLL for (int i = 0; i < 8; i++) a[i] = parts[i][r];
        return ig_tree8(a);
    }
    UNROLL for (int i = 0; i < 16; i++) a[i] = parts[i][r];
    return ig_tree16(a);
}

/* Call body(a, f, ...) with the matrix's format as a constant. */
#define DISPATCH_ONE(set, f, body, ...) \
    if (((set) & 1 << (f)) && is == (f)) body(a_, f, __VA_ARGS__);
#define DISPATCH(a, set, f, body, ...)                  \
    {                                                   \
        const struct ig_args *const a_ = (a);           \
        const int is = FMT_OF(set, f);                  \
        DISPATCH_ONE(set, IG_F32, body, __VA_ARGS__)    \
        DISPATCH_ONE(set, IG_F16, body, __VA_ARGS__)    \
        DISPATCH_ONE(set, IG_BF16, body, __VA_ARGS__)   \
        DISPATCH_ONE(set, IG_Q8_0, body, __VA_ARGS__)   \
        DISPATCH_ONE(set, IG_Q4_0, body, __VA_ARGS__)   \
        DISPATCH_ONE(set, IG_Q4_K, body, __VA_ARGS__)   \
        DISPATCH_ONE(set, IG_Q6_K, body, __VA_ARGS__)   \
        DISPATCH_ONE(set, IG_Q5_K, body, __VA_ARGS__)   \
        DISPATCH_ONE(set, IG_MXFP4, body, __VA_ARGS__)  \
        DISPATCH_ONE(set, IG_Q4_1, body, __VA_ARGS__)   \
        DISPATCH_ONE(set, IG_Q5_0, body, __VA_ARGS__)   \
        DISPATCH_ONE(set, IG_Q5_1, body, __VA_ARGS__)   \
        DISPATCH_ONE(set, IG_IQ4_NL, body, __VA_ARGS__) \
        DISPATCH_ONE(set, IG_Q3_K, body, __VA_ARGS__)   \
        DISPATCH_ONE(set, IG_Q2_K, body, __VA_ARGS__)   \
        DISPATCH_ONE(set, IG_IQ4_XS, body, __VA_ARGS__) \
    }

/* Pointers to ROWS rows of floats or int8 blocks, `cols` wide. */
IG_FN void row_pointers(const void **x, int fmt, const float *f, const struct ig_xq *q, int first,
                        int cols)
{
    UNROLL for (int t = 0; t < ROWS; t++)
        x[t] = IS_BLOCK(fmt) ? (const void *)(q + (size_t)(first + t) * (size_t)(cols / QB))
                             : (const void *)(f + (size_t)(first + t) * (size_t)cols);
}

#endif
