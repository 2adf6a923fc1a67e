/* Any bytes as a .gguf file: an error, or tensors and a tokenizer that lie inside it. */
#include "gguf.h"
#include "fuzz_file.h"

static unsigned long sum; /* so that every byte is really read */

static void touch(const char *p, size_t n)
{
    for (size_t i = 0; i < n; i++) sum += (unsigned char)p[i];
}

static void touch_tokenizer(const struct ig_tok_gguf *v)
{
    for (uint32_t i = 0; i < v->n_vocab; i++) {
        touch(v->token[i], v->token_bytes[i]);
        if (v->type) sum += (unsigned long)v->type[i];
        if (v->score) touch((const char *)&v->score[i], sizeof *v->score);
    }
    for (uint32_t i = 0; i < v->n_merge; i++) touch(v->merge[i], v->merge_bytes[i]);
    if (v->model) touch(v->model, strlen(v->model));
    if (v->pre) touch(v->pre, strlen(v->pre));
    if (v->chat_template) touch(v->chat_template, strlen(v->chat_template));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct ig_gguf g;
    struct ig_tok_gguf view;
    struct ig_why why;

    if (ig_gguf_open(&g, fuzz_file(data, bytes), &why)) return 0;
    uint8_t *got = malloc(bytes + 1);
    for (size_t i = 0; i < g.ckpt.n_tensor; i++) {
        const struct ig_tensor *t = &g.ckpt.tensor[i];
        if (t->bytes > bytes || ig_ckpt_read(&g.ckpt, t, got, 0, t->bytes, &why)) abort();
    }
    free(got);
    if (ig_gguf_tokenizer(&g, &view, &why) == IG_OK) touch_tokenizer(&view);
    ig_gguf_close(&g);
    return 0;
}

static void str(struct fuzz_out *o, const char *s)
{
    fuzz_int(o, strlen(s), 8);
    fuzz_text(o, s);
}

static void array(struct fuzz_out *o, const char *key, uint32_t elem, uint64_t n)
{
    str(o, key);
    fuzz_int(o, IG_GGUF_ARRAY, 4);
    fuzz_int(o, elem, 4);
    fuzz_int(o, n, 8);
}

static void info(struct fuzz_out *o, const char *name, uint64_t cols, uint64_t rows, uint32_t type,
                 uint64_t off)
{
    str(o, name);
    fuzz_int(o, 2, 4);
    fuzz_int(o, cols, 8);
    fuzz_int(o, rows, 8);
    fuzz_int(o, type, 4);
    fuzz_int(o, off, 8);
}

/* Seed 0 has tensors, seed 1 a tokenizer. */
size_t fuzz_seed(int i, uint8_t *out, size_t room)
{
    struct fuzz_out o = { out, 0, room };

    if (i >= 2) return 0;
    fuzz_text(&o, "GGUF");
    fuzz_int(&o, 3, 4);
    fuzz_int(&o, i == 0 ? 3 : 0, 8);
    fuzz_int(&o, i == 0 ? 1 : 6, 8);
    if (i == 0) {
        str(&o, "general.alignment");
        fuzz_int(&o, IG_GGUF_U32, 4);
        fuzz_int(&o, 32, 4);
        info(&o, "q", 32, 2, 8, 0);
        info(&o, "f", 3, 5, 0, 96);
        info(&o, "none", 0, 4, 1, 160);
        while (o.n % 32) fuzz_int(&o, 0, 1);
        for (int k = 0; k < 160; k++) fuzz_int(&o, (uint64_t)k, 1);
        return o.n;
    }
    str(&o, "tokenizer.ggml.model");
    fuzz_int(&o, IG_GGUF_STRING, 4);
    str(&o, "gpt2");
    array(&o, "tokenizer.ggml.tokens", IG_GGUF_STRING, 3);
    str(&o, "a"), str(&o, "b"), str(&o, "ab");
    array(&o, "tokenizer.ggml.token_type", IG_GGUF_I32, 3);
    fuzz_int(&o, 1, 4), fuzz_int(&o, 1, 4), fuzz_int(&o, 1, 4);
    array(&o, "tokenizer.ggml.scores", IG_GGUF_F32, 3);
    fuzz_int(&o, 0, 4), fuzz_int(&o, 0, 4), fuzz_int(&o, 0, 4);
    array(&o, "tokenizer.ggml.merges", IG_GGUF_STRING, 1);
    str(&o, "a b");
    str(&o, "tokenizer.ggml.bos_token_id");
    fuzz_int(&o, IG_GGUF_U32, 4);
    fuzz_int(&o, 1, 4);
    return o.n;
}
