/* mma.h -- panels times many activation rows on the matrix units, with the bits of gemv.h.
 *
 * One mma makes the integer sums of a block: 16 rows of a panel, 32 columns, 8 activation rows.
 * Only the integer sum is the matrix unit's; scales and the float sum follow rule 3 of kernels.h,
 * part by part.  Parts come in the order of the tree's leaves, 0 4 2 6 1 5 3 7, so what is kept
 * beside a running part is three sums at most, two of them in shared memory.  Columns may come to
 * an mma in any order that is the same for both sides: a lane takes those quads of columns that lie
 * together in a tile.
 *
 * A block of GEMM_THREADS has IG_GEMM_PANELS panels and GEMM_TOKENS activation rows; a warp 2 panels and 8 *
 * GEMM_NT rows.  Activations go through shared memory, a stage while the one before it is used; weights
 * go from L2 to the registers of the lane that multiplies them.  A step waits for memory, then for the
 * matrix unit, longer than it computes: so two blocks are to fit a multiprocessor, which gives a lane 128
 * registers, and a barrier comes once in 8 steps, whatever the length of a part.
 */
#ifndef IG_MMA_H
#define IG_MMA_H

#include "blocks.h"
#include "row.h"

enum {
    GEMM_NT = 4,                                  /* groups of 8 activation rows of a warp */
    GEMM_MT = 2,                                  /* panels of a warp */
    GEMM_WIDE = IG_GEMM_TOKENS / (8 * GEMM_NT),   /* warps along the activation rows, */
    GEMM_HIGH = IG_GEMM_PANELS / GEMM_MT,         /* along the panels */
    GEMM_THREADS = IG_GEMM_THREADS,
    GEMM_TOKENS = IG_GEMM_TOKENS,
    GEMM_RUN = 4,                                 /* steps of one part, a block each, at most */
    GEMM_RUNS = 2,                                /* of a stage */
    GEMM_STAGE = GEMM_RUN * GEMM_RUNS,            /* blocks of a stage */
    GEMM_STAGES = 2,                              /* used, arriving */
    GEMM_BLOCKS = 2,                              /* on a multiprocessor */
    GEMM_OVERLAP = 2,                             /* groups of rows whose products overlap */
    GEMM_RESULTS = GEMM_MT * GEMM_NT * 4,         /* of a lane */
    GEMM_OF_HIDDEN = ACT_RELU ? 1 : 2,            /* panels that make 16 hidden values: gate and up */
    GEMM_HIDDEN = 16 * IG_GEMM_PANELS / GEMM_OF_HIDDEN /* values of a block */
};
_Static_assert(GEMM_THREADS == 32 * GEMM_WIDE * GEMM_HIGH, "a warp a part of the tile");

/* Activations of some blocks, in shared memory; s: d and sum of two rows. */
struct stage {
    unsigned char q[GEMM_STAGE][GEMM_TOKENS][QB];
    ig_u4 s[GEMM_STAGE][GEMM_TOKENS / 2];
};

struct gemm_memory {
    union {
        struct stage stage[GEMM_STAGES];
        float hidden[GEMM_TOKENS][GEMM_HIDDEN + 1]; /* gate and up's results, when all is multiplied */
    } u;
    ig_f4 kept[2][GEMM_RESULTS / 4][GEMM_THREADS];
};
_Static_assert(sizeof(struct gemm_memory) == IG_GEMM_BYTES, "what the host asks for");

/* What a block multiplies.  x: rows of `blocks` struct ig_xq; row: of each activation row, where. */
struct gemm {
    const unsigned char *panel[GEMM_MT]; /* this warp's */
    int blocks, rows;
    const struct ig_xq *x;
    const size_t *row;                   /* [GEMM_TOKENS] in shared memory, in blocks */
};
typedef float gemm_tile[GEMM_MT][GEMM_NT][4]; /* a lane's: see mma_row, mma_token */

IG_FN int mma_group(void) { return (int)threadIdx.x >> 2 & 7; }
IG_FN int mma_column(void) { return (int)threadIdx.x & 3; }
/* Result i of a lane: the panel's row, the activation row of the 8. */
IG_FN int mma_row(int i) { return 2 * mma_group() + i / 2; }
IG_FN int mma_token(int i) { return 2 * mma_column() + i % 2; }
/* This warp's place in the block's tile. */
IG_FN int warp_high(void) { return (int)threadIdx.x / 32 % GEMM_HIGH; }
IG_FN int warp_wide(void) { return (int)threadIdx.x / 32 / GEMM_HIGH; }

