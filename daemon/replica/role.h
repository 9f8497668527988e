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
#include <stdint.h>

#include "daemon/replica/replication.h"

/* Are the items of a server in this state complete and consistent? [const] */
bool repl_is_consistent(enum repl_state state);

/* Set the gate by the state and replica_reads. Context: any thread, under the mutex. */
void role_set_gate(struct replication *r);

/* replication_enter() without waiting for turns. Context: main before the workers run. */
void role_set_state(struct replication *r, enum repl_state state, const char *why);

/*
 * Record changes from now on, if that has not started; goes_on: no item has changed since the
 * end of the backlog. False: no memory. Under `control`, outside a section.
 */
bool role_begin_recording(struct replication *r, bool goes_on);

/*
 * Stop recording; all changes until now are in the backlog. If nothing was recorded, or large
 * values were left out of the stream, the items have no history. The backlog has no readers.
 * Context: the thread.
 */
void role_end_recording(struct replication *r);

/*
 * Does this primary have more than its stream says: large values that were left out, of which
 * the stream says that they are gone? Context: the thread, or main without it.
 */
bool role_has_more(struct replication *r);

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
 * A handover was requested from this primary: hold changes, and wait until the replica has all
 * changes and was told to take over. Returns true if the options now make this server follow
 * it; changes stay held until failover_end(). Returns false if the failover has ended without
 * effect. Context: the thread.
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

/* ---- follower.c -------------------------------------------------------------------------- */

/*
 * A part of replication.h: the session with the primary, on the thread of the replication. It
 * connects, logs in, continues the stream or receives a full sync, and applies the stream until
 * the link is cut. The primary is given by the options `replicaof`, `replica_user` and others.
 */

/* NULL: no memory, or no descriptor. Context: main. */
struct follower *follower_create(struct replication *r);

/* Takes the address and nulls it; accepts NULL. Context: main, without the thread. */
void follower_destroy(struct follower **f);

/*
 * Read the options again. True: there is a server to follow. If it is another one, or
 * is_forced, the next session begins at once and accepts any epoch. Context: the thread, or
 * main before it runs.
 */
bool follower_retarget(struct follower *f, bool is_forced);
bool follower_has_target(const struct follower *f);

/* Do the options name another server, or another user or password? Context: any thread. */
bool follower_is_other(struct follower *f);

/* Interrupt waits for the link, and allow them again. Context: any thread. */
void follower_interrupt(struct follower *f);
void follower_resume_waits(struct follower *f);

/*
 * Run a session with the primary, unless it is too early for the next one. Returns the delay
 * until the next call, in milliseconds. Context: the thread.
 */
int64_t follower_run(struct follower *f);

/*
 * The items in the engine belong to this history, which an earlier process has followed.
 * Context: main, after follower_retarget().
 */
void follower_resume(struct follower *f, const struct replid *id);

/*
 * The items here equal those of the server that is followed next, and the epoch of that is
 * higher. Context: the thread.
 */
void follower_note_heard(struct follower *f);

/* The applier; valid while a full sync of this server is in progress. Context: any thread. */
const struct applier *follower_applier(const struct follower *f);

/* The name from which another process may continue. Context: main, after the thread. */
void follower_get_name(struct follower *f, struct backlog_name *name);

/*
 * Items of the primary that were too large for this server, or found no room. Context: the
 * thread, or one within a sync or under the follower's mutex, which the applier outlives.
 */
uint64_t follower_count_not_stored(const struct follower *f);

/*
 * follower_has_lost(): has this replica dropped items that its primary has, for lack of room,
 * since its last full sync? There is no record of such items. Context: any thread; the others:
 * the thread, or main without it.
 */
bool follower_has_lost(const struct follower *f);
void follower_begin_whole(struct follower *f); /* a full sync is complete, or begins */
void follower_note_lost(struct follower *f);   /* an earlier process or the primary has */

/*
 * Stop following, because this server is about to be a primary. Returns the highest cas that
 * was applied. Context: the thread.
 */
uint64_t follower_leave(struct follower *f);

/* The path of the primary: see REPL_PATH_BYTES. Context: any thread. */
void follower_path(struct follower *f, char path[REPL_PATH_REST]);

/* Fill in the follower's part. Context: any thread. */
void follower_look(struct follower *f, struct repl_info *info);

/* ---- waits.c ----------------------------------------------------------------------------- */

/*
 * A part of replication.h, for its own files: clients that wait for replicas, and the check
 * whether there are enough replicas.
 */

/* Does it read the stream, over a link that is not dead? Under the mutex. */
static inline bool replica_is_online(const struct replica *x)
{
    return x->reader != NULL && !x->is_superseded;
}

/* Answer those that have waited long enough. Under the mutex. */
void waits_check(struct replication *r);

/* Answer all, with the present numbers. Under the mutex. */
void waits_end(struct replication *r);

/*
 * Are there enough replicas for changes to be taken (min_replicas_to_write)? Sets the gate, at
 * a replica too, so that its promotion opens nothing. Under the mutex.
 */
void waits_check_few(struct replication *r);

#endif
