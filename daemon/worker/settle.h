/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages to all workers when the role of the server changes.
 */
#ifndef MAYFLY_DAEMON_WORKER_SETTLE_H
#define MAYFLY_DAEMON_WORKER_SETTLE_H

struct crew;

/*
 * Wait until every worker has ended the turns that it had begun before this call. One caller at
 * a time. Context: any thread but workers, while they run.
 */
void crew_settle(struct crew *crew);

/*
 * Close the connections of ordinary clients: not those of operators, of replicas and of those
 * that watch. Context: any thread but workers.
 */
void crew_close_clients(struct crew *crew);

#endif
