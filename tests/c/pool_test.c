/* Pools of threads: every item once, one's own part first; and the engine on a machine that says it
 * has two memory nodes gives the bits that it gives on one. */
#include "own.h"
#include "state.h"

#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static struct ig_team team;

static void test_parts_and_shares(void **state)
{
    (void)state;
    static const int node[] = { 0, 0, 0, 2, 2, 3 };
    ig_team_set(&team, 6, node);
    assert_int_equal(team.n_pool, 3);
    for (int n = 0; n < 50; n++)
        for (int tid = 0, lo, hi, from, to; tid < 6; tid++) {
            ig_team_share(&team, tid, n, &lo, &hi);
            ig_team_part(&team, ig_team_pool(&team, tid), n, &from, &to);
            assert_true(from <= lo && hi <= to);
        }
    static int many[20];
    for (int i = 0; i < 20; i++) many[i] = i;
    ig_team_set(&team, 20, many);
    assert_int_equal(team.n_pool, 1);
    ig_team_set(&team, 3, NULL);
    assert_int_equal(team.n_pool, 1);
}

/* Thread 3 takes its pool's part, then what others left; nothing twice. */
static void test_claims(void **state)
{
    (void)state;
    static const int node[] = { 0, 0, 1, 1 };
    int seen[25] = { 0 }, lo = 0, hi = 0, taken = 0, from, to;
    ig_team_set(&team, 4, node);
    ig_team_part(&team, 1, 25, &from, &to);
    assert_true(ig_team_claim(&team, 0, 25, 2, &lo, &hi));
    for (; lo < hi; lo++) seen[lo]++;
    while (ig_team_claim(&team, 3, 25, 2, &lo, &hi))
        for (; lo < hi; lo++, taken++) {
            assert_true(taken >= to - from || (lo >= from && lo < to));
            seen[lo]++;
        }
    for (int i = 0; i < 25; i++) assert_int_equal(seen[i], 1);
    assert_false(ig_team_claim(&team, 0, 25, 2, &lo, &hi));
}

/* -- the engine */

static char weights[OWN_BYTES];
static char root[] = "out/tests/pool-XXXXXX";
enum { ROWS = 40 };

static uint64_t bits(const char *at, int batch, int pools)
{
    struct ig_engine *e;
    struct ig_why why;
    int32_t token[ROWS], pos[ROWS], seq[ROWS] = { 0 };
    uint8_t want[ROWS] = { 0 };
    uint64_t h = UINT64_C(0xcbf29ce484222325);
    const struct ig_open o = {
        .weights = weights, .threads = 2, .verify = 1, .poison = 1, .root = at
    };
    if (ig_engine_open(&e, &o, &why) != IG_OK) fail_msg("%s", why.text);
    assert_int_equal(e->team.n_pool, pools);
    if (pools > 1) assert_string_equal(ig_loaded(e), "copied, to each of 2 memory nodes its part");
    for (int i = 0; i < ROWS; i++) token[i] = (i * 37 + 5) % IG_N_VOCAB, pos[i] = i;
    for (int i = 0; i < ROWS; i += batch) {
        const int n = ROWS - i < batch ? ROWS - i : batch;
        want[n - 1] = 1;
        ig_forward(e, &(struct ig_batch){ n, token + i, pos + i, seq, want });
        want[n - 1] = 0;
        const float *l = ig_logits(e, 0);
        for (int k = 0; k < IG_N_VOCAB; k++) {
            uint32_t b;
            memcpy(&b, &l[k], sizeof b);
            h = (h ^ b) * UINT64_C(0x100000001b3);
        }
    }
    ig_engine_close(e);
    return h;
}

/* Two of the CPUs that we may use, each a node of its own. */
static int make_root(void **state)
{
    cpu_set_t set;
    char command[512];
    int cpu[2], n = 0;
    (void)state;
    if (sched_getaffinity(0, sizeof set, &set) != 0 || CPU_COUNT(&set) < 2) return 0;
    for (int i = 0; i < CPU_SETSIZE && n < 2; i++)
        if (CPU_ISSET((size_t)i, &set)) cpu[n++] = i;
    if (!mkdtemp(root)) return -1;
    const char *node = "sys/devices/system/node/node", *group = "sys/fs/cgroup";
    snprintf(command, sizeof command,
             "cd %s && mkdir -p proc/self %s %s0 %s1 && echo 0::/ >proc/self/cgroup && "
             "echo %d,%d >%s/cpuset.cpus.effective && echo %d >%s0/cpulist && echo %d >%s1/cpulist",
             root, group, node, node, cpu[0], cpu[1], group, cpu[0], node, cpu[1], node);
    return system(command);
}
static int drop_root(void **state)
{
    char command[64];
    (void)state;
    snprintf(command, sizeof command, "rm -rf %s", root);
    return system(command);
}

static void test_two_nodes(void **state)
{
    cpu_set_t set;
    (void)state;
    if (sched_getaffinity(0, sizeof set, &set) != 0 || CPU_COUNT(&set) < 2) skip();
    const uint64_t rows = bits(NULL, 7, 1), one = bits(NULL, 1, 1);
    assert_true(bits(root, 7, 2) == rows);
    assert_true(bits(root, 1, 2) == one);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parts_and_shares), cmocka_unit_test(test_claims),
        cmocka_unit_test_setup_teardown(test_two_nodes, make_root, drop_root)
    };
    char line[256];
    snprintf(line, sizeof line,
             "mkdir -p out/tests; out/test/t-demo/tiny-mixtral pack tests/data/tiny-mixtral.gguf "
             "-o %s >/dev/null 2>&1",
             own_file(weights, "pool"));
    if (system(line)) return 1;
    cmocka_set_message_output(CM_OUTPUT_TAP);
    const int failed = cmocka_run_group_tests_name("pool", tests, NULL, NULL);
    unlink(weights);
    return failed;
}
