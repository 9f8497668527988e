/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a connection waits for next. Its state (enum conn_state) is set only here, together with
 * what follows from it: the events that its poll handle is armed for, and the list that it is
 * parked in. So these cannot disagree.
 */
#ifndef MAYFLY_DAEMON_CONN_CONN_SETTLE_H
#define MAYFLY_DAEMON_CONN_CONN_SETTLE_H

#include "daemon/conn/conn_state.h"

/*
 * Call after each event or turn: the connection waits until its replies are sent, and then for
 * conn.then, which its last turn has set; or it is closed. Context: worker.
 */
void conn_settle(struct conn *c);

/*
 * Set the state of a connection. If it is parked in this state already it keeps its place;
 * otherwise it leaves its list. Context: worker.
 */
void conn_enter(struct conn *c, enum conn_state state);

/* Take it out of the list that it is parked in, if any. Context: worker. */
void conn_unpark(struct conn *c);

/* Append it to this list of parked connections. Context: worker. */
void conn_park(struct conn *c, enum conn_park where);

/* Begin to close; it is released in the close callback. Context: worker. */
void conn_close(struct conn *c);

/*
 * Release a connection and close its socket, after the loop has released its poll handle.
 * Context: worker.
 */
void conn_release(struct conn *c);

/*
 * Close it because clients have to find another server. These stay: connections of the
 * operator, those with a service, those that wait for an answer. Context: worker, outside a
 * section.
 */
void conn_dismiss(struct conn *c);

/*
 * Leave every state and list, because the connection is about to leave its worker. On the new
 * worker, conn_settle() sets its state again. Context: worker.
 */
void conn_leave_state(struct conn *c);

/*
 * The state of its login has changed: set or clear its time limit, and close the connection
 * after too many failures. Context: worker.
 */
void conn_note_login(struct conn *c);

/* Poll for these events of libuv; 0: none. Context: worker. */
void conn_arm(struct conn *c, int events);

#endif
