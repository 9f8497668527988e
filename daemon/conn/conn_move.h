/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Moving connections to another worker, because the number of serving workers has changed
 * (daemon/worker/roster.h). A leaving worker moves all its connections. Another worker moves
 * its surplus over the worker with the fewest. No connection is closed, and no byte is lost:
 * input that was not executed, replies that were not sent (including pinned values and dumps),
 * the login and the TLS session move too.
 *
 * A connection moves between two turns. It does not move during an operation that ends by
 * itself: an upload, a wait for room, for the log or for replicas, a late answer, a handshake,
 * a login with a time limit. A leaving worker checks these connections again after each turn.
 * Endless or long operations move with the connection: watching, an export, a replica's
 * connection. Other threads know the relay of these (daemon/base/relay.h), not the worker.
 *
 * The connection leaves all lists and accounts of its worker, and its poll handle is closed.
 * When the loop has released the handle, the connection is posted to the other worker, which
 * adopts it. That worker then applies the notices that all connections got meanwhile.
 */
#ifndef MAYFLY_DAEMON_CONN_CONN_MOVE_H
#define MAYFLY_DAEMON_CONN_CONN_MOVE_H

#include <stdbool.h>

struct conn;
struct worker;

/*
 * Move a connection to this worker. False: it cannot move now, and is unchanged. Context:
 * worker, outside a section, before the loop blocks.
 */
bool conn_move_to(struct conn *c, struct worker *to);

/* worker_duties. Context: worker, outside a section. */
void conn_move_begin(struct worker *w);
bool conn_move_some(struct worker *w);

#endif
