/* The emulated matrix unit against plain products, with fragments laid out element by element as
 * the PTX manual writes them: mma.m16n8k32 and m16n8k16 of int8 (fast_test.c has those of 16 bits).
 */
#include "device_shape.h"

#include "emulate.h"
#include "bytes.h"

#include "emulate_run.h"
#include "cuda/mma.h"

#include <stdlib.h>

enum { WARPS = 2, LANES = 32 };

static int8_t a[WARPS][16][32], b[WARPS][32][8];
static int depth, start;
static int got[WARPS][16][8];

/* Element i of the fragment of A: its row and column. */
static int8_t a_element(int warp, int lane, int i)
{
    const int row = (i < 4 || (i >= 8 && i < 12)) ? lane / 4 : lane / 4 + 8;
    return a[warp][row][lane % 4 * 4 + (i & 3) + (i < 8 ? 0 : 16)];
}
static int8_t b_element(int warp, int lane, int i)
{
    return b[warp][lane % 4 * 4 + (i & 3) + (i < 4 ? 0 : 16)][lane / 4];
}

static void kernel(const struct ig_args args)
{
    const int warp = (int)threadIdx.x / LANES, lane = (int)threadIdx.x % LANES;
    unsigned fa[4] = { 0 }, fb[2] = { 0 };
    int d[4];
    (void)args;
    for (int i = 0; i < depth / 2; i++)
        fa[i / 4] |= (unsigned)(uint8_t)a_element(warp, lane, i) << 8 * (i % 4);
    for (int i = 0; i < depth / 4; i++)
        fb[i / 4] |= (unsigned)(uint8_t)b_element(warp, lane, i) << 8 * (i % 4);
    if (depth == 32)
        ig_mma32(d, fa, fb, start);
    else
        ig_mma16(d, fa, fb[0], start);
    for (int i = 0; i < 4; i++)
        got[warp][i < 2 ? lane / 4 : lane / 4 + 8][lane % 4 * 2 + (i & 1)] = d[i];
}

static void check(int k)
{
    struct ig_args args;
    memset(&args, 0, sizeof args);
    depth = k;
    start = rand() % 2000 - 1000;
    for (int w = 0; w < WARPS; w++) {
        for (int i = 0; i < 16 * 32; i++) a[w][i / 32][i % 32] = (int8_t)(rand() % 256 - 128);
        for (int i = 0; i < 32 * 8; i++) b[w][i / 8][i % 8] = (int8_t)(rand() % 256 - 128);
    }
    emu_launch(kernel, &args, (struct emu_index){ 1, 1, 1 }, WARPS * LANES);
    for (int w = 0; w < WARPS; w++) {
        for (int r = 0; r < 16; r++) {
            for (int c = 0; c < 8; c++) {
                int want = start;
                for (int i = 0; i < depth; i++) want += a[w][r][i] * b[w][i][c];
                assert_int_equal(got[w][r][c], want);
            }
        }
    }
}

static void test_products(void **state)
{
    (void)state;
    srand(1);
    for (int i = 0; i < 20; i++) {
        check(32);
        check(16);
    }
}

/* Ties go to the even one, NaN stays NaN, infinity and what rounds to it are infinite. */
static void test_rounding(void **state)
{
    (void)state;
    assert_int_equal(ig_to_bf16(ig_bits(0x3f808000u), ig_bits(0x3f818000u)), 0x3f823f80u);
    assert_int_equal(ig_to_bf16(ig_bits(0x3f808001u), -1.0f), 0xbf803f81u);
    assert_int_equal(ig_to_bf16(INFINITY, ig_bits(0x7f7fffffu)), 0x7f807f80u);
    assert_int_equal(ig_to_bf16(ig_bits(0xffc00000u), 0.0f), 0x00007fffu);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_products),
                                        cmocka_unit_test(test_rounding) };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests_name("mma", tests, NULL, NULL);
}
