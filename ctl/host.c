/* SPDX-License-Identifier: BSD-3-Clause */
#include "ctl/host.h"

#include <dirent.h>
#include <limits.h>
#include <math.h>
#include <string.h>

#include "lib/base/num.h"
#include "lib/base/procfs.h"
#include "lib/link/link.h"

#define FILE_BYTES 8192

static double read_number(const char *root, const char *path)
{
    char text[FILE_BYTES];

    return procfs_read(root, path, text, sizeof(text)) ? procfs_number(text) : (double)NAN;
}

/* The number after a name at the beginning of a line, such as "VmRSS:". */
static double number_after(const char *text, const char *name)
{
    size_t n = strlen(name);

    while (text != NULL && strncmp(text, name, n) != 0) {
        text = strchr(text, '\n');
        text = text != NULL ? text + 1 : NULL;
    }
    return text != NULL ? procfs_number(text + n) : (double)NAN;
}

/* ---- of the process ---------------------------------------------------------------------- */

/* How many numbers are in the list after a name, such as "0-3,8". NAN: there is no list. */
static double count_listed(const char *text, const char *name)
{
    const char *at = strstr(text, name);
    double count = 0;

    if (at == NULL) {
        return (double)NAN;
    }
    at += strlen(name);
    at += strspn(at, " \t");
    while (*at >= '0' && *at <= '9') {
        const double first = procfs_number(at);
        double last = first;

        at += strspn(at, "0123456789");
        if (*at == '-') {
            last = procfs_number(++at);
            at += strspn(at, "0123456789");
        }
        count += last >= first ? last - first + 1 : 0;
        at += *at == ',';
    }
    return count > 0 ? count : (double)NAN;
}

static void read_process(struct host *h, const char *root, int pid)
{
    char path[64];
    char text[FILE_BYTES];

    snprintf(path, sizeof(path), "/proc/%d/status", pid);
    if (procfs_read(root, path, text, sizeof(text))) {
        h->has_process = true;
        h->resident_bytes = number_after(text, "VmRSS:") * 1024;
        h->swapped_bytes = number_after(text, "VmSwap:") * 1024;
        h->cpus_allowed = count_listed(text, "Cpus_allowed_list:");
    }
    snprintf(path, sizeof(path), "/proc/%d/limits", pid);
    if (procfs_read(root, path, text, sizeof(text))) {
        h->files_max = number_after(text, "Max open files");
    }
    snprintf(path, sizeof(path), "%d", pid);
    const double quota = procfs_group_cpus(root, path);
    h->cgroup_bytes = procfs_group_memory(root, path);
    h->cpus_allowed = quota < h->cpus_allowed ? quota : h->cpus_allowed;
}

/* ---- what CPUs and workers do ------------------------------------------------------------ */

/*
 * Read the CPU times of the host from "cpu  user nice system idle iowait ...". A line for each
 * CPU follows.
 */
static bool read_cpus(struct host_load *l, const char *root)
{
    char text[FILE_BYTES];
    const char *at = text;

    if (!procfs_read(root, "/proc/stat", text, sizeof(text)) || strncmp(text, "cpu ", 4) != 0) {
        return false;
    }
    at += 4;
    for (unsigned i = 0; i < 8; i++) {
        const double ticks = procfs_number(at);

        if (isnan(ticks)) {
            break;
        }
        l->all += ticks;
        l->idle += i == 3 || i == 4 ? ticks : 0;
        at += strspn(at, " ");
        at += strcspn(at, " \n");
    }
    while ((at = strchr(at, '\n')) != NULL && strncmp(at, "\ncpu", 4) == 0) {
        at++;
        l->cpus++;
    }
    return l->cpus > 0;
}

/* Read a thread from "7 (mayfly-w0) S ...". Fields 14 and 15 are its user and system time. */
static void read_thread(struct host_load *l, const char *text)
{
    static const char begin[] = "(mayfly-w";
    const char *name = strstr(text, begin);
    const char *at = strrchr(text, ')');
    uint32_t number;
    double ticks = 0;

    if (name == NULL || at == NULL) {
        return;
    }
    name += sizeof(begin) - 1;
    if (at < name || num_u32(span_of(name, (size_t)(at - name)), &number) != MF_OK ||
        number >= HOST_WORKERS_MAX) {
        return;
    }
    for (unsigned field = 3; field <= 15; field++) {
        at += strcspn(at, " ");
        at += strspn(at, " ");
        ticks += field >= 14 ? procfs_number(at) : 0;
    }
    l->worker[number] = ticks;
}

