/* attn.c -- the definition of attention over one KV block.
 *
 * sum16(p) puts position j of the block in lane j % 16, whatever lo is.
 * Flags: -ffp-contract=off, no instruction set.
 */
#include "../math.h"
#include "ref.h"

enum { KB = IG_KV_BLOCK };

typedef float load_fn(const void *p, int i);

static float load_f32(const void *p, int i) { return ((const float *)p)[i]; }
static float load_f16(const void *p, int i) { return ig_fp16_to_f32(((const uint16_t *)p)[i]); }

static void attn(load_fn *load, struct ig_attn *st, const float *q, const void *k, const void *v,
                 int hd, int g, int lo, int hi, float scale, const float *bias, int step)
{
    for (int h = 0; h < g; h++) {
        float p[KB], most = st->m[h];
        for (int j = lo; j < hi; j++) {
            float s = 0.0f;
            for (int d = 0; d < hd; d++) s = fmaf(q[h * hd + d], load(k, d * KB + j), s);
            p[j] = bias ? fmaf(s, scale, bias[h * step + j]) : s * scale;
            most = p[j] > most ? p[j] : most;
        }
        most += 0.0f; /* of -0 and +0, always +0 */

        const float c = ig_expf(st->m[h] - most);
        float lane[IG_LANES] = { 0 };
        for (int j = lo; j < hi; j++) {
            p[j] = ig_expf(p[j] - most);
            lane[j % IG_LANES] += p[j];
        }
        st->m[h] = most;
        st->l[h] = fmaf(st->l[h], c, ig_tree16(lane));

        for (int d = 0; d < hd; d++) {
            float o = st->o[h * hd + d] * c;
            for (int j = lo; j < hi; j++) o = fmaf(p[j], load(v, j * hd + d), o);
            st->o[h * hd + d] = o;
        }
    }
}

void ig_attn_f32_ref(struct ig_attn *st, const float *q, const void *k, const void *v, int hd,
                     int g, int lo, int hi, float scale, const float *bias, int step)
{
    attn(load_f32, st, q, k, v, hd, g, lo, hi, scale, bias, step);
}

void ig_attn_f16_ref(struct ig_attn *st, const float *q, const void *k, const void *v, int hd,
                     int g, int lo, int hi, float scale, const float *bias, int step)
{
    attn(load_f16, st, q, k, v, hd, g, lo, hi, scale, bias, step);
}
