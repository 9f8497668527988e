/* SPDX-License-Identifier: BSD-3-Clause */
#include "ctl/host.h"

#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/num.h"
#include "lib/link/link.h"

#define FILE_BYTES 8192

/* The beginning of a file as a text; false: it cannot be read. */
static bool slurp(const char *root, const char *path, char text[FILE_BYTES])
{
    char whole[PATH_MAX];
    ssize_t n;
    int fd;

    if (snprintf(whole, sizeof(whole), "%s%s", root, path) >= (int)sizeof(whole)) {
        return false;
    }
    fd = open(whole, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return false;
    }
    n = read(fd, text, FILE_BYTES - 1);
    (void)close(fd);
    text[n > 0 ? n : 0] = '\0';
    return n > 0;
}

/* The number that a text begins with, after blanks. */
static double number_at(const char *text)
{
    uint64_t v;

    text += strspn(text, " \t");
    return num_u64(span_of(text, strspn(text, "0123456789")), &v) == MF_OK ? (double)v
                                                                           : (double)NAN;
}

static double read_number(const char *root, const char *path)
{
    char text[FILE_BYTES];

    return slurp(root, path, text) ? number_at(text) : (double)NAN;
}

/* The number after a name, such as "VmRSS:"; names stand at the beginning of lines. */
static double number_after(const char *text, const char *name)
{
    size_t n = strlen(name);

    while (text != NULL && strncmp(text, name, n) != 0) {
        text = strchr(text, '\n');
        text = text != NULL ? text + 1 : NULL;
    }
    return text != NULL ? number_at(text + n) : (double)NAN;
}

/* ---- of the process ---------------------------------------------------------------------- */

/* The least memory.max of a group (of the one hierarchy) and those that it is in. */
static double least_limit(const char *root, const char *groups)
{
    double least = (double)INFINITY;
    char group[PATH_MAX - 64];
    const char *line = groups;
    size_t len;

    while (line != NULL && strncmp(line, "0::/", 4) != 0) {
        line = strchr(line, '\n');
        line = line != NULL ? line + 1 : NULL;
    }
    if (line == NULL) {
        return (double)NAN; /* not of version 2 */
    }
    len = strcspn(line + 3, "\n");
    if (len >= sizeof(group)) {
        return (double)NAN;
    }
    memcpy(group, line + 3, len);
    group[len] = '\0';
    for (;;) {
        char path[PATH_MAX];
        double v;

        snprintf(path, sizeof(path), "/sys/fs/cgroup%s/memory.max",
                 strcmp(group, "/") == 0 ? "" : group);
        v = read_number(root, path); /* "max" is no number */
        least = v < least ? v : least;
        if (len <= 1) {
            return least;
        }
        while (len > 1 && group[len - 1] != '/') {
            len--;
        }
        len -= len > 1 ? 1 : 0;
        group[len] = '\0';
    }
}

static void read_process(struct host *h, const char *root, int pid)
{
    char path[64];
    char text[FILE_BYTES];

    snprintf(path, sizeof(path), "/proc/%d/status", pid);
    if (slurp(root, path, text)) {
        h->has_process = true;
        h->resident_bytes = number_after(text, "VmRSS:") * 1024;
        h->swapped_bytes = number_after(text, "VmSwap:") * 1024;
    }
    snprintf(path, sizeof(path), "/proc/%d/limits", pid);
    if (slurp(root, path, text)) {
        h->files_max = number_after(text, "Max open files");
    }
    snprintf(path, sizeof(path), "/proc/%d/cgroup", pid);
    if (slurp(root, path, text)) {
        h->cgroup_bytes = least_limit(root, text);
    }
}

int host_pid(const struct ctl *c, const struct stats *general)
{
    double pid = stats_get(general, "pid");
    char path[64];
    char name[FILE_BYTES];

    if (c->link == NULL || !link_is_local(c->link) || !(pid >= 1 && pid <= INT_MAX)) {
        return 0;
    }
    snprintf(path, sizeof(path), "/proc/%d/comm", (int)pid);
    if (!slurp(HOST_ROOT, path, name) || strstr(name, "mayflyd") == NULL) {
        return 0;
    }
    return (int)pid;
}

/* ---- of the host ------------------------------------------------------------------------- */

/* The word in brackets: "always [madvise] never". */
static void read_choice(const char *root, const char *path, char *out, size_t room)
{
    char text[FILE_BYTES];
    const char *begin;

    if (slurp(root, path, text) && (begin = strchr(text, '[')) != NULL) {
        snprintf(out, room, "%.*s", (int)strcspn(begin + 1, "]\n"), begin + 1);
    }
}

void host_read(struct host *h, const char *root, int pid)
{
    char text[FILE_BYTES];

    memset(h, 0, sizeof(*h));
    h->resident_bytes = h->swapped_bytes = h->files_max = h->cgroup_bytes = (double)NAN;
    if (pid > 0) {
        read_process(h, root, pid);
    }
    h->memory_bytes = slurp(root, "/proc/meminfo", text)
                          ? number_after(text, "MemTotal:") * 1024
                          : (double)NAN;
    h->overcommit = read_number(root, "/proc/sys/vm/overcommit_memory");
    h->backlog_max = read_number(root, "/proc/sys/net/core/somaxconn");
    read_choice(root, "/sys/kernel/mm/transparent_hugepage/enabled", h->huge_pages,
                sizeof(h->huge_pages));
    if (slurp(root, "/sys/devices/system/clocksource/clocksource0/current_clocksource", text)) {
        snprintf(h->clock, sizeof(h->clock), "%.*s", (int)strcspn(text, "\n"), text);
    }
}