/* With sub-scales of 16 columns, the halves of a block are multiplied apart, and a lane has quads c
 * and 4 + c of its 8; else 2c and 2c + 1. */
IG_FN int lane_quad(int f, int h)
{
    return f_subs(f) == 16 ? 4 * h + mma_column() : 2 * mma_column() + h;
}

/* A lane's 32 columns of two rows of a panel, as they lie in the tile. */
struct raw {
    unsigned low[2][2], high[2][2]; /* [half][row] */
    unsigned sc[2][3], d, m;        /* two rows a word */
};

IG_FN void raw_load(struct raw *w, int f, const unsigned char *t, int block)
{
    const int g = mma_group(), lo = f_low(f), hi = f_high(f) ? f_high(f) : 1;
    const unsigned char *p = t + f_planes(f) + block * 64 * (lo + f_high(f)) + 8 * g;
    UNROLL for (int h = 0; h < 2; h++)
    {
        const int quad = lane_quad(f, h), paired = f_subs(f) != 16;
        if (h == 0 || lo == 8 || !paired)
            ig_read8(&w->low[h][0], &w->low[h][1], p + 64 * (quad * lo / 8));
        if (f_high(f) && (h == 0 || (hi == 2 && !paired)))
            ig_read8(&w->high[h][0], &w->high[h][1], p + 64 * (lo + quad * hi / 8));
        if (f_subs(f) == 0 || (h == 1 && paired)) continue;
        const unsigned char *sc = t + f_scales(f) + 2 * g;
        const int i = f_subs(f) == 16 ? 2 * block + h : block;
        if (SCALES_6(f)) {
            UNROLL for (int j = 0; j < 3; j++) w->sc[h][j] = ig_read2(sc + 64 * j + i % 4 * 16);
        } else if (f == IG_IQ4_XS) {
            w->sc[h][0] = ig_read2(sc + i % 2 * 16);
            w->sc[h][1] = ig_read2(sc + 32 + i % 4 * 16);
        } else {
            w->sc[h][0] = ig_read2(sc + i * 16);
        }
    }
    w->d = f == IG_MXFP4 ? ig_read2(t + 2 * g) : ig_read4(t + 4 * g);
    if (f_min(f) != MIN_NONE) w->m = ig_read4(t + 32 + 4 * g);
}

/* Half h of the block's values of a row, as int8; Q4_0's 16 times, which saves unpacking. */
IG_FN unsigned raw_values(const struct raw *w, int f, int h, int row)
{
    const int quad = lane_quad(f, h), lo = f_low(f), hi = f_high(f), paired = f_subs(f) != 16;
    const unsigned low = w->low[lo == 8 || !paired ? h : 0][row];
    if (lo == 8) return low ^ 0x80808080u;
    if (f == IG_Q4_0) return ((h ? low : low << 4) & 0xf0f0f0f0u) ^ 0x80808080u;
    unsigned v = low >> lo * (quad % (8 / lo)) & ((1u << lo) - 1) * 0x01010101u;
    if (hi) {
        const unsigned high = w->high[hi == 2 && !paired ? h : 0][row];
        v |= (high >> hi * (quad % (8 / hi)) & ((1u << hi) - 1) * 0x01010101u) << lo;
    }
    if (f_book(f)) return book_values(f, v);
    return f_zero(f) ? (v + (unsigned)(128 - f_zero(f)) * 0x01010101u) ^ 0x80808080u : v;
}

/* The same, ready to multiply.  Integers become floats without a conversion: an mma starts from
 * the bits of a float whose last place is worth 1 of what it adds, and that float is taken off
 * again; exact below 2^22. */
IG_FN float f_magic(int f) { return f == IG_Q4_0 ? 786432.0f : 12582912.0f; }
IG_FN int f_magic_bits(int f) { return f == IG_Q4_0 ? 0x49400000 : 0x4b400000; }
struct weights {
    unsigned a[4];
    float d[2], m[2];           /* [row] */
    float sc[2][2], off[2][2];  /* [half][row]: a sub-scale, and minus the magic float times it */
    float mn[2][2];
};

