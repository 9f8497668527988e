/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A part of replication.h, for its own files: the state of the server, the gate that follows
 * from it, whether changes are recorded, and the readers of the backlog; failovers.
 *
 * Calls go one way: replication, replicas, follower, failover, role, waits.
 */
#ifndef MAYFLY_DAEMON_REPLICA_ROLE_H
#define MAYFLY_DAEMON_REPLICA_ROLE_H

#include <stdbool.h>

#include "daemon/replica/replication.h"

/* Are the items of a server in this state complete and consistent? [const] */
bool repl_is_consistent(enum repl_state state);

/* Set the gate by the state and replica_reads. Context: any thread, under the mutex. */
void role_set_gate(struct replication *r);

/* replication_enter() without waiting for turns. Context: main before the workers run. */
void role_set_state(struct replication *r, enum repl_state state, const char *why);

/*
 * Record changes from now on, if that has not begun; goes_on: nothing has changed since the end
 * of the backlog. False: no memory. Under `control`, outside a section.
 */
bool role_begin_recording(struct replication *r, bool goes_on);

/*
 * Stop recording; all changes until now are in the backlog. If nothing was recorded, the items
 * have no history. The backlog has no readers. Context: the thread.
 */
void role_end_recording(struct replication *r);

/* A shipper_config.on_more. */
void role_on_more(void *arg);

/*
 * End the full syncs of this replica; replicas that have a reader keep it. False: the server
 * stops, and one may still run. Context: the thread.
 */
bool role_drop_syncs(struct replication *r);

/* ---- failover.c -------------------------------------------------------------------------- */

/* Handing the primary's role over to a replica. */

/*
 * A primary is asked to hand over: hold changes, and wait until the replica has everything and
 * was told to take over. Returns true if the options now say that it is followed; changes stay
 * held until failover_end(). Returns false if the failover has ended without effect. Context:
 * the thread.
 */
bool failover_run(struct replication *r);

/*
 * The failover is over: answer the client that waits. why: NULL if it succeeded. Context: the
 * thread.
 */
void failover_end(struct replication *r, const char *why);

/* The state of the failover. Context: any thread, without the mutex. */
enum failover_state failover_state(struct replication *r);

/* The server stops. Context: the thread, at its end. */
void failover_stop(struct replication *r);

/* The replica has acknowledged more, or was detached. Under the mutex. */
void failover_note_ack(struct replication *r, const struct replica *x);
void failover_note_gone(struct replication *r, const struct replica *x);

#endif
