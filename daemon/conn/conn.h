/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One connection: read, parse, execute, answer, fairness, close. It lives on one worker all
 * its life.
 */
#ifndef MAYFLY_DAEMON_CONN_CONN_H
#define MAYFLY_DAEMON_CONN_CONN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "daemon/net/origin.h"
#include "lib/base/clock.h"

struct conn;
struct worker;

/*
 * Take over an accepted, non-blocking socket; owns the descriptor from here on, also on failure
 * (false: no memory; it is closed). Borrows the origin for the connection's life. Context:
 * worker.
 */
bool conn_adopt(struct worker *w, int fd, const struct conn_origin *origin);

/*
 * Serve the connections of the round: their input was read and waits in the worker's buffer,
 * which is free then. Context: worker, outside a section.
 */
void conn_round_run(struct worker *w);

/* Begin to close; it is released in the close callback. Context: worker. */
void conn_close(struct conn *c);

/*
 * Serve those that yielded, one turn each. True when some are still waiting. Context: worker.
 */
bool conn_serve_ready(struct worker *w);

/*
 * Once a second or so: close idle connections (settings.idle_timeout), retry stores that wait
 * for room, drop clients that pin too much dead memory. Context: worker.
 */
void conn_scan(struct worker *w, msec_t now);

/*
 * Stop: what was read is executed and answered, what is queued is flushed while the socket
 * takes it; then close. Context: worker.
 */
void conn_drain_all(struct worker *w);

/* One line group of `stats conns`. */
struct conn_info {
    int fd;
    enum conn_transport transport;
    const char *tag;   /* of the socket that it came by; empty: none */
    const char *state; /* memcached's names: conn_read, conn_nread, conn_mwrite ... */
    msec_t last_cmd;
    uint32_t resps_waiting;
    char addr[128]; /* tcp:127.0.0.1:53412, tcp6:[::1]:..., unix:path */
    char listen_addr[128];
};

/*
 * Calls fn for the next `max` connections of this worker, the newest first. *cursor is 0 at the
 * beginning; connections may come and go between calls: those that stay are seen once. False:
 * that were the last. Context: that worker.
 */
bool conn_each(struct worker *w, uint64_t *cursor, uint32_t max,
               void (*fn)(void *arg, const struct conn_info *info), void *arg);

#endif
