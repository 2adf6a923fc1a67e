/* kernels.c -- speed of the CPU's matrix kernels beside what the machine allows.
 *
 *   kernels [decode|prefill] [VARIANT] [FORMAT]      each argument narrows the list
 *
 * decode: one row of activations over more than 1.5 GB of panels, so that no cache
 * serves them; GB/s of weights with 1 and 2 threads, and the share of what plain
 * reading gives in the passes between.
 * prefill: 16, 64 and 256 rows; 2 * rows * columns * n / time as GOP/s, and the share of what
 * one thread's multipliers give alone (peak.h), for each thread.
 * check: AMX's products on this machine's tiles against the scalar definition; runs first
 * wherever there are tiles.
 *
 * fixed: what the same text gains when the compiler knows the columns (kernels/fixed.h), per cent,
 * from passes in turn; decode: with 1 and 2 threads, prefill: with 1.
 *
 * Passes of all cases take turns; the figures are medians of CPU time (measure.h).
 *
 * Build: -O2 -fopenmp, no instruction-set flags; link kernels/ref and kernels/cpu.
 */
#include "measure.h"

#include "../kernels/math.h"
#include "../kernels/panel.h"
#include "../kernels/ref/ref.h"
#include "peak.h"

enum { MAX_COLS = 14336, MAX_N = 256, MAX_CASES = 15 * IG_N_FMT + 1 };

static const struct shape {
    const char *name;
    int rows, cols;
} shapes[] = {
    { "qwen3 gate, up", 768, 2048 }, { "qwen3 down", 2048, 768 },
    { "qwen3 attn q", 4096, 2048 },  { "mixtral gate, up", 14336, 4096 },
    { "mixtral down", 4096, 14336 },
};
enum { N_SHAPE = sizeof shapes / sizeof shapes[0] };

static const struct ig_kernels *const variants[] = { &ig_kernels_avx2, &ig_kernels_avx512,
                                                     &ig_kernels_amx };
static const unsigned needs[] = { IG_CPU_AVX2, IG_CPU_AVX512, IG_CPU_AMX };

/* The same kernels for matrices of so many columns. */
#define FIXED(cols)                                                                                \
    extern const struct ig_kernels ig_kernels_avx2_##cols, ig_kernels_avx512_##cols,               \
        ig_kernels_amx_##cols;
