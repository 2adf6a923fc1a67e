/* count.c -- one call of a panel kernel, for counting its instructions under an emulator:
 * bench/count.sh.
 *
 * usage: count KERNELS FORMAT ROWS COLUMNS TIMES
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../kernels/kernels.h"
#include "../kernels/panel.h"

int main(int argc, char **argv)
{
    if (argc != 6) return 2;
    const struct ig_kernels *const all[] = { &ig_kernels_ref, &ig_kernels_neon, &ig_kernels_i8mm };
    const struct ig_kernels *k = NULL;
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (strcmp(all[i]->name, argv[1]) == 0) k = all[i];
    int fmt = 0;
    while (fmt < IG_N_FMT && strcmp(ig_fmt_name((enum ig_fmt)fmt), argv[2]) != 0) fmt++;
    const int rows = atoi(argv[3]), cols = atoi(argv[4]), times = atoi(argv[5]);
    if (!k || fmt == IG_N_FMT || rows < 1 || cols < 1) {
        fprintf(stderr, "count: want kernels, format, rows and columns, got %s %s %s %s\n", argv[1],
                argv[2], argv[3], argv[4]);
        return 2;
    }
    const size_t row = ig_fmt_cols((enum ig_fmt)fmt) > 1
                           ? (size_t)cols / IG_QBLOCK * sizeof(struct ig_xq)
                           : (size_t)cols * sizeof(float);
    void *panel = calloc(1, ig_panel_bytes((enum ig_fmt)fmt, cols));
    float(*y)[IG_PANEL_ROWS] = calloc((size_t)rows, sizeof *y);
    const void **x = calloc((size_t)rows, sizeof *x);
    if (!panel || !y || !x) return 1;
    for (int t = 0; t < rows; t++)
        if (!(x[t] = calloc(1, row))) return 1;
    for (int i = 0; i < times; i++) k->panel[fmt](y, panel, x, cols, rows);
    return 0;
}
