/* arena: the memory that is left is the least that any group above the process leaves. */
#include "arena.h"
#include "bytes.h"

static void put(const char *name, const char *text)
{
    char path[600];
    snprintf(path, sizeof path, "%s", in_folder(name));
    for (char *p = strchr(path + strlen(in_folder("")), '/'); p; p = strchr(p + 1, '/')) {
        *p = '\0';
        mkdir(path, 0777);
        *p = '/';
    }
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static uint64_t left(const char *self)
{
    char mount[600];
    snprintf(mount, sizeof mount, "%s", in_folder("cg"));
    put("self", self);
    return ig_cgroup_left(in_folder("self"), mount);
}

static void test_version_2(void **state)
{
    (void)state;
    put("cg/a/b/memory.max", "max\n");
    put("cg/a/b/memory.current", "100\n");
    assert_true(left("0::/a/b\n") == UINT64_MAX);
    put("cg/a/memory.max", "5000\n");
    put("cg/a/memory.current", "2000\n");
    put("cg/a/memory.stat", "anon 1500\nfile 500\nfile_mapped 7\n");
    assert_int_equal(left("0::/a/b\n"), 3500);
    put("cg/a/b/memory.max", "300\n");
    assert_int_equal(left("0::/a/b\n"), 200);
    assert_int_equal(left("0::/a\n"), 3500);
    assert_true(left("0::/\n") == UINT64_MAX);
    assert_true(left("0::/../x\n") == UINT64_MAX);
    put("cg/memory.max", "60\n"); /* a container's own root */
    put("cg/memory.current", "70\n");
    assert_int_equal(left("0::/a/b\n"), 0);
    assert_int_equal(left("0::/not/mounted\n"), 0);
    unlink(in_folder("cg/memory.max"));
}

static void test_version_1(void **state)
{
    (void)state;
    put("cg/memory/memory.limit_in_bytes", "9223372036854771712\n");
    put("cg/memory/memory.usage_in_bytes", "1000\n");
    put("cg/memory/job/memory.limit_in_bytes", "8000\n");
    put("cg/memory/job/memory.usage_in_bytes", "3000\n");
    put("cg/memory/job/memory.stat", "cache 1\ntotal_cache 1000\n");
    assert_int_equal(left("5:cpu,memory:/job\n4:pids:/\n0::/\n"), 6000);
    assert_int_equal(left("5:memory:/job/gone\n"), 6000);
    assert_true(left("5:memory_x:/job\n") == UINT64_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_version_2),
        cmocka_unit_test(test_version_1),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests_name("arena", tests, NULL, NULL);
}
