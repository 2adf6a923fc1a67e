/* The barrier, and shares of which others take what is left, with more threads than any machine
 * here has cores, where most of them sleep. */
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

/* -- shares: every item once in a phase, whoever is late */

enum { ITEMS_MOST = 200 };
static atomic_int taken[ITEMS_MOST];
static int strange[THREADS];

static void *take(void *arg)
{
    const int me = (int)(intptr_t)arg;
    for (int p = 1; p <= PHASES; p++) {
        const int n = p * 7 % ITEMS_MOST;
        int lo, hi;
        if (p % 50 == me) nanosleep(&(struct timespec){ .tv_nsec = 2000000 }, NULL); /* late */
        while (ig_team_take(&team, me, n, &lo, &hi)) {
            strange[me] += lo < 0 || lo >= hi || hi > n;
            for (; lo < hi; lo++) atomic_fetch_add(&taken[lo], 1);
        }
        ig_team_wait(&team);
        for (int i = me; i < ITEMS_MOST; i += THREADS)
            strange[me] += atomic_exchange(&taken[i], 0) != (i < n);
        ig_team_wait(&team);
    }
    return NULL;
}

static void test_every_item_once(void **state)
{
    (void)state;
    static const int node[THREADS] = { 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1 };
    for (int pools = 1; pools <= 2; pools++) {
        pthread_t thread[THREADS];
        ig_team_set(&team, THREADS, pools == 2 ? node : NULL);
        assert_int_equal(team.n_pool, pools);
        for (intptr_t i = 0; i < THREADS; i++)
            assert_int_equal(pthread_create(&thread[i], NULL, take, (void *)i), 0);
        for (int i = 0; i < THREADS; i++) {
            pthread_join(thread[i], NULL);
            assert_int_equal(strange[i], 0);
        }
    }
}

/* One's own share comes first, in order; then the pool's, then the others'. */
static void test_own_share_first(void **state)
{
    (void)state;
    static const int node[] = { 0, 0, 1, 1 };
    int lo, hi, from, to, at;
    ig_team_set(&team, 4, node);
    atomic_fetch_add(&team.phase, 1); /* what other tests took is past */
    ig_team_share(&team, 3, 40, &from, &to);
    for (at = from; at < to; at = hi) {
        assert_true(ig_team_take(&team, 3, 40, &lo, &hi));
        assert_int_equal(lo, at);
    }
    assert_int_equal(at, to);
    ig_team_share(&team, 2, 40, &from, &to);
    assert_true(ig_team_take(&team, 3, 40, &lo, &hi));
    assert_true(lo == from && hi < to);
    assert_true(ig_team_take(&team, 0, 40, &lo, &hi));
    assert_int_equal(lo, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_wait_for_all),
        cmocka_unit_test(test_every_item_once),
        cmocka_unit_test(test_own_share_first),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests_name("team", tests, NULL, NULL);
}
