/* main.c -- arguments, exit codes; the only file that prints errors.
 *
 * Exit codes: 0 done, 1 failed at run time, 2 bad usage, 3 machine or file does
 * not match the build; 128 + signal when one asked us to stop.
 */
#include "cmd.h"
#include "config.h"
#include "kernels.h"
#include "machine.h"
#include "out.h"
#include "progress.h"
#include "stop.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct command {
    const char *name, *usage, *say;
    enum ig_cmd id;
    int needs_isa; /* runs the planned kernels */
    enum ig_err (*run)(const struct ig_opts *o, struct ig_why *why);
} commands[] = {
    { "run", "[-p TEXT | -f FILE | < FILE]", "complete a prompt", IG_CMD_RUN, 1, ig_cmd_run },
    { "chat", "[-p TEXT | -f FILE]", "talk, with the model's chat template", IG_CMD_CHAT, 1,
      ig_cmd_chat },
    { "pack", "SRC [-o FILE] [--embed FILE]", "make a weights file from a checkpoint", IG_CMD_PACK,
      0, ig_cmd_pack },
    { "eval", "-f FILE | --tokens IDS", "perplexity of a text, or the values inside a pass",
      IG_CMD_EVAL, 1, ig_cmd_eval },
    { "bench", "", "speed of prefill and decode beside what the machine allows", IG_CMD_BENCH, 1,
      ig_cmd_bench },
    { "trace", "-f FILE [-o FILE]", "record which experts a text goes through", IG_CMD_TRACE, 1,
      ig_cmd_trace },
    { "tokenize", "[TEXT | -f FILE | < FILE]", "text to token ids", IG_CMD_TOKENIZE, 0,
      ig_cmd_tokenize },
    { "detokenize", "[IDS ... | < FILE]", "token ids to text", IG_CMD_DETOKENIZE, 0,
      ig_cmd_detokenize },
    { "plan", "", "what was planned for this model and machine, and why", IG_CMD_PLAN, 0,
      ig_cmd_plan },
    { "info", "", "the build, this machine, the weights, downgrades", IG_CMD_INFO, 0, ig_cmd_info },
};

enum { N_COMMAND = sizeof commands / sizeof *commands };

static const struct command *command_of(const char *word)
{
    for (int i = 0; i < N_COMMAND; i++)
        if (strcmp(word, commands[i].name) == 0) return &commands[i];
    return NULL;
}

static const char *command_name(int i, unsigned unused)
{
    (void)unused;
    return i < N_COMMAND ? commands[i].name : NULL;
}

static void help(const char *self)
{
    ig_outf("%s: the model " IG_MODEL_ID ", cast for the machine " IG_HW_ID ".\n\n"
            "usage: %s COMMAND [OPTIONS]\n\n",
            self, self);
    for (int i = 0; i < N_COMMAND; i++) ig_outf("  %-12s %s\n", commands[i].name, commands[i].say);
    ig_outf("\n  %s COMMAND --help   says more about one\n"
            "  %s --version        names model, machine, plan and layout\n\n"
            "exit codes: 0 done, 1 failed, 2 bad usage, 3 machine or file does not match the "
            "build\n",
            self, self);
}

static void command_help(const char *self, const struct command *c)
{
    ig_outf("usage: %s %s%s%s [OPTIONS]\n\n%s\n\n", self, c->name, *c->usage ? " " : "", c->usage,
            c->say);
    ig_args_help(c->id);
}

static enum ig_err unknown(const char *self, const char *word, struct ig_why *why)
{
    if (word[0] == '-' && word[1])
        return ig_fail(why, IG_USAGE, "options follow a command: %s run %s ...", self, word);
    const char *say = ig_args_elsewhere(word);
    if (say) return ig_fail(why, IG_USAGE, "%s: %s", word, say);
    const char *near = ig_args_nearest(word, command_name, 0);
    return ig_fail(why, IG_USAGE, "unknown command \"%s\"%s%s", word,
                   near ? "; the nearest is " : "", near ? near : "");
}

/* help; help COMMAND. */
static enum ig_err help_of(const char *self, int argc, char **argv, struct ig_why *why)
{
    if (argc > 1) return ig_fail(why, IG_USAGE, "help: want one command, got %d", argc);
    if (argc == 0) {
        help(self);
        return IG_OK;
    }
    const struct command *c = command_of(argv[0]);
    if (!c) return unknown(self, argv[0], why);
    command_help(self, c);
    return IG_OK;
}

static const struct command *chosen; /* what a hint is about; NULL: no command yet */

static enum ig_err dispatch(const char *self, int argc, char **argv, struct ig_why *why)
{
    if (argc < 2) return ig_fail(why, IG_USAGE, "want a command, got none");
    const char *word = argv[1];
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 || strcmp(word, "help") == 0)
        return help_of(self, argc - 2, argv + 2, why);
    if (strcmp(word, "--version") == 0) {
        ig_outf("ingot: model " IG_MODEL_ID ", machine " IG_HW_ID ", plan " IG_PLAN_HASH
                ", layout %016" PRIx64 "\n",
                (uint64_t)IG_LAYOUT_HASH);
        return IG_OK;
    }
    const struct command *c = chosen = command_of(word);
    if (!c) return unknown(self, word, why);
    static struct ig_opts o;
    enum ig_err err = ig_args_parse(&o, c->id, argc - 2, argv + 2, why);
    if (err == IG_OK && o.help) {
        command_help(self, c);
        return IG_OK;
    }
    if (err == IG_OK && c->needs_isa) err = ig_machine_check(IG_NEED_CPU, ig_cpu_features(), why);
    if (err == IG_OK) err = c->run(&o, why);
    return err ? ig_fail(why, err, "%s: %s", c->name, why->text) : IG_OK;
}

/* A closed standard descriptor would be given to the next file that is opened,
 * and text meant for the user would go into it.  These are open the wrong way
 * round, so that using them is still an error. */
static void hold_standard_descriptors(void)
{
    for (int fd = 0; fd <= 2; fd++)
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF) {
            const int got = open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY);
            if (got >= 0 && got != fd) close(got);
        }
}

int main(int argc, char **argv)
{
    static struct ig_why why;
    const char *slash = argc > 0 ? strrchr(argv[0], '/') : NULL;
    const char *self = slash ? slash + 1 : argc > 0 ? argv[0] : "ingot";

    hold_standard_descriptors();
    signal(SIGPIPE, SIG_IGN); /* a write then fails with EPIPE and the work ends in order */
    enum ig_err err = dispatch(self, argc, argv, &why);
    ig_progress_end();

    const int closed = ig_out_flush();
    if (closed == EPIPE) { /* whoever reads has seen enough: end as any filter does */
        signal(SIGPIPE, SIG_DFL);
        raise(SIGPIPE);
    }
    if (closed && err == IG_OK)
        err = ig_fail(&why, IG_IO, "standard output: cannot write: %s", strerror(closed));
    if (ig_stop_signal()) {
        if (err != IG_OK) ig_note("%s: interrupted: %s", self, why.text);
        return 128 + ig_stop_signal();
    }
    if (err == IG_OK) return 0;
    ig_note("%s: %s", self, why.text);
    if (err == IG_USAGE)
        ig_note("%s %s%s--help says what can be given", self, chosen ? chosen->name : "",
                chosen ? " " : "");
    return ig_exit_code(err);
}
