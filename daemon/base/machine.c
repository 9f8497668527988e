/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See machine.h. What cannot be read counts as no limit.
 */
#include "daemon/base/machine.h"

#include <limits.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "daemon/base/file.h"
#include "lib/base/context.h"
#include "lib/base/num.h"
#include "lib/base/span.h"

/* Version 1 says "no limit" by the largest number of whole pages. */
#define UNLIMITED ((uint64_t)1 << 62)

/* Parts of a CPU in which quotas are compared. */
#define PARTS 1000u

/* [atomic] what machine_look() found; written by main */
static _Atomic uint64_t memory_found;
static _Atomic uint32_t cpus_found;
static _Atomic bool is_of_group;

/* ---- control groups ---------------------------------------------------------------------- */

/* Reads a file of a group, whose folder is `path`. UINT64_MAX: no limit. */
typedef uint64_t (*limit_fn)(const char *path);

/* The first number in a file of a folder. False: there is none. */
static bool read_number(const char *folder, const char *file, uint64_t numbers[2])
{
    char path[PATH_MAX];
    char text[64];
    int n = snprintf(path, sizeof(path), "%s/%s", folder, file);

    if (n < 0 || (size_t)n >= sizeof(path) || file_read_start(path, text, sizeof(text)) < 0) {
        return false;
    }
    size_t len = strcspn(text, " \n");
    if (num_u64(span_of(text, len), &numbers[0]) != MF_OK) {
        return false; /* "max", or -1 in version 1 */
    }
    numbers[1] = 0;
    if (text[len] == ' ') {
        (void)num_u64(span_of(text + len + 1, strcspn(text + len + 1, "\n")), &numbers[1]);
    }
    return true;
}

static uint64_t memory_of(const char *folder, const char *file)
{
    uint64_t numbers[2];

    return read_number(folder, file, numbers) && numbers[0] <= UNLIMITED ? numbers[0]
                                                                         : UINT64_MAX;
}

static uint64_t memory_2(const char *folder)
{
    return memory_of(folder, "memory.max");
}

static uint64_t memory_1(const char *folder)
{
    return memory_of(folder, "memory.limit_in_bytes");
}

static uint64_t parts_of(uint64_t quota, uint64_t period)
{
    return period == 0 || quota > UINT64_MAX / PARTS ? UINT64_MAX
                                                     : (quota * PARTS + period - 1) / period;
}

static uint64_t cpu_2(const char *folder)
{
    uint64_t numbers[2]; /* quota and period */

    return read_number(folder, "cpu.max", numbers) ? parts_of(numbers[0], numbers[1])
                                                   : UINT64_MAX;
}

static uint64_t cpu_1(const char *folder)
{
    uint64_t quota[2];
    uint64_t period[2];

    return read_number(folder, "cpu.cfs_quota_us", quota) &&
                   read_number(folder, "cpu.cfs_period_us", period)
               ? parts_of(quota[0], period[0])
               : UINT64_MAX;
}

/*
 * The smallest limit of a group and those above it. In a container the path may be the one that
 * it has outside: then only the group at the top of the mount is there, which is ours.
 */
static uint64_t least_limit(const char *root, const char *mount, struct span group, limit_fn fn)
{
    uint64_t least = UINT64_MAX;
    char path[PATH_MAX];

    for (;;) {
        uint64_t limit = UINT64_MAX;

        while (group.len > 0 && group.ptr[group.len - 1] == '/') {
            group.len--;
        }
        int n = snprintf(path, sizeof(path), "%s/sys/fs/cgroup%s%.*s", root, mount,
                         (int)group.len, group.ptr);
        if (n > 0 && (size_t)n < sizeof(path)) {
            limit = fn(path);
        }
        least = limit < least ? limit : least;
        if (group.len == 0) {
            return least;
        }
        while (group.len > 0 && group.ptr[group.len - 1] != '/') {
            group.len--;
        }
    }
}

/* Is this one of the controllers, which are separated by commas? */
static bool has_controller(struct span controllers, const char *name)
{
    while (controllers.len > 0) {
        if (span_is(span_cut(&controllers, ','), name)) {
            return true;
        }
    }
    return false;
}

