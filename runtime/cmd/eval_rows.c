/* eval_rows.c -- logits of every position of given ids. */
#include "eval.h"

#include "config.h"
#include "stop.h"

int ig_eval_rows(struct ig_engine *e, const int32_t *ids, int n, int batch,
                 const struct ig_eval_to *to)
{
    static int32_t pos[IG_N_ROW], seq[IG_N_ROW]; /* seq stays 0 */
    static uint8_t want[IG_N_ROW];
    for (int at = 0; at < n; at += batch) {
        const int rows = n - at < batch ? n - at : batch;
        for (int i = 0; i < rows; i++) pos[i] = at + i;
        for (int lo = 0; lo < rows; lo += IG_N_LOGIT_ROW) {
            const int hi = rows - lo < IG_N_LOGIT_ROW ? rows : lo + IG_N_LOGIT_ROW;
            if (ig_stop_signal()) return 0;
            for (int i = 0; i < rows; i++) want[i] = i >= lo && i < hi;
            const struct ig_batch b = { rows, ids + at, pos, seq, want };
            ig_forward(e, &b);
            for (int i = lo; i < hi; i++) to->take(to->ctx, at + i, ig_logits(e, i - lo));
        }
    }
    return 1;
}
