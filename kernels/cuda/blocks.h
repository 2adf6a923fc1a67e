/* blocks.h -- block formats of weights: what kernels/quant.h says, as constants of a format.
 *
 * Half a warp takes 32 columns of a panel's 16 rows.  Lane l has rows 4 (l % 4) ... + 3 and, of the
 * columns, group k = l / 4: columns 8k ... 8k + 7 (Q8_0: 4k and 16 + 4k, four each).  One load
 * of 16 B from each plane gives a lane the codes of its rows; the words of sub-scales hold four
 * rows too.  Formats are constants where these are called, so all of it folds.
 */
#ifndef IG_BLOCKS_H
#define IG_BLOCKS_H

#include "../math.h"
#include "shape.h"
#include "prims.h"

enum { MIN_NONE, MIN_ROW, MIN_SUB };

#define IS_K(f) \
    ((f) == IG_Q4_K || (f) == IG_Q5_K || (f) == IG_Q6_K || (f) == IG_Q3_K || (f) == IG_Q2_K || \
     (f) == IG_IQ4_XS)
#define SCALES_6(f) ((f) == IG_Q4_K || (f) == IG_Q5_K || (f) == IG_Q3_K)

IG_FN int f_cols(int f) { return IS_K(f) ? 256 : QB; }
IG_FN int f_low(int f) { return f == IG_Q8_0 ? 8 : f == IG_Q3_K || f == IG_Q2_K ? 2 : 4; } /* bits */
IG_FN int f_high(int f)
{
    return f == IG_Q6_K ? 2 : f == IG_Q5_K || f == IG_Q5_0 || f == IG_Q5_1 || f == IG_Q3_K ? 1 : 0;
}
IG_FN int f_subs(int f)
{
    return f == IG_Q6_K || f == IG_Q3_K || f == IG_Q2_K ? 16 : IS_K(f) ? 8 : 0;
}
IG_FN int f_min(int f)
{
    return f == IG_Q4_K || f == IG_Q5_K || f == IG_Q2_K ? MIN_SUB
           : f == IG_Q4_1 || f == IG_Q5_1               ? MIN_ROW
                                                        : MIN_NONE;
}
IG_FN int f_zero(int f)
{
    return f == IG_Q8_0 ? 128 : f == IG_Q4_0 ? 8 : f == IG_Q6_K ? 32 : f == IG_Q5_0 ? 16 : f == IG_Q3_K ? 4 : 0;
}
IG_FN int f_sub_zero(int f) { return f == IG_Q3_K || f == IG_IQ4_XS ? 32 : 0; }
IG_FN int f_book(int f) { return f == IG_IQ4_NL || f == IG_IQ4_XS || f == IG_MXFP4; }
/* Offsets in a tile: of the sub-scales, of the planes; then its bytes. */
IG_FN int f_scales(int f) { return (f == IG_MXFP4 ? 16 : 32) + (f_min(f) != MIN_NONE ? 32 : 0); }
IG_FN int f_planes(int f)
{
    return f_scales(f) + (SCALES_6(f) ? 192 : f == IG_Q6_K || f == IG_Q2_K ? 256 : f == IG_IQ4_XS ? 96 : 0);
}
IG_FN int f_tile(int f) { return f_planes(f) + f_cols(f) / QB * 64 * (f_low(f) + f_high(f)); }

/* Bytes of a panel; panels of different matrices may lie between one and the next. */
IG_FN unsigned f_panel(int f, int cols)
{
    return f < IG_Q8_0 ? (unsigned)(f == IG_F32 ? cols * 4 : DIV_UP(cols, 2) * 4) * PR
                       : (unsigned)(DIV_UP(cols, f_cols(f)) * f_tile(f));
}

/* 32 columns of a lane on their way; what a format does not use takes no register. */
struct block {
    ig_u4 q[2];       /* the low plane; the high one, or the second half of Q8_0 */
    unsigned sc[3];   /* sub-scales as they are stored, four rows a word */
    unsigned dm;      /* d, and m above it, of the row whose sum the lane will hold */
};

/* Registers of a struct block. */
IG_FN int block_words(int f)
{
    return 5 + (f == IG_Q8_0 || f_high(f) ? 4 : 0) + (SCALES_6(f) ? 3 : f == IG_IQ4_XS ? 2 : f_subs(f) ? 1 : 0);
}

/* The value that a lane wants of sub-scales: that of its columns. */
IG_FN int sub_index(int f, int block, int k) { return f_subs(f) == 16 ? 2 * block + (k >> 1) : block; }