IG_FN void weights_of(struct weights *k, const struct raw *w, int f, int block)
{
    UNROLL for (int r = 0; r < 2; r++)
    {
        UNROLL for (int h = 0; h < 2; h++)
        {
            const int i = f_subs(f) == 16 ? 2 * block + h : block;
            k->a[2 * h + r] = raw_values(w, f, h, r);
            if (f_subs(f) == 0 || (h == 1 && f_subs(f) != 16)) continue;
            k->sc[h][r] = (float)sub_value(f, sub_scales(f, w->sc[h], i), r);
            k->off[h][r] = -f_magic(f) * k->sc[h][r];
            if (f_min(f) == MIN_SUB) k->mn[h][r] = (float)(sub_minima(f, w->sc[h], i) >> 8 * r & 255u);
        }
        k->d[r] = block_scale(f, f == IG_MXFP4 ? w->d >> 8 * r : w->d >> 16 * r);
        if (f_min(f) != MIN_NONE) k->m[r] = ig_half(w->m >> 16 * r & 0xffffu);
    }
}

/* Of 8 activation rows: their int8, scales and sums as a lane wants them. */
struct rows8 {
    unsigned b[2];
    struct {
        float d;
        int sum;
    } s[2];                /* of its two tokens */
    float half[2][2];      /* [half][token] sums, where minima have 16 columns */
};

IG_FN void rows_of(struct rows8 *x, int f, const struct stage *st, int at, int first)
{
    const unsigned char *q = st->q[at][first + mma_group()];
    UNROLL for (int h = 0; h < 2; h++) x->b[h] = *(const unsigned *)(const void *)(q + 4 * lane_quad(f, h));
    const ig_u4 two = st->s[at][first / 2 + mma_column()];
    x->s[0].d = ig_bits(two.x);
    x->s[0].sum = (int)two.y;
    x->s[1].d = ig_bits(two.z);
    x->s[1].sum = (int)two.w;
    if (f_min(f) != MIN_SUB || f_subs(f) != 16) return;
    UNROLL for (int h = 0; h < 2; h++)
    {
        const unsigned ones[2] = { 0x01010101u, 0x01010101u };
        int sum[4];
        ig_mma16(sum, ones, x->b[h], 0);
        UNROLL for (int j = 0; j < 2; j++) x->half[h][j] = (float)sum[j];
    }
}

/* The block's integer sums, of both halves where they have scales of their own. */
IG_FN void block_mma(int (*s)[4], int f, const struct weights *k, const struct rows8 *x)
{
    if (f_subs(f) == 16) {
        ig_mma16(s[0], k->a, x->b[0], f_magic_bits(f));
        ig_mma16(s[1], k->a + 2, x->b[1], f_magic_bits(f));
    } else {
        ig_mma32(s[0], k->a, x->b, f_magic_bits(f));
    }
}

/* They enter the lane's four results: rule 3 of kernels.h.  Products of integers that are made as
 * floats are below 2^24, so exact. */
IG_FN void block_add(float *acc, int f, int (*s)[4], const struct weights *k, const struct rows8 *x)
{
    UNROLL for (int i = 0; i < 4; i++)
    {
        const int r = i / 2, t = i % 2;
        float sum = ig_bits((unsigned)s[0][i]);
        sum = f_subs(f) ? fmaf(sum, k->sc[0][r], k->off[0][r]) : sum - f_magic(f);
        if (f_subs(f) == 16) sum += fmaf(ig_bits((unsigned)s[1][i]), k->sc[1][r], k->off[1][r]);
        acc[i] = fmaf(k->d[r] * x->s[t].d, sum, acc[i]);
        if (f_min(f) == MIN_NONE) continue;
        const float m = k->m[r] * x->s[t].d;
        if (f_min(f) == MIN_ROW) {
            acc[i] = fmaf(m, (float)x->s[t].sum, acc[i]);
        } else { /* + 0: no zero is negative */
            float min = f_subs(f) == 16 ? fmaf(k->mn[0][r], x->half[0][t], 0.0f)
                                        : fmaf(k->mn[0][r], (float)x->s[t].sum, 0.0f);
            if (f_subs(f) == 16) min += fmaf(k->mn[1][r], x->half[1][t], 0.0f);
            acc[i] = fmaf(-m, min, acc[i]);
        }
    }
}

/* A place in the order of blocks: step i of the n of part `leaf` in the tree's order. */
struct place {
    int leaf, i, n;
};
IG_FN int part_of(int leaf) { return (leaf & 1) << 2 | (leaf & 2) | leaf >> 2; }
IG_FN int part_steps(int leaf, int blocks) { return (blocks - part_of(leaf) + IG_BLOCK_PARTS - 1) / IG_BLOCK_PARTS; }

