/* What a CPU lacks is named; nothing is said when it lacks nothing. */
#include "machine.h"
#include "kernels.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

static struct ig_why why;

static void test_enough(void **state)
{
    (void)state;
    assert_int_equal(ig_machine_check(0, 0, &why), IG_OK);
    assert_int_equal(ig_machine_check(IG_CPU_AVX2, IG_CPU_AVX2, &why), IG_OK);
    assert_int_equal(ig_machine_check(IG_CPU_AVX2, IG_CPU_AVX2 | IG_CPU_AVX512, &why), IG_OK);
}

static void test_lacking(void **state)
{
    (void)state;
    assert_int_equal(ig_machine_check(IG_CPU_AVX2 | IG_CPU_AVX512, IG_CPU_AVX2, &why), IG_NO_ISA);
    assert_int_equal(ig_exit_code(IG_NO_ISA), 3);
    assert_non_null(strstr(why.text, "needs a CPU with AVX-512"));
    assert_non_null(strstr(why.text, "this machine has: AVX2"));

    assert_int_equal(ig_machine_check(IG_CPU_NEON | IG_CPU_I8MM, IG_CPU_NEON, &why), IG_NO_ISA);
    assert_non_null(strstr(why.text, "needs a CPU with NEON's matrix products (i8mm)"));
    assert_non_null(strstr(why.text, "this machine has: NEON with dot products"));

    assert_int_equal(ig_machine_check(IG_CPU_AVX2 | IG_CPU_AVX512 | IG_CPU_AMX,
                                      IG_CPU_AVX2 | IG_CPU_AVX512, &why),
                     IG_NO_ISA);
    assert_non_null(strstr(why.text, "AMX (bf16, with"));
    assert_int_equal(ig_machine_check(IG_CPU_AVX2, 0, &why), IG_NO_ISA);
    assert_non_null(strstr(why.text, "needs a CPU with AVX2"));
    assert_non_null(strstr(why.text, "this machine has: none"));
}

/* A bit that this version has no name for is still shown. */
static void test_unnamed(void **state)
{
    (void)state;
    assert_int_equal(ig_machine_check(1u << 30, IG_CPU_AVX2, &why), IG_NO_ISA);
    assert_non_null(strstr(why.text, "0x40000000"));
}

static void test_text_is_cut_not_overrun(void **state)
{
    (void)state;
    char small[8];
    memset(small, 'x', sizeof small);
    ig_machine_isa(IG_CPU_AVX2 | IG_CPU_AVX512 | 1u << 30, small, sizeof small);
    assert_int_equal(strlen(small), sizeof small - 1);
}

static void test_memory_is_measured(void **state)
{
    (void)state;
    struct ig_membench b;
    assert_int_equal(ig_membench_open(&b, 2, &why), IG_OK);
    const uint64_t peak = ig_machine_peak();
    assert_true(peak >= b.bytes && peak < 4 * b.bytes);
    for (int threads = 1; threads <= 3; threads++) {
        const double bw = ig_membench_read(&b, threads);
        assert_true(bw > 1e7 && bw < 1e13);
    }
    ig_membench_close(&b);
    assert_null(b.words);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_enough),
        cmocka_unit_test(test_lacking),
        cmocka_unit_test(test_unnamed),
        cmocka_unit_test(test_text_is_cut_not_overrun),
        cmocka_unit_test(test_memory_is_measured),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
