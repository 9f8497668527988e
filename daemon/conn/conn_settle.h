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
 * After anything happened: wait for its replies to be sent, and then for what its last turn has
 * left (conn.then); or close. Context: worker.
 */
void conn_settle(struct conn *c);

/*
 * Wait for this. One that is parked for the same already keeps its place; any other leaves its
 * list. Context: worker.
 */
void conn_enter(struct conn *c, enum conn_state state);

/* Leave the list that it is parked in, to be served; nothing happens if it is in none. */
void conn_unpark(struct conn *c);

/* Be the last of a list; of those that wait for a turn, or of its state. Context: worker. */
void conn_park(struct conn *c, enum conn_park where);

/* Begin to close; it is released in the close callback. Context: worker. */
void conn_close(struct conn *c);

/*
 * Release what it has, and close its socket, when its poll handle is none of a loop any more.
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
 * Wait for nothing any more: it is about to leave its worker. Where it goes, conn_settle() has
 * it wait again. Context: worker.
 */
void conn_leave_state(struct conn *c);

/*
 * Its login has begun or ended: give it a time limit, or take that away, and end it when it has
 * failed too often. Context: worker.
 */
void conn_note_login(struct conn *c);

/* Poll for these events of libuv; 0: none. Context: worker. */
void conn_arm(struct conn *c, int events);

#endif
