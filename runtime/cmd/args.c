/* args.c -- the command line: one table of options, read into one struct. */
#include "args.h"

#include "config.h"
#include "out.h"
#include "sample.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum kind { SWITCH, INT, U64, REAL, TEXT, CHOICE };

struct arg {
    const char *name, *alias; /* alias may be NULL */
    unsigned cmds;            /* of enum ig_cmd */
    enum kind kind;
    size_t at;              /* of the value in struct ig_opts */
    double lo, hi;          /* INT, REAL */
    const char *def;        /* default, read as if given; NULL: the field stays zero */
    const char *meta, *say; /* for --help; meta of a CHOICE is its words: "text|json" */
};

enum {
    LOADS = IG_CMD_RUN | IG_CMD_CHAT | IG_CMD_EVAL | IG_CMD_BENCH | IG_CMD_INFO | IG_CMD_TRACE,
    READS = LOADS | IG_CMD_TOKENIZE | IG_CMD_DETOKENIZE,
    TALKS = IG_CMD_RUN | IG_CMD_CHAT,
    WORKS = TALKS | IG_CMD_EVAL | IG_CMD_BENCH | IG_CMD_TRACE
};

#define AT(field) offsetof(struct ig_opts, field)
#define ANY       INT_MAX /* an upper limit that help does not show */

