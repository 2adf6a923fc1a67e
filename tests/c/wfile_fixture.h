/* wfile_fixture.h -- a small weights file for tests. */
#ifndef IG_TEST_WFILE_FIXTURE_H
#define IG_TEST_WFILE_FIXTURE_H

#include "bytes.h"
#include "wfile_write.h"

const char ig_layout_text[] = "this test";

enum { DATA = 10000, BLOCK0 = 6000, LAYOUT = 77 };

static struct ig_why why;
static unsigned char data[DATA];
static const char tokenizer[] = "not a tokenizer, but bytes";

static struct ig_wblock blocks[] = { { .off = 0, .bytes = BLOCK0 },
                                     { .off = BLOCK0, .bytes = DATA - BLOCK0 } };

static struct ig_wspec spec_of(const char *out)
{
    for (int i = 0; i < DATA; i++) data[i] = (unsigned char)(i * 7 + i / 256);
    return (struct ig_wspec){
        .out = out,
        .model_id = "a-model",
        .layout_text = "f32 everywhere",
        .layout_hash = LAYOUT,
        .tokenizer = tokenizer,
        .tokenizer_bytes = sizeof tokenizer,
        .data_bytes = DATA,
        .n_block = 2,
        .block = blocks,
    };
}

static void write_to(const char *out, int embed)
{
    struct ig_wspec spec = spec_of(out);
    struct ig_wwriter w;

    spec.embed = embed;
    assert_int_equal(ig_wwrite_open(&w, &spec, &why), IG_OK);
    /* pieces that straddle the blocks' border */
    for (int at = 0; at < DATA; at += 999)
        assert_int_equal(
            ig_wwrite_data(&w, data + at, (uint64_t)(DATA - at < 999 ? DATA - at : 999), &why),
            IG_OK);
    assert_int_equal(ig_wwrite_finish(&w, &why), IG_OK);
}

#endif
