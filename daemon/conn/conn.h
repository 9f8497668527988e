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
#include "daemon/stats/stats.h"
#include "daemon/worker/crew.h"
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

/* Serve those that yielded, one turn each. Context: worker. */
void conn_serve_ready(struct worker *w);

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

/* struct stats_sources: each_conn(). */
bool conn_each(struct worker *w, uint64_t *cursor, uint32_t max, stats_socket_fn fn, void *arg);

/* What this folder does on a worker's thread. */
extern const struct worker_duties conn_duties;

#endif
