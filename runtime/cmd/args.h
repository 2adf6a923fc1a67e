/* args.h -- the command line: one table of options, read into one struct.
 *
 * Flag names are the ones that users of llama.cpp know.  Every value is checked
 * here, so that commands see numbers in range; a problem is IG_USAGE with the
 * flag, what it wants and what it got.
 */
#ifndef IG_ARGS_H
#define IG_ARGS_H

#include "base.h"

enum ig_cmd {
    IG_CMD_RUN = 1,
    IG_CMD_CHAT = 2,
    IG_CMD_PACK = 4,
    IG_CMD_EVAL = 8,
    IG_CMD_BENCH = 16,
    IG_CMD_TOKENIZE = 32,
    IG_CMD_DETOKENIZE = 64,
    IG_CMD_PLAN = 128,
    IG_CMD_INFO = 256,
    IG_CMD_TRACE = 512
};

enum ig_format { IG_TEXT, IG_JSON, IG_CSV };

struct ig_opt_u64 {
    int given;
    uint64_t value;
};

struct ig_opts {
    const char *operand;   /* the argument without a flag, or NULL */
    const char **operands; /* detokenize takes several */
    int n_operand;
    int help;

    const char *model;   /* weights file, or NULL */
    int n_ctx;           /* 0: not given */
    int threads;         /* 0: not given */
    int settle;          /* not an option: bench waits for what start-up leaves to the background */
    int pin, link_share; /* per cent; link_share -1: not given */
    int behind, ahead;   /* -1: not given */
    struct ig_opt_u64 vram, link_bw;
    int n_batch; /* 0: not given */
    int format;  /* enum ig_format */

    const char *prompt, *file, *system;
    int n_predict; /* -1: no limit */
    int ignore_eos, special, no_bos, display_prompt;

    struct ig_opt_u64 seed;
    float temp, top_p, min_p, repeat_penalty;
    int top_k, repeat_last_n;

    const char *out, *embed;
    struct ig_opt_u64 synth;
    const char *tokenizer; /* another source of the tokenizer */

    const char *tokens, *decoder_tokens, *dump;
    int greedy; /* -1: not given */

    int bench_prompt, bench_gen, repetitions;
    const char *route, *hidden;
    int stats;
    int no_load;
};

/* Read the arguments after the command's name. */
enum ig_err ig_args_parse(struct ig_opts *o, enum ig_cmd cmd, int argc, char **argv,
                          struct ig_why *why);
/* The options of a command, one a line, on standard output. */
void ig_args_help(enum ig_cmd cmd);

/* The candidate nearest to `word`, or NULL when none is near; name(i) is NULL after the last. */
const char *ig_args_nearest(const char *word, const char *(*name)(int i, unsigned arg),
                            unsigned arg);
/* What to know of a word of llama.cpp's that is another one here, or NULL. */
const char *ig_args_elsewhere(const char *word);

#endif
