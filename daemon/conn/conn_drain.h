/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The end of all connections when the server stops. What was received whole before the stop is
 * answered whole. Then the peer is told that nothing more comes, and the connection lingers:
 * what the peer still sends is read and dropped until it closes too. A close with unread input
 * would be a reset, and a reset destroys the answers that are still on their way.
 */
#ifndef MAYFLY_DAEMON_CONN_CONN_DRAIN_H
#define MAYFLY_DAEMON_CONN_CONN_DRAIN_H

#include <stdbool.h>
#include <stdint.h>

struct conn;
struct worker;

/*
 * The worker stops: let a connection finish what was begun. If the time for that is over, it is
 * closed as it stands. Context: worker, outside a section.
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
