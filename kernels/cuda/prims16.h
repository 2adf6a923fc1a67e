/* prims16.h -- a part of prims.h: numbers of 16 bits, and the matrix unit's products of them.
 */
#ifndef IG_PRIMS16_H
#define IG_PRIMS16_H

/* d[16][8] += a[16][16] * b[16][8] of BF16, pairs of columns in words: a[0], a[1] of rows g, g + 8 columns 2c,
 * 2c + 1; a[2], a[3] the same of columns 8 + 2c; b[0], b[1] of column g rows 2c, 8 + 2c.  Products are exact; in
 * which order they are added, and how that is rounded, is the unit's. */
IG_FN void ig_mma_bf16(float *d, const unsigned *a, const unsigned *b)
{
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
        "{%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
/* The same of F16. */
IG_FN void ig_mma_f16(float *d, const unsigned *a, const unsigned *b)
{
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
        "{%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
/* Four 8 x 8 matrices of 16-bit numbers from shared memory: lane l says where line l % 8 of matrix l / 8 is (16
 * bytes); word i has line l / 4 of matrix i, numbers 2 (l % 4) and the next; turned: column l / 4, of those lines. */
IG_FN void ig_matrices(unsigned *w, const void *line)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(w[0]), "=r"(w[1]), "=r"(w[2]), "=r"(w[3])
                 : "r"((unsigned)__cvta_generic_to_shared(line))
                 : "memory");
}
IG_FN void ig_matrices_turned(unsigned *w, const void *line)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(w[0]), "=r"(w[1]), "=r"(w[2]), "=r"(w[3])
                 : "r"((unsigned)__cvta_generic_to_shared(line))
                 : "memory");
}
/* Two BF16 of a word, `lo` in the lower half: to nearest, ties to even. */
IG_FN unsigned ig_to_bf16(float lo, float hi)
{
    unsigned w;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(w) : "f"(hi), "f"(lo));
    return w;
}
/* Two F16 of a word, `lo` in the lower half: to nearest, ties to even. */
IG_FN unsigned ig_to_halves(float lo, float hi)
{
    unsigned w;
    asm volatile("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(w) : "f"(hi), "f"(lo));
    return w;
}
/* 2^x within 2^-22 of itself, 0 for -infinity. */
IG_FN float ig_exp2(float x)
{
    float y;
    asm volatile("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
#define IG_HAS_WGMMA 1
#include "wgmma.h"
#endif

#endif