// clang-format off
static const struct arg table[] = {
    { "-p", "--prompt", IG_CMD_RUN, TEXT, AT(prompt), 0, 0, NULL, "TEXT",
      "the prompt" },
    { "-p", "--prompt", IG_CMD_CHAT, TEXT, AT(prompt), 0, 0, NULL, "TEXT",
      "answer this one message and leave" },
    { "-p", "--prompt", IG_CMD_TOKENIZE, TEXT, AT(prompt), 0, 0, NULL, "TEXT",
      "the text, as the argument without a flag" },
    { "-f", "--file", IG_CMD_RUN, TEXT, AT(file), 0, 0, NULL, "FILE",
      "read the prompt from FILE, - is standard input; one newline at its end is dropped" },
    { "-f", "--file", IG_CMD_TRACE, TEXT, AT(file), 0, 0, NULL, "FILE",
      "the text to run, as it is, without a BOS in front; - is standard input" },
    { "-o", "--output", IG_CMD_TRACE, TEXT, AT(out), 0, 0, NULL, "FILE",
      "write the trace to FILE (default: standard output); NAME.trace is a binary one with predictions" },
    { "--hidden", NULL, IG_CMD_TRACE, TEXT, AT(hidden), 0, 0, NULL, "FILE",
      "beside a binary trace, write the routers' inputs to FILE, for tools/train_predictor.py" },
    { "-f", "--file", IG_CMD_EVAL, TEXT, AT(file), 0, 0, NULL, "FILE",
      "the text to measure, as it is, without a BOS in front; - is standard input" },
    { "-f", "--file", IG_CMD_CHAT, TEXT, AT(file), 0, 0, NULL, "FILE",
      "answer the message in FILE and leave; one newline at its end is dropped" },
    { "-f", "--file", IG_CMD_TOKENIZE, TEXT, AT(file), 0, 0, NULL, "FILE",
      "the text; - is standard input" },
    { "--system", "-sys", IG_CMD_CHAT, TEXT, AT(system), 0, 0, NULL, "TEXT",
      "the system message" },
    { "-n", "--n-predict", TALKS, INT, AT(n_predict), -1, ANY, "-1", "N",
      "most tokens to generate; -1: until the model ends or the context is full" },
    { "--ignore-eos", NULL, TALKS, SWITCH, AT(ignore_eos), 0, 0, NULL, NULL,
      "go on after tokens that end a text or a turn" },
    { "--display-prompt", NULL, IG_CMD_RUN, SWITCH, AT(display_prompt), 0, 0, NULL, NULL,
      "print the prompt before its completion" },
    { "--special", NULL, IG_CMD_RUN | IG_CMD_TOKENIZE, SWITCH, AT(special), 0, 0, NULL, NULL,
      "control tokens in the text become their ids, not their letters" },
    { "--special", NULL, IG_CMD_DETOKENIZE, SWITCH, AT(special), 0, 0, NULL, NULL,
      "print the text of control tokens too" },
    { "--no-bos", NULL, IG_CMD_TOKENIZE, SWITCH, AT(no_bos), 0, 0, NULL, NULL,
      "do not put the beginning-of-text token in front" },

    { "-s", "--seed", TALKS, U64, AT(seed), 0, 0, NULL, "N",
      "seed of the random choices; -1: a new one each time, printed at the end (default)" },
    { "--temp", "--temperature", TALKS, REAL, AT(temp), 0, 100, "0.8", "X",
      "temperature; 0 takes the most likely token" },
    { "--top-k", NULL, TALKS, INT, AT(top_k), 0, ANY, "40", "N",
      "sample from the N most likely tokens; 0: all" },
    { "--top-p", NULL, TALKS, REAL, AT(top_p), 0, 1, "0.95", "X",
      "sample from the most likely tokens that have X of the probability; 1: all" },
    { "--min-p", NULL, TALKS, REAL, AT(min_p), 0, 1, "0.05", "X",
      "drop tokens less likely than X times the most likely; 0: none" },
    { "--repeat-penalty", NULL, TALKS, REAL, AT(repeat_penalty), 0.01, 100, "1", "X",
      "make recent tokens less likely; 1: off" },
    { "--repeat-last-n", NULL, TALKS, INT, AT(repeat_last_n), -1, IG_LAST_N, "64", "N",
      "tokens that the repeat penalty looks back on; -1: the most" },

    { "--tokens", NULL, IG_CMD_EVAL, TEXT, AT(tokens), 0, 0, NULL, "IDS",
      "run these token ids, as 1,2,3, instead of a text" },
#if IG_N_LAYER_ENC
    { "--decoder-tokens", NULL, IG_CMD_EVAL, TEXT, AT(decoder_tokens), 0, 0, NULL, "IDS",
      "with --tokens, which the encoder reads: what the decoder reads (default: its start token)" },
#endif
    { "--dump", NULL, IG_CMD_EVAL, TEXT, AT(dump), 0, 0, NULL, "FILE",
      "with --tokens: write logits, hidden states and router choices as safetensors" },
    { "--greedy", NULL, IG_CMD_EVAL, INT, AT(greedy), 0, ANY, NULL, "N",
      "with --tokens: continue with the N most likely tokens; end tokens do not stop it" },

    { "-p", "--n-prompt", IG_CMD_BENCH, INT, AT(bench_prompt), 0, IG_N_CTX, NULL, "N",
      "tokens of the prefill test; 0: skip it (default: 512, or the context if that is less)" },
    { "-n", "--n-gen", IG_CMD_BENCH, INT, AT(bench_gen), 0, IG_N_CTX, NULL, "N",
      "tokens of the decode test; 0: skip it (default: 128, or the context if that is less)" },
    { "-r", "--repetitions", IG_CMD_BENCH, INT, AT(repetitions), 1, 1000, "5", "N",
      "times each test is run" },
    { "-s", "--seed", IG_CMD_BENCH, U64, AT(seed), 0, 0, "1", "N",
      "seed of the random token ids" },

    { "--route", NULL, IG_CMD_BENCH, TEXT, AT(route), 0, 0, NULL, "FILE",
      "decode with the expert choices recorded in this trace in place of the routers'" },
    { "--stats", "-v", WORKS, SWITCH, AT(stats), 0, 0, NULL, NULL,
      "show the expert cache's counters at the end, layer by layer" },

    { "-o", "--output", IG_CMD_PACK, TEXT, AT(out), 0, 0, NULL, "FILE",
      "write the weights file FILE" },
    { "--embed", NULL, IG_CMD_PACK, TEXT, AT(embed), 0, 0, NULL, "FILE",
      "write FILE, this program with the weights inside" },
    { "--synth", NULL, IG_CMD_PACK, U64, AT(synth), 0, 0, NULL, "SEED",
      "random weights of the planned shape instead of SRC, for benchmarks" },
    { "--tokenizer", NULL, IG_CMD_PACK, TEXT, AT(tokenizer), 0, 0, NULL, "SRC",
      "take the tokenizer from this folder or .gguf file" },

    { "-m", "--model", READS, TEXT, AT(model), 0, 0, NULL, "FILE",
      "weights file (default: the one inside this program, else " IG_MODEL_ID
      ".ingot beside it)" },
    { "-c", "--ctx-size", TALKS | IG_CMD_BENCH | IG_CMD_INFO, INT, AT(n_ctx), 0, IG_N_CTX, NULL, "N",
      "positions in use; 0: the plan's (default)" },
    { "-c", "--ctx-size", IG_CMD_TRACE, INT, AT(n_ctx), 1, IG_N_CTX, NULL, "N",
      "tokens in a window, which starts from nothing (default: the plan's context)" },
    { "-c", "--ctx-size", IG_CMD_EVAL, INT, AT(n_ctx), 0, IG_N_CTX, NULL, "N",
      "tokens in a window; 0: 512, or the plan's context if that is less (default)" },
#if IG_DEVICE
    { "--vram", NULL, LOADS, U64, AT(vram), 0, 0, NULL, "BYTES",
      "take no more of the device's memory: the expert cache gets fewer slots (default: the plan's)" },
#endif
#if IG_XC
    { "--link-bw", NULL, LOADS, U64, AT(link_bw), 0, 0, NULL, "BYTES",
      "simulate a link that carries no more than BYTES a second" },
    { "--pin", NULL, LOADS, INT, AT(pin), 0, 100, NULL, "PERCENT",
      "of the experts that the device may read in RAM (the CPU computes the others' misses)" },
    { "--link", NULL, LOADS, INT, AT(link_share), 0, 100, NULL, "PERCENT",
      "of the cache's misses that take the link (default: as measured; the CPU computes the rest)" },
    { "--ahead", NULL, LOADS, INT, AT(ahead), 0, 8, NULL, "N",
      "prefetch for the layer with experts N further on; 0: none (default: as it pays; with --link none)" },
    { "--behind", NULL, LOADS, INT, AT(behind), 0, 1, NULL, "0|1",
      "1: what the CPU computed is copied into the cache afterwards (default: as it pays; with --link 0)" },
#endif
    { "-t", "--threads", LOADS, INT, AT(threads), 1, IG_N_THREAD_MAX, NULL, "N",
      "threads (default: as many as the plan and the machine allow)" },
    { "-b", "--batch-size", WORKS, INT, AT(n_batch), 1, IG_N_ROW, NULL, "N",
      "prompt tokens computed together (default: the plan's); changes speed, never results" },
    { "--no-load", NULL, IG_CMD_INFO, SWITCH, AT(no_load), 0, 0, NULL, NULL,
      "do not load the weights; downgrades then stay unknown" },

    { "-o", "--output", IG_CMD_BENCH, CHOICE, AT(format), 0, 0, "text", "text|json|csv",
      "format of the results" },
    { "-o", "--output", IG_CMD_EVAL | IG_CMD_TOKENIZE | IG_CMD_INFO, CHOICE, AT(format), 0, 0,
      "text", "text|json", "format of the results" },
    { "-h", "--help", ~0u, SWITCH, AT(help), 0, 0, NULL, NULL, "this text" },
};
// clang-format on

