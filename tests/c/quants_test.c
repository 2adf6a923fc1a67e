/* quants_test.c -- block formats against the values another implementation gives them
 * (tests/data/quants.bin, made by tools/quant_vectors.py), and the quantisers' error.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "kernels_data.h"

enum { COLS = 512, MOST = COLS * 2 };

struct record {
    char name[9];
    uint32_t cols, bytes, quantised_bytes;
    uint8_t block[MOST], quantised[MOST];
    float value[COLS], input[COLS];
};

static void read_record(FILE *f, struct record *r)
{
    memset(r, 0, sizeof *r);
    assert_int_equal(fread(r->name, 8, 1, f), 1);
    assert_int_equal(fread(&r->cols, 12, 1, f), 1);
    assert_int_equal(r->cols, COLS);
    assert_true(r->bytes <= MOST && r->quantised_bytes <= MOST);
    assert_int_equal(fread(r->block, r->bytes, 1, f), 1);
    assert_int_equal(fread(r->value, sizeof r->value, 1, f), 1);
    if (!r->quantised_bytes) return;
    assert_int_equal(fread(r->input, sizeof r->input, 1, f), 1);
    assert_int_equal(fread(r->quantised, r->quantised_bytes, 1, f), 1);
}

static void check_values(enum ig_fmt fmt, const struct record *r)
{
    float got[COLS];
    assert_int_equal(ig_fmt_row_bytes(fmt, COLS), r->bytes);
    ig_row_to_f32(fmt, got, r->block, COLS);
    if (memcmp(got, r->value, sizeof got) != 0) fail_msg("%s: values of a row", r->name);

    /* the same as each row of a panel; the other rows are zero weights */
    const size_t size = ig_panel_bytes(fmt, COLS);
    assert_int_equal(size, 16 * r->bytes);
    uint8_t *panel = malloc(size);
    for (int at = 0; at < IG_PANEL_ROWS; at++) {
        const void *rows[IG_PANEL_ROWS];
        for (int i = 0; i <= at; i++) rows[i] = r->block;
        memset(panel, 0xa5, size);
        ig_panel_pack(fmt, panel, rows, at + 1, COLS);
        ig_panel_row(fmt, got, panel, at, COLS);
        if (memcmp(got, r->value, sizeof got) != 0) fail_msg("%s: panel row %d", r->name, at);
    }
    free(panel);
}

static void check_codes(enum ig_fmt fmt, const struct record *r)
{
    const struct ig_qfmt *f = ig_qfmt(fmt);
    for (uint32_t at = 0; at < r->bytes; at += f->bytes) {
        struct ig_qcodes c = { .m = 0 };
        uint8_t back[256];
        ig_qcodes_from_block(fmt, &c, r->block + at);
        ig_qcodes_to_block(fmt, back, &c);
        assert_memory_equal(back, r->block + at, f->bytes);
    }
}

static void blocks_mean_what_the_reference_says(void **state)
{
    (void)state;
    FILE *f = fopen("tests/data/quants.bin", "rb");
    assert_non_null(f);
    struct record *r = malloc(sizeof *r);
    for (int fmt = IG_Q8_0; fmt < IG_N_FMT; fmt++) {
        read_record(f, r);
        assert_string_equal(r->name, ig_fmt_name((enum ig_fmt)fmt));
        check_values((enum ig_fmt)fmt, r);
        check_codes((enum ig_fmt)fmt, r);
        if (!r->quantised_bytes) continue;
        uint8_t got[MOST];
        ig_row_from_f32((enum ig_fmt)fmt, got, r->input, COLS);
        if (memcmp(got, r->quantised, r->quantised_bytes) != 0) fail_msg("%s: quantised", r->name);
    }
    assert_int_equal(fgetc(f), EOF);
    free(r);
    fclose(f);
}

/* Near normal values: a sum of twelve uniform ones. */
static float normal(void)
{
    float s = 0.0f;
    for (int i = 0; i < 12; i++) s += data_unit();
    return s * 0.5f;
}

/* Root mean square error over that of the values, for normal ones. */
static void quantisers_lose_little(void **state)
{
    (void)state;
    static const double most[IG_N_FMT] = {
        [IG_Q8_0] = 0.006,   [IG_Q4_0] = 0.091,   [IG_Q4_K] = 0.076, [IG_Q6_K] = 0.019,
        [IG_Q5_K] = 0.038,   [IG_MXFP4] = 0.125,  [IG_Q4_1] = 0.083, [IG_Q5_0] = 0.045,
        [IG_Q5_1] = 0.040,   [IG_IQ4_NL] = 0.081, [IG_Q3_K] = 0.162, [IG_Q2_K] = 0.285,
        [IG_IQ4_XS] = 0.081,
    };
    enum { N = 256 * 64 };
    float *x = malloc(N * sizeof *x), *y = malloc(N * sizeof *y);
    uint8_t *row = malloc(2 * N);
    for (int i = 0; i < N; i++) x[i] = normal();
    for (int fmt = IG_Q8_0; fmt < IG_N_FMT; fmt++) {
        double error = 0, size = 0;
        ig_row_from_f32((enum ig_fmt)fmt, row, x, N);
        ig_row_to_f32((enum ig_fmt)fmt, y, row, N);
        for (int i = 0; i < N; i++) {
            error += ((double)y[i] - (double)x[i]) * ((double)y[i] - (double)x[i]);
            size += (double)x[i] * (double)x[i];
        }
        const double rms = sqrt(error / size);
        print_message("# %s: %.4f\n", ig_fmt_name((enum ig_fmt)fmt), rms);
        assert_true(rms <= most[fmt]);
    }
    free(x);
    free(y);
    free(row);
}

/* Zeros stay zeros; nothing finite becomes infinite or NaN. */
static void quantisers_survive_extremes(void **state)
{
    (void)state;
    float x[256], y[256];
    uint8_t row[512];
    for (int fmt = IG_Q8_0; fmt < IG_N_FMT; fmt++) {
        const float most = fminf(ig_fmt_most((enum ig_fmt)fmt), 0x1p100f);
        for (int kind = 0; kind < 6; kind++) {
            for (int i = 0; i < 256; i++) {
                const float sign = data_u32() % 2 ? 1.0f : -1.0f;
                x[i] = kind == 0   ? 0.0f
                       : kind == 1 ? sign * 0x1p-149f
                       : kind == 2 ? sign * most
                       : kind == 3 ? most
                       : kind == 4 ? -most
                                   : (i % 37 == 0 ? most : sign * 0x1p-100f);
            }
            ig_row_from_f32((enum ig_fmt)fmt, row, x, 256);
            ig_row_to_f32((enum ig_fmt)fmt, y, row, 256);
            for (int i = 0; i < 256; i++) {
                if (!isfinite(y[i]))
                    fail_msg("%s: kind %d gives %g", ig_fmt_name((enum ig_fmt)fmt), kind,
                             (double)y[i]);
                if (kind == 0) assert_true(y[i] == 0.0f);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_mean_what_the_reference_says),
        cmocka_unit_test(quantisers_lose_little),
        cmocka_unit_test(quantisers_survive_extremes),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests_name("quants", tests, NULL, NULL);
}
