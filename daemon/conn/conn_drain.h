/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Closing all connections when the server stops. Requests received completely before the stop
 * are answered completely. Then the server shuts its side down, and the connection lingers: it
 * reads and drops what the peer still sends until the peer closes too. Closing with unread
 * input would send a reset, and a reset destroys answers in transit.
 */
#ifndef MAYFLY_DAEMON_CONN_CONN_DRAIN_H
#define MAYFLY_DAEMON_CONN_CONN_DRAIN_H

#include <stdbool.h>
#include <stdint.h>

struct conn;
struct worker;

/*
 * The worker stops: let a connection finish what it began. If the time for that is over, close
 * it in its present state. Context: worker, outside a section.
 */
void conn_drain(struct conn *c);

/* The same for all connections. Context: worker, outside a section. */
void conn_drain_all(struct worker *w);

/*
 * Called regularly while the worker stops. Closes lingering connections whose peer has
 * acknowledged everything and has been quiet for a while. In the finishing phase, drops input
 * that follows the reply in progress. Context: worker, outside a section.
 */
void conn_drain_check(struct worker *w);

/* Count bytes read since the stop. Context: worker. */
void conn_drain_count(struct conn *c, uint64_t bytes);

/*
 * The kernel has all replies: shut down the sending side and linger. Call it again until the
 * shutdown has succeeded. Context: worker, outside a section.
 */
void conn_drain_end(struct conn *c);

/* An event of a connection whose end was begun. Context: worker, outside a section. */
void conn_drain_event(struct conn *c);

#endif
