/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See machine.h. What cannot be read counts as no limit.
 */
#include "daemon/base/machine.h"

#include <math.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "lib/base/context.h"
#include "lib/base/procfs.h"

/* Kibibytes from which on a number of them is no limit: no more fit into 64 bits of bytes. */
#define UNLIMITED_KIB ((double)((uint64_t)1 << 52))

/* [atomic] what machine_look() found; written by main */
static _Atomic uint64_t memory_found;
static _Atomic uint32_t cpus_found;
static _Atomic bool is_of_group;

uint64_t machine_group_memory(const char *root)
{
    must_be_main();
    const double limit = procfs_group_memory(root, "self");
    return isfinite(limit) ? (uint64_t)limit : UINT64_MAX;
}

/* ---- the machine ------------------------------------------------------------------------- */

/* MemTotal of meminfo; UINT64_MAX: it cannot be read. */
static uint64_t memory_in_meminfo(const char *root)
{
    static const char name[] = "MemTotal:";
    char text[256];
    const char *at =
        procfs_read(root, "/proc/meminfo", text, sizeof(text)) ? strstr(text, name) : NULL;
    const double kib = at != NULL ? procfs_number(at + strlen(name)) : (double)NAN;

    return kib < UNLIMITED_KIB ? (uint64_t)kib << 10 : UINT64_MAX;
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

/* The quota is rounded up. */
static uint32_t cpus_of(const char *root)
{
    const uint64_t allowed = cpus_allowed();
    const double quota = procfs_group_cpus(root, "self");
    uint64_t count = quota < (double)allowed ? (uint64_t)quota : allowed;

    count += (double)count < quota && count < allowed;
    return count > 0 ? (uint32_t)count : 1;
}

bool machine_has_thp_always(const char *root)
{
    char text[128];

    must_be_main();
    return procfs_read(root, "/sys/kernel/mm/transparent_hugepage/enabled", text,
                       sizeof(text)) &&
           strstr(text, "[always]") != NULL;
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
    atomic_store_explicit(&cpus_found, cpus_of(root), memory_order_relaxed);
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