/* The smallest limit of a controller in the groups of this process, of either version. */
static uint64_t limit_of_groups(const char *root, const char *controller, limit_fn of_1,
                                limit_fn of_2)
{
    uint64_t least = UINT64_MAX;
    char path[PATH_MAX];
    char mount[16];
    char text[4096];

    must_be_main();
    snprintf(mount, sizeof(mount), "/%s", controller);
    snprintf(path, sizeof(path), "%s/proc/self/cgroup", root);
    if (file_read_start(path, text, sizeof(text)) < 0) {
        return UINT64_MAX;
    }
    /* Each line is number:controllers:path, and that of version 2 is 0::path. */
    for (const char *at = text; *at != '\0';) {
        const size_t len = strcspn(at, "\n");
        const char *first = memchr(at, ':', len);
        const char *second =
            first != NULL ? memchr(first + 1, ':', len - (size_t)(first + 1 - at)) : NULL;
        uint64_t limit = UINT64_MAX;

        if (second != NULL) {
            const struct span controllers = span_of(first + 1, (size_t)(second - first - 1));
            const struct span group = span_of(second + 1, len - (size_t)(second + 1 - at));

            if (controllers.len == 0) {
                limit = least_limit(root, "", group, of_2);
            } else if (has_controller(controllers, controller)) {
                limit = least_limit(root, mount, group, of_1);
            }
        }
        least = limit < least ? limit : least;
        at += len + (at[len] == '\n');
    }
    return least;
}

uint64_t machine_group_memory(const char *root)
{
    return limit_of_groups(root, "memory", memory_1, memory_2);
}

/* ---- the machine ------------------------------------------------------------------------- */

/* MemTotal of meminfo; UINT64_MAX: it cannot be read. */
static uint64_t memory_in_meminfo(const char *root)
{
    static const char name[] = "MemTotal:";
    char path[PATH_MAX];
    char text[256];
    const char *at;
    uint64_t kib;

    snprintf(path, sizeof(path), "%s/proc/meminfo", root);
    if (file_read_start(path, text, sizeof(text)) < 0 || (at = strstr(text, name)) == NULL) {
        return UINT64_MAX;
    }
    at += sizeof(name) - 1;
    at += strspn(at, " ");
    if (num_u64(span_of(at, strspn(at, "0123456789")), &kib) != MF_OK ||
        kib >= UNLIMITED >> 10) {
        return UINT64_MAX;
    }
    return kib << 10;
}

/* A service manager may hide meminfo (ProcSubset=pid of the unit), but not the call. */
static uint64_t whole_memory(const char *root)
{
    const uint64_t bytes = memory_in_meminfo(root);
    struct sysinfo info;

    if (bytes == UINT64_MAX && root[0] == '\0' && sysinfo(&info) == 0) {
        return (uint64_t)info.totalram * info.mem_unit;
    }
    return bytes;
}

/* CPUs that the main thread, which is never pinned, may run on. */
static uint64_t cpus_allowed(void)
{
    cpu_set_t set;

    if (sched_getaffinity(0, sizeof(set), &set) == 0) {
        return (uint64_t)CPU_COUNT(&set);
    }
    long count = sysconf(_SC_NPROCESSORS_ONLN); /* more CPUs than fit into the set */
    return count > 0 ? (uint64_t)count : 1;
}

static uint64_t cpus_of(const char *root)
{
    const uint64_t allowed = cpus_allowed();
    const uint64_t parts = limit_of_groups(root, "cpu", cpu_1, cpu_2);
    const uint64_t quota = parts / PARTS + (parts % PARTS != 0);
    const uint64_t count = quota < allowed ? quota : allowed;

    return count > 0 ? count : 1;
}

bool machine_has_thp_always(const char *root)
{
    char path[PATH_MAX];
    char text[128];

    must_be_main();
    snprintf(path, sizeof(path), "%s/sys/kernel/mm/transparent_hugepage/enabled", root);
    return file_read_start(path, text, sizeof(text)) >= 0 && strstr(text, "[always]") != NULL;
}

/* ---- what was found ---------------------------------------------------------------------- */

const char *machine_root(void)
{
    const char *root = getenv(MACHINE_ROOT_VARIABLE);

    must_be_main();
    return root != NULL ? root : "";
}

void machine_look(void)
{
    const char *root = machine_root();
    const uint64_t whole = whole_memory(root);
    const uint64_t group = machine_group_memory(root);
    const uint64_t least = group < whole ? group : whole;

    atomic_store_explicit(&memory_found, least != UINT64_MAX ? least : 0, memory_order_relaxed);
    atomic_store_explicit(&is_of_group, group < whole, memory_order_relaxed);
    atomic_store_explicit(&cpus_found, (uint32_t)cpus_of(root), memory_order_relaxed);
}

uint64_t machine_memory(void)
{
    return atomic_load_explicit(&memory_found, memory_order_relaxed);
}

bool machine_memory_is_of_group(void)
{
    return atomic_load_explicit(&is_of_group, memory_order_relaxed);
}

uint32_t machine_cpus(void)
{
    return atomic_load_explicit(&cpus_found, memory_order_relaxed);
}
