/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Notifies the service manager while the server runs: that it is alive, if the manager has a
 * watchdog, and a line of status. Without a manager there is no timer.
 *
 * The server is alive if main's loop turns and every worker has answered since the last notice
 * (pulse.h). So a server with a stuck worker is restarted, and a busy one is not.
 */
#ifndef MAYFLY_DAEMON_SERVICE_VIGIL_H
#define MAYFLY_DAEMON_SERVICE_VIGIL_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

struct server;

struct vigil {
    /* [main] */
    uv_timer_t timer;
    bool is_open;
    bool has_watchdog;
    uint64_t period_ms;
    uint64_t status_due_ms; /* by the loop's clock */
    uint64_t gets, hits;    /* at the last status line */
};

/* Begin, now that clients are served. Returns 0 or a libuv error. Context: main. */
int vigil_begin(struct server *s);

/* Close the timer, if there is one; main's loop runs once more after that. Context: main. */
void vigil_end(struct server *s);

#endif
