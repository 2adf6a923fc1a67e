/* Numbers of fills (kernels/cuda/place.h) are counters that wrap: what is on its way stays so
 * across that. */
#include "device_shape.h"
#include "emulate.h"
#include "bytes.h"

#include "emulate_run.h"
#include "cuda/step.cu"

static int way(int fill, int arrived) { return way_now(3 | COMING, fill, arrived, 0); }

static void test_counter_wraps(void **state)
{
    const int first = INT32_MIN, last = INT32_MAX; /* the number after it is the first */
    (void)state;
    assert_int_equal(way(7, 6), -2 - 3);
    assert_int_equal(way(7, 7), 3);
    assert_int_equal(way(first, last), -2 - 3);
    assert_int_equal(way(first + 1, last - 1), -2 - 3);
    assert_int_equal(way(last, first), 3);
    assert_int_equal(way(first, first), 3);
    assert_int_equal(way_now(3 | COMING | BY_AHEAD, first, 0, last), -2 - 3);
    assert_int_equal(way_now(3, first, last, last), 3);
    assert_int_equal(way_now(-1, 0, 0, 0), -1);
}

static void test_under_way(void **state)
{
    const struct chosen c = { .seen = { INT32_MAX, 5, INT32_MIN + 2, 6 } };
    (void)state;
    assert_int_equal(under_way(&c), 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_counter_wraps),
                                        cmocka_unit_test(test_under_way) };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests_name("place", tests, NULL, NULL);
}
