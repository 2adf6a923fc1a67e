/* generate.h -- the life of an answer: prompt, prefill, sample, decode.
 *
 * One generator, one sequence.  All its memory is in the struct, but for the
 * buffer of one token's text, which ig_gen_open takes before the first token;
 * from the first to the last token nothing is allocated.
 */
#ifndef IG_GENERATE_H
#define IG_GENERATE_H

#include "args.h"
#include "config.h"
#include "sample.h"
#include "session.h"

struct ig_gen_stats {
    int n_prompt; /* prompt tokens computed */
    int n_reused; /* prompt tokens that the KV cache held already */
    int n_made;   /* tokens generated */
    int n_step;   /* of these, decode steps: the first token comes from the prefill */
    double prefill_s, decode_s;
};

struct ig_gen {
    struct ig_engine *e;
    const struct ig_tokenizer *tok; /* NULL: bench */
    struct ig_sampler sampler;
    uint64_t seed;
    int n_ctx, n_batch;

    int32_t ids[IG_N_CTX + 1]; /* the sequence; the last token needs no room in the KV cache */
    int n_ids;
    int n_past; /* ids[0, n_past) are in the KV cache; n_ids - 1 or n_ids */

    int32_t pos[IG_N_ROW], seq[IG_N_ROW];
    uint8_t want[IG_N_ROW];

    struct ig_tok_stream stream;
    char *text; /* of one token */
    size_t text_cap;

    struct ig_gen_stats stats;
};

/* Why an answer ended. */
enum ig_gen_end {
    IG_GEN_END,     /* the model's end token */
    IG_GEN_LIMIT,   /* -n tokens */
    IG_GEN_CONTEXT, /* no room for another position */
    IG_GEN_STOPPED, /* a signal */
    IG_GEN_CLOSED   /* standard output takes no more */
};

/* The program's one generator.  Sampling and batch size from `o`; a seed that was not given is
 * drawn. */
enum ig_err ig_gen_open(struct ig_gen **g, const struct ig_session *s, const struct ig_opts *o,
                        struct ig_why *why);
void ig_gen_close(struct ig_gen *g); /* NULL: nothing was opened */

/* Make ids[0, n) the sequence and compute what the KV cache does not hold of it,
 * at least the last token; 1 <= n <= n_ctx.  0 when a signal stopped it early. */
int ig_gen_prompt(struct ig_gen *g, const int32_t *ids, int n);
/* Append a token and compute it. */
void ig_gen_step(struct ig_gen *g, int32_t token);
/* Sample and print tokens; n_max -1: no limit.  The new ids are behind the prompt's. */
enum ig_gen_end ig_gen_answer(struct ig_gen *g, int n_max, int ignore_eos);
/* The statistics of the last prompt and answer, as notes. */
void ig_gen_report(const struct ig_gen *g, enum ig_gen_end end);
/* The same of one turn of a talk, as one short line. */
void ig_gen_report_turn(const struct ig_gen *g, enum ig_gen_end end);

/* The highest logit, the lower id among equals. */
int32_t ig_gen_argmax(const float *logits);

#endif