enum { N_ARG = sizeof table / sizeof *table };

/* Levenshtein distance, for short words. */
static int distance(const char *a, const char *b)
{
    enum { MOST = 32 };
    int row[MOST + 1];
    const int n = (int)strnlen(b, MOST);
    for (int j = 0; j <= n; j++) row[j] = j;
    for (int i = 1; *a && i <= MOST; i++, a++) {
        int diagonal = row[0];
        row[0] = i;
        for (int j = 1; j <= n; j++) {
            const int change = diagonal + (*a != b[j - 1]);
            const int insert = row[j - 1] + 1, drop = row[j] + 1;
            diagonal = row[j];
            row[j] = change < insert ? change : insert;
            if (drop < row[j]) row[j] = drop;
        }
    }
    return row[n];
}

enum { NEAR = 2 }; /* more changes than this are another word */

const char *ig_args_nearest(const char *word, const char *(*name)(int i, unsigned arg),
                            unsigned arg)
{
    const char *best = NULL;
    int best_d = NEAR + 1;
    for (int i = 0;; i++) {
        const char *s = name(i, arg);
        if (!s) return best;
        const int d = strlen(s) > 2 ? distance(word, s) : best_d; /* -x is near to all its like */
        if (d < best_d) best_d = d, best = s;
    }
}

