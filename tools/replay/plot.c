/* plot.c -- see plot.h.  Numbers are printed with fixed decimals, so the same run gives the same
 * bytes. */
#include "plot.h"

#include <math.h>

enum { WIDE = 560, HIGH = 400, LEFT = 60, TOP = 36, PLOT_W = 470, PLOT_H = 310, LEGEND = 190 };

static const char *const colour[] = { "#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e",
                                      "#8c564b", "#e377c2", "#17becf", "#bcbd22", "#000000" };
enum { N_COLOUR = sizeof colour / sizeof *colour };

/* 1, 2 or 5 times a power of ten, about a fifth of the span. */
static double tick_of(double span)
{
    const double raw = span > 0 ? span / 5 : 1, power = pow(10, floor(log10(raw)));
    const double m = raw / power;
    return (m < 1.5 ? 1 : m < 3.5 ? 2 : m < 7.5 ? 5 : 10) * power;
}

static void text(FILE *f, double x, double y, const char *anchor, const char *s)
{
    fprintf(f, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">", x, y, anchor);
    for (; *s; s++) {
        if (*s == '<')
            fputs("&lt;", f);
        else if (*s == '&')
            fputs("&amp;", f);
        else
            fputc(*s, f);
    }
    fputs("</text>\n", f);
}

static void axes(FILE *f, const struct plot *p, double x0, double x1, double y1)
{
    char s[40];
    const double tx = tick_of(x1 - x0), ty = tick_of(y1);
    fprintf(f,
            "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"none\" "
            "stroke=\"#888\"/>\n",
            LEFT, TOP, PLOT_W, PLOT_H);
    for (double v = ceil(x0 / tx) * tx; v <= x1 * 1.0001; v += tx) {
        const double x = LEFT + PLOT_W * (v - x0) / (x1 - x0);
        snprintf(s, sizeof s, "%g", v);
        text(f, x, TOP + PLOT_H + 16, "middle", s);
    }
    for (double v = 0; v <= y1 * 1.0001; v += ty) {
        const double y = TOP + PLOT_H - PLOT_H * v / y1;
        fprintf(f, "<path d=\"M%d %.1fh%d\" stroke=\"#ddd\"/>\n", LEFT, y, PLOT_W);
        snprintf(s, sizeof s, "%g", v);
        text(f, LEFT - 6, y + 4, "end", s);
    }
    text(f, LEFT + PLOT_W / 2.0, TOP - 12, "middle", p->title);
    text(f, LEFT + PLOT_W / 2.0, TOP + PLOT_H + 36, "middle", p->x_name);
    fprintf(f, "<g transform=\"translate(14,%d) rotate(-90)\">", TOP + PLOT_H / 2);
    text(f, 0, 0, "middle", p->y_name);
    fputs("</g>\n", f);
}

static void lines(FILE *f, const struct plot *p)
{
    double x0 = 1e300, x1 = -1e300, y1 = 0;
    for (uint32_t l = 0; l < p->n_line; l++)
        for (uint32_t i = 0; i < p->line[l].n; i++) {
            x0 = fmin(x0, p->line[l].x[i]);
            x1 = fmax(x1, p->line[l].x[i]);
            y1 = fmax(y1, p->line[l].y[i]);
        }
    if (!(x1 > x0)) x0 -= 1, x1 = x0 + 2;
    y1 = y1 > 0 ? y1 * 1.05 : 1;
    axes(f, p, x0, x1, y1);
    for (uint32_t l = 0; l < p->n_line; l++) {
        const char *c = colour[l % N_COLOUR];
        const struct plot_line *line = &p->line[l];
        fprintf(f, "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"1.6\"%s points=\"", c,
                l < N_COLOUR ? "" : " stroke-dasharray=\"5 3\"");
        for (uint32_t i = 0; i < line->n; i++)
            fprintf(f, "%.1f,%.1f ", LEFT + PLOT_W * (line->x[i] - x0) / (x1 - x0),
                    TOP + PLOT_H - PLOT_H * line->y[i] / y1);
        fputs("\"/>\n", f);
        for (uint32_t i = 0; p->points && i < line->n; i++)
            fprintf(f, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"2.5\" fill=\"%s\"/>\n",
                    LEFT + PLOT_W * (line->x[i] - x0) / (x1 - x0),
                    TOP + PLOT_H - PLOT_H * line->y[i] / y1, c);
    }
}

void ig_plot_svg(FILE *f, const struct plot *panel, int n_panel)
{
    fprintf(f,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
            "font-family=\"sans-serif\" font-size=\"12\">\n"
            "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n",
            WIDE * n_panel + LEGEND, HIGH);
    for (int i = 0; i < n_panel; i++) {
        fprintf(f, "<g transform=\"translate(%d,0)\">\n", WIDE * i);
        lines(f, &panel[i]);
        fputs("</g>\n", f);
    }
    for (uint32_t l = 0; n_panel && l < panel[0].n_line; l++) {
        const double y = TOP + 10 + 18.0 * l;
        fprintf(f, "<path d=\"M%d %.1fh22\" stroke=\"%s\" stroke-width=\"2\"%s/>\n", WIDE * n_panel,
                y - 4, colour[l % N_COLOUR], l < N_COLOUR ? "" : " stroke-dasharray=\"5 3\"");
        text(f, WIDE * n_panel + 28, y, "start", panel[0].line[l].name);
    }
    fputs("</svg>\n", f);
}
