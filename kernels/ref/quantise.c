/* quantise.c -- f32 -> codes, block by block.
 *
 * Blocks of 32 by GGUF's published rules.  Where those search (sub-scaled
 * formats, IQ4), so does this: it tries scales near the obvious one and keeps
 * the one with the least squared error, weighted by x^2 for symmetric formats.
 * Flags: -ffp-contract=off, no instruction set.
 */
#include "../math.h"
#include "../quant.h"

enum { QB = IG_QBLOCK, TRIES = 9 };

/* 1 / d, or 0 where that is not a finite number. */
static float inverse(float d)
{
    const float inv = d != 0.0f ? 1.0f / d : 0.0f;
    return isfinite(inv) ? inv : 0.0f;
}

/* (int)x held inside [lo, hi]; not-a-number gives lo. */
static int to_int(float x, int lo, int hi)
{
    if (!(x > (float)lo)) return lo;
    return x < (float)hi ? (int)x : hi;
}

static int nearest(float x, int lo, int hi) { return to_int(floorf(x + 0.5f), lo, hi); }

/* The value of largest magnitude, with its sign. */
static float extreme(const float *x, int n)
{
    float most = 0.0f;
    for (int i = 0; i < n; i++) most = fabsf(x[i]) > fabsf(most) ? x[i] : most;
    return most;
}

/* -- blocks of 32 */

static void quantise_q8_0(struct ig_qcodes *c, const float *x)
{
    const float d = fabsf(extreme(x, QB)) / 127.0f, inv = inverse(d);
    c->d = ig_fp16_from_f32(d);
    for (int i = 0; i < QB; i++) c->q[i] = (uint8_t)(to_int(roundf(x[i] * inv), -127, 127) + 128);
}

/* Q4_0, Q5_0: the extreme value becomes code 0. */
static void quantise_signed(const struct ig_qfmt *f, struct ig_qcodes *c, const float *x)
{
    const float d = extreme(x, QB) / -(float)f->zero, inv = inverse(d);
    c->d = ig_fp16_from_f32(d);
    for (int i = 0; i < QB; i++)
        c->q[i] = (uint8_t)to_int(x[i] * inv + ((float)f->zero + 0.5f), 0, 2 * f->zero - 1);
}

/* Q4_1, Q5_1: from the least value to the largest. */
static void quantise_range(const struct ig_qfmt *f, struct ig_qcodes *c, const float *x)
{
    const int top = (1 << (f->plane[0] + f->plane[1])) - 1;
    float lo = x[0], hi = x[0];
    for (int i = 1; i < QB; i++) {
        lo = x[i] < lo ? x[i] : lo;
        hi = x[i] > hi ? x[i] : hi;
    }
    const float d = (hi - lo) / (float)top, inv = inverse(d);
    c->d = ig_fp16_from_f32(d);
    c->m = ig_fp16_from_f32(lo);
    for (int i = 0; i < QB; i++) c->q[i] = (uint8_t)to_int((x[i] - lo) * inv + 0.5f, 0, top);
}

/* The code whose value is nearest; of two as near, the first. */
static int book_code(const int8_t *book, float x)
{
    int best = 0;
    for (int q = 1; q < 16; q++)
        if (fabsf(x - (float)book[q]) < fabsf(x - (float)book[best])) best = q;
    return best;
}

static void quantise_mxfp4(struct ig_qcodes *c, const float *x)
{
    const float most = fabsf(extreme(x, QB));
    int e = 0;
    if (most > 0.0f) {
        (void)frexpf(most, &e); /* most = [0.5, 1) * 2^e: floor(log2) is e - 1 */
        e = e - 1 - 2 + 127;
        e = e < 0 ? 0 : e > 254 ? 254 : e;
    }
    c->d = (uint16_t)e;
    const float inv = ldexpf(1.0f, 128 - e);
    for (int i = 0; i < QB; i++)
        c->q[i] =
            (uint8_t)book_code(ig_mxfp4_book, isfinite(inv) ? x[i] * inv : ldexpf(x[i], 128 - e));
}

/* -- searches */

/* What a scale is fitted to. */
struct fit {
    const struct ig_qfmt *f;
    const float *x;
    int n;
};

static int code_of(const struct ig_qfmt *f, float x)
{
    if (f->book) return book_code(f->book, x);
    const int top = (1 << (f->plane[0] + f->plane[1])) - 1;
    return nearest(x + (float)f->zero, 0, top);
}

/* The scale d, x ~ d * v, of least error; may be negative, so that the extreme value
 * takes the longer side.  In units of the extreme value, so that squares stay finite. */
static float fit_scale(const struct fit *a)
{
    const float most = extreme(a->x, a->n), unit = inverse(most);
    const float side = a->f->book ? -127.0f : -(float)a->f->zero, step = a->f->book ? 0.8f : 0.1f;
    float best = 1.0f / side, score = -1.0f;
    if (unit == 0.0f) return 0.0f;
    for (int k = -TRIES; k <= TRIES; k++) {
        float xv = 0.0f, vv = 0.0f;
        for (int i = 0; i < a->n; i++) {
            const float x = a->x[i] * unit;
            const float v = (float)ig_qvalue(a->f, code_of(a->f, x * (side + step * (float)k)));
            xv += x * x * x * v;
            vv += x * x * v * v;
        }
        if (vv > 0.0f && xv * xv > score * vv) {
            score = xv * xv / vv;
            best = xv / vv;
        }
    }
    return best * most;
}