/* `block`: which 32 columns of the tile t; `row`: of the lane's sum. */
IG_FN void block_load(struct block *b, int f, const unsigned char *t, int block, int row)
{
    const int l = (int)threadIdx.x & 15, k = l >> 2, rows = 16 * (l & 3);
    const unsigned char *p = t + f_planes(f) + block * 64 * (f_low(f) + f_high(f));
    b->q[0] = ig_load16(p + (f_low(f) == 2 ? 64 * (k >> 1) : 64 * k) + rows);
    if (f == IG_Q8_0) b->q[1] = ig_load16(p + 256 + 64 * k + rows);
    p += 64 * f_low(f);
    if (f_high(f)) b->q[1] = ig_load16(p + (f_high(f) == 2 ? 64 * (k >> 1) : 0) + rows);
    const unsigned char *sc = t + f_scales(f) + 4 * (l & 3);
    const int i = sub_index(f, block, k);
    if (SCALES_6(f)) {
        UNROLL for (int j = 0; j < 3; j++) b->sc[j] = ig_load4(sc + 64 * j + i % 4 * 16);
    } else if (f == IG_IQ4_XS) {
        b->sc[0] = ig_load4(sc + i % 2 * 16);
        b->sc[1] = ig_load4(sc + 32 + i % 4 * 16);
    } else if (f_subs(f)) {
        b->sc[0] = ig_load4(sc + i * 16);
    }
    b->dm = f == IG_MXFP4 ? ig_load1(t + row) : ig_load2(t + 2 * row);
    if (f_min(f) != MIN_NONE) b->dm |= ig_load2(t + 32 + 2 * row) << 16;
}

/* Value i of 16 of 6 bits (IG_QSC_6), of four rows, from the words i % 4 of all three parts. */
IG_FN unsigned six_bits(const unsigned *w, int i)
{
    const unsigned part = i / 4 == 0 ? w[0] : i / 4 == 1 ? w[1] : w[2], pair = 0x03030303u;
    const unsigned rest = (w[0] >> 6 & pair) | (w[1] >> 6 & pair) << 2 | (w[2] >> 6 & pair) << 4;
    return i < 12 ? part & 0x3f3f3f3fu : rest;
}

/* Sub-scale i of four rows, as stored; and minimum i. */
IG_FN unsigned sub_scales(int f, const unsigned *w, int i)
{
    if (SCALES_6(f)) return six_bits(w, i);
    if (f == IG_IQ4_XS)
        return (w[1] >> 4 * (i / 4) & 0x0f0f0f0fu) | (w[0] >> 2 * (i / 2) & 0x03030303u) << 4;
    return f == IG_Q2_K ? w[0] & 0x0f0f0f0fu : w[0];
}
IG_FN unsigned sub_minima(int f, const unsigned *w, int i)
{
    return f == IG_Q2_K ? w[0] >> 4 & 0x0f0f0f0fu : six_bits(w, 8 + i);
}
/* Byte `row` of a word of sub-scales. */
IG_FN int sub_value(int f, unsigned word, int row)
{
    const unsigned v = word >> 8 * row & 255u;
    return f == IG_Q6_K ? (int)(signed char)v : (int)v - f_sub_zero(f);
}

/* Codes of the lane's row j: four columns in *lo, the next four in *hi. */
IG_FN void block_codes(int f, const struct block *b, int j, unsigned *lo, unsigned *hi)
{
    const int k = (int)threadIdx.x >> 2 & 3;
    const unsigned q[4] = { b->q[0].x, b->q[0].y, b->q[0].z, b->q[0].w };
    const unsigned h[4] = { b->q[1].x, b->q[1].y, b->q[1].z, b->q[1].w };
    if (f == IG_Q8_0) {
        *lo = q[j];
        *hi = h[j];
        return;
    }
    if (f_low(f) == 4) {
        *lo = q[j] & 0x0f0f0f0fu;
        *hi = q[j] >> 4 & 0x0f0f0f0fu;
    } else {
        const unsigned w = q[j] >> 4 * (k & 1);
        *lo = w & 0x03030303u;
        *hi = w >> 2 & 0x03030303u;
    }
    if (f_high(f) == 2) {
        const unsigned w = h[j] >> 4 * (k & 1);
        *lo |= (w & 0x03030303u) << 4;
        *hi |= (w >> 2 & 0x03030303u) << 4;
    } else if (f_high(f) == 1) {
        const unsigned w = h[j] >> 2 * k;
        *lo |= (w & 0x01010101u) << f_low(f);
        *hi |= (w >> 1 & 0x01010101u) << f_low(f);
    }
}

/* kernels/ref/quant.c's books of 16 values, four a word. */
IG_FN unsigned book_values(int f, unsigned codes)
{
    return f == IG_MXFP4 ? ig_book4(codes, 0x03020100u, 0x0c080604u, 0xfdfeff00u, 0xf4f8fafcu)
                         : ig_book4(codes, 0xbfad9881u, 0xf6eaddcfu, 0x26190d01u, 0x71594535u);
}

/* The scale of a row: f16, or E8M0 for doubled codes. */
IG_FN float block_scale(int f, unsigned d)
{
    if (f != IG_MXFP4) return ig_half(d & 0xffffu);
    return ig_bits((d & 255u) < 2 ? 0x00200000u << (d & 255u) : ((d & 255u) - 1) << 23);
}

