/* attn.c -- speed of decode attention beside what reading memory gives.
 *
 *   attn [THREADS] [VARIANT] [FORMAT]      each argument narrows the list
 *
 * Contexts of 1 k, 4 k and 32 k positions for four shapes of heads. The KV cache of one layer
 * after the other is folded, more than 1 GB in turn, so that no cache serves it: spans and heads
 * are shared between threads as the engine does it (runtime/model/attn.c). GB/s of K and V with 1
 * thread and with THREADS (2), and the share of what plain reading gives in the passes between.
 * fixed: what the same text gains when the compiler knows the heads (kernels/fixed.h), per cent.
 *
 * Build: -O2 -fopenmp, no instruction-set flags; link kernels/ref and kernels/cpu.
 */
#include <math.h>

#include "measure.h"

enum { SPAN = 16, HEADS_MOST = 8, HD_MOST = 128, N_SHAPE = 4, MAX_CASES = 80 };

static const struct shape {
    const char *name;
    int heads_kv, heads, hd; /* heads: of queries that share a KV head */
} shapes[N_SHAPE] = { { "qwen3, 8 heads a KV head", 4, 8, 128 },
                      { "mixtral, 4 heads", 8, 4, 128 },
                      { "gpt-oss, 8 heads of 64", 8, 8, 64 },
                      { "olmoe, 1 head", 16, 1, 128 } };
static const int contexts[] = { 1024, 4096, 32768 };
static const enum ig_fmt formats[] = { IG_F16, IG_F32, IG_Q8_0 };
static const struct ig_kernels *const variants[] = { &ig_kernels_avx2, &ig_kernels_avx512 };

/* The same kernels for heads of 128 in groups of 8 and of 4. */
extern const struct ig_kernels ig_kernels_avx2_128x8, ig_kernels_avx512_128x8,
    ig_kernels_avx2_128x4, ig_kernels_avx512_128x4;
static const struct ig_kernels *const fixed[2][2] = {
    { &ig_kernels_avx2_128x4, &ig_kernels_avx2_128x8 },
    { &ig_kernels_avx512_128x4, &ig_kernels_avx512_128x8 }
};

struct bench_case {
    const struct ig_kernels *k; /* NULL: plain reading */
    ig_attn_fn *build[2];       /* the engines', and the one for these heads if there is one */
    enum ig_fmt fmt;
    const struct shape *shape;
    int ctx;
    double got[2][2][REPS]; /* of each build */
};

/* Of K, or of V, of one KV head in a block. */
#define KV_BYTES(c) (IG_KV_BLOCK * ig_fmt_row_bytes((c)->fmt, (c)->shape->hd))

static float query[HEADS_MOST * HD_MOST];
static struct ig_xq query_q[HEADS_MOST * HD_MOST / IG_QBLOCK];

/* One item of the engine: a span of one KV head's blocks, merged into what came before. */
static void fold(const struct bench_case *c, int build, const uint8_t *layer, int head, int span,
                 float *all)
{
    const struct shape *s = c->shape;
    const int state = s->heads * (s->hd + 2), last = c->ctx / IG_KV_BLOCK - 1;
    const size_t part = KV_BYTES(c);
    float one[HEADS_MOST * (HD_MOST + 2)];
    struct ig_attn a = { one, one + s->heads, one + 2 * s->heads };
    struct ig_attn b = { all, all + s->heads, all + 2 * s->heads };
    for (int i = 0; i < state; i++) one[i] = i < s->heads ? -INFINITY : 0.0f;
    for (int blk = span * SPAN; blk < (span + 1) * SPAN; blk++) {
        const uint8_t *kv = layer + (size_t)(blk * s->heads_kv + head) * 2 * part;
        const uint8_t *next = blk < last ? kv + (size_t)s->heads_kv * 2 * part : kv;
        const void *q = ig_fmt_cols(c->fmt) > 1 ? (const void *)query_q : (const void *)query;
        c->build[build](&a, q, kv, kv + part, next, s->hd, s->heads, 0, IG_KV_BLOCK, 0.088f, NULL,
                        0);
    }
    c->k->attn_merge(&b, &a, s->hd, s->heads);
}

static size_t layer_bytes(const struct bench_case *c)
{
    if (!c->k) return 65536;
    return (size_t)(c->ctx / IG_KV_BLOCK * c->shape->heads_kv) * 2 * KV_BYTES(c);
}

