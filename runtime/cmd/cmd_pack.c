/* cmd_pack.c -- checkpoint to weights file, or to a program with its weights: pack. */
#include "cmd.h"

#include "out.h"
#include "pack.h"
#include "progress.h"
#include "stop.h"

static void warn(const char *line)
{
    ig_progress_end();
    ig_note("warning: %s", line);
}

enum ig_err ig_cmd_pack(const struct ig_opts *o, struct ig_why *why)
{
    if (!o->out && !o->embed)
        return ig_fail(why, IG_USAGE, "want -o FILE or --embed FILE, got neither");
    if (o->operand && o->synth.given)
        return ig_fail(why, IG_USAGE, "want SRC or --synth, got both");
    if (!o->operand && !o->synth.given)
        return ig_fail(why, IG_USAGE,
                       "want SRC, a Hugging Face folder, .safetensors, .gguf or .ingot file, got "
                       "nothing");
    struct ig_pack_job job = { .src = o->operand,
                               .tokenizer = o->tokenizer,
                               .seed = o->synth.value,
                               .out = o->out,
                               .cancel = ig_stop_flag(),
                               .progress = ig_progress_bytes,
                               .warn = warn };
    enum ig_err err = IG_OK;
    ig_stop_catch();
    if (o->out) {
        job.next = o->embed;
        err = ig_pack(&job, why);
        ig_progress_end();
        if (err == IG_OK) ig_note_written(job.out, "");
        job.src = o->out; /* the conversion is done; an executable needs only a copy */
        job.tokenizer = NULL;
    }
    if (err == IG_OK && o->embed) {
        job.out = o->embed;
        job.next = NULL;
        job.embed = 1;
        err = ig_pack(&job, why);
        ig_progress_end();
        if (err == IG_OK) ig_note_written(job.out, "; needs no other file");
    }
    return err;
}
