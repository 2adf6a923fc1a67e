/* cmd.h -- the commands.  Each returns an error and its reason; main.c prints it. */
#ifndef IG_CMD_H
#define IG_CMD_H

#include "args.h"

enum ig_err ig_cmd_run(const struct ig_opts *o, struct ig_why *why);
enum ig_err ig_cmd_chat(const struct ig_opts *o, struct ig_why *why);
enum ig_err ig_cmd_pack(const struct ig_opts *o, struct ig_why *why);
enum ig_err ig_cmd_eval(const struct ig_opts *o, struct ig_why *why);
enum ig_err ig_cmd_bench(const struct ig_opts *o, struct ig_why *why);
enum ig_err ig_cmd_tokenize(const struct ig_opts *o, struct ig_why *why);
enum ig_err ig_cmd_detokenize(const struct ig_opts *o, struct ig_why *why);
enum ig_err ig_cmd_plan(const struct ig_opts *o, struct ig_why *why);
enum ig_err ig_cmd_trace(const struct ig_opts *o, struct ig_why *why);
enum ig_err ig_cmd_info(const struct ig_opts *o, struct ig_why *why);

#endif
