/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connections whose replies wait for the log (`appendfsync=always`): what they were told to
 * change is answered when it is on the disk. Replies are in the connection's queue meanwhile,
 * and nothing more is read of it; others of the same worker go on. One that waits for too long
 * is closed: what has become of its requests is not known then. On the connection's worker.
 */
#ifndef MAYFLY_DAEMON_CONN_CONN_HOLD_H
#define MAYFLY_DAEMON_CONN_CONN_HOLD_H

#include "daemon/conn/conn_state.h"

/* It is closed after so long. */
#define CONN_HOLD_MS 10000

/* Must what is in its queue wait? If so it is called when it need not. Context: worker. */
bool conn_hold(struct conn *c);

/* The one of those that wait that is to go on first; NULL: none waits. Context: worker. */
struct conn *conn_hold_first(const struct worker *w);

/* Does the log have what one that waits has to wait for? Context: worker. */
bool conn_hold_is_done(const struct conn *c);

#endif
