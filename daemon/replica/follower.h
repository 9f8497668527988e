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
 * Take the options as they are now. True: there is a server to follow; at once, and whatever
 * its epoch if it is another one. Context: the thread, or main before it.
 */
bool follower_retarget(struct follower *f, bool is_forced);
bool follower_has_target(const struct follower *f);

/* Do the options name another server, or other words to log in with? Context: any thread. */
bool follower_is_other(struct follower *f);

/* Interrupt waits for the link, and allow them again. Context: any thread. */
void follower_interrupt(struct follower *f);
void follower_resume_waits(struct follower *f);

/*
 * A session, unless it is too early for the next one. Returns after how many milliseconds it is
 * to be called again. Context: the thread.
 */
int64_t follower_run(struct follower *f);

/*
 * What is here is of this history, which an earlier process has followed. Context: main, after
 * follower_retarget().
 */
void follower_resume(struct follower *f, const struct replid *id);

/* What is here is what the server that is followed next has. Context: the thread. */
void follower_note_heard(struct follower *f);

/* While there is a full sync of this server under way. Context: any thread. */
const struct applier *follower_applier(const struct follower *f);

/* The name from which another process may continue. Context: main, after the thread. */
void follower_get_name(struct follower *f, struct backlog_name *name);

/*
 * Has this server dropped items that its primary has, for want of room, since it was whole?
 * What is dropped so has no record. Context: any thread; the others: the thread, or main
 * without it.
 */
bool follower_has_lost(const struct follower *f);
void follower_begin_whole(struct follower *f); /* it is complete, or about to be */
void follower_note_lost(struct follower *f);   /* a process before has, or its primary */

/*
 * It is followed no more, and this server is about to be a primary. Returns the highest cas
 * that was applied. Context: the thread.
 */
uint64_t follower_leave(struct follower *f);

/* The path of the primary: see REPL_PATH_BYTES. Context: any thread. */
void follower_path(struct follower *f, char path[REPL_PATH_REST]);

/* Fill in what is the follower's. Context: any thread. */
void follower_look(struct follower *f, struct repl_info *info);

#endif
