/* kernels_util.h -- what the kernels' tests share: the variants of this architecture, guarded
 * inputs, equality.
 *
 * Build: link kernels/ref, kernels/cpu and -lcmocka; no instruction-set flags here.
 */
#ifndef KERNELS_UTIL_H
#define KERNELS_UTIL_H

#include "kernels_guard.h"
#include "kernels_data.h"

enum { PR = IG_PANEL_ROWS, KB = IG_KV_BLOCK, MAX_N = 64 };

typedef float panel_y[PR];

#define VARIANT(test, k)                                                                           \
    {                                                                                              \
#test " (" #k ")", test, NULL, NULL, (void *)(uintptr_t)&ig_kernels_##k                    \
    }
/* The test once for each variant, and what the CPU must have for the first and for the second.
 * i8mm has neon's functions but for panels of blocks (kernels_panel_test.c checks it). */
#if defined(__aarch64__)
#define EACH_VARIANT(test) VARIANT(test, neon)
#define EACH_PANELS(test)  VARIANT(test, neon), VARIANT(test, i8mm)
static const struct ig_kernels *const first_variant = &ig_kernels_neon;
static const struct ig_kernels *const second_variant = &ig_kernels_i8mm;
enum { FIRST_NEEDS = IG_CPU_NEON, SECOND_NEEDS = IG_CPU_I8MM };
#else
#define EACH_VARIANT(test) VARIANT(test, avx2), VARIANT(test, avx512)
#define EACH_PANELS(test)  EACH_VARIANT(test)
static const struct ig_kernels *const first_variant = &ig_kernels_avx2;
static const struct ig_kernels *const second_variant = &ig_kernels_avx512;
enum { FIRST_NEEDS = IG_CPU_AVX2, SECOND_NEEDS = IG_CPU_AVX512 };
#endif

/* The same bits, or both NaN (rule 5). */
static inline int same(const void *a, const void *b, size_t bytes)
{
    const float *x = a, *y = b;
    for (size_t i = 0; i < bytes / 4; i++)
        if (ig_f32_bits(x[i]) != ig_f32_bits(y[i]) && !(isnan(x[i]) && isnan(y[i]))) return 0;
    return 1;
}

/* Each test of a variant gets it through its state; what the CPU lacks is skipped. */
static inline const struct ig_kernels *variant(void **state)
{
    const struct ig_kernels *k = *state;
    const unsigned need = k == second_variant ? SECOND_NEEDS : FIRST_NEEDS;
    if (!(ig_cpu_features() & need)) skip();
    return k;
}

/* A packed panel at the end of a page, from `rows` random rows. */
static inline struct guard make_panel(enum ig_fmt fmt, int cols, int rows, enum data_kind kind)
{
    const size_t row_bytes = ig_fmt_row_bytes(fmt, cols);
    char *std = malloc(row_bytes * PR);
    const void *row[PR];
    for (int r = 0; r < PR; r++) {
        row[r] = std + row_bytes * (size_t)r;
        data_row(fmt, std + row_bytes * (size_t)r, cols, kind);
    }
    const struct guard panel = guard_alloc(ig_panel_bytes(fmt, cols));
    ig_panel_pack(fmt, panel.p, row, rows, cols);
    free(std);
    return panel;
}

/* n activation rows, each at the end of its own page. */
static inline void make_acts(struct guard *x, const void **xp, enum ig_fmt fmt, int cols, int n,
                             enum data_kind kind)
{
    const int blocks = ig_fmt_cols(fmt) > 1;
    for (int t = 0; t < n; t++) {
        x[t] = guard_alloc(blocks ? (size_t)cols / 32 * sizeof(struct ig_xq) : (size_t)cols * 4);
        if (blocks)
            data_xq(x[t].p, cols / 32, kind);
        else
            data_floats(x[t].p, cols, kind);
        xp[t] = x[t].p;
    }
}

#endif
