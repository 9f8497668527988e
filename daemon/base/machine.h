/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The memory and CPUs that the machine and the control groups (version 2 or 1) allow this
 * process: the smallest limit of its group and of the visible groups above it.
 *
 * machine_look() reads them again; other threads get the latest values.
 */
#ifndef MAYFLY_DAEMON_BASE_MACHINE_H
#define MAYFLY_DAEMON_BASE_MACHINE_H

#include <stdbool.h>
#include <stdint.h>

/* Environment variable with the folder that has proc and sys, for tests. */
#define MACHINE_ROOT_VARIABLE "MAYFLY_MACHINE_ROOT"

/* That folder; "" for the system's. Context: main. */
const char *machine_root(void);

/*
 * The limit on memory of the groups (memory.max or memory.limit_in_bytes); UINT64_MAX: none.
 * root: as machine_root(). Context: main.
 */
uint64_t machine_group_memory(const char *root);

/* Are transparent huge pages set to "always"? root as above. Context: main. */
bool machine_has_thp_always(const char *root);

/* Read memory and CPUs. Context: main. */
void machine_look(void);

/* Bytes: the limit of the groups, at most the machine's memory. 0: not known. Context: any
 * thread. */
uint64_t machine_memory(void);

/* Is machine_memory() the limit of a group? Context: any thread. */
bool machine_memory_is_of_group(void);

/*
 * CPUs: those of the affinity, at most the quota of the groups (cpu.max or cpu.cfs_quota_us)
 * rounded up; at least 1 once machine_look() was called. Context: any thread.
 */
uint32_t machine_cpus(void);

#endif
