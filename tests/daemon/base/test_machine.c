/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * machine: what proc and sys say, in a folder of the test.
 */
#include "daemon/base/machine.h"

#include <sched.h>

#include "tests/common/folder.h"
#include "tests/common/unit.h"

TEST_FIXTURE(folder_make, folder_remove)

TEST(without_control_groups_there_is_no_limit)
{
    ck_assert_uint_eq(machine_group_memory(folder), UINT64_MAX);
    folder_put("proc/self/cgroup", "nonsense\n0:\n::\n\n");
    ck_assert_uint_eq(machine_group_memory(folder), UINT64_MAX);
}

TEST(the_least_limit_of_version_2_counts)
{
    folder_put("proc/self/cgroup", "0::/system.slice/mayflyd.service\n");
    folder_put("sys/fs/cgroup/system.slice/mayflyd.service/memory.max", "max\n");
    ck_assert_uint_eq(machine_group_memory(folder), UINT64_MAX);
    folder_put("sys/fs/cgroup/system.slice/mayflyd.service/memory.max", "2000000\n");
    ck_assert_uint_eq(machine_group_memory(folder), 2000000);
    folder_put("sys/fs/cgroup/system.slice/memory.max", "1000000\n");
    ck_assert_uint_eq(machine_group_memory(folder), 1000000);
    folder_put("sys/fs/cgroup/system.slice/memory.max", "3000000\n");
    ck_assert_uint_eq(machine_group_memory(folder), 2000000);
}

TEST(version_1_has_a_line_of_its_own)
{
    folder_put("proc/self/cgroup", "5:cpu,memory:/a/b\n4:memory_not:/x\n0::/\n");
    folder_put("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "4096000\n");
    folder_put("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    folder_put("sys/fs/cgroup/memory/x/memory.limit_in_bytes", "1\n");
    ck_assert_uint_eq(machine_group_memory(folder), 4096000);
}

/* Its path is that of outside; what it sees is the top. */
TEST(in_a_container_the_top_counts)
{
    folder_put("proc/self/cgroup", "0::/docker/0123456789abcdef\n");
    folder_put("sys/fs/cgroup/memory.max", "268435456\n");
    ck_assert_uint_eq(machine_group_memory(folder), 268435456);
}

TEST(huge_pages_for_all_are_seen)
{
    ck_assert(!machine_has_thp_always(folder));
    folder_put("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
    ck_assert(!machine_has_thp_always(folder));
    folder_put("sys/kernel/mm/transparent_hugepage/enabled", "[always] madvise never\n");
    ck_assert(machine_has_thp_always(folder));
}

/* ---- memory and CPUs --------------------------------------------------------------------- */

static void look(void)
{
    setenv(MACHINE_ROOT_VARIABLE, folder, 1);
    machine_look();
    unsetenv(MACHINE_ROOT_VARIABLE);
}

TEST(what_cannot_be_read_is_not_known)
{
    look();
    ck_assert_uint_eq(machine_memory(), 0);
    folder_put("proc/meminfo", "MemTotal: many kB\n");
    look();
    ck_assert_uint_eq(machine_memory(), 0);
    folder_put("proc/meminfo", "MemTotal: 99999999999999999999 kB\n");
    look();
    ck_assert_uint_eq(machine_memory(), 0);
}

TEST(the_group_has_at_most_the_memory_of_the_machine)
{
    folder_put("proc/meminfo", "MemTotal:       1048576 kB\nMemFree: 1 kB\n");
    look();
    ck_assert_uint_eq(machine_memory(), 1u << 30);
    ck_assert(!machine_memory_is_of_group());
    folder_put("proc/self/cgroup", "0::/a\n");
    folder_put("sys/fs/cgroup/a/memory.max", "4294967296\n");
    look();
    ck_assert_uint_eq(machine_memory(), 1u << 30);
    ck_assert(!machine_memory_is_of_group());
    folder_put("sys/fs/cgroup/a/memory.max", "536870912\n");
    look();
    ck_assert_uint_eq(machine_memory(), 1u << 29);
    ck_assert(machine_memory_is_of_group());
}

/* CPUs of the affinity of this test. */
static unsigned cpus_here(void)
{
    cpu_set_t set;

    ck_assert_int_eq(sched_getaffinity(0, sizeof(set), &set), 0);
    return (unsigned)CPU_COUNT(&set);
}

static void expect_cpus(unsigned quota)
{
    look();
    ck_assert_uint_eq(machine_cpus(), quota < cpus_here() ? quota : cpus_here());
}

TEST(quotas_are_rounded_up)
{
    folder_put("proc/self/cgroup", "0::/a/b\n");
    expect_cpus(UINT32_MAX);
    folder_put("sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
    expect_cpus(UINT32_MAX);
    folder_put("sys/fs/cgroup/a/b/cpu.max", "100001 100000\n");
    expect_cpus(2);
    folder_put("sys/fs/cgroup/a/b/cpu.max", "100000 100000\n");
    expect_cpus(1);
    folder_put("sys/fs/cgroup/a/b/cpu.max", "200000 100000\n");
    folder_put("sys/fs/cgroup/a/cpu.max", "1000 100000\n");
    expect_cpus(1);
}

TEST(strange_quotas_are_no_limit)
{
    static const char *const quotas[] = {"",
                                         "\n",
                                         "max",
                                         "-1 100000\n",
                                         "100000\n",
                                         "100000 0\n",
                                         "1 x\n",
                                         "18446744073709551615 1\n",
                                         "99999999999999999999 1\n"};

    folder_put("proc/self/cgroup", "0::/\n");
    for (unsigned i = 0; i < sizeof(quotas) / sizeof(quotas[0]); i++) {
        folder_put("sys/fs/cgroup/cpu.max", quotas[i]);
        expect_cpus(UINT32_MAX);
    }
    folder_put("sys/fs/cgroup/cpu.max", "0 100000\n");
    expect_cpus(1);
}

TEST(version_1_has_two_files_for_cpus)
{
    folder_put("proc/self/cgroup", "3:cpu,cpuacct:/a\n2:cpuset:/b\n");
    folder_put("sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", "-1\n");
    folder_put("sys/fs/cgroup/cpu/a/cpu.cfs_period_us", "100000\n");
    expect_cpus(UINT32_MAX);
    folder_put("sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", "50000\n");
    expect_cpus(1);
}
