/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The memory and CPUs that the machine allows the server (daemon/base/machine.h), at the start
 * and while it serves. Options that were set to a share of the machine follow changes.
 */
#ifndef MAYFLY_DAEMON_SERVICE_HOST_H
#define MAYFLY_DAEMON_SERVICE_HOST_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

struct server;
struct settings;

/* The machine's memory and CPUs when the number of an option was last refused. */
struct host_refusal {
    bool is_there;
    uint32_t cpus;
    uint64_t memory;
};

struct host_watch {
    /* [main] */
    uv_timer_t timer;
    struct host_refusal refusals[2]; /* of memory_limit and threads */
};

/* Memory of the process at the limit, in bytes: -m and the overhead. Context: main. */
uint64_t host_memory_need(const struct settings *settings);

/*
 * Log the numbers of options that were set to a share of the machine, and what does not fit, a
 * line for each. Context: main, before start.
 */
void host_log(const struct settings *settings);

/* Start checking the machine every few seconds. Context: main. */
void host_begin(struct server *s);

#endif
