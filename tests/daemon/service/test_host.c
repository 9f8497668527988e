/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * host: what proc and sys say, in a folder of the test.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/options/settings.h"
#include "daemon/service/host.h"
#include "tests/common/unit.h"

static char root[64];

static void setup(void)
{
    strcpy(root, "/tmp/mayfly-host-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(root));
}

static void teardown(void)
{
    char command[128];

    snprintf(command, sizeof(command), "rm -rf '%s'", root);
    ck_assert_int_eq(system(command), 0);
}

TEST_FIXTURE(setup, teardown)

/* Write a file below the root, and make its folders. */
static void put(const char *name, const char *text)
{
    char path[256];
    FILE *f;

    snprintf(path, sizeof(path), "%s/%s", root, name);
    for (char *at = path + strlen(root) + 1; (at = strchr(at, '/')) != NULL; at++) {
        *at = '\0';
        (void)mkdir(path, 0700);
        *at = '/';
    }
    f = fopen(path, "w");
    ck_assert_ptr_nonnull(f);
    ck_assert_int_ge(fputs(text, f), 0);
    ck_assert_int_eq(fclose(f), 0);
}

TEST(without_control_groups_there_is_no_limit)
{
    ck_assert_uint_eq(host_memory_max(root), UINT64_MAX);
    put("proc/self/cgroup", "nonsense\n0:\n::\n\n");
    ck_assert_uint_eq(host_memory_max(root), UINT64_MAX);
}

TEST(the_least_limit_of_version_2_counts)
{
    put("proc/self/cgroup", "0::/system.slice/mayflyd.service\n");
    put("sys/fs/cgroup/system.slice/mayflyd.service/memory.max", "max\n");
    ck_assert_uint_eq(host_memory_max(root), UINT64_MAX);
    put("sys/fs/cgroup/system.slice/mayflyd.service/memory.max", "2000000\n");
    ck_assert_uint_eq(host_memory_max(root), 2000000);
    put("sys/fs/cgroup/system.slice/memory.max", "1000000\n");
    ck_assert_uint_eq(host_memory_max(root), 1000000);
    put("sys/fs/cgroup/system.slice/memory.max", "3000000\n");
    ck_assert_uint_eq(host_memory_max(root), 2000000);
}

TEST(version_1_has_a_line_of_its_own)
{
    put("proc/self/cgroup", "5:cpu,memory:/a/b\n4:memory_not:/x\n0::/\n");
    put("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "4096000\n");
    put("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    put("sys/fs/cgroup/memory/x/memory.limit_in_bytes", "1\n");
    ck_assert_uint_eq(host_memory_max(root), 4096000);
}

/* Its path is that of outside; what it sees is the top. */
TEST(in_a_container_the_top_counts)
{
    put("proc/self/cgroup", "0::/docker/0123456789abcdef\n");
    put("sys/fs/cgroup/memory.max", "268435456\n");
    ck_assert_uint_eq(host_memory_max(root), 268435456);
}

TEST(huge_pages_for_all_are_seen)
{
    ck_assert(!host_has_thp_always(root));
    put("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
    ck_assert(!host_has_thp_always(root));
    put("sys/kernel/mm/transparent_hugepage/enabled", "[always] madvise never\n");
    ck_assert(host_has_thp_always(root));
}

TEST(need_grows_with_what_may_be_kept)
{
    static struct settings s;
    uint64_t before;

    settings_init(&s);
    before = host_memory_need(&s);
    ck_assert_uint_gt(before, setting_get(&s, memory_limit_bytes));
    setting_set(&s, memory_limit_bytes, setting_get(&s, memory_limit_bytes) + 100);
    ck_assert_uint_eq(host_memory_need(&s), before + 100);
    s.read_buf_mem_limit_bytes = (uint64_t)1 << 30;
    ck_assert_uint_gt(host_memory_need(&s), before + ((uint64_t)1 << 29));
    host_log(&s, root);
    settings_fini(&s);
}
