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
 * From time to time while the worker stops: close connections that linger when the peer has
 * everything and has been quiet for a while; in the phase of finishing, drop what was received
 * after the reply that was begun. Context: worker, outside a section.
 */
void conn_drain_check(struct worker *w);

/* So many bytes were read since the stop. Context: worker. */
void conn_drain_count(struct conn *c, uint64_t bytes);

/*
 * All replies are with the kernel: announce the end and linger. It may be called again until
 * the end is announced. Context: worker, outside a section.
 */
void conn_drain_end(struct conn *c);

/* An event of a connection whose end was begun. Context: worker, outside a section. */
void conn_drain_event(struct conn *c);

#endif
