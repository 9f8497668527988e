/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A part of replication.h: the session with the primary, on the thread of the replication. It
 * connects, logs in, continues the stream or receives a full sync, and applies the stream until
 * the link is cut. The primary is given by the options `replicaof`, `replica_user` and others.
 */
#ifndef MAYFLY_DAEMON_REPLICA_FOLLOWER_H
#define MAYFLY_DAEMON_REPLICA_FOLLOWER_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/replica/replication.h"

struct applier;

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

/* The items here equal those of the server that is followed next. Context: the thread. */
void follower_note_heard(struct follower *f);

/* The applier; valid while a full sync of this server is in progress. Context: any thread. */
const struct applier *follower_applier(const struct follower *f);

/* The name from which another process may continue. Context: main, after the thread. */
void follower_get_name(struct follower *f, struct backlog_name *name);

/*
 * Items of the primary that were too large for this server, or found no room. Context: any
 * thread.
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

/* Fill in what is the follower's. Context: any thread. */
void follower_look(struct follower *f, struct repl_info *info);

#endif
