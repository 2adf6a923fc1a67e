/* gemm=fast on the emulated unit: its products (fast.h) and its attention (flash.cu) within the
 * bounds that are stated there, against sums in double; attention's bits for other batches. */
#include "device_shape.h"
#undef FMT_O
#define FMT_O 1 /* attention's output as floats */

#include "emulate.h"
#include "bytes.h"

#include "emulate_run.h"
#include "cuda/step.cu"

#include <stdlib.h>

/* A block's tiles: panels of BF16, the last tile's not all there, and up to 128 rows of activations
 * in BF16. */
enum { MOST = 288, TILES = 2, PANELS = TILES * FAST_PANELS - 3, ROWS_HERE = PANELS * PR };
static uint16_t weights[PANELS][MOST / 2][PR][2];
static uint16_t x[FAST_TOKENS][MOST];
static float fast[FAST_TOKENS][ROWS_HERE];
static int cols, tokens;

static void fast_kernel(const struct ig_args args)
{
    IG_SHARED unsigned row[FAST_TOKENS];
    const struct ig_dmat m = { .p = (const unsigned char *)(const void *)weights,
                               .stride = (uint32_t)(cols * PR * 2) };
    const struct fast_rows rows = { x[0], row, cols, tokens };
    const struct fast g = fast_of(&m, 0, &rows, 0, TILES, PANELS);
    fast_tile y;
    fast_weights w;
    struct fast_at at;
    (void)args;
    for (int t = 0; t < tokens; t++) row[t] = (unsigned)(t * MOST / QB);
    fast_begin(w, &g, fast_lines(emu_shared), &at);
    for (int tile = 0; tile < g.tiles; tile++) {
        fast_sum(y, w, &g, fast_lines(emu_shared), &at);
        FAST_EACH(tokens, tile * FAST_PANELS, PANELS, {
            fast[token][r] = v.x;
            fast[token][r + 1] = v.y;
        })
    }
}

static double weight(int row, int col)
{
    const uint16_t *all = (const uint16_t *)(const void *)weights;
    return (double)ig_bits(
        (unsigned)
            all[(size_t)(row / PR * cols + col / 2 * 2) * PR + (size_t)(row % PR * 2 + col % 2)]
        << 16);
}
static double active(int t, int c) { return (double)ig_bits((unsigned)x[t][c] << 16); }

/* Largest distance from the exact sum in units of what the additions are allowed. */
static double fast_error(void)
{
    double worst = 0;
    for (int t = 0; t < tokens; t++) {
        for (int r = 0; r < ROWS_HERE; r++) {
            double sum = 0, size = 0;
            for (int c = 0; c < cols; c++) {
                sum += weight(r, c) * active(t, c);
                size += fabs(weight(r, c) * active(t, c));
            }
            const double off = fabs((double)fast[t][r] - sum) / (size * ldexp(cols / 16, -22));
            if (!(off <= worst)) worst = off;
        }
    }
    return worst;
}

static float uniform(void) { return (float)(rand() % 200001 - 100000) / 100000.0f; }

static void check_fast(int c, int n)
{
    struct ig_args args;
    memset(&args, 0, sizeof args);
    cols = c;
    tokens = n;
    uint16_t *all = (uint16_t *)(void *)weights;
    for (int i = 0; i < ROWS_HERE * c; i++) all[i] = (uint16_t)ig_to_bf16(1.4f * uniform(), 0.0f);
    for (int i = 0; i < FAST_TOKENS * MOST; i++)
        x[i / MOST][i % MOST] = (uint16_t)ig_to_bf16(3.0f * uniform(), 0.0f);
    memset(fast, 0xff, sizeof fast);
    memset(emu_shared, 0xff, IG_FAST_BYTES); /* NaN, which nothing may read */
    emu_launch(fast_kernel, &args, (struct emu_index){ 1, 1, 1 }, IG_FAST_THREADS);
    assert_true(fast_error() < 1.0);
}

/* Whole stages, half a stage, less than one, more than the ring has; all rows, more than half,
 * half, one. */
static void test_products(void **state)
{
    (void)state;
    srand(2);
    check_fast(128, 128);
    check_fast(288, 70);
    check_fast(96, 64);
    check_fast(32, 1);
}

/* Attention of `n` rows at positions from `at` on, whose cache has K and V up to the last of them
 * and NaN behind. */
enum { POSITIONS = 256, HEADS = N_HEAD, KV_HEADS = N_HEAD_KV, DIM = HEAD_DIM, MOST_ROWS = 150 };
static float q[MOST_ROWS][HEADS][DIM], out[MOST_ROWS][HEADS][DIM], sinks[HEADS],
    rope[POSITIONS][DIM / 2][2];
static uint16_t kv[POSITIONS / KB][KV_HEADS][2][KB * DIM];
static int32_t pos[MOST_ROWS], seq[MOST_ROWS];

