/* generate.c -- the life of an answer: prompt, prefill, sample, decode. */
#include "generate.h"

#include "config.h"

#include "machine.h"
#include "out.h"
#include "progress.h"
#include "stop.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

static uint64_t draw_seed(void)
{
    uint64_t seed = 0;
    if (getrandom(&seed, sizeof seed, GRND_NONBLOCK) != sizeof seed)
        seed = (uint64_t)(ig_seconds() * 1e9); /* early in a boot: still another one each time */
    return seed & UINT32_MAX;                  /* short enough to be typed again */
}

/* Room for the longest token's text, as ig_tok_stream_push wants it. */
static enum ig_err text_room(struct ig_gen *g, struct ig_why *why)
{
    size_t most = 0;
    for (uint32_t id = 0; id < ig_tok_n_vocab(g->tok); id++) {
        size_t n = 0;
        ig_tok_piece(g->tok, (int32_t)id, 1, &n);
        if (n > most) most = n;
    }
    g->text_cap = 3 * most + 16;
    g->text = malloc(g->text_cap);
    return g->text ? IG_OK
                   : ig_fail(why, IG_NO_MEM, "no memory for %zu bytes of text", g->text_cap);
}

enum ig_err ig_gen_init(struct ig_gen *g, const struct ig_session *s, const struct ig_opts *o,
                        struct ig_why *why)
{
    memset(g, 0, sizeof *g);
    g->e = s->e;
    g->tok = s->tok;
    g->n_ctx = ig_n_ctx(s->e);
    g->n_batch = o->n_batch ? o->n_batch : IG_N_ROW;
    g->seed = o->seed.given ? o->seed.value : draw_seed();
    ig_sampler_init(&g->sampler, g->seed);
    g->sampler.temp = o->temp;
    g->sampler.top_k = o->top_k;
    g->sampler.top_p = o->top_p;
    g->sampler.min_p = o->min_p;
    g->sampler.repeat_penalty = o->repeat_penalty;
    g->sampler.repeat_last_n = o->repeat_last_n;
    return g->tok ? text_room(g, why) : IG_OK;
}

void ig_gen_free(struct ig_gen *g)
{
    free(g->text);
    g->text = NULL;
}

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
    g->stream.n_held = 0;
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
        const int32_t token = ig_sample(&g->sampler, ig_logits(g->e, 0), IG_N_VOCAB, g->work);
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

void ig_gen_report(const struct ig_gen *g, enum ig_gen_end end)
{
    static const char *const why[] = { "the model ended it", "the limit of -n",
                                       "the context is full", "interrupted", "output closed" };
    const struct ig_gen_stats *s = &g->stats;
    const double bound = (double)IG_HW_MEM_BW / (double)IG_TOKEN_BYTES;

    char reused[48] = "";
    if (s->n_reused > 0) snprintf(reused, sizeof reused, ", after %d still known", s->n_reused);
    ig_note("prompt: %d tokens%s, %.1f tokens/s", s->n_prompt, reused,
            s->prefill_s > 0 ? s->n_prompt / s->prefill_s : 0);
    if (s->n_step > 0) {
        const double rate = s->n_step / s->decode_s;
        ig_note("decode: %d tokens, %.1f tokens/s, %.2f ms each; bound %.1f tokens/s "
                "(%.1f MB a token at %.1f GB/s), %.0f %% of it reached",
                s->n_made, rate, 1e3 / rate, bound, (double)IG_TOKEN_BYTES / 1e6,
                (double)IG_HW_MEM_BW / 1e9, 100 * rate / bound);
    } else {
        ig_note("decode: %d tokens", s->n_made);
    }
    ig_note("ended: %s; %d of %d positions used; seed %llu", why[end], g->n_past, g->n_ctx,
            (unsigned long long)g->seed);
}

int32_t ig_gen_argmax(const float *logits)
{
    int32_t best = 0;
    for (int32_t i = 1; i < IG_N_VOCAB; i++)
        if (logits[i] > logits[best]) best = i;
    return best;
}
