/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * host: what proc and sys say, in a folder of the test.
 */
#include "daemon/service/host.h"

#include "daemon/options/settings.h"
#include "tests/common/folder.h"
#include "tests/common/unit.h"

TEST_FIXTURE(folder_make, folder_remove)

TEST(without_control_groups_there_is_no_limit)
{
    ck_assert_uint_eq(host_memory_max(folder), UINT64_MAX);
    folder_put("proc/self/cgroup", "nonsense\n0:\n::\n\n");
    ck_assert_uint_eq(host_memory_max(folder), UINT64_MAX);
}

TEST(the_least_limit_of_version_2_counts)
{
    folder_put("proc/self/cgroup", "0::/system.slice/mayflyd.service\n");
    folder_put("sys/fs/cgroup/system.slice/mayflyd.service/memory.max", "max\n");
    ck_assert_uint_eq(host_memory_max(folder), UINT64_MAX);
    folder_put("sys/fs/cgroup/system.slice/mayflyd.service/memory.max", "2000000\n");
    ck_assert_uint_eq(host_memory_max(folder), 2000000);
    folder_put("sys/fs/cgroup/system.slice/memory.max", "1000000\n");
    ck_assert_uint_eq(host_memory_max(folder), 1000000);
    folder_put("sys/fs/cgroup/system.slice/memory.max", "3000000\n");
    ck_assert_uint_eq(host_memory_max(folder), 2000000);
}

TEST(version_1_has_a_line_of_its_own)
{
    folder_put("proc/self/cgroup", "5:cpu,memory:/a/b\n4:memory_not:/x\n0::/\n");
    folder_put("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "4096000\n");
    folder_put("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    folder_put("sys/fs/cgroup/memory/x/memory.limit_in_bytes", "1\n");
    ck_assert_uint_eq(host_memory_max(folder), 4096000);
}

/* Its path is that of outside; what it sees is the top. */
TEST(in_a_container_the_top_counts)
{
    folder_put("proc/self/cgroup", "0::/docker/0123456789abcdef\n");
    folder_put("sys/fs/cgroup/memory.max", "268435456\n");
    ck_assert_uint_eq(host_memory_max(folder), 268435456);
}

TEST(huge_pages_for_all_are_seen)
{
    ck_assert(!host_has_thp_always(folder));
    folder_put("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
    ck_assert(!host_has_thp_always(folder));
    folder_put("sys/kernel/mm/transparent_hugepage/enabled", "[always] madvise never\n");
    ck_assert(host_has_thp_always(folder));
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
    host_log(&s, folder);
    settings_fini(&s);
}
