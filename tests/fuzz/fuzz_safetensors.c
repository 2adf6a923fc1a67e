/* Any bytes as a .safetensors file: an error, or tensors that lie inside it. */
#include "safetensors.h"
#include "fuzz_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct ig_ckpt c;
    struct ig_why why;

    if (ig_safetensors_open(&c, fuzz_file(data, bytes), &why)) return 0;
    uint8_t *got = malloc(4 * bytes + 1); /* FP8 is read as f32 */
    for (size_t i = 0; i < c.n_tensor; i++) {
        const struct ig_tensor *t = &c.tensor[i];
        if (t->bytes > 4 * bytes || ig_ckpt_read(&c, t, got, 0, t->bytes, &why)) abort();
        if (ig_ckpt_find(&c, t->name) != t) abort();
    }
    free(got);
    ig_ckpt_close(&c);
    return 0;
}

size_t fuzz_seed(int i, uint8_t *out, size_t room)
{
    static const char *const header[] = {
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]},"
        "\"b\":{\"dtype\":\"BF16\",\"shape\":[4],\"data_offsets\":[24,32]}}",
        "{\"__metadata__\":{\"format\":\"pt\"},"
        "\"x\":{\"dtype\":\"F16\",\"shape\":[0,7],\"data_offsets\":[0,0]},"
        "\"y\":{\"dtype\":\"I64\",\"shape\":[],\"data_offsets\":[0,8]},"
        "\"z\":{\"dtype\":\"U8\",\"shape\":[1,1,24],\"data_offsets\":[8,32]}}   ",
        "{\"w\":{\"dtype\":\"F8_E4M3\",\"shape\":[4,7],\"data_offsets\":[0,28]},"
        "\"w_scale_inv\":{\"dtype\":\"F32\",\"shape\":[1,1],\"data_offsets\":[28,32]}}",
        "{\"m_blocks\":{\"dtype\":\"U8\",\"shape\":[1,1,1,16],\"data_offsets\":[0,16]},"
        "\"m_scales\":{\"dtype\":\"U8\",\"shape\":[1,1,1],\"data_offsets\":[16,17]},"
        "\"n\":{\"dtype\":\"U8\",\"shape\":[15],\"data_offsets\":[17,32]}}",
    };
    struct fuzz_out o = { out, 0, room };

    if (i >= 4) return 0;
    fuzz_int(&o, strlen(header[i]), 8);
    fuzz_text(&o, header[i]);
    for (int k = 0; k < 32; k++) fuzz_int(&o, (uint64_t)k, 1);
    return o.n;
}
