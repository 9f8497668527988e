/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The check of all connections of a worker, and the end of all when it stops.
 */
#ifndef MAYFLY_DAEMON_CONN_CONN_SCAN_H
#define MAYFLY_DAEMON_CONN_CONN_SCAN_H

#include "lib/base/clock.h"

struct conn;
struct worker;

/*
 * Once a second or so: close idle connections (settings.idle_timeout), drop clients that pin
 * too much dead memory. Context: worker.
 */
void conn_scan(struct worker *w, msec_t now);

/* The worker stops: finish what was begun, then close. Context: worker. */
void conn_drain(struct conn *c);

/*
 * The same for all: what was read is executed and answered, what is queued is sent while the
 * socket takes it; then they close. Context: worker.
 */
void conn_drain_all(struct worker *w);

#endif