/* What users of llama.cpp type, and what to know instead. */
static const struct {
    const char *word, *say;
} elsewhere[] = {
    { "-ngl", "no GPU layers here: the plan says what runs where" },
    { "--n-gpu-layers", "no GPU layers here: the plan says what runs where" },
    { "--gpu-layers", "no GPU layers here: the plan says what runs where" },
    { "--chat-template", "the template comes with the checkpoint" },
    { "--jinja", "not needed: the template comes with the checkpoint" },
    { "--no-mmap", "not needed here" },
    { "--mlock", "not needed here" },
    { "-fa", "not needed here" },
    { "--flash-attn", "not needed here" },
    { "perplexity", "here it is eval" },
    { "quantize", "here it is pack; the formats are planned: make SET=\"quant=...\"" },
    { "--quant", "pack makes the formats that were planned, of each class of tensors: "
                 "make SET=\"quant=q8_0 quant.expert=q4_k\"" },
    { "convert", "here it is pack" },
    { "server", "no server in this version" },
    { "serve", "no server in this version" },
};

const char *ig_args_elsewhere(const char *word)
{
    for (size_t i = 0; i < sizeof elsewhere / sizeof *elsewhere; i++)
        if (strcmp(word, elsewhere[i].word) == 0) return elsewhere[i].say;
    return NULL;
}

/* Both spellings of every option of the commands in `cmds`; "" where there is none. */
static const char *spelling(int i, unsigned cmds)
{
    if (i >= 2 * N_ARG) return NULL;
    const struct arg *a = &table[i / 2];
    const char *s = i % 2 ? a->alias : a->name;
    return s && (a->cmds & cmds) ? s : "";
}

/* "--top-k" of "--top-k=3" too. */
static const struct arg *find(const char *word, size_t n, enum ig_cmd cmd)
{
    for (int i = 0; i < 2 * N_ARG; i++) {
        const char *s = spelling(i, cmd);
        if (strlen(s) == n && n > 0 && memcmp(s, word, n) == 0) return &table[i / 2];
    }
    return n == 9 && memcmp(word, "--predict", n) == 0 && (cmd & TALKS) ? find("-n", 2, cmd) : NULL;
}

/* The build's setting that an option's upper limit comes from; NULL: none. */
static const char *setting(const struct arg *a)
{
    switch (a->at) {
    case AT(n_ctx):
    case AT(bench_prompt):
    case AT(bench_gen):
        return "ctx";
    case AT(threads):
        return "threads";
    case AT(n_batch):
        return "batch";
    default:
        return NULL;
    }
}

/* Beyond what was planned, or no such number. */
static enum ig_err bad_planned(const struct arg *a, const char *got, struct ig_why *why)
{
    char *end;
    char more[64] = "";
    const long n = strtol(got, &end, 10);
    if (end != got && !*end && (double)n > a->hi && n < INT_MAX)
        snprintf(more, sizeof more, "; SET=\"%s=%ld\" plans more", setting(a), n);
    return ig_fail(why, IG_USAGE, "%s: want %.0f to %.0f (planned%s), got \"%s\"", a->name, a->lo,
                   a->hi, more, got);
}

