/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Commands of replication: those of a replica to its primary (psync, sync, replconf), of an
 * operator (replicaof, promote, failover, role), and of clients (wait). See
 * daemon/replica/replication.h.
 *
 *     psync VERSIONS EPOCH ID OFFSET RUN WHERE
 *         CONTINUE VERSION ID EPOCH OFFSET END TIME PATH SUM
 *         FULLSYNC VERSION ID EPOCH OFFSET END TIME PATH REASON SUM
 *         SERVER_ERROR REASON
 *     sync                after FULLSYNC: everything, see exec_export.h
 *         PART BYTES, the bytes, ..., END ITEMS ID EPOCH OFFSET SERVE_FROM LOST SUM
 *     replconf ack OFFSET  it has applied the stream up to there; the next bytes are the
 *                          answer, as soon as there are some, or none after a while
 *         PART BYTES TIME END DUE_OFFSET DUE WALL SUM, the bytes
 *         HANDOVER         the replica has everything, and is the primary now
 *     replconf failover OFFSET MS  the same, and request a handover within that time
 *
 * VERSIONS is the range LEAST-MOST of versions that the replica speaks, and VERSION the one
 * that is used (daemon/replica/repl_version.h). RUN names the process of the replica. WHERE is
 * the address at which it serves: HOST:PORT, or PORT alone for the host that the link comes
 * from; 0: it does not serve over TCP. ID is - for a replica that has nothing. LOST is 1 if
 * items are missing at the sender. TIME is the primary's clock. DUE is a time: items due by
 * then are gone at the primary at DUE_OFFSET. Both are on the scale of the stream. WALL is the
 * wall clock of the primary. PATH names the process of the primary and those that it follows.
 * SUM is the XXH32 of the preceding part of the line (lib/replica/sealed_line.h). Context of
 * all functions: worker, outside a section.
 */
#ifndef MAYFLY_DAEMON_COMMAND_EXEC_REPLICATION_H
#define MAYFLY_DAEMON_COMMAND_EXEC_REPLICATION_H

#include <stdbool.h>

#include "daemon/command/exec.h"

struct following;
struct shipper_reader;

/* The state of a replica that may start a full sync now; NULL: it has to send psync first. */
struct following *following_may_sync(const struct client *c);

/* Its full sync begins. */
void following_begin_sync(struct following *f);

/*
 * Its full sync has ended. The replica continues with the reader, of which this takes
 * ownership; NULL: the sync failed. c: its client. If that is NULL, or has sent psync again,
 * the reader is released.
 */
void following_end_sync(struct client *c, struct following *f, struct shipper_reader *reader);

/* ---- candidate.c ------------------------------------------------------------------------- */

/*
 * A connection that was accepted when the limit of -c was reached. It may be that of a replica,
 * for which there are places beyond -c: it may log in and send psync. If it sends any other
 * command, or nothing in time, it gets memcached's answer to a connection beyond the limit.
 */

struct client;
struct worker;

/* Begin a connection whose origin is_beyond. False: no memory. Context: worker. */
bool candidate_begin(struct client *c, struct worker *w);

#endif
