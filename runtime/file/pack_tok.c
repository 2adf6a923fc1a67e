/* pack_tok.c -- the tokenizer section: the checkpoint's tokenizer, compiled.
 *
 * A checkpoint without a tokenizer can still be packed; commands that take ids
 * work with it.  A tokenizer that is there and wrong is an error.
 */
#include "pack_int.h"
#include "file.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "config.h"

enum { JSON_MOST = 1 << 28 };

static void warn_none(const struct ig_pack_src *s, const char *what, void (*warn)(const char *))
{
    struct ig_why line;
    ig_fail(&line, IG_OK,
            "%s: want %s, got none: packing without a tokenizer; text will not work, ids will",
            s->path, what);
    if (warn) warn(line.text);
}

struct json_file {
    char *text; /* NULL: no such file */
    size_t bytes;
};

static enum ig_err slurp_if_there(const char *folder, const char *name, struct json_file *f,
                                  struct ig_why *why)
{
    struct stat st;
    enum ig_err err = IG_OK;

    char *path = ig_file_join(folder, name);
    if (!path) return ig_fail(why, IG_NO_MEM, "%s: no memory", name);
    if (stat(path, &st) == 0) err = ig_file_slurp(path, JSON_MOST, &f->text, &f->bytes, why);
    free(path);
    return err;
}

static enum ig_err compile_hf(const struct ig_pack_src *s, const struct ig_pack_job *job,
                              const char *folder, void **blob, size_t *bytes, struct ig_why *why)
{
    struct json_file tok = { 0 }, config = { 0 }, gen = { 0 };

    enum ig_err err = slurp_if_there(folder, "tokenizer.json", &tok, why);
    if (!err) err = slurp_if_there(folder, "tokenizer_config.json", &config, why);
    if (!err) err = slurp_if_there(folder, "generation_config.json", &gen, why);
    if (!err && !tok.text) {
        warn_none(s, "tokenizer.json beside it", job->warn);
    } else if (!err) {
        char *name = ig_file_join(folder, "tokenizer.json");
        err = ig_tok_compile_hf(blob, bytes, name ? name : "tokenizer.json", tok.text, tok.bytes,
                                config.text, config.bytes, gen.text, gen.bytes, why);
        free(name);
    }
    free(tok.text);
    free(config.text);
    free(gen.text);
    return err;
}

static enum ig_err from_hf(const struct ig_pack_src *s, const struct ig_pack_job *job, void **blob,
                           size_t *bytes, struct ig_why *why)
{
    char *folder = ig_pack_folder(s);
    if (!folder) return ig_fail(why, IG_NO_MEM, "%s: no memory", s->path);
    const enum ig_err err = compile_hf(s, job, folder, blob, bytes, why);
    free(folder);
    return err;
}

static enum ig_err from_gguf(struct ig_pack_src *s, const struct ig_pack_job *job, void **blob,
                             size_t *bytes, struct ig_why *why)
{
    struct ig_tok_gguf view;

    const enum ig_err err = ig_gguf_tokenizer(&s->g, &view, why);
    if (err) return err;
    if (view.model) return ig_tok_compile_gguf(blob, bytes, s->path, &view, why);
    warn_none(s, "tokenizer.ggml.model in it", job->warn);
    return IG_OK;
}

static enum ig_err compile(struct ig_pack_src *s, const struct ig_pack_job *job, void **blob,
                           size_t *bytes, struct ig_why *why)
{
    switch (s->kind) {
    case IG_PACK_SYNTH:
        break;
    case IG_PACK_HF:
        return from_hf(s, job, blob, bytes, why);
    case IG_PACK_GGUF:
        return from_gguf(s, job, blob, bytes, why);
    case IG_PACK_WFILE:
        return ig_wfile_tokenizer(&s->w, blob, bytes, why);
    }
    return IG_OK;
}

/* From the file that the caller named for it, which must have one. */
static enum ig_err compile_other(const struct ig_pack_job *job, void **blob, size_t *bytes,
                                 struct ig_why *why)
{
    struct ig_pack_src s;
    struct ig_pack_job quiet = *job;

    quiet.warn = NULL;
    enum ig_err err = ig_pack_src_open_tokenizer(&s, job->tokenizer, why);
    if (err) return err;
    err = compile(&s, &quiet, blob, bytes, why);
    if (!err && !*bytes)
        err = ig_fail(why, IG_BAD_FILE, "%s: want a tokenizer, got none", job->tokenizer);
    ig_pack_src_close(&s);
    return err;
}

enum ig_err ig_pack_tokenizer(struct ig_pack_src *s, const struct ig_pack_job *job, void **blob,
                              size_t *bytes, struct ig_why *why)
{
    struct ig_tokenizer *tok;

    *blob = NULL;
    *bytes = 0;
    enum ig_err err =
        job->tokenizer ? compile_other(job, blob, bytes, why) : compile(s, job, blob, bytes, why);
    if (!err && !*bytes) return IG_OK;

    /* An id past the model's vocabulary shall stop the packing, not the first run. */
    if (!err) err = ig_tok_load(&tok, *blob, *bytes, IG_N_VOCAB, why);
    if (!err) ig_tok_free(tok);
    if (err) {
        free(*blob);
        *blob = NULL;
    }
    return err;
}
