/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reads files of /proc and /sys, and the limits of control groups (version 2 or 1).
 *
 * root: the folder in which proc and sys are looked for, for tests; "" is the system's.
 * Context: any thread, for all.
 */
#ifndef MAYFLY_LIB_BASE_PROCFS_H
#define MAYFLY_LIB_BASE_PROCFS_H

#include <stdbool.h>
#include <stddef.h>

/* The beginning of a file as a text. False: it cannot be read, or is empty. */
bool procfs_read(const char *root, const char *path, char *text, size_t size);

/* The whole number that a text begins with, after blanks; NAN: there is none. */
double procfs_number(const char *text);

/*
 * The smallest limit in the groups of a process, which is "self" or a number, and those above
 * them that are visible: bytes of memory (memory.max or memory.limit_in_bytes), CPUs (cpu.max
 * or cpu.cfs_quota_us). INFINITY: there is no limit; NAN: the groups cannot be read.
 */
double procfs_group_memory(const char *root, const char *process);
double procfs_group_cpus(const char *root, const char *process);

#endif
