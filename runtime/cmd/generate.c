/* generate.c -- the life of an answer: prompt, prefill, sample, decode.
 *
 * Nothing here allocates, and tests/gates.sh holds it to that: what is done once
 * before and after is in generate_init.c.
 */
#include "generate.h"

#include "config.h"

#include "machine.h"
#include "out.h"
#include "progress.h"
#include "stop.h"

#include <string.h>

/* Compute ids[n_past, n_past + rows); logits of the last row. */
static void forward(struct ig_gen *g, int rows)
{
    for (int i = 0; i < rows; i++) {
        g->pos[i] = g->n_past + i;
        g->want[i] = i == rows - 1;
    }
    const struct ig_batch b = { rows, g->ids + g->n_past, g->pos, g->seq, g->want };
    ig_forward(g->e, &b);
    g->n_past += rows;
}

int ig_gen_prompt(struct ig_gen *g, const int32_t *ids, int n)
{
    IG_ASSERT(n >= 1 && n <= g->n_ctx);
    int keep = 0;
    while (keep < g->n_past && keep < n - 1 && g->ids[keep] == ids[keep]) keep++;
    memmove(g->ids, ids, (size_t)n * sizeof *ids);
    for (int i = keep; i < n; i++) ig_sampler_accept(&g->sampler, ids[i]);
    g->n_ids = n;
    g->n_past = keep;
    g->stats = (struct ig_gen_stats){ .n_prompt = n - keep, .n_reused = keep };

    const double t0 = ig_seconds();
    while (g->n_past < n && !ig_stop_signal()) {
        const int left = n - g->n_past;
        forward(g, left < g->n_batch ? left : g->n_batch);
        ig_progress_count("reading the prompt", (uint64_t)(g->n_past - keep), (uint64_t)(n - keep));
    }
    ig_progress_end();
    g->stats.prefill_s = ig_seconds() - t0;
    g->stats.n_prompt = g->n_past - keep;
    return g->n_past == n;
}

void ig_gen_step(struct ig_gen *g, int32_t token)
{
    IG_ASSERT(g->n_past < g->n_ctx);
    g->ids[g->n_past] = token;
    forward(g, 1);
    g->n_ids = g->n_past;
}

/* Print a token; 0 when standard output takes no more. */
static int print(struct ig_gen *g, int32_t token)
{
    ig_out(g->text, ig_tok_stream_push(&g->stream, g->tok, token, g->text, g->text_cap));
    return ig_out_flush() == 0;
}

enum ig_gen_end ig_gen_answer(struct ig_gen *g, int n_max, int ignore_eos)
{
    enum ig_gen_end end = IG_GEN_LIMIT;
    struct ig_gen_stats *const st = &g->stats;
    double t0 = ig_seconds(); /* again after the first token, which no decode step made */
    /* An answer continues a text: no space is dropped.  A decoder beside an encoder starts one. */
    g->stream = (struct ig_tok_stream){ .started = !IG_N_LAYER_ENC };
    while (n_max < 0 || st->n_made < n_max) {
        if (ig_stop_signal()) {
            end = IG_GEN_STOPPED;
            break;
        }
        if (g->n_past < g->n_ids) { /* the token before is not in the KV cache yet */
            if (g->n_past == g->n_ctx) {
                end = IG_GEN_CONTEXT;
                break;
            }
            ig_gen_step(g, g->ids[g->n_past]);
            st->n_step++;
        }
        const int32_t token =
            ig_sample(&g->sampler, ig_logits(g->e, 0), IG_N_VOCAB, ig_sample_work(g->e));
        if (!ignore_eos && ig_tok_is_end(g->tok, token)) {
            end = IG_GEN_END;
            break;
        }
        ig_sampler_accept(&g->sampler, token);
        g->ids[g->n_ids++] = token;
        if (st->n_made++ == 0) t0 = ig_seconds();
        if (!print(g, token)) {
            end = IG_GEN_CLOSED;
            break;
        }
    }
    st->decode_s = ig_seconds() - t0;
    ig_out(g->text, ig_tok_stream_end(&g->stream, g->text, g->text_cap));
    ig_out_flush();
    return end;
}

int32_t ig_gen_argmax(const float *logits)
{
    int32_t best = 0;
    for (int32_t i = 1; i < IG_N_VOCAB; i++)
        if (logits[i] > logits[best]) best = i;
    return best;
}
