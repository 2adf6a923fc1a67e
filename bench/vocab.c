/* vocab.c -- CPU time that the runtime's reader takes for a GGUF file's metadata: bench/vocab.sh.
 */
#include <stdio.h>
#include <time.h>

#include "gguf.h"

int main(int argc, char **argv)
{
    struct ig_why why = { "" };
    struct ig_tok_gguf view;
    struct ig_gguf g;

    if (argc != 2) return fputs("usage: vocab FILE.gguf\n", stderr), 2;
    const clock_t start = clock();
    enum ig_err err = ig_gguf_open(&g, argv[1], &why);
    if (!err) err = ig_gguf_tokenizer(&g, &view, &why);
    if (err) return fprintf(stderr, "%s\n", why.text), 1;
    printf("runtime\t%u tokens\t%.3f s CPU\n", view.n_vocab,
           (double)(clock() - start) / CLOCKS_PER_SEC);
    ig_gguf_close(&g);
    return 0;
}
