/* Which CPUs a team gets, on machines made of files. */
#include "cpus.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#define CPU   "sys/devices/system/cpu/"
#define NODE  "sys/devices/system/node/"
#define GROUP "sys/fs/cgroup"

static char root[] = "/tmp/ingot-cpus-XXXXXX";
static struct ig_cpus c;

/* A file of the machine; printf's %d in the name is `i`. */
static void file(const char *name, int i, const char *text)
{
    char path[512];
    size_t n = (size_t)snprintf(path, sizeof path, "%s/", root);
    char shape[256];
    snprintf(shape, sizeof shape, name, i); /* names here have at most one %d */
    snprintf(path + n, sizeof path - n, "%s", shape);
    char command[1200];
    char folder[512];
    snprintf(folder, sizeof folder, "%s", path);
    *strrchr(folder, '/') = 0;
    snprintf(command, sizeof command, "mkdir -p '%s'", folder);
    assert_int_equal(system(command), 0);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fprintf(f, "%s\n", text);
    fclose(f);
}

static int fresh(void **state)
{
    (void)state;
    strcpy(root + strlen(root) - 6, "XXXXXX");
    return mkdtemp(root) ? 0 : -1;
}
static int gone(void **state)
{
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", root);
    return system(command);
}

static void find(int cpus)
{
    cpu_set_t mask;
    CPU_ZERO(&mask);
    for (int i = 0; i < cpus; i++) CPU_SET((size_t)i, &mask);
    ig_cpus_find(&c, root, &mask);
}

static void expect(int n, ...)
{
    va_list ap;
    va_start(ap, n);
    assert_int_equal(c.n, n);
    for (int i = 0; i < n; i++) assert_int_equal(c.cpu[i], va_arg(ap, int));
    va_end(ap);
}

/* Nothing is known: all that are allowed. */
static void test_bare(void **state)
{
    (void)state;
    find(3);
    expect(3, 0, 1, 2);
    assert_int_equal(c.n_node, 1);
    assert_true(c.quota == 0);
}

static void siblings(int cpus, int apart)
{
    char list[32];
    for (int i = 0; i < cpus; i++) {
        snprintf(list, sizeof list, "%d,%d", i % apart, i % apart + apart);
        file(CPU "cpu%d/topology/thread_siblings_list", i, list);
    }
}

static void test_second_threads(void **state)
{
    (void)state;
    siblings(8, 4);
    find(8);
    expect(4, 0, 1, 2, 3);
    assert_int_equal(c.siblings, 4);
    cpu_set_t mask; /* a core of which only the second thread is allowed still counts */
    CPU_ZERO(&mask);
    CPU_SET(1, &mask);
    CPU_SET(4, &mask);
    CPU_SET(5, &mask);
    ig_cpus_find(&c, root, &mask);
    expect(2, 1, 4);
}

static void test_hybrid(void **state)
{
    (void)state;
    file("sys/devices/cpu_atom/cpus", 0, "4-7");
    for (int i = 0; i < 4; i++)
        file(CPU "cpu%d/topology/thread_siblings_list", i, i < 2 ? "0-1" : "2-3");
    find(8);
    expect(2, 0, 2);
    assert_int_equal(c.efficient, 4);
    char text[256];
    assert_string_equal(
        ig_cpus_text(&c, text, sizeof text),
        "2 cores to use: 8 CPUs allowed, 2 left out as second threads of cores, 4 as "
        "efficiency cores; 1 memory node");
    cpu_set_t mask; /* only slow cores: better than none */
    CPU_ZERO(&mask);
    CPU_SET(5, &mask);
    CPU_SET(6, &mask);
    ig_cpus_find(&c, root, &mask);
    expect(2, 5, 6);
}

static void test_capacity_and_frequency(void **state)
{
    (void)state;
    for (int i = 0; i < 6; i++) file(CPU "cpu%d/cpu_capacity", i, i < 4 ? "446" : "1024");
    find(6);
    expect(2, 4, 5);
    for (int i = 6; i < 10; i++) /* the best cores of a chip are a little faster */
        file(CPU "cpu%d/cpufreq/cpuinfo_max_freq", i, i == 7 ? "5700000" : "5200000");
    cpu_set_t mask;
    CPU_ZERO(&mask);
    for (size_t i = 6; i < 10; i++) CPU_SET(i, &mask);
    ig_cpus_find(&c, root, &mask);
    expect(4, 6, 7, 8, 9);
}

static void test_nodes(void **state)
{
    (void)state;
    file(NODE "node0/cpulist", 0, "0,2,4,6");
    file(NODE "node1/cpulist", 0, "1,3,5,7");
    find(8);
    expect(8, 0, 2, 4, 6, 1, 3, 5, 7);
    assert_int_equal(c.n_node, 2);
    assert_int_equal(c.node[3], 0);
    assert_int_equal(c.node[4], 1);
}

static void test_groups_version_2(void **state)
{
    (void)state;
    file("proc/self/cgroup", 0, "0::/a/b");
    file(GROUP "/a/cpu.max", 0, "250000 100000");
    file(GROUP "/a/b/cpu.max", 0, "max 100000");
    find(8);
    expect(2, 0, 1);
    assert_true(c.quota == 2.5);
    file(GROUP "/a/b/cpuset.cpus.effective", 0, "3,5-6");
    find(8);
    expect(2, 3, 5);
    file(GROUP "/a/b/cpu.max", 0, "50000 100000");
    find(8);
    expect(1, 3);
}

static void test_groups_version_1(void **state)
{
    (void)state;
    file("proc/self/cgroup", 0, "4:cpu,cpuacct:/x\n3:cpuset:/y\n1:name=systemd:/z");
    file(GROUP "/cpu/x/cpu.cfs_quota_us", 0, "300000");
    file(GROUP "/cpu/x/cpu.cfs_period_us", 0, "100000");
    file(GROUP "/cpuset/y/cpuset.effective_cpus", 0, "2-7");
    find(8);
    expect(3, 2, 3, 4);
    file(GROUP "/cpu/x/cpu.cfs_quota_us", 0, "-1");
    find(8);
    expect(6, 2, 3, 4, 5, 6, 7);
}

static void test_damaged_files(void **state)
{
    (void)state;
    file("proc/self/cgroup", 0, "rubbish\n0::/../../up\n0::/a");
    file(GROUP "/a/cpu.max", 0, "-5 0");
    file(GROUP "/a/cpuset.cpus.effective", 0, "900-");
    file(CPU "cpu0/topology/thread_siblings_list", 0, "0-99999999999999999999,x");
    file("sys/devices/cpu_atom/cpus", 0, "7-3");
    find(4);
    assert_true(c.n >= 1 && c.cpu[0] == 0);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, fresh, gone)
    const struct CMUnitTest tests[] = {
        TEST(test_bare),
        TEST(test_second_threads),
        TEST(test_hybrid),
        TEST(test_nodes),
        TEST(test_groups_version_2),
        TEST(test_groups_version_1),
        TEST(test_capacity_and_frequency),
        TEST(test_damaged_files),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests_name("cpus", tests, NULL, NULL);
}
