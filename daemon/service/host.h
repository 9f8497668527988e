/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The machine around the process, as far as it can spoil what the options promise.
 */
#ifndef MAYFLY_DAEMON_SERVICE_HOST_H
#define MAYFLY_DAEMON_SERVICE_HOST_H

#include <stdbool.h>
#include <stdint.h>

struct settings;

/*
 * The memory that the control groups of this process leave it, of version 2 (memory.max) or 1
 * (memory.limit_in_bytes), and of those above them as far as they can be seen; UINT64_MAX: no
 * limit. root: the folder in which proc and sys are, "" for the system's. Context: main.
 */
uint64_t host_memory_max(const char *root);

/* Do all programs get huge pages, whether they ask or not? root as above. Context: main. */
bool host_has_thp_always(const char *root);

/* What the process may take when it is full: -m and what comes with it. Context: main. */
uint64_t host_memory_need(const struct settings *settings);

/* Say what of that does not fit, a line for each. Context: main, before start. */
void host_log(const struct settings *settings, const char *root);

#endif
