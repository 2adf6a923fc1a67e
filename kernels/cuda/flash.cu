/* flash.cu -- attention of a large batch on the matrix units: `--set gemm=fast`.
 *
 * Not the bits of kernels.h, as fast.h: queries, scaled, and exponentials are rounded to F16, which the cache
 * holds; the unit adds in an order of its own; and 2^x is the device's.  tests/c/fast_test.c states what a result
 * is off by.  Scores are in powers of two.  Four warps have 64 rows of a head, and a block two such groups: of two
 * heads that share K and V where there are, else of 128 rows.  A block of the KV cache is as long as a line of the
 * unit's: K's lines are dimensions, V's are positions, 64 dimensions of each.
 */
#include "kv.h"

#if GEMM_FAST && IG_FLASH(HEAD_DIM, KV_FMT, KV_LORA)

#include "flash.h"

/* Under way: scores of a block; values of the block before. */
IG_FN void flash_scores(float (*s)[4], unsigned (*q)[4], const unsigned char *k)
{
    UNROLL for (int i = 0; i < 32; i++) s[i / 4][i % 4] = 0.0f;
    unit_begin();
    UNROLL for (int d = 0; d < FLASH_STEPS; d++) unit_columns_f16(s, q[d], k, d, 8);
    unit_mark();
}
IG_FN void flash_values(flash_out o, unsigned (*p)[4], const unsigned char *v)
{
    unit_begin();
    UNROLL for (int k = 0; k < 4; k++)
    {
        unit_columns_f16(o, p[k], v, k, 8 * FLASH_LINES);
    }
    unit_mark();
}

/* Where blocks of the cache are; in shared memory every second K has one place, every third V: values are under way
 * a block longer. */
struct flash_blocks {
    const struct ig_args *a;
    unsigned char *lines;
    int seq, kv_head, last, most; /* block behind the last; position behind the last */
};
IG_FN unsigned char *flash_k(const struct flash_blocks *b, int block) { return b->lines + block % 2 * FLASH_K; }
IG_FN unsigned char *flash_v(const struct flash_blocks *b, int block) { return b->lines + 2 * FLASH_K + block % 3 * FLASH_V; }

/* K of block k and V of block v on their way, all that came before in place for all. */
IG_FN void flash_next(const struct flash_blocks *b, int k, int v)
{
    ig_fetched_but(0);
    unit_see_shared();
    __syncthreads();
    if (k < b->last) flash_fetch_k(flash_k(b, k), kv_block(b->a, b->seq, k, b->kv_head));
    if (v < b->last) flash_fetch_v(flash_v(b, v), kv_block(b->a, b->seq, v, b->kv_head) + KV_PART, v * KB, b->most);
    ig_fetch_mark();
}

/* Row h of the lane's two, divided, as o reads it. */
IG_FN void flash_leave(const struct ig_args *a, const struct flash_row *r, flash_out o, int row, int head, int h)
{
    float l = r->l, c = 1.0f;
    l += ig_swap(l, 1);
    l += ig_swap(l, 2);
    if (a->sinks) {
        const float sink = a->sinks[head] * LOG2_E, top = r->m > sink ? r->m : sink;
        c = ig_exp2(r->m - top);
        l = fmaf(l, c, ig_exp2(sink - top));
    }
    const float by = c / l;
    const size_t to = (size_t)row * O_DIM + (size_t)(head * HEAD_DIM + 2 * ((int)threadIdx.x & 3));
    const int halves = FMT_OF(FMT_O, a->mo.fmt) == IG_BF16;
    if (!r->real) return;
    UNROLL for (int n = 0; n < HEAD_DIM / 8; n++)
    {
        const ig_f2 v = { o[n][2 * h] * by, o[n][2 * h + 1] * by };
        if (halves)
            *(unsigned *)(void *)(a->xb + to + 8 * n) = ig_to_bf16(v.x, v.y);
        else
            *(ig_f2 *)(void *)(a->ao + to + 8 * n) = v;
    }
}

/* Scores as they enter the softmax. */
IG_FN void flash_see(const struct ig_args *a, float (*s)[4], const struct flash_row *r, const struct flash_bounds *b, int head,
                     int first)
{
    flash_biases(a, s, r, head, first);
    if (first < b->all_from || first + KB > b->all_to) flash_mask(s, r, first);
}

/* The last rows first: they see the most.  The unit makes a block's scores and the values of the one before while
 * the exponentials between them are made. */
IG_KERNEL(ig_flash, FLASH_THREADS, 1)
{
    IG_SHARED_SPARE(unsigned char, flash_spare);
    IG_SHARED struct flash_bounds b;
    unsigned char *const lines = flash_spare + (UNIT_ALIGN - ((uintptr_t)flash_spare & (UNIT_ALIGN - 1))) % UNIT_ALIGN;
    const int group = (int)threadIdx.x / 128, head = (int)blockIdx.x * FLASH_HEADS + (FLASH_HEADS == 2 ? group : 0);
    const int tile = (int)(gridDim.y - 1 - blockIdx.y) * FLASH_ROWS, first = tile + (FLASH_HEADS == 2 ? 0 : 64 * group);
    const int row = first + (int)threadIdx.x / 32 % 4 * 16 + (int)threadIdx.x / 4 % 8;
    unsigned q[FLASH_STEPS][4], p[4][4];
    flash_out o;
    float s[8][4], e[8][4], c[2];
    ig_after_previous();
    flash_bounds(&b, &a, tile);
    struct flash_row r[2] = { flash_row(&a, row), flash_row(&a, row + 8) };
    const struct flash_blocks f = { &a, lines, a.row.seq[0], head / GROUP, DIV_UP(b.most, KB), b.most };
    int block = b.least / KB;
    flash_next(&f, block, f.last);
    flash_queries(&a, q, (unsigned short *)(void *)flash_v(&f, 0) + group * 64 * HEAD_DIM, first, head); /* V comes later */
    UNROLL for (int i = 0; i < FLASH_LINES * 32; i++) o[i / 4][i % 4] = 0.0f;
    flash_next(&f, block + 1, block);
    flash_scores(s, q, flash_k(&f, block));
    unit_done_but(0);
    flash_see(&a, s, r, &b, head, block * KB);
    flash_soften(e, c, s, r);
    for (; block + 1 < f.last; block++) {
        flash_next(&f, block + 2, block + 1);
        flash_turn(o, p, e, c);
        flash_scores(s, q, flash_k(&f, block + 1));
        flash_values(o, p, flash_v(&f, block));
        unit_done_but(1);
        flash_see(&a, s, r, &b, head, (block + 1) * KB);
        flash_soften(e, c, s, r);
    }
    flash_next(&f, f.last, f.last);
    flash_turn(o, p, e, c);
    flash_values(o, p, flash_v(&f, block));
    unit_done_but(0);
    flash_leave(&a, &r[0], o, row, head, 0);
    flash_leave(&a, &r[1], o, row + 8, head, 1);
}

#endif