/* Whole layers, at least `bytes` of them, from `base`; GB/s. */
static double pass(const struct bench_case *c, int build, const uint8_t *base, size_t *bytes,
                   int threads)
{
    const int spans = c->k ? c->ctx / IG_KV_BLOCK / SPAN : 1, heads = c->k ? c->shape->heads_kv : 1;
    const size_t layer = layer_bytes(c);
    const long layers = (long)((*bytes + layer - 1) / layer), items = (long)spans * heads;
    double took = 0;
    (void)threads; /* unused without OpenMP */
    *bytes = (size_t)layers * layer;
#pragma omp parallel num_threads(threads) reduction(max : took)
    {
        float all[HEADS_MOST * (HD_MOST + 2)] = { 0 };
        const double t0 = thread_time();
#pragma omp for schedule(static) nowait
        for (long i = 0; i < layers * items; i++) {
            const uint8_t *at = base + (size_t)(i / items) * layer;
            if (c->k)
                fold(c, build, at, (int)(i % items) / spans, (int)(i % items) % spans, all);
            else
                plain_read(at, layer);
            __asm__ volatile("" : : "r"(all) : "memory");
        }
        took = thread_time() - t0;
    }
    return 1e-9 * (double)*bytes / took;
}

static void run(struct bench_case *c, int cases, int threads)
{
    size_t at = 0;
    for (int r = 0; r < REPS; r++)
        for (int i = 0; i < cases; i++)
            for (int t = 0; t < 2; t++)
                for (int b = 0; b < (c[i].build[1] ? 2 : 1); b++) {
                    const int build = c[i].build[1] ? b ^ (r & 1) : 0;
                    size_t bytes = PASS_BYTES;
                    if (at + PASS_BYTES + layer_bytes(&c[i]) > POOL_BYTES) at = 0;
                    c[i].got[build][t][r] = pass(&c[i], build, pool + at, &bytes, t ? threads : 1);
                    at += bytes;
                }
}

static int collect(struct bench_case *c, int argc, char **argv)
{
    static const char *const isas[] = { "avx2", "avx512" }, *const fmts[] = { "f16", "f32",
                                                                              "q8_0" };
    int count = 0;
    for (int v = 0; v < 2; v++) {
        const unsigned need = v ? IG_CPU_AVX512 : IG_CPU_AVX2;
        if (!(ig_cpu_features() & need) || !wanted(isas[v], argc, argv, isas, 2)) continue;
        for (int f = 0; f < 3; f++) {
            if (!variants[v]->attn[formats[f]] || !wanted(fmts[f], argc, argv, fmts, 3)) continue;
            for (int s = 0; s < N_SHAPE; s++) {
                const int g = shapes[s].heads;
                for (int x = 0; x < 3; x++)
                    c[count++] = (struct bench_case){
                        .k = variants[v],
                        .build = { variants[v]->attn[formats[f]],
                                   g > 1 && shapes[s].hd == 128 ? fixed[v][g == 8]->attn[formats[f]]
                                                                : NULL },
                        .fmt = formats[f],
                        .shape = &shapes[s],
                        .ctx = contexts[x],
                    };
            }
        }
    }
    return count;
}

int main(int argc, char **argv)
{
    static struct bench_case c[MAX_CASES];
    const int threads = argc > 1 && atoi(argv[1]) > 0 ? atoi(argv[1]) : 2;
    double read[2];
    if (!prepare(threads)) {
        fprintf(stderr, "attn: out of memory\n");
        return 1;
    }
    for (int i = 0; i < HEADS_MOST * HD_MOST; i++) query[i] = (float)(i % 251 - 125) * 0.01f;
    ig_kernels_ref.quantize(query_q, query, HEADS_MOST * HD_MOST);
    const int cases = 1 + collect(c + 1, argc, argv);
    run(c, cases, threads);
    printf("decode attention, heads of 128 where not said, GB/s of K and V and the share of plain "
           "reading\n"
           "%-8s %-6s %-26s %8s %18s %17s %d %16s\n",
           "variant", "format", "shape", "context", "1 thread", "threads:", threads, "fixed, %");
    for (int t = 0; t < 2; t++) read[t] = median(c[0].got[0][t]);
    for (int i = 0; i < cases; i++) {
        printf("%-8s %-6s %-26s %8d", i ? c[i].k->name : "read", i ? ig_fmt_name(c[i].fmt) : "-",
               i ? c[i].shape->name : "-", c[i].ctx);
        double gains[2] = { 0, 0 };
        for (int t = 0; t < 2 && c[i].build[1]; t++)
            gains[t] = gain(c[i].got[1][t], c[i].got[0][t]);
        for (int t = 0; t < 2; t++) {
            const double m = median(c[i].got[0][t]);
            printf(" %12.1f %4.0f%%", m, 100 * m / read[t]);
        }
        if (c[i].build[1]) printf(" %+7.1f %+7.1f", gains[0], gains[1]);
        printf("\n");
    }
    return 0;
}