static enum ig_err bad(const struct arg *a, const char *got, struct ig_why *why)
{
    switch (a->kind) {
    case INT:
        if (setting(a)) return bad_planned(a, got, why);
        if (a->hi >= ANY)
            return ig_fail(why, IG_USAGE, "%s: want a whole number of %.0f or more, got \"%s\"",
                           a->name, a->lo, got);
        return ig_fail(why, IG_USAGE, "%s: want a whole number from %.0f to %.0f, got \"%s\"",
                       a->name, a->lo, a->hi, got);
    case REAL:
        return ig_fail(why, IG_USAGE, "%s: want a number from %g to %g, got \"%s\"", a->name, a->lo,
                       a->hi, got);
    case U64:
        return ig_fail(why, IG_USAGE, "%s: want a whole number from 0 to 2^64 - 1%s, got \"%s\"",
                       a->name, a->at == AT(seed) && !a->def ? ", or -1" : "", got);
    default:
        return ig_fail(why, IG_USAGE, "%s: want %s, got \"%s\"", a->name, a->meta, got);
    }
}

/* The place of `word` in "text|json|csv", or -1. */
static int choice(const char *words, const char *word)
{
    const size_t n = strlen(word);
    for (int i = 0;; i++) {
        const size_t m = strcspn(words, "|");
        if (m == n && memcmp(words, word, n) == 0) return i;
        if (!words[m]) return -1;
        words += m + 1;
    }
}

static enum ig_err set(struct ig_opts *o, const struct arg *a, const char *v, struct ig_why *why)
{
    char *field = (char *)o + a->at, *end = NULL;
    errno = 0;
    switch (a->kind) {
    case SWITCH: {
        const int on = 1;
        memcpy(field, &on, sizeof on);
        return IG_OK;
    }
    case TEXT:
        if (!*v && strcmp(a->meta, "FILE") == 0)
            return ig_fail(why, IG_USAGE, "%s: want a file name, got \"\"", a->name);
        memcpy(field, &v, sizeof v);
        return IG_OK;
    case INT: {
        const long n = strtol(v, &end, 10);
        if (end == v || *end || errno || (double)n < a->lo || (double)n > a->hi)
            return bad(a, v, why);
        const int n_int = (int)n;
        memcpy(field, &n_int, sizeof n_int);
        return IG_OK;
    }
    case U64: {
        if (a->at == AT(seed) && !a->def && strcmp(v, "-1") == 0) {
            memset(field, 0, sizeof(struct ig_opt_u64)); /* as if it was not given */
            return IG_OK;
        }
        /* strtoull takes "-1" and wraps it: digits only. */
        const struct ig_opt_u64 u = { 1, strtoull(v, &end, 10) };
        if (*v < '0' || *v > '9' || *end || errno) return bad(a, v, why);
        memcpy(field, &u, sizeof u);
        return IG_OK;
    }
    case REAL: {
        const double x = strtod(v, &end);
        if (end == v || *end || !(x >= a->lo && x <= a->hi)) return bad(a, v, why); /* NaN too */
        const float f = (float)x;
        memcpy(field, &f, sizeof f);
        return IG_OK;
    }
    case CHOICE: {
        const int i = choice(a->meta, v);
        if (i < 0) return bad(a, v, why);
        memcpy(field, &i, sizeof i);
        return IG_OK;
    }
    }
    return IG_OK;
}

static int takes_operand(enum ig_cmd cmd)
{
    return cmd & (IG_CMD_PACK | IG_CMD_TOKENIZE | IG_CMD_DETOKENIZE);
}

