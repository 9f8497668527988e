/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Commands of replication: what a replica says over the link to its primary (psync, sync,
 * replconf), what an operator says (replicaof, promote, failover, role), and what clients do
 * (wait). See daemon/replica/replication.h.
 *
 *     psync VERSIONS EPOCH ID OFFSET RUN WHERE
 *         CONTINUE VERSION ID EPOCH OFFSET END TIME PATH SUM
 *         FULLSYNC VERSION ID EPOCH OFFSET END TIME PATH REASON SUM
 *         SERVER_ERROR REASON
 *     sync                after FULLSYNC: everything, see exec_export.h
 *         PART BYTES, the bytes, ..., END ITEMS ID EPOCH OFFSET SERVE_FROM LOST SUM
 *     replconf ack OFFSET  it has applied what is before there; what comes next is the answer,
 *                          as soon as there is something, or after a while without
 *         PART BYTES TIME END DUE_OFFSET DUE WALL SUM, the bytes
 *         HANDOVER         it has everything, and is the primary
 *     replconf failover OFFSET MS  the same, and it is to be handed over to within that time
 *
 * VERSIONS are those that the replica speaks, LEAST-MOST, and VERSION is the one that is spoken
 * (daemon/replica/repl_version.h). RUN names the process of the replica. WHERE is the address
 * at which it serves: HOST:PORT, or PORT alone for the host that the link comes from; 0: it
 * does not serve over TCP. ID is - for a replica that has nothing. LOST is 1 if items are
 * missing at the sender. TIME is the primary's clock, and DUE the time up to which what is due
 * is gone there by DUE_OFFSET, both on the scale of the stream. WALL is the wall clock of the
 * primary. PATH names the process of the primary and those that it follows. SUM is the XXH32 of
 * what precedes it on the line (lib/replica/sealed_line.h). Context of all functions: worker,
 * outside a section.
 */
#ifndef MAYFLY_DAEMON_COMMAND_EXEC_REPLICATION_H
#define MAYFLY_DAEMON_COMMAND_EXEC_REPLICATION_H

#include <stdbool.h>

#include "daemon/command/exec.h"

struct following;
struct shipper_reader;

/* The client's place, if it may be sent everything now; NULL: it has to say psync first. */
struct following *following_may_sync(const struct client *c);

/* It is sent everything from now on. */
void following_begin_sync(struct following *f);

/*
 * It was, or not: it continues by the reader, which is taken; NULL: there is none. c: its
 * client; NULL, or one that has said psync again: nobody needs the reader.
 */
void following_end_sync(struct client *c, struct following *f, struct shipper_reader *reader);

/* ---- candidate.c ------------------------------------------------------------------------- */

/*
 * A connection that came when all of -c was taken: nobody knows yet whether it is a replica's,
 * which has a place beyond -c. It may log in and say psync. Its first other command is answered
 * as memcached answers a connection beyond the limit, and so is one that says nothing in time.
 */

struct client;
struct worker;

/* Its origin is_beyond, and it begins. False: no memory. Context: worker. */
bool candidate_begin(struct client *c, struct worker *w);

#endif