/* `steps` further in this part, or to the next part that has any; leaf IG_BLOCK_PARTS: the end. */
IG_FN void place_next(struct place *p, int steps, int blocks)
{
    p->i += steps;
    while (p->i >= p->n && p->leaf < IG_BLOCK_PARTS) {
        p->i = 0;
        p->leaf++;
        p->n = part_steps(p->leaf, blocks);
    }
}
/* Steps of the run that begins here. */
IG_FN int run_steps(const struct place *p) { return p->leaf < IG_BLOCK_PARTS ? LEAST(GEMM_RUN, p->n - p->i) : 0; }

/* Run `at` of a stage, which begins at `p`, on its way into shared memory. */
IG_FN void run_fetch(struct stage *st, const struct gemm *g, const struct place *p, int at)
{
    enum { WORDS = sizeof(struct ig_xq) / 8, ALL = GEMM_TOKENS * GEMM_RUN * WORDS };
    const int steps = run_steps(p), block = part_of(p->leaf) + p->i * IG_BLOCK_PARTS;
    const int even = g->blocks % IG_BLOCK_PARTS == 0; /* then they lie one after the other: xq_place */
    const struct ig_xq *x = g->x + (even ? p->leaf * (g->blocks / IG_BLOCK_PARTS) + p->i : block);
    UNROLL for (int u = 0; u < DIV_UP(ALL, GEMM_THREADS); u++)
    {
        const int i = (int)threadIdx.x + u * GEMM_THREADS;
        const int word = i % WORDS, k = i / WORDS % GEMM_RUN, t = i / (WORDS * GEMM_RUN), to = at * GEMM_RUN + k;
        if (t >= g->rows || k >= steps) continue;
        const char *src = (const char *)(x + g->row[t] + (even ? k : k * IG_BLOCK_PARTS)) + 8 * word;
        void *dst = word < 4 ? (void *)(st->q[to][t] + 8 * word) : (void *)((unsigned char *)(void *)st->s[to] + 8 * t);
        ig_fetch8(dst, src);
    }
}

/* The stage that begins at `p`, which goes to the next one. */
IG_FN void stage_fetch(struct stage *st, const struct gemm *g, struct place *p)
{
    UNROLL for (int at = 0; at < GEMM_RUNS; at++)
    {
        run_fetch(st, g, p, at);
        if (p->leaf < IG_BLOCK_PARTS) place_next(p, GEMM_RUN, g->blocks);
    }
    ig_fetch_mark();
}

/* A part's blocks are IG_BLOCK_PARTS apart: so many tiles of 32 columns, or one of 256. */
IG_FN int tile_step(int f) { return f_cols(f) > QB ? f_tile(f) : IG_BLOCK_PARTS * f_tile(f); }
/* Where in a panel the tile of a place is; 0, which can be read, behind the last place. */
IG_FN int tile_at(int f, const struct place *p)
{
    if (p->leaf >= IG_BLOCK_PARTS) return 0;
    return p->i * tile_step(f) + (f_cols(f) > QB ? 0 : part_of(p->leaf) * f_tile(f));
}
IG_FN void load_step(struct raw *w, int f, const struct gemm *g, int tile, int part)
{
    UNROLL for (int m = 0; m < GEMM_MT; m++) raw_load(&w[m], f, g->panel[m] + tile, f_cols(f) > QB ? part : 0);
}

/* Products of some rows first: they overlap, and so do the sums after them. */
IG_FN void use_step(gemm_tile acc, int f, const struct raw *w, const struct stage *st, int at, int part)
{
    struct weights k[GEMM_MT];
    UNROLL for (int m = 0; m < GEMM_MT; m++) weights_of(&k[m], &w[m], f, f_cols(f) > QB ? part : 0);
    UNROLL for (int from = 0; from < GEMM_NT; from += GEMM_OVERLAP)
    {
        struct rows8 x[GEMM_OVERLAP];
        int s[GEMM_OVERLAP][GEMM_MT][2][4];
        UNROLL for (int n = 0; n < GEMM_OVERLAP; n++)
            rows_of(&x[n], f, st, at, (warp_wide() * GEMM_NT + from + n) * 8);
        UNROLL for (int n = 0; n < GEMM_OVERLAP; n++)
        {
            UNROLL for (int m = 0; m < GEMM_MT; m++) block_mma(s[n][m], f, &k[m], &x[n]);
        }
        __syncwarp(); /* keeps the compiler from putting each product beside its sums */
        UNROLL for (int n = 0; n < GEMM_OVERLAP; n++)
        {
            UNROLL for (int m = 0; m < GEMM_MT; m++) block_add(acc[m][from + n], f, s[n][m], &k[m], &x[n]);
        }
    }
}

