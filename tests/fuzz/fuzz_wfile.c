/* Any bytes as a weights file: an error, or sections and blocks that lie inside it.
 *
 * The input has no padding: a flag, the header, 40 bytes of tokenizer, 2 blocks,
 * 160 bytes of data.  They are spread to the places where an honest file has
 * them; an input that is shorter or longer makes a file that is.  Checksums would
 * stop nearly every mutant at the door, so the flag says to make them right: what
 * is tested is what stands behind them.
 */
#include "wfile.h"
#include "fuzz_file.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

const char ig_layout_text[] = "fuzz";

static void mend(uint8_t *p, size_t n)
{
    struct ig_wheader h;

    if (n < sizeof h) return;
    memcpy(&h, p, sizeof h);
    if (h.blocks.off <= n && h.blocks.bytes <= n - h.blocks.off)
        h.blocks.hash = XXH3_64bits(p + h.blocks.off, (size_t)h.blocks.bytes);
    h.header_hash = XXH3_64bits(&h, offsetof(struct ig_wheader, header_hash));
    memcpy(p, &h, sizeof h);
}

enum { TOKENIZER = 40, BLOCKS = 2 * sizeof(struct ig_wblock), DATA = 160, FILE_BYTES = 4 * 4096 };

static const size_t piece[] = { sizeof(struct ig_wheader), TOKENIZER, BLOCKS, DATA };

/* malloc'ed; *bytes is the file's size. */
static uint8_t *spread(const uint8_t *data, size_t n, size_t *bytes)
{
    const size_t whole = sizeof(struct ig_wheader) + TOKENIZER + BLOCKS + DATA;
    uint8_t *file = calloc(1, FILE_BYTES + n);

    if (!file) abort();
    *bytes = n > whole ? FILE_BYTES + n - whole : FILE_BYTES - (whole - n) % FILE_BYTES;
    for (size_t i = 0; i < 4; i++) {
        const size_t take = n < piece[i] ? n : piece[i];
        memcpy(file + i * 4096, data, take);
        data += take;
        n -= take;
    }
    return file;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct ig_wfile f;
    struct ig_why why;
    void *blob;
    size_t size, n;

    if (bytes == 0) return 0;
    uint8_t *file = spread(data + 1, bytes - 1, &size);
    if (data[0] & 1) mend(file, size);
    const enum ig_err err = ig_wfile_open(&f, fuzz_file(file, size), 1, &why);
    free(file);
    if (err) return 0;
    if (ig_wfile_tokenizer(&f, &blob, &n, &why) == IG_OK) free(blob);
    uint8_t *got = malloc(size);
    for (uint32_t i = 0; i < f.h.n_block; i++) {
        const struct ig_wblock *b = &f.blocks[i];
        if (b->bytes > size || ig_wfile_read(&f, got, b->off, b->bytes, &why)) abort();
        (void)ig_wfile_check(&f, i, got, &why);
    }
    free(got);
    ig_wfile_close(&f);
    return 0;
}

/* A whole small file, to be mended and not. */
size_t fuzz_seed(int i, uint8_t *out, size_t room)
{
    struct ig_wblock block[] = { { .off = 0, .bytes = 100 }, { .off = 100, .bytes = DATA - 100 } };
    uint8_t tokenizer[TOKENIZER], data[DATA];
    struct ig_wheader h = { .header_bytes = sizeof h,
                            .n_block = 2,
                            .layout_hash = 1,
                            .model_id = "seed",
                            .layout_text = "fuzz",
                            .tokenizer = { .bytes = TOKENIZER },
                            .blocks = { .bytes = BLOCKS },
                            .data = { .bytes = DATA } };
    struct fuzz_out o = { out, 0, room };

    if (i >= 2 || !ig_wfile_place(&h)) return 0;
    memset(tokenizer, 't', sizeof tokenizer);
    memset(data, 'd', sizeof data);
    memcpy(h.magic, IG_WMAGIC, sizeof h.magic);
    h.tokenizer.hash = XXH3_64bits(tokenizer, sizeof tokenizer);
    for (int b = 0; b < 2; b++)
        block[b].hash = XXH3_64bits(data + block[b].off, (size_t)block[b].bytes);
    h.blocks.hash = XXH3_64bits(block, sizeof block);
    h.header_hash = XXH3_64bits(&h, offsetof(struct ig_wheader, header_hash));
    fuzz_int(&o, i == 0, 1);
    fuzz_put(&o, &h, sizeof h);
    fuzz_put(&o, tokenizer, sizeof tokenizer);
    fuzz_put(&o, block, sizeof block);
    fuzz_put(&o, data, sizeof data);
    return o.n;
}
