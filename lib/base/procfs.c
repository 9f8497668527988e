/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See procfs.h. What cannot be read counts as no limit.
 */
#include "lib/base/procfs.h"

#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/num.h"
#include "lib/base/span.h"

/* Version 1 says "no limit" by the largest number of whole pages. */
#define UNLIMITED ((double)((uint64_t)1 << 62))

bool procfs_read(const char *root, const char *path, char *text, size_t size)
{
    char whole[PATH_MAX];

    if (snprintf(whole, sizeof(whole), "%s%s", root, path) >= (int)sizeof(whole)) {
        return false;
    }
    int fd = open(whole, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return false;
    }
    ssize_t n = read(fd, text, size - 1);
    (void)close(fd);
    text[n > 0 ? n : 0] = '\0';
    return n > 0;
}

double procfs_number(const char *text)
{
    uint64_t v;

    text += strspn(text, " \t");
    return num_u64(span_of(text, strspn(text, "0123456789")), &v) == MF_OK ? (double)v
                                                                           : (double)NAN;
}

/* ---- control groups ---------------------------------------------------------------------- */

/* Reads the limit of a group, whose folder below root is `folder`. INFINITY: no limit. */
typedef double (*limit_fn)(const char *root, const char *folder);

/* The two numbers that a file of a group may have; NAN: "max", or -1 in version 1. */
static void read_numbers(const char *root, const char *folder, const char *file,
                         double numbers[2])
{
    char path[PATH_MAX];
    char text[64] = "";

    if (snprintf(path, sizeof(path), "%s/%s", folder, file) < (int)sizeof(path)) {
        (void)procfs_read(root, path, text, sizeof(text));
    }
    numbers[0] = procfs_number(text);
    numbers[1] = procfs_number(text + strcspn(text, " "));
}

static double memory_of(const char *root, const char *folder, const char *file)
{
    double numbers[2];

    read_numbers(root, folder, file, numbers);
    return numbers[0] <= UNLIMITED ? numbers[0] : (double)INFINITY;
}

static double memory_2(const char *root, const char *folder)
{
    return memory_of(root, folder, "memory.max");
}

static double memory_1(const char *root, const char *folder)
{
    return memory_of(root, folder, "memory.limit_in_bytes");
}

static double cpus_of(double quota, double period)
{
    return quota >= 0 && period > 0 ? quota / period : (double)INFINITY;
}

static double cpus_2(const char *root, const char *folder)
{
    double numbers[2];

    read_numbers(root, folder, "cpu.max", numbers);
    return cpus_of(numbers[0], numbers[1]);
}

static double cpus_1(const char *root, const char *folder)
{
    double quota[2];
    double period[2];

    read_numbers(root, folder, "cpu.cfs_quota_us", quota);
    read_numbers(root, folder, "cpu.cfs_period_us", period);
    return cpus_of(quota[0], period[0]);
}

/*
 * The smallest limit of a group and those above it. In a container the path may be the one that
 * it has outside: then only the group at the top of the mount is there, which is ours.
 */
static double least_limit(const char *root, const char *mount, struct span group, limit_fn fn)
{
    double least = (double)INFINITY;
    char folder[PATH_MAX];

    for (;;) {
        while (group.len > 0 && group.ptr[group.len - 1] == '/') {
            group.len--;
        }
        if (snprintf(folder, sizeof(folder), "/sys/fs/cgroup%s%.*s", mount, (int)group.len,
                     group.ptr) < (int)sizeof(folder)) {
            const double limit = fn(root, folder);

            least = limit < least ? limit : least;
        }
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

/* The smallest limit of a controller in the groups of a process, of either version. */
static double limit_of_groups(const char *root, const char *process, const char *controller,
                              limit_fn of_1, limit_fn of_2)
{
    double least = (double)NAN; /* no line of this form */
    char path[64];
    char mount[16];
    char text[8192];

    snprintf(mount, sizeof(mount), "/%s", controller);
    snprintf(path, sizeof(path), "/proc/%s/cgroup", process);
    if (!procfs_read(root, path, text, sizeof(text))) {
        return (double)NAN;
    }
    /* Each line is number:controllers:path, and that of version 2 is 0::path. */
    for (struct span rest = span_str(text); rest.len > 0;) {
        struct span line = span_cut(&rest, '\n');
        struct span number, controllers, group;
        double limit = (double)INFINITY;

        if (!span_split(line, ':', &number, &line) ||
            !span_split(line, ':', &controllers, &group)) {
            continue;
        }
        if (controllers.len == 0) {
            limit = least_limit(root, "", group, of_2);
        } else if (has_controller(controllers, controller)) {
            limit = least_limit(root, mount, group, of_1);
        }
        least = least <= limit ? least : limit;
    }
    return least;
}

double procfs_group_memory(const char *root, const char *process)
{
    return limit_of_groups(root, process, "memory", memory_1, memory_2);
}

double procfs_group_cpus(const char *root, const char *process)
{
    return limit_of_groups(root, process, "cpu", cpus_1, cpus_2);
}
