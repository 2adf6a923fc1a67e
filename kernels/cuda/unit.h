/* unit.h -- products of 16-bit numbers on the matrix units: 16 rows of a warp times N columns, 16 deep.
 *
 * One interface, two instructions.  wgmma of sm_90a: four warps that lie together multiply with the same columns,
 * which the unit reads from shared memory itself, in the background.  mma.m16n8k16 everywhere else, from fragments
 * that ldmatrix takes from the same place.  A lane's part of the left factor and of the results is the same for both:
 * with g = lane / 4, c = lane % 4, a[0], a[1] of rows g, g + 8 columns 2c, 2c + 1; a[2], a[3] the same of columns
 * 8 + 2c; results [n / 8] of row g columns 2c, 2c + 1, then of row g + 8.
 *
 * The right factor lies in lines of 64 numbers (128 bytes), 8 lines a kilobyte, aligned to it; a line's chunks of 16
 * bytes are in the order of unit_chunk, so that neither a line nor a chunk of 8 lines meets a bank twice.
 */
#ifndef IG_UNIT_H
#define IG_UNIT_H

#include "prims.h"

enum { UNIT_LINE = 128, UNIT_CHUNK = 16, UNIT_ALIGN = 1024, UNIT_FAR = 64 * UNIT_LINE };

/* Where chunk `chunk` of a line is, in bytes. */
IG_FN int unit_chunk(int line, int chunk) { return line * UNIT_LINE + (chunk ^ (line & 7)) * UNIT_CHUNK; }

#if IG_HAS_WGMMA

/* How the unit finds lines: a kilobyte from 8 of them to the next 8; where they go along the columns, UNIT_FAR from 64
 * columns to the next. */
IG_FN unsigned long long unit_place(const void *lines)
{
    return (unsigned long long)(ig_shared_address(lines) >> 4 & 0x3fffu) | (unsigned long long)(UNIT_FAR >> 4) << 16 |
           (unsigned long long)(UNIT_ALIGN >> 4) << 32 | 1ull << 62;
}
/* A line a column, of which the product takes numbers 16 * k ...: `wide` groups of 8 columns, 8 or 16. */
IG_FN void unit_rows_bf16(float (*acc)[4], const unsigned *a, const unsigned char *lines, int k, int wide)
{
    const unsigned long long at = unit_place(lines + 32 * k);
    if (wide == 16)
        ig_wgmma_128(acc, a, at);
    else
        ig_wgmma_64(acc, a, at);
}
/* A line a row of the right factor, 64 columns long, 64 of them and then those of the next columns; 16 lines from
 * 16 * k on; `wide` groups of 8 columns, 8 or 16. */
IG_FN void unit_columns_f16(float (*acc)[4], const unsigned *a, const unsigned char *lines, int k, int wide)
{
    const unsigned long long at = unit_place(lines + 16 * UNIT_LINE * k);
    if (wide == 16)
        ig_wgmma_128_f16(acc, a, at);
    else
        ig_wgmma_64_f16(acc, a, at);
}
#define unit_begin()      ig_wgmma_fence()
#define unit_mark()       ig_wgmma_mark()
#define unit_done_but(n)  ig_wgmma_done_but(n)
#define unit_see_shared() ig_wgmma_see_shared()

#else

IG_FN void unit_rows_bf16(float (*acc)[4], const unsigned *a, const unsigned char *lines, int k, int wide)
{
    const int lane = (int)threadIdx.x & 31, line = lane / 16 * 8 + lane % 8, chunk = 2 * k + lane / 8 % 2;
    UNROLL for (int n = 0; n < wide; n += 2)
    {
        unsigned b[4];
        ig_matrices(b, lines + unit_chunk(n * 8 + line, chunk));
        ig_mma_bf16(acc[n], a, b);
        ig_mma_bf16(acc[n + 1], a, b + 2);
    }
}
IG_FN void unit_columns_f16(float (*acc)[4], const unsigned *a, const unsigned char *lines, int k, int wide)
{
    const int lane = (int)threadIdx.x & 31, line = 16 * k + lane % 16;
    UNROLL for (int n = 0; n < wide; n += 2)
    {
        unsigned b[4];
        ig_matrices_turned(b, lines + n / 8 * UNIT_FAR + unit_chunk(line, n % 8 + lane / 16));
        ig_mma_f16(acc[n], a, b);
        ig_mma_f16(acc[n + 1], a, b + 2);
    }
}
#define unit_begin()      ((void)0) /* before products: registers of theirs were written */
#define unit_mark()       ((void)0) /* products since the last mark are one group */
#define unit_done_but(n)  ((void)(n))
#define unit_see_shared() ((void)0) /* what this thread put into shared memory, before a barrier */

#endif
#endif
