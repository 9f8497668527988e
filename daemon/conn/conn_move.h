/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connections that go to another worker, because the number of workers that serve has changed
 * (daemon/worker/roster.h). Of a worker that leaves all go; of another one as many as it has
 * more than the one that has fewest. Nothing is closed, and no byte is lost: what was read and
 * not executed goes along, and so does what was composed and not sent, pinned values and dumps
 * among them, the login, and the session of TLS.
 *
 * A connection goes between two turns. Not one that is in the middle of something that ends by
 * itself: an upload, a wait for room, for the log or for replicas, an answer that comes later,
 * a handshake, a login with a time limit; a worker that leaves looks at those again after each
 * turn. What goes on without an end, or for long, goes along: who watches, an export, a
 * replica's connection, of which other threads know the relay and not the worker
 * (daemon/base/relay.h).
 *
 * It leaves all lists and accounts of its worker, its poll handle is closed, and when the loop
 * has let go of that, it is posted to the other worker, which takes it up. That worker
 * then tells it what all connections were told meanwhile.
 */
#ifndef MAYFLY_DAEMON_CONN_CONN_MOVE_H
#define MAYFLY_DAEMON_CONN_CONN_MOVE_H

#include <stdbool.h>

struct conn;
struct worker;

/*
 * It goes to this worker. False: it cannot, and stays as it is. Context: worker, outside a
 * section, before the loop blocks.
 */
bool conn_move_to(struct conn *c, struct worker *to);

/* worker_duties. Context: worker, outside a section. */
void conn_move_begin(struct worker *w);
bool conn_move_some(struct worker *w);

#endif