bool host_load_read(struct host_load *l, const char *root, int pid)
{
    char path[PATH_MAX];
    char text[FILE_BYTES];
    const struct dirent *entry;
    DIR *dir;

    memset(l, 0, sizeof(*l));
    for (unsigned i = 0; i < HOST_WORKERS_MAX; i++) {
        l->worker[i] = (double)NAN;
    }
    snprintf(path, sizeof(path), "%s/proc/%d/task", root, pid);
    dir = read_cpus(l, root) && pid > 0 ? opendir(path) : NULL;
    if (dir == NULL) {
        return false;
    }
    while ((entry = readdir(dir)) != NULL) {
        snprintf(path, sizeof(path), "/proc/%d/task/%s/stat", pid, entry->d_name);
        if (entry->d_name[0] != '.' && procfs_read(root, path, text, sizeof(text))) {
            read_thread(l, text);
        }
    }
    (void)closedir(dir);
    return true;
}

/* A worker that uses this part of a CPU counts as full. */
#define FULL_SHARE 0.9

void host_judge_load(struct host *h, const struct host_load *before,
                     const struct host_load *after, unsigned workers)
{
    const double passed = after->cpus > 0 ? (after->all - before->all) / after->cpus : 0;

    if (!(passed > 0)) {
        return;
    }
    h->cpus_idle = (after->idle - before->idle) / passed;
    for (unsigned i = 0; i < workers && i < HOST_WORKERS_MAX; i++) {
        const double share = (after->worker[i] - before->worker[i]) / passed;

        if (isnan(share)) {
            continue;
        }
        h->busiest = h->workers == 0 || share > h->busiest ? share : h->busiest;
        h->idlest = h->workers == 0 || share < h->idlest ? share : h->idlest;
        h->workers++;
        h->workers_full += share > FULL_SHARE;
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
    if (!procfs_read(HOST_ROOT, path, name, sizeof(name)) || strstr(name, "mayflyd") == NULL) {
        return 0;
    }
    return (int)pid;
}

/* ---- of the host ------------------------------------------------------------------------- */

/* Read the word in brackets, as in "always [madvise] never". */
static void read_choice(const char *root, const char *path, char *out, size_t room)
{
    char text[FILE_BYTES];
    const char *begin;

    if (procfs_read(root, path, text, sizeof(text)) && (begin = strchr(text, '[')) != NULL) {
        snprintf(out, room, "%.*s", (int)strcspn(begin + 1, "]\n"), begin + 1);
    }
}

void host_read(struct host *h, const char *root, int pid)
{
    struct host_load load = {.all = 0};
    char text[FILE_BYTES];

    memset(h, 0, sizeof(*h));
    h->resident_bytes = h->swapped_bytes = h->files_max = h->cgroup_bytes = (double)NAN;
    h->cpus_allowed = h->cpus_idle = (double)NAN;
    if (pid > 0) {
        read_process(h, root, pid);
    }
    h->memory_bytes = procfs_read(root, "/proc/meminfo", text, sizeof(text))
                          ? number_after(text, "MemTotal:") * 1024
                          : (double)NAN;
    h->cpus = read_cpus(&load, root) ? load.cpus : (double)NAN;
    h->overcommit = read_number(root, "/proc/sys/vm/overcommit_memory");
    h->backlog_max = read_number(root, "/proc/sys/net/core/somaxconn");
    read_choice(root, "/sys/kernel/mm/transparent_hugepage/enabled", h->huge_pages,
                sizeof(h->huge_pages));
    if (procfs_read(root, "/sys/devices/system/clocksource/clocksource0/current_clocksource",
                    text, sizeof(text))) {
        snprintf(h->clock, sizeof(h->clock), "%.*s", (int)strcspn(text, "\n"), text);
    }
}