static enum ig_err operand(struct ig_opts *o, enum ig_cmd cmd, const char *word, struct ig_why *why)
{
    if (!takes_operand(cmd))
        return ig_fail(why, IG_USAGE, "want options only, got \"%s\"%s", word,
                       cmd & TALKS ? "; a prompt goes behind -p" : "");
    if (cmd == IG_CMD_DETOKENIZE) {
        o->operands[o->n_operand++] = word;
        return IG_OK;
    }
    if (o->operand)
        return ig_fail(why, IG_USAGE, "want one argument, got \"%s\" and \"%s\"", o->operand, word);
    o->operand = word;
    return IG_OK;
}

static enum ig_err unknown(enum ig_cmd cmd, const char *word, size_t n, struct ig_why *why)
{
    char name[64];
    snprintf(name, sizeof name, "%.*s", (int)n, word); /* without "=value" */
    const char *say = ig_args_elsewhere(name);
    if (say) return ig_fail(why, IG_USAGE, "%s: %s", name, say);
    const char *near = n > 2 ? ig_args_nearest(name, spelling, cmd) : NULL;
    return ig_fail(why, IG_USAGE, "unknown option \"%s\"%s%s", word,
                   near ? "; the nearest is " : "", near ? near : "");
}

/* argv[*i] is an option; its value may be behind "=" or be the next argument. */
static enum ig_err option(struct ig_opts *o, enum ig_cmd cmd, int *i, int argc, char **argv,
                          struct ig_why *why)
{
    const char *word = argv[*i];
    const char *eq = word[1] == '-' ? strchr(word, '=') : NULL;
    const struct arg *a = find(word, eq ? (size_t)(eq - word) : strlen(word), cmd);
    if (!a) return unknown(cmd, word, eq ? (size_t)(eq - word) : strlen(word), why);
    if (a->kind == SWITCH) {
        if (eq) return ig_fail(why, IG_USAGE, "%s: want no value, got \"%s\"", a->name, eq + 1);
        return set(o, a, NULL, why);
    }
    if (eq) return set(o, a, eq + 1, why);
    if (*i + 1 >= argc)
        return ig_fail(why, IG_USAGE, "%s: want a value (%s), got none", a->name, a->meta);
    return set(o, a, argv[++*i], why);
}

enum ig_err ig_args_parse(struct ig_opts *o, enum ig_cmd cmd, int argc, char **argv,
                          struct ig_why *why)
{
    enum ig_err err = IG_OK;
    int only_operands = 0;

    memset(o, 0, sizeof *o);
    o->operands = (const char **)(uintptr_t)argv; /* those read already make room */
    o->pin = 100;
    o->bench_prompt = o->bench_gen = o->greedy = o->link_share = o->behind = o->ahead =
        -1; /* not given */
    for (int i = 0; i < N_ARG && !err; i++)
        if ((table[i].cmds & cmd) && table[i].def) err = set(o, &table[i], table[i].def, why);

    for (int i = 0; i < argc && !err; i++) {
        const char *word = argv[i];
        if (only_operands || word[0] != '-' || word[1] == 0)
            err = operand(o, cmd, word, why);
        else if (strcmp(word, "--") == 0)
            only_operands = 1;
        else
            err = option(o, cmd, &i, argc, argv, why);
    }
    return err;
}

static void help_limits(const struct arg *a)
{
    if ((a->kind == INT && a->hi < ANY) || a->kind == REAL) ig_outf("; %g to %g", a->lo, a->hi);
    if (a->def) ig_outf(" (default %s)", a->def);
}

void ig_args_help(enum ig_cmd cmd)
{
    for (int i = 0; i < N_ARG; i++) {
        const struct arg *a = &table[i];
        if (!(a->cmds & cmd)) continue;
        char left[64];
        snprintf(left, sizeof left, "%s%s%s%s%s", a->name, a->alias ? ", " : "",
                 a->alias ? a->alias : "", a->meta ? " " : "", a->meta ? a->meta : "");
        ig_outf("  %-28s %s", left, a->say);
        help_limits(a);
        ig_outf("\n");
    }
}
