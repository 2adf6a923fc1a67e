/* generate_init.c -- before the first token and after the last: buffers, statistics. */
#include "generate.h"

#include "config.h"
#include "machine.h"
#include "out.h"

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

static struct ig_gen generator;

enum ig_err ig_gen_open(struct ig_gen **out, const struct ig_session *s, const struct ig_opts *o,
                        struct ig_why *why)
{
    struct ig_gen *const g = *out = &generator;
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
    g->sampler.repeat_last_n = o->repeat_last_n < 0 ? IG_LAST_N : o->repeat_last_n;
    return g->tok ? text_room(g, why) : IG_OK;
}

void ig_gen_close(struct ig_gen *g)
{
    if (!g) return;
    free(g->text);
    g->text = NULL;
}

static const char *const ends[] = { "the model ended it", "the limit of -n", "the context is full",
                                    "interrupted", "output closed" };

static double per_second(int n, double seconds) { return seconds > 0 ? n / seconds : 0; }

void ig_gen_report(const struct ig_gen *g, enum ig_gen_end end)
{
    const struct ig_gen_stats *s = &g->stats;
    const double bw = (double)ig_read_bw(g->e), bound = bw / (double)IG_TOKEN_BYTES;

    char reused[48] = "";
    if (s->n_reused > 0) snprintf(reused, sizeof reused, ", after %d still known", s->n_reused);
    ig_note("prompt: %d token%s%s, %.1f tokens/s", s->n_prompt, IG_S(s->n_prompt), reused,
            per_second(s->n_prompt, s->prefill_s));
    if (s->n_step > 0) {
        const double rate = per_second(s->n_step, s->decode_s), reached = 100 * rate / bound;
        ig_note("decode: %d token%s, %.1f tokens/s, %.2f ms each", s->n_made, IG_S(s->n_made), rate,
                1e3 * s->decode_s / s->n_step);
        ig_note("bound: %.1f tokens/s (%.1f MB a token at the plan's %.1f GB/s), %.*f %% of it "
                "reached",
                bound, (double)IG_TOKEN_BYTES / 1e6, bw / 1e9, reached < 9.95 ? 1 : 0, reached);
    } else {
        ig_note("decode: %d token%s", s->n_made, IG_S(s->n_made));
    }
    ig_note("ended: %s; %d of %d positions used; seed %llu", ends[end], g->n_past, g->n_ctx,
            (unsigned long long)g->seed);
}

void ig_gen_report_turn(const struct ig_gen *g, enum ig_gen_end end)
{
    const struct ig_gen_stats *s = &g->stats;
    char reused[48] = "";
    if (s->n_reused > 0) snprintf(reused, sizeof reused, " after %d known", s->n_reused);
    ig_note("prompt: %d%s; decode: %d token%s, %.1f/s; %d of %d positions%s%s", s->n_prompt, reused,
            s->n_made, IG_S(s->n_made), per_second(s->n_step, s->decode_s), g->n_past, g->n_ctx,
            end == IG_GEN_END ? "" : "; ended: ", end == IG_GEN_END ? "" : ends[end]);
}