/* x ~ d * q - m with q in 0..top and m >= 0. */
static void fit_range(const float *x, int n, int top, float *d, float *m)
{
    float lo = 0.0f, hi = x[0], least = INFINITY;
    for (int i = 0; i < n; i++) {
        lo = x[i] < lo ? x[i] : lo;
        hi = x[i] > hi ? x[i] : hi;
    }
    *d = (hi - lo) / (float)top;
    *m = -lo;
    if (inverse(*d) == 0.0f) {
        *d = 0.0f;
        return;
    }
    const float d0 = *d, m0 = *m;
    for (int k = -TRIES; k <= TRIES; k++) {
        /* codes under a slightly other scale, then the best line through them */
        const float inv = ((float)top + 0.1f * (float)k) / (d0 * (float)top);
        float sq = 0, sqq = 0, sx = 0, sqx = 0, error = 0;
        for (int i = 0; i < n; i++) {
            const float q = (float)nearest((x[i] + m0) * inv, 0, top);
            sq += q;
            sqq += q * q;
            sx += x[i];
            sqx += q * x[i];
        }
        const float det = (float)n * sqq - sq * sq;
        if (!(det > 0.0f)) continue;
        float dk = ((float)n * sqx - sq * sx) / det, mk = (sq * sqx - sqq * sx) / det;
        if (mk < 0.0f) {
            mk = 0.0f;
            dk = sqx / sqq;
        }
        for (int i = 0; i < n; i++) {
            const float q = (float)nearest((x[i] + m0) * inv, 0, top), e = dk * q - mk - x[i];
            error += e * e;
        }
        if (error < least && dk > 0.0f) {
            least = error;
            *d = dk;
            *m = mk;
        }
    }
}

/* Sub-scales and minima to integers under one d and m; then every code again, by what
 * the block now says. */
static void quantise_sub_range(const struct ig_qfmt *f, struct ig_qcodes *c, const float *x)
{
    const int sub = ig_qsub_cols(f), top = (1 << (f->plane[0] + f->plane[1])) - 1;
    const int most = f->sc == IG_QSC_44 ? 15 : 63;
    float d[IG_QSUBS], m[IG_QSUBS];
    float d_most = 0.0f, m_most = 0.0f;
    for (int i = 0; i < f->n_sub; i++) {
        fit_range(x + i * sub, sub, top, &d[i], &m[i]);
        d_most = d[i] > d_most ? d[i] : d_most;
        m_most = m[i] > m_most ? m[i] : m_most;
    }
    c->d = ig_fp16_from_f32(d_most / (float)most);
    c->m = ig_fp16_from_f32(m_most / (float)most);
    const float d_all = ig_fp16_to_f32(c->d), m_all = ig_fp16_to_f32(c->m);
    for (int i = 0; i < f->n_sub; i++) {
        c->sc[i] = (int8_t)nearest(d[i] * inverse(d_all), 0, most);
        c->mn[i] = (uint8_t)nearest(m[i] * inverse(m_all), 0, most);
        const float inv = inverse(d_all * (float)c->sc[i]), mi = m_all * (float)c->mn[i];
        for (int j = i * sub; j < (i + 1) * sub; j++)
            c->q[j] = (uint8_t)nearest((x[j] + mi) * inv, 0, top);
    }
}

/* The same without minima; sub-scales have a sign. */
static void quantise_sub_signed(const struct ig_qfmt *f, struct ig_qcodes *c, const float *x)
{
    const int sub = ig_qsub_cols(f), lo = f->sc == IG_QSC_8 ? -128 : -32, hi = -lo - 1;
    float d[IG_QSUBS];
    for (int i = 0; i < f->n_sub; i++) d[i] = fit_scale(&(struct fit){ f, x + i * sub, sub });
    c->d = ig_fp16_from_f32(extreme(d, f->n_sub) / (float)lo);
    const float d_all = ig_fp16_to_f32(c->d);
    for (int i = 0; i < f->n_sub; i++) {
        c->sc[i] = (int8_t)nearest(d[i] * inverse(d_all), lo, hi);
        const float inv = inverse(d_all * (float)c->sc[i]);
        for (int j = i * sub; j < (i + 1) * sub; j++) c->q[j] = (uint8_t)code_of(f, x[j] * inv);
    }
}

static void quantise_iq4_nl(const struct ig_qfmt *f, struct ig_qcodes *c, const float *x)
{
    c->d = ig_fp16_from_f32(fit_scale(&(struct fit){ f, x, QB }));
    const float inv = inverse(ig_fp16_to_f32(c->d));
    for (int i = 0; i < QB; i++) c->q[i] = (uint8_t)code_of(f, x[i] * inv);
}

void ig_qcodes_from_f32(enum ig_fmt fmt, struct ig_qcodes *c, const float *x)
{
    const struct ig_qfmt *f = ig_qfmt(fmt);
    switch (fmt) {
    case IG_Q8_0:
        quantise_q8_0(c, x);
        break;
    case IG_MXFP4:
        quantise_mxfp4(c, x);
        break;
    case IG_IQ4_NL:
        quantise_iq4_nl(f, c, x);
        break;
    default:
        if (f->min == IG_QMIN_SUB)
            quantise_sub_range(f, c, x);
        else if (f->n_sub)
            quantise_sub_signed(f, c, x);
        else if (f->min)
            quantise_range(f, c, x);
        else
            quantise_signed(f, c, x);
        break;
    }
}
