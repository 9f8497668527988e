/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Replication (daemon/worker/replication.h) as a part of start and stop. Context: main, unless
 * it says otherwise.
 */
#ifndef MAYFLY_DAEMON_SERVICE_REPLICATE_H
#define MAYFLY_DAEMON_SERVICE_REPLICATE_H

#include <stdbool.h>

#include "daemon/service/server.h"

/*
 * replication_start(). The history goes on if the items are as they were left; one of another
 * version of this program is not known here.
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
 * The server is about to stop: is a replica to be the primary first (failover_on_stop), or are
 * replicas to have everything, so that they go on with the next process (memory_file)? True:
 * when_over is called with the server, in main's loop, when that has ended. Once: a second
 * signal waits for nothing.
 */
bool replicate_hands_over(struct server *s, enum crew_stop how,
                          void (*when_over)(struct message *m, void *receiver));

#endif
