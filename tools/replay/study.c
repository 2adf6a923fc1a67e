/* study.c -- recall of all predictors, and the features they are trained from; see study.h. */
#include "study.h"

#include "say.h"
#include "stop.h"

#include <stdio.h>
#include <stdlib.h>

static const uint32_t dist[] = { 1, 2, 4, 8 };
enum { N_DIST = sizeof dist / sizeof *dist };

void ig_recall(const struct trace *t, const struct run_rows *rows, const struct learned *from,
               int csv)
{
    puts(csv ? "predictor,distance,recall_pct,weighted_pct,asked"
             : "predictor    distance  recall%  weighted%      asked");
    for (int kind = 0; kind < N_PREDICT; kind++)
        for (int d = 0; d < N_DIST; d++) {
            double weighted, asked;
            if ((kind == PREDICT_FOREST && !(from->file && from->file->t.n_forest)) ||
                (kind == PREDICT_MLP && !(from->file && from->file->t.n_mlp)))
                continue;
            const double plain = ig_predict_recall(t, rows, (enum predict_kind)kind, from, dist[d],
                                                   &weighted, &asked);
            printf(csv ? "%s,%u,%.2f,%.2f,%.0f\n" : "%-12s %8u %8.1f %10.1f %10.0f\n",
                   ig_predict_name[kind], dist[d], 100 * plain, 100 * weighted, asked);
        }
}

static int chosen(const struct trace *t, uint32_t row, uint32_t layer, uint32_t expert)
{
    for (uint32_t k = 0; k < t->top_k; k++)
        if (t->expert[trace_at(t, row, layer) + k] == expert) return 1;
    return 0;
}

int ig_features(const struct trace *t, const struct run_rows *rows, const struct learned *from,
                const char *path, uint32_t every)
{
    struct out_file out;
    if (ig_out_file_open(&out, path)) return 1;
    struct predictor p;
    uint8_t(*f)[IG_N_PFEATURE] = ig_zalloc(t->n_expert, sizeof *f);
    ig_predict_init(&p, PREDICT_TOKEN, t, from, 0);
    for (uint32_t i = 0; i < rows->n && !ig_stop_signal(); i++) {
        const uint32_t row = rows->row[i];
        for (uint32_t l = 0; i % every == 0 && l < t->n_layer; l++)
            for (int d = N_DIST; d-- > 0;) { /* farther questions come first, as they would */
                if (dist[d] > l) continue;
                ig_predict_features(&p, row, l, dist[d], f);
                for (uint32_t e = 0; e < t->n_expert; e++) {
                    if (!ig_sense_candidate(f[e])) continue;
                    const int cell[3] = { (int)dist[d], (int)l, chosen(t, row, l, e) };
                    fwrite(f[e], 1, IG_N_PFEATURE, out.f);
                    for (int k = 0; k < 3; k++) fputc(cell[k], out.f);
                }
            }
        ig_predict_row(&p, row);
    }
    ig_predict_free(&p);
    free(f);
    if (!ig_stop_signal()) return ig_out_file_keep(&out) != 0;
    ig_out_file_drop(&out);
    ig_say("%s: not written: the run was interrupted", path);
    return 1;
}
