/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A part of replication.h, for its own files: handing the primary's role over to a replica.
 */
#ifndef MAYFLY_DAEMON_REPLICA_FAILOVER_H
#define MAYFLY_DAEMON_REPLICA_FAILOVER_H

#include <stdbool.h>

#include "daemon/replica/replication.h"

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

/* How far it is. Context: any thread, without the mutex. */
enum failover_state failover_state(struct replication *r);

/* The server stops. Context: the thread, at its end. */
void failover_stop(struct replication *r);

/* The replica has acknowledged more, or was detached. Under the mutex. */
void failover_note_ack(struct replication *r, const struct replica *x);
void failover_note_gone(struct replication *r, const struct replica *x);

#endif