FIXED(768)
FIXED(2048)
FIXED(4096)
FIXED(14336)
#undef FIXED
#define FIXED(cols)                                                                                \
    {                                                                                              \
        cols, { &ig_kernels_avx2_##cols, &ig_kernels_avx512_##cols, &ig_kernels_amx_##cols }       \
    }
static const struct {
    int cols;
    const struct ig_kernels *k[3];
} fixed[] = { FIXED(768), FIXED(2048), FIXED(4096), FIXED(14336) };

struct bench_case {
    const struct ig_kernels *k; /* NULL: plain reading */
    ig_panel_fn *build[2];      /* the engines', and the one for these columns */
    enum ig_fmt fmt;
    const struct shape *shape;
    int n;
    double got[2][2][REPS]; /* of each build, by 1 and 2 threads: GB/s of weights */
};

static ig_panel_fn *fixed_panel(int variant, enum ig_fmt fmt, int cols)
{
    size_t i = 0;
    while (fixed[i].cols != cols) i++;
    return fixed[i].k[variant]->panel[fmt];
}

static unsigned features;
static float *x_float;     /* [MAX_N][MAX_COLS] */
static struct ig_xq *x_xq; /* [MAX_N][MAX_COLS / 32] */

static int prepare_activations(void)
{
    x_float = malloc(sizeof *x_float * MAX_N * MAX_COLS);
    x_xq = malloc(sizeof *x_xq * MAX_N * MAX_COLS / 32);
    if (!x_float || !x_xq) return 0;
    for (int i = 0; i < MAX_N * MAX_COLS; i++) x_float[i] = (float)(i % 251 - 125) * 0.01f;
    ig_kernels_ref.quantize(x_xq, x_float, MAX_N * MAX_COLS);
    return 1;
}

/* One pass of a build over `bytes` of panels from `base`; returns GB/s of weights. */
static double pass(const struct bench_case *c, int build, const uint8_t *base, size_t bytes,
                   int threads)
{
    const size_t panel = c->k ? ig_panel_bytes(c->fmt, c->shape->cols) : 65536;
    const long panels = (long)(bytes / panel);
    const void *x[MAX_N];
    for (int t = 0; c->k && t < c->n; t++) {
        x[t] = ig_fmt_cols(c->fmt) > 1 ? (const void *)(x_xq + t * c->shape->cols / 32)
                                       : (const void *)(x_float + t * c->shape->cols);
    }
    double took = 0;
    (void)threads; /* unused without OpenMP */
#pragma omp parallel num_threads(threads) reduction(max : took)
    {
        float y[MAX_N][IG_PANEL_ROWS];
        const double t0 = thread_time();
#pragma omp for schedule(static) nowait
        for (long i = 0; i < panels; i++) {
            const uint8_t *p = base + (size_t)i * panel;
            if (c->k)
                c->build[build](y, p, x, c->shape->cols, c->n);
            else
                plain_read(p, panel);
            __asm__ volatile("" : : "r"(y) : "memory");
        }
        took = thread_time() - t0;
    }
    return 1e-9 * (double)((size_t)panels * panel) / took;
}

/* All cases in turn, REPS times, each pass on the next stretch of the pool. */
static void run(struct bench_case *c, int cases, size_t bytes)
{
    size_t at = 0;
    for (int r = 0; r < REPS; r++) {
        for (int i = 0; i < cases; i++) {
            for (int t = 0; t < 2; t++) {
                for (int b = 0; b < (c[i].k ? 2 : 1); b++) {
                    const int build = c[i].k ? b ^ (r & 1) : 0; /* neither always goes first */
                    c[i].got[build][t][r] = pass(&c[i], build, pool + at, bytes, t + 1);
                    at = at + 2 * bytes <= POOL_BYTES ? at + bytes : 0;
                }
            }
        }
    }
}

static int collect(struct bench_case *c, int n, int argc, char **argv)
{
    static const char *const isas[] = { "avx2", "avx512", "amx" };
    const char *fmts[IG_N_FMT];
    int count = 0;
    for (int f = 0; f < IG_N_FMT; f++) fmts[f] = ig_fmt_name((enum ig_fmt)f);
    for (int v = 0; v < 3; v++) {
        if (!(features & needs[v]) || !wanted(isas[v], argc, argv, isas, 3)) continue;
        for (int f = 0; f < IG_N_FMT; f++) {
            if (!wanted(fmts[f], argc, argv, fmts, IG_N_FMT)) continue;
            if (v == 2 && f != IG_BF16) continue; /* AVX-512's */
            for (int s = 0; s < N_SHAPE; s++) {
                c[count++] = (struct bench_case){
                    .k = variants[v],
                    .build = { variants[v]->panel[f],
                               fixed_panel(v, (enum ig_fmt)f, shapes[s].cols) },
                    .fmt = (enum ig_fmt)f,
                    .shape = &shapes[s],
                    .n = n,
                };
            }
        }
    }
    return count;
}

static void decode(int argc, char **argv)
{
    static struct bench_case c[MAX_CASES];
    double read[2];
    c[0] = (struct bench_case){ .k = NULL };
    const int cases = 1 + collect(c + 1, 1, argc, argv);
    run(c, cases, PASS_BYTES);
    printf("decode, GB/s of weights and the share of plain reading\n"
           "%-8s %-6s %-18s %20s %20s %16s\n",
           "variant", "format", "shape", "1 thread", "2 threads", "fixed, %");
    for (int t = 0; t < 2; t++) read[t] = median(c[0].got[0][t]);
    for (int i = 0; i < cases; i++) {
        printf("%-8s %-6s %-18s", i ? c[i].k->name : "read", i ? ig_fmt_name(c[i].fmt) : "-",
               i ? c[i].shape->name : "-");
        double gains[2] = { 0, 0 };
        for (int t = 0; t < 2 && i; t++) gains[t] = gain(c[i].got[1][t], c[i].got[0][t]);
        for (int t = 0; t < 2; t++) {
            const double m = median(c[i].got[0][t]);
            printf(" %14.1f %4.0f%%", m, 100 * m / read[t]);
        }
        printf(" %+7.1f %+7.1f\n", gains[0], gains[1]);
    }
}

static double peak_by(const struct bench_case *c)
{
    static double known[3][3];
    const int kind = c->fmt >= IG_Q8_0 ? PEAK_INT8 : c->fmt == IG_BF16 ? PEAK_BF16 : PEAK_FLOAT;
    int unit = 0;
    while (variants[unit] != c->k) unit++;
    if (known[unit][kind] == 0)
        known[unit][kind] = peak_of((enum peak_unit)unit, (enum peak_kind)kind);
    return known[unit][kind];
}

/* The instructions themselves, which tests on other machines emulate. */
static int check_tiles(void)
{
    enum { COLS = 1024, N = 37 };
    static float want[N][IG_PANEL_ROWS], got[N][IG_PANEL_ROWS];
    const void *x[N];
    for (int t = 0; t < N; t++) x[t] = x_float + t * COLS;
    ig_panel_bf16_amx_ref(want, pool, x, COLS, N);
    ig_kernels_amx.panel[IG_BF16](got, pool, x, COLS, N);
    const int same = memcmp(want, got, sizeof want) == 0;
    printf("check amx bf16 %s\n", same ? "ok" : "DIFFERS");
    return same;
}

static void prefill(int argc, char **argv)
{
    static const int counts[] = { 16, 64, 256 };
    static struct bench_case c[3][MAX_CASES];
    int cases = 0;
    for (int k = 0; k < 3; k++) {
        cases = collect(c[k], counts[k], argc, argv);
        /* one pass is about the same work, whatever n: some 30 ms */
        for (int i = 0; i < cases; i++)
            run(&c[k][i], 1, ((size_t)64 << 20) / (size_t)counts[k] + ((size_t)2 << 20));
    }
    printf("prefill, GOP/s (2 a weight and row) and the share of the peak, with 1 and 2 threads\n"
           "%-8s %-6s %-18s %25s %25s %25s %23s\n",
           "variant", "format", "shape", "n 16", "n 64", "n 256", "fixed, %");
    for (int i = 0; i < cases; i++) {
        const struct bench_case *a = &c[0][i];
        const double weights = 16.0 * (double)a->shape->cols /
                               (double)ig_panel_bytes(a->fmt, a->shape->cols); /* a byte */
        const double peak = 1e-9 * peak_by(a);
        printf("%-8s %-6s %-18s", a->k->name, ig_fmt_name(a->fmt), a->shape->name);
        double gains[3];
        for (int k = 0; k < 3; k++) {
            const double scale = 2.0 * weights * counts[k];
            gains[k] = gain(c[k][i].got[1][0], c[k][i].got[0][0]);
            for (int t = 0; t < 2; t++) {
                const double gops = scale * median(c[k][i].got[0][t]);
                printf(" %7.0f %3.0f%%", gops, 100 * gops / peak / (t + 1));
            }
        }
        printf(" %+7.1f %+7.1f %+7.1f\n", gains[0], gains[1], gains[2]);
    }
}

int main(int argc, char **argv)
{
    features = ig_cpu_features();
    static const char *const parts[] = { "decode", "prefill", "check" };
    if (!prepare(2) || !prepare_activations()) {
        fprintf(stderr, "kernels: out of memory\n");
        return 1;
    }
    if ((features & IG_CPU_AMX) && !check_tiles()) return 1;
    if (wanted("decode", argc, argv, parts, 3)) decode(argc, argv);
    if (wanted("prefill", argc, argv, parts, 3)) prefill(argc, argv);
    return 0;
}
