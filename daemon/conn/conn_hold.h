/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connections whose replies wait for the log (`appendfsync=always`): changes are answered when
 * they are on the disk. Meanwhile the replies are in the connection's queue, and the connection
 * is not read. Other connections of the worker go on. A connection that waits for too long is
 * closed: its client cannot know the result of its requests then. On the connection's worker.
 */
#ifndef MAYFLY_DAEMON_CONN_CONN_HOLD_H
#define MAYFLY_DAEMON_CONN_CONN_HOLD_H

#include "daemon/conn/conn_state.h"

/* Time after which it is closed. */
#define CONN_HOLD_MS 10000

/* Must what is in its queue wait? If so it is called when it need not. Context: worker. */
bool conn_hold(struct conn *c);

/* The waiting connection that is released first; NULL: none waits. Context: worker. */
struct conn *conn_hold_first(const struct worker *w);

/* Has the log reached what this connection waits for? Context: worker. */
bool conn_hold_is_done(const struct conn *c);

#endif
