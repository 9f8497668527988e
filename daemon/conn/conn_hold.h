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

/* More is on the disk: let go of those whose replies waited for that. Context: worker. */
void conn_hold_release(struct worker *w);

/* Close those that wait although nothing is done any more. Context: worker. */
void conn_hold_check(struct worker *w);

#endif