IG_FN float *result(gemm_tile t, int j) { return &t[j / 4 / GEMM_NT][j / 4 % GEMM_NT][j % 4]; }
IG_FN void keep(struct gemm_memory *mem, int which, gemm_tile from)
{
    UNROLL for (int j = 0; j < GEMM_RESULTS; j += 4)
    {
        const ig_f4 v = { *result(from, j), *result(from, j + 1), *result(from, j + 2), *result(from, j + 3) };
        mem->kept[which][j / 4][threadIdx.x] = v;
    }
}
IG_FN void add_kept(gemm_tile to, const struct gemm_memory *mem, int which)
{
    UNROLL for (int j = 0; j < GEMM_RESULTS; j += 4)
    {
        const ig_f4 v = mem->kept[which][j / 4][threadIdx.x];
        *result(to, j) = v.x + *result(to, j);
        *result(to, j + 1) = v.y + *result(to, j + 1);
        *result(to, j + 2) = v.z + *result(to, j + 2);
        *result(to, j + 3) = v.w + *result(to, j + 3);
    }
}

/* The finished part `leaf` into the tree; after the last acc is the result.  Every branch takes all results:
 * the compiler makes a branch of each of them where the branches are inside the loop. */
IG_FN void end_part(gemm_tile acc, volatile float *half, struct gemm_memory *mem, int leaf)
{
    enum { ONE, TWO };
    if (leaf & 1) {
        add_kept(acc, mem, ONE);
        if (leaf & 2) add_kept(acc, mem, TWO);
    }
    if ((leaf & 1) == 0) keep(mem, ONE, acc);
    if ((leaf & 3) == 1) keep(mem, TWO, acc);
    if (leaf == 3) {
        UNROLL for (int j = 0; j < GEMM_RESULTS; j++) half[j] = *result(acc, j);
    }
    if (leaf == 7) {
        UNROLL for (int j = 0; j < GEMM_RESULTS; j++) *result(acc, j) = half[j] + *result(acc, j);
        return;
    }
    UNROLL for (int j = 0; j < GEMM_RESULTS; j++) *result(acc, j) = 0.0f;
}

/* Run `at` of a stage: its steps, and where its part ends with it the tree.  Weights are a step ahead. */
IG_FN void use_run(gemm_tile acc, volatile float *half, int f, const struct gemm *g, struct gemm_memory *mem,
                   const struct stage *st, int at, struct raw *w, struct place *p)
{
    const int steps = run_steps(p), leaf = p->leaf;
    int tile = tile_at(f, p);
    place_next(p, steps, g->blocks);
    const int next = tile_at(f, p), part = part_of(leaf), next_part = part_of(p->leaf);
    UNROLL for (int k = 0; k < GEMM_RUN; k++)
    {
        if (k >= steps) break;
        struct raw now[GEMM_MT];
        UNROLL for (int m = 0; m < GEMM_MT; m++) now[m] = w[m];
        tile = k + 1 < steps ? tile + tile_step(f) : next;
        load_step(w, f, g, tile, k + 1 < steps ? part : next_part);
        use_step(acc, f, now, st, at * GEMM_RUN + k, part);
    }
    for (int i = leaf; i < p->leaf; i++) end_part(acc, half, mem, i); /* empty parts too */
}

/* The block's tile.  Ends in a barrier: the stages' memory is free. */
IG_FN void gemm_sum(gemm_tile acc, int f, const struct gemm *g, struct gemm_memory *mem)
{
    const int mine = warp_wide() * GEMM_NT * 8 < g->rows;
    struct place asked = { 0, 0, part_steps(0, g->blocks) }, at = asked;
    struct raw w[GEMM_MT];
    volatile float half[GEMM_RESULTS]; /* of the tree: written once, read once, so in no register */
    UNROLL for (int j = 0; j < GEMM_RESULTS; j++) *result(acc, j) = 0.0f;
    stage_fetch(&mem->u.stage[0], g, &asked);
    if (mine) load_step(w, f, g, tile_at(f, &at), part_of(0));
    for (int stage = 0; at.leaf < IG_BLOCK_PARTS; stage ^= 1) {
        ig_fetched_but(0);
        __syncthreads(); /* all see this stage, and have used the one before it */
        stage_fetch(&mem->u.stage[stage ^ 1], g, &asked);
        for (int run = 0; run < GEMM_RUNS && at.leaf < IG_BLOCK_PARTS; run++) {
            if (mine)
                use_run(acc, half, f, g, mem, &mem->u.stage[stage], run, w, &at);
            else
                place_next(&at, run_steps(&at), g->blocks);
        }
    }
    __syncthreads();
}

#endif