/* Four rows' sums over the four lane groups k -> one row's a lane, that of block_row. */
IG_FN int scatter4(const int *s, int lane)
{
    const int up = lane & 8, odd = lane & 4;
    int a = up ? s[2] : s[0], b = up ? s[3] : s[1];
    a += ig_swap_int(up ? s[0] : s[2], 8);
    b += ig_swap_int(up ? s[1] : s[3], 8);
    const int give = odd ? a : b, keep = odd ? b : a;
    return keep + ig_swap_int(give, 4);
}
/* Of the lane's four rows, the one whose sum it gets. */
IG_FN int row_of_four(void) { return ((int)threadIdx.x >> 3 & 1) * 2 + ((int)threadIdx.x >> 2 & 1); }

/* Rule 3 of kernels.h.  `in` 0: there is no such block, and acc stays; whole warps come here. */
IG_FN float block_use(float acc, int f, const struct block *b, int block, const struct ig_xq *x, int in)
{
    const int lane = (int)threadIdx.x & 31, k = lane >> 2 & 3, i = sub_index(f, block, k);
    const int x0 = *(const int *)(const void *)(x->q + (f == IG_Q8_0 ? 4 * k : 8 * k));
    const int x1 = *(const int *)(const void *)(x->q + (f == IG_Q8_0 ? 16 + 4 * k : 8 * k + 4));
    const int mine = ig_dot4(0x01010101u, x0, ig_dot4(0x01010101u, x1, 0)); /* sum of the lane's x */
    int s[4], mins[4];
    UNROLL for (int j = 0; j < 4; j++)
    {
        unsigned lo, hi;
        block_codes(f, b, j, &lo, &hi);
        s[j] = f_book(f) ? ig_dot4s(book_values(f, lo), x0, ig_dot4s(book_values(f, hi), x1, 0))
                         : ig_dot4(lo, x0, ig_dot4(hi, x1, 0));
        if (f_subs(f) == 16)
            s[j] = sub_value(f, sub_scales(f, b->sc, i), j) * (s[j] - f_zero(f) * mine);
        if (f == IG_Q2_K) mins[j] = (int)(sub_minima(f, b->sc, i) >> 8 * j & 255u) * mine;
    }
    int sum = scatter4(s, lane);
    int min = f == IG_Q2_K ? scatter4(mins, lane) : x->sum;
    if (!in) return acc;
    if (f_subs(f) == 8) sum *= sub_value(f, sub_scales(f, b->sc, i), row_of_four());
    if (f_subs(f) != 16) sum -= f_zero(f) * x->sum;
    acc = fmaf(block_scale(f, b->dm) * x->d, (float)sum, acc);
    if (f_min(f) == MIN_NONE) return acc;
    const float m = ig_half(b->dm >> 16) * x->d;
    if (f_min(f) == MIN_ROW) return fmaf(m, (float)min, acc);
    if (f != IG_Q2_K) min *= (int)(sub_minima(f, b->sc, i) >> 8 * row_of_four() & 255u);
    return fmaf(-m, (float)min, acc);
}

/* The weight of row r, column c of a panel, as ig_panel_row has it. */
IG_FN float block_weight(int f, const unsigned char *panel, int r, int c)
{
    const unsigned char *t = panel + (size_t)(c / f_cols(f)) * (size_t)f_tile(f);
    const int block = c % f_cols(f) / QB, word = c % QB / 4, i = f_subs(f) == 16 ? c % 256 / 16 : block;
    const unsigned char *p = t + f_planes(f) + block * 64 * (f_low(f) + f_high(f)) + 4 * r + c % 4;
    const int low = 8 / f_low(f), high = f_high(f) ? 8 / f_high(f) : 1;
    unsigned w[3] = { 0, 0, 0 };
    int q = p[64 * (word / low)] >> f_low(f) * (word % low) & ((1 << f_low(f)) - 1);
    p += 64 * f_low(f);
    if (f_high(f))
        q |= (p[64 * (word / high)] >> f_high(f) * (word % high) & ((1 << f_high(f)) - 1)) << f_low(f);
    const unsigned char *sc = t + f_scales(f) + r;
    for (int j = 0; j < 3 && SCALES_6(f); j++) w[j] = sc[64 * j + i % 4 * 16];
    if (f == IG_IQ4_XS) {
        w[0] = sc[i % 2 * 16];
        w[1] = sc[32 + i % 4 * 16];
    } else if (f_subs(f) && !SCALES_6(f)) {
        w[0] = sc[i * 16];
    }
    const int v = f_book(f) ? (int)(signed char)(book_values(f, (unsigned)q) & 255u) : q - f_zero(f);
    const float d = block_scale(f, f == IG_MXFP4 ? t[r] : ig_load2(t + 2 * r));
    const float ds = f_subs(f) ? d * (float)sub_value(f, sub_scales(f, w, i), 0) : d;
    if (f_min(f) == MIN_NONE) return ds * (float)v;
    const float m = ig_half(ig_load2(t + 32 + 2 * r));
    const float ms = f_min(f) == MIN_SUB ? -(m * (float)(sub_minima(f, w, i) & 255u)) : m;
    return ds * (float)v + ms;
}

#endif
