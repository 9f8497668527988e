/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Starting and stopping replication (daemon/replica/replication.h). Context: main, unless it
 * says otherwise.
 */
#ifndef MAYFLY_DAEMON_SERVICE_REPLICATE_H
#define MAYFLY_DAEMON_SERVICE_REPLICATE_H

#include <stdbool.h>

#include "daemon/service/server.h"

/*
 * replication_start(). The history continues if the items are those that were left with it. A
 * history that another version of this program left is unknown.
 */
int replicate_start(struct server *s);

/*
 * replication_stop(); the history is left in the file of items. False: what is here must be
 * neither left nor saved.
 */
bool replicate_stop(struct server *s);

/* Options have changed. Context: any thread. */
void replicate_on_options(struct crew *crew);

/*
 * The server is about to stop. Must a replica become the primary first (failover_on_stop), or
 * must replicas catch up, so that they can continue with the next process (memory_file)? If so,
 * returns true, and when_over is called with the server, in main's loop, when that has ended.
 * Only once: a second signal does not wait.
 */
bool replicate_hands_over(struct server *s, enum crew_stop how,
                          void (*when_over)(struct message *m, void *receiver));

#endif
