/* The barrier with more threads than any machine here has cores, where most of them sleep. */
#include "team.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>
#include <cmocka.h>

enum { THREADS = 16, PHASES = 400 };

static struct ig_team team;
static int seen[THREADS], wrong[THREADS]; /* plain: the barrier orders them */

static void *work(void *arg)
{
    const int me = (int)(intptr_t)arg;
    for (int p = 1; p <= PHASES; p++) {
        if (p % 50 == me) nanosleep(&(struct timespec){ .tv_nsec = 2000000 }, NULL); /* late */
        seen[me] = p;
        ig_team_wait(&team);
        for (int t = 0; t < THREADS; t++) wrong[me] += seen[t] != p;
        ig_team_wait(&team);
    }
    return NULL;
}

static void test_all_wait_for_all(void **state)
{
    (void)state;
    pthread_t thread[THREADS];
    team.n = THREADS;
    for (intptr_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, work, (void *)i), 0);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(thread[i], NULL);
        assert_int_equal(wrong[i], 0);
    }
    assert_int_equal(atomic_load(&team.asleep), 0);
    assert_int_equal(atomic_load(&team.phase), 2 * PHASES);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_all_wait_for_all) };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests_name("team", tests, NULL, NULL);
}
