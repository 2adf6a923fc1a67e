/* plot.h -- line charts as SVG text, side by side in one file. */
#ifndef IG_REPLAY_PLOT_H
#define IG_REPLAY_PLOT_H

#include <stdint.h>
#include <stdio.h>

enum { PLOT_MAX_LINE = 24 };

struct plot_line {
    const char *name;
    uint32_t n;
    const double *x, *y;
};

struct plot {
    const char *title, *x_name, *y_name;
    uint32_t n_line;
    struct plot_line line[PLOT_MAX_LINE];
    int points; /* mark each point */
};

/* The whole file; panels stand side by side and share the first one's legend. */
void ig_plot_svg(FILE *f, const struct plot *panel, int n_panel);

#endif