static void fill_attention(int n, int at)
{
    for (int i = 0; i < n * HEADS * DIM; i++) (&q[0][0][0])[i] = 3.0f * uniform();
    for (int i = 0; i < POSITIONS * DIM / 2; i++) {
        rope[i / (DIM / 2)][i % (DIM / 2)][0] = 1.0f; /* nothing turns */
        rope[i / (DIM / 2)][i % (DIM / 2)][1] = 0.0f;
    }
    for (int i = 0; i < HEADS; i++) sinks[i] = uniform();
    for (int p = 0; p < POSITIONS; p++)
        for (int i = 0; i < KV_HEADS * DIM; i++) {
            uint16_t(*const block)[KB * DIM] = kv[p / KB][i / DIM];
            const int unwritten = p >= at + n;
            block[0][i % DIM * KB + p % KB] = unwritten ? 0x7e00 : ig_to_half(2.0f * uniform());
            block[1][p % KB * DIM + i % DIM] = unwritten ? 0x7e00 : ig_to_half(uniform());
        }
    for (int i = 0; i < n; i++) pos[i] = at + i;
}

static void run_attention(int first, int n, int window, int with_sinks)
{
    const struct ig_args a = { .n = n,
                               .q = q[first][0],
                               .ao = out[first][0],
                               .rope = rope[0][0],
                               .window = window,
                               .kv = (unsigned char *)kv,
                               .sinks = with_sinks ? sinks : NULL,
                               .row = { .pos = pos + first, .seq = seq, .turn = pos + first },
                               .mo = { .fmt = IG_F32 } };
    memset(emu_shared, 0xff, IG_FLASH_BYTES(DIM));
    emu_launch(
        ig_flash_rows8, &a,
        (struct emu_index){ HEADS / FLASH_HEADS, (unsigned)((n + FLASH_ROWS - 1) / FLASH_ROWS), 1 },
        FLASH_THREADS);
}

/* Distance of a row's head from sums in double, in units of what is allowed. */
static double attention_error(int row, int head, int window, int with_sinks)
{
    const int from = window && pos[row] + 1 > window ? pos[row] + 1 - window : 0, to = pos[row] + 1;
    double score[POSITIONS], most = with_sinks ? (double)sinks[head] : -1e300, reach = 0, l = 0,
                             worst = 0;
    for (int p = from; p < to; p++) {
        const uint16_t *k = kv[p / KB][head / GROUP][0];
        double sum = 0, size = 0;
        for (int d = 0; d < DIM; d++) {
            const double product =
                (double)q[row][head][d] * (double)ig_half(k[d * KB + p % KB]) * (double)ATTN_SCALE;
            sum += product;
            size += fabs(product);
        }
        score[p] = sum;
        most = sum > most ? sum : most;
        reach = size > reach ? size : reach;
    }
    if (with_sinks) l = exp((double)sinks[head] - most);
    for (int p = from; p < to; p++) l += exp(score[p] - most);
    for (int d = 0; d < DIM; d++) {
        double o = 0, size = 0;
        for (int p = from; p < to; p++) {
            const double v = (double)ig_half(kv[p / KB][head / GROUP][1][p % KB * DIM + d]);
            o += exp(score[p] - most) * v / l;
            size += exp(score[p] - most) * fabs(v) / l;
        }
        const double allowed = size * (exp(2 * reach * ldexp(1, -11)) * (1 + ldexp(1, -10)) - 1);
        const double off = fabs((double)out[row][head][d] - o) / allowed;
        if (!(off <= worst)) worst = off;
    }
    return worst;
}

static void check_attention(int n, int at, int window, int with_sinks)
{
    double worst = 0;
    memset(out, 0xff, sizeof out);
    fill_attention(n, at);
    run_attention(0, n, window, with_sinks);
    for (int row = 0; row < n; row++)
        for (int head = 0; head < HEADS; head++) {
            const double off = attention_error(row, head, window, with_sinks);
            if (!(off <= worst)) worst = off;
        }
    assert_true(worst < 1.0);
    assert_true(worst > 0.01); /* rounded, so not the exact sums */
    for (int row = n; row < MOST_ROWS; row++)
        assert_true(out[row][0][0] != out[row][0][0]); /* left alone */
}

/* From the start and further on, tiles that are full and not; a window over some blocks; sinks. */
static void test_attention(void **state)
{
    (void)state;
    srand(3);
    check_attention(64, 0, 0, 0);
    check_attention(70, 100, 0, 1);
    check_attention(150, 37, 50, 0);
    check_attention(33, 200, 130, 1);
}

/* A row's bits are its own: the batch split elsewhere gives the same. */
static void test_attention_splits(void **state)
{
    static float whole[MOST_ROWS][HEADS][DIM];
    (void)state;
    srand(4);
    fill_attention(100, 90);
    run_attention(0, 100, 77, 1);
    memcpy(whole, out, sizeof whole);
    memset(out, 0xff, sizeof out);
    run_attention(0, 41, 77, 1);
    run_attention(41, 59, 77, 1);
    assert_memory_equal(out, whole, sizeof(float) * 100 * HEADS * DIM);
}

/* Ties go to the even one; behind the largest there is infinity. */
static void test_halves(void **state)
{
    (void)state;
    assert_int_equal(ig_to_halves(1.0f + 0x1p-11f, 1.0f + 0x1.8p-10f), 0x3c023c00u);
    assert_int_equal(ig_to_halves(65520.0f, -0.0f), 0x80007c00u);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_products),
                                        cmocka_unit_test(test_attention),
                                        cmocka_unit_test(test_attention_splits),
                                        cmocka_unit_test(test_halves) };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests_name("fast", tests, NULL, NULL);
}
