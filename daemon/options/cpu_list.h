/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The value of the option worker_cpus: the CPUs that worker threads are pinned to, as numbers
 * and ranges of numbers separated by commas, "0-3,8". Worker i is pinned to the i-th of them,
 * modulo their number.
 */
#ifndef MAYFLY_DAEMON_OPTIONS_CPU_LIST_H
#define MAYFLY_DAEMON_OPTIONS_CPU_LIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct settings;

/* CPUs that there may be, as in a cpu_set_t of the C library. */
#define CPU_LIST_MAX 1024u

struct cpu_list {
    uint32_t count; /* 0: workers are not pinned */
    uint16_t cpu[CPU_LIST_MAX];
};

/*
 * Read such a text; an empty one is an empty list. False: it is something else, and `why` has
 * the reason. Context: any thread.
 */
bool cpu_list_parse(const char *text, struct cpu_list *list, char *why, size_t why_bytes);

/*
 * May this process use each of them, and pin threads at all? Returns as cpu_list_parse().
 * Context: main, which is never pinned.
 */
bool cpu_list_check(const struct cpu_list *list, char *why, size_t why_bytes);

/* cpu_list_parse() of worker_cpus in these settings. Context: any thread. */
bool cpu_list_read(const struct settings *s, struct cpu_list *list, char *why,
                   size_t why_bytes);

/* Do they name a list that passes cpu_list_check()? Returns and context as that. */
bool cpu_list_is_usable(const struct settings *s, char *why, size_t why_bytes);

#endif
