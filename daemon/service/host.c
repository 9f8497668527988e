/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See host.h. What cannot be read counts as no limit: it is for warnings only.
 */
#include "daemon/service/host.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "daemon/base/file.h"
#include "daemon/base/log.h"
#include "daemon/options/settings.h"
#include "lib/base/context.h"
#include "lib/base/num.h"

/*
 * Resident beside -m and what connections keep (-o read_buf_mem_limit): the program, its
 * libraries, the stacks of threads, and the structs of connections. Measured, see HACKING.md.
 */
#define BESIDE_BYTES ((uint64_t)24 << 20)

/* What connections keep where the option is 0. */
#define KEPT_BYTES ((uint64_t)24 << 20)

/* Version 1 says "no limit" by the largest number of whole pages. */
#define UNLIMITED ((uint64_t)1 << 62)

/* ---- control groups ---------------------------------------------------------------------- */

static uint64_t read_limit(const char *root, const char *mount, struct span group,
                           const char *file)
{
    char path[PATH_MAX];
    char text[64];
    uint64_t limit;
    int n = snprintf(path, sizeof(path), "%s/sys/fs/cgroup%s%.*s/%s", root, mount,
                     (int)group.len, group.ptr, file);

    if (n < 0 || (size_t)n >= sizeof(path) || file_read_start(path, text, sizeof(text)) < 0 ||
        num_u64(span_of(text, strcspn(text, "\n")), &limit) != MF_OK || limit > UNLIMITED) {
        return UINT64_MAX; /* or "max" */
    }
    return limit;
}

/*
 * The smallest limit of a group and those above it. In a container the path may be the one that
 * it has outside: then only the group at the top of the mount is there, which is ours.
 */
static uint64_t least_limit(const char *root, const char *mount, struct span group,
                            const char *file)
{
    uint64_t least = UINT64_MAX;

    for (;;) {
        uint64_t limit;

        while (group.len > 0 && group.ptr[group.len - 1] == '/') {
            group.len--;
        }
        limit = read_limit(root, mount, group, file);
        least = limit < least ? limit : least;
        if (group.len == 0) {
            return least;
        }
        while (group.len > 0 && group.ptr[group.len - 1] != '/') {
            group.len--;
        }
    }
}

/* Is "memory" one of the controllers, which are separated by commas? */
static bool has_memory(struct span controllers)
{
    while (controllers.len > 0) {
        const char *comma = memchr(controllers.ptr, ',', controllers.len);
        const size_t len = comma != NULL ? (size_t)(comma - controllers.ptr) : controllers.len;
        const size_t used = len + (comma != NULL);

        if (span_is(span_of(controllers.ptr, len), "memory")) {
            return true;
        }
        controllers = span_of(controllers.ptr + used, controllers.len - used);
    }
    return false;
}

uint64_t host_memory_max(const char *root)
{
    uint64_t least = UINT64_MAX;
    char path[PATH_MAX];
    char text[4096];

    must_be_main();
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
                limit = least_limit(root, "", group, "memory.max");
            } else if (has_memory(controllers)) {
                limit = least_limit(root, "/memory", group, "memory.limit_in_bytes");
            }
        }
        least = limit < least ? limit : least;
        at += len + (at[len] == '\n');
    }
    return least;
}

/* ---- huge pages -------------------------------------------------------------------------- */

bool host_has_thp_always(const char *root)
{
    char path[PATH_MAX];
    char text[128];

    must_be_main();
    snprintf(path, sizeof(path), "%s/sys/kernel/mm/transparent_hugepage/enabled", root);
    return file_read_start(path, text, sizeof(text)) >= 0 && strstr(text, "[always]") != NULL;
}

/* ---- what is said ------------------------------------------------------------------------ */

uint64_t host_memory_need(const struct settings *settings)
{
    const uint64_t kept = setting_get(settings, read_buf_mem_limit_bytes);

    return setting_get(settings, memory_limit_bytes) + (kept > 0 ? kept : KEPT_BYTES) +
           BESIDE_BYTES;
}

void host_log(const struct settings *settings, const char *root)
{
    const uint64_t max = host_memory_max(root);
    const uint64_t need = host_memory_need(settings);

    must_be_main();
    if (max < need) {
        log_warn("host, the control group may take %" PRIu64
                 " megabytes of memory, and -m with what comes with it takes up to %" PRIu64
                 ": when the cache is full the system may kill it",
                 max >> 20, need >> 20);
    }
    if (host_has_thp_always(root)) {
        log_info("host, the system makes huge pages of all memory "
                 "(transparent_hugepage/enabled is always): what is beside -m may take more");
    }
}
