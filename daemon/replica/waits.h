/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A part of replication.h, for its own files: clients that wait for replicas, and the check
 * whether there are enough replicas.
 */
#ifndef MAYFLY_DAEMON_REPLICA_WAITS_H
#define MAYFLY_DAEMON_REPLICA_WAITS_H

#include <stdbool.h>

#include "daemon/replica/replication.h"

/* Does it read the stream, over a link that is not dead? Under the mutex. */
static inline bool replica_is_online(const struct replica *x)
{
    return x->reader != NULL && !x->is_superseded;
}

/* Answer those that have waited long enough. Under the mutex. */
void waits_check(struct replication *r);

/* Answer all, with what there is by now. Under the mutex. */
void waits_end(struct replication *r);

/*
 * Are there enough replicas for changes to be taken (min_replicas_to_write)? Sets the gate, at
 * a replica too, so that its promotion opens nothing. Under the mutex.
 */
void waits_check_few(struct replication *r);

#endif
